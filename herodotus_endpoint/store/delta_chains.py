"""Frames at rest: a decision is a key frame, or a delta against the key frame of its chain.

Owns: what is left out of a stored decision because it follows from the rest, compression against a key frame, which
decisions share one. Does not own: where blobs are kept (`writer`, `reader`), when chains go (`retention`).

A key frame's blob is a zstd frame. A delta's is the first DIGEST_BYTES of its key frame's digest, and a zstd frame that
has the key frame as its dictionary: decisions of one pod template differ in a few entries of a few columns. A delta
needs its key frame alone and no other delta. What was stored before there were chains is the compressed wire frame.

Invariant: `unpack(plain(...))` gives back what was packed, fields that this version does not know included. A chain
holds one incarnation, source, namespace and pod template (so one cluster and profile), at most MOST_MEMBERS decisions,
and spans at most LIFETIME_S, so that it can be deleted whole.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from herodotus_record import codec
from herodotus_record.codec import CodecError
from herodotus_record.model import Decision

MAX_MEMBERS: Final = 32  # a key frame is 30 times a delta: with more of them nothing is gained any more
LIFETIME_S: Final = 600.0  # a chain goes whole: so much longer than asked for may its oldest decision stay
PARTITION_US: Final = 6 * 3_600_000_000  # of the time of ingest; chains end with it, since some databases drop it whole
MAX_KEY_FRAME_BYTES: Final = 32 << 20  # of open chains' key frames; zstd's own tables double that
DIGEST_BYTES: Final = 8  # tells a wrong key frame; damage is told by zstd's checksum
MAX_RANGE: Final = 1 << 20  # of totals, for which ranks are counted instead of sorted
_MAGIC: Final = b"HR\x01"  # a decision at rest, version 1
_WIRE: Final = b"HF"
_DECISION: Final = 1
_PACKED_RANK: Final = b"p"  # beside the codec's type codes: a bit a slot, whether it is feasible

Json = dict[str, Any]


class _ChainKey(NamedTuple):
    """What the decisions of a chain have in common."""

    incarnation_id: int
    source: str
    profile: str
    namespace: str
    digest: str
    slots: int


@dataclass
class _OpenChain:
    """A chain that may still grow."""

    base: int
    digest: bytes
    compressor: zstandard.ZstdCompressor
    size: int
    members: int
    until_us: int


class OpenChains:
    """The open chains of a writer. Forget it when a transaction is rolled back: their key frames may not be stored."""

    def __init__(self) -> None:
        self._open: OrderedDict[_ChainKey, _OpenChain] = OrderedDict()
        self._bytes = 0

    def base_sequences(self, incarnation_id: int) -> set[int]:
        """The sequences of the key frames that the incarnation's open chains need."""
        return {chain.base for key, chain in self._open.items() if key.incarnation_id == incarnation_id}

    def keep_only(self, incarnation_id: int, bases: Collection[int]) -> None:
        """Close the incarnation's chains but those of `bases`: the other key frames are stored no longer."""
        for key in [k for k, c in self._open.items() if k.incarnation_id == incarnation_id and c.base not in bases]:
            self._bytes -= self._open.pop(key).size

    def pack(self, incarnation_id: int, decision: Decision, raw: bytes | memoryview, now_us: int) -> tuple[int, bytes]:
        """The sequence of the decision's key frame (its own, if it is one) and its blob. `raw`: its wire frame."""
        content = _strip_derived(raw, decision)
        pod = decision.pod
        profile = decision.scheduler.profile
        key = _ChainKey(incarnation_id, decision.key.source.value, profile, pod.namespace, pod.digest, decision.slots)
        chain = self._open.get(key)
        if chain and chain.members < MAX_MEMBERS and now_us < chain.until_us:
            chain.members += 1
            self._open.move_to_end(key)
            return chain.base, chain.digest + chain.compressor.compress(content)
        self._begin(key, decision.sequence, content, now_us)
        return decision.sequence, _compressor().compress(content)

    def _begin(self, key: _ChainKey, sequence: int, content: bytes, now_us: int) -> None:
        replaced = self._open.pop(key, None)
        until_us = min(now_us + int(LIFETIME_S * 1e6), now_us - now_us % PARTITION_US + PARTITION_US)
        chain = _OpenChain(sequence, _digest(content), _compressor(content), len(content), 1, until_us)
        self._open[key] = chain
        self._bytes += chain.size - (replaced.size if replaced else 0)
        while self._bytes > MAX_KEY_FRAME_BYTES and len(self._open) > 1:
            self._bytes -= self._open.popitem(last=False)[1].size


def compress_chain(contents: Sequence[bytes]) -> list[bytes]:
    """Blobs of a chain that does not grow any more; the first one is its key frame. There must be one."""
    key = contents[0]
    digest, compressor = _digest(key), _compressor(key)
    return [_compressor().compress(key), *(digest + compressor.compress(content) for content in contents[1:])]


