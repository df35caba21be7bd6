"""The stored form of node histories: a blob of counters per cluster, profile, hour and part of the nodes.

Owns: the layout of the blob, adding to it, reading the counters of one node. Does not own: what is counted
(`counters`), SQL.

Layout: MessagePack, compressed with zstd. It has the dense node ids, each counter as a column in that order and in the
narrowest type, the placements per workload and node, and these by deciding factor.

Invariant: a column has one entry per node of `nodes`, the sum over the decisions of the bucket.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from struct import Struct
from typing import Final

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from herodotus_answers.node import CounterName
from herodotus_answers.workload import PlacementCount
from herodotus_endpoint.store.counters import NO_PLACEMENTS, OTHER, DecisionCounts, Ints
from herodotus_endpoint.store.integrity import DamagedError
from herodotus_record import codec
from herodotus_record.codec import CodecError
from herodotus_record.lru import Lru
from herodotus_record.typed_decoding import msgpack_decoder

BUCKET_US: Final = 3_600_000_000  # an hour: a day's history is 24 blobs
PART_NODES: Final = 256  # ids in one part: a month of one node is 720 blobs, read in 0.1 s
MAX_COUNTERS: Final = 2_000  # a hundred plugins with twenty counters each; with more, a plugin invents names
MAX_WORKLOADS: Final = 1_000  # workloads counted by name in a bucket; others are counted as "other"
MAX_CACHED_BYTES: Final = 4 << 20  # of blobs whose rollups are cached, which take about thirty times as much
MAX_BYTES: Final = 1 << 30  # decompressed; 20,000 nodes with all counters in the widest type are 320 MB

RollupKey = tuple[object, ...]  # bucket, cluster, profile, part


class PackedRollup(msgspec.Struct):
    """The MessagePack structure of a stored rollup: node ids, their counters, and placements by workload."""

    nodes: bytes
    counters: list[tuple[str, str, str, str, bytes]]  # counter, plugin, detail, type code, column
    workloads: dict[str, dict[int, int]]
    decided: dict[str, dict[str, dict[int, PlacementCount]]]  # workload -> deciding factor -> node id


@dataclass
class Rollup:
    """The decoded counters of some nodes for one hour, cluster and scheduler profile.

    `counts` has a row per node, in the order of the sorted node ids `nodes`, and a column per counter; `names` maps
    counters to columns. `workloads` and `decided` count placements by workload and node id.
    """

    nodes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    names: dict[CounterName, int] = field(default_factory=dict)  # the column of each counter
    counts: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    workloads: dict[str, dict[int, int]] = field(default_factory=dict)
    decided: dict[str, dict[str, dict[int, PlacementCount]]] = field(default_factory=dict)

    def add(self, counted: DecisionCounts, slots: Ints, node_ids: Ints) -> None:
        """Add the counts in `counted` of the node slots `slots` to the counts of the nodes in these slots.

        `node_ids` are the ids of these nodes, sorted and distinct.
        """
        self._add_nodes(node_ids)
        columns, values = self._counter_columns(counted.columns), counted.block[slots]
        if columns != list(range(len(self.names))):
            values = _rearrange(values, columns, len(self.names))
        if len(node_ids) == len(self.nodes):
            self.counts += values
        else:
            self.counts[np.searchsorted(self.nodes, node_ids)] += values
        chosen = counted.columns.get(CounterName("chosen"))
        places = np.zeros(0, np.intp) if chosen is None else np.flatnonzero(chosen[slots])
        for slot, node in zip(slots[places].tolist(), node_ids[places].tolist(), strict=True):
            for workload, count in counted.workloads[slot].items():
                nodes = self.workloads.setdefault(_counted_name(workload, self.workloads), {})
                nodes[node] = nodes.get(node, 0) + count
            for (workload, by), tally in counted.decided[slot].items():
                tallies = self.decided.setdefault(_counted_name(workload, self.decided), {}).setdefault(by, {})
                tallies[node] = tally.add(tallies.get(node, NO_PLACEMENTS))

    def remove_workloads(self, namespace: str) -> bool:
        """Remove the placements of a namespace's workloads and return whether there were any."""
        before = len(self.workloads) + len(self.decided)
        self.workloads = {w: n for w, n in self.workloads.items() if not w.startswith(f"{namespace}/")}
        self.decided = {w: by for w, by in self.decided.items() if not w.startswith(f"{namespace}/")}
        return len(self.workloads) + len(self.decided) < before

    def column(self, counter: CounterName) -> Ints:
        """Return the value of a counter for each node, in the order of `nodes`."""
        column = self.names.get(counter)
        return np.zeros(len(self.nodes), np.int64) if column is None else self.counts[:, column]

    @property
    def chosen(self) -> int:
        """The number of placements on all nodes of the rollup."""
        return int(self.column(CounterName("chosen")).sum())

    def pack(self) -> bytes:
        """Encode the rollup as a blob."""
        lows, highs = self.counts.min(axis=0, initial=0).tolist(), self.counts.max(axis=0, initial=0).tolist()
        codes = list(map(codec.narrowest_typecode, lows, highs))
        raws = _split_columns(self.counts, codes)
        entries = [(*name, code, raw) for name, code, raw in zip(self.names, codes, raws, strict=True)]
        packed = PackedRollup(self.nodes.tobytes(), entries, self.workloads, self.decided)
        return _zstd.compressor.compress(_encoder.encode(packed))

    @classmethod
    def unpack(cls, blob: bytes) -> Rollup:
        """Decode a blob that `pack` made. Raises DamagedError if the blob is damaged."""
        packed = _packed(blob)
        nodes = np.frombuffer(packed.nodes, np.int32)
        names = {CounterName(*name): column for column, (*name, _, _) in enumerate(packed.counters)}
        counts = np.empty((len(nodes), len(names)), np.int64)
        for column, (*_, code, raw) in enumerate(packed.counters):
            counts[:, column] = np.frombuffer(raw, np.dtype(code))
        order = np.argsort(nodes)
        return cls(nodes[order], names, counts[order], packed.workloads, packed.decided)

    def _add_nodes(self, node_ids: Ints) -> None:
        """Add rows to `counts` for those nodes that have none."""
        if np.array_equal(node_ids, self.nodes):  # the usual case
            return
        nodes = np.union1d(self.nodes, node_ids)
        if len(nodes) > len(self.nodes):
            counts = np.zeros((len(nodes), len(self.names)), np.int64)
            counts[np.searchsorted(nodes, self.nodes)] = self.counts
            self.nodes, self.counts = nodes.astype(np.int32), counts

    def _counter_columns(self, names: Iterable[CounterName]) -> list[int]:
        """Return the column of `counts` for each counter, after adding columns for new counters.

        If there are MAX_COUNTERS columns, a new counter is counted in one named OTHER.
        """
        columns = []
        for name in names:
            if name not in self.names and len(self.names) >= MAX_COUNTERS:
                name = CounterName(name.counter, OTHER)
            columns.append(self.names.setdefault(name, len(self.names)))
        more = len(self.names) - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, more))) if more else self.counts
        return columns


