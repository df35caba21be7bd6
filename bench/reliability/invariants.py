"""The invariants after a run: one function each, which yields violations with the history that proves them.

Owns: the invariants. Does not own: the evidence (`Evidence`: the journal and the records of the decisions service).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from bench.reliability.journal import (
    CLAIM,
    ClusterHistory,
    ClusterModel,
    ObservedChange,
    admits,
    allocatable_milli,
    allocated_devices,
    gang_size,
    group_of,
    is_finished,
    node_of,
    replay_history,
    request_milli,
    reserving_pods,
)
from scheduler.live.unknown_bindings import DECISION_ANNOTATION
from scheduler.offline.evaluate import CaseError, evaluate_lines

Json = dict[str, Any]

LARGEST_NODE_MILLI: Final = 4000
DELETED: Final = "was deleted"  # in the outcome of a binding whose pod could not be read any more
LAG_S: Final = 15.0  # maximum age of the state behind a decision: an outage, retry pauses, a delayed watch


@dataclass
class Evidence:
    """What a run leaves behind: the observed history and the stored records."""

    history: list[ObservedChange]
    decisions: list[Json]
    incarnations: list[Json]
    record: Callable[[Json], Json]
    """Returns the complete record of a decision."""
    attempts: Counter[str]
    """Attempts in the schedulers' logs, by namespace/name."""
    attempts_before_kills: Counter[str] = field(default_factory=Counter)
    """Those of them that a scheduler made shortly before it was killed."""
    crashes: list[str] = field(default_factory=list)
    clocks_differ_s: float = 0.0
    """By how much the wall clocks of the schedulers may differ from that of the history."""
    unreported_losses: int = 0
    """The largest number of records that schedulers may have lost unreported because they were killed."""

    @cached_property
    def state(self) -> ClusterModel:
        """The cluster at the end."""
        state = ClusterModel()
        for seen in self.history:
            state.apply(seen)
        return state

    @cached_property
    def placements(self) -> dict[str, list[Json]]:
        """The decisions that chose a node, by pod UID."""
        placements = defaultdict(list)
        for decision in self.decisions:
            if decision["status"]["node"]:
                placements[decision["spec"]["pod"]["uid"]].append(decision)
        return placements

    @property
    def lost_records(self) -> int:
        """The largest number of records that may be lost: those that gaps explain, and those lost at a kill."""
        explained: int = sum(incarnation["explainedByGaps"] for incarnation in self.incarnations)
        return self.unreported_losses + explained

    @cached_property
    def bindings(self) -> list[ObservedChange]:
        """For each pod that was bound, the first observed change in which it has a node."""
        bound: set[str] = set()
        bindings = []
        for seen in self.history:
            if seen.kind == "Pod" and node_of(seen.object) and seen.uid not in bound:
                bound.add(seen.uid)
                bindings.append(seen)
        return bindings

    def decision_of(self, binding: ObservedChange) -> Json | None:
        """Return the decision that led to a binding: the pod's last one for the node that it is bound to, or None."""
        chosen = [d for d in self.placements[binding.uid] if d["status"]["node"] == node_of(binding.object)]
        return max(chosen, key=lambda d: str(d["spec"]["times"]["startedAt"]), default=None)

    def describe_pod(self, uid: str) -> str:
        """Return the whole history of a pod as text."""
        seen = [f"  seen {s}" for s in self.history if s.uid == uid]
        decided = [
            f"  decided {d['spec']['times']['startedAt']} attempt {d['spec']['key']['attempt']}"
            f" {d['status']['state']} on {d['status']['node']}: {d['status']['message']}"
            for d in sorted(self.decisions, key=lambda d: str(d["spec"]["times"]["startedAt"]))
            if d["spec"]["pod"]["uid"] == uid
        ]
        return "\n".join([*seen, *decided])

    def describe_node(self, name: str) -> str:
        """Return the whole history of a node as text."""
        return "\n".join(f"  seen {s}" for s in self.history if s.kind == "Node" and s.name == name)


Invariant = Callable[[Evidence], Iterable[str]]
BindingInvariant = Callable[[ObservedChange, ClusterHistory, float], Iterable[str]]
"""An invariant of one binding, judged by the history up to it, and by the states of nodes since a time."""


def pod_is_bound_once(binding: ObservedChange, past: ClusterHistory, since: float) -> Iterator[str]:
    """Yield a message if the pod was on another node before."""
    nodes = past.nodes_of_pods[binding.uid]
    if len(nodes) > 1:
        yield f"{binding.name} is bound to {' and then to '.join(nodes)}"


