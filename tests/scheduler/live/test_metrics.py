"""What kube-scheduler also counts has its names, labels and buckets; counting costs the loop microseconds."""

from __future__ import annotations

import time

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families

from herodotus_record.model import Code, DecisionPath, PluginVerdict, Verdict
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import Trace
from scheduler.live.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, LoopSizes, SchedulerMetrics
from tests.builders import a_decision
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Scores, framework
from tests.support.clock import Clock

PROFILE = {"profile": "test"}

A_DECISION = a_decision()


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def metrics(clock: Clock) -> SchedulerMetrics:
    return SchedulerMetrics(clock)


def families(metrics: SchedulerMetrics) -> dict[str, Metric]:
    text = generate_latest(metrics.registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def a_cycle(*, nodes: int = 2) -> CycleResult:
    columns = columns_of([make_node(f"n{i}") for i in range(nodes)])
    plugins = framework(score=(Scores("S", {"n1": 5}),))
    return schedule(plugins, make_pod().info(), Snapshot.from_columns(columns), 0)


def everything(metrics: SchedulerMetrics) -> None:
    """Each metric at least once."""
    metrics.cycle("test", a_cycle(), 0.002)
    metrics.phase("Bind", Code.SUCCESS, "test", 0.003)
    metrics.started("uid")
    metrics.ended("uid", SCHEDULED, "test")
    metrics.scheduled(1, 0.5, A_DECISION)
    metrics.recorded("uid", A_DECISION, 0.0001)
    metrics.preempted(2)
    metrics.leading("lease", lambda: True)
    metrics.observe(LoopSizes({"active": 1}, {("active", "PodAdd"): 3}, [({"A"}, "test")], 2, 3, 1, 1))


def exponential(start: float, factor: float, count: int) -> list[float]:
    return [start * factor**i for i in range(count)]


# pkg/scheduler/metrics/metrics.go v1.36: name, kind, labels, and the finite buckets of a histogram.
UPSTREAM = [
    ("scheduler_schedule_attempts_total", "counter", {"result", "profile"}, None),
    ("scheduler_scheduling_attempt_duration_seconds", "histogram", {"result", "profile"}, exponential(0.001, 2, 15)),
    ("scheduler_scheduling_algorithm_duration_seconds", "histogram", set(), exponential(0.001, 2, 15)),
    (
        "scheduler_framework_extension_point_duration_seconds",
        "histogram",
        {"extension_point", "status", "profile"},
        exponential(0.0001, 2, 12),
    ),
    ("scheduler_pending_pods", "gauge", {"queue"}, None),
    ("scheduler_queue_incoming_pods_total", "counter", {"queue", "event"}, None),
    ("scheduler_pod_scheduling_attempts", "histogram", set(), exponential(1, 2, 5)),
    ("scheduler_pod_scheduling_sli_duration_seconds", "histogram", {"attempts"}, exponential(0.01, 2, 20)),
    ("scheduler_preemption_attempts_total", "counter", set(), None),
    ("scheduler_preemption_victims", "histogram", set(), exponential(1, 2, 7)),
    ("scheduler_unschedulable_pods", "gauge", {"plugin", "profile"}, None),
    ("scheduler_cache_size", "gauge", {"type"}, None),
    ("scheduler_goroutines", "gauge", {"operation"}, None),
    ("leader_election_master_status", "gauge", {"name"}, None),
]


@pytest.mark.parametrize(("name", "kind", "labels", "buckets"), UPSTREAM, ids=[row[0] for row in UPSTREAM])
def test_shared_metrics_are_kube_scheduler_s(
    metrics: SchedulerMetrics, name: str, kind: str, labels: set[str], buckets: list[float] | None
) -> None:
    everything(metrics)
    family = families(metrics)[name.removesuffix("_total")]
    samples = family.samples
    assert family.type == kind
    assert {label for s in samples for label in s.labels} - {"le"} == labels
    if buckets is not None:
        bounds = sorted({float(s.labels["le"]) for s in samples if "le" in s.labels})
        assert bounds == pytest.approx([*buckets, float("inf")])


def test_nothing_else_is_called_as_if_it_were_kube_scheduler_s(metrics: SchedulerMetrics) -> None:
    everything(metrics)
    ours = {name for name in families(metrics) if name.startswith(("scheduler_", "leader_election_"))}
    series = {name.removesuffix("_total") for name, *_ in UPSTREAM}
    assert ours == series
    others = {name.split("_")[0] for name in families(metrics).keys() - ours}
    assert others == {"process", "python", "herodotus"}


def value(metrics: SchedulerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_an_attempt_lasts_until_it_ended_and_ends_once(metrics: SchedulerMetrics, clock: Clock) -> None:
    metrics.started("a")
    metrics.started("b")
    clock.now_s += 0.5
    metrics.ended("a", SCHEDULED, "test")
    metrics.ended("a", ERROR, "test")
    metrics.ended("b", UNSCHEDULABLE, "test")
    name = "scheduler_scheduling_attempt_duration_seconds"
    assert [value(metrics, f"{name}_sum", result=r, **PROFILE) for r in (SCHEDULED, UNSCHEDULABLE)] == [0.5, 0.5]
    assert value(metrics, f"{name}_count", result=ERROR, **PROFILE) is None


def count_of_phase(metrics: SchedulerMetrics, phase: str, status: str) -> float | None:
    name = "scheduler_framework_extension_point_duration_seconds_count"
    return value(metrics, name, extension_point=phase, status=status, profile="test")


def test_each_phase_of_a_cycle_is_timed(metrics: SchedulerMetrics) -> None:
    metrics.cycle("test", a_cycle(), 0.25)
    assert [count_of_phase(metrics, p, "Success") for p in ("PreFilter", "Filter", "PreScore", "Score")] == [1.0] * 4
    assert value(metrics, "scheduler_scheduling_algorithm_duration_seconds_sum") == 0.25


@pytest.mark.parametrize(
    ("path", "trace", "expected"),
    [
        (
            DecisionPath.NONE,
            {"Filter": [], "PostFilter": [Code.UNSCHEDULABLE]},
            {"Filter": "Success", "PostFilter": "Unschedulable"},
        ),
        (
            DecisionPath.NONE,
            {"PreFilter": [Code.UNSCHEDULABLE_AND_UNRESOLVABLE]},
            {"PreFilter": "UnschedulableAndUnresolvable"},
        ),
        (DecisionPath.ERROR, {"PreFilter": [], "Filter": []}, {"PreFilter": "Success", "Filter": "Error"}),
    ],
    ids=["no node fits", "PreFilter rejects", "a filter fails"],
)
def test_a_phase_has_kube_scheduler_s_status(
    metrics: SchedulerMetrics, path: DecisionPath, trace: dict[str, list[Code]], expected: dict[str, str]
) -> None:
    seen = Trace.start(columns_of([make_node("a")]))
    for phase, codes in trace.items():
        seen.phases_s[phase] = 0.1
        verdicts = [PluginVerdict("P", Verdict(code)) for code in codes]
        (seen.pre_filters if phase == "PreFilter" else seen.post_filters).extend(verdicts)
    metrics.cycle("test", CycleResult(path, seen, CycleState()), 0.1)
    assert {phase: count_of_phase(metrics, phase, status) for phase, status in expected.items()} == dict.fromkeys(
        expected, 1.0
    )


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (400, "15+")])
def test_many_attempts_share_a_label(metrics: SchedulerMetrics, attempts: int, label: str) -> None:
    metrics.scheduled(attempts, 1.0, A_DECISION)
    assert value(metrics, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts=label) == 1.0


