"""Calls the extenders of a scheduler in order and writes their results into the trace.

Source: pkg/scheduler/schedule_one.go v1.36 findNodesThatPassExtenders, prioritizeNodes and extendersBinding;
pkg/scheduler/framework/preemption/preemption.go callExtenders.

Invariant: an extender gets only nodes that passed everything before it, and can only reject some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import numpy as np

from herodotus_record import klog
from herodotus_record.model import NOT_RUN, SUCCESS, PluginVerdict, Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.extender import (
    Extender,
    ExtenderError,
    ExtenderVictims,
    FilteredNodes,
    HostPriorities,
    PreemptionCandidate,
    RemainingCandidates,
)
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Mask
from scheduler.engine.framework.score_inputs import expand_to_slots
from scheduler.engine.framework.trace import FilterRun, InputRun, ScoreRun, Trace
from scheduler.engine.framework.verdicts import PASS, SKIP, Verdicts, error, unresolvable, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node

MAX_EXTENDER_PRIORITY: Final = 10
STRETCH: Final = MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY
MAX_SCORE: Final = 1 << 16  # a larger score is an error, and its sums would overflow the histories

_IGNORED: Final = "Skipping extender as it returned error and has ignorable flag set"
_UNNAMED: Final = unresolvable()  # the verdict on a node that the result omits without a message


class Extenders:
    """All extenders of one scheduler, which it calls in order, ignorable ones last.

    It applies their results to nodes and to the trace.
    """

    def __init__(self, extenders: Sequence[Extender]) -> None:
        self._all = sorted(extenders, key=lambda extender: extender.ignorable)
        self.filter = any(extender.filters for extender in self._all)
        self.prioritize = any(extender.prioritizes for extender in self._all)

    def run_filters(self, pod: PodInfo, nodes: NodeColumns, left: Mask, trace: Trace) -> list[FilterRun]:
        """Call the filtering extenders in order until no node is left; return each extender's verdicts as a column.

        `left` is the mask of feasible nodes. Failures are appended to `trace.notes`, the problems that the record
        shows. Raises ExtenderError if an extender fails that is not ignorable.
        """
        runs: list[FilterRun] = []
        for extender in self._all:
            if not extender.filters:
                continue
            if not left.any():
                break
            answer = None
            if extender.interested(pod):
                with _tolerant(extender, "filter", trace.notes):
                    answer = extender.filter(pod, _nodes(nodes, left))
            if answer is None:
                runs.append(FilterRun(extender.name, True, PASS))
                continue
            _add_inputs(extender, answer.inputs, left, trace)
            verdicts = _verdicts(answer, nodes.names, left)
            runs.append(FilterRun(extender.name, False, verdicts))
            left = left & (verdicts.codes(len(left)) == 0)
        return runs

    def run_scores(self, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace) -> None:
        """Call the scoring extenders in parallel; append their scores to `trace.scores` and add them to `trace.totals`.

        An extender that fails adds no scores, whether it is ignorable or not.
        """
        scorers = [extender for extender in self._all if extender.prioritizes]
        candidates = _nodes(nodes, feasible)

        def prioritize(extender: Extender) -> HostPriorities | ExtenderError | None:
            try:
                return _prioritize(extender, pod, candidates) if extender.interested(pod) else None
            except ExtenderError as e:
                klog.info(
                    5,
                    "Failed to run extender's priority function. No score given by this extender.",
                    error=str(e),
                    pod=pod.full_name,
                    extender=extender.name,
                )
                return e

        if not scorers:
            return
        with ThreadPoolExecutor(len(scorers), thread_name_prefix="prioritize") as pool:
            answers = list(pool.map(prioritize, scorers))
        for extender, answer in zip(scorers, answers, strict=True):
            trace.scores.append(_scored(extender, answer, nodes, feasible, trace))

    def binds(self, pod: PodInfo) -> bool:
        """Return whether an extender, and not a Bind plugin, binds this pod."""
        return any(extender.binds and extender.interested(pod) for extender in self._all)

    def run_bind(self, pod: PodInfo, node: str) -> PluginVerdict:
        """Bind the pod through the first extender that supports it; return Success with the extender's name.

        Returns Skip if no extender binds the pod or only ignorable ones failed. If another extender fails, returns an
        error with an empty plugin name.
        """
        for extender in self._all:
            if not extender.binds or not extender.interested(pod):
                continue
            try:
                extender.bind(pod, node)
                return PluginVerdict(extender.name, SUCCESS)
            except ExtenderError as e:
                if not extender.ignorable:
                    klog.error(e, "Extender failed to bind pod", extender=extender.name, pod=pod.full_name)
                    return PluginVerdict("", error(str(e)))
                klog.info(0, _IGNORED, extender=extender.name, verb="bind", pod=pod.full_name, err=str(e))
        return PluginVerdict("", SKIP)

    def run_preempt(
        self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[PreemptionCandidate], notes: list[Reason]
    ) -> RemainingCandidates:
        """Return the preemption candidates that remain after all interested extenders, and those that were removed.

        Failures are appended to `notes`, the problems that the record shows. Raises ExtenderError if an extender that
        is not ignorable fails, or returns an unknown pod or node.
        """
        remaining = {c.node: c for c in candidates}
        refused: list[tuple[PreemptionCandidate, str]] = []
        for extender in self._all:
            if not remaining:
                break
            if not extender.preempts or not extender.interested(pod):
                continue
            with _tolerant(extender, "preempt", notes):
                answer = extender.preempt(pod, tuple(remaining.values()))
                left = {node: victims for node, s in answer.items() if (victims := _victims(extender, node, s, nodes))}
                refused += [(c, extender.name) for node, c in remaining.items() if node not in left]
                remaining = left
        return RemainingCandidates(tuple(remaining.values()), tuple(refused))


@contextmanager
def _tolerant(extender: Extender, verb: str, notes: list[Reason]) -> Iterator[None]:
    """Suppress an ExtenderError in the context if the extender is ignorable, and append any failure to `notes`.

    `notes` holds the problems that the record of the attempt shows.
    """
    try:
        yield
    except ExtenderError as e:
        code = "extender-ignored" if extender.ignorable else "extender-failed"
        notes.append(Reason(code, {"extender": extender.name, "verb": verb, "error": str(e)}))
        if not extender.ignorable:
            raise
        klog.info(0, _IGNORED, extender=extender.name, verb=verb, err=str(e))


def _nodes(nodes: NodeColumns, mask: Mask) -> list[Node]:
    return [node for slot in np.flatnonzero(mask).tolist() if (node := nodes.nodes[slot]) is not None]


def _verdicts(answer: FilteredNodes, names: Sequence[str], requested: Mask) -> Verdicts:
    """Return the extender's response as a verdict column, with NOT_RUN on nodes that were not in the request.

    A requested node that the response does not mention is rejected without a message.
    """
    number = {SUCCESS: 0, NOT_RUN: 1}
    ids = (~requested).astype(np.uint32)  # every node may have a message of its own
    for slot in np.flatnonzero(requested).tolist():
        name = names[slot]
        if name in answer.passed:
            continue
        if name in answer.unresolvable:
            verdict = unresolvable(_reason(answer.unresolvable[name]))
        elif name in answer.failed:
            verdict = unschedulable(_reason(answer.failed[name]))
        else:
            verdict = _UNNAMED
        ids[slot] = number.setdefault(verdict, len(number))
    return Verdicts(tuple(number), ids)


def _reason(message: str) -> Reason:
    return Reason("text", {"text": message})


def _prioritize(extender: Extender, pod: PodInfo, nodes: Sequence[Node]) -> HostPriorities:
    """Return the extender's scores. Raises ExtenderError if the extender fails or a score exceeds ±`MAX_SCORE`."""
    answer = extender.prioritize(pod, nodes)
    if any(abs(score) > MAX_SCORE for score in answer.points.values()):
        raise ExtenderError(f"gave a score beyond {MAX_SCORE}, expected 0 to {MAX_EXTENDER_PRIORITY}")
    for node, score in answer.points.items():
        klog.info(10, "Extender scored node for pod", pod=pod.full_name, extender=extender.name, node=node, score=score)
    return answer