class RollupCache:
    """LRU cache of decoded rollups (the node counters of an hour), so that the next batch need not decode them.

    Discard it after a rollback.
    """

    def __init__(self) -> None:
        self._cached: Lru[RollupKey, tuple[bytes, Rollup]] = Lru(MAX_CACHED_BYTES, lambda cached: len(cached[0]))

    def get(self, key: RollupKey, blob: bytes) -> Rollup:
        """Return the rollup that is stored as `blob`, from the cache if it was cached with an equal blob.

        The blob may differ, because another process or retention may have written it. If it is damaged, log this and
        return an empty rollup.
        """
        written, rollup = self._cached.get(key) or (b"", None)
        if rollup and written == blob:
            return rollup
        try:
            return Rollup.unpack(blob)
        except DamagedError as e:  # damage must not stop ingest
            _log.error("%s: its counts are lost and counting starts again; its key: %s", e, key)
            return Rollup()

    def put(self, key: RollupKey, blob: bytes, rollup: Rollup) -> None:
        """Cache a rollup with the blob that is about to be stored."""
        self._cached.put(key, (blob, rollup))


class NodeSums:
    """Sums of counters over rollup blobs, for all nodes in `node_ids` together.

    The counters in `by_bucket` are also summed per hour, in `buckets`.
    """

    def __init__(self, node_ids: Sequence[int], by_bucket: Sequence[CounterName]) -> None:
        self.workloads: Counter[str] = Counter()
        self.decided: dict[str, dict[str, PlacementCount]] = {}
        self.buckets: dict[int, list[int]] = {}
        self._node_ids = node_ids
        self._by_bucket = by_bucket
        self._counters: Counter[CounterName] = Counter()
        self._names: list[CounterName] = []  # of the previous blob; the next one usually has the same
        self._sums: list[int] = []  # sums over blobs with these names

    def add(self, bucket: int, blob: bytes) -> None:
        """Add the counters of the nodes in `node_ids` from the rollup blob of the hour `bucket`.

        The counters of other nodes are not decoded.
        """
        packed = _packed(blob)
        nodes = np.frombuffer(packed.nodes, np.int32)
        for node_id in self._node_ids:
            row = int((nodes == node_id).argmax()) if len(nodes) else 0
            if len(nodes) and nodes[row] == node_id:
                self._add(bucket, packed, row)
                self._add_workloads(packed, node_id)

    def counters(self) -> Counter[CounterName]:
        """Return the sum of each counter over all added blobs."""
        for name, value in zip(self._names, self._sums, strict=True):
            self._counters[name] += value
        self._names, self._sums = [], []
        return self._counters

    def _add(self, bucket: int, packed: PackedRollup, row: int) -> None:
        entries = [_ENTRIES[code] for _, _, _, code, _ in packed.counters]
        raws = [raw for _, _, _, _, raw in packed.counters]
        values = [e.unpack_from(raw, row * e.size)[0] for e, raw in zip(entries, raws, strict=True)]
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
    """Return the number of the range of PART_NODES node ids that contains a node id.

    The histories of the nodes in one range are stored together.
    """
    return node_id // PART_NODES


