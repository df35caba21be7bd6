"""Which records tell of the same attempt: one that was reconstructed by watching, and one that was read from a log.

Owns: finding them, by what is kept beside every record. Does not own: what they say together (`merged`), statements.

A log has no UIDs, and an observer sees an outcome some moments after it; so they are matched by the outcome and the
time. Pure, and of all records of a pod's name at once: the result does not depend on which came first.

Invariant: every record stands in one attempt, and an attempt is told by at most one record of each source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record.model import Source

SKEW_US: Final = 2_000_000  # the clocks of two machines
APART_US: Final = 900_000_000  # a binding waits ten minutes for volumes, as kube-scheduler is configured by default


Record = Any  # with the attributes id, source, cluster, namespace, pod, pod_uid, started_us, node and message


@dataclass(frozen=True)
class Attempt:
    """`record` tells most of it; `logged` is the log's, where there is one beside. `uid`: the pod's.

    `again`: the log's record from other parts of the log, which overlap.
    """

    uid: str
    record: Record
    logged: Record | None = None
    again: tuple[Record, ...] = ()

    @property
    def told(self) -> list[int]:
        """The ids of the records that tell of it, the one that tells most first."""
        return [record.id for record in (self.record, self.logged) if record is not None]

    @property
    def ids(self) -> list[int]:
        """Of all its records."""
        return [*self.told, *(record.id for record in self.again)]


def attempts(records: Iterable[Record]) -> list[Attempt]:
    """The attempts of any pods, by start."""
    by_pod: dict[tuple[str, str, str], list[Record]] = {}
    for record in sorted(records, key=_began):
        by_pod.setdefault((record.cluster, record.namespace, record.pod), []).append(record)
    found = [attempt for of_pod in by_pod.values() for attempt in _of_pod(of_pod)]
    return sorted(found, key=lambda attempt: _began(attempt.record))


def _of_pod(records: Sequence[Record]) -> Iterable[Attempt]:
    same: dict[tuple[int, str | None, str], list[Record]] = {}
    for record in records:
        if record.source == Source.LOGGED.value:
            same.setdefault((record.started_us, record.node, record.message), []).append(record)
    logged = [first for first, *_ in same.values()]
    again = {first.id: tuple(rest) for first, *rest in same.values()}
    others = [record for record in records if record.source != Source.LOGGED.value]
    for record in others:
        beside = _beside(record, logged) if record.source == Source.RECONSTRUCTED.value else None
        if beside is not None:
            logged.remove(beside)
        yield Attempt(record.pod_uid, record, beside, again[beside.id] if beside is not None else ())
    for record in logged:
        yield Attempt(_uid(record, others), record, None, again[record.id])


def _beside(seen: Record, logged: Sequence[Record]) -> Record | None:
    """The log's record with the same outcome that began last before it was seen."""
    alike = [
        record
        for record in logged
        if (record.node, "" if record.node else record.message) == (seen.node, "" if seen.node else seen.message)
        and seen.started_us - APART_US <= record.started_us <= seen.started_us + SKEW_US
    ]
    before = [record for record in alike if record.started_us <= seen.started_us]
    return before[-1] if before else next(iter(alike), None)


def _uid(record: Record, others: Sequence[Record]) -> str:
    """Of an attempt that only the log tells of: the UID of the next one, or of the last one if it was not placed."""
    following = next((other for other in others if other.started_us >= record.started_us), None)
    if following is not None:
        return str(following.pod_uid)
    return str(others[-1].pod_uid if others and others[-1].node is None else record.pod_uid)


def _began(record: Record) -> tuple[int, int]:
    return record.started_us, record.id
