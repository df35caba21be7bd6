"""A copy of a cluster in which pods are evicted, replaced by their controllers, and scheduled again.

Owns: the state, where each moved pod comes from and ends, and the pods that wait. Does not own: which pods a change
evicts (`changes`, `eviction`), a single decision (`engine.cycle`).

A replacement is Ready as soon as it is placed, and only then counts for PodDisruptionBudgets. Pods are scheduled by
descending priority, and otherwise in the order in which they were evicted or created. An evicted pod is gone before its
replacement is scheduled. Preemption is carried out, except for pods of pod groups. The waiting pods of a group are
decided together, and placed only if the group reaches its quorum.

Invariant: each pod that leaves its node is in exactly one place: on a node, waiting, or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from herodotus_answers.cluster_review import MAX_PEERS, RemovedPod, ReviewedGroup, ReviewedPlacement
from herodotus_answers.workload import NOMINATED, ONLY, TIE, UNSCORED
from herodotus_record.model import DecisionPath
from herodotus_record.notes import list_missing_rules
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import FINISHED_PHASES, PodGroupKey, PodInfo
from scheduler.engine.objects.types import Condition, Node, Pod, PodStatus
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.progress import ProgressReport
from scheduler.engine.rules import DEFAULT_RULES, Rules
from scheduler.engine.whatif.budgets import Budgets, is_ready
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.engine.whatif.owners import DAEMON_SET, NODE, build_replacement, find_workload
from scheduler.engine.whatif.pod_groups import UNSCHEDULABLE, find_quorum, sort_members, split_by_group

PENDING: Final = "Pending"  # the cause of pods that had no node before the changes
_RUNNING: Final = PodStatus(phase="Running", conditions=[Condition(type="Ready", status="True")])
# Only these filters can accept a pod because another pod was placed.
_HELPED_BY_PODS: Final = frozenset({"InterPodAffinity", "PodTopologySpread"})


@dataclass
class WhatIfState:
    """A cluster that a simulation may change: its nodes with their pods, other objects, and pods without a node.

    `framework` returns the framework of a scheduler name, or None if no profile has the name. `pending` are the pods
    without a node, and `nominator` holds those of them that are nominated for a node. `unread` is a sentence about
    objects of autoscalers that could not be read, or "". `rebuild` builds frameworks with other rules than the present
    `rules`, for which `feature_gates` are the configured values of feature gates; None if the process cannot.
    """

    nodes: NodeColumns
    objects: ClusterObjects
    nominator: Nominator
    framework: Callable[[str], Framework | None]
    pending: Sequence[Pod] = ()
    unread: str = ""
    rebuild: Callable[[Rules], Callable[[str], Framework]] | None = None
    rules: Rules = DEFAULT_RULES
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    def list_waiting(self) -> list[PodInfo]:
        """Return the pods that wait for a node: not those that are being deleted or that have scheduling gates."""
        return [
            PodInfo(pod)
            for pod in self.pending
            if not pod.metadata.deletion_timestamp and not pod.spec.scheduling_gates
        ]

    def build_budgets(self) -> Budgets:
        """Return the PodDisruptionBudgets with their present amounts."""
        on_nodes = (pod for pods in self.nodes.pods for pod in pods.values())
        return Budgets(self.objects.all(PodDisruptionBudget), [*on_nodes, *map(PodInfo, self.pending)])


@dataclass(eq=False)
class MovedPod:
    """A pod that was evicted or created in the simulation; `pod` is its latest successor.

    `origin` is the pod before the changes, None if the simulation created the pod. `node` is where it is, "" while it
    waits, and `deleted` tells why it ended. `peers` are pods whose presence keeps it waiting.
    """

    pod: PodInfo
    cause: str
    origin: Pod | None = None
    origin_node: str = ""
    node: str = ""
    plugin: str = ""
    reason: str = ""
    victims: list[str] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)
    deleted: str = ""
    helped_by_pods: bool = True


class Simulation:
    """The state of a cluster while changes are applied to it."""

    def __init__(self, state: WhatIfState, report: ProgressReport, seed: int) -> None:
        """Prepare a simulation that changes `state`. `seed` determines the choice among nodes with equal totals."""
        self.nodes, self.objects = state.nodes, state.objects
        self._nominator, self._framework, self._rules = state.nominator, state.framework, state.rules
        self._report, self._seed = report, seed
        self.claims = SimulatedClaims(self.objects)
        self.budgets = state.build_budgets()
        self.moved: dict[str, MovedPod] = {}  # by the UID of the present pod
        self.ended: list[MovedPod] = []
        self._waiting: list[MovedPod] = [MovedPod(pod, PENDING, origin=pod.pod) for pod in state.list_waiting()]
        self.moved.update((moved.pod.uid, moved) for moved in self._waiting)
        self.progress = 0  # increases when a pod leaves or reaches a node
        self.notes: dict[str, None] = {}  # sentences on rules that some decided pod lacks, in order
        self._created, self._decided = 0, 0
        self._groups: dict[PodGroupKey, ReviewedGroup] = {}  # as last decided

    # --- reading ----------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node | None:
        """Return a Node object, or None if there is no node with this name."""
        slot = self.nodes.index.get(name)
        return None if slot is None else self.nodes.nodes[slot]

    def pods_on(self, name: str) -> list[PodInfo]:
        """Return the pods on a node, sorted by namespace and name, which is the API server's order."""
        return sorted(self.nodes.pods[self.nodes.index[name]].values(), key=lambda pod: (pod.namespace, pod.name))

    def is_on(self, uid: str, node: str) -> bool:
        """Return whether the pod with this UID is on a node; False if there is no such node."""
        slot = self.nodes.index.get(node)
        return slot is not None and uid in self.nodes.pods[slot]

    @property
    def waiting(self) -> list[PodInfo]:
        """The pods that wait to be scheduled."""
        return [moved.pod for moved in self._waiting]

    def pods_of(self, namespace: str, workload: str) -> list[tuple[PodInfo, str]]:
        """Return the pods of a workload, KIND/NAME, that are not being deleted, each with its node or ""."""
        placed = ((pod, name) for slot, name in self._live() for pod in self.nodes.pods[slot].values())
        every = (*placed, *((moved.pod, "") for moved in self._waiting))
        return [
            (pod, node)
            for pod, node in every
            if pod.namespace == namespace
            and not pod.terminating
            and str(find_workload(pod.pod, self.objects)) == workload
        ]

    def list_unready(self, namespace: str, budget: str) -> list[str]:
        """Return the pods, as NAMESPACE/NAME, that a budget selects and that are not ready, without new ones."""
        placed = (pod for slot, _ in self._live() for pod in self.nodes.pods[slot].values())
        pending = (moved.pod for moved in self._waiting if moved.cause == PENDING)
        unready = (
            pod
            for pod in (*placed, *pending)
            if pod.namespace == namespace and not is_ready(pod.pod) and pod.pod.status.phase not in FINISHED_PHASES
        )
        name = f"{namespace}/{budget}"
        selected = (pod.full_name for pod in unready if name in self.budgets.names_of(pod.pod))
        return sorted(selected, key=natural_sort_key)

    def _live(self) -> Iterator[tuple[int, str]]:
        return ((slot, self.nodes.names[slot]) for slot in np.flatnonzero(self.nodes.live[: self.nodes.slots]).tolist())

    # --- changing ---------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Add or replace a Node object."""
        self.nodes.set_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node with its pods and devices, regardless of budgets, and let the controllers replace the pods."""
        pods = self.pods_on(name)
        self.nodes.remove_node(name)
        self.claims.remove_devices(name)
        for pod in pods:
            self.budgets.delete(pod.pod)
            self.evict(pod, name, "Removed")

    def evict(self, pod: PodInfo, node: str, cause: str) -> None:
        """Remove a pod from its node and let its controller replace it, regardless of its budget.

        The pod gets no replacement if it has no controller, if that is a DaemonSet or the node, or if the pod is
        already being deleted.
        """
        moved = self._take(pod, node, cause)
        owner = pod.pod.metadata.controller
        if pod.terminating:
            self._end(moved, "Terminating")
        elif owner is None:
            self._end(moved, "NoController")
        elif owner.kind in (DAEMON_SET, NODE):
            self._end(moved, owner.kind)
        else:
            self.wait(moved, build_replacement(pod.pod, self.next_number()))

    def delete(self, pod: PodInfo, node: str, cause: str) -> None:
        """Remove a pod without a replacement: from its node or, if `node` is "", from the waiting pods."""
        moved = self._take(pod, node, cause)
        if not node:
            self._waiting.remove(moved)
        self._end(moved, cause)

    def create(self, pod: PodInfo, cause: str) -> None:
        """Add a new pod to the pods that wait to be scheduled; `cause` says why it is created."""
        self.wait(MovedPod(pod, cause), pod)

    def next_number(self) -> int:
        """Return a number that was not returned before, for the name of a new pod."""
        self._created += 1
        return self._created

    def wait(self, moved: MovedPod, pod: PodInfo) -> None:
        """Add `pod`, which is that of `moved` or its replacement, to the pods that wait to be scheduled."""
        moved.pod, moved.node, moved.helped_by_pods = self.claims.generate(pod), "", True
        self.moved[pod.uid] = moved
        self._waiting.append(moved)

    def _take(self, pod: PodInfo, node: str, cause: str) -> MovedPod:
        """Remove a pod from its node, if `node` is not "", and return its `MovedPod`, a new one at its first move."""
        self.progress += 1
        self.claims.release(pod)
        if node:
            self.nodes.remove_pod(pod.uid, node)
        return self.moved.pop(pod.uid, None) or MovedPod(pod, cause, origin=pod.pod, origin_node=node)

    def _end(self, moved: MovedPod, cause: str) -> None:
        moved.node, moved.deleted = "", cause
        if moved.origin is not None:
            self.ended.append(moved)

    # --- scheduling -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Schedule the waiting pods by priority, and again while placed or evicted pods may help the others."""
        tried, self._waiting = self._waiting, []
        while tried:
            before = self.progress
            for key, unit in split_by_group(sorted(tried, key=lambda moved: -moved.pod.priority), _pod_of):
                if key is None:
                    self._try(unit[0])
                else:
                    self._try_group(key, unit)
            if self.progress == before:
                return
            tried = [moved for moved in self._waiting if moved.helped_by_pods]
            self._waiting = [moved for moved in self._waiting if not moved.helped_by_pods]

    def _try(self, moved: MovedPod) -> None:
        """Schedule a pod; if no node is feasible, evict preemption's victims, if any, and try again.

        A pod that finds no node keeps waiting.
        """
        result = self._schedule(moved.pod)
        if result is None:
            moved.reason = format_no_profile(moved.pod.pod)
        elif result.chosen is None and (self._preempt(moved, result) or self.claims.deallocate(result.state)):
            result = self._schedule(moved.pod)
        self._decided += 1
        self._report(self._decided, self._decided + len(self._waiting))
        if result is None or result.chosen is None:
            if result is not None:
                moved.reason, moved.peers = result.message, _list_peers(result)
                moved.helped_by_pods = bool(result.rejectors & _HELPED_BY_PODS)
            self._waiting.append(moved)
            return
        moved.plugin = name_deciding_factor(result)
        self._bind(moved, result, result.chosen)

    def _try_group(self, key: PodGroupKey, members: list[MovedPod]) -> None:
        """Schedule the waiting pods of a group in order, and place them only if the group reaches its quorum.

        Pods that are not placed keep waiting. The result is stored for `list_groups`.
        """
        quorum = find_quorum(key, len(members), self.nodes, self.objects, self._rules)
        before = self._groups.get(key)
        reviewed: ReviewedGroup = {
            "namespace": key.namespace,
            "name": key.name,
            "minCount": quorum.min_count,
            "pods": len(members),
            "feasible": 0,
            "fits": False,
            "stoppedAt": "",
            "reason": "",
        }
        self._groups[key] = reviewed
        assumed: list[tuple[MovedPod, CycleResult, int]] = []
        mark = self.claims.mark()
        for moved in sort_members(members, _pod_of):
            result = None if quorum.problem else self._schedule(moved.pod)
            self._decided += 1
            self._report(self._decided, self._decided + len(self._waiting))
            if result is None or result.chosen is None:
                moved.reason = quorum.problem or (result.message if result else format_no_profile(moved.pod.pod))
                if not reviewed["reason"]:
                    reviewed["stoppedAt"], reviewed["reason"] = moved.pod.name, moved.reason
                self._waiting.append(moved)
                continue
            self._assume(moved.pod, result, result.chosen)
            assumed.append((moved, result, result.chosen))
        self._take_back([(moved.pod, slot) for moved, _, slot in assumed], mark)
        reviewed["feasible"], reviewed["fits"] = len(assumed), quorum.is_reached(len(assumed))
        if before is not None and before["fits"]:  # further pods of a group that was placed
            reviewed["feasible"] += before["feasible"]
            reviewed["pods"] += before["feasible"]
            reviewed["fits"] = True
        for moved, result, slot in assumed:
            if quorum.is_reached(len(assumed)):
                moved.plugin = name_deciding_factor(result)
                self._bind(moved, result, slot)
            else:
                moved.reason = UNSCHEDULABLE
                self._waiting.append(moved)

    def list_groups(self) -> list[ReviewedGroup]:
        """Return the results of the pod groups that were tried, each from its last try."""
        return list(self._groups.values())

    def place_group(self, pods: Sequence[PodInfo]) -> CycleResult | None:
        """Place all these pods, which are not waiting, or none of them.

        Return the result of the last pod that was decided: its `chosen` is None if the pods do not fit, and it is None
        if no profile has the pod's scheduler name.
        """
        result, placed, mark = None, list[tuple[PodInfo, int]](), self.claims.mark()
        for pod in map(self.claims.generate, pods):
            result = self._schedule(pod)
            self._decided += 1
            if result is None or result.chosen is None:
                self._take_back(placed, mark)
                break
            self._assume(pod, result, result.chosen)
            placed.append((pod, result.chosen))
        self._report(self._decided, self._decided)
        return result

    def _assume(self, pod: PodInfo, result: CycleResult, slot: int) -> None:
        """Add a pod to the node in `slot`, and allocate its claims, so that later decisions take it into account."""
        node = self.nodes.names[slot]
        self.claims.allocate(pod, node, result.state)
        self.nodes.add_pod(pod, node)

    def _take_back(self, assumed: Sequence[tuple[PodInfo, int]], mark: int) -> None:
        """Remove pods that `_assume` added to these slots, and restore the claims as they were at `mark`."""
        for pod, slot in reversed(assumed):
            self.nodes.remove_pod(pod.uid, self.nodes.names[slot])
        self.claims.undo(mark)

    def place(self, pod: PodInfo) -> CycleResult | None:
        """Schedule a pod that is not waiting, and place it if a node is feasible; return the result of the cycle.

        Return None if no profile has its scheduler's name.
        """
        pod = self.claims.generate(pod)
        result = self._schedule(pod)
        self._decided += 1
        self._report(self._decided, self._decided)
        if result is not None and result.chosen is not None:
            self._bind(MovedPod(pod, ""), result, result.chosen)
        return result

    def _schedule(self, pod: PodInfo) -> CycleResult | None:
        """Return the result of a cycle for the pod without placing it; None if no profile has its scheduler's name."""
        framework = self._framework(pod.pod.spec.scheduler_name)
        if framework is None:
            return None
        self._seed += 1
        result = schedule_regardless_of_group(framework, pod, Snapshot.from_columns(self.nodes), self._seed)
        self.notes.update(dict.fromkeys(list_missing_rules(result.trace.notes)))
        return result

    def _preempt(self, moved: MovedPod, result: CycleResult) -> bool:
        """Evict the victims that the cycle's preemption chose; return whether there were any."""
        preemption = result.trace.preemption
        if preemption is None or not preemption.nominated_node:
            return False
        node = preemption.nominated_node
        victims = next(c.victims for c in preemption.candidates if c.node == node)
        here = {pod.full_name: pod for pod in self.pods_on(node)}
        for name in victims:
            self.budgets.delete(here[name].pod)
            self.evict(here[name], node, "Preempted")
        moved.victims += victims
        return True

    def _bind(self, moved: MovedPod, result: CycleResult, slot: int) -> None:
        pod, node = moved.pod.pod, self.nodes.names[slot]
        self.claims.allocate(moved.pod, node, result.state)
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        placed = PodInfo(msgspec.structs.replace(pod, spec=spec, status=_RUNNING), running=True)
        moved.pod, moved.node, moved.reason, moved.peers = placed, node, "", []
        self.progress += 1
        self._nominator.remove(placed.uid)
        self.nodes.add_pod(placed, node)
        self.budgets.add_ready(placed.pod)

    # --- the answer -------------------------------------------------------------------------------------------------

    def list_placements(
        self,
    ) -> tuple[list[ReviewedPlacement], list[ReviewedPlacement], list[ReviewedPlacement]]:
        """Return the pods that the changes moved or created, and those that were pending: now with a node, and without.

        Pods that ended are in none of the lists, unless the changes moved them.
        """
        moved, pending, still_pending = [], [], []
        for move in self.moved.values():
            if move.cause != PENDING:
                moved.append(self._describe(move))
            elif move.node:
                pending.append(self._describe(move))
            elif not move.deleted:
                still_pending.append(self._describe(move))
        return moved, pending, still_pending

    def list_ended(self) -> list[RemovedPod]:
        """Return the pods of the original cluster that were removed without a replacement."""
        return [self.remove(end.origin, end.origin_node, end.deleted) for end in self.ended if end.origin]

    def remove(self, pod: Pod, node: str, cause: str) -> RemovedPod:
        """Return the review's entry for a pod that is removed or that a drain leaves on its node; change nothing."""
        meta = pod.metadata
        owner = self.owner_of(pod)
        return {"namespace": meta.namespace, "name": meta.name, "node": node, "cause": cause, "owner": owner}

    def owner_of(self, pod: Pod) -> str:
        """Return the workload of a pod as KIND/NAME, or "" for a pod without a controller."""
        workload = find_workload(pod, self.objects)
        return "" if workload is None else str(workload)

    def _describe(self, moved: MovedPod) -> ReviewedPlacement:
        pod = moved.origin or moved.pod.pod
        return {
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "cause": moved.cause,
            "owner": self.owner_of(pod),
            "fromNode": moved.origin_node,
            "node": moved.node,
            "plugin": moved.plugin if moved.node else "",
            "reason": moved.reason,
            "victims": moved.victims,
            "peers": moved.peers,
        }