def decompress_blob(blob: bytes, base: Callable[[], bytes] | None) -> bytes:
    """What was packed. `base`: asked for the blob of the key frame, None for a key frame itself.

    CodecError when the blob is damaged, or the key frame is not the one that it was packed against.
    """
    if base is None:
        return codec.decompress(blob, codec.MAX_FRAME_BYTES + 64)
    return _from_delta(blob, codec.decompress(base(), codec.MAX_FRAME_BYTES + 64))


def decode_decision(content: bytes) -> Decision:
    """The decision in plain bytes that `Chains` packed. CodecError when they are none."""
    if content[: len(_WIRE)] == _WIRE:
        decision = codec.decode(content)
    elif content[: len(_MAGIC)] == _MAGIC:
        decision = codec.decode_payload(_DECISION, _restore_payload(content))
    else:
        raise CodecError(f"a stored decision of an unknown form: {content[:3]!r}")
    assert isinstance(decision, Decision)
    return decision


def encode_wire_frame(content: bytes) -> bytes:
    """The wire frame of the decision in plain bytes, fields that this version does not know included."""
    return content if content[: len(_WIRE)] == _WIRE else codec.build_frame(_DECISION, _restore_payload(content))


def _from_delta(blob: bytes, base: bytes) -> bytes:
    if blob[:DIGEST_BYTES] != _digest(base):
        raise CodecError("the key frame is not the one that this decision was stored against")
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    try:
        content: bytes = zstandard.ZstdDecompressor(dict_data=dictionary).decompress(blob[DIGEST_BYTES:])
    except zstandard.ZstdError as e:
        raise CodecError(f"not zstd: {e}") from e
    return content


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def _compressor(dictionary: bytes = b"") -> zstandard.ZstdCompressor:
    parameters: Json = {"level": codec.ZSTD_LEVEL, "write_checksum": True}
    if dictionary:
        prepared = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        prepared.precompute_compress(level=codec.ZSTD_LEVEL)
        parameters["dict_data"] = prepared
    return zstandard.ZstdCompressor(**parameters)


def _strip_derived(raw: bytes | memoryview, decision: Decision) -> bytes:
    """A wire frame's document without what follows: a rank from the totals, a normalised score that is the raw one."""
    document = _fields.decode(memoryview(raw)[codec.HEADER_BYTES :])
    rank = codec.as_numpy(decision.rank)
    feasible = rank > 0
    if document["rank"] == _FOLLOWS or np.array_equal(_rank(codec.as_numpy(decision.totals), feasible), rank):
        document["rank"] = _encoded(_PACKED_RANK + np.packbits(feasible).tobytes())
    document["scores"] = _encoded(
        [_omit_equal_normalized(score) for score in _list_of_fields.decode(document["scores"])]
    )
    return _MAGIC + _encoder.encode(document)


def _omit_equal_normalized(score: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return score | {"normalized": _NIL} if score["normalized"] in (score["raw"], _FOLLOWS) else score


def _encoded(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))


def _restore_payload(content: bytes) -> bytes:
    """The payload that `_slim` was given."""
    document: Json = _decoder.decode(memoryview(content)[len(_MAGIC) :])
    if document["rank"][:1] == _PACKED_RANK:
        bits = np.frombuffer(document["rank"], np.uint8, offset=1)
        feasible = np.unpackbits(bits, count=document["slots"]).astype(np.bool_)
        rank = codec.column_from_numpy(_rank(_numbers(document["totals"]), feasible))
        document["rank"] = rank.typecode.encode() + rank.tobytes()
    for score in document["scores"]:
        if score["normalized"] is None:
            score["normalized"] = score["raw"]
    return _encoder.encode(document)


def _numbers(column: bytes) -> NDArray[Any]:
    """An encoded column: one byte of type code, then little-endian entries."""
    if len(column) < 2:
        return np.zeros(0, np.uint8)
    return np.frombuffer(column, np.dtype(f"<{column[:1].decode()}"), offset=1)


def _rank(totals: NDArray[Any], feasible: NDArray[np.bool_]) -> NDArray[Any]:
    """As records rank: 1 for the best total of those feasible, equals alike; without totals 1 for each of them."""
    if not len(totals):
        return feasible.astype(np.uint8)
    least, most = int(totals.min()), int(totals.max())
    if len(totals) != len(feasible) or most - least >= MAX_RANGE:
        return np.zeros(0, np.uint8)  # equals nobody's: such a rank is stored as it is
    above = most - totals.astype(np.intp)
    counts = np.bincount(above[feasible], minlength=most - least + 1)
    better = np.cumsum(counts) - counts + 1
    ranks: NDArray[Any] = better.astype(np.int32)[above] * feasible
    return ranks


_decoder: Final = msgspec.msgpack.Decoder()
_fields: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])  # copies no column
_list_of_fields: Final = msgspec.msgpack.Decoder(list[dict[str, msgspec.Raw]])
_encoder: Final = msgspec.msgpack.Encoder()
_NIL: Final = _encoded(None)
_FOLLOWS: Final = _encoded(codec.encode_column(codec.DERIVED))  # where the wire's frame leaves it out too
