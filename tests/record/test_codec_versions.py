"""Bytes of earlier versions, as they were written then, are read: a spool outlives an upgrade, and so does a database.

stored/version-N.frames: one frame of each kind, written by the version N of the codec.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from herodotus_record import codec
from herodotus_record.model import Gap, HighWater
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
    assert list(codec.decode_all(file.read_bytes())) == [
        TABLE.rows(CLUSTER, INCARNATION),
        decision,
        replace(bound(decision, TABLE), sequence=2),
        Gap(INCARNATION, 5, 3, 4, "disk full", MONDAY_US),
        HighWater(INCARNATION, 6, "earlier", 41, MONDAY_US),
    ]


def test_a_version_that_is_not_known_is_refused_by_its_number() -> None:
    """Never misread: the shipper keeps the frame aside, and the message says what is too old."""
    frame = bytearray((STORED / "version-1.frames").read_bytes())
    frame[2] = codec.VERSION + 1
    with pytest.raises(codec.CodecError, match=f"frame version {codec.VERSION + 1} .* not known to version"):
        next(codec.decode_all(bytes(frame)))
