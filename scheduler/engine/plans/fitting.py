"""Plans after which pods fit: the targets, the candidates of each kind, the search, and the steps with their commands.

Owns: which pods are meant, which changes are candidates, the time of each kind, the commands. Does not own: the search
(`search`), the proof (`verification`), the types of the answer (`herodotus_answers.plans`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
import numpy as np

from herodotus_answers.cluster_questions import PlanQuestion
from herodotus_answers.plans import (
    CHANGE,
    FIT,
    KINDS,
    MIXED,
    NO_PLAN,
    NOTHING_TO_DO,
    PLANNED,
    PREEMPTING,
    Plan,
    PlanBound,
    PlanDisruption,
    PlanReview,
    PlansOfKind,
    PlanStep,
)
from herodotus_answers.suggestions import SuggestedChange, build_suggestion
from herodotus_record.model import Reason, Suggestion
from herodotus_record.templates import parse_pod_template
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group
from scheduler.engine.plans.changes import Change
from scheduler.engine.plans.counting_proof import fit_in_any_order
from scheduler.engine.plans.fixes import SuggestedFix, list_fixes
from scheduler.engine.plans.goals import Goal
from scheduler.engine.plans.lower_requests import LowerRequest, find_lower_requests
from scheduler.engine.plans.movable import IMPOSSIBLE, MAY_MOVE, find_hindrance
from scheduler.engine.plans.new_nodes import NodesSearch
from scheduler.engine.plans.search import NOT_PROVEN, Bound, FoundPlan, PlanSearch, SearchResult
from scheduler.engine.plans.time_limit import TimeOverError
from scheduler.engine.plans.verification import (
    ADD_NODES,
    CORDON,
    CREATE,
    MOVE,
    SCALE_DOWN,
    UNCORDON,
    PlannedStep,
    Proof,
    UnprovenError,
    Verification,
)
from scheduler.engine.plans.world import World
from scheduler.engine.records.build import pod_info
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.owners import DEPLOYMENT, REPLICA_SET, find_workload
from scheduler.engine.whatif.pods import PriorityClass, build_pods
from scheduler.engine.whatif.simulation import WhatIfState

MAX_TARGETS: Final = 100
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_NAMES: Final = {DEPLOYMENT: "deployment", REPLICA_SET: "replicaset"}
_REPLACING: Final = (DEPLOYMENT, "StatefulSet", "DaemonSet")  # replace all pods when their template changes
# What keeps pods from being moved, as a clause after their number.
_LEFT_ALONE: Final = {
    "NoController": "have no controller that makes them anew",
    "Job": "belong to Jobs, which count a deleted pod as failed",
    "OtherController": "belong to controllers of a kind that is not known here",
    "PodGroup": "belong to pod groups",
    "DoNotDisrupt": "have an annotation that forbids it",
    "NotReady": "are not Ready",
}


class PlanError(ValueError):
    """A question for a plan that makes no sense in this cluster. The message names the object."""


class Targets(NamedTuple):
    """The pods that are to fit. `min_count` is the quorum of a pod group, 0 for pods that are independent."""

    pods: list[PodInfo]
    exist: bool
    min_count: int = 0


def find_targets(
    state: WhatIfState, question: PlanQuestion, classes: dict[str, PriorityClass] | None, scheduler: str
) -> Targets:
    """Return the pods that the question is about. Raises PlanError if there are none, or if they cannot be planned."""
    if question.object is not None:
        template = parse_pod_template(question.object)
        count = template.replicas if question.replicas is None else question.replicas
        if not 1 <= count <= MAX_TARGETS:
            raise PlanError(f"replicas: expected 1 to {MAX_TARGETS}, got {count}")
        namespace = template.namespace or question.namespace
        built = build_pods(template, namespace, template.scheduler or scheduler, count, classes)
        ensure(built.controller, state.objects)
        pods = [_rename(pod, number) for number, pod in enumerate(built.pods)]
        return Targets(pods, False)
    waiting = state.list_waiting()
    namespace = question.namespace or "default"
    min_count = 0
    if question.pod_group:
        key = PodGroupKey(namespace, question.pod_group)
        group = find_pod_group(state.objects, key)
        if group is None:
            raise PlanError(f'podgroups "{question.pod_group}" not found in namespace {namespace}')
        if group.topology_key is not None:
            raise PlanError(f"podgroups {key}: a group with a topology constraint is not planned")
        found = [pod for pod in waiting if pod.pod_group == key]
        scheduled = sum(pod.pod_group == key for pods in state.nodes.pods for pod in pods.values())
        min_count, what = max(0, group.min_count - scheduled), f"podgroup {key}"
        if found and len(found) < min_count:
            raise PlanError(f"{what} needs {min_count} more pods, and {len(found)} wait for a node")
    elif question.workload:
        what = f"{namespace}/{question.workload}"
        found = [
            pod
            for pod in waiting
            if pod.namespace == namespace and str(find_workload(pod.pod, state.objects)) == question.workload
        ]
    else:
        by_name = {pod.full_name: pod for pod in waiting}
        missing = [name for name in question.pods if name not in by_name]
        if missing:
            on_nodes = {pod.full_name for pods in state.nodes.pods for pod in pods.values()}
            pending = {PodInfo(pod).full_name for pod in state.pending}
            if missing[0] not in on_nodes | pending:
                raise PlanError(f'pods "{missing[0]}" not found')
            raise PlanError(f"pod {missing[0]} does not wait for a node")
        found, what = [by_name[name] for name in dict.fromkeys(question.pods)], "pods"
    if not found:
        raise PlanError(f"{what}: no pod waits for a node")
    if len(found) > MAX_TARGETS:
        raise PlanError(f"{what}: {len(found)} pods wait for a node; a plan is made for {MAX_TARGETS} at most")
    grouped = {pod.pod_group for pod in found if pod.pod_group is not None}
    if grouped and not question.pod_group:
        raise PlanError(f"the pods belong to podgroup {min(grouped)}: ask about the group")
    return Targets(found, True, min_count)


def _rename(pod: PodInfo, number: int) -> PodInfo:
    metadata = msgspec.structs.replace(pod.pod.metadata, uid=f"plan/{number}/{pod.name}")
    return PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata))


class Planner:
    """The plans for one question."""

    def __init__(
        self,
        state: WhatIfState,
        question: PlanQuestion,
        targets: Targets,
        world: World,
        goal: Goal | None = None,
    ) -> None:
        """`world` is the copy of the state. `goal` says how it should be after a plan, beside the targets."""
        self._question, self._targets, self._limit = question, targets, world.limit
        self.world, self._goal = world, goal
        own = {pod.uid for pod in targets.pods}
        self._others = [pod for pod in state.list_waiting() if pod.uid not in own]
        self._budgets = state.build_budgets()
        is_reached = None if goal is None else goal.is_reached
        self._verification = Verification(
            self.world, targets.pods, self._others, min_targets=targets.min_count, goal=is_reached
        )
        self._workloads: dict[str, list[PodInfo]] = {}
        self._last_resorts = set[str]()  # kinds whose best plan is no advice as long as another one exists

    def answer(self) -> tuple[PlanReview, list[str]]:
        """Return the review and notes."""
        try:
            present = self._decide_present()
        except TimeOverError:
            present = ""
        notes: list[str] = []
        kinds: list[PlansOfKind] = []
        if not present:
            candidates, left_alone = self._list_changes()
            ending = sum(pod.terminating for pods in self.world.nodes.pods for pod in pods.values())
            notes += [f"{ending} pods are being deleted: plans take them as staying"] if ending else []
            notes += [f"{count} pods are not moved: they {_LEFT_ALONE[why]}" for why, count in left_alone.items()]
            kinds = self._search(candidates)
            found = [kind for kind in kinds if kind["plans"]]
            kinds = [
                *sorted(found, key=self._rank_kind),
                *(kind for kind in kinds if not kind["plans"]),
            ]
            present = PLANNED if found else NO_PLAN
        return self._build_review(FIT, present, kinds), notes

    def answer_moves(self, changes: Sequence[Change], goal: str) -> PlanReview:
        """Return the review of plans that consist of these changes only."""
        search = self._new_search(changes)
        self._search_in_turns([search])
        of_kind = self._build_kind("move", search.result)
        return self._build_review(goal, PLANNED if of_kind["plans"] else NO_PLAN, [of_kind])

    def _build_review(self, goal: str, verdict: str, kinds: list[PlansOfKind]) -> PlanReview:
        return {
            "goal": goal,
            "verdict": verdict,
            "pods": len(self._targets.pods),
            "maxChanges": self._question.max_changes,
            "kinds": kinds,
            "drain": None,
            "spread": [],
            "decided": self.world.decided,
            "seconds": round(self._limit.elapsed_s, 3),
            "timeLimitSeconds": self._question.time_limit_seconds,
            "endedBy": self._limit.ended,
        }

    def _decide_present(self) -> str:
        """Return NOTHING_TO_DO or PREEMPTING if the targets need no plan, else ""."""
        if self._new_search().fits() and self._hold_now():
            return NOTHING_TO_DO
        return PREEMPTING if self._preempt_now() else ""

    def _hold_now(self) -> bool:
        """Return whether the targets, which fit in one order, get nodes in every order and by every draw.

        Where there are too many, pods that are alike fit in any order if no other waiting pod gets a node.
        """
        try:
            return self._verification.run([] if self._targets.exist else [PlannedStep(CREATE)]).failure is None
        except UnprovenError:
            return fit_in_any_order(self.world, self._verification)

    def _preempt_now(self) -> bool:
        """Return whether all targets get nodes one after the other, and at least one of them by preemption."""
        preempting = False
        with self.world.tried():
            for pod in self._targets.pods:
                draws = self.world.find_draws(pod)
                if draws.result is None or not (draws.slots or draws.preempts):
                    return False
                if draws.slots:
                    self.world.place(pod, self.world.nodes.names[draws.slots[0]], draws.result.state)
                    continue
                preempting = True
                preemption = draws.result.trace.preemption
                assert preemption is not None
                node = preemption.nominated_node
                victims = next(each.victims for each in preemption.candidates if each.node == node)
                slot = self.world.nodes.index[node]
                for victim in [each for each in self.world.nodes.pods[slot].values() if each.full_name in victims]:
                    self.world.remove(victim, node)
                mask, state = self.world.find_feasible(pod)
                if not mask[slot]:
                    return False
                self.world.place(pod, node, state)
        return preempting

    def _new_search(self, changes: Sequence[Change] = (), most: int = 0) -> PlanSearch:
        """Return a search for plans of at most `most` of these changes, by default as many as a plan may have."""
        return PlanSearch(
            self.world,
            self._targets.pods,
            self._verification,
            self._budgets,
            changes,
            most or self._question.max_changes,
            exist=self._targets.exist,
            min_targets=self._targets.min_count,
            goal=self._goal,
        )

    def _new_nodes_search(self, cordoned: Sequence[Change]) -> NodesSearch:
        return NodesSearch(
            self.world,
            self._targets.pods,
            self._verification,
            self._new_search(cordoned),
            self._question.max_changes,
            exist=self._targets.exist,
        )

    # --- candidates -------------------------------------------------------------------------------------------------

    def _list_changes(self) -> tuple[dict[str, list[Change]], Counter[str]]:
        """Return the candidates by kind, and how many pods are not moved by the reason."""
        nodes, moves, evictions, left_alone = self.world.nodes, list[Change](), list[Change](), Counter[str]()
        lowest = min(pod.priority for pod in self._targets.pods)
        for slot in np.flatnonzero(nodes.live[: nodes.slots]).tolist():
            for pod in nodes.pods[slot].values():
                why = find_hindrance(pod)
                if why in _LEFT_ALONE:
                    left_alone[why] += 1
                if why != MAY_MOVE or self._budgets.find_refusal(pod.pod) is not None:
                    continue
                moves.append(Change(MOVE, nodes.names[slot], pod))
                if pod.priority < lowest and self._can_scale_down(pod):
                    evictions.append(Change(SCALE_DOWN, nodes.names[slot], pod))
        cordoned = [
            Change(UNCORDON, node.metadata.name) for node in nodes.nodes if node is not None and node.spec.unschedulable
        ]
        for changes in (moves, evictions):
            changes.sort(key=lambda change: change.pod is not None and self._rank(change.pod))
        return {"move": moves, "scale-down": evictions, "nodes": cordoned}, left_alone

    def _rank(self, pod: PodInfo) -> tuple[int, bool, int, str]:
        """Return the sort key of a pod that may move: whose move disturbs least comes first."""
        return pod.priority, self._budgets.has_budget(pod.pod), len(pod.claims), pod.full_name

    def _can_scale_down(self, pod: PodInfo) -> bool:
        """Return whether the pod's workload can be scaled down such that this pod ends.

        It is so if a ReplicaSet owns it and all pods of the workload are of that ReplicaSet and Ready: then the
        annotation pod-deletion-cost decides.
        """
        owner = pod.pod.metadata.controller
        if owner is None or owner.kind != REPLICA_SET:
            return False
        workload = find_workload(pod.pod, self.world.objects)
        if workload is None or workload.kind not in _NAMES:  # a controller such as Rollout sets the number of pods
            return False
        pods = self._list_workload(pod)
        return all(
            find_hindrance(each) == MAY_MOVE
            and (of := each.pod.metadata.controller) is not None
            and of.name == owner.name
            for each in pods
        )

    def _list_workload(self, pod: PodInfo) -> list[PodInfo]:
        """Return all pods of the pod's workload, also those without a node."""
        if not self._workloads:
            every = [
                *(each for pods in self.world.nodes.pods for each in pods.values()),
                *self._targets.pods,
                *self._others,
            ]
            for each in every:
                self._workloads.setdefault(self._name_workload(each), []).append(each)
        return self._workloads[self._name_workload(pod)]

    def _name_workload(self, pod: PodInfo) -> str:
        return f"{pod.namespace}/{find_workload(pod.pod, self.world.objects) or pod.full_name}"

    # --- searching --------------------------------------------------------------------------------------------------

    def _search(self, candidates: dict[str, list[Change]]) -> list[PlansOfKind]:
        """Return the plans of each kind of the question, and of all kinds together if that may be smaller.

        Each kind gets its first plans before the time is spent on smaller ones.
        """
        asked = self._question.kinds or KINDS
        wanted = [kind for kind in ("nodes", "request", "move", "scale-down") if kind in asked]
        searched = [kind for kind in wanted if kind != "request"]
        several = sum(bool(candidates[kind]) for kind in searched) > 1
        fixes = self._list_fixes() if CHANGE in asked else []
        lowered = [self._lower_requests()] if "request" in asked else []
        searches: dict[str, PlanSearch | NodesSearch] = {
            kind: self._new_search(candidates[kind]) if kind != "nodes" else self._new_nodes_search(candidates[kind])
            for kind in searched
        }
        self._search_in_turns([*searches.values()], shares=1 + several)
        results = [self._build_kind(kind, searches[kind].result) for kind in searched] + lowered
        if CHANGE in asked:
            planned = {each["kind"] for each in results if each["plans"]}
            left = [fix for fix in fixes if not _is_of_other_kind(fix, planned)]
            if left or not fixes:
                results.insert(0, self._try_fixes(left))
        together = [change for kind in ("move", "nodes", "scale-down") if kind in wanted for change in candidates[kind]]
        fewest = min((plan["changes"] for each in results for plan in each["plans"]), default=IMPOSSIBLE)
        if several and fewest > 2:
            mixed = self._new_search(together, min(self._question.max_changes, fewest - 1))
            self._search_in_turns([mixed])
            results.append(self._build_kind(MIXED, mixed.result))
        return results

    def _search_in_turns(self, searches: Sequence[PlanSearch | NodesSearch], shares: int = 1) -> None:
        """Let each search find plans, and then improve them, in one of so many shares of the time that is left."""
        turns = [*(each.find for each in searches), *(each.improve for each in searches)]
        with self._limit.share(1 / shares):
            for number, turn in enumerate(turns):
                with self._limit.share(1 / (len(turns) - number)):
                    turn()

    def _build_kind(self, kind: str, result: SearchResult) -> PlansOfKind:
        plans = sorted((self._build_plan(found, result.size) for found in result.plans), key=_cost)
        return {"kind": kind, "plans": plans, "bound": _bound(result.bound), "failures": dict(result.failures)}

    def _rank_kind(self, kind: PlansOfKind) -> tuple[object, ...]:
        """Return the sort key of a kind's plans, in the order of suggestions: a lower request, then new nodes last."""
        plan = kind["plans"][0]
        adds_nodes = plan["disruption"]["newNodes"] > 0
        return kind["kind"] in self._last_resorts, adds_nodes, kind["kind"] == "request", plan["changes"], _cost(plan)

    def _lower_requests(self) -> PlansOfKind:
        """Return plans that lower one request of the pods so far that they fit."""
        plans, failures = list[Plan](), Counter[str]()
        reason = "only one request was lowered at a time, and nothing else with it"
        try:
            self._try_lower_requests(plans, failures)
        except TimeOverError as e:
            reason = str(e)
        bound = Bound("Exhaustive", 1, 1)
        if not plans:
            bound = Bound(NOT_PROVEN, self._question.max_changes, len(self._targets.pods[0].requests), reason)
        return {"kind": "request", "plans": plans, "bound": _bound(bound), "failures": dict(failures)}

    def _try_lower_requests(self, plans: list[Plan], failures: Counter[str]) -> None:
        """Add the plans that hold, and what went wrong with others."""
        for lowered in find_lower_requests(self.world, self._targets.pods):
            proof = self._prove_changed(lowered.pods, failures)
            if proof is None:
                continue
            steps = self._list_steps_of_request(lowered)
            plan = self._build_plan(FoundPlan([], [], proof), len(steps))
            plan["steps"] = steps + self._list_creation(proof)
            plan["disruption"]["pods"] = plan["disruption"]["replaced"] = self._count_replaced()
            plans.append(plan)

    def _prove_changed(self, pods: Sequence[PodInfo], failures: Counter[str]) -> Proof | None:
        """Return the proof that the targets, changed like this, fit as the copy is; None with what went wrong."""
        verification = Verification(self.world, pods, self._others, min_targets=self._targets.min_count)
        try:
            proof = verification.run([] if self._targets.exist else [PlannedStep(CREATE)])
        except UnprovenError as e:
            failures[str(e)] += 1
            return None
        if proof.failure is not None:
            failures[proof.failure.kind] += 1
            return None
        return proof

    def _list_creation(self, proof: Proof) -> list[PlanStep]:
        """Return the step that creates the targets, if they do not exist."""
        found = FoundPlan([], [], proof)
        return [] if self._targets.exist else [self._build_step(PlannedStep(CREATE), found, set(), Counter())]

    # --- fixes ------------------------------------------------------------------------------------------------------

    def _list_fixes(self) -> list[SuggestedFix]:
        """Return the suggestions for the targets that have no more changes than a plan may have."""
        try:
            fixes = list(list_fixes(self.world, self._targets.pods))
        except TimeOverError:
            return []
        return [fix for fix in fixes if len(fix.suggestion.changes) <= self._question.max_changes]

    def _try_fixes(self, fixes: Sequence[SuggestedFix]) -> PlansOfKind:
        """Return the plans of one fix, those that are proven first.

        A fix for one pod that is not proven is a plan too: the pod passes all filters after it.
        """
        found, failures = list[tuple[bool, bool, Plan]](), Counter[str]()
        for fix in fixes:
            proof = None
            with suppress(TimeOverError), self.world.tried():
                if fix.node is not None:
                    self.world.set_node(fix.node)
                proof = self._prove_changed(fix.pods, failures) if fix.is_exact else None
            if proof is not None or len(self._targets.pods) == 1:
                found.append((proof is None, fix.is_last_resort, self._build_fix(fix, proof)))
        found.sort(key=lambda each: each[0])
        plans = [plan for _, _, plan in found]
        if found and any(found[0][:2]):
            self._last_resorts.add(CHANGE)
        bound = Bound("Exhaustive", 1, 1)
        if not plans or plans[0]["changes"] > 1:
            reason = "only the fixes of the answer about the pod were tried"
            bound = Bound(NOT_PROVEN, self._question.max_changes, len(fixes), reason)
        return {"kind": CHANGE, "plans": plans, "bound": _bound(bound), "failures": dict(failures)}

    def _build_fix(self, fix: SuggestedFix, proof: Proof | None) -> Plan:
        node = fix.suggestion.node
        landed = Proof(None, {pod.uid: {node} for pod in self._targets.pods}, 0) if proof is None else proof
        owners = self._suggest_to_owners(fix.suggestion)
        changes = len(fix.suggestion.changes) * len(owners)
        plan = self._build_plan(FoundPlan([], [], landed), changes)
        plan["steps"] = [self._step_of_fix(pods, node) for pods in owners] + self._list_creation(landed)
        replaces = any(suggestion["rollsOut"] for pods in owners for _, suggestion in pods)
        preempting = [change for change in fix.suggestion.changes if change.code == "set-priority-class"]
        evicted = sum(len(change.params.get("leaving", "").split(", ")) for change in preempting)
        plan["disruption"]["replaced"] = self._count_replaced() if replaces else 0
        plan["disruption"]["pods"] = evicted + plan["disruption"]["replaced"]
        plan["proven"] = proof is not None
        return plan

    def _suggest_to_owners(self, suggestion: Suggestion) -> list[list[tuple[PodInfo, SuggestedChange]]]:
        """Return the pods of each owner with the suggestion as it is for the pod."""
        by_owner: dict[str, list[tuple[PodInfo, SuggestedChange]]] = {}
        for pod in self._targets.pods:
            change = build_suggestion(pod_info(pod), suggestion)
            by_owner.setdefault(change["object"], []).append((pod, change))
        return list(by_owner.values())

    def _step_of_fix(self, pods: Sequence[tuple[PodInfo, SuggestedChange]], node: str) -> PlanStep:
        """Return the step that makes a change for the pods of one owner."""
        pod, suggestion = pods[0]
        command = suggestion["command"] if self._targets.exist else None
        others = [each.name for each, _ in pods[1:]]
        if command and others and f"Pod/{pod.name}" in suggestion["deletes"]:
            command += f" && kubectl -n {pod.namespace} delete pod {' '.join(others)}"
        kind, _, name = suggestion["object"].partition("/")
        return {
            "kind": "Change",
            "counted": True,
            "namespace": pod.namespace,
            "pod": "" if kind == "Node" else pod.name,
            "owner": "" if kind in ("Node", "Pod") else f"{kind}/{name}",
            "request": "",
            "text": suggestion["text"],
            "node": node,
            "nodes": [],
            "landsOn": [],
            "command": command or "",
        }

    # --- the answer -------------------------------------------------------------------------------------------------

    def _build_plan(self, found: FoundPlan, changes: int) -> Plan:
        counted = {(move.change.kind, move.change.node, move.change.pod) for move in found.moves}
        left: Counter[str] = Counter()
        steps = [self._build_step(step, found, counted, left) for step in found.steps]
        landed = found.proof.landings
        kinds: dict[bytes, set[str]] = {}
        for pod in self._targets.pods:
            kinds.setdefault(pod.spec_digest, set()).update(landed.get(pod.uid, ()))
        return {
            "changes": changes,
            "steps": steps,
            "targets": [
                {"namespace": pod.namespace, "name": pod.name, "landsOn": sorted(kinds[pod.spec_digest])}
                for pod in self._targets.pods
            ],
            "disruption": self._measure(found),
            "proven": True,
            "states": found.proof.states,
        }

    def _measure(self, found: FoundPlan) -> PlanDisruption:
        leaving = [step.pod for step in found.steps if step.pod is not None]
        budgets = sorted({name for pod in leaving for name in self._budgets.names_of(pod.pod)})
        return {
            "pods": len(leaving),
            "replaced": 0,
            "budgets": budgets,
            "volumes": sum(len(pod.claims) for pod in leaving),
            "localData": sum(any(v.empty_dir for v in pod.pod.spec.volumes or ()) for pod in leaving),
            "newNodes": sum(len(step.nodes) for step in found.steps if step.kind == ADD_NODES),
        }

    def _build_step(
        self, step: PlannedStep, found: FoundPlan, counted: set[tuple[str, str, PodInfo | None]], left: Counter[str]
    ) -> PlanStep:
        pod = step.pod
        lands: set[str] = set()
        if step.kind == MOVE and pod is not None:
            lands = found.proof.landings.get(self._verification.replacement_of(pod).uid, set())
        single = step.nodes[0] if step.nodes else step.node
        return {
            "kind": step.kind,
            "counted": step.kind == ADD_NODES or (step.kind, single if pod is None else step.node, pod) in counted,
            "namespace": None if pod is None else pod.namespace,
            "pod": "" if pod is None else pod.name,
            "owner": "" if pod is None else str(find_workload(pod.pod, self.world.objects) or ""),
            "request": "",
            "text": "",
            "node": step.node,
            "nodes": list(step.nodes),
            "landsOn": sorted(lands),
            "command": self._format_command(step, left),
        }

    def _format_command(self, step: PlannedStep, left: Counter[str]) -> str:
        pod = step.pod
        if step.kind in (CORDON, UNCORDON):
            return f"kubectl {step.kind.lower()} {' '.join(step.nodes)}"
        if step.kind == CREATE:
            return f"kubectl -n {self._targets.pods[0].namespace} apply -f FILE"
        if pod is None:
            return ""
        if step.kind == SCALE_DOWN:
            workload = find_workload(pod.pod, self.world.objects)
            assert workload is not None
            name = self._name_workload(pod)
            left[name] += 1
            replicas = len(self._list_workload(pod)) - left[name]
            kubectl = f"kubectl -n {pod.namespace}"
            return (
                f"{kubectl} annotate pod {pod.name} {DELETION_COST}=-2147483648 --overwrite"
                f" && {kubectl} scale {_NAMES[workload.kind]} {workload.name} --replicas={replicas}"
            )
        return format_eviction(pod)

    def _count_replaced(self) -> int:
        """Return how many pods on nodes are replaced with the targets when their workload's template changes."""
        pod = self._targets.pods[0]
        workload = find_workload(pod.pod, self.world.objects)
        if not self._targets.exist or workload is None or workload.kind not in _REPLACING:
            return 0
        waiting = {each.uid for each in (*self._targets.pods, *self._others)}
        return sum(each.uid not in waiting for each in self._list_workload(pod))

    def _list_steps_of_request(self, lowered: LowerRequest) -> list[PlanStep]:
        """Return the steps that lower a request: one for each owner, with the command of the suggestion for it."""
        amounts = {"requests": {lowered.resource: lowered.to}}
        params = {
            "container": lowered.container,
            "group": "containers",
            "resource": lowered.resource,
            "from": lowered.present,
            "to": lowered.to,
        }
        patch = json.dumps({"containers": [{"name": lowered.container, "resources": amounts}]})
        owners = self._suggest_to_owners(Suggestion("", (Reason("set-request", params),), patch))
        request = f"{lowered.container}:{lowered.resource}={lowered.to}"
        steps = [self._step_of_fix(pods, "") for pods in owners]
        for step in steps:
            step.update({"kind": "SetRequest", "pod": "", "request": request, "text": ""})
        return steps if self._targets.exist else steps[:1]  # all pods of a file come from one manifest


def format_eviction(pod: PodInfo) -> str:
    """Return the command that evicts a pod. The API server obeys budgets then, also those that are not known here."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    return f"echo '{json.dumps(eviction, separators=(',', ':'))}' | kubectl create --raw {path} -f -"


def _is_of_other_kind(fix: SuggestedFix, planned: Container[str]) -> bool:
    """Return whether a fix lowers a request or uncordons a node, and the kind for it has a plan."""
    codes = {change.code for change in fix.suggestion.changes}
    return (codes == {"set-request"} and "request" in planned) or (codes == {"uncordon"} and "nodes" in planned)


def _bound(bound: Bound) -> PlanBound:
    changes = bound.moves if bound.moves < IMPOSSIBLE else None
    return {"kind": bound.kind, "changes": changes, "tried": bound.sets, "reason": bound.reason}


def _cost(plan: Plan) -> tuple[int, ...]:
    """Return the sort key of a plan: what it disturbs, then how many steps it has."""
    what = plan["disruption"]
    return what["newNodes"], what["pods"], len(what["budgets"]), what["volumes"], what["localData"], len(plan["steps"])
