"""Verification of cached results: every Nth decision is computed again without any cache and compared.

The scheduler reuses results of earlier pods according to what plugins declare to depend on
(`framework.equivalence_cache`). A wrong declaration would schedule, and record, wrongly. Verification finds it: new
plugins evaluate the pod on rebuilt columns, so that no cache of the framework, the plugins or the columns takes part.

Invariant: if the results differ, the decision is the one that was computed without caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import DecisionPath, Evaluation
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule, schedule_group_member
from scheduler.engine.framework.interface import Scores
from scheduler.engine.framework.plugin_results import PluginError
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.trace import FilterRun, ScoreRun, Trace
from scheduler.engine.framework.verdicts import Verdicts
from scheduler.engine.objects.pod import PodInfo

MAX_NAMED_NODES: Final = 5  # of each difference, so that a log line stays readable


@dataclass(frozen=True)
class CacheDifference:
    """A plugin's result that differs between a cycle with caches and its computation without them.

    `nodes` names the first nodes that differ; it is empty if the result is not one of nodes.
    """

    plugin: str  # or, for the point "NodeColumns", the name of a column
    point: str  # the extension point, such as "Filter"
    nodes: tuple[str, ...] = ()


class CacheVerifier:
    """Computes every Nth decision again without caches."""

    def __init__(
        self,
        every: int,
        profiles: Mapping[str, Callable[[], Profile]],
        report: Callable[[PodInfo, Sequence[CacheDifference]], None],
    ) -> None:
        """Prepare to verify every Nth decision; `every` is N, at least 1.

        `profiles` maps a scheduler name to a function that builds its profile anew. `report` is called after each
        verification with the pod and the differences, which may be none.
        """
        self._every = every
        self._profiles = profiles
        self._report = report
        self._decisions = 0

    def schedule(self, framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int, start: int) -> CycleResult:
        """Return the result of `cycle.schedule`, or of a cycle without caches if it is verified and differs.

        After a difference, the framework's cached results are discarded.
        """
        return self._verify(framework, pod, snapshot, lambda by, nodes: schedule(by, pod, nodes, seed, start))

    def schedule_group_member(
        self, framework: Framework, pod: PodInfo, snapshot: Snapshot, seed: int, start: int
    ) -> CycleResult:
        """Return the result of `cycle.schedule_group_member`, verified as that of `schedule`."""
        return self._verify(
            framework, pod, snapshot, lambda by, nodes: schedule_group_member(by, pod, nodes, seed, start)
        )

    def _verify(
        self,
        framework: Framework,
        pod: PodInfo,
        snapshot: Snapshot,
        decide: Callable[[Framework, Snapshot], CycleResult],
    ) -> CycleResult:
        result = decide(framework, snapshot)
        self._decisions += 1
        if self._decisions % self._every:
            return result
        new_profile, nodes = self._profiles[framework.profile.scheduler_name], snapshot.nodes.rebuilt()
        differences = compare_columns(snapshot.nodes, nodes)
        differences += find_differences(framework.without_caches(new_profile(), extenders=False), pod, nodes, result)
        self._report(pod, differences)
        if not differences:
            return result
        framework.clear_cache()
        again = Snapshot.from_columns(nodes, snapshot.placement)
        return decide(framework.without_caches(new_profile(), extenders=True), again)


def compare_columns(cached: NodeColumns, rebuilt: NodeColumns) -> list[CacheDifference]:
    """Return a difference for each node column that does not equal the same column rebuilt from the nodes and pods.

    `plugin` is the name of the column, and `point` is "NodeColumns".
    """
    differences: list[CacheDifference] = []
    for column, differs in cached.find_differences(rebuilt).items():
        differences += _compare_nodes(column, "NodeColumns", differs, cached)
    return differences


def find_differences(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, result: CycleResult
) -> list[CacheDifference]:
    """Run the plugins of `framework`, which must have no extenders, and compare their results with those of a cycle.

    `nodes` must hold the nodes of the cycle's snapshot in the same slots. If extenders took part in the cycle, scores
    are computed for the nodes that the extenders left, and PostFilter is not compared.
    """
    cached = result.trace
    if result.path is DecisionPath.ERROR and not cached.filters:
        return []  # a plugin failed before it returned anything that could be compared
    trace, state = Trace.start(nodes), result.state.for_repetition()
    try:
        outcome = framework.run_pre_filter(state, pod, nodes, trace)
        if outcome.rejection is None:
            trace.mark(np.flatnonzero(cached.evaluation == Evaluation.RESTRICTED), Evaluation.RESTRICTED)
            framework.run_filters(state, pod, nodes, outcome.skip, trace)
        trace.evaluation = cached.evaluation
        if cached.scores:
            framework.run_scores(state, pod, nodes, cached.feasible, trace)
        elif cached.post_filters and len(cached.filters) == len(trace.filters):
            framework.run_post_filter(state, pod, nodes, outcome.skip, trace)
        if result.path is DecisionPath.NONE:
            framework.explain_rejections(state, pod, nodes, trace)
    except PluginError as e:
        return [CacheDifference(str(e), "error")]
    differences = [] if cached.pre_filters == trace.pre_filters else [CacheDifference("", "PreFilter")]
    if cached.restricted_by != trace.restricted_by:
        differences.append(CacheDifference("", "PreFilter"))
    for filter_run, again in zip(cached.filters, trace.filters, strict=False):  # extenders follow the plugins
        differences += _compare_nodes(filter_run.plugin, "Filter", _verdicts_differ(filter_run, again, nodes), nodes)
    for score_run, repeated in zip(cached.scores, trace.scores, strict=False):
        differs = _scores_differ(score_run, repeated) & cached.feasible
        differences += _compare_nodes(score_run.plugin, "Score", differs, nodes)
    if trace.post_filters and _preemption(trace) != _preemption(cached):
        differences.append(CacheDifference(cached.post_filters[-1].plugin, "PostFilter"))
    return differences


def _compare_nodes(plugin: str, point: str, differs: NDArray[np.bool_], nodes: NodeColumns) -> list[CacheDifference]:
    """Return one difference that names the first nodes of the mask `differs`, or an empty list if no node differs."""
    slots = np.flatnonzero(differs)
    names = tuple(nodes.names[slot] for slot in slots[:MAX_NAMED_NODES])
    return [CacheDifference(plugin, point, names)] if len(slots) else []


def _verdicts_differ(one: FilterRun, other: FilterRun, nodes: NodeColumns) -> NDArray[np.bool_]:
    """Return the mask of the nodes on which two runs of a filter have different verdicts."""
    if one.skipped != other.skipped:
        return nodes.live
    differs = np.zeros(nodes.slots, np.bool_)
    pairs, numbers = np.unique([_ids(one.verdicts, nodes), _ids(other.verdicts, nodes)], axis=1, return_inverse=True)
    for number, (first, second) in enumerate(pairs.T.tolist()):
        if one.verdicts.table[first] != other.verdicts.table[second]:
            differs |= numbers.reshape(-1) == number
    return differs & nodes.live


def _ids(verdicts: Verdicts, nodes: NodeColumns) -> NDArray[np.integer]:
    return np.zeros(nodes.slots, np.uint8) if verdicts.ids is None else verdicts.ids


def _scores_differ(one: ScoreRun, other: ScoreRun) -> NDArray[np.bool_]:
    """Return the mask of the nodes whose raw or normalized score differs between two runs of a score plugin."""
    return _column_differs(one.raw, other.raw) | _column_differs(one.normalized, other.normalized)


def _column_differs(one: Scores | None, other: Scores | None) -> NDArray[np.bool_]:
    if one is None or other is None:
        return np.array(one is not other)
    differs: NDArray[np.bool_] = one != other
    return differs


def _preemption(trace: Trace) -> tuple[object, ...]:
    return trace.post_filters, trace.preemption, trace.nomination, [pod.uid for pod in trace.victims]
