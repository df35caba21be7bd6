"""Frames on disk: whole or not at all, in order, read on from where they were acknowledged."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from herodotus_record import codec
from herodotus_record.model import NodeRows
from scheduler.recorder import spool as spool_module
from scheduler.recorder.spool import RESERVE_BYTES, Spool, SpoolFullError
from scheduler.recorder.spool_reader import BATCH_FRAMES, IncarnationSpool, list_incarnations
from tests.builders import CLUSTER, a_table
from tests.processes import ROOT, eventually
from tests.support.recorder_frames import ME, TABLE, encoded_gap


def a_spool(directory: Path, limit: int = 1 << 20) -> Spool:
    made = Spool(directory, ME, limit)
    made.rotate(TABLE)
    return made


def reader(directory: Path) -> IncarnationSpool:
    (found,) = list_incarnations(directory)
    return found


def read_all(spool: IncarnationSpool) -> list[int | str]:
    """Sequences of everything that is left, "table" for node rows; acknowledges it."""
    found: list[int | str] = []
    while (batch := spool.next_batch()) is not None:
        for frame in batch.frames:
            decoded = codec.decode(frame)
            found.append("table" if isinstance(decoded, NodeRows) else decoded.sequence)
        spool.acknowledge(batch, len(batch.frames))
    return found


def test_frames_are_read_in_the_order_of_writing(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    for i in range(1, 4):
        spool.append(encoded_gap(i))
    assert read_all(reader(tmp_path)) == ["table", 1, 2, 3]


def test_segments_follow_each_other_and_are_deleted_when_delivered(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    for i in range(1, 4):
        spool.append(encoded_gap(i))
        spool.rotate(TABLE)
    out = reader(tmp_path)
    assert read_all(out) == ["table", 1, "table", 2, "table", 3, "table"]
    assert sorted(p.name for p in (tmp_path / ME).glob("*.seg")) == ["00000004.seg"]


def test_a_segment_is_full_after_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", (2 * len(TABLE), 2 * len(TABLE)))
    spool = Spool(tmp_path, ME)
    unwritten = spool.needs_rotation
    spool.rotate(TABLE)
    rotated = spool.needs_rotation
    spool.append(TABLE)
    assert (unwritten, rotated, spool.needs_rotation) == (True, False, True)


def test_the_position_survives_the_reader(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    for i in range(1, 4):
        spool.append(encoded_gap(i))
    first = reader(tmp_path)
    batch = first.next_batch()
    assert batch is not None
    first.acknowledge(batch, 2)

    second = reader(tmp_path)
    assert read_all(second) == [2, 3]
    spool.append(encoded_gap(4))
    assert read_all(second) == [4]
    assert read_all(reader(tmp_path)) == []


def test_a_batch_has_a_limit_of_frames_and_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = a_spool(tmp_path, 1 << 26)
    for i in range(1, BATCH_FRAMES + 10):
        spool.append(encoded_gap(i))
    batch = reader(tmp_path).next_batch()
    assert batch is not None
    assert len(batch.frames) == BATCH_FRAMES

    monkeypatch.setattr("scheduler.recorder.spool_reader.BATCH_BYTES", len(TABLE) + 2 * len(encoded_gap(1)) + 5)
    batch = reader(tmp_path).next_batch()
    assert batch is not None
    assert len(batch.frames) == 3


def test_a_frame_larger_than_a_batch_is_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.recorder.spool_reader.BATCH_BYTES", 64)
    spool = a_spool(tmp_path)
    spool.append(encoded_gap(1, "x" * 1000))
    spool.append(encoded_gap(2))
    assert read_all(reader(tmp_path)) == ["table", 1, 2]


def test_a_frame_that_is_still_being_written_waits(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    whole = encoded_gap(1)
    spool.append(whole[:20])
    out = reader(tmp_path)
    assert read_all(out) == ["table"]
    spool.append(whole[20:])
    assert read_all(out) == [1]


def test_a_cut_off_tail_is_passed_over_when_the_writer_went_on(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    spool.append(encoded_gap(1)[:20])
    spool.rotate(TABLE)
    spool.append(encoded_gap(2))
    assert read_all(reader(tmp_path)) == ["table", "table", 2]


def test_damage_is_logged_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spool = a_spool(tmp_path)
    spool.append(encoded_gap(1))
    spool.append(b"no frame" * 10)
    spool.rotate(TABLE)
    out = reader(tmp_path)
    batch = out.next_batch()
    assert batch is not None
    assert len(batch.frames) == 2  # up to the damage
    out.acknowledge(batch, 2)
    assert read_all(out) == ["table"]
    assert "passing over it" in (said := capsys.readouterr().err)
    assert "bytes=80" in said


def test_the_limit_covers_all_incarnations_and_delivery_frees_space(tmp_path: Path) -> None:
    other = Spool(tmp_path, "other", 1 << 20)
    other.rotate(b"x" * 1000)
    limit = 100_000
    spool = Spool(tmp_path, ME, limit)
    spool.rotate(TABLE)
    room = limit - spool_module.RESERVE_BYTES - 1000 - len(TABLE)
    with pytest.raises(SpoolFullError, match="the spool holds"):
        spool.append(b"y" * (room + 1))
    spool.append(b"y" * room)
    (tmp_path / "other" / "00000001.seg").unlink()
    spool.append(b"y" * 101)


def test_a_segment_that_is_shipped_while_it_is_counted_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = a_spool(tmp_path, len(TABLE) + 50)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([tmp_path / "gone" / "00000001.seg"]))
    spool.append(b"z" * 51)


def full(monkeypatch: pytest.MonkeyPatch, takes: int) -> None:
    """From now on the disk takes so many bytes of each write."""
    really = os.write

    def write(file: int, data: bytes) -> int:
        if takes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(file, data[:takes])

    monkeypatch.setattr(os, "write", write)


@pytest.mark.parametrize("takes", [0, 5], ids=["nothing", "a part"])
def test_a_full_disk_leaves_nothing_of_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: int) -> None:
    spool = a_spool(tmp_path)
    with monkeypatch.context() as m:
        full(m, takes)
        with pytest.raises(SpoolFullError, match="No space left on device"):
            spool.append(encoded_gap(1))
    spool.append(encoded_gap(2))
    assert read_all(reader(tmp_path)) == ["table", 2]


def test_the_room_of_a_released_reserve_is_left_to_gap_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the last gap has no room, if the scheduler ends while the disk is full."""
    spool = a_spool(tmp_path)
    spool.check()
    with monkeypatch.context() as m:
        full(m, 0)
        with pytest.raises(SpoolFullError):
            spool.append(encoded_gap(1), urgent=True)
    freed = SimpleNamespace(f_bavail=RESERVE_BYTES, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda path: freed)
    with pytest.raises(SpoolFullError):
        spool.append(encoded_gap(2))
    spool.append(encoded_gap(3), urgent=True)
    assert read_all(reader(tmp_path)) == ["table", 3]


