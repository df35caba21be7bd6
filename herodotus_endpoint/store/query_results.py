"""The values that the reader returns, detached from the database.

Owns: their fields. Does not own: queries (`reader`), documents.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from herodotus_answers.changes import RecordedDecision
from herodotus_answers.merging import MergeOrigins, merge_records, set_pod_uid
from herodotus_endpoint.store.schema import UNSUCCESSFUL
from herodotus_endpoint.store.sequences import Hole
from herodotus_record.attempts import AttemptRecords
from herodotus_record.model import Decision, NodeTable, Outcome, Retry


class AttemptSeries(Sequence[AttemptRecords]):
    """The records of all stored attempts of one pod UID, ordered by start.

    An attempt that equals the one before it may have no record of its own, but is counted on that record. Attempts are
    numbered from 1 with these: a record stands for the attempts `first_ordinal` to `last_ordinal`. Rows of the archive
    have no such counts: there each record is one attempt.
    """

    def __init__(self, attempts: Iterable[AttemptRecords]) -> None:
        self._attempts = list(attempts)
        repeats = [getattr(each.record, "repeats", 0) for each in self._attempts]  # archived rows do not have it
        failed = (each.record.state in UNSUCCESSFUL for each in self._attempts)
        self._failed = list(accumulate(map(int.__add__, map(int, failed), repeats), initial=0))
        self._lasts = list(accumulate(1 + more for more in repeats))

    def __len__(self) -> int:
        return len(self._attempts)

    def __getitem__(self, index: Any) -> Any:
        return self._attempts[index]

    def find_last(self, last: int, ordinal: int | None = None) -> range:
        """Return the indexes of `last` records, which end with the one that stands for attempt number `ordinal`.

        Without `ordinal` they end with the newest record. The range is empty if there is no such attempt.
        """
        number = self.count_attempts() if ordinal is None else ordinal
        end = bisect_left(self._lasts, number) + 1 if 0 < number <= self.count_attempts() else 0
        return range(max(0, end - last), end)

    def first_ordinal(self, index: int) -> int:
        """Return the number of the first attempt that the record at `index` stands for."""
        return self._lasts[index - 1] + 1 if index else 1

    def last_ordinal(self, index: int) -> int:
        """Return the number of the last attempt that the record at `index` stands for."""
        return self._lasts[index]

    def count_attempts(self) -> int:
        """Return the number of attempts, which is that of the last one."""
        return self._lasts[-1] if self._lasts else 0

    def failed_before(self, index: int) -> int:
        """Return how many attempts before those of the record at `index` were unsuccessful."""
        return self._failed[index]


@dataclass(frozen=True)
class StoredAttempt:
    """A record of a pod's attempt: its decision with outcomes, its node table, and the attempts that it stands for."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    ordinal: int  # number of the first of them among the stored attempts of this pod UID by start, 1 to `attempts`
    last_ordinal: int  # number of the last of them; greater than `ordinal` if equal attempts are counted on the record
    attempts: int
    failed_before: int  # unsuccessful attempts with a lower number than `ordinal`
    replaced: bool  # whether a later incarnation has taken over its profile
    origins: MergeOrigins | None = None  # if two records of the attempt were merged
    archived: str = ""  # the day of the archive that it was read from, such as 2026-03-01; "" for the database

    @classmethod
    def from_records(
        cls,
        records: Sequence[RecordedDecision],
        same: AttemptSeries,
        index: int,
        *,
        replaced: bool = False,
        archived: str = "",
    ) -> StoredAttempt:
        """Return the attempt at `index` of `same`, all attempts of a pod, from its records; two records are merged.

        `records` are those of `same[index]`, in the order of
        `AttemptRecords.ids_by_detail`. `replaced` and `archived` are the fields of the result.
        """
        first, *beside = records
        if beside:
            both = merge_records(first, beside[0])
            decision, outcomes, table, origins = both.decision, both.outcomes, both.table, both.origins
        else:
            decision, origins = set_pod_uid(first.decision, same[index].uid), None
            outcomes, table = tuple(first.outcomes), first.table
        ordinals = same.first_ordinal(index), same.last_ordinal(index), same.count_attempts()
        return cls(decision, outcomes, table, *ordinals, same.failed_before(index), replaced, origins, archived)


class PodIdentity(NamedTuple):
    """Identifies a pod by namespace and name; without `uid`, the latest pod of that name, without `cluster`, of any."""

    namespace: str
    name: str
    cluster: str = ""
    uid: str = ""


class AttemptOrigin(NamedTuple):
    """Which pod of which cluster a decision is about, and the origin of its record (a value of `Source`)."""

    cluster: str
    source: str
    namespace: str
    pod: str
    pod_uid: str


class PodWait(NamedTuple):
    """When a pod was created, in microseconds since the epoch, and when its next attempt is due.

    `retry` is None if the record does not say when. `restricted_to` names the only nodes that the pod may use, if they
    are few.
    """

    created_us: int
    retry: Retry | None
    restricted_to: tuple[str, ...] = ()


@dataclass(frozen=True)
class IncarnationStatus:
    """One run of a scheduler process, and which of its sequence numbers have not arrived.

    `explained` counts those that a Gap frame stated as lost, `missing` the others. `holes` has the first HOLES_SHOWN
    ranges of such numbers; `holes_omitted` is the number of further ranges.
    """

    incarnation: str
    cluster: str
    identity: str
    profiles: tuple[str, ...]
    first_us: int
    last_us: int
    rows_generation: int
    highest: int
    missing: int
    explained: int
    holes: tuple[Hole, ...]
    holes_omitted: int


@dataclass(frozen=True)
class ClusterStatus:
    """The runs of scheduler processes of one cluster together: how many, for which profiles, and what is missing.

    `cluster` is the cluster's ID, `last_us` the arrival of its latest record. `missing` and `explained` count records
    as `IncarnationStatus` does.
    """

    cluster: str
    last_us: int
    incarnations: int
    profiles: tuple[str, ...]
    missing: int
    explained: int


@dataclass(frozen=True)
class TierSize:
    """The number of decisions in a tier of retention, and the bytes that they use."""

    decisions: int
    bytes: int


@dataclass(frozen=True)
class StoreSizes:
    """The size of the database, for metrics.

    `rows` has the number of rows by table, `tiers` the size of the tiers "full" and "summary". `lost` counts sequence
    numbers that did not arrive and that a Gap frame stated as lost; `missing` counts those without such a statement.
    """

    rows: Mapping[str, int]
    missing: int
    lost: int
    live_bytes: int
    tiers: Mapping[str, TierSize]
