"""Node histories at rest: a blob of counter columns for a cluster, a profile, an hour and some hundred nodes.

Owns: the blob's layout, adding to it, reading one node out of it. Does not own: what is counted (`counters`), SQL.

Layout: MessagePack, zstd-compressed: the dense node ids, each counter as a column in that order in the narrowest type
that holds it, per workload how often it went to a node, and per workload what decided that how often.

Invariant: a column has one entry a node of `nodes`; a node's entries are the sums over the decisions of the bucket.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from struct import Struct
from typing import Final

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from herodotus_endpoint.store.counters import NO_PLACEMENTS, OTHER, CounterName, DecisionCounts, Ints
from herodotus_endpoint.store.integrity import DamagedError
from herodotus_record import codec
from herodotus_record.codec import CodecError
from herodotus_record.placements import PlacementCount

BUCKET_US: Final = 3_600_000_000  # an hour: a day's history is 24 blobs
PART_NODES: Final = 256  # ids of one part: a month of one node is 720 blobs, read in a tenth of a second
ALL_NODES_PART: Final = -1  # the part with all nodes, stored before there were parts
MAX_COUNTERS: Final = 2_000  # a hundred plugins with a score of counters each; more is a plugin that makes names up
MAX_WORKLOADS: Final = 1_000  # a bucket's workloads that are counted by name; the rest is counted as "other"
MAX_CACHED_BYTES: Final = 4 << 20  # of blobs that are kept unpacked, which takes some thirty times as much
MAX_BYTES: Final = 1 << 30  # unpacked; 20,000 nodes with every counter in its widest type are 320 MB

RollupKey = tuple[object, ...]  # bucket, cluster, profile, part


class PackedRollup(msgspec.Struct):
    """The blob's outer form."""

    nodes: bytes
    counters: list[tuple[str, str, str, str, bytes]]  # counter, plugin, detail, type code, column
    workloads: dict[str, dict[int, int]]
    decided: dict[
        str, dict[str, dict[int, PlacementCount]]
    ] = {}  # workload -> reason -> node; not there before it was counted


