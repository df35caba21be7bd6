"""No sender makes a reader of frames use more memory than the limits allow."""

import random
import resource
import tracemalloc
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from herodotus_record import codec
from herodotus_record.codec import CodecError, batches, decoded_size, deltas
from tests.builders import a_decision, a_table
from tests.endpoint.service import rows

MIB = 1 << 20
FIELDS: dict[str, Any] = msgspec.msgpack.decode(codec.encode(a_decision())[codec.HEADER_BYTES :])


def map_of(fields: dict[bytes, bytes]) -> bytes:
    """Return a MessagePack map of values that are encoded already."""
    entries = b"".join(msgspec.msgpack.encode(name.decode()) + value for name, value in fields.items())
    return b"\xde" + len(fields).to_bytes(2, "big") + entries


def array_of(count: int, item: bytes) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def decision_with(**values: bytes) -> bytes:
    """Return a decision's frame in which these fields have these encoded values."""
    encoded = {name.encode(): msgspec.msgpack.encode(value) for name, value in FIELDS.items()}
    return codec.build_frame(codec.DECISION, map_of(encoded | {name.encode(): value for name, value in values.items()}))


def measure_peak_rss() -> int:
    """Return the largest memory in bytes that this process ever took: reading a million headers traced is slow."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def measure_peak(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def patch_of_every_column(base: bytes) -> bytes:
    """Return a small delta that widens each of many columns of its base."""
    entry = codec.encode_column(array("B", [0]))
    patch = b"~" + len(entry).to_bytes(4, "little") + entry + codec.encode_column(array("q", [1 << 40]))
    payload = base[4:12] + msgspec.msgpack.encode({"scores": {i: {"raw": patch} for i in range(200)}})
    return codec.build_frame(codec.DELTA, payload)


def wide_base() -> bytes:
    nodes = [f"n{i}" for i in range(2_000)]
    decision = a_decision(nodes=nodes)
    column = array("B", bytes(len(nodes)))
    score = replace(decision.scores[0], raw=column, normalized=column)
    scores = tuple(replace(score, plugin=f"plugin-{i}") for i in range(200))
    return codec.encode(replace(decision, scores=scores))


EXPANDING = {
    "60 million empty strings": lambda: decision_with(text_notes=array_of(60_000_000, b"\xa0")),
    "lists in a list": lambda: decision_with(text_notes=array_of(400, b"\xdc\x3a\x98" + b"\xa0" * 15_000)),
    "empty maps in an unknown field": lambda: decision_with(newer=array_of(3_000_000, b"\x80")),
    "empty lists": lambda: decision_with(notes=array_of(3_000_000, b"\x90")),
    "one entry maps": lambda: decision_with(inputs=array_of(2_000_000, b"\x81\xa0\xc0")),
    "short strings": lambda: decision_with(unknown=array_of(2_000_000, b"\xa2ab")),
    "extensions": lambda: decision_with(newer=array_of(2_000_000, b"\xc7\x00\x05")),
    "timestamps": lambda: decision_with(newer=array_of(1_000_000, b"\xd6\xff\x00\x00\x00\x00")),
    "a long text that takes four bytes a letter": lambda: decision_with(
        message=b"\xdb" + (30 * MIB + 4).to_bytes(4, "big") + "😀".encode() + b"a" * 30 * MIB
    ),
    "a column of many slots": lambda: decision_with(
        evaluation=b"\xc6" + (20 * MIB + 1).to_bytes(4, "big") + b"B" + bytes(20 * MIB),
        slots=msgspec.msgpack.encode(20 * MIB),
    ),
    "names of nodes": lambda: codec.build_frame(4, map_of({b"name": array_of(3_000_000, b"\xa1a")})),
    "a message": lambda: codec.build_frame(2, map_of({b"message": array_of(3_000_000, b"\xc0")})),
}


@pytest.mark.parametrize("make", EXPANDING.values(), ids=EXPANDING)
def test_frames_that_expand_are_refused_before_they_use_memory(make: Callable[[], bytes]) -> None:
    frame, before = make(), measure_peak_rss()
    with pytest.raises(CodecError, match=r"more than the limit of 67108864 bytes of memory|slots is 20971520"):
        deltas.DeltaReader().read(frame)
    assert measure_peak_rss() - before < 48 * MIB


def test_a_compressed_batch_that_expands_is_refused_before_it_is_unpacked() -> None:
    good = codec.encode(a_decision())
    sent = codec.compress(good + decision_with(text_notes=array_of(60_000_000, b"\xa0")))
    assert len(sent) < 4_000

    def refuse() -> None:
        with pytest.raises(CodecError, match="frame 2 of the batch: decoding it would take more than the limit"):
            batches.unpack(sent, 64 * MIB, compressed=True)

    assert measure_peak(refuse) < 8 * MIB


def test_a_base_that_expands_is_refused() -> None:
    base = codec.build_frame(codec.DECISION, map_of({b"restricted_by": array_of(3_000_000, b"\x80")}))
    reader = deltas.DeltaReader()
    reader.add_base(base)

    with pytest.raises(CodecError, match="base of a delta: decoding it would take more"):
        reader.read(codec.build_frame(codec.DELTA, base[4:12] + b"\x80"))


def test_a_delta_that_expands_is_refused() -> None:
    base = codec.encode(a_decision())
    reader = deltas.DeltaReader()
    reader.read(base)
    payload = base[4:12] + map_of({b"text_notes": array_of(3_000_000, b"\x80")})
    with pytest.raises(CodecError, match="a delta does not fit its base: decoding it would take more"):
        reader.read(codec.build_frame(codec.DELTA, payload))


def test_a_small_delta_that_widens_every_column_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "MAX_DECODED_BYTES", 1 * MIB)
    base = wide_base()
    reader = deltas.DeltaReader()
    reader.read(base)
    delta = patch_of_every_column(base)
    assert len(delta) < 10_000

    def refuse() -> None:
        with pytest.raises(CodecError, match="its patches would take more than the limit"):
            reader.read(delta)

    assert measure_peak(refuse) < 16 * MIB  # the base is decoded first


def test_deltas_that_repeat_a_large_base_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    base = codec.encode(a_decision())
    reader = deltas.DeltaReader()
    reader.read(base)
    delta = codec.build_frame(codec.DELTA, base[4:12] + b"\x80")
    reader.read(delta)
    monkeypatch.setattr(deltas, "MAX_EXPANDED_BYTES", 10_000)
    with pytest.raises(CodecError, match="deltas describe decisions of more than 10000 bytes"):
        [reader.read(delta) for _ in range(100)]


def test_frames_that_are_needed_together_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = codec.encode(a_decision())
    assert len([*batches.decode_together([frame] * 100)]) == 100
    monkeypatch.setattr(batches, "MAX_TOGETHER_BYTES", 1 << 20)
    with pytest.raises(CodecError, match="the frames would take more than 1048576 bytes"):
        list(batches.decode_together([frame] * 1000))


def test_frames_of_large_clusters_fit_many_times_over() -> None:
    nodes = [f"node-pool-a-{i:05}.region.example.internal" for i in range(2_000)]
    for frame in (codec.encode(rows(a_table(nodes))), codec.encode(a_decision(nodes=nodes))):
        batch = batches.unpack(codec.compress(frame), 64 * MIB, compressed=True)
        codec.decode(batch.frames)
        assert batch.decoded_bytes < 2 * MIB


def test_a_batch_that_is_unpacked_in_pieces_is_unpacked_whole() -> None:
    frame = codec.encode(a_decision())
    frames = frame * (2 * batches.SMALL_BATCH_BYTES // len(frame))
    assert batches.unpack(codec.compress(frames), 64 * MIB, compressed=True).frames == frames


def random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(9 if depth else 6)
    size = rng.choice((0, 1, 2, 7, 20, 40))
    if kind == 6:
        return [random_value(rng, depth - 1)] * size
    if kind == 7:
        return {str(i): random_value(rng, 0) for i in range(size)}
    if kind == 8:
        return {"a": random_value(rng, depth - 1), "b": random_value(rng, depth - 1)}
    scalars = (rng.getrandbits(63), -rng.getrandbits(40), rng.random(), None, "é" * size, bytes(size))
    return scalars[kind]


@pytest.mark.parametrize("seed", range(20))
def test_the_estimate_is_at_least_the_memory_and_pieces_do_not_change_it(seed: int) -> None:
    rng = random.Random(seed)
    data = msgspec.msgpack.encode([random_value(rng, 2) for _ in range(200)])
    whole = decoded_size.measure_decoded_size(data, 1 << 40)
    assert measure_peak(lambda: msgspec.msgpack.decode(data)) <= whole + 4096
    meter, at, end = decoded_size.PayloadMeter(1 << 40), 0, 0
    while end < len(data):
        end = min(len(data), end + rng.choice((1, 3, 17, 4096)))
        at = meter.read(data, at, end) if at < end else at
    assert (at, meter.size) == (len(data), whole)
