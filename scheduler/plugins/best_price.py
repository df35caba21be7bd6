"""BestPrice: prefers the cheapest node, by an annotation with its price.

Known to Herodotus alone. Source of the idea: Kelsey Hightower's toy scheduler, whose annotation is the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from scheduler.columns import NodeColumns
from scheduler.formulas import measurements, price
from scheduler.formulas.inputs import Inputs, Number
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, BasePlugin, Handle
from scheduler.framework.state import CycleState
from scheduler.objects.names import wrong_with_key
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem, invalid
from scheduler.plugins.measured import Measured

MILLIONTHS: Final = 1_000_000
UNPRICED: Final = -1


class BestPriceArgs(Args, frozen=True):
    """`annotation`: where a node's price is, a decimal number in any currency."""

    annotation: str = measurements.COST

    def problems(self) -> Iterator[Problem]:
        """An annotation that cannot be one."""
        yield from (invalid("annotation", self.annotation, wrong) for wrong in wrong_with_key(self.annotation))


class BestPrice(BasePlugin):
    """Prices do not age. A node without one, or with one that is no number, is worth no points."""

    name = "BestPrice"
    args_type = BestPriceArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._measured = Measured("price", float("inf"))
        self.annotations = frozenset({args.annotation, self._measured.stamp})

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """The price in millionths; -1 where there is none."""
        prices = self._measured.read(nodes).of(self.args.annotation)
        usable = (prices >= 0) & (prices < 2**40)
        return np.where(usable, np.rint(np.where(usable, prices, 0) * MILLIONTHS), UNPRICED).astype(np.int64)

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[Inputs]:
        """The prices as they are written."""
        reading, key = self._measured.read(nodes), self.args.annotation
        return (reading.inputs((key,), Number("price", reading.of(key), digits=6)),)

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """100 for the cheapest feasible node alone, 0 for the dearest."""
        return price.scores(np.where(raw == UNPRICED, np.nan, raw), feasible)
