"""What the reader hands out: values, detached from the database.

Owns: their shapes. Does not own: how they are found (`reader`), or how they read as documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from herodotus_endpoint.store.counters import CounterName
from herodotus_endpoint.store.sequences import Hole
from herodotus_record.merging import MergeOrigins
from herodotus_record.model import Decision, NodeTable, Outcome, Retry
from herodotus_record.placements import PlacementCount


@dataclass(frozen=True)
class StoredAttempt:
    """A decision with its outcomes and the node table that it saw."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    ordinal: int  # among those stored for this pod UID, by start: 1 to `attempts`
    attempts: int
    failed_before: int  # of those with a lower ordinal
    replaced: bool  # a later incarnation decides for its profile now
    origins: MergeOrigins | None = None  # where two records tell of the attempt


class PodWait(NamedTuple):
    """Since when a pod exists, and when it is tried again; None where it was placed, or its record does not say."""

    created_us: int
    retry: Retry | None


@dataclass(frozen=True)
class NodeHistoryCounts:
    """What the rollups hold of the nodes of one name."""

    counters: Counter[CounterName]
    workloads: Counter[str]
    decided: Mapping[
        str, Mapping[str, PlacementCount]
    ]  # by workload and reason, of placements whose reason was counted
    hours: Mapping[int, Sequence[int]]  # by bucket, the oldest first: the sums of `listing.COUNTED`


@dataclass(frozen=True)
class ClusterTotals:
    """What all nodes got together, and how many there were in the hour with the most."""

    placements: int
    nodes: int


@dataclass(frozen=True)
class IncarnationStatus:
    """A scheduler process and what arrived of its sequence. `holes`: the first of them."""

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
class TierSize:
    """The decisions of which as much is kept."""

    decisions: int
    bytes: int


@dataclass(frozen=True)
class StoreSizes:
    """How much is stored. `missing` and `lost`: sequences passed over, without and with an explanation.

    `tiers`: by what is kept of a decision, "full" or "summary".
    """

    rows: Mapping[str, int]
    missing: int
    lost: int
    live_bytes: int
    tiers: Mapping[str, TierSize]


@dataclass(frozen=True)
class NodeDecision:
    """A decision as one node saw it."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    slot: int
