"""What makes the process unwell, what only its history, and what it says of its records."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.commands.health_checks import Vitals
from scheduler.live.metrics import SchedulerMetrics
from scheduler.recorder.progress import Progress
from scheduler.recorder.spool import Spool
from scheduler.serving.health import summary
from tests.scheduler.live.test_metrics import Clock
from tests.scheduler.recorder.test_spool import TABLE


@dataclass
class Election:
    leading: bool
    renewed_s: float | None = None

    def unrenewed_s(self) -> float | None:
        return self.renewed_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def vitals(tmp_path: Path, clock: Clock) -> Vitals:
    """As of a process that has just begun."""
    return Vitals(threading.Event(), SchedulerMetrics(clock), tmp_path, 1000, elects_s=15.0)


def leading(vitals: Vitals) -> Vitals:
    """The same, at work."""
    vitals.election = Election(True, 1.0)  # type: ignore[assignment]
    vitals.loop = SimpleNamespace(synced=True)  # type: ignore[assignment]
    vitals.recorder = SimpleNamespace(  # type: ignore[assignment]
        incarnation="i", spool_bytes=0, spool_fault="", spool_repairs=4, recorded=7, dropped=2, gaps=1
    )
    vitals.supervisor = SimpleNamespace(running=True, restarts=3)  # type: ignore[assignment]
    return vitals


def faults(vitals: Vitals, path: str) -> dict[str, str]:
    return {c.name: fault for c in getattr(vitals, path) if (fault := c.fault()) is not None}


def ready(vitals: Vitals) -> bool:
    return summary("readyz", vitals.readyz, {}).code == 200


def test_at_work_nothing_is_wrong(vitals: Vitals) -> None:
    leading(vitals)
    assert [faults(vitals, path) for path in ("healthz", "livez", "readyz")] == [{}, {}, {}]


def test_the_checks_have_kube_scheduler_s_names_where_it_has_them(vitals: Vitals) -> None:
    names = [c.name for c in vitals.readyz]
    assert names == ["leaderElection", "scheduling-loop", "shutdown", "sched-handler-sync", "shipper", "spool"]
    assert [c.name for c in vitals.readyz if c.advisory] == ["shipper", "spool"]


@pytest.mark.parametrize(
    ("change", "unready", "unwell", "dead"),
    [
        (lambda v, _: setattr(v, "loop", SimpleNamespace(synced=False)), "sched-handler-sync", "", ""),
        (lambda v, _: v.stop.set(), "shutdown", "", ""),
        (lambda v, _: setattr(v.election, "renewed_s", 35.1), "leaderElection", "leaderElection", ""),
        (lambda v, clock: setattr(clock, "now", clock.now + 60.1), *["scheduling-loop"] * 3),
    ],
    ids=["not synced", "shutting down", "not renewed", "hanging"],
)
def test_what_fails_which_path(vitals: Vitals, clock: Clock, change: Any, unready: str, unwell: str, dead: str) -> None:
    change(leading(vitals), clock)
    found = [list(faults(vitals, path)) for path in ("readyz", "healthz", "livez")]
    assert found == [[name] if name else [] for name in (unready, unwell, dead)]
    assert not ready(vitals)


def test_before_the_api_server_answers_it_is_alive_and_not_ready(vitals: Vitals) -> None:
    assert (faults(vitals, "livez"), faults(vitals, "healthz")) == ({}, {})
    assert faults(vitals, "readyz") == {"sched-handler-sync": "the API server was not reached yet"}


def test_a_standby_is_ready(vitals: Vitals) -> None:
    vitals.election = Election(False)  # type: ignore[assignment]
    assert ready(vitals)


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
def test_what_concerns_history_alone_is_said_and_does_not_count(vitals: Vitals, change: Any, name: str) -> None:
    change(leading(vitals))
    assert list(faults(vitals, "readyz")) == [name]
    assert ready(vitals)


def test_what_the_records_are_doing_is_a_metric(vitals: Vitals, tmp_path: Path) -> None:
    Spool(tmp_path, "incarnation").rotate(TABLE)
    Progress(delivered=5, refused=1, lost=6, caught_up_s=99.0).write(tmp_path)
    registry = leading(vitals).metrics.registry
    registry.register(vitals)
    names = [s.name for family in vitals.collect() for s in family.samples]
    assert {name: registry.get_sample_value(name) for name in names} == {
        "herodotus_recording": 1,
        "herodotus_records_total": 7,
        "herodotus_records_dropped_total": 2,
        "herodotus_gap_records_total": 1,
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


def test_before_there_is_anything_to_say_the_metrics_are_there(vitals: Vitals) -> None:
    names = {s.name for family in vitals.collect() for s in family.samples}
    assert names == {"herodotus_spool_limit_bytes", "herodotus_spool_waiting_bytes"}
