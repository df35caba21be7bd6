"""The stored form of decisions: a key frame, or a delta against the key frame of its chain.

Owns: omitting fields that follow from others, compression against a key frame, assigning decisions to chains. Does not
own: where blobs are stored (`writer`, `record_loader`), when chains are deleted (`retention`).

The blob of a key frame is a zstd frame. The blob of a delta is the first DIGEST_BYTES of the digest of its key frame,
then a zstd frame with the key frame as dictionary: decisions of one pod template differ in a few entries of a few
columns. To read a delta, its key frame is needed and no other delta.

Invariant: `decode_decision(decompress_blob(...))` returns what was packed, including fields that this version does not
know. A chain has one incarnation, source, namespace and pod template, and so one cluster and profile. It has at most
MAX_MEMBERS decisions and spans at most LIFETIME_S, so that it can be deleted as a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from herodotus_record import codec
from herodotus_record.codec import DECISION, CodecError
from herodotus_record.codec.deltas import DecisionFields, EncodedFrame
from herodotus_record.lru import Lru
from herodotus_record.model import Decision
from herodotus_record.typed_decoding import msgpack_decoder

MAX_MEMBERS: Final = 32  # a key frame is as large as 30 deltas: longer chains save little
LIFETIME_S: Final = 600.0  # a chain is deleted as a unit, so its oldest decision may stay this much longer
PARTITION_US: Final = (
    6 * 3_600_000_000
)  # of ingest time; chains end with a partition, because PostgreSQL drops it as a unit
MAX_KEY_FRAME_BYTES: Final = 32 << 20  # key frames of open chains; zstd's tables double it
MAX_CONTENT_BYTES: Final = codec.MAX_FRAME_BYTES + 64
DIGEST_BYTES: Final = 8  # detects a wrong key frame; zstd's checksum detects damage
MAX_RANGE: Final = 1 << 20  # largest range of totals for which ranks are counted instead of sorted
_MAGIC: Final = b"HR\x01"  # a stored decision, version 1
_PACKED_RANK: Final = b"p"  # in addition to the codec's type codes: one bit per slot, whether it is feasible

Json = dict[str, Any]


class _ChainKey(NamedTuple):
    """The values that all decisions of a chain have in common. A chain is a key frame with its deltas."""

    incarnation_id: int
    source: str
    profile: str
    namespace: str
    digest: str
    slots: int


@dataclass
class _OpenChain:
    """A key frame with its deltas, to which the writer can add more decisions until `until_us`."""

    base: int
    digest: bytes
    compressor: zstandard.ZstdCompressor
    size: int
    members: int
    until_us: int


class OpenChains:
    """The chains to which the writer can still add decisions.

    A chain is a key frame, which is a decision stored whole, with the decisions that are stored as deltas against it.
    Discard the object after a rollback, because its key frames may then not be stored.
    """

    def __init__(self) -> None:
        self._open: Lru[_ChainKey, _OpenChain] = Lru(MAX_KEY_FRAME_BYTES, lambda chain: chain.size)

    def base_sequences(self, incarnation_id: int) -> set[int]:
        """Return the sequence numbers of the decisions that are key frames of an incarnation's open chains."""
        return {chain.base for _, chain in self._chains_of(incarnation_id)}

    def keep_only(self, incarnation_id: int, bases: Collection[int]) -> None:
        """Close an incarnation's open chains whose key frames are no longer stored, so that nothing is added to them.

        `bases` has the sequence numbers of the key frames that are still stored.
        """
        for key, chain in self._chains_of(incarnation_id):
            if chain.base not in bases:
                self._open.discard(key)

    def _chains_of(self, incarnation_id: int) -> list[tuple[_ChainKey, _OpenChain]]:
        return [
            (key, chain)
            for key in self._open
            if key.incarnation_id == incarnation_id and (chain := self._open.peek(key))
        ]

    def pack(
        self, incarnation_id: int, decision: Decision, feasible: NDArray[np.bool_], raw: EncodedFrame, now_us: int
    ) -> tuple[int, bytes]:
        """Return the sequence number of the key frame for a decision, and the blob to store for the decision.

        The blob is a delta if a chain is open for the same pod template, profile, source and number of node slots.
        Otherwise the decision becomes the key frame of a new chain. `feasible` is the decision's mask of feasible
        nodes, with an entry per node slot. `raw` is its frame as it was sent; `now_us` is the ingest time in
        microseconds.
        """
        content = _strip_derived(raw, decision, feasible)
        pod = decision.pod
        profile = decision.scheduler.profile
        key = _ChainKey(incarnation_id, decision.key.source.value, profile, pod.namespace, pod.digest, decision.slots)
        chain = self._open.get(key)
        if chain and chain.members < MAX_MEMBERS and now_us < chain.until_us:
            chain.members += 1
            return chain.base, chain.digest + chain.compressor.compress(content)
        self._begin(key, decision.sequence, content, now_us)
        return decision.sequence, _compressor().compress(content)

    def _begin(self, key: _ChainKey, sequence: int, content: bytes, now_us: int) -> None:
        until_us = min(now_us + int(LIFETIME_S * 1e6), now_us - now_us % PARTITION_US + PARTITION_US)
        chain = _OpenChain(sequence, _digest(content), _compressor(content), len(content), 1, until_us)
        self._open.put(key, chain)