def node_has_room(binding: ObservedChange, past: ClusterHistory, since: float) -> Iterator[str]:
    """Yield a message if the pods on the node request more cpu than the largest size that it had since then."""
    name = node_of(binding.object)
    sizes = [(s.at, allocatable_milli(s.object)) for s in past.node_states.get(name, ()) if s.type != "DELETED"]
    used, room = past.state.used_milli(name), _largest(sizes, since)
    if used > room:
        there = [past.state.pods[uid]["metadata"]["name"] for uid in sorted(past.state.on_node[name])]
        yield f"node {name} overcommitted: {used}m of {room}m with {binding.name}; on it {there}"


def node_admits_pod(binding: ObservedChange, past: ClusterHistory, since: float) -> Iterator[str]:
    """Yield a message if the node admitted the pod in no state since then."""
    states = past.node_states.get(node_of(binding.object), [])
    late = [s for s in states if s.at >= since]
    before = [s for s in states if s.at < since][-1:]
    if not any(admits(s.object, binding.object) for s in before + late):
        yield f"node {node_of(binding.object)} does not admit {binding.name}"


def gang_was_placed_in_full(binding: ObservedChange, past: ClusterHistory, since: float) -> Iterator[str]:
    """Yield a message if the pod's group never had as many pods since then as must be placed at once.

    A pod that requests more than any node has counts as none.
    """
    size, group = gang_size(binding.object), group_of(binding.object)
    if not size:
        return
    pods = [*past.state.pods.values(), *(seen.object for seen in past.deleted_pods if seen.at >= since)]
    placeable = [p for p in pods if group_of(p) == group and (node_of(p) or request_milli(p) <= LARGEST_NODE_MILLI)]
    if len(placeable) < size:
        yield f"{binding.name} is bound, and its group has {len(placeable)} pods of {size} that can be placed"


BINDING_INVARIANTS: Final[tuple[BindingInvariant, ...]] = (
    pod_is_bound_once,
    node_has_room,
    node_admits_pod,
    gang_was_placed_in_full,
)