@dataclass
class Rollup:
    """One bucket, unpacked: `counts` has a row a node, in the order of `nodes`, which is sorted."""

    nodes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    names: dict[CounterName, int] = field(default_factory=dict)  # the column of each counter
    counts: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    workloads: dict[str, dict[int, int]] = field(default_factory=dict)
    decided: dict[str, dict[str, dict[int, PlacementCount]]] = field(default_factory=dict)

    def add(self, counted: DecisionCounts, slots: Ints, node_ids: Ints) -> None:
        """Add what was counted in some slots. `node_ids`: the node in each of them, sorted, none twice."""
        places, columns, values = self._places(node_ids), self._columns(counted.columns), counted.block[slots]
        in_order = columns == list(range(len(self.names)))  # as a rule: then nothing is to be put in place
        self.counts[places] += values if in_order else _placed(values, columns, len(self.names))
        node_of = dict(zip(slots.tolist(), node_ids.tolist(), strict=True))
        for (workload, slot), count in counted.workloads.items():
            if slot in node_of:
                nodes = self.workloads.setdefault(_named(workload, self.workloads), {})
                nodes[node_of[slot]] = nodes.get(node_of[slot], 0) + count
        for (workload, by, slot), tally in counted.decided.items():
            if slot in node_of:
                tallies = self.decided.setdefault(_named(workload, self.decided), {}).setdefault(by, {})
                tallies[node_of[slot]] = tally.add(tallies.get(node_of[slot], NO_PLACEMENTS))

    def forget(self, namespace: str) -> bool:
        """Take the names of a namespace's workloads out; whether there were any."""
        before = len(self.workloads) + len(self.decided)
        self.workloads = {w: n for w, n in self.workloads.items() if not w.startswith(f"{namespace}/")}
        self.decided = {w: by for w, by in self.decided.items() if not w.startswith(f"{namespace}/")}
        return len(self.workloads) + len(self.decided) < before

    def column(self, counter: CounterName) -> Ints:
        """What was counted of each node."""
        column = self.names.get(counter)
        return np.zeros(len(self.nodes), np.int64) if column is None else self.counts[:, column]

    @property
    def chosen(self) -> int:
        """How often its nodes were chosen, all together."""
        return int(self.column(CounterName("chosen")).sum())

    def pack(self) -> bytes:
        """The bucket as a blob."""
        lows, highs = self.counts.min(axis=0, initial=0).tolist(), self.counts.max(axis=0, initial=0).tolist()
        codes = map(codec.narrowest_typecode, lows, highs)
        columns = zip(self.names, codes, np.ascontiguousarray(self.counts.T), strict=True)
        entries = [(*name, code, values.astype(code).tobytes()) for name, code, values in columns]
        packed = PackedRollup(self.nodes.tobytes(), entries, self.workloads, self.decided)
        return _zstd.compressor.compress(_encoder.encode(packed))

    @classmethod
    def unpack(cls, blob: bytes) -> Rollup:
        """The bucket in a blob that `pack` made."""
        packed = _packed(blob)
        nodes = np.frombuffer(packed.nodes, np.int32)
        names = {CounterName(*name): column for column, (*name, _, _) in enumerate(packed.counters)}
        counts = np.empty((len(nodes), len(names)), np.int64)
        for column, (*_, code, raw) in enumerate(packed.counters):
            counts[:, column] = np.frombuffer(raw, np.dtype(code))
        order = np.argsort(nodes)
        return cls(nodes[order], names, counts[order], packed.workloads, packed.decided)

    def _places(self, node_ids: Ints) -> Ints:
        """The row of each node; new ones are put in."""
        nodes = np.union1d(self.nodes, node_ids)
        if len(nodes) > len(self.nodes):
            counts = np.zeros((len(nodes), len(self.names)), np.int64)
            counts[np.searchsorted(nodes, self.nodes)] = self.counts
            self.nodes, self.counts = nodes.astype(np.int32), counts
        return np.searchsorted(self.nodes, node_ids)

    def _columns(self, names: Iterable[CounterName]) -> list[int]:
        """The column of each counter; new ones are put in, as far as there is room for their names."""
        columns = []
        for name in names:
            if name not in self.names and len(self.names) >= MAX_COUNTERS:
                name = CounterName(name.counter, OTHER)
            columns.append(self.names.setdefault(name, len(self.names)))
        more = len(self.names) - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, more))) if more else self.counts
        return columns


class RollupCache:
    """Buckets as they were written last, so that the next batch need not unpack them. Forget it after a rollback."""

    def __init__(self) -> None:
        self._kept: OrderedDict[RollupKey, tuple[bytes, Rollup]] = OrderedDict()  # the one written last at the end
        self._bytes = 0

    def get(self, key: RollupKey, blob: bytes) -> Rollup:
        """Return the bucket in the stored blob, which another process or retention may have written."""
        written, rollup = self._kept.get(key, (b"", None))
        if rollup and written == blob:
            return rollup
        try:
            return Rollup.unpack(blob)
        except DamagedError as e:  # records must be stored all the same
            _log.error("%s: counted anew from here on, what it held is lost; its key: %s", e, key)
            return Rollup()

    def keep(self, key: RollupKey, blob: bytes, rollup: Rollup) -> None:
        """What is about to be stored."""
        before, _ = self._kept.pop(key, (b"", None))
        self._kept[key] = (blob, rollup)
        self._bytes += len(blob) - len(before)
        while self._bytes > MAX_CACHED_BYTES:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= len(oldest)


