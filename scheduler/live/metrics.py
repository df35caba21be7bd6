"""The scheduler's metrics: kube-scheduler's where the meaning is the same, and Herodotus' own.

Owns: names, labels and buckets, and how the loop's numbers become metrics. Does not own: how they are served.

Invariant: metrics named `scheduler_*` have kube-scheduler's labels, buckets and meaning. No label gets more values as
the cluster grows. The loop's thread adds to counters without waiting, a few microseconds a cycle. Numbers that need a
pass over every waiting pod are updated by `SchedulerMetrics.observe`, at most once in OBSERVE_EVERY_S.

Source of names, labels and buckets: pkg/scheduler/metrics/metrics.go v1.36.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from herodotus_record.model import Code, Decision, DecisionPath
from scheduler.engine.cache_verification import CacheDifference
from scheduler.engine.cycle import CycleResult

OBSERVE_EVERY_S: Final = 1.0  # 10,000 waiting pods take a millisecond or two
SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
BALANCE_QUANTILES: Final = (0.0, 0.1, 0.5, 0.9, 1.0)  # over nodes: a series for each node would be too many
MOST_ATTEMPTS: Final = 15  # pod_scheduling_sli_duration_seconds counts these and more as one


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` histogram bucket bounds, from `start` on, each `factor` times the previous one."""
    return tuple(start * factor**i for i in range(count))


_ATTEMPT_S: Final = exponential(0.001, 2, 15)
_PHASE_S: Final = exponential(0.0001, 2, 12)
_SLI_S: Final = exponential(0.01, 2, 20)


@dataclass(frozen=True)
class LoopSizes:
    """The numbers of nodes and pods in the cache and of pods in each queue, for metrics.

    `unschedulable` holds, for each waiting pod that plugins rejected, these plugins and the pod's profile.
    `requested_shares` holds the quantiles of BALANCE_QUANTILES of each node's requested share, by resource.
    """

    queues: Mapping[str, int] = field(default_factory=dict)
    incoming: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (queue, event) -> pods since the start
    unschedulable: Sequence[tuple[Collection[str], str]] = ()
    nodes: int = 0
    pods: int = 0
    assumed: int = 0
    binding: int = 0
    requested_shares: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(slots=True)
class _AttemptUnderWay:
    """An attempt that has not ended: when it started, and the labels of its exemplar once it is recorded.

    It does not hold the decision, which has a value for each node.
    """

    started_s: float
    exemplar: dict[str, str] | None = None


