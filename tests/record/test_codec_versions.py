"""Frames of earlier versions are decoded as they were written, because spools and databases outlive an upgrade.

stored/version-N.frames holds one frame of each kind, written by version N of the codec. version-2-named.segment has a
value in each field that has another name since version 3, in a whole decision and in a delta to it. decision-1.stored
is that decision as a database holds it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herodotus_endpoint.store import delta_chains
from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import (
    Agreement,
    Candidate,
    Frame,
    Gap,
    HighWater,
    Preemption,
    Reason,
    Reconstruction,
    RequeueEvent,
    Summary,
)
from tests.builders import CLUSTER, CORDONED, INCARNATION, MONDAY_US, a_decision, a_table, bound

STORED = Path(__file__).parent / "stored"
TABLE = a_table(["worker-1", "worker-2"])


@pytest.mark.parametrize("file", sorted(STORED.glob("*.frames")), ids=lambda file: file.stem)
def test_frames_of_an_earlier_version_are_read(file: Path) -> None:
    decision = a_decision(
        nodes=("worker-1", "worker-2", ""),
        points={"worker-2": {"ImageLocality": 9}},
        rejected={"worker-1": {"NodeName": CORDONED}},
        notes=("sampled",),
    )
    assert list(deltas.decode_all(file.read_bytes())) == [
        TABLE.rows(CLUSTER, INCARNATION),
        decision,
        replace(bound(decision, TABLE), sequence=2),
        Gap(INCARNATION, 5, 3, 4, "disk full", MONDAY_US),
        HighWater(INCARNATION, 6, "earlier", 41, MONDAY_US),
    ]


NAMED = replace(
    a_decision(
        nodes=("worker-1", "worker-2", ""),
        points={"worker-2": {"ImageLocality": 9}},
        rejected={"worker-1": {"NodeName": CORDONED}},
        notes=("sampled",),
    ),
    restricted_by=("NodeAffinity",),
    requeued_by=RequeueEvent("AssignedPodDelete", "NodeResourcesFit"),
    preemption=Preemption("worker-1", (Candidate("worker-1", ("shop/batch-3",), 1, "http://extender"),), evicted=False),
    reconstruction=Reconstruction(Agreement.AGREE, None, -1, 2),
)
NAMED = replace(NAMED, notes=(Reason("evaluated"),))


def test_fields_with_other_names_in_version_2_are_read() -> None:
    table, first, second, _ = deltas.decode_all((STORED / "version-2-named.segment").read_bytes())
    assert table == TABLE.rows(CLUSTER, INCARNATION)
    assert first == NAMED
    assert NAMED.preemption is not None
    assert second == replace(
        NAMED,
        id=NAMED.id[:-1] + "2",
        sequence=2,
        restricted_by=(),
        requeued_by=None,
        preemption=replace(NAMED.preemption, nominated_node=""),
        reconstruction=None,
    )


def _known_fields(now: Any, before: Any) -> Any:
    """Return `now` with only those fields of its objects that `before` has."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {name: _known_fields(now[name], before[name]) for name in before}
    return now


def test_a_decision_is_stored_as_the_release_before_stores_it() -> None:
    content = (STORED / "decision-1.stored").read_bytes()
    assert delta_chains.decode_decision(content) == NAMED
    _, blob = delta_chains.OpenChains().pack(1, NAMED, codec.find_feasible(NAMED), codec.encode(NAMED), 0)
    stored = delta_chains.decompress_blob(blob, None)
    frames = [delta_chains.encode_wire_frame(each) for each in (content, stored)]
    before, now = (msgspec.msgpack.decode(frame[codec.HEADER_BYTES :]) for frame in frames)
    assert frames[0][codec.VERSION_AT] == frames[1][codec.VERSION_AT]
    assert _known_fields(now, before) == before  # it ignores the fields that it does not know


def test_the_counts_of_a_summary_are_read_by_their_present_names() -> None:
    counts = tuple((0,) * len(f.verdicts) for f in NAMED.filters)
    decision = replace(NAMED, summary=Summary(MONDAY_US, {"restricted": 1, "evaluated": 2}, counts, (), 0))
    frame = codec.encode_for_older_release(decision)
    payload = msgspec.msgpack.decode(frame[codec.HEADER_BYTES :])
    assert (frame[codec.VERSION_AT], payload["summary"]["evaluation"]) == (2, {"narrowed": 1, "evaluated": 2})
    assert codec.decode(frame) == decision


