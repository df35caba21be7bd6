"""Workloads create the same objects in every run, in the numbers that they state."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from bench.processes import attempt_buckets, counter, quantile
from bench.workloads import BEFORE, BY_NAME, MEASURED, WORKLOADS, Size, Workload

IDS = [w.name for w in WORKLOADS]


@pytest.mark.parametrize("workload", WORKLOADS, ids=IDS)
def test_a_workload_has_its_number_of_objects_with_unique_names(workload: Workload) -> None:
    size = workload.short
    pods = [*workload.pods(size), *workload.pods_before(size)]
    names = Counter((p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods)
    assert len(pods) == size.pods + size.before * len(workload.before)
    assert set(names.values()) == {1}
    assert len({n["metadata"]["name"] for n in workload.nodes(size)}) == size.nodes


@pytest.mark.parametrize("workload", WORKLOADS, ids=IDS)
def test_namespaces_are_created_before_their_pods(workload: Workload) -> None:
    made = {o["metadata"]["name"] for path, o in workload.others(workload.short) if path == "/api/v1/namespaces"}
    used = {p["metadata"]["namespace"] for p in (*workload.pods(workload.short), *workload.pods_before(workload.short))}
    assert used <= made
    assert {MEASURED, BEFORE} <= made


@pytest.mark.parametrize("workload", WORKLOADS, ids=IDS)
def test_two_runs_create_the_same_objects(workload: Workload) -> None:
    def objects() -> list[object]:
        size = workload.short
        return [*workload.others(size), *workload.nodes(size), *workload.pods_before(size), *workload.pods(size)]

    assert objects() == objects()


def test_earlier_pods_scale_with_the_nodes() -> None:
    basic = BY_NAME["PreemptionBasic"]
    assert basic.full.scaled(50, None) == Size(50, 200, 1000)
    assert basic.full.scaled(None, 7) == Size(1000, 4000, 7)
    assert Size(3, 1, 1).scaled(7, None) == Size(7, 3, 1)


def test_a_family_with_one_large_node_keeps_one_node() -> None:
    gated = BY_NAME["SchedulingGatedPodsWithPodAffinityImpactForThroughput"].full
    assert gated.scaled(15_000, 60) == Size(1, 10_000, 60, few=True)


@pytest.mark.parametrize(
    ("buckets", "q", "expected"),
    [
        ({1.0: 10.0, 2.0: 20.0, math.inf: 20.0}, 0.5, 1.0),
        ({1.0: 10.0, 2.0: 20.0, math.inf: 20.0}, 0.75, 1.5),
        ({1.0: 0.0, 2.0: 4.0, math.inf: 4.0}, 0.5, 1.5),
        ({1.0: 1.0, math.inf: 10.0}, 0.99, 1.0),
    ],
    ids=["at a bound", "within", "an empty bucket first", "beyond the last bound"],
)
def test_quantile_of_a_histogram(buckets: dict[float, float], q: float, expected: float) -> None:
    assert quantile(buckets, q) == pytest.approx(expected)


def test_the_quantile_of_an_empty_histogram_is_nan() -> None:
    assert math.isnan(quantile({math.inf: 0.0}, 0.5))


def test_only_bound_attempts_count_in_every_profile() -> None:
    name = "scheduler_scheduling_attempt_duration_seconds"
    text = f"# TYPE {name} histogram\n" + "".join(
        f'{name}_bucket{{result="{result}",profile="{profile}",le="{le}"}} {count}\n'
        for result, profile, le, count in (
            ("scheduled", "a", "0.1", 1),
            ("scheduled", "a", "+Inf", 2),
            ("scheduled", "b", "0.1", 3),
            ("scheduled", "b", "+Inf", 4),
            ("unschedulable", "a", "0.1", 50),
        )
    )
    assert attempt_buckets(text) == {0.1: 4.0, math.inf: 6.0}


def test_a_counter_is_the_sum_of_its_series() -> None:
    text = '# TYPE c counter\nc_total{a="1"} 2\nc_total{a="2"} 3\n# TYPE d counter\nd_total 9\n'
    assert counter(text, "c_total") == 5.0
    assert counter(text, "e_total") == 0.0