@pytest.mark.parametrize("takes", [0, 5], ids=["nothing", "a part"])
def test_a_full_disk_leaves_one_empty_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: int) -> None:
    spool = a_spool(tmp_path)
    with monkeypatch.context() as m:
        full(m, takes)
        for _ in range(3):
            with pytest.raises(SpoolFullError):
                spool.rotate(TABLE)
        assert [p.stat().st_size for p in sorted((tmp_path / ME).glob("*.seg"))] == [len(TABLE), 0]
    spool.append(encoded_gap(1))
    spool.rotate(TABLE)
    assert sorted(p.name for p in (tmp_path / ME).glob("*.seg")) == ["00000001.seg", "00000002.seg", "00000003.seg"]
    assert read_all(reader(tmp_path)) == ["table", 1, "table"]


def test_live_writer_holds_the_lock(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    assert reader(tmp_path).has_writer()
    spool.close()
    spool.close()
    assert not reader(tmp_path).has_writer()
    with pytest.raises(SpoolFullError):
        spool.append(encoded_gap(1))


def test_the_node_table_at_the_position(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    changed = a_table(["a", "c"], cpu=1, generation=8)
    changed.since = [7, 8]
    rows = changed.rows(CLUSTER, ME)
    spool.append(codec.encode(NodeRows(**{**vars(rows), "base": 7})))
    out = reader(tmp_path)
    assert out.rebuild_node_table() is None  # nothing was passed: the segment itself starts with one
    batch = out.next_batch()
    assert batch is not None

    out.acknowledge(batch, 1)
    frame = out.rebuild_node_table()
    assert frame is not None
    assert codec.decode(frame) == codec.decode(TABLE)

    out.acknowledge(batch, 2)
    frame = out.rebuild_node_table()
    assert frame is not None
    decoded = codec.decode(frame)
    assert isinstance(decoded, NodeRows)
    assert (decoded.base, decoded.generation, decoded.name) == (-1, 8, ("a", "c"))


def now_on_disk(directory: Path) -> int:
    """Return the time stamp of a file change at present, in ns; its clock ticks every few milliseconds."""
    (directory / ".now").touch()
    return (directory / ".now").stat().st_ctime_ns


def test_incarnations_are_listed_oldest_first_without_unnamed_ones(tmp_path: Path) -> None:
    Spool(tmp_path, "z").close()
    eventually(lambda: now_on_disk(tmp_path) > (tmp_path / "z").stat().st_ctime_ns, "the clock of the disk to tick")
    Spool(tmp_path, "a").close()
    (tmp_path / ".half-made").mkdir()
    (tmp_path / "shipper.lock").touch()
    assert [s.name for s in list_incarnations(tmp_path)] == ["z", "a"]
    assert list(list_incarnations(tmp_path / "absent")) == []


WRITER = """
import sys
from pathlib import Path
from tests.support.recorder_frames import TABLE, encoded_gap
from scheduler.recorder.spool import Spool
spool = Spool(Path(sys.argv[1]), "incarnation")
spool.rotate(TABLE)
for i in range(1, 10**9):
    spool.append(encoded_gap(i, "x" * (i % 5000)))
    if i % 50 == 0:
        spool.rotate(TABLE)
    print(i, flush=True)
"""


def test_killed_while_writing_it_leaves_everything_that_append_returned_from(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        seen = [int(writer.stdout.readline()) for _ in range(300)]
        writer.send_signal(signal.SIGKILL)
        seen += [int(line) for line in writer.stdout if line.endswith("\n")]
    out = reader(tmp_path)
    assert not out.has_writer()
    written = [s for s in read_all(out) if s != "table"]
    assert written == list(range(1, len(written) + 1))
    assert len(written) >= seen[-1]
