"""Decisions encoded as deltas to an earlier decision are decoded exactly, and never misread."""

from __future__ import annotations

import random
import struct
import zlib
from array import array
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from herodotus_record import codec
from herodotus_record.codec import DERIVED, CodecError, UnknownVersionError, deltas, fill_derived
from herodotus_record.model import SUCCESS, Decision, DecisionPath, FilterColumn, ScoreColumn
from tests.builders import CORDONED, INSUFFICIENT_CPU, a_decision, a_table

NODES = 400
TABLE = a_table([f"worker-{i}" for i in range(NODES)])


def a_first(seed: int = 0) -> Decision:
    """Return a decision on many nodes with values in most columns."""
    rng = random.Random(seed)
    raw = array("B", [rng.randrange(100) for _ in range(NODES)])
    return replace(
        a_decision(sequence=1),
        slots=NODES,
        nodes_total=NODES,
        nodes_evaluated=NODES,
        nodes_feasible=NODES - 1,
        evaluation=array("B", bytes(NODES)),
        filters=(
            FilterColumn("NodeName", True),
            FilterColumn("NodeResourcesFit", False, (SUCCESS, INSUFFICIENT_CPU), array("B", [1, *bytes(NODES - 1)])),
        ),
        scores=(ScoreColumn("NodeResourcesFit", 1, False, raw, DERIVED), ScoreColumn("ImageLocality", 1, True)),
        totals=raw,
        rank=DERIVED,
        inputs=(),
        chosen=1,
    )


def a_following(before: Decision, rng: random.Random) -> Decision:
    """Return a decision of the same template with some rows changed, possibly in a wider type."""
    raw = np.array(before.scores[0].raw, np.int64)
    for slot in rng.sample(range(NODES), rng.randrange(4)):
        raw[slot] = rng.choice([rng.randrange(256), -5, 40_000])
    ids = np.array(before.filters[1].ids)
    ids[rng.randrange(NODES)] = rng.randrange(3)
    table = (SUCCESS, INSUFFICIENT_CPU, CORDONED)
    column = codec.column_from_numpy(raw)
    number = before.sequence + 1
    return replace(
        before,
        id=f"{before.id[:-6]}{number:06}",
        sequence=number,
        seed=rng.getrandbits(32),
        pod=replace(before.pod, name=f"web-{number}", uid=f"uid-{number}"),
        filters=(before.filters[0], replace(before.filters[1], verdicts=table, ids=codec.column_from_numpy(ids))),
        scores=(replace(before.scores[0], raw=column, normalized=DERIVED), before.scores[1]),
        totals=column,
        text_notes=("sampled",) if rng.random() < 0.2 else (),
    )


def decisions_of_one_template(count: int, seed: int = 0) -> list[Decision]:
    rng, made = random.Random(seed), [a_first(seed)]
    while len(made) < count:
        made.append(a_following(made[-1], rng))
    return made


def encoded(decisions: list[Decision]) -> list[bytes]:
    writer = deltas.DeltaWriter()
    return [writer.encode(decision) for decision in decisions]


@pytest.mark.parametrize("seed", range(10))
def test_deltas_are_decoded_exactly_and_downgraded_to_version_1(seed: int) -> None:
    decisions = decisions_of_one_template(40, seed)
    frames, reader = encoded(decisions), deltas.DeltaReader()
    assert [frame[3] for frame in frames] == [1, *[codec.DELTA] * 39]
    assert sum(map(len, frames[1:])) / 39 < len(frames[0]) / 2
    for frame, decision in zip(frames, decisions, strict=True):
        read, raw = reader.read(frame)
        assert isinstance(read, Decision)
        assert fill_derived(read) == fill_derived(decision)
        assert codec.decode(bytes(raw)) == fill_derived(decision)


