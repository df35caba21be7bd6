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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import Code, DecisionPath, Evaluation, Reason
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.framework.errors import PluginError
from scheduler.engine.framework.extender import ExtenderError
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.pre_filtering import PreFilterOutcome
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.sampling import num_feasible_nodes_to_find, select_visited_slots
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import FilterRun, Trace
from scheduler.engine.objects.pod import PodInfo


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
    """
    nodes = snapshot.nodes
    trace, state = Trace.start(nodes), CycleState()
    if not len(nodes.order.slots()):
        message = reasons.format_reason(Reason("no-nodes"))
        return CycleResult(DecisionPath.NONE, trace, state, message=message, next_start=start)
    try:
        result = _schedule(framework, pod, nodes, trace, state, seed, start)
    except (PluginError, ExtenderError) as e:
        result = CycleResult(DecisionPath.ERROR, trace, state, message=str(e), next_start=start)
    framework.gather_inputs(state, pod, nodes, trace)
    return result


def _schedule(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, trace: Trace, state: CycleState, seed: int, start: int
) -> CycleResult:
    outcome = framework.run_pre_filter(state, pod, nodes, trace)
    if outcome.rejection is not None:
        message = join_reasons(outcome.rejection.verdict)
        return _unplaced(framework, pod, nodes, trace, state, start, outcome.skip, message)
    order = _narrow(nodes, outcome, trace)
    framework.run_filters(state, pod, nodes, outcome.skip, trace)
    nominated = _nominated(framework, pod, nodes, trace)
    if nominated is not None:
        slot, runs = nominated
        trace.mark(order, Evaluation.NOT_NEEDED)
        trace.mark(slot, Evaluation.EVALUATED)
        for run in runs:
            trace.narrow(run)
        return CycleResult(DecisionPath.NOMINATED, trace, state, chosen=slot, next_start=start)
    start = _visit(framework, nodes, order, trace, start)
    error = framework.first_error(trace)
    if error is not None:
        return CycleResult(DecisionPath.ERROR, trace, state, message=error, next_start=start)
    for run in framework.run_extender_filters(pod, nodes, trace.feasible, trace):
        trace.narrow(run)
    feasible = trace.feasible
    count = np.count_nonzero(feasible)
    if count == 0:
        return _unplaced(framework, pod, nodes, trace, state, start, outcome.skip)
    if count == 1:
        return CycleResult(DecisionPath.ONLY_FEASIBLE, trace, state, chosen=int(feasible.argmax()), next_start=start)
    best = framework.run_scores(state, pod, nodes, feasible, trace)
    return CycleResult(DecisionPath.SCORED, trace, state, chosen=_choose(best, seed), next_start=start)


def _narrow(nodes: NodeColumns, outcome: PreFilterOutcome, trace: Trace) -> NDArray[np.intp]:
    """Return the slots of the nodes that PreFilter leaves, in visiting order; mark the others in the trace."""
    order = nodes.order.slots()
    if outcome.names is None:
        return order
    left = np.array([nodes.names[slot] in outcome.names for slot in order], np.bool_)
    trace.mark(order[~left], Evaluation.NARROWED)
    return order[left]


def _nominated(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, trace: Trace
) -> tuple[int, list[FilterRun]] | None:
    """Return the slot (row index) of the pod's nominated node with the extenders' verdicts, if the node is feasible.

    The cycle then chooses this node without evaluating others. The result is None if the node is not feasible or an
    extender fails.
    """
    name = pod.pod.status.nominated_node_name
    slot = nodes.index.get(name) if name else None
    if slot is None or not nodes.live[slot] or trace.codes[slot] != 0:
        return None
    only_slot = np.zeros(trace.slots, np.bool_)
    only_slot[slot] = True
    try:
        runs = framework.run_extender_filters(pod, nodes, only_slot, trace)
    except ExtenderError:
        return None
    return (slot, runs) if all(run.verdicts.verdict_at(slot).code is Code.SUCCESS for run in runs) else None


def _visit(framework: Framework, nodes: NodeColumns, order: NDArray[np.intp], trace: Trace, start: int) -> int:
    """Mark the evaluated nodes in the trace, which are fewer than all with sampling.

    Returns the position in the visiting order at which the next cycle starts its search.
    """
    profile = framework.profile
    enough = num_feasible_nodes_to_find(len(order), profile.percentage_of_nodes_to_score)
    if not profile.score and not framework.extenders.filter and not framework.extenders.prioritize:
        enough = 1
    if enough >= len(order):
        visited_slots = order  # every node, so the order does not matter
    else:
        visited_slots = select_visited_slots(order, start % len(order), trace.codes == 0, enough)
    live = len(nodes.order.slots())
    if len(visited_slots) == live:
        trace.evaluate_all(nodes)
    else:
        trace.mark(order, Evaluation.NOT_SAMPLED)
        trace.mark(visited_slots, Evaluation.EVALUATED)
    return (start + len(visited_slots)) % live


def _unplaced(
    framework: Framework,
    pod: PodInfo,
    nodes: NodeColumns,
    trace: Trace,
    state: CycleState,
    start: int,
    skip: Set[str],
    pre_filter_message: str = "",
) -> CycleResult:
    total = int(np.count_nonzero(nodes.live))
    post_filter_message = framework.run_post_filter(state, pod, nodes, skip, trace)
    message = reasons.format_fit_error(total, _histogram(trace).items(), pre_filter_message, post_filter_message)
    first = np.where(trace.evaluated, trace.first, -1)
    rejectors = _filters(trace, first) | {v.plugin for v in trace.pre_filters} | set(trace.narrowed_by)
    pending = _filters(trace, first[trace.codes == Code.PENDING])
    return CycleResult(
        DecisionPath.NONE, trace, state, message=message, next_start=start, rejectors=rejectors, pending=pending
    )


def _filters(trace: Trace, positions: NDArray[np.integer]) -> frozenset[str]:
    """Return the names of the filters at these positions in `trace.filters`; -1 stands for no filter."""
    return frozenset(trace.filters[i].plugin for i in np.unique(positions) if i >= 0)


def _histogram(trace: Trace) -> Counter[str]:
    """Count rejected nodes by message: that of the first filter that rejects an evaluated node, or of PreFilter."""
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
                counts[reasons.format_reason(reason)] += int(count)
    # Upstream counts nodes without a status; these include nodes that an extender omitted without a message.
    narrowed = int((trace.evaluation == Evaluation.NARROWED).sum()) + unnamed
    if trace.narrowed_by and narrowed:
        plugins = f"[{' '.join(trace.narrowed_by)}]"
        counts[reasons.format_reason(Reason("narrowed", {"plugins": plugins}))] += narrowed
    return counts


def _choose(best_slots: NDArray[np.intp], seed: int) -> int:
    """Return one of these slots (row indices of nodes) at random, determined by `seed`."""
    return int(best_slots[random.Random(seed).randrange(len(best_slots)) if len(best_slots) > 1 else 0])
