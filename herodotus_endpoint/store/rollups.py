"""Node histories at rest: a blob of counter columns for a cluster, a profile, an hour and some hundred nodes.

Owns: the blob's layout, adding to it, reading one node out of it. Does not own: what is counted (`counters`), SQL.

Layout: MessagePack, zstd-compressed: the dense node ids, each counter as a column in that order in the narrowest type
that holds it, per workload how often it went to a node, and per workload what decided that how often.

Invariant: a column has one entry a node of `nodes`; a node's entries are the sums over the decisions of the bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_endpoint.store.counters import NO_TALLY, OTHER, Counted, Ints, Name
from herodotus_record import codec
from herodotus_record.placements import Tally

BUCKET_US: Final = 3_600_000_000  # an hour: a day's history is 24 blobs
PART_NODES: Final = 256  # ids of one part: a month of one node is 720 blobs, read in a tenth of a second
WHOLE: Final = -1  # the part with all nodes, stored before there were parts
MAX_COUNTERS: Final = 2_000  # a hundred plugins with a score of counters each; more is a plugin that makes names up
MAX_WORKLOADS: Final = 1_000  # a bucket's workloads that are counted by name; the rest is counted as "other"
MAX_BYTES: Final = 1 << 30  # unpacked; 20,000 nodes with every counter in its widest type are 320 MB


class Packed(msgspec.Struct):
    """The blob's outer form."""

    nodes: bytes
    counters: list[tuple[str, str, str, str, bytes]]  # counter, plugin, detail, type code, column
    workloads: dict[str, dict[int, int]]
    decided: dict[str, dict[str, dict[int, Tally]]] = {}  # workload -> reason -> node; not there before it was counted


@dataclass
class Rollup:
    """One bucket, unpacked as far as it was needed."""

    nodes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    columns: dict[Name, NDArray[Any]] = field(default_factory=dict)
    workloads: dict[str, dict[int, int]] = field(default_factory=dict)
    decided: dict[str, dict[str, dict[int, Tally]]] = field(default_factory=dict)

    def add(self, counted: Counted, node_ids: Ints) -> None:
        """Add what was counted by slot. `node_ids`: the node in each slot, 0 where the slot is free."""
        held = np.flatnonzero(node_ids[: counted.slots])
        places = self._places(node_ids[held])
        for name, values in counted.columns.items():
            if name not in self.columns and len(self.columns) >= MAX_COUNTERS:
                name = Name(name.counter, OTHER)
            column = self._column(name)
            np.add.at(column, places, values[held])
        for (workload, slot), count in counted.workloads.items():
            if slot < len(node_ids) and node_ids[slot]:
                if workload not in self.workloads and len(self.workloads) >= MAX_WORKLOADS:
                    workload = OTHER
                nodes = self.workloads.setdefault(workload, {})
                nodes[int(node_ids[slot])] = nodes.get(int(node_ids[slot]), 0) + count
        for (workload, by, slot), tally in counted.decided.items():
            if slot < len(node_ids) and node_ids[slot]:
                if workload not in self.decided and len(self.decided) >= MAX_WORKLOADS:
                    workload = OTHER
                tallies = self.decided.setdefault(workload, {}).setdefault(by, {})
                tallies[int(node_ids[slot])] = tally.plus(tallies.get(int(node_ids[slot]), NO_TALLY))

    def forget(self, namespace: str) -> bool:
        """Take the names of a namespace's workloads out; whether there were any."""
        before = len(self.workloads) + len(self.decided)
        self.workloads = {w: n for w, n in self.workloads.items() if not w.startswith(f"{namespace}/")}
        self.decided = {w: by for w, by in self.decided.items() if not w.startswith(f"{namespace}/")}
        return len(self.workloads) + len(self.decided) < before

    @property
    def chosen(self) -> int:
        """How often its nodes were chosen, all together."""
        column = self.columns.get(Name("chosen"))
        return 0 if column is None else int(column.sum())

    def pack(self) -> bytes:
        """The bucket as a blob."""
        columns = ((name, codec.column(self._whole(values))) for name, values in self.columns.items())
        entries = [(*name, str(c.typecode), c.tobytes()) for name, c in columns]
        packed = Packed(self.nodes.tobytes(), entries, self.workloads, self.decided)
        return codec.compress(msgspec.msgpack.encode(packed))

    @classmethod
    def unpack(cls, blob: bytes) -> Rollup:
        """The bucket in a blob that `pack` made."""
        packed = _packed(blob)
        columns: dict[Name, NDArray[Any]] = {
            Name(counter, plugin, detail): np.frombuffer(raw, np.dtype(code))
            for counter, plugin, detail, code, raw in packed.counters
        }
        return cls(np.frombuffer(packed.nodes, np.int32), columns, packed.workloads, packed.decided)

    def _places(self, node_ids: Ints) -> Ints:
        """Where each node stands in the columns; new ones are appended."""
        if not len(node_ids):
            return np.zeros(0, np.int64)
        place_of = np.full(max(int(node_ids.max()), int(self.nodes.max(initial=0))) + 1, -1)
        place_of[self.nodes] = np.arange(len(self.nodes))
        fresh = np.unique(node_ids[place_of[node_ids] < 0])
        place_of[fresh] = np.arange(len(self.nodes), len(self.nodes) + len(fresh))
        self.nodes = np.concatenate([self.nodes, fresh.astype(np.int32)])
        return place_of[node_ids]

    def _column(self, name: Name) -> NDArray[Any]:
        """The counter's column in full width, as long as `nodes`, ready to be added to."""
        column = self.columns.get(name)
        if column is None or len(column) < len(self.nodes) or column.dtype != np.int64 or not column.flags.writeable:
            none: Ints = np.zeros(0, np.int64)
            column = self.columns[name] = self._whole(none if column is None else column).astype(np.int64)
        return column

    def _whole(self, column: NDArray[Any]) -> NDArray[Any]:
        """A column as long as `nodes`."""
        more = len(self.nodes) - len(column)
        return np.concatenate([column, np.zeros(more, column.dtype)]) if more else column


