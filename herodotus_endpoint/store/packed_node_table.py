"""A node table that decodes the resource amounts of a node when they are read.

Owns: the representation of stored rows, encoding and decoding amounts. Does not own: reading rows (`node_rows`),
caching tables (`node_table_cache`).

Most answers need the amounts of a few nodes. Decoding the amounts of 5,000 nodes would take most of an answer's time.

Invariant: a packed table behaves as a `NodeTable`; its rows are never changed in place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from herodotus_record.model import NodeTable
from herodotus_record.typed_decoding import msgpack_decoder

Amounts = dict[str, tuple[int, int]]  # resource -> allocatable, requested
NO_AMOUNTS: Final = b"\x80"  # a free slot: MessagePack's empty map
_ZERO: Final = (0, 0)


class _AmountsColumn(Sequence[Mapping[str, int]]):
    """A sequence with the resource amounts of the node in each slot, decoded on access.

    An item maps each resource to its allocatable amount if `half` is 0, or to its requested amount if `half` is 1.
    """

    def __init__(self, rows: Sequence[bytes], half: int) -> None:
        self._rows = rows
        self._half = half

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __getitem__(self, slot: Any) -> Any:
        return {resource: pair[self._half] for resource, pair in _decoder.decode(self._rows[slot]).items()}


@dataclass
class PackedTable(NodeTable):
    """A node table whose resource amounts (allocatable and requested) stay MessagePack-encoded until they are read."""

    packed: list[bytes] = field(default_factory=list)
    _decoded: dict[int, Amounts] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        self.allocatable, self.requested = _AmountsColumn(self.packed, 0), _AmountsColumn(self.packed, 1)

    @classmethod
    def empty(cls, generation: int, slots: int) -> PackedTable:
        """Return a table with `slots` node slots that have no node."""
        return cls(generation, [""] * slots, [""] * slots, [-1] * slots, packed=[NO_AMOUNTS] * slots)

    def copied(self, generation: int, slots: int) -> PackedTable:
        """Return a copy for another generation, cut or extended with free node slots to `slots` slots."""
        names, uids, since, packed = self.names[:slots], self.uids[:slots], self.since[:slots], self.packed[:slots]
        more = slots - len(names)
        names += [""] * more
        return PackedTable(
            generation, names, uids + [""] * more, since + [-1] * more, packed=packed + [NO_AMOUNTS] * more
        )

    def put_all(self, rows: Iterable[tuple[int, int, str, str, bytes]]) -> None:
        """Set the nodes of slots from rows of (slot, since, node name, node UID, encoded amounts).

        `since` is the generation of the table since which the row is valid.
        """
        names, uids, sinces, packed = self.names, self.uids, self.since, self.packed
        for slot, since, name, uid, amounts in rows:
            names[slot], uids[slot], sinces[slot], packed[slot] = name, uid, since, amounts
        self._decoded.clear()

    def free_amounts(self, slots: Collection[int], resource: str) -> list[int]:
        """Return the free amount (allocatable minus requested) of a resource on the node in each of `slots`."""
        decoded, packed = self._decoded, self.packed
        for slot in slots:
            if slot not in decoded:
                decoded[slot] = _decoder.decode(packed[slot])
        pairs = [decoded[slot].get(resource, _ZERO) for slot in slots]
        return [allocatable - requested for allocatable, requested in pairs]


def pack_amounts(amounts: Amounts) -> bytes:
    """Encode a node's resource amounts, a dict of resource to (allocatable, requested), as they are stored."""
    return msgspec.msgpack.encode(amounts)


def unpack_amounts(amounts: bytes) -> Amounts:
    """Decode a node's resource amounts that `pack_amounts` encoded.

    Raises msgspec.MsgspecError if the bytes are invalid.
    """
    return _decoder.decode(amounts)


_decoder: Final = msgpack_decoder(Amounts)