@pytest.fixture
def tomorrow(monkeypatch: pytest.MonkeyPatch) -> int:
    """Add a version to the codec whose gaps have a prefix and whose high-water marks cannot be downgraded."""

    def before(frame: Frame) -> Frame:
        if isinstance(frame, HighWater):
            raise codec.UnknownVersionError("a high-water mark cannot be expressed in the version before")
        return replace(frame, reason=frame.reason.removeprefix("v2 ")) if isinstance(frame, Gap) else frame

    monkeypatch.setattr(codec, "VERSION", codec.VERSION + 1)
    monkeypatch.setattr(codec, "_oldest_version_for", lambda _: codec.VERSION)
    monkeypatch.setitem(codec._DOWNGRADES, codec.VERSION, before)
    return codec.VERSION


GAP = Gap(INCARNATION, 5, 3, 4, "v2 disk full", MONDAY_US)


def test_a_frame_of_an_unknown_version_is_refused_by_its_number(tomorrow: int) -> None:
    """The frame is never misread, and the frames after it are decoded."""
    frames = codec.encode(GAP) + (STORED / "version-1.frames").read_bytes()
    with pytest.MonkeyPatch.context() as today:
        today.setattr(codec, "VERSION", tomorrow - 1)
        (_, newer), *older = codec.split_frames(frames)
        with pytest.raises(codec.UnknownVersionError, match=f"frame version {tomorrow} is not known to version"):
            codec.decode(newer)
        assert len([codec.decode(frame) for _, frame in older]) == 5


def test_a_frame_is_downgraded_to_the_previous_version(tomorrow: int) -> None:
    downgraded = codec.downgrade_frame(codec.encode(GAP), tomorrow - 1)
    assert (downgraded[2], codec.decode(downgraded)) == (tomorrow - 1, replace(GAP, reason="disk full"))
    assert codec.downgrade_frame(downgraded, tomorrow - 1) is downgraded, "what is old enough is not touched"


@pytest.mark.parametrize("back", [1, 4], ids=["a step that refuses", "no step"])
def test_a_frame_that_an_older_version_cannot_express_is_refused(tomorrow: int, back: int) -> None:
    frame = GAP if back == 4 else HighWater(INCARNATION, 6, "earlier", 41, MONDAY_US)
    with pytest.raises(codec.UnknownVersionError, match="cannot be expressed in"):
        codec.downgrade_frame(codec.encode(frame), tomorrow - back)


@pytest.mark.parametrize(
    ("accept", "newest"),
    [
        (codec.format_accept(), codec.VERSION),
        ("text/plain, application/vnd.herodotus.frames; version=12;q=1", 12),
        ("application/vnd.herodotus.frames", None),
        ("", None),
    ],
)
def test_the_version_in_an_accept_header_is_parsed(accept: str, newest: int | None) -> None:
    assert codec.parse_accept(accept) == newest


def test_a_reader_of_version_2_gets_the_names_that_it_knows() -> None:
    decision = replace(
        a_decision(),
        requeued_by=RequeueEvent("NodeAdd", "NodeResourcesFit"),
        preemption=Preemption("worker-1", (Candidate("worker-1", ("shop/a",), 0, "http://x"),), evicted=True),
        unknown=("requeuedBy",),
    )
    frame = codec.downgrade_frame(codec.encode(decision), 2)
    written = msgspec.msgpack.decode(frame[codec.HEADER_BYTES :])
    assert frame[codec.VERSION_AT] == 2
    assert (written["woken_by"]["event"], written["narrowed_by"], written["marks"]) == ("NodeAdd", [], [])
    assert written["preemption"]["nominated"] == "worker-1"
    assert written["preemption"]["candidates"][0]["refused_by"] == "http://x"
    assert written["unknown"] == ["wokenBy"]
    assert codec.decode(frame) == decision


def test_a_payload_without_its_header_is_recognized_by_its_names() -> None:
    decision = a_decision()
    former = codec.downgrade_frame(codec.encode(decision), 2)[codec.HEADER_BYTES :]
    assert codec.decode_payload(1, former) == decision
    assert codec.build_decision_frame(former)[codec.VERSION_AT] == codec.OLDEST
    assert codec.build_decision_frame(codec.encode(decision)[codec.HEADER_BYTES :])[codec.VERSION_AT] == codec.VERSION


def test_deltas_for_a_reader_of_version_2_become_whole_frames() -> None:
    first = a_decision()
    second = replace(first, sequence=first.sequence + 1, seed=7)
    writer = deltas.DeltaWriter()
    batch = [writer.encode(first), writer.encode(second)]
    assert batch[1][codec.KIND_AT] == codec.DELTA
    frames = deltas.downgrade_frames([], batch, 2)
    assert [frame[codec.VERSION_AT] for frame in frames] == [2, 2]
    assert [codec.decode(frame) for frame in frames] == [first, second]
