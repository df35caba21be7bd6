"""A kubelet's refusal counts once, with what it refused the pod for."""

from __future__ import annotations

from collections import Counter

import pytest

from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.engine.objects.types import Metadata
from scheduler.live.kubelet_rejections import FAILED, FailedPod, RejectionCounter, _Spec, _Status
from scheduler.live.metrics import SchedulerMetrics


def failed(name: str, reason: str = "OutOfcpu", node: str = "n1") -> FailedPod:
    return FailedPod(metadata=Metadata(name=name, uid=name), spec=_Spec(node, "ours"), status=_Status(reason))


@pytest.fixture
def counted() -> Counter[tuple[str, str]]:
    return Counter()


@pytest.fixture
def refusals(counted: Counter[tuple[str, str]]) -> RejectionCounter:
    return RejectionCounter(lambda reason, profile: counted.update([(reason, profile)]))


@pytest.mark.parametrize(
    ("pod", "label"),
    [
        (failed("p"), "OutOfcpu"),
        (failed("p", "OutOfpods"), "OutOfpods"),
        (failed("p", "NodePorts"), "NodePorts"),
        (failed("p", "OutOfexample.com/gpu"), "OutOfextended"),
        (failed("p", "Evicted"), None),
        (failed("p", ""), None),
        (failed("p", node=""), None),
    ],
    ids=["cpu", "pods", "a port", "an extended resource", "evicted later", "a container failed", "never bound"],
)
def test_rejections_that_count(
    refusals: RejectionCounter, counted: Counter[tuple[str, str]], pod: FailedPod, label: str | None
) -> None:
    refusals.put(ListResult(FAILED, []))
    refusals.put(WatchEvent(FAILED, "ADDED", pod))
    assert counted == ({(label, "ours"): 1} if label else {})


def test_each_pod_counts_once_and_none_of_before(refusals: RejectionCounter, counted: Counter[tuple[str, str]]) -> None:
    """However often the watch tells of it; one that came while the watch was broken is in the next list."""
    refusals.put(ListResult(FAILED, [failed("before")]))
    refusals.put(WatchEvent(FAILED, "MODIFIED", failed("before")))
    for _ in range(2):
        refusals.put(WatchEvent(FAILED, "ADDED", failed("new")))
    refusals.put(ListResult(FAILED, [failed("before"), failed("new"), failed("meanwhile", "NodePorts")]))
    refusals.put(WatchEvent(FAILED, "DELETED", failed("new")))
    assert counted == {("OutOfcpu", "ours"): 1, ("NodePorts", "ours"): 1}


def test_it_is_a_metric() -> None:
    metrics = SchedulerMetrics()
    metrics.refused("OutOfcpu", "ours")
    labels = {"reason": "OutOfcpu", "profile": "ours"}
    assert metrics.registry.get_sample_value("herodotus_kubelet_refusals_total", labels) == 1.0
