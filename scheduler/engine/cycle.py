"""The scheduling cycle: decide one pod against one snapshot.

Pure: no client, no queue, no wall clock. The caller passes the seed for the choice among equals and the start of the
search. The trace of the result holds everything that was evaluated.

Source: pkg/scheduler/schedule_one.go v1.36 schedulePod.

    PreFilter -> Filter, extenders -> the nominated node, or PostFilter, or the only node, or
    PreScore -> Score, extenders -> draw

Extenders are separate services, called through a protocol; a cycle without extenders makes no requests.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import Code, DecisionPath, Evaluation, Reason, Verdict
from scheduler.engine.columns import Snapshot
from scheduler.engine.framework.extender import ExtenderError
from scheduler.engine.framework.plugin_results import PluginError, join_reasons
from scheduler.engine.framework.pre_filtering import PreFilterOutcome
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.sampling import num_feasible_nodes_to_find, select_visited_slots
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import FilterRun, Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.rules import Rules
from scheduler.engine.rules.version_rules import NARROWED_NODES_COUNTED

MAX_RESTRICTED_TO: Final = 4  # nodes of a pod that may only run on few, which its record names


@dataclass(frozen=True)
class CycleResult:
    """The result of a scheduling cycle.

    `chosen` is the slot (row index in the columns) of the chosen node. `next_start` is the position in the visiting
    order at which the next cycle starts to search nodes.
    """

    path: DecisionPath
    trace: Trace
    state: CycleState
    chosen: int | None = None
    message: str = ""  # of the FailedScheduling event
    next_start: int = 0
    rejectors: frozenset[str] = frozenset()  # plugins whose events may make the pod schedulable
    pending: frozenset[str] = frozenset()  # those that returned Pending: after their event the pod skips its backoff


def schedule(framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int, start: int = 0) -> CycleResult:
    """Choose a node for the pod and return the result. If a plugin or extender fails, its path is DecisionPath.ERROR.

    `seed` decides between equally good nodes. `start` is the position in the visiting order at which the search starts.
    A pod of a pod group is rejected, because only `schedule_group_member` decides it.
    """
    return _schedule(_Cycle(framework, pod, snapshot, start, CycleState()), seed)


def schedule_group_member(
    framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int, start: int = 0
) -> CycleResult:
    """Choose a node for a pod in the scheduling cycle of its pod group, and return the result, as `schedule` does.

    The snapshot has the pods of the group that were decided before it, and may limit the nodes to a placement.
    """
    return _schedule(_Cycle(framework, pod, snapshot, start, CycleState(is_pod_group_cycle=True)), seed)


def try_group_member(framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int, start: int = 0) -> CycleResult:
    """Return the result of `schedule_group_member` without PostFilter, to find out whether the pod fits."""
    state = CycleState(is_pod_group_cycle=True, skips_post_filter=True)
    return _schedule(_Cycle(framework, pod, snapshot, start, state), seed)


def schedule_regardless_of_group(framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int) -> CycleResult:
    """Choose a node for a pod where nothing is bound, and return the result, as `schedule` does.

    A pod of a pod group is decided as in the cycle of its group. Whether the group reaches its quorum is not decided.
    """
    decide = schedule if pod.pod_group is None else schedule_group_member
    return decide(framework, pod, snapshot, seed)


def _schedule(cycle: _Cycle, seed: int) -> CycleResult:
    start = cycle.start
    if not len(cycle.nodes.order.slots()):
        return cycle.finish(DecisionPath.NONE, message=reasons.format_reason(Reason("no-nodes")))
    try:
        result = cycle.run(seed)
    except (PluginError, ExtenderError) as e:
        cycle.start = start
        result = cycle.finish(DecisionPath.ERROR, message=reasons.format_error(str(e), cycle.rules.version))
    if result.path is DecisionPath.NONE:
        cycle.note_eligible_nodes()
        cycle.framework.explain_rejections(cycle.state, cycle.pod, cycle.nodes, cycle.trace)
    cycle.framework.gather_inputs(cycle.state, cycle.pod, cycle.nodes, cycle.trace)
    return result


class _Cycle:
    """One scheduling cycle while it runs. `start` becomes the position at which the next cycle starts its search."""

    def __init__(self, framework: Framework, pod: PodInfo, snapshot: Snapshot, start: int, state: CycleState) -> None:
        self.framework = framework
        self.rules = framework.profile.rules
        self.pod = pod
        self.nodes = nodes = snapshot.nodes
        placement = snapshot.placement
        self.placement = None if placement is None or (placement | ~nodes.live).all() else placement
        self.start = start
        self.trace = Trace.start(nodes)
        self.state = state

    def finish(self, path: DecisionPath, chosen: int | None = None, message: str = "") -> CycleResult:
        if self.rules.missing:
            self._note_unimplemented_changes()
        return CycleResult(path, self.trace, self.state, chosen, message, self.start)

    def _note_unimplemented_changes(self) -> None:
        """Note in the trace each change of upstream's rules that concerns the pod and is not implemented here."""
        filters = {run.plugin for run in self.trace.filters if not run.skipped}
        for change in self.rules.missing:
            if change.concerns is not None and change.concerns(self.pod, filters):
                self.trace.notes.append(change.build_note())

    def run(self, seed: int) -> CycleResult:
        framework, pod, nodes, trace = self.framework, self.pod, self.nodes, self.trace
        outcome = framework.run_pre_filter(self.state, pod, nodes, trace)
        if outcome.rejection is not None:
            return self._unplaced(outcome.skip, join_reasons(outcome.rejection.verdict, self.rules.version))
        order = self._narrow(outcome)
        framework.run_filters(self.state, pod, nodes, outcome.skip, trace)
        nominated = self._nominated()
        if nominated is not None:
            slot, runs = nominated
            trace.mark(order, Evaluation.NOT_NEEDED)
            trace.mark(slot, Evaluation.EVALUATED)
            for run in runs:
                trace.narrow(run)
            return self.finish(DecisionPath.NOMINATED, slot)
        self._visit(order)
        error = framework.first_error(trace)
        if error is not None:
            return self.finish(DecisionPath.ERROR, message=error)
        for run in framework.run_extender_filters(pod, nodes, trace.feasible, trace):
            trace.narrow(run)
        feasible = trace.feasible
        count = np.count_nonzero(feasible)
        if count == 0:
            return self._unplaced(outcome.skip)
        if count == 1:
            return self.finish(DecisionPath.ONLY_FEASIBLE, int(feasible.argmax()))
        best = framework.run_scores(self.state, pod, nodes, feasible, trace)
        if len(best) == 1:  # of equals one is drawn, and no plugin decided
            framework.explain_scores(self.state, pod, nodes, feasible, trace, int(best[0]))
        return self.finish(DecisionPath.SCORED, _choose(best, seed))

    def _narrow(self, outcome: PreFilterOutcome) -> NDArray[np.intp]:
        """Return the slots of the nodes that the placement and PreFilter permit, in visiting order.

        All other nodes are marked as RESTRICTED in the trace.
        """
        order = self.nodes.order.slots()
        if self.placement is not None:
            inside = self.placement[order]
            self.trace.mark(order[~inside], Evaluation.RESTRICTED)
            order = order[inside]
        if outcome.names is None:
            return order
        if len(outcome.names) <= MAX_RESTRICTED_TO:
            self.trace.restricted_to = tuple(sorted(outcome.names))
        left = np.array([self.nodes.names[slot] in outcome.names for slot in order], np.bool_)
        self.trace.mark(order[~left], Evaluation.RESTRICTED)
        return order[left]

    def _nominated(self) -> tuple[int, list[FilterRun]] | None:
        """Return the slot of the pod's nominated node with the extenders' verdicts, if the node is feasible.

        The cycle then chooses this node without evaluating others. The result is None if the node is not feasible or an
        extender fails.
        """
        name = self.framework.nominator.find_node(self.pod)
        slot = self.nodes.index.get(name) if name else None
        if slot is None or not self.nodes.live[slot] or self.trace.codes[slot] != 0:
            return None
        if self.placement is not None and not self.placement[slot]:
            return None
        only_slot = np.zeros(self.trace.slots, np.bool_)
        only_slot[slot] = True
        try:
            runs = self.framework.run_extender_filters(self.pod, self.nodes, only_slot, self.trace)
        except ExtenderError:
            return None
        return (slot, runs) if all(run.verdicts.verdict_at(slot).code is Code.SUCCESS for run in runs) else None

    def _visit(self, order: NDArray[np.intp]) -> None:
        """Mark in the trace which nodes of `order` are evaluated and which are not sampled, and advance `start`."""
        framework, trace = self.framework, self.trace
        profile = framework.profile
        enough = num_feasible_nodes_to_find(len(order), profile.percentage_of_nodes_to_score)
        if not profile.score and not framework.extenders.filter and not framework.extenders.prioritize:
            enough = 1
        if enough >= len(order):
            visited_slots = order  # every node, so the order does not matter
        else:
            visited_slots = select_visited_slots(order, self.start % len(order), trace.codes == 0, enough)
        live = self._count_nodes()
        if self.placement is None and len(visited_slots) == live:
            trace.evaluate_all(self.nodes)
        else:
            trace.mark(order, Evaluation.NOT_SAMPLED)
            trace.mark(visited_slots, Evaluation.EVALUATED)
        self.start = (self.start + len(visited_slots)) % live

    def _unplaced(self, skip: Set[str], pre_filter_message: str = "") -> CycleResult:
        """Run PostFilter and return the result of a cycle in which no node is feasible."""
        trace, total, post_filter_message = self.trace, self._count_nodes(), ""
        if not self.state.skips_post_filter:
            post_filter_message = self.framework.run_post_filter(self.state, self.pod, self.nodes, skip, trace)
        counts = _histogram(trace, self.rules, outside=int(np.count_nonzero(self.nodes.live)) - total)
        message = reasons.format_fit_error(total, counts.items(), pre_filter_message, post_filter_message)
        first = np.where(trace.evaluated, trace.first, -1)
        return replace(
            self.finish(DecisionPath.NONE, message=message),
            rejectors=_filters(trace, first) | {v.plugin for v in trace.pre_filters} | set(trace.restricted_by),
            pending=_filters(trace, first[trace.codes == Code.PENDING]),
        )

    def note_eligible_nodes(self) -> None:
        """Write into the trace the names of the nodes that the pod's own spec does not exclude.

        Nothing is written if they are all evaluated nodes, or more than `MAX_RESTRICTED_TO`.
        """
        trace = self.trace
        left = trace.evaluated.copy()
        for run in trace.filters:
            numbers = [i for i, verdict in enumerate(run.verdicts.table) if _is_excluded_by_pod(verdict)]
            if numbers and run.verdicts.ids is not None:
                left &= ~np.isin(run.verdicts.ids, numbers)
        count = np.count_nonzero(left)
        if 0 < count <= MAX_RESTRICTED_TO and count < np.count_nonzero(trace.evaluated):
            trace.restricted_to = tuple(sorted(self.nodes.names[slot] for slot in np.flatnonzero(left)))

    def _count_nodes(self) -> int:
        """Return the number of nodes in the placement, or of all nodes if there is no placement."""
        live = self.nodes.live
        return int(np.count_nonzero(live if self.placement is None else live & self.placement))


