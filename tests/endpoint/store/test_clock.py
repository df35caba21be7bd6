"""A wrong clock deletes no history: retention measures elapsed time and ignores jumps of the wall clock."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from herodotus_endpoint.store import Pruner, PruneResult, RetentionLimits, Store, retention_limits, sqlite_url
from herodotus_endpoint.store.delta_chains import PARTITION_US
from herodotus_endpoint.store.query_results import PodIdentity
from herodotus_record import codec
from herodotus_record.model import Frame
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.endpoint.service import API
from tests.processes import ROOT
from tests.support.clock import Clock
from tests.support.server_processes import listening_port, send_request

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
ROWS = TABLE.rows(CLUSTER, INCARNATION)
HOUR_S, DAY_S, YEARS_S = 3600.0, 86_400.0, 10 * 365 * 86_400.0
WHOLE: dict[str, Any] = {"max_age_s": 7 * DAY_S, "summary_max_age_s": 0.0}  # decisions go whole, after a week


@dataclass
class Machine:
    """A machine with a wall clock and a monotonic clock. `jump` moves only the wall clock."""

    url: str
    wall: Clock = field(default_factory=Clock)
    monotonic: Clock = field(default_factory=lambda: Clock(5000.0))
    opened: list[Store] = field(default_factory=list)

    def start(self) -> Store:
        self.opened.append(Store(self.url, self.wall, self.monotonic))
        return self.opened[-1]

    def restart(self) -> Store:
        self.opened.pop().close()
        return self.start()

    def pass_time(self, seconds: float) -> None:
        self.wall.now_s += seconds
        self.monotonic.now_s += seconds

    def jump(self, seconds: float) -> None:
        self.wall.now_s += seconds


@pytest.fixture(params=["sqlite", "postgresql"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str]
) -> Iterator[Machine]:
    on_postgresql = request.param == "postgresql"
    made = Machine(postgresql_database() if on_postgresql else sqlite_url(tmp_path / "herodotus.db"))
    yield made
    for store in made.opened:
        store.close()


def put(store: Store, first: int, last: int) -> None:
    frames: list[Frame] = [ROWS, *(a_decision(pod=f"p-{i}", sequence=i) for i in range(first, last + 1))]
    store.writer.store((frame, codec.encode(frame)) for frame in frames)


def prune(store: Store, **limits: float) -> PruneResult:
    return Pruner(store, RetentionLimits(**(WHOLE | limits))).prune()


def sequences(store: Store) -> list[int]:
    """Read all sequences in pages, as a client does."""
    found: list[int] = []
    before = None
    while page := store.listing.decisions([], before, 7):
        before = page[-1].id
        found += [row.sequence for row in page]
    assert all(store.reader.decisions_of_pod(PodIdentity("shop", f"p-{s}")) for s in found)
    return sorted(found)


@pytest.mark.parametrize("years_s", [YEARS_S, -YEARS_S], ids=["ahead", "behind"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_a_clock_that_is_ten_years_off_for_a_while_deletes_nothing(
    machine: Machine, years_s: float, restarts: bool
) -> None:
    """Records from before, during and after it are kept for their full age."""
    store = machine.start()
    put(store, 1, 30)
    machine.pass_time(HOUR_S)
    assert prune(store) == PruneResult()
    machine.jump(years_s)
    store = machine.restart() if restarts else store
    for first in (31, 36):
        assert prune(store) == PruneResult()
        put(store, first, first + 4)
        machine.pass_time(10)
    machine.jump(-years_s)
    store = machine.restart() if restarts else store
    put(store, 41, 45)
    assert prune(store) == PruneResult()
    assert sequences(store) == list(range(1, 46))
    machine.pass_time(6 * DAY_S)
    assert prune(store) == PruneResult()
    put(store, 46, 50)
    machine.pass_time(1 * DAY_S + 2 * PARTITION_US / 1e6)
    for _ in range(2):
        prune(store)
    assert sequences(store) == list(range(46, 51)), "a week after their ingest they go, those of the wrong time too"


def test_records_of_an_idle_cluster_expire(machine: Machine) -> None:
    """The time of retention advances although no record arrives."""
    store = machine.start()
    put(store, 1, 30)
    pruner = Pruner(store, RetentionLimits(**WHOLE))
    for _ in range(8 * 24):
        machine.pass_time(HOUR_S)
        pruner.prune()
    assert sequences(store) == []


def test_the_clock_catches_up_slowly_after_an_outage(machine: Machine) -> None:
    store = machine.start()
    put(store, 1, 30)
    store.close()
    machine.pass_time(30 * DAY_S)
    store = machine.restart()
    assert prune(store) == PruneResult()
    assert store.clock.offset_s() == pytest.approx(30 * DAY_S)
    machine.pass_time(10 * DAY_S)
    store.clock.now_us()
    assert store.clock.offset_s() == pytest.approx(29 * DAY_S)


def test_restarts_do_not_advance_the_time_of_retention(machine: Machine) -> None:
    store = machine.start()
    put(store, 1, 5)
    began_us = store.clock.now_us()
    machine.jump(YEARS_S)
    for _ in range(20):
        machine.pass_time(20)
        prune(store)
        store = machine.restart()
    assert store.clock.now_us() - began_us == pytest.approx(20 * 20 * 1.1e6, abs=1e6)


def test_replicas_agree_on_the_time(machine: Machine) -> None:
    """The time is ahead by at most the run time of both, although one clock is wrong and one process started later."""
    one = machine.start()
    ahead = Store(machine.url, lambda: machine.wall() + YEARS_S, machine.monotonic)
    machine.opened.append(ahead)
    began_us = one.clock.now_us()
    for _ in range(100):
        machine.pass_time(10)
        for store in (one, ahead):
            with store.writer.transaction() as connection:
                store.clock.sync(connection)
    assert one.clock.now_us() == pytest.approx(ahead.clock.now_us(), abs=12e6), "but for what passed since a pass"
    assert ahead.clock.now_us() - began_us == pytest.approx(1000 * 1.1e6, abs=1e6)
    assert machine.start().clock.now_us() == pytest.approx(ahead.clock.now_us(), abs=2e6)


@pytest.mark.parametrize("years_s", [YEARS_S, -YEARS_S], ids=["ahead", "behind"])
def test_a_database_without_stored_time_starts_at_the_earlier_clock(machine: Machine, years_s: float) -> None:
    """The time starts at the newest record or at the wall clock; nothing is deleted if either is wrong."""
    store = machine.start()
    put(store, 1, 30)
    with store.writer.transaction() as connection:
        connection.execute(sa.text("DELETE FROM retention_clock"))
    machine.jump(years_s)
    store = machine.restart()
    assert prune(store) == PruneResult()
    assert sequences(store) == list(range(1, 31))


def test_a_scheduler_that_was_silent_while_the_clock_was_wrong_is_not_forgotten(machine: Machine) -> None:
    """If its incarnation were deleted, all earlier sequences would count as missing."""
    store = machine.start()
    machine.jump(-YEARS_S)
    put(store, 1, 1)
    machine.jump(YEARS_S)
    later = [f for i in (1, 2) for f in (a_decision(pod="x", sequence=i, incarnation="later"),)]
    frames: list[Frame] = [TABLE.rows(CLUSTER, "later"), *later]
    store.writer.store((frame, codec.encode(frame)) for frame in frames)
    with store.writer.transaction() as connection:
        connection.execute(sa.text("DELETE FROM decisions WHERE sequence = 1 AND pod = 'p-1'"))
    prune(store)
    assert {i.incarnation for i in store.reader.incarnations()} == {INCARNATION, "later"}


def test_a_clock_that_is_off_is_reported_once(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    store = machine.start()
    pruner = Pruner(store, RetentionLimits())
    pruner.prune()
    machine.jump(YEARS_S)
    for _ in range(3):
        pruner.prune()
    (record,) = caplog.records
    assert "the clock of this machine is 315360000 s ahead of the time that retention has counted" in record.message


def test_shortened_ages_delete_a_limited_share_per_day(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At most a twentieth is deleted per pass and a quarter per day, until an operator lifts the quota."""
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(retention_limits, "FLOOR", 16)
    store = machine.start()
    for first in range(1, 400, 4):  # 100 batches of an hour each, 400 decisions
        put(store, first, first + 3)
        machine.pass_time(HOUR_S)
    machine.pass_time(20 * DAY_S)
    put(store, 401, 404)
    shorter = RetentionLimits(max_age_s=10 * DAY_S, summary_max_age_s=0.0)
    pruner = Pruner(store, shorter)
    passes = [pruner.prune().deleted for _ in range(20)]
    assert sum(passes) == pytest.approx(404 / 4, abs=32), "steps are chains, which go whole"
    assert max(passes) <= 404 / 20 + 32
    assert passes[-1] == 0
    assert sum("stay until tomorrow" in r.message for r in caplog.records) == 1
    machine.pass_time(DAY_S + 1)
    assert 0 < sum(pruner.prune().deleted for _ in range(20)) <= 404 / 4 + 32
    unbounded = RetentionLimits(max_age_s=10 * DAY_S, summary_max_age_s=0.0, unbounded=True)
    Pruner(store, unbounded).prune()
    assert sequences(store) == [401, 402, 403, 404]


