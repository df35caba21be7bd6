"""The annotator `price`: a price for every node, random or given. Prices do not change, so it runs once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from herodotus_agents.annotators.controller import Values
from herodotus_agents.objects import NodeView
from herodotus_kube.http import ApiServer
from scheduler.engine.formulas.measurements import COST

PRICES: Final = ("0.05", "0.10", "0.20", "0.40", "0.80", "1.60")


@dataclass(frozen=True)
class PriceAnnotator:
    """Annotates nodes with prices, either given or random.

    `given` maps node names to prices; if it is not empty, only these nodes are annotated. Random prices are equal for
    equal `seed`. `annotation` is the key to write.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    annotation: str = COST
    group: str = "price"

    def measure(self, nodes: Sequence[NodeView], kube: ApiServer) -> Values:
        """Return, by node name, the price annotation to write."""
        if self.given:
            return {node: {self.annotation: price} for node, price in self.given.items()}
        generator = random.Random(self.seed)
        return {node.name: {self.annotation: generator.choice(PRICES)} for node in sorted(nodes, key=lambda n: n.name)}


def list_prices(nodes: Sequence[NodeView], annotation: str) -> list[tuple[str, str]]:
    """Return (node name, price) pairs, sorted by name; the price is "" if the node has none.

    `annotation` is the key of the annotation that holds the price.
    """
    return [(node.name, node.annotations.get(annotation, "")) for node in sorted(nodes, key=lambda n: n.name)]
