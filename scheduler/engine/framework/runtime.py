"""The framework of one profile: runs plugins from PreEnqueue to Score and PostFilter, and fills the trace.

`filtering` and `scoring` derive columns from the results, `reserve_and_bind` runs the later extension points, and
`cycle` samples and chooses. Source: pkg/scheduler/framework/runtime/framework.go v1.36.

Invariant: if a plugin ends a phase, the trace holds nothing of later phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from herodotus_record import klog, reasons
from herodotus_record.model import Code, PluginVerdict, Reason, ScoreReasons, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.dry_run import FilterDryRun
from scheduler.engine.framework.equivalence_cache import EquivalenceCache, PluginStateMemo, Slots, find_cache_revision
from scheduler.engine.framework.extender import Extender
from scheduler.engine.framework.extenders import Extenders
from scheduler.engine.framework.filtering import FilterPhase, FilterRunner, find_first_failures
from scheduler.engine.framework.interface import (
    DeviceReporter,
    Mask,
    PreFilter,
    Prepare,
    PreparePod,
    PreScore,
    RejectionReporter,
    ScoreReporter,
    Scores,
)
from scheduler.engine.framework.nominated import NO_NOMINATIONS, Nominator
from scheduler.engine.framework.plugin_results import (
    PluginError,
    call_plugin,
    check_result,
    filter_status,
    join_reasons,
)
from scheduler.engine.framework.pre_filtering import PreFilterOutcome, find_unsupported_feature, run_plugin_pre_filter
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.reserve_and_bind import ReserveAndBindPlugins
from scheduler.engine.framework.score_inputs import find_input_reporters, gather_inputs
from scheduler.engine.framework.scoring import BestNodes, ScorePhase, ScoreRunner
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import ABSENT_CODE, FilterRun, Trace
from scheduler.engine.framework.verdicts import ERRORS, error
from scheduler.engine.objects.pod import PodInfo

_BELOW_ALL: Final = -(1 << 63)  # no total
MAX_SCORE_REASONS: Final = 8  # of a plugin for a node: users write any number of terms
MAX_NOTED_NODES: Final = 10  # a record names the nominated pods of so many nodes, so that it stays readable


class Framework(ReserveAndBindPlugins):
    """The framework of one profile: runs plugins and extenders, and writes their results into the trace.

    It reuses results of earlier pods with the same spec (`EquivalenceCache`).
    """

    def __init__(
        self,
        profile: Profile,
        clock: Callable[[], float],
        extenders: Sequence[Extender] = (),
        nominator: Nominator = NO_NOMINATIONS,
    ) -> None:
        """Prepare the plugins of `profile`.

        `clock` returns monotonic seconds, by which phases are measured. All profiles share `extenders` and `nominator`.
        """
        super().__init__(profile, Extenders(extenders))
        self.nominator = nominator
        self._clock = clock
        # Checking a protocol costs as much as running a small plugin, so it is done once.
        self._filter_runners = [FilterRunner(plugin) for plugin in profile.filter]
        self._score_runners = [ScoreRunner(plugin, profile.weights[plugin.name]) for plugin in profile.score]
        self._equivalence_cache = EquivalenceCache()
        plugins = {plugin.name: plugin for plugin in (*profile.filter, *profile.score)}.values()
        self._preparing = [plugin for plugin in plugins if isinstance(plugin, PreparePod)]
        self._discarding = [plugin for plugin in plugins if getattr(plugin, "discards_cache_for", ())]
        self._cache_revision = 0
        self._input_reporters = find_input_reporters(profile)
        self._rejection_reporters = {p.name: p for p in profile.filter if isinstance(p, RejectionReporter)}
        self._score_reporters = {p.name: p for p in profile.score if isinstance(p, ScoreReporter)}
        self._device_reporters = [plugin for plugin in profile.reserve if isinstance(plugin, DeviceReporter)]

    def without_caches(self, profile: Profile, *, extenders: bool) -> Framework:
        """Return a framework for `profile`, an equal profile with new plugins, that has cached nothing yet.

        It shares the nominated pods, and the extenders if `extenders` is True; otherwise it has none.
        """
        fresh = Framework(profile, self._clock, (), self.nominator)
        if extenders:
            fresh.extenders = self.extenders
        return fresh

    def clear_cache(self) -> None:
        """Discard the cached results of earlier pods."""
        self._equivalence_cache = EquivalenceCache()

    def prepare(self, nodes: NodeColumns) -> None:
        """Let the plugins build their data before the first cycle.

        Also sets how `nodes` counts pods: by the rule for the profile's version of Kubernetes.
        """
        profile = self.profile
        nodes.count_pods_as(profile.rules.pod_counting)
        plugins = (*profile.pre_filter, *profile.filter, *profile.pre_score, *profile.score)
        for plugin in {plugin.name: plugin for plugin in plugins}.values():
            if isinstance(plugin, Prepare):
                plugin.prepare(nodes)

    def prepare_pod(self, pod: PodInfo, nodes: NodeColumns, has_time: Callable[[], bool]) -> bool:
        """Let plugins with `PreparePod` count, before the pod's cycle, the pods that its terms select.

        They stop when `has_time` returns False. Returns whether all is counted. The decision is the same without this
        call.
        """
        return all(plugin.prepare_pod(pod, nodes, has_time) for plugin in self._preparing)

    # --- before nodes ---------------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: PodInfo) -> PluginVerdict | None:
        """Return the first plugin that does not let the pod into the active queue, with its verdict; None if all do."""
        for plugin in self.profile.pre_enqueue:
            verdict = call_plugin(lambda plugin=plugin: plugin.pre_enqueue(pod))  # type: ignore[misc]
            if verdict.code is Code.ERROR:  # no record shows it, because there is no attempt
                message = join_reasons(verdict)
                klog.error(message, "Unexpected error running PreEnqueue plugin", pod=pod.full_name, plugin=plugin.name)
            if verdict.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, verdict)
        return None

    def run_pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> PreFilterOutcome:
        """Run the PreFilter plugins in order; return a rejection, or the nodes to evaluate and the filters to skip.

        A pod that no plugin rejects is rejected if it needs a feature that this scheduler does not support.
        """

        def run(plugin: PreFilter, memo_state: CycleState) -> Verdict | None:
            result = run_plugin_pre_filter(plugin, memo_state, pod, nodes)
            return result.verdict if result.node_names is None else None

        revision = find_cache_revision(self._discarding)
        if revision != self._cache_revision:
            self._cache_revision = revision
            self.clear_cache()
        plugins, outcome, ended = self.profile.pre_filter, PreFilterOutcome(), None
        with self._timed(trace, "PreFilter"):
            memo = self._equivalence_cache.get(pod, nodes).get_memo(
                "preFilter", lambda: PluginStateMemo(plugins, pod, run)
            )
            for position, plugin in memo.uncached:
                if not outcome.add(plugin.name, run_plugin_pre_filter(plugin, state, pod, nodes), trace):
                    ended = position
                    break
            memo.apply(outcome.skip, state, ended)
            refused = find_unsupported_feature(pod, is_pod_group_cycle=state.is_pod_group_cycle)
            if outcome.rejection is None and refused is not None:
                outcome.reject(refused, trace)
        trace.restricted_by = tuple(sorted(outcome.restricted_by))
        return outcome

    # --- nodes ----------------------------------------------------------------------------------------------------

    def run_filters(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, skip: set[str], trace: Trace) -> None:
        """Run every filter that is not in `skip` on every node, and write the results into the trace.

        Sets `trace.filters` and, for all node slots, `codes`, `first` and `passed`. A node for which pods of the same
        or a higher priority are nominated is filtered twice, with and without these pods, and must pass both times.
        """
        entry = self._equivalence_cache.get(pod, nodes)
        with self._timed(trace, "Filter"):
            rejected = self._reject_for_nominated(state, pod, nodes, skip, trace) if self.nominator.nodes() else {}
            filters = entry.get_phase(FilterPhase, skip, lambda: FilterPhase(self._filter_runners, skip))
            filters.refresh(entry, state, pod, nodes, trace)
            trace.filters_without_nominated = trace.filters = filters.runs.copy()
            (trace.codes, trace.first), trace.passed = filters.failures, filters.passed
            if rejected:
                self._merge_verdicts(rejected, nodes, trace)

    def _merge_verdicts(self, rejected: Mapping[int, Mapping[str, Verdict]], nodes: NodeColumns, trace: Trace) -> None:
        """Replace the verdicts in the trace on nodes that are rejected because of nominated pods.

        `rejected` maps node slot to filter name to verdict.
        """
        trace.filters = trace.filters.copy()
        for i, run in enumerate(trace.filters):
            if not run.skipped:
                verdicts = {slot: by_plugin[run.plugin] for slot, by_plugin in rejected.items()}
                trace.filters[i] = FilterRun(run.plugin, False, run.verdicts.with_verdicts(verdicts, trace.slots))
        trace.codes, trace.first = find_first_failures(trace.filters, trace.slots)
        trace.passed = (trace.codes == 0) & nodes.live

    def _reject_for_nominated(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, skip: set[str], trace: Trace
    ) -> dict[int, dict[str, Verdict]]:
        """Return the verdicts on nodes that are rejected because of nominated pods.

        The result maps node slot to filter name to verdict. The nominated pods are added to the trace's notes, which
        the record shows.
        """
        dry_run = FilterDryRun(self.profile, skip, self.extenders, self.nominator, trace.notes)
        rejected = dry_run.filter_with_nominated(state, pod, nodes)
        if rejected:
            nominated = dry_run.nominated_pods(pod, nodes)
            rejected = {slot: _name_nominated(by_plugin, nominated[slot]) for slot, by_plugin in rejected.items()}
            for slot in list(rejected)[:MAX_NOTED_NODES]:
                pods = ", ".join(other.full_name for other in nominated[slot])
                trace.notes.append(Reason("nominated-pods", {"node": nodes.names[slot], "nominated": pods}))
            if len(rejected) > MAX_NOTED_NODES:
                trace.notes.append(Reason("nominated-more", {"count": str(len(rejected) - MAX_NOTED_NODES)}))
        return rejected

    def first_error(self, trace: Trace) -> str | None:
        """Return the error message of the first evaluated node whose first failing filter returned an error.

        Returns None if there is no such node.
        """
        if not any(run.verdicts.fails for run in trace.filters):
            return None
        failed = np.flatnonzero(trace.evaluated & np.isin(trace.codes, ERRORS))
        if not len(failed):
            return None
        run = trace.filters[int(trace.first[failed[0]])]
        return join_reasons(filter_status(run.plugin, run.verdicts.verdict_at(int(failed[0]))))

    def run_extender_filters(self, pod: PodInfo, nodes: NodeColumns, left: Mask, trace: Trace) -> list[FilterRun]:
        """Call the filtering extenders with the nodes of the mask `left`; return each extender's verdicts as a column.

        Raises ExtenderError if an extender fails that is not ignorable.
        """
        if not self.extenders.filter:
            return []
        with self._timed(trace, "ExtenderFilter"):
            return self.extenders.run_filters(pod, nodes, left, trace)

    # --- scores ---------------------------------------------------------------------------------------------------

    def run_scores(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace) -> Slots:
        """Run PreScore, Score, NormalizeScore and the extenders' prioritize: fill `trace.scores` and `trace.totals`.

        Returns the slots of the feasible nodes with the highest total, ascending.
        """
        entry = self._equivalence_cache.get(pod, nodes)
        skip = self._run_pre_score(state, pod, nodes, feasible, trace)
        with self._timed(trace, "Score"):
            scores = entry.get_phase(ScorePhase, skip, lambda: ScorePhase(self._score_runners, skip))
            scores.refresh(entry, state, pod, nodes, feasible)
            trace.scores, trace.totals, best = scores.runs.copy(), scores.totals, scores.best
        if self.extenders.prioritize:
            with self._timed(trace, "ExtenderPrioritize"):
                self.extenders.run_scores(pod, nodes, feasible, trace)
                best = BestNodes(trace.totals, feasible).slots
        return best

    def _run_pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace
    ) -> set[str]:
        """Run PreScore and return the names of the plugins whose Score is skipped. Raises PluginError on failure."""
        skip: set[str] = set()
        plugins = self.profile.pre_score

        def run(plugin: PreScore, memo_state: CycleState) -> Verdict | None:
            return check_result(plugin.pre_score(memo_state, pod, nodes, feasible))

        with self._timed(trace, "PreScore"):
            entry = self._equivalence_cache.get(pod, nodes)
            memo = entry.get_memo("preScore", lambda: PluginStateMemo(plugins, pod, run))
            for _, plugin in memo.uncached:
                try:
                    verdict = check_result(plugin.pre_score(state, pod, nodes, feasible))
                except (Exception, SystemExit) as e:
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {e}') from e
                if verdict.code is Code.SKIP:
                    skip.add(plugin.name)
                elif verdict.code is not Code.SUCCESS:
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {join_reasons(verdict)}')
                if verdict.reasons:
                    trace.notes.append(Reason("plugin-said", {"plugin": plugin.name, "error": join_reasons(verdict)}))
            memo.apply(skip, state)
        return skip

    def gather_inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> None:
        """Collect what the plugins of this cycle report for the record: measurements and devices."""
        gather_inputs(self._input_reporters, state, pod, nodes, trace)
        for plugin in self._device_reporters:
            trace.list_devices = partial(plugin.list_devices, state, pod)

    def explain_rejections(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> None:
        """Let each filter with `RejectionReporter` add parameters, for readers of the record, to its reasons.

        Changes `trace.filters`. If a filter raises, its reasons stay unchanged, and the error is added to
        `trace.notes`.
        """
        runs = list(trace.filters)
        for position, run in enumerate(runs):
            reporter = self._rejection_reporters.get(run.plugin)
            if reporter is None or run.skipped or run.verdicts.ids is None:
                continue
            try:
                explained = reporter.explain_rejections(state, pod, nodes, run.verdicts)
            except (Exception, SystemExit) as e:
                trace.notes.append(Reason("plugin-inputs", {"plugin": run.plugin, "error": str(e)}))
                continue
            if explained is not run.verdicts:
                runs[position] = FilterRun(run.plugin, False, explained)
        trace.filters = runs

    def explain_scores(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace, best: int
    ) -> None:
        """Write into `trace.score_reasons` why the chosen slot `best` and the next best node have their scores.

        Only plugins with `ScoreReporter` are called whose normalized scores of the two nodes differ, or without which
        another node would be ahead of both. If one raises, its reasons are missing, and the error is added to
        `trace.notes`.
        """
        if trace.totals is None:
            return
        totals = np.where(feasible, trace.totals, _BELOW_ALL)
        totals[best] = _BELOW_ALL
        next_best = int(totals.argmax())
        explained: list[ScoreReasons] = []
        for run in trace.scores:
            reporter, points = self._score_reporters.get(run.plugin), run.normalized
            if reporter is None or points is None:
                continue
            if points[best] == points[next_best] and not _is_ahead(trace.totals - run.weight * points, feasible, best):
                continue
            try:
                for slot in (best, next_best):
                    found = tuple(reporter.explain_score(state, pod, nodes, slot)[:MAX_SCORE_REASONS])
                    explained.append(ScoreReasons(run.plugin, nodes.names[slot], found))
            except (Exception, SystemExit) as e:
                trace.notes.append(Reason("plugin-inputs", {"plugin": run.plugin, "error": str(e)}))
        trace.score_reasons = tuple(explained)

    # --- no node left ---------------------------------------------------------------------------------------------

    def run_post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, skip: Set[str], trace: Trace) -> str:
        """Run the PostFilter plugins until one returns anything but Unschedulable; write the results into the trace.

        Returns the message for the pod's event.
        """
        collected: list[Reason] = []
        dry_run = FilterDryRun(self.profile, skip, self.extenders, self.nominator, trace.notes)
        with self._timed(trace, "PostFilter"):
            for plugin in self.profile.post_filter:
                codes = np.where(trace.evaluated, trace.codes, ABSENT_CODE).astype(np.uint8)
                try:
                    result = plugin.post_filter(state, pod, nodes, codes, dry_run)
                    verdict, trace.preemption = result.verdict, result.preemption
                    if result.nomination is not None:
                        trace.nomination, trace.victims = result.nomination, result.victims
                except (Exception, SystemExit) as e:  # the pod stays rejected; only the phase ends
                    verdict = error(str(e))
                trace.post_filters.append(PluginVerdict(plugin.name, verdict))
                if verdict.code is not Code.UNSCHEDULABLE:
                    return join_reasons(verdict, self.profile.rules.version)
                collected.extend(verdict.reasons)
        return ", ".join(reasons.format_reason(reason, self.profile.rules.version) for reason in collected)

    def _timed(self, trace: Trace, phase: str) -> _Timed:
        return _Timed(self._clock, trace.phases_s, phase)


class _Timed:
    """A context manager that adds the duration of its block, in seconds, to the entry of a phase in `phases_s`."""

    __slots__ = ("_clock", "_phase", "_phases_s", "_start")

    def __init__(self, clock: Callable[[], float], phases_s: dict[str, float], phase: str) -> None:
        self._clock, self._phases_s, self._phase = clock, phases_s, phase

    def __enter__(self) -> None:
        self._start = self._clock()

    def __exit__(self, *raised: object) -> None:
        phases_s = self._phases_s
        phases_s[self._phase] = phases_s.get(self._phase, 0.0) + self._clock() - self._start


def _is_ahead(totals: Scores, feasible: Mask, best: int) -> bool:
    """Return whether a feasible node has a higher total than the slot `best`."""
    return bool(totals[feasible].max() > totals[best])


def _name_nominated(by_plugin: Mapping[str, Verdict], pods: Sequence[PodInfo]) -> dict[str, Verdict]:
    """Add, to each reason for a lacking resource, the amount of it that the node's nominated `pods` request.

    Returns the verdicts on the node by filter name, like `by_plugin`.
    """
    return {
        plugin: replace(verdict, reasons=tuple(_add_kept_amount(reason, pods) for reason in verdict.reasons))
        for plugin, verdict in by_plugin.items()
    }


def _add_kept_amount(reason: Reason, pods: Sequence[PodInfo]) -> Reason:
    if reason.code == "too-many-pods":
        kept = len(pods)
    elif reason.code == "insufficient":
        pods = [pod for pod in pods if pod.requests.get(reason.params["resource"])]
        kept = sum(pod.requests[reason.params["resource"]] for pod in pods)
    else:
        return reason
    names = ", ".join(pod.full_name for pod in pods)
    return Reason(reason.code, {**reason.params, "kept": str(kept), "nominated": names}) if kept else reason