@dataclass
class NodeSums:
    """What blobs hold of some nodes, added up."""

    node_ids: Sequence[int]
    counters: Counter[Name] = field(default_factory=Counter)
    workloads: Counter[str] = field(default_factory=Counter)
    decided: dict[str, dict[str, Tally]] = field(default_factory=dict)

    def add(self, blob: bytes) -> bool:
        """Add one blob; whether it holds one of the nodes. No other node's counters are looked at."""
        packed = _packed(blob)
        nodes = np.frombuffer(packed.nodes, np.int32)
        held = [(node_id, place) for node_id in self.node_ids for place in np.flatnonzero(nodes == node_id).tolist()]
        for node_id, place in held:
            self._add(packed, node_id, place)
        return bool(held)

    def _add(self, packed: Packed, node_id: int, place: int) -> None:
        counters = self.counters
        for counter, plugin, detail, code, raw in packed.counters:
            entry = _ENTRIES[code]
            (value,) = entry.unpack_from(raw, place * entry.size)
            name = (counter, plugin, detail)
            if name in counters:
                counters[name] += value  # type: ignore[index]  # equals the Name that is there
            else:
                counters[Name(*name)] = value
        for workload, times in packed.workloads.items():
            if node_id in times:
                self.workloads[workload] += times[node_id]
        for workload, by in packed.decided.items():
            for reason, tallies in by.items():
                if node_id in tallies:
                    mine = self.decided.setdefault(workload, {})
                    mine[reason] = tallies[node_id].plus(mine.get(reason, NO_TALLY))


def part_of(node_id: int) -> int:
    """The part of a bucket that counts a node."""
    return node_id // PART_NODES


def _packed(blob: bytes) -> Packed:
    return _decoder.decode(codec.decompress(blob, MAX_BYTES))


def split(node_ids: Ints) -> dict[int, Ints]:
    """An assignment of nodes to slots by parts: in each the nodes of other parts are left out."""
    parts = node_ids // PART_NODES
    return {int(part): np.where(parts == part, node_ids, 0) for part in np.unique(parts[node_ids > 0])}


def bucket_of(started_us: int) -> int:
    """The bucket of a decision that started then."""
    return started_us // BUCKET_US


_decoder: Final = msgspec.msgpack.Decoder(Packed)
_ENTRIES: Final = {code: Struct(f"={code}") for code in "BbHhiq"}  # a column's entry by its type code
