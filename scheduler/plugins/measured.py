"""Numbers that annotators write on nodes, as columns.

Owns: reading annotations into numbers, and leaving out what is too old. Does not own: keys and units
(`formulas.measurements`), what the numbers mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Code, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.columns.dictionary import DictionaryColumn
from scheduler.formulas import measurements

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Clock = Callable[[], float]  # seconds since 1970


class Measured:
    """One group's numbers, for one plugin. A column is parsed again only when an annotation changed."""

    def __init__(self, group: str, max_age_s: float, clock: Clock = time.time) -> None:
        """`max_age_s`: older values are as if they were absent."""
        self.stamp = measurements.MEASURED[group]
        self._max_age_s = max_age_s
        self._clock = clock
        self._parsed: dict[str, tuple[DictionaryColumn[Any], int, int, Floats]] = {}

    def fresh(self, nodes: NodeColumns) -> Mask:
        """Which slots' values are not too old. Where nobody says when they are from, they are fresh."""
        moments = self._column(nodes, self.stamp, measurements.moment)
        fresh: Mask = ~(self._clock() - moments > self._max_age_s)
        return fresh

    def note(self, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Success; for the record, how many nodes have values that are too old."""
        stale = int((feasible & ~self.fresh(nodes)).sum())
        if not stale:
            return SUCCESS
        text = f"what was measured of {stale} node(s) is older than {self._max_age_s:g} s, and ignored"
        return Verdict(Code.SUCCESS, (Reason("text", {"text": text}),))

    def of(self, nodes: NodeColumns, *keys: str) -> Floats:
        """The first of these annotations that a node has; NaN where it has none, or no number, or it is too old."""
        values = np.full(nodes.slots, np.nan)
        for key in reversed(keys):
            found = self._column(nodes, key, measurements.number)
            values = np.where(np.isnan(found), values, found)
        values[~self.fresh(nodes)] = np.nan
        return values

    def _column(self, nodes: NodeColumns, key: str, parse: Callable[[str | None], float]) -> Floats:
        column = nodes.annotation(key)
        known = self._parsed.get(key)
        if known is not None and known[0] is column and known[1:3] == (column.version, nodes.slots):
            return known[3]
        distinct = np.fromiter(map(parse, column.values), np.float64, len(column.values))
        found = distinct.take(column.ids(nodes.slots))
        self._parsed[key] = (column, column.version, nodes.slots, found)
        return found
