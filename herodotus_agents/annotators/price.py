"""price: a price on every node, drawn at random or given. Done once: prices do not change by themselves."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from herodotus_agents.annotators.controller import Values
from herodotus_agents.kube import Kube
from herodotus_agents.objects import Node
from scheduler.formulas.measurements import COST

PRICES: Final = ("0.05", "0.10", "0.20", "0.40", "0.80", "1.60")


@dataclass(frozen=True)
class Price:
    """`given`: prices by node; where there are some, no other node is touched. `seed`: draws the same again."""

    given: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    annotation: str = COST
    group: str = "price"

    def round(self, nodes: Sequence[Node], kube: Kube) -> Values:
        """One annotation a node."""
        if self.given:
            return {node: {self.annotation: price} for node, price in self.given.items()}
        drawn = random.Random(self.seed)
        return {node.name: {self.annotation: drawn.choice(PRICES)} for node in sorted(nodes, key=lambda n: n.name)}


def listed(nodes: Sequence[Node], annotation: str) -> list[tuple[str, str]]:
    """Each node and its price, "" where it has none."""
    return [(node.name, node.annotations.get(annotation, "")) for node in sorted(nodes, key=lambda n: n.name)]
