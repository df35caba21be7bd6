"""A node table as it is read: the amounts of a node stay packed until somebody asks for them.

Owns: how a table holds stored rows, packing and unpacking a node's amounts. Does not own: reading the rows
(`noderows`), which tables are kept (`tables`).

Most answers need the amounts of a few nodes; unpacking those of 5,000 would be most of an answer's time.

Invariant: whoever reads it sees a `NodeTable`; its rows are never changed in place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from herodotus_record.model import NodeTable

Amounts = dict[str, tuple[int, int]]  # resource -> allocatable, requested
NO_AMOUNTS: Final = b"\x80"  # of a free slot: MessagePack's empty map
_ZERO: Final = (0, 0)


class _AmountsColumn(Sequence[Mapping[str, int]]):
    """One half of every slot's amounts: what its node has (0), or what is requested of it (1)."""

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
    """A node table over packed amounts, by slot."""

    packed: list[bytes] = field(default_factory=list)
    _unpacked: dict[int, Amounts] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        self.allocatable, self.requested = _AmountsColumn(self.packed, 0), _AmountsColumn(self.packed, 1)

    @classmethod
    def empty(cls, generation: int, slots: int) -> PackedTable:
        """A table without a node."""
        return cls(generation, [""] * slots, [""] * slots, [-1] * slots, packed=[NO_AMOUNTS] * slots)

    def copied(self, generation: int, slots: int) -> PackedTable:
        """The same rows as another generation's, with slots cut off or free ones added."""
        names, uids, since, packed = self.names[:slots], self.uids[:slots], self.since[:slots], self.packed[:slots]
        more = slots - len(names)
        names += [""] * more
        return PackedTable(
            generation, names, uids + [""] * more, since + [-1] * more, packed=packed + [NO_AMOUNTS] * more
        )

    def put_all(self, rows: Iterable[tuple[int, int, str, str, bytes]]) -> None:
        """Slots with who is in each since a generation (slot, since, name, UID, amounts)."""
        names, uids, sinces, packed = self.names, self.uids, self.since, self.packed
        for slot, since, name, uid, amounts in rows:
            names[slot], uids[slot], sinces[slot], packed[slot] = name, uid, since, amounts
        self._unpacked.clear()

    def free_amounts(self, slots: Collection[int], resource: str) -> list[int]:
        """As of any table; what was unpacked once is not again."""
        unpacked, packed = self._unpacked, self.packed
        for slot in slots:
            if slot not in unpacked:
                unpacked[slot] = _decoder.decode(packed[slot])
        pairs = [unpacked[slot].get(resource, _ZERO) for slot in slots]
        return [allocatable - requested for allocatable, requested in pairs]


def pack_amounts(amounts: Amounts) -> bytes:
    """A node's amounts as they are stored."""
    return msgspec.msgpack.encode(amounts)


def unpack_amounts(amounts: bytes) -> Amounts:
    """Return a node's amounts. Raises msgspec.MsgspecError if the bytes are none."""
    return _decoder.decode(amounts)


_decoder: Final = msgspec.msgpack.Decoder(Amounts)