def _filters(trace: Trace, positions: NDArray[np.integer]) -> frozenset[str]:
    """Return the names of the filters at these positions in `trace.filters`; -1 stands for no filter."""
    return frozenset(trace.filters[i].plugin for i in np.unique(positions) if i >= 0)


def _histogram(trace: Trace, rules: Rules, outside: int) -> Counter[str]:
    """Count rejected nodes by message: that of the first filter that rejects an evaluated node, or of PreFilter.

    `outside` is the number of nodes that are not in the placement.
    """
    counts: Counter[str] = Counter()
    evaluated, unnamed = trace.evaluated, 0
    for i, run in enumerate(trace.filters):
        if run.verdicts.ids is None:
            continue
        ids = run.verdicts.ids[evaluated & (trace.first == i)]
        for number, count in enumerate(np.bincount(ids, minlength=len(run.verdicts.table))):
            node_reasons = run.verdicts.table[number].reasons
            unnamed += 0 if node_reasons else int(count)
            for reason in node_reasons if count else ():
                counts[reasons.format_reason(reason, rules.version)] += int(count)
    # Upstream counts nodes without a status; these include nodes that an extender omitted without a message.
    narrowed = max(int((trace.evaluation == Evaluation.RESTRICTED).sum()) - outside, 0) + unnamed
    if trace.restricted_by and narrowed and rules.enabled(NARROWED_NODES_COUNTED):
        plugins = f"[{' '.join(trace.restricted_by)}]"
        counts[reasons.format_reason(Reason("narrowed", {"plugins": plugins}))] += narrowed
    return counts


def _is_excluded_by_pod(verdict: Verdict) -> bool:
    """Return whether a verdict has reasons and all of them are in `EXCLUDED_BY_POD`."""
    return bool(verdict.reasons) and all(reason.code in reasons.EXCLUDED_BY_POD for reason in verdict.reasons)


def _choose(best_slots: NDArray[np.intp], seed: int) -> int:
    """Return one of these slots (row indices of nodes) at random, determined by `seed`."""
    return int(best_slots[random.Random(seed).randrange(len(best_slots)) if len(best_slots) > 1 else 0])