def _pod_of(moved: MovedPod) -> PodInfo:
    return moved.pod


def _list_peers(result: CycleResult) -> list[str]:
    """Return the first pods that filters name against nodes, such as one that an anti-affinity excludes."""
    columns = ((run.verdicts.table, run.verdicts.ids) for run in result.trace.filters if not run.skipped)
    used = ((table, np.unique(ids[result.trace.evaluated])) for table, ids in columns if ids is not None)
    given = (table[i] for table, numbers in used for i in numbers.tolist())
    named = (reason.params.get("pod") for verdict in given for reason in verdict.reasons)
    return list(dict.fromkeys(filter(None, named)))[:MAX_PEERS]


def format_no_profile(pod: Pod) -> str:
    """Return the sentence that no profile has the scheduler name of this pod."""
    return f'no profile of the scheduler is named "{pod.spec.scheduler_name}"'


def name_deciding_factor(result: CycleResult) -> str:
    """Return the name of the score plugin with the largest share in the chosen node's lead, or of another factor.

    The result equals that of `herodotus_answers.workload.find_deciding_factor` for the record of the cycle, but needs
    no record, which takes two thirds of the time of a large review.
    """
    if result.path is DecisionPath.ONLY_FEASIBLE:
        return ONLY
    if result.path is DecisionPath.NOMINATED:
        return NOMINATED
    trace, chosen = result.trace, result.chosen
    if trace.totals is None:
        return UNSCORED
    others = np.flatnonzero(trace.feasible)
    others = others[others != chosen]
    next_ = others[trace.totals[others].argmax()]
    if trace.totals[chosen] == trace.totals[next_]:
        return TIE
    scored = [(run, run.normalized) for run in trace.scores if run.normalized is not None]
    shares = {run.plugin: int(scores[chosen] - scores[next_]) * run.weight for run, scores in scored}
    return min(shares, key=lambda plugin: (-shares[plugin], plugin))
