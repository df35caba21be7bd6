"""Frames decode to what was encoded; damaged or contradicting frames are refused with the reason."""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from herodotus_record import codec
from herodotus_record.codec import CodecError, TruncatedError, deltas
from herodotus_record.model import (
    Code,
    Decision,
    FilterColumn,
    Frame,
    Gap,
    HighWater,
    InputColumn,
    Inputs,
    NodeRows,
    Outcome,
    Reason,
    ScoreColumn,
    Verdict,
)
from tests.builders import CLUSTER, INCARNATION, INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.support.record_strategies import columns, counts, decisions, numbers, words


@st.composite
def node_rows(draw: st.DrawFn) -> NodeRows:
    n, resources = draw(st.integers(0, 5)), tuple(draw(st.lists(words, max_size=3)))
    texts = st.lists(words, min_size=n, max_size=n).map(tuple)
    slots = draw(st.lists(st.integers(0, (1 << 24) - 1), min_size=n, max_size=n))
    return NodeRows(
        cluster=draw(words),
        incarnation=draw(words),
        base=draw(numbers),
        generation=draw(numbers),
        resources=resources,
        slot=codec.column_from_numpy(np.array(slots, np.int64)),
        since=draw(columns(n)),
        name=draw(texts),
        uid=draw(texts),
        allocatable=tuple(draw(columns(n)) for _ in resources),
        requested=tuple(draw(columns(n)) for _ in resources),
    )


outcomes = st.builds(
    Outcome,
    incarnation=words,
    sequence=counts,
    decision_id=words,
    decision_sequence=counts,
    phase=words,
    status=st.sampled_from(Code),
    node=words,
    message=words,
    at_us=numbers,
    duration_s=st.floats(0, 1e9),
    final=st.booleans(),
)
gaps = st.builds(
    lambda first, more, **rest: Gap(first=first, last=first + more, **rest),
    first=st.integers(0, 1 << 40),
    more=st.integers(0, 1 << 40),
    incarnation=words,
    sequence=counts,
    reason=words,
    at_us=numbers,
)
marks = st.builds(HighWater, incarnation=words, sequence=counts, of=words, reached=counts, at_us=numbers)
frames = st.one_of(decisions(), outcomes, gaps, node_rows(), marks)


@given(frames)
def test_a_decoded_frame_equals_the_encoded_one(frame: Frame) -> None:
    assert codec.decode(codec.encode(frame)) == frame


@given(st.lists(frames, max_size=5))
def test_frames_can_be_concatenated(several: list[Frame]) -> None:
    assert list(deltas.decode_all(b"".join(map(codec.encode, several)))) == several


@given(st.lists(numbers, max_size=20))
def test_a_column_gets_the_narrowest_type_that_holds_its_values(values: list[int]) -> None:
    made = codec.column_from_numpy(np.array(values, np.int64))
    assert made.tolist() == values
    assert codec.as_numpy(made).tolist() == values
    low, high = min(values, default=0), max(values, default=0)
    fits = [
        c
        for c, bits, signed in (("B", 8, 0), ("b", 8, 1), ("H", 16, 0), ("h", 16, 1), ("i", 32, 1), ("q", 64, 1))
        if (-(1 << (bits - 1)) if signed else 0) <= low and high < 1 << (bits - signed)
    ]
    assert made.typecode == fits[0]


A = a_decision(rejected={"worker-2": {"NodeResourcesFit": INSUFFICIENT_CPU}})
FIT = A.filters[-1]
ROWS = a_table(["a", "b"]).rows(CLUSTER, INCARNATION)
PRICE = InputColumn("price", "", 6, array("i", [1, 2, 3]))
ONE = array("B", [0])


def inputs_with(number: InputColumn = PRICE, **more: array[int]) -> Decision:
    return replace(A, inputs=(Inputs("BestPrice", "an annotation", (number,), **more),))


