"""Runs a profile's plugins at each extension point and writes what they said into the trace.

Owns: order, Skip, the rules of which verdict ends a phase. Does not own: columns and what follows from them
(`filtering`, `scoring`), sampling, choosing, assuming (`cycle`, `loop`).
Source: pkg/scheduler/framework/runtime/framework.go v1.36.

Invariant: a phase that a plugin ends leaves nothing of the phases after it in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from herodotus_record import reasons
from herodotus_record.model import Code, PluginVerdict, Reason, Verdict
from scheduler import klog
from scheduler.columns import NodeColumns
from scheduler.framework.dry_run import FilterDryRun
from scheduler.framework.errors import PluginError
from scheduler.framework.extender import Extender
from scheduler.framework.extenders import Extenders
from scheduler.framework.filtering import ERRORS, Filtered, Filterer, failures_of, first_failures
from scheduler.framework.inputs import gather, tellers
from scheduler.framework.interface import (
    BindAtOnce,
    Mask,
    PreBindPreFlight,
    Prepare,
)
from scheduler.framework.nominated import NOBODY, Nominator
from scheduler.framework.not_built import not_built
from scheduler.framework.profile import Profile
from scheduler.framework.recall import Place, Recollection
from scheduler.framework.scoring import Scorer, Weighed, totals
from scheduler.framework.state import CycleState
from scheduler.framework.trace import ABSENT_CODE, FilterRun, Trace
from scheduler.framework.verdicts import Deferred, Pending, Wait, error
from scheduler.objects.pod import PodInfo

Said = TypeVar("Said")

MARKED: Final = 10  # nodes that a mark names, so that it stays readable


class Framework:
    """One profile, ready to run."""

    def __init__(
        self,
        profile: Profile,
        clock: Callable[[], float],
        extenders: Sequence[Extender] = (),
        nominator: Nominator = NOBODY,
    ) -> None:
        """`clock`: monotonic seconds, for the durations of phases. Extenders and nominator: the whole scheduler's."""
        self.profile = profile
        self.extenders = Extenders(extenders)
        self._nominator = nominator
        self._clock = clock
        # asked once: the check of a protocol costs as much as a small plugin
        self._filterers = [Filterer(plugin) for plugin in profile.filter]
        self._scorers = [Scorer(plugin, profile.weights[plugin.name]) for plugin in profile.score]
        self._recollection = Recollection()
        self._binds_at_once = all(isinstance(b, BindAtOnce) and b.binds_at_once for b in profile.bind)
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
            verdict = _safely(lambda plugin=plugin: plugin.pre_enqueue(pod))  # type: ignore[misc]
            if verdict.code is Code.ERROR:  # no attempt will tell of it
                why = message_of(verdict)
                klog.error(why, "Unexpected error running PreEnqueue plugin", pod=pod.full_name, plugin=plugin.name)
            if verdict.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, verdict)
        return None

    def run_pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> PreFilterOutcome:
        """Every PreFilter in order. UnschedulableAndUnresolvable ends the phase, Unschedulable only decides it.

        Last comes what no plugin here knows of (`not_built`).
        """
        outcome = PreFilterOutcome()
        with self._timed(trace, "PreFilter"):
            for plugin in self.profile.pre_filter:
                try:
                    result = plugin.pre_filter(state, pod, nodes)
                    verdict, names = result.verdict, result.node_names
                except (Exception, SystemExit) as e:
                    verdict, names = error(str(e)), None
                if verdict.code is Code.SKIP:
                    outcome.skip.add(plugin.name)
                elif verdict.code is Code.SUCCESS:
                    if names is not None:
                        outcome.narrow(plugin.name, names)
                else:
                    outcome.rejection = PluginVerdict(plugin.name, verdict)
                    trace.pre_filters.append(outcome.rejection)
                    if verdict.code not in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                        raise PluginError(f'running PreFilter plugin "{plugin.name}": {message_of(verdict)}')
                    if verdict.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                        break
                if outcome.names is not None and not outcome.names:
                    outcome.rejection = outcome.disjoint()
                    trace.pre_filters.append(outcome.rejection)
                    break
            if outcome.rejection is None and (refused := not_built(pod)) is not None:
                outcome.rejection = refused
                trace.pre_filters.append(refused)
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
            filtered: list[Filtered | None] = []
            for filterer in self._filterers:
                if filterer.name in skip:
                    trace.filters.append(filterer.skipped)
                    filtered.append(None)
                    continue
                try:
                    kept = filterer.run(recall, state, pod, nodes, trace)
                except (Exception, SystemExit) as e:
                    raise PluginError(f'running "{filterer.name}" filter plugin: {e}') from e
                run = kept.column
                if reserved:
                    told = {slot: by[filterer.name] for slot, by in reserved.items()}
                    run = FilterRun(filterer.name, False, run.verdicts.replaced(told, trace.slots))
                trace.filters.append(run)
                filtered.append(kept)
            failures = first_failures(trace.filters, trace.slots) if reserved else failures_of(recall, filtered, trace)
        trace.codes, trace.first = failures.codes, failures.first

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
        if not any(verdict.code in ERRORS for run in trace.filters for verdict in run.verdicts.table):
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

    def run_scores(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace) -> None:
        """PreScore, Score, NormalizeScore, weights and extenders' points: fills `scores` and `totals`."""
        skip = self._run_pre_score(state, pod, nodes, feasible, trace)
        recall = self._recollection.of(pod, nodes)
        mask = recall.place("feasible", Place[Mask])
        mask.settle(feasible)
        with self._timed(trace, "Score"):
            weighed: list[Weighed] = []
            for scorer in self._scorers:
                if scorer.name in skip:
                    trace.scores.append(scorer.skipped)
                else:
                    weighed.append(scorer.run(recall, state, pod, nodes, mask))
                    trace.scores.append(weighed[-1].run)
            trace.totals = totals(recall, weighed)
        if self.extenders.prioritize:
            with self._timed(trace, "ExtenderPrioritize"):
                self.extenders.run_scores(pod, nodes, feasible, trace)

    def _run_pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask, trace: Trace
    ) -> set[str]:
        """The plugins that give no points."""
        skip = set()
        with self._timed(trace, "PreScore"):
            for plugin in self.profile.pre_score:
                try:
                    verdict = _answer(plugin.pre_score(state, pod, nodes, feasible))
                except (Exception, SystemExit) as e:
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {e}') from e
                if verdict.code is Code.SKIP:
                    skip.add(plugin.name)
                elif verdict.code is not Code.SUCCESS:
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {message_of(verdict)}')
                if verdict.reasons:
                    trace.marks.append(f"{plugin.name}: {message_of(verdict)}")
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

    # --- after the choice -----------------------------------------------------------------------------------------

    def run_reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | None:
        """Every Reserve in order; the first that fails, or None. What was reserved stays: see `run_unreserve`."""
        return self._until_failure(self.profile.reserve, lambda p: p.reserve(state, pod, node))

    def run_unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo every reservation, in reverse order; one that raises does not keep the others from it."""
        for plugin in reversed(self.profile.reserve):
            try:
                plugin.unreserve(state, pod, node)
            except (Exception, SystemExit) as e:
                klog.error(e, "Unreserve failed", plugin=plugin.name, pod=pod.full_name, node=node)

    def run_permit(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | dict[str, float]:
        """Every Permit in order; the first that refuses, or how long each of those that ask to wait will wait."""
        waits: dict[str, float] = {}
        for plugin in self.profile.permit:
            said = _safely(lambda plugin=plugin: plugin.permit(state, pod, node))  # type: ignore[misc]
            if isinstance(said, Wait):
                waits[plugin.name] = said.timeout_s
            elif said.code is Code.WAIT:
                return PluginVerdict(plugin.name, error("said Wait without a time-out"))
            elif said.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, said)
        return waits

    def run_pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Whether some PreBind will have something to do."""
        for plugin in self.profile.pre_bind:
            if not isinstance(plugin, PreBindPreFlight):
                return True
            said = _safely(lambda plugin=plugin: plugin.pre_bind_pre_flight(state, pod, node))  # type: ignore[misc]
            if said.code is not Code.SKIP:
                return True
        return False

    def run_pre_bind(
        self, state: CycleState, pod: PodInfo, node: str, done: int = 0
    ) -> PluginVerdict | tuple[int, Pending] | None:
        """Every PreBind but the first `done`, in order, until one fails.

        None when all are through; where one is pending, its number and what it waits for.
        """
        for number, plugin in enumerate(self.profile.pre_bind[done:], done):
            said = _safely(lambda plugin=plugin: plugin.pre_bind(state, pod, node))  # type: ignore[misc]
            if isinstance(said, Pending):
                return number, said
            if said.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, said)
        return None

    def binds_at_once(self, pod: PodInfo) -> bool:
        """Whether `run_bind` only sends a request, and so needs no thread to wait in."""
        return self._binds_at_once and not self.extenders.binds(pod)

    def run_bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | Deferring | None:
        """The extender that binds such pods, else Bind plugins until one does not Skip; the failure, or None."""
        by_extender = self.extenders.run_bind(pod, node)
        if by_extender.verdict.code is not Code.SKIP:
            return None if by_extender.verdict.code is Code.SUCCESS else by_extender
        for plugin in self.profile.bind:
            said = _safely(lambda plugin=plugin: plugin.bind(state, pod, node))  # type: ignore[misc]
            if isinstance(said, Deferred):
                return Deferring(plugin.name, said)
            if said.code is not Code.SKIP:
                return None if said.code is Code.SUCCESS else PluginVerdict(plugin.name, said)
        raise PluginError("no Bind plugin took the pod")

    def run_post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Every PostBind."""
        for plugin in self.profile.post_bind:
            plugin.post_bind(state, pod, node)

    @staticmethod
    def _until_failure(plugins: tuple[Any, ...], call: Callable[[Any], Verdict]) -> PluginVerdict | None:
        for plugin in plugins:
            verdict = _safely(lambda plugin=plugin: call(plugin))  # type: ignore[misc]
            if verdict.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, verdict)
        return None

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


@dataclass(frozen=True)
class Deferring:
    """A Bind plugin, and its request that nobody waits for."""

    plugin: str
    deferred: Deferred

    def begin(self, done: Callable[[PluginVerdict | None], None]) -> None:
        """Send it. `done` is told the failure, or None."""
        plugin = self.plugin
        self.deferred.begin(lambda said: done(None if said.code is Code.SUCCESS else PluginVerdict(plugin, said)))


class PreFilterOutcome:
    """What the PreFilter phase came to: a rejection, plugins to skip, and the nodes that are left (None: all)."""

    def __init__(self) -> None:
        self.rejection: PluginVerdict | None = None
        self.skip: set[str] = set()
        self.names: frozenset[str] | None = None
        self.narrowed_by: list[str] = []

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Keep only the nodes that this plugin names too."""
        self.narrowed_by.append(plugin)
        self.names = names if self.names is None else self.names & names

    def disjoint(self) -> PluginVerdict:
        """The rejection when no node is left."""
        plugins = sorted(self.narrowed_by)
        if len(plugins) == 1:
            reason = Reason("narrowed-empty", {"plugin": plugins[0]})
        else:
            reason = Reason("narrowed-disjoint", {"plugins": f"[{' '.join(plugins)}]"})
        return PluginVerdict(plugins[-1], Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))


def message_of(verdict: Verdict) -> str:
    """A status's message: its reasons joined as kube-scheduler joins them."""
    return ", ".join(reasons.sentence(reason) for reason in verdict.reasons)


def _safely(call: Callable[[], Said]) -> Said | Verdict:
    """What the plugin says, or the error that it raises."""
    try:
        return _answer(call())
    except (Exception, SystemExit) as e:
        return error(str(e))


def _answer(said: Said) -> Said:
    """What was said; TypeError where it is no answer, as from a method without `return`."""
    if not isinstance(said, Verdict | Wait | Pending | Deferred):
        raise TypeError(f"answered {said!r}, which is no Verdict")
    return said