def test_loop_state_equals_its_last_state(metrics: SchedulerMetrics) -> None:
    metrics.observe(LoopSizes({"active": 1, "gated": 2}, {}, [({"A", "B"}, "test"), ({"A"}, "test")], 5, 4, 3, 2))
    metrics.observe(LoopSizes({"active": 0, "gated": 2}, {("active", "PodAdd"): 9}, [({"A"}, "test")], 5, 4, 3, 2))
    found = families(metrics)
    names = ("pending_pods", "unschedulable_pods", "cache_size", "queue_incoming_pods")
    held = {n: {" ".join(sorted(s.labels.values())): s.value for s in found[f"scheduler_{n}"].samples} for n in names}
    assert held == {
        "pending_pods": {"active": 0.0, "gated": 2.0},
        "unschedulable_pods": {"A test": 1.0},
        "cache_size": {"nodes": 5.0, "pods": 4.0, "assumed_pods": 3.0},
        "queue_incoming_pods": {"PodAdd active": 9.0},
    }


def test_it_is_time_to_observe_once_a_second(metrics: SchedulerMetrics, clock: Clock) -> None:
    asked = []
    for _ in range(5):
        asked.append(metrics.beat())
        clock.now_s += 0.5
    assert asked == [True, False, True, False, True]
    assert metrics.heartbeat_age_s() == 0.5


def test_counting_a_cycle_costs_microseconds() -> None:
    """Of the processor; measured 17 µs where this was written. A cycle over 5,000 nodes is a millisecond and more."""
    metrics, result, rounds = SchedulerMetrics(), a_cycle(), 500
    best = float("inf")
    for _ in range(5):
        begun = time.thread_time()
        for _ in range(rounds):
            metrics.beat()
            metrics.started("uid")
            metrics.cycle("test", result, 0.002)
            metrics.recorded("uid", A_DECISION, 0.0001)
            metrics.ended("uid", SCHEDULED, "test")
            metrics.scheduled(1, 0.5, A_DECISION)
        best = min(best, (time.thread_time() - begun) / rounds)
    print(f"{best * 1e6:.1f} µs a cycle")
    assert best < 200e-6


def test_requested_shares_are_quantiles_over_the_nodes(metrics: SchedulerMetrics) -> None:
    metrics.observe(LoopSizes(requested_shares={"cpu": [0.0, 0.1, 0.25, 0.5, 0.75]}))
    shares = {
        q: value(metrics, "herodotus_node_requested_ratio", resource="cpu", quantile=q) for q in ("0", "0.5", "1")
    }
    assert shares == {"0": 0.0, "0.5": 0.25, "1": 0.75}


def openmetrics(metrics: SchedulerMetrics) -> str:
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    return encode(metrics.registry).decode()


def test_an_attempt_has_its_decision_as_exemplar(metrics: SchedulerMetrics, clock: Clock) -> None:
    """In OpenMetrics; Prometheus' text has no exemplars."""
    metrics.started("uid")
    metrics.recorded("uid", A_DECISION, 0.0001)
    metrics.ended("uid", SCHEDULED, "test")
    metrics.scheduled(1, 0.5, A_DECISION)
    text = openmetrics(metrics)
    found = [
        (family.name, sample.exemplar.labels)
        for family in parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar
    ]
    labels = {"namespace": A_DECISION.pod.namespace, "decision": A_DECISION.id}
    names = ("scheduler_scheduling_attempt_duration_seconds", "scheduler_pod_scheduling_sli_duration_seconds")
    assert found == [(name, labels) for name in names]


def test_an_attempt_without_a_record_has_no_exemplar(metrics: SchedulerMetrics) -> None:
    metrics.started("uid")
    metrics.ended("uid", UNSCHEDULABLE, "test")
    assert "# {" not in openmetrics(metrics)