def filters(changed: FilterColumn) -> Decision:
    return replace(A, filters=(*A.filters[:-1], changed))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (replace(A, evaluation=array("B", [0])), "evaluation has 1 entries for 3 slots"),
        (replace(A, evaluation=array("B")), "evaluation has 0 entries for 3 slots"),
        (replace(A, evaluation=array("B", [0, 7, 0])), "evaluation holds an unknown value"),
        (replace(A, evaluation=array("b", [0, -1, 0])), "evaluation holds an unknown value"),
        (filters(replace(FIT, ids=array("B", [0]))), "filters[NodeResourcesFit].ids has 1 entries for 3 slots"),
        (
            filters(replace(FIT, ids=array("B", [0, 2, 0]))),
            "filters[NodeResourcesFit].ids names a verdict that is not there",
        ),
        (
            filters(replace(FIT, ids=array("b", [0, -1, 0]))),
            "filters[NodeResourcesFit].ids names a verdict that is not there",
        ),
        (filters(replace(FIT, verdicts=())), "filters[NodeResourcesFit].verdicts does not start with Success"),
        (
            filters(replace(FIT, verdicts=FIT.verdicts[::-1])),
            "filters[NodeResourcesFit].verdicts does not start with Success",
        ),
        (
            replace(A, scores=(ScoreColumn("S", 1, False, array("B", [1]), array("B", [1])),)),
            "scores[S].raw has 1 entries for 3 slots",
        ),
        (inputs_with(replace(PRICE, values=ONE)), "inputs[BestPrice].values has 1 entries for 3 slots"),
        (inputs_with(replace(PRICE, lacking=ONE)), "inputs[BestPrice].lacking has 1 entries for 3 slots"),
        (inputs_with(replace(PRICE, digits=10)), "inputs[BestPrice]: price has 10 digits, not 0 to 9"),
        (inputs_with(stale=ONE), "inputs[BestPrice].stale has 1 entries for 3 slots"),
        (inputs_with(measured=array("q", [codec.END_OF_TIME_S])), "inputs[BestPrice].measured holds an invalid time"),
        (inputs_with(measured=array("B", [0, 0])), "inputs[BestPrice].measured has 2 entries for 3 slots"),
        (replace(A, totals=array("q", [1])), "totals has 1 entries for 3 slots"),
        (replace(A, rank=array("B")), "rank has 0 entries for 3 slots"),
        (replace(A, chosen=3), "chosen names a slot that is not there"),
        (replace(A, chosen=-1), "chosen names a slot that is not there"),
        (replace(A, nodes_feasible=4), "node counts are not in order"),
        (replace(A, nodes_evaluated=1), "node counts are not in order"),
        (replace(A, nodes_total=4), "node counts are not in order"),
        (Gap(INCARNATION, 9, 5, 4, "", 0), "gap.first is after gap.last"),
        (replace(ROWS, name=("a",)), "node rows' columns have different lengths"),
        (replace(ROWS, requested=ROWS.requested[1:]), "node rows: expected one column for each resource"),
        (replace(ROWS, slot=array("q", [0, 1 << 24])), "node rows: slot out of range"),
        (replace(ROWS, slot=array("q", [0, -1])), "node rows: slot out of range"),
    ],
)
def test_contradicting_frames_are_refused_by_encoder_and_decoder(frame: Frame, message: str) -> None:
    with pytest.raises(CodecError) as raised:
        codec.encode(frame)
    assert str(raised.value) == message
    with pytest.raises(CodecError) as raised:
        codec.decode(framed(codec._encoder.encode(frame), kind=codec._KIND_OF[type(frame)]))
    assert str(raised.value) == message


def framed(payload: bytes, kind: int = 3, version: int = codec.VERSION, magic: bytes = b"HF") -> bytes:
    """Return a frame of any payload with a correct checksum."""
    return struct.pack("<2sBBII", magic, version, kind, len(payload), zlib.crc32(payload)) + payload


GAP = Gap(INCARNATION, 9, 5, 6, "full", 0)
FRAME = codec.encode(GAP)
PAYLOAD = FRAME[12:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"XX" + FRAME[2:], "at byte 0: no frame starts here"),
        (framed(PAYLOAD, version=2), "frame version 2 is not known to version 1"),
        (framed(PAYLOAD, version=0), "frame version 0 is not known to version 1"),
        (framed(PAYLOAD, kind=9), "frame version 1 has no kind 9"),
        (framed(PAYLOAD, kind=codec.DELTA), "a delta cannot be decoded without its base"),
        (
            FRAME[:4] + b"\xff\xff\xff\xff" + FRAME[8:],
            f"at byte 0: a payload of 4294967295 bytes is over the limit of {64 << 20}",
        ),
        (FRAME[:-1] + b"x", "the payload's checksum does not match: damaged in transit or at rest"),
        (FRAME + FRAME, f"expected one frame, found {len(FRAME)} more bytes"),
        (b"", "at byte 0: the header is cut off"),
        (framed(b"\xc1"), "Gap: MessagePack data is malformed: invalid opcode '\\xc1' (byte 0)"),
        (framed(msgspec.msgpack.encode({"first": "x"})), "Gap: Expected `int`, got `str` - at `$.first`"),
        (framed(msgspec.msgpack.encode({})), "Gap: Object missing required field `incarnation`"),
        (
            framed(b"\x81\xa1a" * 100_000 + b"\xc0"),
            "Gap: maximum recursion depth exceeded while deserializing an object",
        ),
    ],
)
def test_bytes_that_are_not_a_frame_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CodecError) as raised:
        codec.decode(data)
    assert str(raised.value) == message


def with_evaluation(column: object) -> bytes:
    raw = msgspec.msgpack.decode(codec.encode(A)[12:])
    return framed(msgspec.msgpack.encode(raw | {"evaluation": column}), kind=1)


@pytest.mark.parametrize("column", [b"", b"z\0\0\0", b"q\0\0\0", b"\xff\0\0\0", "text", 3, None, [0, 0, 0]], ids=repr)
def test_invalid_columns_are_refused(column: object) -> None:
    with pytest.raises(CodecError, match=r"^Decision: "):
        codec.decode(with_evaluation(column))