def test_derived_rank_and_scores_match_their_definition() -> None:
    decision = fill_derived(decisions_of_one_template(20)[-1])
    feasible = [i == 0 for i in decision.filters[1].ids]
    among = [total for total, fits in zip(decision.totals, feasible, strict=True) if fits]
    ranks = [1 + sum(other > total for other in among) for total in decision.totals]
    assert decision.rank.tolist() == [rank if fits else 0 for rank, fits in zip(ranks, feasible, strict=True)]
    assert decision.scores[0].normalized == decision.scores[0].raw
    assert set(fill_derived(replace(a_first(), path=DecisionPath.ERROR)).rank) == {0}, (
        "after an error no node is feasible"
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda d: replace(d, scheduler=replace(d.scheduler, profile="another")),
        lambda d: replace(d, path=DecisionPath.NONE, chosen=None),
        lambda d: replace(d, scores=d.scores[:1]),
        lambda d: replace(d, scores=d.scores[::-1]),
    ],
    ids=["profile", "path", "fewer plugins", "other plugins"],
)
def test_a_decision_that_differs_too_much_is_written_whole(other: Callable[[Decision], Decision]) -> None:
    first, second = decisions_of_one_template(2)
    frames = encoded([first, other(second)])
    assert [frame[3] for frame in frames] == [1, 1]
    assert codec.decode(frames[1]) == fill_derived(other(second))


def test_a_template_that_occurs_once_needs_no_base_and_another_gets_one() -> None:
    first, second, third, fourth = decisions_of_one_template(4)
    others = [replace(d, pod=replace(d.pod, digest="another template")) for d in (second, third, fourth)]
    frames = encoded([first, *others])
    assert [frame[3] for frame in frames] == [1, codec.DELTA, 1, codec.DELTA]
    assert [deltas.find_base_name(frames[i]) for i in (1, 3)] == [deltas.read_base_name(frames[i]) for i in (0, 2)]
    assert list(deltas.decode_all(b"".join(frames))) == [fill_derived(d) for d in (first, *others)]


