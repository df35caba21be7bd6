"""What must be true after whatever has happened: one function each, and each violation with the history that shows it.

Owns: the invariants. Does not own: the evidence (`Evidence`: the journal, and what the decisions service has stored).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from bench.reliability.state import Seen, State, admits, after, allocatable_milli, node_of
from scheduler.evaluate import CaseError, evaluate_lines

Json = dict[str, Any]

LAG_S: Final = 15.0  # how old the state that a decision was taken from may be: an outage, its pauses, a late watch


@dataclass
class Evidence:
    """What was seen, and what was recorded."""

    history: list[Seen]
    decisions: list[Json]
    incarnations: list[Json]
    record: Callable[[Json], Json]
    """The whole record of a decision."""
    attempts: Counter[str]
    """That the schedulers' logs speak of, by namespace/name."""
    kills: int = 0
    """By SIGKILL, of schedulers."""
    crashes: list[str] = field(default_factory=list)

    @cached_property
    def state(self) -> State:
        """The cluster in the end."""
        state = State()
        for seen in self.history:
            state.apply(seen)
        return state

    @cached_property
    def placements(self) -> dict[str, list[Json]]:
        """The decisions that chose a node, by pod UID."""
        found = defaultdict(list)
        for decision in self.decisions:
            if decision["status"]["node"]:
                found[decision["spec"]["pod"]["uid"]].append(decision)
        return found

    @cached_property
    def bindings(self) -> list[Seen]:
        """The change of each pod that first showed it on a node."""
        known: set[str] = set()
        found = []
        for seen in self.history:
            if seen.kind == "Pod" and node_of(seen.object) and seen.uid not in known:
                known.add(seen.uid)
                found.append(seen)
        return found

    def decision_of(self, binding: Seen) -> Json | None:
        """The decision behind a binding: the last one for that node that was begun before it was seen."""
        chosen = [d for d in self.placements[binding.uid] if d["status"]["node"] == node_of(binding.object)]
        return max(chosen, key=lambda d: str(d["spec"]["times"]["startedAt"]), default=None)

    def story(self, uid: str) -> str:
        """All that is known of a pod."""
        seen = [f"  seen {s}" for s in self.history if s.uid == uid]
        decided = [
            f"  decided {d['spec']['times']['startedAt']} attempt {d['spec']['key']['attempt']}"
            f" {d['status']['state']} on {d['status']['node']}: {d['status']['message']}"
            for d in sorted(self.decisions, key=lambda d: str(d["spec"]["times"]["startedAt"]))
            if d["spec"]["pod"]["uid"] == uid
        ]
        return "\n".join([*seen, *decided])

    def story_of_node(self, name: str) -> str:
        """All that happened to a node."""
        return "\n".join(f"  seen {s}" for s in self.history if s.kind == "Node" and s.name == name)


Invariant = Callable[[Evidence], Iterable[str]]


def no_process_crashed(evidence: Evidence) -> Iterator[str]:
    """A scheduler ends when it is told to, or when it has lost its Lease."""
    yield from evidence.crashes


def no_pod_is_bound_twice(evidence: Evidence) -> Iterator[str]:
    """Neither by what the API server showed, nor by what the schedulers say they did."""
    nodes = defaultdict(set)
    for seen in evidence.history:
        if seen.kind == "Pod" and node_of(seen.object):
            nodes[seen.uid].add(node_of(seen.object))
    bound = Counter(d["spec"]["pod"]["uid"] for d in evidence.decisions if d["status"]["state"] == "Bound")
    for uid in {u for u, names in nodes.items() if len(names) > 1} | {u for u, times in bound.items() if times > 1}:
        yield f"bound twice:\n{evidence.story(uid)}"


def no_node_is_overcommitted(evidence: Evidence) -> Iterator[str]:
    """At each binding there is room, by the largest size that the node had since the decision's state may be from."""
    began = {b.uid: _started(evidence.decision_of(b), b) for b in evidence.bindings}
    first = {b.uid: b.version for b in evidence.bindings}
    sizes: dict[str, list[tuple[float, int]]] = defaultdict(list)  # since when, cpu
    for seen, state in after(evidence.history):
        if seen.kind == "Node":
            if seen.type != "DELETED":
                sizes[seen.name].append((seen.at, allocatable_milli(seen.object)))
            continue
        if first.get(seen.uid) != seen.version or seen.type == "DELETED":
            continue
        name = node_of(seen.object)
        used, room = state.used_milli(name), _largest(sizes[name], began[seen.uid] - LAG_S)
        if used > room:
            there = [state.pods[uid]["metadata"]["name"] for uid in sorted(state.on_node[name])]
            yield (
                f"node {name} overcommitted: {used}m of {room}m with {seen.name}; on it {there}\n"
                f"{evidence.story(seen.uid)}\n{evidence.story_of_node(name)}"
            )


