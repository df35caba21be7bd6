"""congestion: how much of its network's capacity each node uses, in per cent, from Prometheus' node exporter."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from herodotus_agents.annotators.controller import Values
from herodotus_agents.kube import Kube
from herodotus_agents.objects import Node
from herodotus_agents.prometheus import Prometheus
from scheduler.formulas.measurements import CONGESTION

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Congestion:
    """`devices`: a regular expression of interfaces, the busiest of which counts, in its busier direction."""

    prometheus: Prometheus
    exporter_port: int = 9100
    devices: str = "(e|w).*"
    capacity_bytes_s: float = 125_000_000.0  # 1 Gbit/s
    rate_s: int = 60
    group: str = "congestion"

    @property
    def query(self) -> str:
        """Bytes a second of each node."""
        rates = " or ".join(
            f'label_replace(rate(node_network_{way}_bytes_total{{device=~"{self.devices}"}}[{self.rate_s}s]),'
            f' "way", "{way}", "", "")'
            for way in ("receive", "transmit")
        )
        return f"max by (instance) ({rates})"

    def round(self, nodes: Sequence[Node], kube: Kube) -> Values:
        """One annotation a node that Prometheus knows."""
        found = {series.labels.get("instance", ""): series.values[-1] for series in self.prometheus.instant(self.query)}
        values = {}
        for node in nodes:
            rate = found.get(f"{node.address}:{self.exporter_port}", np.nan)
            if np.isfinite(rate):
                values[node.name] = {CONGESTION: f"{100 * rate / self.capacity_bytes_s:.0f}"}
            else:
                _log.warning("node=%s: no network series of %s", node.name, node.address or "no address")
        return values
