"""Frames of earlier versions are decoded as they were written, because spools and databases outlive an upgrade.

stored/version-N.frames holds one frame of each kind, written by version N of the codec.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Frame, Gap, HighWater
from tests.builders import CLUSTER, CORDONED, INCARNATION, MONDAY_US, a_decision, a_table, bound

STORED = Path(__file__).parent / "stored"
TABLE = a_table(["worker-1", "worker-2"])


@pytest.mark.parametrize("file", sorted(STORED.glob("*.frames")), ids=lambda file: file.stem)
def test_frames_of_an_earlier_version_are_read(file: Path) -> None:
    decision = a_decision(
        nodes=("worker-1", "worker-2", ""),
        points={"worker-2": {"ImageLocality": 9}},
        rejected={"worker-1": {"NodeName": CORDONED}},
        marks=("sampled",),
    )
    assert list(deltas.decode_all(file.read_bytes())) == [
        TABLE.rows(CLUSTER, INCARNATION),
        decision,
        replace(bound(decision, TABLE), sequence=2),
        Gap(INCARNATION, 5, 3, 4, "disk full", MONDAY_US),
        HighWater(INCARNATION, 6, "earlier", 41, MONDAY_US),
    ]


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


@pytest.mark.parametrize("back", [1, 3], ids=["a step that refuses", "no step"])
def test_a_frame_that_an_older_version_cannot_express_is_refused(tomorrow: int, back: int) -> None:
    frame = GAP if back == 3 else HighWater(INCARNATION, 6, "earlier", 41, MONDAY_US)
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