def test_retention_unbounded_sets_the_time_to_the_wall_clock(machine: Machine) -> None:
    store = machine.start()
    put(store, 1, 30)
    store.close()
    machine.pass_time(30 * DAY_S)
    store = machine.restart()
    Pruner(store, RetentionLimits(**WHOLE, unbounded=True)).prune()
    assert (sequences(store), round(store.clock.offset_s())) == ([], 0)


SITE = """
import time
_real = time.time
def _shifted():
    return _real() + float(open({file!r}).read())
time.time = _shifted
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[float], "subprocess.Popen[str]"]]:
    """Starts the service with its wall clock off by some seconds, after it ends the previous one."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE.format(file=str(tmp_path / "offset")))

    def start(offset_s: float) -> "subprocess.Popen[str]":
        for process in started:
            process.terminate()
            process.communicate(timeout=60)
        (tmp_path / "offset").write_text(str(offset_s))
        command = [sys.executable, "-m", "herodotus_endpoint", "--bind", "127.0.0.1:0", "--data", str(tmp_path / "d")]
        environment = {k: v for k, v in os.environ.items() if k != "HERODOTUS_DATABASE_URL"}
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_service_keeps_its_history_through_a_clock_ten_years_off(
    run: Callable[[float], "subprocess.Popen[str]"],
) -> None:
    """Processes are restarted with the clock ahead, behind and right; each prunes as soon as it starts."""
    first = 1
    for offset_s in (0.0, YEARS_S, -YEARS_S, 0.0):
        at = listening_port(run(offset_s))
        frames: list[Frame] = [ROWS, *(a_decision(pod=f"p-{i}", sequence=i) for i in range(first, first + 10))]
        assert send_request(at, "/ingest/v1/frames", b"".join(map(codec.encode, frames)))[0] == 200
        first += 10
        time.sleep(2)  # longer than a first pass takes
        code, found = send_request(at, f"{API}/decisions?limit=100")
        assert (code, len(found["items"])) == (200, first - 1)
