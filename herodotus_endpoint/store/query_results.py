"""The values that the reader returns, detached from the database.

Owns: their fields. Does not own: queries (`reader`), documents.
"""

from __future__ import annotations

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
    """All stored attempts of one pod UID, ordered by start.

    `repeated` is how many more attempts are only counted, on those that they repeat.
    """

    def __init__(self, attempts: Iterable[AttemptRecords]) -> None:
        self._attempts = list(attempts)
        repeats = [getattr(each.record, "repeats", 0) for each in self._attempts]  # archived rows do not have it
        failed = (each.record.state in UNSUCCESSFUL for each in self._attempts)
        self._failed = list(accumulate(map(int.__add__, map(int, failed), repeats), initial=0))
        self.repeated = sum(repeats)

    def __len__(self) -> int:
        return len(self._attempts)

    def __getitem__(self, index: Any) -> Any:
        return self._attempts[index]

    def failed_before(self, ordinal: int) -> int:
        """Return how many attempts before number `ordinal`, counted from 1, were unsuccessful.

        Attempts that are only counted, as repeats of another, are included.
        """
        return self._failed[ordinal - 1]


@dataclass(frozen=True)
class StoredAttempt:
    """One attempt of a pod: its decision with outcomes, its node table, and its position among the pod's attempts."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    ordinal: int  # position among the stored attempts of this pod UID by start, 1 to `attempts`
    attempts: int
    failed_before: int  # unsuccessful attempts with a lower ordinal, and their repeats
    replaced: bool  # whether a later incarnation has taken over its profile
    origins: MergeOrigins | None = None  # if two records of the attempt were merged
    archived: str = ""  # the day of the archive that it was read from, such as 2026-03-01; "" for the database
    repeated: int = 0  # attempts of the pod that are only counted, on those that they repeat

    @classmethod
    def from_records(
        cls,
        records: Sequence[RecordedDecision],
        same: AttemptSeries,
        ordinal: int,
        *,
        replaced: bool = False,
        archived: str = "",
    ) -> StoredAttempt:
        """Return attempt number `ordinal`, counted from 1, of a pod from its records; two records are merged.

        `same` holds all attempts of the pod. `records` are those of `same[ordinal - 1]`, in the order of
        `AttemptRecords.ids_by_detail`. `replaced` and `archived` are the fields of the result.
        """
        first, *beside = records
        failed_before = same.failed_before(ordinal)
        if beside:
            both = merge_records(first, beside[0])
            decision, outcomes, table, origins = both.decision, both.outcomes, both.table, both.origins
        else:
            decision, origins = set_pod_uid(first.decision, same[ordinal - 1].uid), None
            outcomes, table = tuple(first.outcomes), first.table
        place = (ordinal, len(same), failed_before)
        return cls(decision, outcomes, table, *place, replaced, origins, archived, same.repeated)


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