def test_unknown_fields_of_newer_writers_are_ignored() -> None:
    newer = msgspec.msgpack.decode(PAYLOAD) | {"colour": "blue"}
    assert codec.decode(framed(msgspec.msgpack.encode(newer))) == GAP


def test_complete_frames_are_read_from_truncated_bytes() -> None:
    data = FRAME + codec.encode(A)
    for end in range(len(data)):
        got = []
        try:
            for _, frame in codec.split_frames(data[:end]):
                got.append(codec.decode(frame))
            assert end in (0, len(FRAME))
        except TruncatedError:
            assert end not in (0, len(FRAME))
        assert got == [GAP] * (end >= len(FRAME))


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_damaged_byte_is_detected(at: int, by: int) -> None:
    data = bytearray(codec.encode(A))
    data[at % len(data)] ^= by
    with pytest.raises(CodecError):
        codec.decode(bytes(data))


@given(st.binary(max_size=200), st.sampled_from([1, 2, 3, 4]))
def test_any_payload_is_decoded_or_refused(payload: bytes, kind: int) -> None:
    assert is_refused_or_valid(framed(payload, kind=kind))


def is_refused_or_valid(data: bytes) -> bool:
    """Assert that only CodecError is raised, and that accepted bytes can be encoded and decoded again."""
    try:
        taken = codec.decode(data)
    except CodecError:
        return True
    written = codec.encode(taken)
    return codec.encode(codec.decode(written)) == written


json_like = st.recursive(
    st.none() | st.booleans() | numbers | words | st.binary(max_size=5),
    lambda of: st.lists(of, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([codec.encode(A), codec.encode(ROWS), FRAME]), st.data())
def test_any_value_in_any_field_is_decoded_or_refused(frame: bytes, data: st.DataObject) -> None:
    raw = msgspec.msgpack.decode(frame[12:])
    raw[data.draw(st.sampled_from(sorted(raw)))] = data.draw(json_like)
    assert is_refused_or_valid(framed(msgspec.msgpack.encode(raw), kind=frame[3]))


class TestCompression:
    DATA = FRAME * 1000

    def test_decompress_reverses_compress(self) -> None:
        packed = codec.compress(self.DATA)
        assert len(packed) < len(self.DATA) / 20
        assert codec.decompress(packed, len(self.DATA)) == self.DATA

    def test_concatenated_zstd_frames_are_decompressed_together(self) -> None:
        assert codec.decompress(codec.compress(b"a" * 99) + codec.compress(b"b"), 1000) == b"a" * 99 + b"b"

    def test_data_that_does_not_announce_its_size_is_decompressed(self) -> None:
        packing = zstandard.ZstdCompressor().compressobj()
        packed = packing.compress(self.DATA) + packing.flush()
        assert codec.find_unpacked_size(packed) is None
        assert codec.decompress(packed, len(self.DATA)) == self.DATA

    @pytest.mark.parametrize("limit", [0, 1, len(DATA) - 1])
    def test_a_decompression_bomb_is_refused_at_the_limit(self, limit: int) -> None:
        with pytest.raises(CodecError, match=f"unpacks to more than {limit} bytes"):
            codec.decompress(codec.compress(self.DATA), limit)

    @pytest.mark.parametrize("data", [b"", b"no zstd at all", b"\x28\xb5\x2f\xfd\xff"])
    def test_bytes_that_are_not_zstd_are_refused(self, data: bytes) -> None:
        with pytest.raises(CodecError, match="not zstd"):
            codec.decompress(data, 1000)

    def test_truncated_data_is_refused_even_between_frames(self) -> None:
        packed = codec.compress(self.DATA)
        for end in range(len(packed)):
            with pytest.raises(CodecError):
                codec.decompress(packed[:end], 1 << 20)


def test_a_frame_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_FRAME_BYTES", 10)
    with pytest.raises(CodecError, match="bytes is over the limit of 10"):
        codec.encode(GAP)


def test_a_decision_over_5000_nodes_is_small() -> None:
    nodes = [f"worker-{i}" for i in range(5000)]
    points = {n: {"NodeResourcesFit": i * 7919 % 101} for i, n in enumerate(nodes)}
    frame = codec.encode(a_decision(nodes=nodes, points=points))
    assert len(frame) < 100_000
    assert len(codec.compress(frame)) < 20_000


@pytest.mark.parametrize("change", [lambda d: bound(d, a_table(["worker-1", "worker-2", "worker-3"])), lambda d: d])
def test_every_kind_of_frame_is_decoded_as_its_kind(change: Callable[[Decision], Frame]) -> None:
    made = change(a_decision())
    assert type(codec.decode(codec.encode(made))) is type(made)


def test_a_verdict_with_an_unknown_reason_is_kept() -> None:
    odd = Verdict(Code.UNSCHEDULABLE, (Reason("text", {"text": "ünï\ncode\0"}), Reason("no-such-code-yet", {})))
    frame = filters(replace(FIT, verdicts=(FIT.verdicts[0], odd)))
    assert codec.decode(codec.encode(frame)) == frame
