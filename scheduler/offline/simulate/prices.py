"""What nodes cost: a CSV file with prices per hour by node name or by a node label."""

from __future__ import annotations

import csv
import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

from scheduler.engine.objects.types import Node
from scheduler.offline.traces import TraceError

NAME: Final = "name"
PER_HOUR: Final = "per_hour"


class Prices(NamedTuple):
    """Prices per hour by pattern of a node's name, or of the value of a node label.

    `key` is "name" or the label. The first pattern that matches counts.
    """

    key: str
    patterns: tuple[tuple[str, float], ...]

    def find(self, node: Node) -> float:
        """Return the price of a node per hour. Raises TraceError if no pattern matches."""
        labels = node.metadata.labels or {}
        value = node.metadata.name if self.key == NAME else labels.get(self.key, "")
        for pattern, price in self.patterns:
            if fnmatch.fnmatchcase(value, pattern):
                return price
        raise TraceError(f"no price for node {node.metadata.name}, whose {self.key} is {value!r}")


def read_prices(path: Path) -> Prices:
    """Return the prices in a file with two columns: `name` or a node label, and `per_hour`.

    Raises TraceError for an unreadable file or an invalid row.
    """
    try:
        with path.open(newline="") as file:
            rows = [*csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise TraceError(f"{path}: {e}") from e
    if not rows or len(rows[0]) != 2 or rows[0][1] != PER_HOUR:
        raise TraceError(f"{path}: line 1: expected two columns, name or a label of nodes, and {PER_HOUR}")
    prices = []
    for number, row in enumerate(rows[1:], 2):
        try:
            pattern, price = row[0], float(row[1])
            if len(row) != 2 or not 0 <= price < float("inf"):
                raise ValueError
        except (ValueError, IndexError):
            raise TraceError(f"{path}: line {number}: expected a pattern and a price per hour") from None
        prices.append((pattern, price))
    return Prices(rows[0][0], tuple(prices))
