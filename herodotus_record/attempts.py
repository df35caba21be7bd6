"""Match the records of one attempt: by the scheduler itself, by the observer, and read from the scheduler's log.

Owns: the matching, by what the store keeps about every record. Does not own: combining matched records (`merging`),
statements.

A log holds no UIDs, and the observer sees an outcome moments after it. Records are therefore matched by outcome and
time. The functions are pure and take all records of a pod name at once, so the result does not depend on the order in
which the records arrived.

Invariant: every record belongs to one attempt, and an attempt has at most one main record of each source.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    attempts = [attempt for pod_records in by_pod.values() for attempt in _match_records(pod_records)]
    return sorted(attempts, key=lambda attempt: _start_order(attempt.record))


def _match_records(records: Sequence[Record]) -> Iterable[AttemptRecords]:
    """Group records by attempt and yield the attempts.

    `records` are all of one pod name, in the order of their start.
    """
    same: dict[tuple[int, str | None, str], list[Record]] = {}
    for record in records:
        if record.source == Source.LOGGED.value:
            same.setdefault((record.started_us, record.node, record.message), []).append(record)
    duplicates = {first.id: tuple(rest) for first, *rest in same.values()}
    others = [record for record in records if record.source != Source.LOGGED.value]
    twins = _find_reconstructions(others)
    reconstructions = {record.id for record in twins.values()}
    logged = _group_unmatched((first for first, *_ in same.values()), _log_key)
    matched = set[int]()
    for record in others:
        if record.id in reconstructions:
            continue
        match = _take_log_record(record, logged) if record.source == Source.RECONSTRUCTED.value else None
        if match is not None:
            matched.add(match.id)
            yield AttemptRecords(record.pod_uid, record, match, duplicates[match.id])
        else:
            yield AttemptRecords(record.pod_uid, record, None, (twins[record.id],) if record.id in twins else ())
    starts = [other.started_us for other in others]
    for first, *_ in same.values():
        if first.id not in matched:
            yield AttemptRecords(_infer_uid(first, others, starts), first, None, duplicates[first.id])


class _UnmatchedRecords:
    """Records in the order of their start, from which records can be taken; a place is an index in that order.

    The methods that search ignore records that were taken. Each call takes nearly constant time: a pod in a loop has
    ten thousand attempts within minutes.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._starts: list[int] = []
        self._next = [0]  # by place: itself if its record is not taken, otherwise a later place
        self._previous = [0]  # the same for place - 1, so that 0 stands for "none"

    def append(self, record: Record) -> None:
        """Add a record, which must not start before any record that was added earlier."""
        self._records.append(record)
        self._starts.append(record.started_us)
        self._next.append(len(self._records))
        self._previous.append(len(self._records))

    def last_until(self, at_us: int) -> int | None:
        """Return the place of the last untaken record that starts at `at_us` (microseconds) or before, or None."""
        place = _follow(self._previous, bisect_right(self._starts, at_us))
        return place - 1 if place else None

    def first_after(self, at_us: int) -> int | None:
        """Return the place of the first untaken record that starts after `at_us` (microseconds), or None."""
        place = _follow(self._next, bisect_right(self._starts, at_us))
        return place if place < len(self._records) else None

    def nearest(self, at_us: int) -> int | None:
        """Return the place of the untaken record whose start is nearest to `at_us`, or None if none is left.

        Of two equally near ones, the earlier is returned.
        """
        before, after = self.last_until(at_us), self.first_after(at_us)
        if before is None or (after is not None and self._starts[after] - at_us < at_us - self._starts[before]):
            return after
        return _follow(self._next, bisect_left(self._starts, self._starts[before]))

    def start(self, place: int) -> int:
        """Return the start of the record at a place, in microseconds."""
        return self._starts[place]

    def take(self, place: int) -> Record:
        """Return the record at a place, and hide it from later searches."""
        self._next[place], self._previous[place + 1] = place + 1, place
        return self._records[place]


def _follow(links: list[int], place: int) -> int:
    """Return the place where the chain of links from `place` ends (a place linked to itself), and shorten the chain."""
    end = place
    while links[end] != end:
        end = links[end]
    while links[place] != end:
        links[place], place = end, links[place]
    return end


def _group_unmatched(
    records: Iterable[Record], key: Callable[[Record], tuple[str | None, str | None]]
) -> dict[tuple[str | None, str | None], _UnmatchedRecords]:
    unmatched: dict[tuple[str | None, str | None], _UnmatchedRecords] = {}
    for record in records:
        unmatched.setdefault(key(record), _UnmatchedRecords()).append(record)
    return unmatched


def _find_reconstructions(records: Sequence[Record]) -> dict[int, Record]:
    """Return the observer's reconstructions of attempts that the scheduler itself recorded.

    The keys are the ids of the scheduler's records. A reconstruction matches the record of the same pod and node whose
    start is nearest, at most SKEW_US apart. A record matches one reconstruction, because the observer may miss an
    attempt but sees none twice.
    """
    reconstructions: dict[int, Record] = {}
    recorded = _group_unmatched((r for r in records if r.source == Source.SCHEDULER.value), _pod_key)
    for seen in (record for record in records if record.source == Source.RECONSTRUCTED.value):
        candidates = recorded.get(_pod_key(seen))
        place = candidates.nearest(seen.started_us) if candidates else None
        if candidates and place is not None and abs(candidates.start(place) - seen.started_us) <= SKEW_US:
            reconstructions[candidates.take(place).id] = seen
    return reconstructions


def _take_log_record(seen: Record, logged: Mapping[tuple[str | None, str | None], _UnmatchedRecords]) -> Record | None:
    """Take from `logged` the log's record of the attempt that the observer reconstructed as `seen`, or return None.

    A log record matches if it has the same node (or, where no node was chosen, the same message) and starts at most
    APART_US before `seen` or SKEW_US after it. Of several, the last one that starts before `seen` is preferred.
    """
    alike = logged.get(_log_key(seen))
    if alike is None:
        return None
    place = alike.last_until(seen.started_us)
    if place is None or alike.start(place) < seen.started_us - APART_US:
        place = alike.first_after(seen.started_us)
        if place is None or alike.start(place) > seen.started_us + SKEW_US:
            return None
    return alike.take(place)


def _pod_key(record: Record) -> tuple[str | None, str | None]:
    return record.pod_uid, record.node


def _log_key(record: Record) -> tuple[str | None, str | None]:
    return record.node, "" if record.node else record.message


def _infer_uid(record: Record, others: Sequence[Record], starts: Sequence[int]) -> str:
    """Return the pod's UID for an attempt that only the log recorded, without a UID.

    `others` are the pod name's records from other sources, and `starts` their starts. The UID is that of the next
    record among them. If there is none, it is that of the last one, unless that placed the pod; then `record.pod_uid`
    is returned.
    """
    following = bisect_left(starts, record.started_us)
    if following < len(others):
        return str(others[following].pod_uid)
    return str(others[-1].pod_uid if others and others[-1].node is None else record.pod_uid)


def _start_order(record: Record) -> tuple[int, int]:
    return record.started_us, record.id