def node_ids_in(blob: bytes) -> set[int]:
    """Return the ids of the nodes that a rollup blob counts. Raises DamagedError if the blob is damaged."""
    return set(np.frombuffer(_packed(blob).nodes, np.int32).tolist())


def _packed(blob: bytes) -> PackedRollup:
    try:
        return _decoder.decode(codec.decompress(blob, MAX_BYTES))
    except (CodecError, msgspec.MsgspecError, TypeError) as e:
        raise DamagedError(f"a stored history of an hour is damaged: {e}") from e


class _Zstd(threading.local):
    """A zstd compressor per thread, whose frames have a checksum."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=codec.ZSTD_LEVEL, write_checksum=True)


def split_by_part(node_ids: Ints) -> dict[int, Ints]:
    """Group the slots of nodes by the range of node ids (`part_of`), each group ordered by node id.

    `node_ids` has the node id in each slot; slots with 0 are free and left out. A node in two slots counts in the
    first.
    """
    nodes, slots = np.unique(node_ids, return_index=True)
    nodes, slots = nodes[nodes > 0], slots[nodes > 0]
    parts = nodes // PART_NODES
    return {int(part): slots[parts == part] for part in np.unique(parts)}


def bucket_of(started_us: int) -> int:
    """Return the hour, counted since the epoch, of a decision's start time in microseconds."""
    return started_us // BUCKET_US


def _rearrange(values: Ints, columns: Sequence[int], width: int) -> Ints:
    """Return an array of `width` columns in which column i of `values` is moved to column `columns[i]`.

    Columns that are moved to the same place are added.
    """
    placed = np.zeros((len(values), width), np.int64)
    if len(set(columns)) == len(columns):
        placed[:, columns] = values
    else:
        np.add.at(placed.T, columns, values.T)
    return placed


def _split_columns(counts: Ints, codes: Sequence[str]) -> list[bytes]:
    """Return the bytes of each column of `counts` in the type that `codes` names for it."""
    raws = [b""] * len(codes)
    for code in set(codes):
        columns = [i for i, each in enumerate(codes) if each == code]
        block = np.ascontiguousarray(counts[:, columns].T, dtype=code)
        raw, size = block.tobytes(), len(counts) * block.itemsize
        for place, column in enumerate(columns):
            raws[column] = raw[place * size : (place + 1) * size]
    return raws


def _counted_name(workload: str, named: Mapping[str, object]) -> str:
    """Return the name under which a workload is counted: its own, or OTHER if it is new and `named` is full."""
    return workload if workload in named or len(named) < MAX_WORKLOADS else OTHER


_zstd: Final = _Zstd()
_log: Final = logging.getLogger(__name__)
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgpack_decoder(PackedRollup)
_ENTRIES: Final = {code: Struct(f"={code}") for code in "BbHhiq"}  # a column's entry by its type code
