"""Runs an annotator in rounds: measure all nodes, then annotate each, within a limit on writes.

Owns: the interval, the limit on writes, the handling of failures. Does not own: what is measured.

Invariant: a node that cannot be annotated and a round that fails are logged and affect nothing else. A round also
writes its time of measurement. So that an older value does not look as recent, annotators return None for a value that
they could not measure, which removes the annotation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from herodotus_agents.objects import AmountError, NodeView
from herodotus_agents.prometheus import PrometheusError
from herodotus_kube.client import KubeClient, KubeError
from scheduler.engine.formulas import measurements

_log: Final = logging.getLogger(__name__)

NODES: Final = "/api/v1/nodes"

Values = Mapping[str, Mapping[str, str | None]]  # values by node name and annotation; None removes it


class Annotator(Protocol):
    """Measures nodes and returns the annotations to write."""

    @property
    def group(self) -> str:
        """The key of `measurements.MEASURED` that these annotations belong to."""

    def measure(self, nodes: Sequence[NodeView], kube: KubeClient) -> Values:
        """Return the annotations to write, by node name. Raises KubeError, PrometheusError or AmountError."""


@dataclass(frozen=True)
class AnnotationRate:
    """How often to measure: `interval_s` between the starts of rounds, and at most `writes_per_s` requests."""

    interval_s: float = 60.0
    writes_per_s: float = 20.0


class RoundError(Exception):
    """A round failed as a whole; the message is one line."""


@dataclass(frozen=True)
class RoundResult:
    """What a round wrote. `unmeasured` are the annotations that no node has a value for."""

    nodes: int
    written: int
    failed: int
    unmeasured: tuple[str, ...]

    @property
    def problem(self) -> str:
        """Why the round failed as a whole, or ""."""
        if self.failed and not self.written:
            return f"none of {self.failed} nodes could be annotated"
        if self.nodes and not self.written:
            return f"none of {self.nodes} nodes was measured"
        return f"no node has a value of {', '.join(self.unmeasured)}" if self.unmeasured else ""


def list_nodes(kube: KubeClient) -> list[NodeView]:
    """Return every node from the API server. Raises KubeError."""
    objects, _ = kube.list_objects(NODES)
    return [msgspec.json.decode(raw, type=NodeView) for raw in objects]


def run(kube: KubeClient, annotator: Annotator, rate: AnnotationRate, stop: threading.Event) -> None:
    """Run a round every `interval_s` seconds until `stop` is set."""
    while not stop.is_set():
        started = time.monotonic()
        try:
            done = run_round(kube, annotator, rate, stop)
            _log.info("annotated %d of %d nodes with %s", done.written, done.nodes, annotator.group)
            if done.problem and not stop.is_set():
                _log.error("round of %s: %s", annotator.group, done.problem)
        except (KubeError, PrometheusError, AmountError) as e:
            _log.error("no round of %s: %s", annotator.group, e)
        stop.wait(max(rate.interval_s - (time.monotonic() - started), 0.0))


def run_round(
    kube: KubeClient,
    annotator: Annotator,
    rate: AnnotationRate,
    stop: threading.Event,
    clock: Callable[[], float] = time.time,
) -> RoundResult:
    """Measure and annotate all nodes once. Raises KubeError, PrometheusError or AmountError if nothing was measured."""
    nodes = list_nodes(kube)
    values = annotator.measure(nodes, kube)
    measured_at = {measurements.MEASURED[annotator.group]: measurements.stamp(clock())}
    written = failed = 0
    for node, given in values.items():
        try:
            kube.annotate_node(node, {**given, **measured_at})
            written += 1
        except KubeError as e:
            failed += 1
            _log.warning("node %s: %s", node, e)
        if stop.wait(1 / rate.writes_per_s):
            break
    measured = {key for given in values.values() for key, value in given.items() if value is not None}
    removed = {key: None for given in values.values() for key in given if key not in measured}
    return RoundResult(len(nodes), written, failed, tuple(removed))