class SchedulerMetrics:
    """The Prometheus metrics of one scheduler process, in a registry that no other instance shares."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # kube-scheduler has no series of that kind
        self.registry = r = CollectorRegistry()
        self._clock = clock
        self._beat = clock()
        self._observe_at = 0.0
        self._under_way: dict[str, _AttemptUnderWay] = {}  # by pod UID
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=r)
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result.",
            ["result", "profile"],
            registry=r,
        )
        self._attempt_s = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "One attempt: the algorithm, and binding where a node was found.",
            ["result", "profile"],
            buckets=_ATTEMPT_S,
            registry=r,
        )
        self._algorithm_s = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "The algorithm alone.", buckets=_ATTEMPT_S, registry=r
        )
        self._phase_s = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "All plugins of one extension point, in one cycle, over all nodes.",
            ["extension_point", "status", "profile"],
            buckets=_PHASE_S,
            registry=r,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod took until it was bound.",
            buckets=exponential(1, 2, 5),
            registry=r,
        )
        self._sli_s = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's first entry into the queue until it was bound.",
            ["attempts"],
            buckets=_SLI_S,
            registry=r,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts_total", "Cycles that looked for pods to evict.", registry=r
        )
        self._victims = Histogram(
            "scheduler_preemption_victims", "Pods chosen to be evicted.", buckets=exponential(1, 2, 7), registry=r
        )
        self._leader = Gauge("leader_election_master_status", "1 while we hold the Lease.", ["name"], registry=r)
        self._add_own_metrics()

    def _add_own_metrics(self) -> None:
        """Add the metrics that kube-scheduler does not have."""
        r = self.registry
        self._recording_s = Histogram(
            "herodotus_recording_duration_seconds",
            "What recording a decision takes of the loop's time.",
            buckets=exponential(0.00001, 2, 14),
            registry=r,
        )
        self._kubelet_rejections = Counter(
            "herodotus_kubelet_rejections_total",
            "Pods that a kubelet rejected after they were bound: another scheduler used the room.",
            ["reason", "profile"],
            registry=r,
        )
        self._prepared_gradually = Counter(
            "herodotus_gradual_preparations_total",
            "Pods with so many terms that these were counted in slices between the cycles of other pods.",
            registry=r,
        )
        self._verifications = Counter(
            "herodotus_cache_verifications_total",
            "Decisions that were computed again without cached results (--verify-cache).",
            registry=r,
        )
        self._cache_differences = Counter(
            "herodotus_cache_differences_total",
            "Results of plugins that differed from the cached ones when computed again; 0 is expected.",
            ["plugin", "extension_point"],
            registry=r,
        )
        self._heartbeat = Gauge(
            "herodotus_loop_heartbeat_age_seconds", "Since the scheduling loop last went round.", registry=r
        )
        self._heartbeat.set_function(self.heartbeat_age_s)
        self._held = _LoopSizesCollector()
        r.register(self._held)

    def kubelet_rejected(self, reason: str, profile: str) -> None:
        """Count a bound pod that a kubelet rejected, by reason and profile. Any thread may call this."""
        self._kubelet_rejections.labels(reason, profile).inc()

    # --- called by the loop's thread -----------------------------------------------------------------------------

    def beat(self) -> bool:
        """Record that an iteration of the loop began, and return whether the caller should call `observe` now."""
        self._beat = now = self._clock()
        if now < self._observe_at:
            return False
        self._observe_at = now + OBSERVE_EVERY_S
        return True

    def observe(self, sizes: LoopSizes) -> None:
        """Export these sizes of cache and queues from now on. The caller must not change them afterwards."""
        self._held.sizes = sizes

    def cycle(self, profile: str, result: CycleResult, duration_s: float) -> None:
        """Count one scheduling cycle that took `duration_s` seconds, with the durations of its extension points."""
        trace = result.trace
        self._algorithm_s.observe(duration_s)
        for phase, phase_s in trace.phases_s.items():
            self._phase_s.labels(phase, _status(phase, result), profile).observe(phase_s)
        if trace.post_filters:
            self._preemptions.inc()

    def prepared_gradually(self) -> None:
        """Count one pod that is not decided before its many affinity and spread terms are counted in slices."""
        self._prepared_gradually.inc()

    def verified(self, differences: Sequence[CacheDifference]) -> None:
        """Count one decision that was computed again without caches, and each difference that this found."""
        self._verifications.inc()
        for difference in differences:
            self._cache_differences.labels(difference.plugin, difference.point).inc()

    def preempted(self, victims: int) -> None:
        """Add a preemption with this number of victims to the histogram of victims.

        `cycle` counts the attempts to preempt.
        """
        self._victims.observe(victims)

    def recorded(self, uid: str, decision: Decision, duration_s: float) -> None:
        """Observe how many seconds recording the decision took, and make it the exemplar of the pod's attempt."""
        self._recording_s.observe(duration_s)
        if (attempt := self._under_way.get(uid)) is not None:
            attempt.exemplar = _build_exemplar(decision)

    def started(self, uid: str) -> None:
        """Start the clock of an attempt for the pod with this UID. A call of `ended` or `discarded` must follow."""
        self._under_way[uid] = _AttemptUnderWay(self._clock())

    def discarded(self, uid: str) -> None:
        """Forget the pod's attempt without counting it, because a dry run does not bind the pod."""
        self._under_way.pop(uid, None)

    def ended(self, uid: str, result: str, profile: str) -> None:
        """Count the end of the pod's attempt and its duration. `result` is SCHEDULED, UNSCHEDULABLE or ERROR.

        Do nothing if the attempt was counted already.
        """
        attempt = self._under_way.pop(uid, None)
        if attempt is not None:
            self._attempts.labels(result, profile).inc()
            self._attempt_s.labels(result, profile).observe(self._clock() - attempt.started_s, attempt.exemplar)

    def scheduled(self, attempts: int, waited_s: float, decision: Decision) -> None:
        """Count a bound pod with its number of attempts and the decision of the last one.

        `waited_s` is the seconds since the pod first entered the queue.
        """
        self._pod_attempts.observe(attempts)
        label = str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
        self._sli_s.labels(label).observe(waited_s, _build_exemplar(decision))

    # --- called by others -------------------------------------------------------------------------------------------

    def phase(self, phase: str, status: Code, profile: str, duration_s: float) -> None:
        """Count the end of PreBind or Bind, with its status and its duration in seconds. Binding threads call this."""
        self._phase_s.labels(phase, status.label, profile).observe(duration_s)

    def leading(self, name: str, leader: Callable[[], bool]) -> None:
        """Export whether this process holds the Lease `name`; each scrape calls `leader`."""
        self._leader.labels(name).set_function(leader)

    def heartbeat_age_s(self) -> float:
        """Return the seconds since the loop's last iteration."""
        return self._clock() - self._beat


