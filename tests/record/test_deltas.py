"""What is said by its difference from an earlier decision is read as it was, and never misread."""

from __future__ import annotations

import random
import struct
import zlib
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from herodotus_record import codec
from herodotus_record.codec import FOLLOWS, CodecError, UnknownVersionError, complete, deltas
from herodotus_record.model import Decision, FilterColumn, Outcome, ScoreColumn
from herodotus_record.model import Path as Way
from tests.builders import CORDONED, INSUFFICIENT_CPU, SUCCESS, a_decision, a_table, bound

STORED = Path(__file__).parent / "stored"
NODES = 400
TABLE = a_table([f"worker-{i}" for i in range(NODES)])


def a_first(seed: int = 0) -> Decision:
    """One of many nodes, most of whose columns say something."""
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
        scores=(ScoreColumn("NodeResourcesFit", 1, False, raw, FOLLOWS), ScoreColumn("ImageLocality", 1, True)),
        totals=raw,
        rank=FOLLOWS,
        inputs=(),
        chosen=1,
    )


def the_next(before: Decision, rng: random.Random) -> Decision:
    """A decision of the same template: some rows changed, in a type that may be wider."""
    raw = np.array(before.scores[0].raw, np.int64)
    for slot in rng.sample(range(NODES), rng.randrange(4)):
        raw[slot] = rng.choice([rng.randrange(256), -5, 40_000])
    ids = np.array(before.filters[1].ids)
    ids[rng.randrange(NODES)] = rng.randrange(3)
    table = (SUCCESS, INSUFFICIENT_CPU, CORDONED)
    column = codec.column(raw)
    number = before.sequence + 1
    return replace(
        before,
        id=f"{before.id[:-6]}{number:06}",
        sequence=number,
        seed=rng.getrandbits(32),
        pod=replace(before.pod, name=f"web-{number}", uid=f"uid-{number}"),
        filters=(before.filters[0], replace(before.filters[1], verdicts=table, ids=codec.column(ids))),
        scores=(replace(before.scores[0], raw=column, normalized=FOLLOWS), before.scores[1]),
        totals=column,
        marks=("sampled",) if rng.random() < 0.2 else (),
    )


def a_herd(count: int, seed: int = 0) -> list[Decision]:
    rng, made = random.Random(seed), [a_first(seed)]
    while len(made) < count:
        made.append(the_next(made[-1], rng))
    return made


def written(herd: list[Decision]) -> list[bytes]:
    writer = deltas.Writer()
    return [writer.encode(decision) for decision in herd]


@pytest.mark.parametrize("seed", range(10))
def test_a_herd_is_read_as_it_was_and_its_frames_say_everything_in_version_1(seed: int) -> None:
    herd = a_herd(40, seed)
    frames, reader = written(herd), deltas.Reader()
    assert [frame[3] for frame in frames] == [1, *[codec.DELTA] * 39]
    assert sum(map(len, frames[1:])) / 39 < len(frames[0]) / 2
    for frame, decision in zip(frames, herd, strict=True):
        read, raw = reader.read(frame)
        assert read == complete(decision)
        assert codec.decode(raw) == read


def test_rank_and_points_that_follow_are_those_of_the_definition() -> None:
    decision = complete(a_herd(20)[-1])
    feasible = [i == 0 for i in decision.filters[1].ids]
    among = [total for total, fits in zip(decision.totals, feasible, strict=True) if fits]
    ranks = [1 + sum(other > total for other in among) for total in decision.totals]
    assert decision.rank.tolist() == [rank if fits else 0 for rank, fits in zip(ranks, feasible, strict=True)]
    assert decision.scores[0].normalized == decision.scores[0].raw
    assert set(complete(replace(a_first(), path=Way.ERROR)).rank) == {0}, "after an error no node is feasible"


@pytest.mark.parametrize(
    "other",
    [
        lambda d: replace(d, pod=replace(d.pod, digest="another template")),
        lambda d: replace(d, scheduler=replace(d.scheduler, profile="another")),
        lambda d: replace(d, path=Way.NONE, chosen=None),
        lambda d: replace(d, scores=d.scores[:1]),
        lambda d: replace(d, scores=d.scores[::-1]),
    ],
    ids=["template", "profile", "path", "fewer plugins", "other plugins"],
)
def test_what_is_not_alike_is_said_whole(other: Callable[[Decision], Decision]) -> None:
    first, second = a_herd(2)
    frames = written([first, other(second)])
    assert [frame[3] for frame in frames] == [1, 1]
    assert codec.decode(frames[1]) == complete(other(second))


def test_a_writer_has_bases_of_the_templates_that_came_last() -> None:
    writer, first = deltas.Writer(), a_first()
    others = [replace(first, pod=replace(first.pod, digest=str(i))) for i in range(deltas.MOST_BASES)]
    assert {writer.encode(d)[3] for d in (first, *others)} == {1}
    assert writer.encode(others[0])[3] == codec.DELTA
    assert writer.encode(first)[3] == 1, "its base gave way"


def test_a_base_is_renewed_and_forgotten() -> None:
    writer, first = deltas.Writer(), a_first()
    kinds = [writer.encode(replace(first, sequence=i))[3] for i in range(deltas.MOST_DELTAS + 2)]
    assert kinds == [1, *[codec.DELTA] * deltas.MOST_DELTAS, 1]
    writer.forget()
    assert writer.encode(first)[3] == 1


