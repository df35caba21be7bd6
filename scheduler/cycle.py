"""One scheduling cycle: one pod against one snapshot.

Pure: no client, no queue, no wall clock; the seed that draws among equals and where the search starts are passed in.
All that was seen is in the trace of the result. Source: pkg/scheduler/schedule_one.go v1.36 schedulePod.

    PreFilter -> Filter, extenders -> the nominated node, or PostFilter, or the only node, or
    PreScore -> Score, extenders -> draw

Extenders are other processes: they are asked through a protocol, and a cycle without them asks nobody.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import Code, Evaluation, Path, Reason
from scheduler.columns import NodeColumns, Snapshot
from scheduler.framework.answers import message_of
from scheduler.framework.errors import PluginError
from scheduler.framework.extender import ExtenderError
from scheduler.framework.pre_filtering import PreFilterOutcome
from scheduler.framework.runtime import Framework
from scheduler.framework.sampling import nodes_to_find, visited
from scheduler.framework.state import CycleState
from scheduler.framework.trace import FilterRun, Trace
from scheduler.objects.pod import PodInfo


@dataclass(frozen=True)
class CycleResult:
    """What a cycle came to. `chosen` is a slot; `next_start` is where the next cycle's search starts."""

    path: Path
    trace: Trace
    state: CycleState
    chosen: int | None = None
    message: str = ""  # of the FailedScheduling event
    next_start: int = 0
    rejectors: frozenset[str] = frozenset()  # the plugins that must change their mind before another try makes sense
    pending: frozenset[str] = frozenset()  # those of them that said Pending: no backoff once they have


def schedule(framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int, start: int = 0) -> CycleResult:
    """Find a node for the pod. Never raises for what a plugin does: that is `Path.ERROR` with its message."""
    nodes = snapshot.nodes
    trace, state = Trace.start(nodes), CycleState()
    if not len(nodes.order.slots()):
        message = reasons.sentence(Reason("no-nodes"))
        return CycleResult(Path.NONE, trace, state, message=message, next_start=start)
    try:
        result = _schedule(framework, pod, nodes, trace, state, seed, start)
    except (PluginError, ExtenderError) as e:
        result = CycleResult(Path.ERROR, trace, state, message=str(e), next_start=start)
    framework.gather_inputs(state, pod, nodes, trace)
    return result


def _schedule(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, trace: Trace, state: CycleState, seed: int, start: int
) -> CycleResult:
    outcome = framework.run_pre_filter(state, pod, nodes, trace)
    if outcome.rejection is not None:
        message = message_of(outcome.rejection.verdict)
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
        return CycleResult(Path.NOMINATED, trace, state, chosen=slot, next_start=start)
    start = _visit(framework, nodes, order, trace, start)
    error = framework.first_error(trace)
    if error is not None:
        return CycleResult(Path.ERROR, trace, state, message=error, next_start=start)
    for run in framework.run_extender_filters(pod, nodes, trace.feasible, trace):
        trace.narrow(run)
    feasible = trace.feasible
    count = np.count_nonzero(feasible)
    if count == 0:
        return _unplaced(framework, pod, nodes, trace, state, start, outcome.skip)
    if count == 1:
        return CycleResult(Path.ONLY_FEASIBLE, trace, state, chosen=int(feasible.argmax()), next_start=start)
    best = framework.run_scores(state, pod, nodes, feasible, trace)
    return CycleResult(Path.SCORED, trace, state, chosen=_draw(best, seed), next_start=start)


def _narrow(nodes: NodeColumns, outcome: PreFilterOutcome, trace: Trace) -> NDArray[np.intp]:
    """The slots that are left to look at, in visiting order; marks the others."""
    order = nodes.order.slots()
    if outcome.names is None:
        return order
    left = np.array([nodes.names[slot] in outcome.names for slot in order], np.bool_)
    trace.mark(order[~left], Evaluation.NARROWED)
    return order[left]


def _nominated(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, trace: Trace
) -> tuple[int, list[FilterRun]] | None:
    """The slot of status.nominatedNodeName where it passes every filter, and the extenders' columns about it.

    It is taken without looking further. An extender that fails only sends the search on to all nodes; a mark says so.
    """
    name = pod.pod.status.nominated_node_name
    slot = nodes.index.get(name) if name else None
    if slot is None or not nodes.live[slot] or trace.codes[slot] != 0:
        return None
    alone = np.zeros(trace.slots, np.bool_)
    alone[slot] = True
    try:
        runs = framework.run_extender_filters(pod, nodes, alone, trace)
    except ExtenderError:
        return None
    return (slot, runs) if all(run.verdicts.at(slot).code is Code.SUCCESS for run in runs) else None


def _visit(framework: Framework, nodes: NodeColumns, order: NDArray[np.intp], trace: Trace, start: int) -> int:
    """Mark which nodes are evaluated, where sampling ends the search early; where the next search starts."""
    profile = framework.profile
    enough = nodes_to_find(len(order), profile.percentage_of_nodes_to_score)
    if not profile.score and not framework.extenders.filter and not framework.extenders.prioritize:
        enough = 1
    if enough >= len(order):
        turned = order  # every node, so the turn does not matter
    else:
        turned = visited(order, start % len(order), trace.codes == 0, enough)
    live = len(nodes.order.slots())
    if len(turned) == live:
        trace.evaluate_all(nodes)
    else:
        trace.mark(order, Evaluation.NOT_SAMPLED)
        trace.mark(turned, Evaluation.EVALUATED)
    return (start + len(turned)) % live


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
    message = reasons.fit_error(total, _histogram(trace).items(), pre_filter_message, post_filter_message)
    first = np.where(trace.evaluated, trace.first, -1)
    rejectors = _filters(trace, first) | {v.plugin for v in trace.pre_filters} | set(trace.narrowed_by)
    pending = _filters(trace, first[trace.codes == Code.PENDING])
    return CycleResult(Path.NONE, trace, state, message=message, next_start=start, rejectors=rejectors, pending=pending)


def _filters(trace: Trace, positions: NDArray[np.integer]) -> frozenset[str]:
    """Whose filters these are; -1 is none's."""
    return frozenset(trace.filters[i].plugin for i in np.unique(positions) if i >= 0)


def _histogram(trace: Trace) -> Counter[str]:
    """How many nodes gave each reason: an evaluated node's first rejection, a narrowed one's only one."""
    counts: Counter[str] = Counter()
    evaluated, unnamed = trace.evaluated, 0
    for i, run in enumerate(trace.filters):
        if run.verdicts.ids is None:
            continue
        ids = run.verdicts.ids[evaluated & (trace.first == i)]
        for number, count in enumerate(np.bincount(ids, minlength=len(run.verdicts.table))):
            given = run.verdicts.table[number].reasons
            unnamed += 0 if given else int(count)
            for reason in given if count else ():
                counts[reasons.sentence(reason)] += int(count)
    # upstream counts by what is absent from its map: also nodes that an extender left out without a message
    narrowed = int((trace.evaluation == Evaluation.NARROWED).sum()) + unnamed
    if trace.narrowed_by and narrowed:
        plugins = f"[{' '.join(trace.narrowed_by)}]"
        counts[reasons.sentence(Reason("narrowed", {"plugins": plugins}))] += narrowed
    return counts


def _draw(equals: NDArray[np.intp], seed: int) -> int:
    """One of these slots."""
    return int(equals[random.Random(seed).randrange(len(equals)) if len(equals) > 1 else 0])
