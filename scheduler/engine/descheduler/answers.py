"""The answer to what the descheduler would do: its evictions now, and where the successors of the pods land.

    answer_deschedule(state, question, report, classes, seed) -> DescheduleReview, notes

The first run takes nodes and pods in the order of their names. The descheduler takes them in a random order, so that it
may evict another one of equal pods: further runs with random orders say for each pod in how many of them it is evicted.

Owns: the runs of all profiles, and the answer. Does not own: the rules of the plugins and the evictor, decisions on the
successors (`whatif.simulation`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from herodotus_answers.cluster_questions import DescheduleQuestion
from herodotus_answers.descheduling import (
    ENDS,
    MOVES,
    REFUSED,
    RETURNS,
    STAYS_PENDING,
    UNKNOWN,
    DescheduledPod,
    DeschedulePlugin,
    DescheduleReview,
    EvictionVerdict,
    NonEviction,
)
from herodotus_answers.plans import MAX_TIME_S
from scheduler.engine.descheduler.cluster import SeenCluster
from scheduler.engine.descheduler.duplicates import remove_duplicates
from scheduler.engine.descheduler.eviction import DefaultEvictor, DeschedulerRun, Eviction
from scheduler.engine.descheduler.node_utilization import balance_high, balance_low
from scheduler.engine.descheduler.plugin_run import PluginRun
from scheduler.engine.descheduler.policy import (
    VERSION,
    AffinityViolationArgs,
    DeschedulePolicyError,
    HighNodeUtilizationArgs,
    InterPodAntiAffinityArgs,
    LowNodeUtilizationArgs,
    NodeTaintsArgs,
    PluginArgs,
    Policy,
    RemoveDuplicatesArgs,
    TopologySpreadArgs,
    parse_policy,
)
from scheduler.engine.descheduler.topology_spread import balance_domains
from scheduler.engine.descheduler.violations import (
    remove_affinity_violations,
    remove_anti_affinity_violations,
    remove_taint_violations,
)
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.time_limit import TimeLimit, TimeOverError
from scheduler.engine.progress import ProgressReport
from scheduler.engine.whatif.owners import find_workload
from scheduler.engine.whatif.pods import PriorityClass
from scheduler.engine.whatif.simulation import Simulation, WhatIfState

RUNS: Final = 20
DESCHEDULED: Final = "Descheduled"  # why a successor needs a node
_FEW_NODES: Final = "the descheduler does nothing with fewer than two ready nodes"


@dataclass(frozen=True)
class _Outcome:
    """One run: its evictions in order, its plugins in order, and why plugins do not evict the pods of the question."""

    run: DeschedulerRun
    plugins: list[PluginRun]


class Descheduler:
    """The descheduler with a policy on a state, which runs leave as it is."""

    def __init__(
        self,
        state: WhatIfState,
        policy: Policy,
        classes: dict[str, PriorityClass] | None,
        check: Callable[[], None],
        now: float,
    ) -> None:
        """`check` may raise TimeOverError within a run; `now` is the time in seconds since 1970."""
        self._state, self._policy, self._classes, self._now = state, policy, classes, now
        self._budgets = state.build_budgets()
        self.cluster = SeenCluster(state, check)
        self._ready = self.cluster.select_ready(policy.node_selector)

    def run(self, rng: random.Random | None = None, asked: frozenset[str] = frozenset()) -> _Outcome:
        """Run all profiles: their deschedule plugins first, then their balance plugins.

        `rng` shuffles what the descheduler takes in a random order. Raises DeschedulePolicyError for a priority class
        that does not exist.
        """
        run = DeschedulerRun(self.cluster, self._budgets.copy(), self._policy, rng, asked)
        profiles, plugins = self._policy.profiles, list[PluginRun]()
        evictors = [
            DefaultEvictor(profile.evictor, run, self._state.objects, self._classes, self._now) for profile in profiles
        ]
        for stage in ([each.deschedule for each in profiles], [each.balance for each in profiles]):
            for profile, evictor, enabled in zip(profiles, evictors, stage, strict=True):
                for name, args in enabled:
                    plugin = PluginRun(run, evictor, run.arrange(self._ready), profile.name, name)
                    plugins.append(plugin)
                    if len(self._ready) <= 1:
                        plugin.summary = _FEW_NODES
                    elif args is not None:
                        _run_plugin(plugin, args)
        return _Outcome(run, plugins)


def _run_plugin(plugin: PluginRun, args: PluginArgs) -> None:
    match args:
        case LowNodeUtilizationArgs():
            balance_low(plugin, args)
        case HighNodeUtilizationArgs():
            balance_high(plugin, args)
        case RemoveDuplicatesArgs():
            remove_duplicates(plugin, args)
        case TopologySpreadArgs():
            balance_domains(plugin, args)
        case NodeTaintsArgs():
            remove_taint_violations(plugin, args)
        case AffinityViolationArgs():
            remove_affinity_violations(plugin, args)
        case InterPodAntiAffinityArgs():
            remove_anti_affinity_violations(plugin, args)


def answer_deschedule(
    state: WhatIfState,
    question: DescheduleQuestion,
    report: ProgressReport,
    classes: dict[str, PriorityClass] | None,
    seed: int,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[DescheduleReview, list[str]]:
    """Return what the descheduler would do, with notes; `state` changes to what follows.

    Raises DeschedulePolicyError for an invalid policy or an unknown pod, or if the time is over before the first run
    ends.
    """
    if not 0.1 <= question.time_limit_seconds <= MAX_TIME_S:
        raise DeschedulePolicyError(
            f"timeLimitSeconds: expected 0.1 to {MAX_TIME_S:g}, got {question.time_limit_seconds:g}"
        )
    policy, limit = parse_policy(question.policy), TimeLimit(question.time_limit_seconds, clock, report)
    descheduler = Descheduler(state, policy, classes, limit.check, time.time())
    pods = _find_pods(descheduler.cluster, question.pods)
    try:
        first = descheduler.run(asked=frozenset(pod.uid for pod in pods))
    except TimeOverError as e:
        raise DeschedulePolicyError(f"no run of the descheduler ended within {question.time_limit_seconds:g} s") from e
    counts, runs = Counter(first.run.evicted), 1
    with suppress(TimeOverError), limit.share(0.5):
        for number in range(1, RUNS):
            counts.update(descheduler.run(random.Random(number)).run.evicted)
            runs += 1
    landed = _follow_successors(state, first.run.evictions, limit, seed)
    args = {
        (profile.name, name): args
        for profile in policy.profiles
        for name, args in (*profile.deschedule, *profile.balance)
    }
    return {
        "version": VERSION,
        "plugins": [
            _describe_plugin(each, args[each.profile, each.plugin] is not None, first.run) for each in first.plugins
        ],
        "evictions": [_describe_eviction(each, state, counts, landed) for each in first.run.evictions],
        "pods": [_explain_pod(pod, first, counts) for pod in pods],
        "runs": runs,
        "others": len(counts.keys() - first.run.evicted),
        "seconds": round(limit.elapsed_s, 3),
        "endedBy": limit.ended,
    }, policy.notes


def _find_pods(cluster: SeenCluster, names: list[str]) -> list[PodInfo]:
    found = {pod.full_name: pod for node in cluster.nodes for pod in node.pods if pod.full_name in names}
    for name in names:
        if name not in found:
            raise DeschedulePolicyError(f'no node has a pod "{name}"')
    return [found[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True)
class _Landing:
    """What became of an evicted pod's successor."""

    outcome: str
    node: str = ""
    message: str = ""