def no_pod_is_where_it_may_not_be(evidence: Evidence) -> Iterator[str]:
    """The node admitted the pod in some state that the decision may have been taken from."""
    nodes: dict[str, list[Seen]] = defaultdict(list)
    bindings = {b.uid: b for b in evidence.bindings}
    for seen, _ in after(evidence.history):
        if seen.kind == "Node":
            nodes[seen.name].append(seen)
        elif bindings.get(seen.uid) is seen:
            since = _started(evidence.decision_of(seen), seen) - LAG_S
            states = nodes[node_of(seen.object)]
            late = [s for s in states if s.at >= since]
            before = [s for s in states if s.at < since][-1:]
            if not any(admits(s.object, seen.object) for s in before + late):
                yield f"not admitted:\n{evidence.story(seen.uid)}\n{evidence.story_of_node(node_of(seen.object))}"


def every_bound_pod_has_its_decision(evidence: Evidence) -> Iterator[str]:
    """Stored, for that node."""
    for binding in evidence.bindings:
        if evidence.decision_of(binding) is None:
            yield f"bound without a stored decision:\n{evidence.story(binding.uid)}"


def no_pod_is_on_a_node_that_a_filter_rejected(evidence: Evidence) -> Iterator[str]:
    """By the stored record: the node was evaluated, and no filter spoke against it."""
    for binding in evidence.bindings:
        decision = evidence.decision_of(binding)
        if decision is None:
            continue  # another invariant's
        spec, node = evidence.record(decision)["spec"], node_of(binding.object)
        against = [f["plugin"] for f in spec["filters"] if node in f["rejected"]]
        if against or spec["evaluation"].get(node) not in ("evaluated", "Evaluated"):
            yield f"{node} was {spec['evaluation'].get(node)}, against it {against}:\n{evidence.story(binding.uid)}"


def no_schedulable_pod_is_pending(evidence: Evidence) -> Iterator[str]:
    """The engine finds no node for what still waits."""
    for pod in evidence.state.pending():
        if node := place_for(evidence.state, pod):
            yield f"pending, and fits on {node}:\n{evidence.story(pod['metadata']['uid'])}"


def every_attempt_is_stored_once(evidence: Evidence) -> Iterator[str]:
    """No record twice; nothing missing that no gap explains; and as many as the schedulers' logs speak of.

    A scheduler that was killed may have logged an attempt that it did not come to record.
    """
    twice = [name for name, times in Counter(d["metadata"]["name"] for d in evidence.decisions).items() if times > 1]
    if twice:
        yield f"stored twice: {twice}"
    gaps = 0
    for incarnation in evidence.incarnations:
        gaps += incarnation["explainedByGaps"]
        if incarnation["missing"] > incarnation["explainedByGaps"]:
            yield f"sequences missing without a gap: {incarnation}"
    logged, stored = evidence.attempts, Counter(_full_name(d) for d in evidence.decisions)
    if sum((logged - stored).values()) > evidence.kills + gaps:
        yield f"attempts logged, not stored ({evidence.kills} kills, {gaps} in gaps): {logged - stored}"
    if stored - logged:
        yield f"attempts stored, not logged: {stored - logged}"


INVARIANTS: Final[tuple[Invariant, ...]] = (
    no_process_crashed,
    no_pod_is_bound_twice,
    no_node_is_overcommitted,
    no_pod_is_where_it_may_not_be,
    every_bound_pod_has_its_decision,
    no_pod_is_on_a_node_that_a_filter_rejected,
    no_schedulable_pod_is_pending,
    every_attempt_is_stored_once,
)


def place_for(state: State, pod: Json) -> str:
    """Where the engine would place the pod without evicting anybody; "" where nowhere."""
    objects = [{"apiVersion": "v1", "kind": "Node", **n} for n in state.nodes.values()]
    objects += [{"apiVersion": "v1", "kind": "Pod", **p} for p in state.bound()]
    (answer,) = evaluate_lines([json.dumps({"id": pod["metadata"]["name"], "objects": objects, "pod": pod})], None)
    if isinstance(answer, CaseError):
        raise answer
    return str((answer["expect"]["feasible"] or [""])[0])


def _started(decision: Json | None, binding: Seen) -> float:
    return datetime.fromisoformat(decision["spec"]["times"]["startedAt"]).timestamp() if decision else binding.at


def _largest(sizes: list[tuple[float, int]], since: float) -> int:
    """The largest size that was in force at `since` or later."""
    before = [cpu for at, cpu in sizes if at < since][-1:]
    return max(before + [cpu for at, cpu in sizes if at >= since], default=0)


def _full_name(decision: Json) -> str:
    return f"{decision['metadata']['namespace']}/{decision['spec']['pod']['name']}"
