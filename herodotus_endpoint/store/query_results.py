"""The values that the reader returns, detached from the database.

Owns: their fields. Does not own: queries (`reader`), documents.
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
    """One attempt of a pod: its decision with outcomes, its node table, and its position among the pod's attempts."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    ordinal: int  # position among the stored attempts of this pod UID by start, 1 to `attempts`
    attempts: int
    failed_before: int  # unsuccessful attempts with a lower ordinal
    replaced: bool  # whether a later incarnation has taken over its profile
    origins: MergeOrigins | None = None  # if two records of the attempt were merged


class PodWait(NamedTuple):
    """When a pod was created and when its next attempt is due, as far as the record has it."""

    created_us: int
    retry: Retry | None


@dataclass(frozen=True)
class NodeHistoryCounts:
    """The counters of the nodes with one name, summed over hours."""

    counters: Counter[CounterName]
    workloads: Counter[str]
    decided: Mapping[str, Mapping[str, PlacementCount]]  # placements by workload and deciding factor
    hours: Mapping[int, Sequence[int]]  # by bucket, oldest first: the sums of `listing.COUNTED`


@dataclass(frozen=True)
class ClusterTotals:
    """The placements on all nodes, and the number of nodes in the hour with the most nodes."""

    placements: int
    nodes: int


@dataclass(frozen=True)
class IncarnationStatus:
    """A scheduler process and the state of its sequence numbers. `holes` has the first HOLES_SHOWN of its holes."""

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
    """The number of decisions in a tier and their bytes."""

    decisions: int
    bytes: int


@dataclass(frozen=True)
class StoreSizes:
    """The size of the database.

    `rows` is by table, `tiers` by "full" and "summary". `missing` and `lost` count sequences that did not arrive,
    without and with an explanation.
    """

    rows: Mapping[str, int]
    missing: int
    lost: int
    live_bytes: int
    tiers: Mapping[str, TierSize]


@dataclass(frozen=True)
class NodeDecision:
    """A decision that considered a certain node, which is in `slot`."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    slot: int
