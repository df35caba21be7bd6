"""Match the records of one attempt: by the scheduler itself, by the observer, and read from the scheduler's log.

Owns: the matching, by what the store keeps about every record. Does not own: combining matched records (`merging`),
statements.

A log holds no UIDs, and the observer sees an outcome moments after it. Records are therefore matched by outcome and
time. The functions are pure and take all records of a pod name at once, so the result does not depend on the order in
which the records arrived.

Invariant: every record belongs to one attempt, and an attempt has at most one main record of each source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record.model import Source

SKEW_US: Final = 2_000_000  # how far the clocks of two machines may differ
APART_US: Final = 900_000_000  # above ten minutes, the time that kube-scheduler waits for volumes by default


Record = Any  # with the attributes id, source, cluster, namespace, pod, pod_uid, started_us, node and message


@dataclass(frozen=True)
class AttemptRecords:
    """All stored records of one scheduling attempt, from any source.

    `record` is the most detailed one. `logged` is the record read from the scheduler's log, if `record` has another
    source. `duplicates` add nothing to it: copies of the log record, read again from overlapping parts of the log, or
    the observer's reconstruction of an attempt that the scheduler recorded. `uid` is the pod's UID.
    """

    uid: str
    record: Record
    logged: Record | None = None
    duplicates: tuple[Record, ...] = ()

    @property
    def ids_by_detail(self) -> list[int]:
        """Return the record ids of `record` and, if there is one, `logged`: the more detailed record first."""
        return [record.id for record in (self.record, self.logged) if record is not None]

    @property
    def ids(self) -> list[int]:
        """Return the record ids of `record`, `logged` and all `duplicates`."""
        return [*self.ids_by_detail, *(record.id for record in self.duplicates)]


def group_by_attempt(records: Iterable[Record]) -> list[AttemptRecords]:
    """Group records, of any number of pods, by scheduling attempt; return the attempts in the order of their start."""
    by_pod: dict[tuple[str, str, str], list[Record]] = {}
    for record in sorted(records, key=_start_order):
        by_pod.setdefault((record.cluster, record.namespace, record.pod), []).append(record)
    found = [attempt for pod_records in by_pod.values() for attempt in _match_records(pod_records)]
    return sorted(found, key=lambda attempt: _start_order(attempt.record))


def _match_records(records: Sequence[Record]) -> Iterable[AttemptRecords]:
    same: dict[tuple[int, str | None, str], list[Record]] = {}
    for record in records:
        if record.source == Source.LOGGED.value:
            same.setdefault((record.started_us, record.node, record.message), []).append(record)
    logged = [first for first, *_ in same.values()]
    duplicates = {first.id: tuple(rest) for first, *rest in same.values()}
    others = [record for record in records if record.source != Source.LOGGED.value]
    twins = _find_reconstructions(others)
    reconstructions = {record.id for found in twins.values() for record in found}
    for record in others:
        if record.id in reconstructions:
            continue
        match = _find_log_record(record, logged) if record.source == Source.RECONSTRUCTED.value else None
        if match is not None:
            logged.remove(match)
        copies = duplicates[match.id] if match is not None else tuple(twins.get(record.id, ()))
        yield AttemptRecords(record.pod_uid, record, match, copies)
    for record in logged:
        yield AttemptRecords(_infer_uid(record, others), record, None, duplicates[record.id])


def _find_reconstructions(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the observer's reconstructions of attempts that the scheduler recorded, by the id of its record.

    A reconstruction matches the record of the same pod and node whose start is nearest, at most SKEW_US apart. A record
    matches one reconstruction, because the observer may miss an attempt but sees none twice.
    """
    found: dict[int, list[Record]] = {}
    for seen in (record for record in records if record.source == Source.RECONSTRUCTED.value):
        near = [
            record
            for record in records
            if record.source == Source.SCHEDULER.value
            and record.id not in found
            and (record.pod_uid, record.node) == (seen.pod_uid, seen.node)
            and abs(record.started_us - seen.started_us) <= SKEW_US
        ]
        if near:
            found[min(near, key=lambda record: abs(record.started_us - seen.started_us)).id] = [seen]
    return found


def _find_log_record(seen: Record, logged: Sequence[Record]) -> Record | None:
    """Return the log record of the attempt that the observer reconstructed as `seen`, or None if none matches.

    A log record matches if it has the same node (or, where no node was chosen, the same message) and starts at most
    APART_US before `seen` and SKEW_US after it. Of several, the last one that starts before `seen` is preferred.
    """
    alike = [
        record
        for record in logged
        if (record.node, "" if record.node else record.message) == (seen.node, "" if seen.node else seen.message)
        and seen.started_us - APART_US <= record.started_us <= seen.started_us + SKEW_US
    ]
    before = [record for record in alike if record.started_us <= seen.started_us]
    return before[-1] if before else next(iter(alike), None)


def _infer_uid(record: Record, others: Sequence[Record]) -> str:
    """Return the pod's UID for an attempt that only the log recorded.

    `others` are the pod name's records from other sources. The UID is that of the next attempt among them. If there is
    none, it is that of the last attempt, unless that one placed the pod.
    """
    following = next((other for other in others if other.started_us >= record.started_us), None)
    if following is not None:
        return str(following.pod_uid)
    return str(others[-1].pod_uid if others and others[-1].node is None else record.pod_uid)


def _start_order(record: Record) -> tuple[int, int]:
    return record.started_us, record.id
