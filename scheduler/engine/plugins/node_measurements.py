"""Columns of numbers that annotators write on nodes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.formulas import measurements
from scheduler.engine.formulas.inputs import MeasurementTimes, NodeInputColumn, NodeInputs
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.framework.state import CycleState, OutsideReading
from scheduler.engine.objects.pod import PodInfo

Floats = NDArray[np.float64]
Parse = Callable[[str | None], float]  # of an annotation; NaN if it holds no number


class TenPointPlugin(BasePlugin):
    """Base class of score plugins that give 0 to 10 points, as extenders do, which become scores from 0 to 100."""

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        return raw * 10


class NodeMeasurements:
    """The measurements that one annotator wrote on the nodes, as of one time, without expired ones."""

    def __init__(self, reader: MeasurementReader, nodes: NodeColumns, now_s: float) -> None:
        self._reader = reader
        self._nodes = nodes
        moments_s = reader.parse_column(nodes, reader.time_annotation, measurements.moment)
        self.times = MeasurementTimes.from_moments(moments_s, now_s, reader.max_age_s)

    def get(self, *keys: str, parse: Parse = measurements.number) -> Floats:
        """Return, for each node slot, the number in the first of these annotations that holds one.

        The entry is NaN if none of them holds a number, or if the measurement is too old.
        """
        values = np.full(self._nodes.slots, np.nan)
        for key in reversed(keys):
            column = self._reader.parse_column(self._nodes, key, parse)
            values = np.where(np.isnan(column), values, column)
        values[self.times.stale] = np.nan
        return values

    def inputs(self, keys: Sequence[str], *numbers: NodeInputColumn) -> NodeInputs:
        """Return the inputs for the record: `numbers`, which were computed from the annotations `keys`."""
        present = [
            key
            for key in keys
            if self._nodes.annotation(key).where(self._nodes.slots, lambda value: value is not None).any()
        ]
        return self.times.inputs(present or keys[:1], *numbers)


@dataclass(frozen=True)
class _Now(OutsideReading):
    """The Unix time that decides in one attempt which measurements are expired."""

    s: float


class MeasurementReader:
    """A reader of one annotator's measurements, for one plugin.

    It parses an annotation of all nodes again only if a value changed.
    """

    def __init__(self, group: str, max_age_s: float) -> None:
        """Create a reader of the node annotations of the measurement group `group`, such as "usage".

        Values that are older than `max_age_s` seconds are ignored.
        """
        self.time_annotation = measurements.MEASURED[group]
        self.max_age_s = max_age_s
        self._parsed: dict[str, tuple[weakref.ref[DictionaryColumn[Any]], int, int, Floats]] = {}

    def read(self, state: CycleState, nodes: NodeColumns) -> NodeMeasurements:
        """Return the measurements of all nodes without those that are expired at the time of the attempt.

        That time is the present at the first call in the attempt, for all readers.
        """
        now = state.find(_Now)
        if now is None:
            now = _Now(time.time())
            state.write(now)
        return NodeMeasurements(self, nodes, now.s)

    def report_stale(self, state: CycleState, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Return Success; if values of feasible nodes are expired, its reason has the number of these nodes."""
        stale = int((feasible & self.read(state, nodes).times.stale).sum())
        if not stale:
            return SUCCESS
        text = f"what was measured of {stale} node(s) is older than {self.max_age_s:g} s, and ignored"
        return Verdict(Code.SUCCESS, (Reason("text", {"text": text}),))

    def parse_column(self, nodes: NodeColumns, key: str, parse: Parse) -> Floats:
        """Return the parsed value of an annotation for each node slot.

        The array is cached, and callers must not change it.
        """
        column = nodes.annotation(key)
        entry = self._parsed.get(key)
        if entry is not None and entry[0]() is column and entry[1:3] == (column.version, nodes.slots):
            return entry[3]
        distinct = np.fromiter(map(parse, column.values), np.float64, len(column.values))
        values = distinct.take(column.ids(nodes.slots))
        self._parsed[key] = (weakref.ref(column), column.version, nodes.slots, values)
        return values
