"""Rounds: every so often measure all nodes and annotate each, no faster than allowed.

Owns: the rhythm, the limit on writes, what happens when something fails. Does not own: what is measured.

Invariant: a node that cannot be annotated, or a round that fails, is logged and costs nothing but itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from herodotus_agents.kube import Kube, KubeError
from herodotus_agents.objects import AmountError, Node
from herodotus_agents.prometheus import PrometheusError
from scheduler.formulas import measurements

_log: Final = logging.getLogger(__name__)

NODES: Final = "/api/v1/nodes"

Values = Mapping[str, Mapping[str, str | None]]  # node -> annotation -> value; None removes it


class Measure(Protocol):
    """One annotator."""

    @property
    def group(self) -> str:
        """Of `measurements.MEASURED`."""

    def round(self, nodes: Sequence[Node], kube: Kube) -> Values:
        """What to write on which nodes. KubeError, PrometheusError, AmountError."""


@dataclass(frozen=True)
class Rhythm:
    """`every_s` between the starts of rounds; at most `writes_per_s`."""

    every_s: float = 60.0
    writes_per_s: float = 20.0


def nodes_of(kube: Kube) -> list[Node]:
    """Every node as it is now. KubeError."""
    objects, _ = kube.objects(NODES)
    return [msgspec.json.decode(raw, type=Node) for raw in objects]


def run(kube: Kube, measure: Measure, rhythm: Rhythm, stop: threading.Event) -> None:
    """Rounds until `stop`."""
    while not stop.is_set():
        began = time.monotonic()
        try:
            written = one_round(kube, measure, rhythm, stop)
            _log.info("annotated %d nodes with %s", written, measure.group)
        except (KubeError, PrometheusError, AmountError) as e:
            _log.error("no round of %s: %s", measure.group, e)
        stop.wait(max(rhythm.every_s - (time.monotonic() - began), 0.0))


def one_round(
    kube: Kube,
    measure: Measure,
    rhythm: Rhythm,
    stop: threading.Event,
    clock: Callable[[], float] = time.time,
) -> int:
    """Measure and write once; how many nodes were written. KubeError, PrometheusError, AmountError."""
    values = measure.round(nodes_of(kube), kube)
    measured_at = {measurements.MEASURED[measure.group]: measurements.stamp(clock())}
    written = 0
    for node, given in values.items():
        try:
            kube.annotate(node, {**given, **measured_at})
            written += 1
        except KubeError as e:
            _log.warning("node %s: %s", node, e)
        if stop.wait(1 / rhythm.writes_per_s):
            break
    return written
