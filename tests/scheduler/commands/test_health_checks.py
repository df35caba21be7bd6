"""What makes the process unwell, what only its history, and what it says of its records."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.commands.health_checks import ProcessHealth
from scheduler.live.metrics import SchedulerMetrics
from scheduler.recorder.spool import Spool
from scheduler.recorder.supervisor import Progress
from scheduler.serving.health import build_summary
from tests.support.clock import Clock
from tests.support.recorder_frames import TABLE

Health = ProcessHealth[SchedulerMetrics]


@dataclass
class Election:
    leading: bool
    renewed_s: float | None = None

    def seconds_since_renewal(self) -> float | None:
        return self.renewed_s


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def health(tmp_path: Path, clock: Clock) -> Health:
    """As of a process that has just begun."""
    return ProcessHealth(threading.Event(), SchedulerMetrics(clock), tmp_path, 1000, elects_s=15.0)


def leading(health: Health) -> Health:
    """Return the same process health after it became the leader."""
    health.election = Election(True, 1.0)  # type: ignore[assignment]
    health.loop = SimpleNamespace(synced=True)
    health.recorder = SimpleNamespace(  # type: ignore[assignment]
        incarnation="i", spool_bytes=0, spool_fault="", spool_repairs=4, recorded=7, dropped=2, gaps=1, repeated=8
    )
    health.supervisor = SimpleNamespace(running=True, restarts=3)  # type: ignore[assignment]
    return health


def faults(health: Health, path: str) -> dict[str, str]:
    return {c.name: fault for c in getattr(health, path) if (fault := c.fault()) is not None}


def ready(health: Health) -> bool:
    return build_summary("readyz", health.readyz, {}).status == 200


def test_all_checks_succeed_while_the_scheduler_works(health: Health) -> None:
    leading(health)
    assert [faults(health, path) for path in ("healthz", "livez", "readyz")] == [{}, {}, {}]


def test_the_checks_have_kube_scheduler_s_names_where_it_has_them(health: Health) -> None:
    names = [c.name for c in health.readyz]
    assert names == ["leaderElection", "scheduling-loop", "shutdown", "sched-handler-sync", "shipper", "spool"]
    assert [c.name for c in health.readyz if c.advisory] == ["shipper", "spool"]


@pytest.mark.parametrize(
    ("change", "unready", "unwell", "dead"),
    [
        (lambda v, _: setattr(v, "loop", SimpleNamespace(synced=False)), "sched-handler-sync", "", ""),
        (lambda v, _: v.stop.set(), "shutdown", "", ""),
        (lambda v, _: setattr(v.election, "renewed_s", 35.1), "leaderElection", "leaderElection", ""),
        (lambda v, clock: setattr(clock, "now_s", clock.now_s + 60.1), *["scheduling-loop"] * 3),
    ],
    ids=["not synced", "shutting down", "not renewed", "hanging"],
)
def test_each_check_fails_its_path(
    health: Health, clock: Clock, change: Any, unready: str, unwell: str, dead: str
) -> None:
    change(leading(health), clock)
    found = [list(faults(health, path)) for path in ("readyz", "healthz", "livez")]
    assert found == [[name] if name else [] for name in (unready, unwell, dead)]
    assert not ready(health)


def test_before_the_api_server_answers_it_is_alive_and_not_ready(health: Health) -> None:
    assert (faults(health, "livez"), faults(health, "healthz")) == ({}, {})
    assert faults(health, "readyz") == {"sched-handler-sync": "the API server was not reached yet"}


def test_a_standby_is_ready(health: Health) -> None:
    health.election = Election(False)  # type: ignore[assignment]
    assert ready(health)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda v: Progress(error="connection refused").write(v.spool), "shipper"),
        (lambda v: setattr(v.supervisor, "running", False), "shipper"),
        (lambda v: setattr(v.recorder, "spool_bytes", 950), "spool"),
        (lambda v: setattr(v.recorder, "spool_fault", "deleted"), "spool"),
    ],
    ids=["the service is away", "no shipper", "the spool is full", "the spool was deleted"],
)
def test_check_of_the_recorder_is_informative(health: Health, change: Any, name: str) -> None:
    change(leading(health))
    assert list(faults(health, "readyz")) == [name]
    assert ready(health)


def test_recorder_state_is_a_metric(health: Health, tmp_path: Path) -> None:
    Spool(tmp_path, "incarnation").rotate(TABLE)
    Progress(delivered=5, refused=1, lost=6, caught_up_s=99.0).write(tmp_path)
    registry = leading(health).metrics.registry
    registry.register(health)
    names = [s.name for family in health.collect() for s in family.samples]
    assert {name: registry.get_sample_value(name) for name in names} == {
        "herodotus_recording": 1,
        "herodotus_records_total": 7,
        "herodotus_records_dropped_total": 2,
        "herodotus_gap_records_total": 1,
        "herodotus_repeated_attempts_total": 8,
        "herodotus_spool_bytes": 0,
        "herodotus_spool_repairs_total": 4,
        "herodotus_spool_limit_bytes": 1000,
        "herodotus_spool_waiting_bytes": len(TABLE),
        "herodotus_shipper_up": 1,
        "herodotus_shipper_restarts_total": 3,
        "herodotus_shipper_delivered_frames_total": 5,
        "herodotus_shipper_refused_frames_total": 1,
        "herodotus_shipper_lost_records_total": 6,
        "herodotus_shipper_caught_up_timestamp_seconds": 99,
    }


def test_metrics_exist_before_the_first_observation(health: Health) -> None:
    names = {s.name for family in health.collect() for s in family.samples}
    assert names == {"herodotus_spool_limit_bytes", "herodotus_spool_waiting_bytes"}