def _scored(
    extender: Extender, answer: HostPriorities | ExtenderError | None, nodes: NodeColumns, feasible: Mask, trace: Trace
) -> ScoreRun:
    if isinstance(answer, ExtenderError):
        trace.notes.append(Reason("extender-no-points", {"extender": extender.name, "error": str(answer)}))
    if not isinstance(answer, HostPriorities):
        return ScoreRun(extender.name, extender.weight, extender=True)
    raw = np.zeros(trace.slots, np.int64)
    for node, score in answer.points.items():
        slot = nodes.index.get(node)
        if slot is not None and feasible[slot]:
            raw[slot] = score
    _add_inputs(extender, answer.inputs, feasible, trace)
    assert trace.totals is not None
    trace.totals = trace.totals + raw * (STRETCH * extender.weight)
    return ScoreRun(extender.name, extender.weight, raw, raw * STRETCH, extender=True)


def _add_inputs(extender: Extender, reported: Sequence[NodeInputs], requested: Mask, trace: Trace) -> None:
    """Add the measurements that an extender reports to the trace, except from sources that it reported before."""
    slots = np.flatnonzero(requested)
    before = {run.inputs.source for run in trace.inputs if run.plugin == extender.name}
    try:
        runs = [
            InputRun(extender.name, expand_to_slots(one, slots, trace.slots))
            for one in reported
            if one.source not in before
        ]
    except ValueError as e:
        trace.notes.append(Reason("extender-inputs", {"extender": extender.name, "error": str(e)}))
    else:
        trace.inputs += runs


def _victims(
    extender: Extender, node: str, sacrifice: ExtenderVictims, nodes: NodeColumns
) -> PreemptionCandidate | None:
    """Return the preemption candidate for a node that the extender accepted, with the victims that it chose.

    Returns None if an ignorable extender chose no victims. Raises ExtenderError if another extender chose none, or if
    the node or a victim is unknown.
    """
    slot = nodes.index.get(node)
    if slot is None or not nodes.live[slot]:
        raise ExtenderError(f'nodeinfo not found for node name "{node}"')
    if not sacrifice.uids:
        if extender.ignorable:
            return None
        raise ExtenderError(f'expected at least one victim pod on node "{node}"')
    pods = []
    for uid in sacrifice.uids:
        if uid not in nodes.pods[slot]:
            raise ExtenderError(
                f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node},"
                " but the pod is not found on that node"
            )
        pods.append(nodes.pods[slot][uid])
    return PreemptionCandidate(node, tuple(pods), sacrifice.pdb_violations)
