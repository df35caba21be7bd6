"""Turns the lines of a log into records: decisions, outcomes and the node table rows that they need.

Invariant: reading the same log again gives the same records with the same keys, so that no record is stored twice. The
incarnation is derived from the cluster and the log's first line; nothing is random.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from herodotus_record.model import Decision, NodeRows, Outcome, Reason
from scheduler.offline.read_log import records
from scheduler.offline.read_log.attempts import MESSAGES, AttemptAssembler, LoggedAttempt
from scheduler.offline.read_log.lines import LogLineParser
from scheduler.offline.read_log.nodes import LogNodeTable

_LOGS: Final = uuid.UUID("6f1d1c9e-0d8a-5b6e-9a63-6a0f3a1c7e52")  # a namespace of our own for incarnations


@dataclass(frozen=True)
class AttemptFrames:
    """The records of one attempt in kube-scheduler's log: a decision, its outcome, and changed node table rows.

    `rows` holds the rows that changed since the last attempt, or None if none did. `outcome` is None without a binding.
    """

    rows: NodeRows | None
    decision: Decision
    outcome: Outcome | None


class LogReader:
    """Reads one log of kube-scheduler and yields its records.

    `cluster` is the UID of the namespace kube-system, which identifies the cluster, or "" if it is unknown.
    """

    def __init__(
        self, cluster: str = "", zone: timezone = timezone.utc, now: Callable[[], datetime] | None = None
    ) -> None:
        self.nodes = LogNodeTable()
        self.decisions = 0
        self.lines = LogLineParser(MESSAGES, zone, now or (lambda: datetime.now(timezone.utc)))
        self._attempts = AttemptAssembler(self.nodes.slot, self.nodes.remove)
        self._cluster = cluster

    @property
    def incarnation(self) -> str:
        """The UUID that stands for the logged scheduler process in records.

        It is derived from the cluster and the log's first line.
        """
        return str(uuid.uuid5(_LOGS, f"{self._cluster} {self.lines.first}"))

    def feed(self, line: str) -> Iterator[AttemptFrames]:
        """Take the next line, without its line end, and yield the records of attempts that are complete now."""
        entry = self.lines.feed(line)
        if entry is not None:
            yield from map(self._read, self._attempts.feed(entry))

    def settled(self) -> Iterator[AttemptFrames]:
        """Yield the records of attempts that have ended and were not yielded yet.

        Call it when the log was quiet for a while.
        """
        yield from map(self._read, self._attempts.settled())

    def end(self) -> Iterator[AttemptFrames]:
        """Yield the records of attempts that have ended and were not yielded yet. Call it after the last line.

        Attempts whose end is not in the log have no record; the summary counts them.
        """
        yield from map(self._read, self._attempts.end())

    def all(self, lines: Iterable[str]) -> Iterator[AttemptFrames]:
        """Take all lines of a complete log and yield the records of all its attempts."""
        for line in lines:
            yield from self.feed(line)
        yield from self.end()

    def format_summary(self) -> str:
        """Return one line of text with the numbers of lines and attempts that were read and that were ignored."""
        counts = self.lines.counts
        return (
            f"{counts.lines} lines: {self.decisions} decisions from {counts.used} lines;"
            f" skipped: {counts.other} unrelated, {counts.foreign} foreign, {counts.damaged} damaged;"
            f" {self._attempts.unfinished} attempts without an end"
        )

    def _read(self, attempt: LoggedAttempt) -> AttemptFrames:
        guessed = (Reason("log-no-year"),) if self.lines.guessed_year else ()
        source = records.LogSource(self._cluster, self.incarnation, self._attempts.version, guessed)
        decision = records.build_decision(attempt, self.nodes, self._attempts.weights, source)
        rows = self.nodes.changes(self._cluster, self.incarnation)
        outcome = records.build_outcome(attempt, decision)
        self.decisions += 1
        return AttemptFrames(rows, decision, outcome)
