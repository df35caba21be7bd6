"""Asks the extenders of a scheduler, in order, and writes what they said into the trace.

Owns: who is asked (interest, the verbs it has), what an answer means for the nodes, what a failure means for the
attempt. Does not own: one extender's conversation (`extender.Extender`), where in a cycle they are asked (`cycle`).

Source: pkg/scheduler/schedule_one.go v1.36 findNodesThatPassExtenders, prioritizeNodes and extendersBinding;
pkg/scheduler/framework/preemption/preemption.go callExtenders.

Invariant: an extender sees only nodes that everything before it let pass, and an answer can only take from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import numpy as np

from herodotus_record.model import NOT_RUN, SUCCESS, PluginVerdict, Reason
from scheduler import klog
from scheduler.columns import NodeColumns
from scheduler.formulas.inputs import Inputs
from scheduler.framework.extender import Agreement, Extender, ExtenderError, Filtered, Prioritized, Sacrifice, Victims
from scheduler.framework.inputs import spread
from scheduler.framework.interface import MAX_NODE_SCORE, Mask
from scheduler.framework.trace import FilterRun, InputRun, ScoreRun, Trace
from scheduler.framework.verdicts import PASS, SKIP, Verdicts, error, unresolvable, unschedulable
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node

MAX_EXTENDER_PRIORITY: Final = 10
STRETCH: Final = MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY
MAX_SCORE: Final = 1 << 16  # beyond, an answer is a mistake, and sums over it would not fit the histories any more

_IGNORED: Final = "Skipping extender as it returned error and has ignorable flag set"
_UNNAMED: Final = unresolvable()  # a node that an answer leaves out without a word


class Extenders:
    """All extenders of one scheduler; those that may be ignored come last."""

    def __init__(self, extenders: Sequence[Extender]) -> None:
        self._all = sorted(extenders, key=lambda extender: extender.ignorable)
        self.filter = any(extender.filters for extender in self._all)
        self.prioritize = any(extender.prioritizes for extender in self._all)

    def run_filters(self, pod: PodInfo, nodes: NodeColumns, left: Mask, trace: Trace) -> list[FilterRun]:
        """One column for each extender that filters, until no node is left. ExtenderError where one must not fail.

        `left`: the feasible nodes. The columns are the caller's to keep; the trace's marks say what failed.
        """
        runs: list[FilterRun] = []
        for extender in self._all:
            if not extender.filters:
                continue
            if not left.any():
                break
            answer = None
            if extender.interested(pod):
                with _tolerant(extender, "filter", trace.marks):
                    answer = extender.filter(pod, _nodes(nodes, left))
            if answer is None:
                runs.append(FilterRun(extender.name, True, PASS))
                continue
            _tell(extender, answer.inputs, left, trace)
            verdicts = _verdicts(answer, nodes.names, left)
            runs.append(FilterRun(extender.name, False, verdicts))
            left = left & (verdicts.codes(len(left)) == 0)
        return runs

    def run_scores(self, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace) -> None:
        """Ask all at once and add their points to `trace.totals`. One that fails gives none, ignorable or not."""
        scorers = [extender for extender in self._all if extender.prioritizes]
        asked = _nodes(nodes, feasible)

        def points(extender: Extender) -> Prioritized | ExtenderError | None:
            try:
                return extender.prioritize(pod, asked) if extender.interested(pod) else None
            except ExtenderError as e:
                return e

        if not scorers:
            return
        with ThreadPoolExecutor(len(scorers), thread_name_prefix="prioritize") as pool:
            answers = list(pool.map(points, scorers))
        for extender, answer in zip(scorers, answers, strict=True):
            trace.scores.append(_scored(extender, answer, pod, nodes, feasible, trace))

    def binds(self, pod: PodInfo) -> bool:
        """Whether one of them would bind such a pod."""
        return any(extender.binds and extender.interested(pod) for extender in self._all)

    def run_bind(self, pod: PodInfo, node: str) -> PluginVerdict:
        """The first interested extender that binds; Skip where none does. A failure bears no plugin's name."""
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
        self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[Victims], marks: list[str]
    ) -> Agreement:
        """What is left of the candidates when every interested extender has had its say.

        ExtenderError where one fails that may not, or names pods or nodes that are not there.
        """
        kept = {c.node: c for c in candidates}
        refused: list[tuple[Victims, str]] = []
        for extender in self._all:
            if not kept:
                break
            if not extender.preempts or not extender.interested(pod):
                continue
            with _tolerant(extender, "preempt", marks):
                answer = extender.preempt(pod, tuple(kept.values()))
                left = {node: found for node, s in answer.items() if (found := _victims(extender, node, s, nodes))}
                refused += [(c, extender.name) for node, c in kept.items() if node not in left]
                kept = left
        return Agreement(tuple(kept.values()), tuple(refused))