def test_a_writer_keeps_bases_of_the_latest_templates() -> None:
    writer, first = deltas.DeltaWriter(), a_first()
    bases_per_template = 2  # the template's own, and that of the first decisions of its profile
    profiles = [replace(first.scheduler, profile=str(i)) for i in range(deltas.MAX_BASES // bases_per_template)]
    others = [replace(first, scheduler=profile) for profile in profiles]
    assert {writer.encode(d)[3] for d in (first, *others)} == {1}
    assert writer.encode(others[0])[3] == codec.DELTA
    assert writer.encode(first)[3] == 1, "its base gave way"


def test_a_base_is_replaced_after_many_deltas_and_when_forgotten() -> None:
    writer, first = deltas.DeltaWriter(), a_first()
    kinds = [writer.encode(replace(first, sequence=i))[3] for i in range(deltas.MAX_DELTAS_PER_BASE + 2)]
    assert kinds == [1, *[codec.DELTA] * deltas.MAX_DELTAS_PER_BASE, 1]
    writer.forget_bases()
    assert writer.encode(first)[3] == 1


def test_a_delta_that_grows_too_large_is_replaced_by_a_whole_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "MAX_SIZE_RATIO", 0.25)
    first = a_first()
    other = array("B", [(points + 1) % 100 for points in first.totals])
    assert other != first.totals
    second = replace(first, totals=other, scores=(replace(first.scores[0], raw=other), first.scores[1]))
    assert [frame[3] for frame in encoded([first, second])] == [1, 1]


def test_an_unknown_field_is_kept() -> None:
    first, second = decisions_of_one_template(2)
    frames = encoded([first, second])
    document = msgspec.msgpack.decode(frames[1][codec.HEADER_BYTES + 8 :])
    document["scores"][0]["ofTomorrow"] = "there"
    payload = frames[1][12:20] + msgspec.msgpack.encode(document | {"new": 1})
    _, raw = reader_with_bases(frames[0]).read(codec.build_frame(codec.DELTA, payload))
    kept = msgspec.msgpack.decode(bytes(raw)[codec.HEADER_BYTES :])
    assert (kept["new"], kept["scores"][0]["ofTomorrow"]) == (1, "there")


def reader_with_bases(*frames: bytes) -> deltas.DeltaReader:
    reader = deltas.DeltaReader()
    for frame in frames:
        reader.add_base(frame)
    return reader


def test_a_delta_without_its_base_is_refused() -> None:
    _, delta = encoded(decisions_of_one_template(2))
    with pytest.raises(deltas.UnknownBaseError, match="the base of a delta is missing"):
        deltas.DeltaReader().read(delta)
    with pytest.raises(CodecError, match="cannot be decoded without its base"):
        codec.decode(delta)


def test_a_delta_of_another_version_is_refused_by_its_number() -> None:
    base, delta = encoded(decisions_of_one_template(2))
    newer = delta[: codec.VERSION_AT] + bytes([codec.VERSION + 1]) + delta[codec.VERSION_AT + 1 :]
    with pytest.raises(UnknownVersionError, match="frame version 2 is not known to version 1"):
        reader_with_bases(base).read(newer)


@pytest.mark.parametrize(
    "changes",
    [
        b"\xc1",
        {"filters": {9: {"ids": b"B"}}},
        {"filters": [1]},
        {"scores": {0: {"raw": b"~\x02\x00\x00\x00B\x00B"}}},
        {"scores": {0: {"raw": b"~\xff\xff\xff\xffB\x00B\x01"}}},
        {"scores": {0: {"raw": b"~\x03\x00\x00\x00H" + struct.pack("<H", NODES) + b"B\x01"}}},
        {"scores": {0: {"raw": b"~\x02\x00\x00\x00b\xffB\x01"}}},
        {"scores": {0: {"raw": b"x"}}},
        {"totals": b"B\x01"},
        {"chosen": NODES},
        {"nodes_feasible": "x"},
        {"evaluation": None},
    ],
    ids=str,
)
def test_a_delta_that_does_not_fit_its_base_is_refused(changes: object) -> None:
    base = encoded([a_first()])[0]
    payload = base[4:12] + (changes if isinstance(changes, bytes) else msgspec.msgpack.encode(changes))
    with pytest.raises(CodecError):
        reader_with_bases(base).read(codec.build_frame(codec.DELTA, payload))


@pytest.mark.parametrize(
    "document",
    [b"\xc1", {}, {"filters": 1, "scores": []}, {"filters": [{"ids": b"x"}], "scores": []}, {"slots": 1}],
    ids=str,
)
def test_a_base_that_is_not_a_decision_is_refused(document: object) -> None:
    payload = document if isinstance(document, bytes) else msgspec.msgpack.encode(document)
    base = codec.build_frame(1, payload)
    with pytest.raises(CodecError, match="base of a delta"):
        reader_with_bases(base).read(codec.build_frame(codec.DELTA, base[4:12] + msgspec.msgpack.encode({})))


def test_decisions_with_one_base_share_unchanged_parts() -> None:
    first, second, third = decisions_of_one_template(3)
    frames, reader = encoded([first, second, third]), deltas.DeltaReader()
    read = [reader.read(frame)[0] for frame in frames][1:]
    assert all(isinstance(decision, Decision) for decision in read)
    one, other = (decision for decision in read if isinstance(decision, Decision))
    assert one.evaluation is other.evaluation
    assert (one.filters[0] is other.filters[0], one.scores[1] is other.scores[1]) == (True, True)


def test_damage_is_detected_in_a_delta_and_in_its_base() -> None:
    base, delta = encoded(decisions_of_one_template(2))
    for broken in ((base, damaged(delta)), (damaged(base), delta)):
        with pytest.raises(CodecError, match="checksum"):
            reader_with_bases(broken[0]).read(broken[1])


def damaged(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


def test_bases_are_inserted_before_the_first_delta() -> None:
    """Node rows stay in front, because a decision needs the rows before it."""
    base, *changed = encoded(decisions_of_one_template(3))
    rows = codec.encode(TABLE.rows("cluster", "incarnation"))
    assert deltas.insert_bases([base], [rows, *changed]) == [rows, base, *changed]
    assert deltas.insert_bases([], [rows]) == [rows]


def test_the_checksum_covers_the_whole_payload() -> None:
    _, delta = encoded(decisions_of_one_template(2))
    assert struct.unpack_from("<I", delta, 8)[0] == zlib.crc32(delta[codec.HEADER_BYTES :])
