"""One attempt of a stock kube-scheduler as two records: reconstructed by an observer, and read from the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from herodotus_record.model import (
    Agreement,
    Decision,
    NodeRows,
    NodeTable,
    Outcome,
    Reconstruction,
    SchedulerInfo,
    Source,
)
from scheduler.offline.read_log.reader import LogReader
from tests.builders import CLUSTER, a_decision, a_table, bound
from tests.scheduler.offline.read_log import klogs

POD, PROFILE = "shop/checkout-7d9f-x2k", "default-scheduler"
OBSERVER = "00000000-0000-4000-8000-0000000000bb"
NOON_US = 1_772_884_800_000_000  # of the day that `klogs` writes of


@dataclass(frozen=True)
class Record:
    """A decision with its outcomes and node table, and the frames that carry it."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    rows: NodeRows

    @property
    def frames(self) -> tuple[NodeRows | Decision | Outcome, ...]:
        return self.rows, self.decision, *self.outcomes


def seen(
    at_ms: int = 50, *, found: Reconstruction | None = None, chosen: str = "", sequence: int = 1, **what: Any
) -> Record:
    """Return the observer's record, made some time after noon; `what` is passed to `a_decision`."""
    d = a_decision(
        incarnation=OBSERVER,
        profile=PROFILE,
        started_us=NOON_US + at_ms * 1000,
        sequence=sequence,
        generation=7,
        **what,
    )
    table = a_table(what.get("nodes", ("worker-1", "worker-2", "worker-3")))
    d = replace(
        d,
        key=replace(d.key, source=Source.RECONSTRUCTED),
        chosen=table.find_slot(chosen) if chosen else d.chosen,
        scheduler=SchedulerInfo(PROFILE, "observer-0", "0.1.0"),
        unknown=("scheduler.identity", "seed"),
        reconstruction=found or Reconstruction(Agreement.AGREE),
    )
    outcomes = (bound(d, table, sequence=sequence + 1),) if d.chosen is not None else ()
    return Record(d, outcomes, table, table.rows(CLUSTER, OBSERVER))


def read(*messages: tuple[str, dict[str, Any]], at_ms: int = 0) -> list[Record]:
    """Return the records of a log with these lines; its attempts are in order."""
    reader = LogReader(CLUSTER, now=lambda: datetime(2026, 3, 8, tzinfo=timezone.utc))
    lines = [klogs.text(message, at_ms + i, **pairs) for i, (message, pairs) in enumerate(messages)]
    found, table = [], NodeTable()
    for each in reader.all(lines):
        if each.rows is not None:
            table.apply(each.rows)
        whole = reader.nodes.table(CLUSTER, reader.incarnation)
        found.append(Record(each.decision, (each.outcome,) if each.outcome else (), table, whole))
    return found


def logged(
    node: str = "worker-1", points: Mapping[str, Mapping[str, int]] | None = None, *, pod: str = POD, at_ms: int = 0
) -> Record:
    """Return a log's record of a placement. `points`: node -> plugin -> weighted points, if the log has scores."""
    begins = [klogs.attempt_starts(pod), *(klogs.scores(pod, points) if points else ())]
    ends = [
        ("Attempting to bind pod to node", {"pod": pod, "node": node}),
        klogs.bound(pod, node, 3, len(points) if points else 2),
    ]
    (record,) = read(*begins, *ends, at_ms=at_ms)
    return record


def turned_away(message: str, *, pod: str = POD, at_ms: int = 0) -> Record:
    """Return a log's record of a rejection."""
    (record,) = read(klogs.attempt_starts(pod), klogs.no_fit(pod, message), at_ms=at_ms)
    return record
