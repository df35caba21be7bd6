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

from herodotus_agents.objects import NodeView
from herodotus_kube.http import MERGE_PATCH, ApiError, ApiServer
from scheduler.engine.formulas import measurements
from scheduler.prometheus import PrometheusError

_log: Final = logging.getLogger(__name__)

NODES: Final = "/api/v1/nodes"

Values = Mapping[str, Mapping[str, str | None]]  # values by node name and annotation; None removes it


class Annotator(Protocol):
    """The interface of an annotator: it measures nodes, and the controller writes the annotations that it returns."""

    @property
    def group(self) -> str:
        """The name of this annotator's group of annotations, a key of `measurements.MEASURED`.

        It selects the annotation that holds the time of measurement.
        """

    def measure(self, nodes: Sequence[NodeView], kube: ApiServer) -> Values:
        """Measure the nodes and return, by node name, the annotations to write. A value of None removes an annotation.

        Raises ApiError, PrometheusError or, for an invalid quantity, ValueError.
        """


@dataclass(frozen=True)
class AnnotationRate:
    """How often all nodes are measured and annotated, and how fast the annotations are written.

    `interval_s` is the time in seconds between the starts of two rounds; `writes_per_s` limits the requests per second.
    """

    interval_s: float = 60.0
    writes_per_s: float = 20.0


class RoundError(Exception):
    """A round of measuring and annotating all nodes failed as a whole; the message is one line."""


@dataclass(frozen=True)
class RoundResult:
    """The result of one round of measuring and annotating all nodes.

    `nodes`, `written` and `failed` are numbers of nodes. `unmeasured` holds the keys of the annotations that have a
    value on no node.
    """

    nodes: int
    written: int
    failed: int
    unmeasured: tuple[str, ...]

    @property
    def problem(self) -> str:
        """Why the round failed as a whole, or "" if it did not."""
        if self.failed and not self.written:
            return f"none of {self.failed} nodes could be annotated"
        if self.nodes and not self.written:
            return f"none of {self.nodes} nodes was measured"
        return f"no node has a value of {', '.join(self.unmeasured)}" if self.unmeasured else ""


def list_nodes(kube: ApiServer) -> list[NodeView]:
    """Return every node from the API server. Raises ApiError."""
    return list(kube.list_objects(NODES, NodeView))


def annotate_node(kube: ApiServer, node: str, values: Mapping[str, str | None]) -> None:
    """Set annotations of a node from a mapping of keys to values; a value of None removes the annotation.

    Raises ApiError.
    """
    kube.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": dict(values)}}, MERGE_PATCH)


def run(kube: ApiServer, annotator: Annotator, rate: AnnotationRate, stop: threading.Event) -> None:
    """Measure and annotate all nodes every `rate.interval_s` seconds until `stop` is set. Failures are logged."""
    while not stop.is_set():
        started = time.monotonic()
        try:
            done = run_round(kube, annotator, rate, stop)
            _log.info("annotated %d of %d nodes with %s", done.written, done.nodes, annotator.group)
            if done.problem and not stop.is_set():
                _log.error("round of %s: %s", annotator.group, done.problem)
        except ApiError as e:
            _log.error("no round of %s: %s", annotator.group, e.describe())
        except (PrometheusError, ValueError) as e:
            _log.error("no round of %s: %s", annotator.group, e)
        stop.wait(max(rate.interval_s - (time.monotonic() - started), 0.0))


def run_round(
    kube: ApiServer,
    annotator: Annotator,
    rate: AnnotationRate,
    stop: threading.Event,
    clock: Callable[[], float] = time.time,
) -> RoundResult:
    """Measure and annotate all nodes once and return how many were written. If `stop` is set, stop early.

    Raises ApiError, PrometheusError or, for an invalid quantity, ValueError if nothing was measured. Failures to
    annotate single nodes are logged.
    """
    nodes = list_nodes(kube)
    values = annotator.measure(nodes, kube)
    measured_at = {measurements.MEASURED[annotator.group]: measurements.stamp(clock())}
    written = failed = 0
    for node, measurement in values.items():
        try:
            annotate_node(kube, node, {**measurement, **measured_at})
            written += 1
        except ApiError as e:
            failed += 1
            _log.warning("node %s: %s", node, e.describe())
        if stop.wait(1 / rate.writes_per_s):
            break
    measured = {key for measurement in values.values() for key, value in measurement.items() if value is not None}
    removed = {key: None for measurement in values.values() for key in measurement if key not in measured}
    return RoundResult(len(nodes), written, failed, tuple(removed))