def no_process_crashed(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each scheduler that ended other than by a signal or after losing its Lease."""
    yield from evidence.crashes


def no_pod_is_bound_twice(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each pod that is bound twice, in the API server or in the records."""
    yield from _check_bindings(evidence, pod_is_bound_once)
    bound = Counter(d["spec"]["pod"]["uid"] for d in evidence.decisions if d["status"]["state"] == "Bound")
    for uid in (u for u, times in bound.items() if times > 1):
        yield f"two decisions are Bound:\n{evidence.describe_pod(uid)}"


def every_record_agrees_with_the_api_server(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each pod or decision whose records contradict the API server.

    A bound pod must have one Bound decision, the one in its annotation, and an unbound pod none. No decision may be
    open. A pod that is deleted before its unanswered binding can be read needs no Bound decision. Instead an outcome of
    the decision for its node names the deletion. There may be as many such pods as lost records.
    """
    contradictions = list(_find_contradictions(evidence))
    if len({uid for uid, _ in contradictions}) > evidence.lost_records:
        yield from (text for _, text in contradictions)


def _find_contradictions(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the UID of each pod whose records contradict the API server, and how."""
    bound = {b.uid: b.object for b in evidence.bindings}
    for uid, decisions in evidence.placements.items():
        claims = [d for d in decisions if d["status"]["state"] == "Bound"]
        exists = uid in evidence.state.pods
        if any(d["status"]["state"] == "Binding" for d in decisions):
            yield uid, f"a decision is left open:\n{evidence.describe_pod(uid)}"
        if uid in bound and (claims or exists):
            node, mark = node_of(bound[uid]), (bound[uid]["metadata"].get("annotations") or {}).get(DECISION_ANNOTATION)
            if [d["status"]["node"] for d in claims] != [node] or (mark and claims[0]["metadata"]["name"] != mark):
                story = evidence.describe_pod(uid)
                yield uid, f"bound to {node} by decision {mark}, but the record disagrees:\n{story}"
        elif uid in bound:
            node = node_of(bound[uid])
            if not any(d["status"]["node"] == node and _names_deletion(evidence.record(d)) for d in decisions):
                story = evidence.describe_pod(uid)
                yield uid, f"bound to {node} and deleted; no decision is Bound or names the deletion:\n{story}"
        elif claims and exists:
            yield uid, f"not bound, but the record has a Bound decision:\n{evidence.describe_pod(uid)}"


def no_decision_has_two_outcomes(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each decision with two final outcomes."""
    for decision in (d for decisions in evidence.placements.values() for d in decisions):
        final = [o for o in evidence.record(decision)["status"]["outcomes"] if o["final"]]
        if len(final) > 1:
            name, uid = decision["metadata"]["name"], decision["spec"]["pod"]["uid"]
            yield f"{name} ended twice: {final}\n{evidence.describe_pod(uid)}"


def no_node_is_overcommitted(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each binding after which the pods on a node request more cpu than it had recently.

    The node's largest size since LAG_S seconds before the pod's decision counts.
    """
    yield from _check_bindings(evidence, node_has_room)


def no_pod_is_on_a_node_that_does_not_admit_it(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each bound pod that its node admitted in no state on which its decision may be based."""
    yield from _check_bindings(evidence, node_admits_pod)


def every_bound_pod_has_its_decision(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each bound pod without a stored decision for its node, if not as many records are lost."""
    missing = [binding for binding in evidence.bindings if evidence.decision_of(binding) is None]
    if len(missing) > evidence.lost_records:
        for binding in missing:
            yield f"bound without a stored decision:\n{evidence.describe_pod(binding.uid)}"


def no_pod_is_on_a_node_that_a_filter_rejected(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each bound pod whose node, by its record, was not evaluated or was rejected by a filter."""
    for binding in evidence.bindings:
        decision = evidence.decision_of(binding)
        if decision is None:
            continue  # Another invariant reports this.
        spec, node = evidence.record(decision)["spec"], node_of(binding.object)
        rejecting = [f["plugin"] for f in spec["filters"] if node in f["rejected"]]
        if rejecting or spec["evaluation"].get(node) not in ("evaluated", "Evaluated"):
            story = evidence.describe_pod(binding.uid)
            yield f"{node} was {spec['evaluation'].get(node)}, rejected by {rejecting}:\n{story}"


def no_device_is_allocated_twice(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each device that two claims have at the same moment."""
    reported: set[tuple[str, str, str]] = set()
    for seen, state in replay_history(evidence.history):
        if seen.kind != CLAIM or seen.type == "DELETED":
            continue
        for device in allocated_devices(seen.object):
            users = sorted(c["metadata"]["name"] for c in state.claims if device in allocated_devices(c))
            if len(users) > 1 and device not in reported:
                reported.add(device)
                story = "\n".join(f"  seen {s}" for s in evidence.history if s.kind == CLAIM and s.name in users)
                yield f"{'/'.join(device)} is allocated to {', '.join(users)}:\n{story}"


def no_claim_is_reserved_for_a_deleted_pod(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each reservation that is for a deleted pod at the end.

    Also yield one for each bound pod that has resource claims and no reservation.
    """
    state = evidence.state
    for claim in state.claims:
        for uid in set(reserving_pods(claim)) - state.pods.keys():
            yield f"claim {claim['metadata']['name']} is reserved for {uid}:\n{evidence.describe_pod(uid)}"
    reserved = {uid for claim in state.claims for uid in reserving_pods(claim)}
    for pod in state.bound():
        if pod["spec"].get("resourceClaims") and not is_finished(pod) and pod["metadata"]["uid"] not in reserved:
            yield f"bound without its claim:\n{evidence.describe_pod(pod['metadata']['uid'])}"


def no_schedulable_pod_is_pending(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each pod that is still pending although the engine finds a feasible node for it."""
    for pod in evidence.state.pending():
        if node := find_feasible_node(evidence.state, pod):
            yield f"pending, and fits on {node}:\n{evidence.describe_pod(pod['metadata']['uid'])}"


def no_gang_is_bound_in_part(evidence: Evidence) -> Iterator[str]:
    """Yield a message for each group of which a part waits at the end, although the engine finds a node for it."""
    yield from find_partial_gangs(evidence.state)


def find_partial_gangs(state: ClusterModel) -> Iterator[str]:
    """Yield a message for each complete group with bound pods of which a part waits although each pod has a node."""
    for group, pods in state.gangs().items():
        waiting = [p for p in pods if not node_of(p) and not p["spec"].get("schedulingGates")]
        if len(pods) < gang_size(pods[0]) or not waiting or all(not node_of(p) for p in pods):
            continue
        if all(find_feasible_node(state, p) for p in waiting):
            yield f"{len(waiting)} of {len(pods)} pods of {group} wait, and fit"


def every_attempt_is_stored_once(evidence: Evidence) -> Iterator[str]:
    """Yield a message if records are stored twice or missing without a gap, or if attempts differ from the logs.

    Equal attempts within a second are counted on one record. A scheduler that is killed within that second has logged
    attempts that it did not count.
    """
    twice = [name for name, times in Counter(d["metadata"]["name"] for d in evidence.decisions).items() if times > 1]
    if twice:
        yield f"stored twice: {twice}"
    lost = 0
    for incarnation in evidence.incarnations:
        lost += incarnation["explainedByGaps"] + incarnation["missing"]
        if incarnation["missing"] > evidence.unreported_losses:
            yield f"sequences missing without a gap: {incarnation}"
    logged, stored = evidence.attempts, Counter(_full_name(d) for d in evidence.decisions)
    repeated = logged - stored  # reading a record takes far more time than counting it
    for decision in (d for d in evidence.decisions if _full_name(d) in repeated):
        outcomes = evidence.record(decision)["status"]["outcomes"]
        stored[_full_name(decision)] += sum(outcome.get("repeats", 0) for outcome in outcomes)
    missing = logged - stored - evidence.attempts_before_kills
    if len(missing) > lost:  # of pods, as a lost count of repeats is one record for several attempts
        yield f"attempts logged, not stored ({lost} known to be lost): {missing}"
    if stored - logged:
        yield f"attempts stored, not logged: {stored - logged}"


INVARIANTS: Final[tuple[Invariant, ...]] = (
    no_process_crashed,
    no_pod_is_bound_twice,
    every_record_agrees_with_the_api_server,
    no_decision_has_two_outcomes,
    no_node_is_overcommitted,
    no_pod_is_on_a_node_that_does_not_admit_it,
    every_bound_pod_has_its_decision,
    no_pod_is_on_a_node_that_a_filter_rejected,
    no_device_is_allocated_twice,
    no_claim_is_reserved_for_a_deleted_pod,
    no_schedulable_pod_is_pending,
    no_gang_is_bound_in_part,
    every_attempt_is_stored_once,
)


def find_feasible_node(state: ClusterModel, pod: Json) -> str:
    """Return the node that the engine would choose without preemption, "" if none is feasible.

    Most pods that wait lack cpu everywhere, which is found without the engine.
    """
    free = {name: allocatable_milli(node) - state.used_milli(name) for name, node in state.nodes.items()}
    if not any(free[name] >= request_milli(pod) and admits(node, pod) for name, node in state.nodes.items()):
        return ""
    objects = [{"apiVersion": "v1", "kind": "Node", **n} for n in state.nodes.values()]
    objects += [{"apiVersion": "v1", "kind": "Pod", **p} for p in state.bound()]
    objects += [{"kind": kind, **each} for kind, by_uid in state.devices.items() for each in by_uid.values()]
    (answer,) = evaluate_lines([json.dumps({"id": pod["metadata"]["name"], "objects": objects, "pod": pod})], None)
    if isinstance(answer, CaseError):
        raise answer
    return str((answer["expect"]["feasible"] or [""])[0])


def _check_bindings(evidence: Evidence, check: BindingInvariant) -> Iterator[str]:
    """Yield a message with the history of pod and node for each binding that violates an invariant.

    A decision may be based on states up to LAG_S seconds before it.
    """
    past, lag_s = ClusterHistory(), LAG_S + evidence.clocks_differ_s
    for seen in evidence.history:
        if past.apply(seen):
            for violation in check(seen, past, _started(evidence.decision_of(seen), seen) - lag_s):
                yield f"{violation}\n{evidence.describe_pod(seen.uid)}\n{evidence.describe_node(node_of(seen.object))}"


def _started(decision: Json | None, binding: ObservedChange) -> float:
    return datetime.fromisoformat(decision["spec"]["times"]["startedAt"]).timestamp() if decision else binding.at


def _largest(sizes: list[tuple[float, int]], since: float) -> int:
    """Return the largest size that was valid at the time `since` or later, 0 if there is none.

    `sizes` holds the time from which each size was valid, in order.
    """
    before = [cpu for at, cpu in sizes if at < since][-1:]
    return max(before + [cpu for at, cpu in sizes if at >= since], default=0)


def _names_deletion(record: Json) -> bool:
    """Return whether an outcome of the record says that the pod was deleted."""
    return any(DELETED in o["message"] for o in record["status"]["outcomes"])


def _full_name(decision: Json) -> str:
    return f"{decision['metadata']['namespace']}/{decision['spec']['pod']['name']}"