@contextmanager
def _tolerant(extender: Extender, verb: str, marks: list[str]) -> Iterator[None]:
    """Go on where the extender fails and may be ignored. Its failure is in the record either way."""
    try:
        yield
    except ExtenderError as e:
        marks.append(f"extender {extender.name} failed to {verb}{', ignored' if extender.ignorable else ''}: {e}")
        if not extender.ignorable:
            raise
        klog.info(0, _IGNORED, extender=extender.name, verb=verb, err=str(e))


def _nodes(nodes: NodeColumns, mask: Mask) -> list[Node]:
    return [node for slot in np.flatnonzero(mask).tolist() if (node := nodes.nodes[slot]) is not None]


def _verdicts(answer: Filtered, names: Sequence[str], asked: Mask) -> Verdicts:
    """The answer as a column. What it says of other nodes than those that it was asked about is not heard."""
    number = {SUCCESS: 0, NOT_RUN: 1}
    ids = (~asked).astype(np.uint32)  # every node may have a message of its own
    for slot in np.flatnonzero(asked).tolist():
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


def _scored(
    extender: Extender,
    answer: Prioritized | ExtenderError | None,
    pod: PodInfo,
    nodes: NodeColumns,
    feasible: Mask,
    trace: Trace,
) -> ScoreRun:
    if isinstance(answer, Prioritized) and any(abs(score) > MAX_SCORE for score in answer.points.values()):
        answer = ExtenderError(f"gave a score beyond {MAX_SCORE}, expected 0 to {MAX_EXTENDER_PRIORITY}")
    if isinstance(answer, ExtenderError):
        klog.info(
            5,
            "Failed to run extender's priority function. No score given by this extender.",
            error=str(answer),
            pod=pod.full_name,
            extender=extender.name,
        )
        trace.marks.append(f"extender {extender.name} failed to prioritize, gave no points: {answer}")
    if not isinstance(answer, Prioritized):
        return ScoreRun(extender.name, extender.weight, extender=True)
    raw = np.zeros(trace.slots, np.int64)
    for node, score in answer.points.items():
        klog.info(10, "Extender scored node for pod", pod=pod.full_name, extender=extender.name, node=node, score=score)
        slot = nodes.index.get(node)
        if slot is not None and feasible[slot]:
            raw[slot] = score
    _tell(extender, answer.inputs, feasible, trace)
    assert trace.totals is not None
    trace.totals = trace.totals + raw * (STRETCH * extender.weight)
    return ScoreRun(extender.name, extender.weight, raw, raw * STRETCH, extender=True)


def _tell(extender: Extender, told: Sequence[Inputs], asked: Mask, trace: Trace) -> None:
    """Put what an extender says it went by into the trace; of two questions in one cycle, what is new."""
    where = np.flatnonzero(asked)
    before = {run.inputs.source for run in trace.inputs if run.plugin == extender.name}
    try:
        runs = [InputRun(extender.name, spread(one, where, trace.slots)) for one in told if one.source not in before]
    except ValueError as e:
        trace.marks.append(f"extender {extender.name}: what it went by is not recorded: {e}")
    else:
        trace.inputs += runs


def _victims(extender: Extender, node: str, sacrifice: Sacrifice, nodes: NodeColumns) -> Victims | None:
    """The pods behind the UIDs; None where there are none and the extender may be ignored."""
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
    return Victims(node, tuple(pods), sacrifice.pdb_violations)
