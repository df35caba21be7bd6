"""One pod against a full cluster, the first one after loading: `evaluate-1000x20000` and larger.

Reading the manifests is not measured, nor is their text; everything after is: the pod, its filters, its scores.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import msgspec

from bench import mixed
from scheduler.config import Configuration
from scheduler.evaluate.cluster import Manifest, load
from scheduler.evaluate.engine import Engine
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Pod
from scheduler.plugins import IN_TREE

SIZES: Final = {f"evaluate-{nodes}x{pods}": (nodes, pods) for nodes, pods in ((1000, 20_000), (5000, 50_000))}


@dataclass(frozen=True)
class Shape:
    """How long one kind of pod took, as the first after loading and as the second."""

    name: str
    first_ms: float
    second_ms: float
    feasible: int


@dataclass(frozen=True)
class Measured:
    """One size of cluster, loaded anew for each shape. `load_s`: the median time from manifests to ready."""

    load_s: float
    shapes: tuple[Shape, ...]

    @property
    def worst(self) -> Shape:
        """The slowest shape."""
        return max(self.shapes, key=lambda shape: shape.first_ms)


def measure(nodes: int, pods: int) -> Measured:
    """Every shape of pod on a cluster of that size."""
    manifests = [Manifest("bench", content) for content in mixed.objects(nodes, pods)]
    loads, shapes = [], []
    for name, pod in mixed.waiting().items():
        start = time.perf_counter()
        engine = Engine(load(manifests), Configuration(), IN_TREE)
        loads.append(time.perf_counter() - start)
        shapes.append(_shape(name, engine, PodInfo(msgspec.convert(pod, Pod))))
    return Measured(sorted(loads)[len(loads) // 2], tuple(shapes))


def _shape(name: str, engine: Engine, pod: PodInfo) -> Shape:
    def once() -> tuple[float, int]:
        start = time.perf_counter()
        evaluation = engine.evaluate(pod)
        return (time.perf_counter() - start) * 1000, int(evaluation.result.trace.feasible.sum())

    (first, feasible), (second, _) = once(), once()
    return Shape(name, first, second, feasible)
