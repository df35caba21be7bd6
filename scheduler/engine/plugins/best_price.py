"""BestPrice: prefers the cheapest node, by an annotation with its price.

Only Herodotus has this plugin. Source of the idea: Kelsey Hightower's toy scheduler, whose annotation is the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import measurements
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.formulas.points import price_scores
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.names import validate_label_key
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.plugins.node_measurements import MeasurementReader

MILLIONTHS: Final = 1_000_000
UNPRICED: Final = -1


class BestPriceArgs(Args, frozen=True):
    """Arguments of BestPrice: `annotation` is the key of the node annotation with the price, a decimal number."""

    annotation: str = measurements.COST

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for each rule for annotation keys that the argument `annotation` breaks."""
        yield from (invalid("annotation", self.annotation, wrong) for wrong in validate_label_key(self.annotation))


class BestPrice(BasePlugin):
    """A score plugin that prefers the cheapest node. Prices do not expire; a node without a valid price scores 0."""

    name = "BestPrice"
    args_type = BestPriceArgs
    reads = frozenset({PluginInput.NODE})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._reader = MeasurementReader("price", float("inf"))
        self.annotations = frozenset({args.annotation, self._reader.time_annotation})

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return the price of each node in millionths, or -1 for a node without a valid price."""
        prices = self._reader.read(state, nodes).get(self.args.annotation)
        usable = (prices >= 0) & (prices < 2**40)
        return np.where(usable, np.rint(np.where(usable, prices, 0) * MILLIONTHS), UNPRICED).astype(np.int64)

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Report the price in each node's annotation, for the record."""
        reading, key = self._reader.read(state, nodes), self.args.annotation
        return (reading.inputs((key,), NodeInputColumn("price", reading.get(key), digits=6)),)

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Return 100 for the cheapest feasible nodes, down to 0 for the most expensive ones.

        A node without a price gets 0.
        """
        return price_scores(np.where(raw == UNPRICED, np.nan, raw), feasible)