def _follow_successors(
    state: WhatIfState, evictions: list[Eviction], limit: TimeLimit, seed: int
) -> dict[tuple[str, str], _Landing]:
    """Evict the pods from the state, schedule their successors, and return where they land by the pods' full names.

    All evicted pods are gone before a successor is scheduled. Returns nothing if the time is over.
    """
    simulation = Simulation(state, lambda *_progress: limit.check(), seed)
    evicted = [each for each in evictions if not each.refusal]
    for each in evicted:
        simulation.budgets.evict(each.pod.pod)
        simulation.evict(each.pod, each.node, DESCHEDULED)
    try:
        limit.check()
        simulation.settle()
    except TimeOverError:
        return {}
    landed = {(each["namespace"], each["name"]): _Landing(ENDS) for each in simulation.list_ended()}
    for placed in simulation.list_placements()[0]:
        node = placed["node"]
        outcome = STAYS_PENDING if not node else RETURNS if node == placed["fromNode"] else MOVES
        landed[placed["namespace"], placed["name"]] = _Landing(outcome, node, placed["reason"])
    return landed


def _describe_eviction(
    each: Eviction, state: WhatIfState, counts: Counter[str], landed: dict[tuple[str, str], _Landing]
) -> DescheduledPod:
    workload = find_workload(each.pod.pod, state.objects)
    landing = landed.get((each.pod.namespace, each.pod.name), _Landing(UNKNOWN))
    if each.refusal:
        landing = _Landing(REFUSED)
    return {
        "namespace": each.pod.namespace,
        "name": each.pod.name,
        "owner": "" if workload is None else str(workload),
        "node": each.node,
        "profile": each.profile,
        "plugin": each.plugin,
        "reason": each.reason,
        "outcome": landing.outcome,
        "refusal": each.refusal,
        "budget": each.budget,
        "landsOn": landing.node,
        "message": landing.message,
        "runs": counts[each.pod.uid],
    }


def _describe_plugin(plugin: PluginRun, evaluated: bool, run: DeschedulerRun) -> DeschedulePlugin:
    own = [each for each in run.evictions if (each.profile, each.plugin) == (plugin.profile, plugin.plugin)]
    refused = sum(bool(each.refusal) for each in own)
    return {
        "profile": plugin.profile,
        "plugin": plugin.plugin,
        "evaluated": evaluated,
        "evicted": len(own) - refused,
        "refused": refused,
        "summary": plugin.summary,
        "utilization": plugin.utilization,
    }


def _explain_pod(pod: PodInfo, first: _Outcome, counts: Counter[str]) -> EvictionVerdict:
    """Return why plugins do not evict the pod: those after the plugin that evicts it have nothing to say."""
    reasons: list[NonEviction] = []
    for plugin in first.plugins:
        key = (pod.uid, plugin.profile, plugin.plugin)
        tried = [
            each
            for each in first.run.evictions
            if each.pod is pod and (each.profile, each.plugin) == (plugin.profile, plugin.plugin)
        ]
        if any(not each.refusal for each in tried):
            break
        why = next((each.refusal for each in tried), first.run.explanations.get(key, plugin.summary))
        if why:
            reasons.append({"profile": plugin.profile, "plugin": plugin.plugin, "reason": why})
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.pod.spec.node_name,
        "runs": counts[pod.uid],
        "reasons": reasons,
    }
