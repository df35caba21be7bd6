"""Spools that are small, full, damaged or deleted: what is lost is bounded, counted and stored as gaps.

A real recorder, the shipper and a decisions service on SQLite, in one process.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_record import codec
from herodotus_record.model import Decision
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.records.build import Origin
from scheduler.recorder import spool_reader
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.shipper import Shipper
from scheduler.recorder.spool import MIN_LIMIT_BYTES, Spool
from tests.endpoint.service import API, Service, a_service
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Scores, framework
from tests.support.recorder_frames import record_attempt, record_bind

PODS = 300


class System:
    """One scheduler's recorder, its shipper, and the service."""

    def __init__(self, spool: Path, service: Service, limit: int = 1 << 30) -> None:
        self.directory = spool
        self.service = service
        self.up = True
        self.recorder = Recorder(lambda i: Spool(spool, i, limit), Origin("cluster", "me"), "0")
        self.columns: NodeColumns = columns_of([make_node(n) for n in ("a", "b", "c")])
        self.framework = framework(score=(Scores("S", {"b": 5}),))
        self.shipper = self.a_shipper()
        self.pods = 0

    def a_shipper(self) -> Shipper:
        return Shipper(self.directory, ServiceEndpoint("http://service"), httpx.MockTransport(self._post))

    def _post(self, request: httpx.Request) -> httpx.Response:
        if not self.up:
            raise httpx.ConnectError("refused")
        body = codec.decompress(request.read(), 1 << 28)
        answer = self.service.post(body)
        return httpx.Response(answer.status_code, content=answer.data, headers=dict(answer.headers))

    def decide(self) -> Decision:
        """One pod: its decision with changed node rows, and its outcome."""
        self.pods += 1
        snapshot = Snapshot.from_columns(self.columns)
        pod = make_pod(f"p{self.pods}").request(cpu="1m").info()
        made = record_attempt(self.recorder, pod, snapshot, schedule(self.framework, pod, snapshot, self.pods))
        record_bind(self.recorder, made)
        self.columns.add_pod(make_pod(f"x{self.pods}").request(cpu="1m").node("b").info(), "b")
        return made

    def deliver(self, shipper: Shipper | None = None) -> None:
        """Until nothing is left that the writer's answer could bring."""
        self.recorder.check_spool()
        for _ in range(8):
            while (shipper or self.shipper).deliver_pending():
                pass
            self.recorder._spool.check()

    def seen(self) -> dict[str, Any]:
        """Return the service's facts about this scheduler."""
        items = self.service.get(f"{API}/incarnations")["items"]
        (found,) = [i for i in items if i["metadata"]["name"] == self.recorder.incarnation]
        return dict(found)

    def stored(self) -> int:
        """How many records of it are stored: decisions and outcomes."""
        totals = self.service.store.reader.measure_sizes().rows
        return totals["decisions"] + totals["outcomes"]

    def segment(self) -> Path:
        """Return the segment that is being written."""
        return Path(self.recorder._spool._path)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    folder = tmp_path / "service"
    folder.mkdir()
    made = a_service(folder)
    yield made
    made.store.close()


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 96 KiB."""
    where = tmp_path / "tmpfs"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(where)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: a full disk needs the right to mount a tmpfs: {done.stderr.strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def everything_is_accounted_for(system: System) -> int:
    """No sequence is missing without an explanation; returns how many are explained."""
    seen = system.seen()
    assert seen["missing"] == 0, seen["missingRanges"]
    assert seen["highestSequence"] == system.recorder._sequence
    written = system.recorder.recorded
    explained = int(seen["explainedByGaps"])
    # each sequence is a stored record, a gap record with a sequence of its own, or in an explained hole
    assert system.stored() + system.recorder.gaps + explained >= system.recorder._sequence
    assert system.stored() <= written
    return explained


def test_a_spool_of_100_kib_loses_nothing_that_is_delivered_in_time(tmp_path: Path, service: Service) -> None:
    system = System(tmp_path / "spool", service, limit=100 << 10)
    for i in range(PODS):
        system.decide()
        if i % 10 == 9:
            system.deliver()
    assert (system.recorder.dropped, everything_is_accounted_for(system)) == (0, 0)
    assert system.stored() == 2 * PODS


def test_the_smallest_spool_that_is_accepted_works(tmp_path: Path, service: Service) -> None:
    system = System(tmp_path / "spool", service, limit=MIN_LIMIT_BYTES)
    for i in range(PODS):
        system.decide()
        if i % 5 == 4:
            system.deliver()
    assert (system.recorder.dropped, everything_is_accounted_for(system)) == (0, 0)


@pytest.mark.parametrize("disk", ["tmp_path", "tmpfs"])
def test_full_spool_recovers_and_reports_the_gap(request: pytest.FixtureRequest, disk: str, service: Service) -> None:
    """It is full by its limit, or because the disk is."""
    limit = 100 << 10 if disk == "tmp_path" else 1 << 30
    system = System(request.getfixturevalue(disk) / "spool", service, limit)
    system.up = False
    for _ in range(PODS):
        system.decide()
    assert 0 < system.recorder.dropped < 2 * PODS - 50
    system.up = True
    system.deliver()
    lost = system.recorder.dropped
    for _ in range(20):
        system.decide()
        system.deliver()
    assert system.recorder.dropped == lost
    assert everything_is_accounted_for(system) == lost
    assert system.stored() == 2 * system.pods - lost


def test_a_disk_of_96_kib_loses_nothing_that_is_delivered_in_time(tmpfs: Path, service: Service) -> None:
    system = System(tmpfs / "spool", service)
    for i in range(PODS):
        system.decide()
        if i % 10 == 9:
            system.deliver()
    assert (system.recorder.dropped, everything_is_accounted_for(system)) == (0, 0)


def test_full_disk_recovers_and_reports_the_gap(tmpfs: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.recorder.recorder.URGENT_EVERY_S", 0.0, raising=False)
    system = System(tmpfs / "spool", service)
    for _ in range(5):
        system.decide()
    system.deliver()
    fill(tmpfs / "another's")
    for _ in range(10):  # the reserve has room for gap records while the disk is full
        for _ in range(20):
            system.decide()
        system.deliver()
        assert everything_is_accounted_for(system) == system.recorder.dropped
    assert system.recorder.dropped > 0
    (tmpfs / "another's").unlink()
    system.deliver()
    lost = system.recorder.dropped
    for _ in range(20):
        system.decide()
    system.deliver()
    assert system.recorder.dropped == lost
    assert everything_is_accounted_for(system) == lost


def fill(file: Path) -> None:
    """Take all that the disk has left."""
    with file.open("wb", buffering=0) as other, contextlib.suppress(OSError):
        while True:
            other.write(bytes(1024))


def flip(data: bytearray, at: random.Random) -> bytes:
    for _ in range(8):
        data[at.randrange(len(data))] ^= 1 << at.randrange(8)
    return bytes(data)


def truncate(data: bytearray, at: random.Random) -> bytes:
    return bytes(data[: at.randrange(len(data))])


def overwrite(data: bytearray, at: random.Random) -> bytes:
    begin = at.randrange(len(data))
    size = min(at.randrange(1, 2000), len(data) - begin)
    data[begin : begin + size] = at.randbytes(size)
    return bytes(data)


def zero_page(data: bytearray, at: random.Random) -> bytes:
    begin = at.randrange(len(data))
    size = min(4096, len(data) - begin)
    data[begin : begin + size] = bytes(size)
    return bytes(data)


def damage(segment: Path, seed: int, begin: int, ways: Sequence[Callable[[bytearray, random.Random], bytes]]) -> str:
    """Damage a segment in place between `begin` and its last fifth, as a disk or a stray program does."""
    at = random.Random(seed)
    how = ways[seed % len(ways)]
    before = segment.read_bytes()
    end = max(begin + 1, len(before) * 4 // 5)
    damaged = how(bytearray(before[begin:end]), at)
    after = before[:begin] + damaged + (b"" if len(damaged) < end - begin else before[end:])
    with segment.open("r+b") as file:
        file.write(after)
        file.truncate(len(after))
    return how.__name__


@pytest.mark.parametrize("seed", range(20))
def test_damage_to_the_segment_that_is_being_written_loses_nothing(tmp_path: Path, service: Service, seed: int) -> None:
    """Some of it was delivered, some not; what is written meanwhile and later is not touched either."""
    system = System(tmp_path / "spool", service)
    for i in range(70):
        system.decide()
        if i == 20:
            system.deliver()
        if i == 50:
            (reader,) = system.shipper._spools.values()
            print(damage(system.segment(), seed, reader._offset, (flip, truncate, overwrite, zero_page)))
    system.deliver()
    for _ in range(15):
        system.decide()
    system.deliver()
    assert (system.recorder.dropped, everything_is_accounted_for(system)) == (0, 0)
    assert system.stored() == 2 * system.pods


@pytest.mark.parametrize("seed", [*range(9), *range(10, 21)])
def test_damage_to_a_dead_scheduler_s_segment_costs_what_builds_on_it_and_is_a_gap(
    tmp_path: Path, service: Service, seed: int
) -> None:
    """Nothing writes it again. What follows whole is delivered; what is lost before it is named."""
    system = System(tmp_path / "spool", service)
    decisions = [system.decide() for _ in range(70)]
    segment = system.segment()
    whole = segment.read_bytes()
    system.recorder.close()
    print(damage(segment, seed, 0, (flip, overwrite, zero_page)))
    after = segment.read_bytes()
    ends = [end for end, _ in codec.split_frames(whole)]
    starts = [0, *ends[:-1]]
    hurt = [i for i, (a, b) in enumerate(zip(starts, ends, strict=True)) if whole[a:b] != after[a:b]]
    shutil.copytree(tmp_path / "spool", tmp_path / "kept")
    system.deliver()
    seen = system.seen() if system.stored() else None
    lost = 2 * len(decisions) - system.stored()
    assert lost <= 2 * len(decisions) - sum(end <= ends[hurt[0]] for end in ends[: hurt[0]]) // 3
    aside = tmp_path / "spool" / "refused.frames"
    kept = [frame for _, frame in codec.split_frames(aside.read_bytes())] if aside.exists() else []
    refused = sum(frame[codec.VERSION_AT] > codec.VERSION for frame in kept)  # of a version that does not exist
    assert refused == system.shipper.progress.refused
    if seen is not None:
        assert seen["missing"] == refused <= 1
        tail = system.recorder._sequence - seen["highestSequence"]  # nothing whole follows: only a successor can tell
        assert seen["explainedByGaps"] == lost - tail - refused
    assert not list((tmp_path / "spool").glob("*/*.seg"))


@pytest.fixture
def with_damaged_outcome(tmp_path: Path, service: Service) -> Callable[[int, int], System]:
    """Return a function that records some decisions and flips a byte in the outcome with an index."""

    def build(decisions: int, outcome: int) -> System:
        system = System(tmp_path / "spool", service)
        for _ in range(decisions):
            system.decide()
        segment = system.segment()
        system.recorder.close()
        data = bytearray(segment.read_bytes())
        ends = [end for end, frame in codec.split_frames(bytes(data)) if frame[codec.KIND_AT] == 2]
        data[ends[outcome] - 5] ^= 255
        segment.write_bytes(data)
        return system

    return build


def test_one_damaged_outcome_costs_that_one_record(with_damaged_outcome: Callable[[int, int], System]) -> None:
    system = with_damaged_outcome(70, 30)
    system.deliver()
    seen = system.seen()
    assert (seen["missing"], seen["explainedByGaps"], system.stored()) == (0, 1, 139)
    assert seen["missingRanges"] == [{"first": 62, "last": 62, "explained": True}]
    assert system.shipper.progress.lost == 1


def test_a_gap_that_the_shipper_found_is_stored_once_when_it_is_sent_again(
    tmp_path: Path, service: Service, with_damaged_outcome: Callable[[int, int], System]
) -> None:
    system = with_damaged_outcome(10, 3)
    shutil.copytree(tmp_path / "spool", tmp_path / "again")
    system.deliver()
    system.directory = tmp_path / "again"
    system.deliver(system.a_shipper())
    seen = system.seen()
    assert (seen["missing"], seen["explainedByGaps"], system.stored()) == (0, 1, 19)
    assert service.store.reader.measure_sizes().rows["gaps"] == 1


@pytest.mark.parametrize("what", ["directory", "incarnation", "segment", "moved"])
@pytest.mark.parametrize("restarted", [False, True], ids=["shipper lives", "shipper restarted"])
def test_deleted_under_a_live_scheduler_the_open_segment_is_written_again(
    tmp_path: Path, service: Service, what: str, restarted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    system = System(tmp_path / "spool", service)
    for _ in range(30):
        system.decide()
    system.deliver()
    for _ in range(20):
        system.decide()
    if what == "directory":
        shutil.rmtree(system.directory)
    elif what == "incarnation":
        shutil.rmtree(system.directory / system.recorder.incarnation)
    elif what == "segment":
        system.segment().unlink()
    else:
        system.directory.rename(tmp_path / "elsewhere")
    if restarted:
        system.shipper = system.a_shipper()
    for _ in range(15):
        system.decide()
    system.deliver()
    assert (system.recorder.dropped, everything_is_accounted_for(system)) == (0, 0)
    assert system.stored() == 2 * system.pods
    assert "deleted or damaged and written again" in system.recorder.spool_fault
    assert system.recorder.spool_repairs == 1
    assert "The spool was damaged from outside" in capsys.readouterr().err


def test_an_idle_scheduler_notices_too(tmp_path: Path, service: Service) -> None:
    system = System(tmp_path / "spool", service)
    for _ in range(20):
        system.decide()
    shutil.rmtree(system.directory)
    system.deliver()
    assert system.stored() == 2 * system.pods


def test_complete_segments_that_were_deleted_undelivered_are_a_gap(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.recorder.spool.SEGMENT_BYTES", (10_000, 10_000))
    system = System(tmp_path / "spool", service)
    system.decide()
    system.deliver()
    system.up = False
    for _ in range(40):
        system.decide()
    assert len(list(system.directory.glob("*/*.seg"))) > 2
    in_open = sum(f[codec.KIND_AT] in (1, 2, 6) for _, f in codec.split_frames(system.segment().read_bytes()))
    shutil.rmtree(system.directory)
    system.up = True
    system.decide()
    system.deliver()
    lost = everything_is_accounted_for(system)
    assert lost == 2 * system.pods - system.stored()
    assert 0 < lost <= 2 * 40 - in_open


def test_a_spool_that_cannot_be_created_again_is_a_fault_and_a_gap_in_the_end(tmp_path: Path, service: Service) -> None:
    system = System(tmp_path / "spool", service)
    system.decide()
    system.deliver()
    shutil.rmtree(system.directory)
    system.directory.write_text("in the way")
    system.recorder._spool.check()
    for _ in range(5):
        system.decide()
    for _ in range(64):  # what was written meanwhile is in memory, until the next look at the files
        system.decide()
    assert "cannot be written" in system.recorder.spool_fault
    assert system.recorder.dropped > 0
    system.directory.unlink()
    for _ in range(5):
        system.decide()
    system.deliver()
    assert everything_is_accounted_for(system) == system.recorder.dropped > 0
    assert system.stored() == 2 * system.pods - system.recorder.dropped
    assert "cannot be written" not in system.recorder.spool_fault


def test_a_writer_that_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_reader, "REWRITE_TIMEOUT_S", 0.0)
    system = System(tmp_path / "spool", service)
    for _ in range(10):
        system.decide()
    data = bytearray(system.segment().read_bytes())
    ends = [end for end, frame in codec.split_frames(bytes(data)) if frame[codec.KIND_AT] == 2]
    with system.segment().open("r+b") as file:
        os.pwrite(file.fileno(), b"????", ends[3] - 5)
    for _ in range(3):
        while system.shipper.deliver_pending():
            pass
    assert (system.seen()["explainedByGaps"], system.stored()) == (1, 19)