class NodeSums:
    """What blobs hold of some nodes, added up; of the counters `by_bucket` also by bucket."""

    def __init__(self, node_ids: Sequence[int], by_bucket: Sequence[CounterName]) -> None:
        self.workloads: Counter[str] = Counter()
        self.decided: dict[str, dict[str, PlacementCount]] = {}
        self.buckets: dict[int, list[int]] = {}
        self._node_ids = node_ids
        self._by_bucket = by_bucket
        self._counters: Counter[CounterName] = Counter()
        self._names: list[CounterName] = []  # of the blob before: those of the next one are the same as a rule
        self._sums: list[int] = []  # of such blobs, by name

    def add(self, bucket: int, blob: bytes) -> None:
        """Add one blob. No other node's counters are looked at."""
        packed = _packed(blob)
        nodes = np.frombuffer(packed.nodes, np.int32)
        for node_id in self._node_ids:
            place = int((nodes == node_id).argmax()) if len(nodes) else 0
            if len(nodes) and nodes[place] == node_id:
                self._add(bucket, packed, place)
                self._add_workloads(packed, node_id)

    def counters(self) -> Counter[CounterName]:
        """Return the sums of all added blobs."""
        for name, value in zip(self._names, self._sums, strict=True):
            self._counters[name] += value
        self._names, self._sums = [], []
        return self._counters

    def _add(self, bucket: int, packed: PackedRollup, place: int) -> None:
        entries = [_ENTRIES[code] for _, _, _, code, _ in packed.counters]
        raws = [raw for _, _, _, _, raw in packed.counters]
        values = [e.unpack_from(raw, place * e.size)[0] for e, raw in zip(entries, raws, strict=True)]
        if [(counter, plugin, detail) for counter, plugin, detail, _, _ in packed.counters] != self._names:
            self.counters()
            self._names = [CounterName(*name) for *name, _, _ in packed.counters]
            self._sums = [0] * len(values)
        self._sums = list(map(add, self._sums, values))
        before = self.buckets.get(bucket) or [0] * len(self._by_bucket)
        of = dict(zip(self._names, values, strict=True))
        self.buckets[bucket] = [n + of.get(name, 0) for n, name in zip(before, self._by_bucket, strict=True)]

    def _add_workloads(self, packed: PackedRollup, node_id: int) -> None:
        for workload, times in packed.workloads.items():
            if node_id in times:
                self.workloads[workload] += times[node_id]
        for workload, by in packed.decided.items():
            for reason, tallies in by.items():
                if node_id in tallies:
                    mine = self.decided.setdefault(workload, {})
                    mine[reason] = tallies[node_id].add(mine.get(reason, NO_PLACEMENTS))


def part_of(node_id: int) -> int:
    """The part of a bucket that counts a node."""
    return node_id // PART_NODES


def node_ids_in(blob: bytes) -> set[int]:
    """The ids of the nodes that a blob counts."""
    return set(np.frombuffer(_packed(blob).nodes, np.int32).tolist())


def _packed(blob: bytes) -> PackedRollup:
    try:
        return _decoder.decode(codec.decompress(blob, MAX_BYTES))
    except (CodecError, msgspec.MsgspecError, TypeError) as e:
        raise DamagedError(f"a stored history of an hour is damaged: {e}") from e


class _Zstd(threading.local):
    """Each thread's own. Frames have a checksum."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=codec.ZSTD_LEVEL, write_checksum=True)


def split_by_part(node_ids: Ints) -> dict[int, Ints]:
    """By parts the slots that hold their nodes, sorted by node. A node that is in two slots counts in the first."""
    nodes, slots = np.unique(node_ids, return_index=True)
    nodes, slots = nodes[nodes > 0], slots[nodes > 0]
    parts = nodes // PART_NODES
    return {int(part): slots[parts == part] for part in np.unique(parts)}


def bucket_of(started_us: int) -> int:
    """The bucket of a decision that started then."""
    return started_us // BUCKET_US


def _placed(values: Ints, columns: Sequence[int], width: int) -> Ints:
    """The values in other columns; those that share one are added up."""
    placed = np.zeros((len(values), width), np.int64)
    for column, of_counter in zip(columns, values.T, strict=True):
        placed[:, column] += of_counter
    return placed


def _named(workload: str, named: Mapping[str, object]) -> str:
    """What a workload is counted as."""
    return workload if workload in named or len(named) < MAX_WORKLOADS else OTHER


_zstd: Final = _Zstd()
_log: Final = logging.getLogger(__name__)
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(PackedRollup)
_ENTRIES: Final = {code: Struct(f"={code}") for code in "BbHhiq"}  # a column's entry by its type code