def test_what_has_come_to_differ_in_too_much_is_said_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "MOST_SHARE", 0.3)
    first = a_first()
    other = array("B", [(points + 1) % 100 for points in first.totals])
    assert other != first.totals
    second = replace(first, totals=other, scores=(replace(first.scores[0], raw=other), first.scores[1]))
    assert [frame[3] for frame in written([first, second])] == [1, 1]


def test_a_field_that_this_version_does_not_know_is_kept() -> None:
    first, second = a_herd(2)
    frames = written([first, second])
    document = msgspec.msgpack.decode(frames[1][codec.HEADER_BYTES + 8 :])
    document["scores"][0]["ofTomorrow"] = "there"
    payload = frames[1][12:20] + msgspec.msgpack.encode(document | {"new": 1})
    _, raw = reader_of(frames[0]).read(codec.framed(codec.DELTA, payload, 2))
    kept = msgspec.msgpack.decode(raw[codec.HEADER_BYTES :])
    assert (kept["new"], kept["scores"][0]["ofTomorrow"]) == (1, "there")


def reader_of(*frames: bytes) -> deltas.Reader:
    reader = deltas.Reader()
    for frame in frames:
        reader.remember(frame)
    return reader


def test_without_its_base_a_delta_is_refused() -> None:
    _, delta = written(a_herd(2))
    with pytest.raises(deltas.UnknownBaseError, match="without the decision that it differs from"):
        deltas.Reader().read(delta)
    with pytest.raises(CodecError, match="says only what differs"):
        codec.decode(delta)


def test_a_service_of_the_version_before_refuses_it_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = written(a_herd(2))
    monkeypatch.setattr(codec, "VERSION", 1)
    for frame in frames:
        with pytest.raises(UnknownVersionError, match="frame version 2 is not known to version 1"):
            deltas.Reader().read(frame)


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
def test_what_does_not_fit_its_base_is_refused(changes: object) -> None:
    base = written([a_first()])[0]
    payload = base[4:12] + (changes if isinstance(changes, bytes) else msgspec.msgpack.encode(changes))
    with pytest.raises(CodecError):
        reader_of(base).read(codec.framed(codec.DELTA, payload, 2))


@pytest.mark.parametrize(
    "document",
    [b"\xc1", {}, {"filters": 1, "scores": []}, {"filters": [{"ids": b"x"}], "scores": []}, {"slots": 1}],
    ids=str,
)
def test_a_base_that_is_no_decision_is_refused_however_it_came(document: object) -> None:
    payload = document if isinstance(document, bytes) else msgspec.msgpack.encode(document)
    base = codec.framed(1, payload)
    with pytest.raises(CodecError, match="a decision that deltas name"):
        reader_of(base).read(codec.framed(codec.DELTA, base[4:12] + msgspec.msgpack.encode({}), 2))


def test_decisions_of_one_base_share_what_does_not_differ() -> None:
    first, second, third = a_herd(3)
    frames, reader = written([first, second, third]), deltas.Reader()
    read = [reader.read(frame)[0] for frame in frames][1:]
    assert all(isinstance(decision, Decision) for decision in read)
    one, other = (decision for decision in read if isinstance(decision, Decision))
    assert one.evaluation is other.evaluation
    assert (one.filters[0] is other.filters[0], one.scores[1] is other.scores[1]) == (True, True)


def test_damage_is_found_in_the_delta_and_in_its_base() -> None:
    base, delta = written(a_herd(2))
    for broken in ((base, damaged(delta)), (damaged(base), delta)):
        with pytest.raises(CodecError, match="checksum"):
            reader_of(broken[0]).read(broken[1])


def damaged(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


def test_for_an_older_reader_a_batch_is_said_whole_and_without_what_was_only_its_base() -> None:
    herd = a_herd(4)
    frames = written(herd)
    outcome = codec.encode(bound(a_decision(), a_table(["worker-1", "worker-2", "worker-3"])))
    said = deltas.restated_all(frames[:1], [*frames[2:], outcome], 1)
    assert [frame[2] for frame in said] == [1, 1, 1]
    assert [codec.decode(frame) for frame in said[:2]] == [complete(d) for d in herd[2:]]
    assert isinstance(codec.decode(said[2]), Outcome)
    with_rows = [codec.encode(TABLE.rows("cluster", "incarnation")), *frames[2:]]
    expected = [with_rows[0], frames[0], *frames[2:]]
    assert deltas.restated_all(frames[:1], with_rows, codec.NEWEST_EVER) == expected, "rows come before all decisions"
    with pytest.raises(UnknownVersionError, match="cannot be said in version 1"):
        deltas.restated_all([], frames[2:], 1)


def test_frames_that_version_2_wrote_are_read() -> None:
    """stored/version-2.segment: a whole decision and two that differ from it."""
    read = list(deltas.decode_all((STORED / "version-2.segment").read_bytes()))
    assert read == [complete(decision) for decision in of_version_2()]


def of_version_2() -> list[Decision]:
    made = [replace(a_first(), scores=(), totals=array("B", [i % 100 for i in range(NODES)]))]
    for slot, total in ((3, 200), (5, 40_000)):
        totals = codec.column(np.array([*made[-1].totals[:slot], total, *made[-1].totals[slot + 1 :]]))
        made.append(replace(made[-1], sequence=slot, totals=totals))
    return made


def test_the_checksum_is_of_the_whole_payload() -> None:
    _, delta = written(a_herd(2))
    assert struct.unpack_from("<I", delta, 8)[0] == zlib.crc32(delta[codec.HEADER_BYTES :])
