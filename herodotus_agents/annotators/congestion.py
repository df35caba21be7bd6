"""The annotator `congestion`: the used share of each node's network capacity in percent, from node exporters."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np

from herodotus_agents.annotators.controller import Values
from herodotus_agents.annotators.usage import RATE_S
from herodotus_agents.objects import NodeView
from herodotus_kube.http import ApiServer
from scheduler.engine.formulas.measurements import CONGESTION
from scheduler.prometheus import Prometheus

_log: Final = logging.getLogger(__name__)

Capacity = Annotated[float, msgspec.Meta(ge=1, le=1e15)]  # bytes per second


@dataclass(frozen=True)
class CongestionAnnotator:
    """Annotates each node with the share of its network capacity in use, in per cent.

    The node's busiest interface counts, in its busier direction. `devices` is a regular expression that selects the
    interfaces.
    """

    prometheus: Prometheus
    exporter_port: int = 9100
    devices: str = "(e|w).*"
    capacity_bytes_s: Capacity = 125_000_000.0  # 1 Gbit/s
    rate_s: int = RATE_S
    group: str = "congestion"

    @property
    def query(self) -> str:
        """The PromQL expression for the bytes per second of each node's busiest interface and direction."""
        rates = " or ".join(
            f'label_replace(rate(node_network_{direction}_bytes_total{{device=~"{self.devices}"}}[{self.rate_s}s]),'
            f' "way", "{direction}", "", "")'
            for direction in ("receive", "transmit")
        )
        return f"max by (instance) ({rates})"

    def measure(self, nodes: Sequence[NodeView], kube: ApiServer) -> Values:
        """Return, by node name, the congestion annotation of each node that Prometheus has a network series for."""
        rates = {series.labels.get("instance", ""): series.values[-1] for series in self.prometheus.query(self.query)}
        values = {}
        for node in nodes:
            rate = rates.get(f"{node.address}:{self.exporter_port}", np.nan)
            if np.isfinite(rate):
                values[node.name] = {CONGESTION: f"{100 * rate / self.capacity_bytes_s:.0f}"}
            else:
                _log.warning("node=%s: no network series of %s", node.name, node.address or "no address")
        return values
