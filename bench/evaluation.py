"""Measures one pod against a full cluster, the first one after loading: `evaluate-1000x20000` and larger.

Reading and parsing the manifests is not measured; creating the pod, its filters and its scores are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import msgspec

from bench import mixed
from scheduler.config import Configuration
from scheduler.engine.manifests.cluster import SourceManifest, load_cluster
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate.engine import Engine

SIZES: Final = {f"evaluate-{nodes}x{pods}": (nodes, pods) for nodes, pods in ((1000, 20_000), (5000, 50_000))}


@dataclass(frozen=True)
class PodTiming:
    """The time of one kind of pod, as the first pod after loading and as the second."""

    name: str
    first_ms: float
    second_ms: float
    feasible: int


@dataclass(frozen=True)
class EvaluationResult:
    """The result for one size of cluster, which is loaded again for each kind of pod.

    `load_s` is the median time from manifests to a ready engine.
    """

    load_s: float
    shapes: tuple[PodTiming, ...]

    @property
    def worst(self) -> PodTiming:
        """Return the slowest kind of pod."""
        return max(self.shapes, key=lambda shape: shape.first_ms)


def measure(nodes: int, pods: int) -> EvaluationResult:
    """Measure every kind of pod on a cluster of this size."""
    manifests = [SourceManifest("bench", content) for content in mixed.objects(nodes, pods)]
    loads, shapes = [], []
    for name, pod in mixed.pods_to_evaluate().items():
        start = time.perf_counter()
        engine = Engine(load_cluster(manifests), Configuration(), IN_TREE)
        loads.append(time.perf_counter() - start)
        shapes.append(_shape(name, engine, PodInfo(msgspec.convert(pod, Pod))))
    return EvaluationResult(sorted(loads)[len(loads) // 2], tuple(shapes))


def _shape(name: str, engine: Engine, pod: PodInfo) -> PodTiming:
    def measure_once() -> tuple[float, int]:
        start = time.perf_counter()
        evaluation = engine.evaluate(pod)
        return (time.perf_counter() - start) * 1000, int(evaluation.result.trace.feasible.sum())

    (first, feasible), (second, _) = measure_once(), measure_once()
    return PodTiming(name, first, second, feasible)