class _LoopSizesCollector(Collector):
    """Exports the last published `LoopSizes` as metrics, at each scrape."""

    def __init__(self) -> None:
        self.sizes = LoopSizes()

    def collect(self) -> Iterator[Metric]:
        sizes = self.sizes
        waiting = Tally((plugin, profile) for plugins, profile in sizes.unschedulable for plugin in plugins)
        held = [(("nodes",), sizes.nodes), (("pods",), sizes.pods), (("assumed_pods",), sizes.assumed)]
        queues = [((queue,), pods) for queue, pods in sizes.queues.items()]
        yield _gauge("scheduler_pending_pods", "Waiting pods, by queue.", ("queue",), queues)
        yield _gauge(
            "scheduler_unschedulable_pods",
            "Waiting pods that a plugin rejected; a pod counts for each plugin that did.",
            ("plugin", "profile"),
            waiting.items(),
        )
        yield _gauge("scheduler_cache_size", "What the cache holds.", ("type",), held)
        yield _gauge("scheduler_goroutines", "Work under way.", ("operation",), [(("binding",), sizes.binding)])
        yield _gauge(
            "herodotus_node_requested_ratio",
            "Share of a node's allocatable amount that its pods request: quantiles over the nodes.",
            ("resource", "quantile"),
            [
                ((resource, f"{quantile:g}"), share)
                for resource, shares in sizes.requested_shares.items()
                for quantile, share in zip(BALANCE_QUANTILES, shares, strict=True)
            ],
        )
        incoming = CounterMetricFamily(
            "scheduler_queue_incoming_pods", "Pods that came into a queue, by event.", labels=("queue", "event")
        )
        for labels, pods in sizes.incoming.items():
            incoming.add_metric(labels, pods)
        yield incoming


def _build_exemplar(decision: Decision) -> dict[str, str] | None:
    """Return the labels of an exemplar that identify the decision's page, or None if the decision is not recorded."""
    if not decision.key.incarnation:  # of `NoRecorder`
        return None
    return {"namespace": decision.pod.namespace, "decision": decision.id}


def _gauge(name: str, help: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family


def _status(phase: str, result: CycleResult) -> str:
    """Return the status label of an extension point's duration metric, such as "Success".

    As in kube-scheduler, a Filter that leaves no node counts as Success.
    """
    trace = result.trace
    verdicts = {"PreFilter": trace.pre_filters, "PostFilter": trace.post_filters}.get(phase)
    if verdicts:
        return verdicts[-1].verdict.code.label
    failed = result.path is DecisionPath.ERROR and phase == next(reversed(trace.phases_s))
    return (Code.ERROR if failed else Code.SUCCESS).label
