"""A kubelet's rejection counts once, with its reason."""

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
def rejections() -> Counter[tuple[str, str]]:
    return Counter()


@pytest.fixture
def counter(rejections: Counter[tuple[str, str]]) -> RejectionCounter:
    return RejectionCounter(lambda reason, profile: rejections.update([(reason, profile)]))


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
    counter: RejectionCounter, rejections: Counter[tuple[str, str]], pod: FailedPod, label: str | None
) -> None:
    counter.put(ListResult(FAILED, []))
    counter.put(WatchEvent(FAILED, "ADDED", pod))
    assert rejections == ({(label, "ours"): 1} if label else {})


def test_each_pod_counts_once_and_none_of_before(
    counter: RejectionCounter, rejections: Counter[tuple[str, str]]
) -> None:
    """However often the watch tells of it; one that came while the watch was broken is in the next list."""
    counter.put(ListResult(FAILED, [failed("before")]))
    counter.put(WatchEvent(FAILED, "MODIFIED", failed("before")))
    for _ in range(2):
        counter.put(WatchEvent(FAILED, "ADDED", failed("new")))
    counter.put(ListResult(FAILED, [failed("before"), failed("new"), failed("meanwhile", "NodePorts")]))
    counter.put(WatchEvent(FAILED, "DELETED", failed("new")))
    assert rejections == {("OutOfcpu", "ours"): 1, ("NodePorts", "ours"): 1}


def test_it_is_a_metric() -> None:
    metrics = SchedulerMetrics()
    metrics.kubelet_rejected("OutOfcpu", "ours")
    labels = {"reason": "OutOfcpu", "profile": "ours"}
    assert metrics.registry.get_sample_value("herodotus_kubelet_rejections_total", labels) == 1.0