def compress_chain(contents: Sequence[bytes]) -> list[bytes]:
    """Compress contents as one chain and return a blob for each: first the key frame, then deltas against it.

    `contents` are encoded decisions or summaries without compression, at least one.
    """
    key = contents[0]
    digest, compressor = _digest(key), _compressor(key)
    return [_compressor().compress(key), *(digest + compressor.compress(content) for content in contents[1:])]


def decompress_blob(blob: bytes, base: Callable[[], bytes] | None) -> bytes:
    """Return the uncompressed content of a stored blob, which is a key frame if `base` is None, and a delta otherwise.

    `base` returns the blob of the delta's key frame. Raises CodecError if the blob is damaged or was stored against
    another key frame.
    """
    if base is None:
        return codec.decompress(blob, MAX_CONTENT_BYTES)
    return _from_delta(blob, codec.decompress(base(), MAX_CONTENT_BYTES))


def decode_decision(content: bytes) -> Decision:
    """Decode a decision from the uncompressed content of its blob. Raises CodecError if it is not a decision."""
    if content[: len(_MAGIC)] != _MAGIC:
        raise CodecError(f"a stored decision of an unknown format: {content[:3]!r}")
    decision = codec.decode_payload(DECISION, _restore_payload(content))
    assert isinstance(decision, Decision)
    return decision


def encode_wire_frame(content: bytes) -> bytes:
    """Return the frame of a decision as it was sent, made from the uncompressed content of its blob.

    The frame includes fields that this version does not know.
    """
    return codec.build_frame(DECISION, _restore_payload(content))


def _from_delta(blob: bytes, base: bytes) -> bytes:
    if blob[:DIGEST_BYTES] != _digest(base):
        raise CodecError("the key frame is not the one that this decision was stored against")
    packed = blob[DIGEST_BYTES:]
    if (codec.find_unpacked_size(packed) or 0) > MAX_CONTENT_BYTES:
        raise CodecError(f"unpacks to more than {MAX_CONTENT_BYTES} bytes")
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    try:
        content: bytes = zstandard.ZstdDecompressor(dict_data=dictionary).decompress(packed)
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


def _strip_derived(raw: EncodedFrame, decision: Decision, feasible: NDArray[np.bool_]) -> bytes:
    """Return the content to store for a decision: the payload of its frame without values that can be derived.

    These are ranks that follow from the totals, and normalized scores that equal the raw scores. `raw` is the frame as
    it was sent.
    """
    if isinstance(raw, DecisionFields):
        document, scores, omitted = dict(raw.fields), raw.fields["scores"], codec.encode_column(codec.DERIVED)
    else:
        document = _fields.decode(memoryview(raw)[codec.HEADER_BYTES :])
        scores, omitted = _list_of_fields.decode(document["scores"]), _OMITTED
    rank = document["rank"]
    if rank == omitted or np.array_equal(
        _rank(codec.as_numpy(decision.totals), feasible), codec.as_numpy(decision.rank)
    ):
        document["rank"] = _PACKED_RANK + np.packbits(feasible).tobytes()
    document["scores"] = [
        score | {"normalized": None} if score["normalized"] in (omitted, score["raw"]) else score for score in scores
    ]
    return _MAGIC + _encoder.encode(document)


def _restore_payload(content: bytes) -> bytes:
    """Return the payload of the frame from which `_strip_derived` made `content`."""
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
    """Decode an array: one byte with the type code of its entries, then the entries in little-endian order."""
    if len(column) < 2:
        return np.zeros(0, np.uint8)
    return np.frombuffer(column, np.dtype(f"<{column[:1].decode()}"), offset=1)


def _rank(totals: NDArray[Any], feasible: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the rank of the node in each slot by its total: 1 is the best, equal totals share a rank, 0 is infeasible.

    If `totals` is empty, each feasible node has rank 1. Returns an empty array if the totals are too far apart or do
    not match `feasible` in length.
    """
    if not len(totals):
        return feasible.astype(np.uint8)
    least, most = int(totals.min()), int(totals.max())
    if len(totals) != len(feasible) or most - least >= MAX_RANGE:
        return np.zeros(0, np.uint8)  # equals no stored rank, so that the rank itself is stored
    above = most - totals.astype(np.intp)
    counts = np.bincount(above[feasible], minlength=most - least + 1)
    better = np.cumsum(counts) - counts + 1
    ranks: NDArray[Any] = better.astype(np.int32)[above] * feasible
    return ranks


_decoder: Final = msgspec.msgpack.Decoder()
_fields: Final = msgpack_decoder(dict[str, msgspec.Raw])  # copies no column
_list_of_fields: Final = msgpack_decoder(list[dict[str, msgspec.Raw]])
_encoder: Final = msgspec.msgpack.Encoder(enc_hook=codec.encode_column)
_OMITTED: Final = msgspec.Raw(_encoder.encode(codec.DERIVED))  # a column that the wire frame omits
