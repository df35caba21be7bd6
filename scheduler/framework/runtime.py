"""Runs a profile's plugins at the extension points up to the choice, and writes what they said into the trace.

Owns: order, Skip, the rules of which verdict ends a phase. Does not own: columns and what follows from them
(`filtering`, `scoring`), who need not be asked again (`recall`), the points after the choice (`after_choice`),
sampling, choosing, assuming (`cycle`, `loop`).
Source: pkg/scheduler/framework/runtime/framework.go v1.36.

Invariant: a phase that a plugin ends leaves nothing of the phases after it in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

import numpy as np

from herodotus_record import reasons
from herodotus_record.model import Code, PluginVerdict, Reason, Verdict
from scheduler import klog
from scheduler.columns import NodeColumns
from scheduler.framework.after_choice import AfterChoice
from scheduler.framework.answers import answer, message_of, safely
from scheduler.framework.dry_run import FilterDryRun
from scheduler.framework.errors import PluginError
from scheduler.framework.extender import Extender
from scheduler.framework.extenders import Extenders
from scheduler.framework.filtering import Filterer, Filters, first_failures
from scheduler.framework.inputs import gather, tellers
from scheduler.framework.interface import Mask, PreFilter, Prepare, PreScore
from scheduler.framework.nominated import NOBODY, Nominator
from scheduler.framework.not_built import not_built
from scheduler.framework.pre_filtering import PreFilterOutcome, pre_filtered
from scheduler.framework.profile import Profile
from scheduler.framework.recall import Answers, Recall, Recollection, Slots
from scheduler.framework.scoring import Best, Scorer, Totals
from scheduler.framework.state import CycleState
from scheduler.framework.trace import ABSENT_CODE, FilterRun, Trace
from scheduler.framework.verdicts import ERRORS, error
from scheduler.objects.pod import PodInfo

MARKED: Final = 10  # nodes that a mark names, so that it stays readable


class Framework(AfterChoice):
    """One profile, ready to run."""

    def __init__(
        self,
        profile: Profile,
        clock: Callable[[], float],
        extenders: Sequence[Extender] = (),
        nominator: Nominator = NOBODY,
    ) -> None:
        """`clock`: monotonic seconds, for the durations of phases. Extenders and nominator: the whole scheduler's."""
        super().__init__(profile, Extenders(extenders))
        self._nominator = nominator
        self._clock = clock
        # asked once: the check of a protocol costs as much as a small plugin
        self._filterers = [Filterer(plugin) for plugin in profile.filter]
        self._scorers = [Scorer(plugin, profile.weights[plugin.name]) for plugin in profile.score]
        self._recollection = Recollection()
        self._tellers = tellers(profile)

    def prepare(self, nodes: NodeColumns) -> None:
        """Have every plugin build what it keeps about the cluster. Changes no outcome."""
        profile = self.profile
        plugins = (*profile.pre_filter, *profile.filter, *profile.pre_score, *profile.score)
        for plugin in {plugin.name: plugin for plugin in plugins}.values():
            if isinstance(plugin, Prepare):
                plugin.prepare(nodes)

    # --- before nodes ---------------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: PodInfo) -> PluginVerdict | None:
        """The first plugin that keeps the pod out of the active queue; None when it may enter."""
        for plugin in self.profile.pre_enqueue:
            verdict = safely(lambda plugin=plugin: plugin.pre_enqueue(pod))  # type: ignore[misc]
            if verdict.code is Code.ERROR:  # no attempt will tell of it
                why = message_of(verdict)
                klog.error(why, "Unexpected error running PreEnqueue plugin", pod=pod.full_name, plugin=plugin.name)
            if verdict.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, verdict)
        return None

    def run_pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> PreFilterOutcome:
        """Every PreFilter in order, as far as the phase goes. Last comes what no plugin here knows of (`not_built`)."""

        def settled(plugin: PreFilter, notes: CycleState) -> Verdict | None:
            said = pre_filtered(plugin, notes, pod, nodes)
            return said.verdict if said.node_names is None else None

        plugins, outcome, ended = self.profile.pre_filter, PreFilterOutcome(), None
        with self._timed(trace, "PreFilter"):
            answers = self._recollection.of(pod, nodes).answers("preFilter", lambda: Answers(plugins, pod, settled))
            for number, plugin in answers.others:
                if not outcome.take(plugin.name, pre_filtered(plugin, state, pod, nodes), trace):
                    ended = number
                    break
            answers.tell(outcome.skip, state, ended)
            if outcome.rejection is None and (refused := not_built(pod)) is not None:
                outcome.reject(refused, trace)
        trace.narrowed_by = tuple(sorted(outcome.narrowed_by))
        return outcome

    # --- nodes ----------------------------------------------------------------------------------------------------

    def run_filters(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, skip: set[str], trace: Trace) -> None:
        """Every filter on every node: fills `trace.filters`, and `codes` and `first` for all slots.

        Where pods that go before this one are nominated for a node, it is rejected as if they were there already; where
        it is not, or none are, what counts is the node as it is.
        """
        recall = self._recollection.of(pod, nodes)
        with self._timed(trace, "Filter"):
            reserved = self._reserved(state, pod, nodes, skip, trace) if self._nominator.nodes() else {}
            filters = recall.phase(Filters, skip, lambda: Filters(self._filterers, skip))
            filters.bring(recall, state, pod, nodes, trace)
            trace.filters = filters.runs.copy()
            (trace.codes, trace.first), trace.passed = filters.failures, filters.passed
            if reserved:
                self._reserve(reserved, nodes, trace)

    def _reserve(self, reserved: Mapping[int, Mapping[str, Verdict]], nodes: NodeColumns, trace: Trace) -> None:
        """Put what filters say of some slots, all nominated pods there, into their columns."""
        for i, run in enumerate(trace.filters):
            if not run.skipped:
                told = {slot: by[run.plugin] for slot, by in reserved.items()}
                trace.filters[i] = FilterRun(run.plugin, False, run.verdicts.replaced(told, trace.slots))
        trace.codes, trace.first = first_failures(trace.filters, trace.slots)
        trace.passed = (trace.codes == 0) & nodes.live

    def _reserved(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, skip: set[str], trace: Trace
    ) -> dict[int, dict[str, Verdict]]:
        """What filters say of the nodes that nominated pods leave no room on, by slot and filter."""
        dry_run = FilterDryRun(self.profile, skip, self.extenders, self._nominator, trace.marks)
        reserved = dry_run.with_nominated(state, pod, nodes)
        if reserved:
            rivals = dry_run.rivals(pod, nodes)
            shown = [f"{nodes.names[s]} ({', '.join(r.full_name for r in rivals[s])})" for s in reserved]
            more = f" and {len(shown) - MARKED} more" if len(shown) > MARKED else ""
            trace.marks.append(f"counted as there already, being nominated: {', '.join(shown[:MARKED])}{more}")
        return reserved

    def first_error(self, trace: Trace) -> str | None:
        """The error of an evaluated node whose first verdict that is not Success is Error; None where there is none.

        Wait and Skip mean nothing at Filter: they are errors too.
        """
        if not any(run.verdicts.fails for run in trace.filters):
            return None
        failed = np.flatnonzero(trace.evaluated & np.isin(trace.codes, ERRORS))
        if not len(failed):
            return None
        run = trace.filters[int(trace.first[failed[0]])]
        return f'running "{run.plugin}" filter plugin: {message_of(run.verdicts.at(int(failed[0])))}'

    def run_extender_filters(self, pod: PodInfo, nodes: NodeColumns, left: Mask, trace: Trace) -> list[FilterRun]:
        """What the extenders say of the nodes that are left, one column each. ExtenderError where one must not fail."""
        if not self.extenders.filter:
            return []
        with self._timed(trace, "ExtenderFilter"):
            return self.extenders.run_filters(pod, nodes, left, trace)

    # --- scores ---------------------------------------------------------------------------------------------------

    def run_scores(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace) -> Slots:
        """PreScore, Score, NormalizeScore, weights and extenders' points: fills `scores` and `totals`.

        The feasible slots with the best total, ascending.
        """
        recall = self._recollection.of(pod, nodes)
        skip = self._run_pre_score(recall, state, pod, nodes, feasible, trace)
        with self._timed(trace, "Score"):
            scores = recall.phase(Totals, skip, lambda: Totals(self._scorers, skip))
            scores.bring(recall, state, pod, nodes, feasible)
            trace.scores, trace.totals, best = scores.runs.copy(), scores.totals, scores.best
        if self.extenders.prioritize:
            with self._timed(trace, "ExtenderPrioritize"):
                self.extenders.run_scores(pod, nodes, feasible, trace)
                best = Best(trace.totals, feasible).slots
        return best

    def _run_pre_score(
        self, recall: Recall, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace
    ) -> set[str]:
        """The plugins that give no points."""
        skip: set[str] = set()
        plugins = self.profile.pre_score

        def settled(plugin: PreScore, notes: CycleState) -> Verdict | None:
            return answer(plugin.pre_score(notes, pod, nodes, feasible))

        with self._timed(trace, "PreScore"):
            answers = recall.answers("preScore", lambda: Answers(plugins, pod, settled))
            for _, plugin in answers.others:
                try:
                    verdict = answer(plugin.pre_score(state, pod, nodes, feasible))
                except (Exception, SystemExit) as e:
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {e}') from e
                if verdict.code is Code.SKIP:
                    skip.add(plugin.name)
                elif verdict.code is not Code.SUCCESS:
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {message_of(verdict)}')
                if verdict.reasons:
                    trace.marks.append(f"{plugin.name}: {message_of(verdict)}")
            answers.tell(skip, state)
        return skip

    def gather_inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> None:
        """By which numbers the plugins that were asked decided: fills `inputs`."""
        gather(self._tellers, state, pod, nodes, trace)

    # --- no node left ---------------------------------------------------------------------------------------------

    def run_post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, skip: Set[str], trace: Trace) -> str:
        """Every PostFilter until one succeeds or gives up for good; their message for the pod's event."""
        said: list[Reason] = []
        dry_run = FilterDryRun(self.profile, skip, self.extenders, self._nominator, trace.marks)
        with self._timed(trace, "PostFilter"):
            for plugin in self.profile.post_filter:
                codes = np.where(trace.evaluated, trace.codes, ABSENT_CODE).astype(np.uint8)
                try:
                    result = plugin.post_filter(state, pod, nodes, codes, dry_run)
                    verdict, trace.preemption = result.verdict, result.preemption
                    if result.nomination is not None:
                        trace.nomination, trace.victims = result.nomination, result.victims
                except (Exception, SystemExit) as e:  # does not undo the rejection: it only ends the phase
                    verdict = error(str(e))
                trace.post_filters.append(PluginVerdict(plugin.name, verdict))
                if verdict.code is not Code.UNSCHEDULABLE:
                    return message_of(verdict)
                said.extend(verdict.reasons)
        return ", ".join(reasons.sentence(reason) for reason in said)

    def _timed(self, trace: Trace, phase: str) -> _Timed:
        return _Timed(self._clock, trace.phases_s, phase)


class _Timed:
    """Adds to the duration of a phase."""

    __slots__ = ("_clock", "_phase", "_phases_s", "_start")

    def __init__(self, clock: Callable[[], float], phases_s: dict[str, float], phase: str) -> None:
        self._clock, self._phases_s, self._phase = clock, phases_s, phase

    def __enter__(self) -> None:
        self._start = self._clock()

    def __exit__(self, *raised: object) -> None:
        phases_s = self._phases_s
        phases_s[self._phase] = phases_s.get(self._phase, 0.0) + self._clock() - self._start
