"""Queries for one attempt, for the history of a node, and for what the store knows of schedulers.

Owns: the statements and their bounds. Does not own: lists of decisions and nodes (`listing`), documents
(`herodotus_answers.pod`, `histories`), HTTP.

Invariant: a call reads one snapshot. No statement reads more than a stated number of rows, except counts over an index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from herodotus_answers.node import ClusterTotals, CounterName, NodeDecision, NodeHistoryCounts
from herodotus_endpoint.store.attempts import AttemptLookup
from herodotus_endpoint.store.database import (
    Database,
    Snapshot,
    StoreUnavailableError,
    read_identity,
    verify_schema,
)
from herodotus_endpoint.store.integrity import intact_decisions
from herodotus_endpoint.store.listing import COUNTED
from herodotus_endpoint.store.node_rows import find_slot
from herodotus_endpoint.store.query_results import (
    AttemptOrigin,
    AttemptSeries,
    ClusterStatus,
    IncarnationStatus,
    PodIdentity,
    PodWait,
    StoredAttempt,
    StoreSizes,
)
from herodotus_endpoint.store.record_loader import RecordLoader, load_decision, load_outcomes
from herodotus_endpoint.store.rollups import NodeSums, part_of
from herodotus_endpoint.store.schema import (
    DECISIONS,
    GAPS,
    HOLES,
    INCARNATIONS,
    NODES,
    OUTCOMES,
    PROFILES,
    ROLLUPS,
    SUMMARY,
)
from herodotus_endpoint.store.sequences import Hole
from herodotus_endpoint.store.summaries import DecisionRecord
from herodotus_record.attempts import AttemptRecords
from herodotus_record.model import Decision, Outcome, Source

MAX_SIMILAR: Final = 3  # suggested names for an unknown name
MAX_CANDIDATES: Final = 2_000  # rows searched for suggestions: those with a common prefix, and the newest
RECENT: Final = 10  # decisions returned for a node
MAX_SEARCHED: Final = 50  # newest decisions searched for decisions of a node
NAMESPACES: Final = 10  # other namespaces returned for a pod name
INCARNATIONS_SHOWN: Final = 100  # newest first
CLUSTERS_NAMED: Final = 20  # clusters in the error message that asks for one
CLUSTERS_SHOWN: Final = 500  # those heard of last; the rights of each are checked
HOLES_SHOWN: Final = 20  # of each incarnation
_COUNTED: Final = [CounterName(counter) for counter in COUNTED]


class Reader:
    """Queries for attempts of pods, histories of nodes, and schedulers that sent records. Safe for concurrent use."""

    def __init__(self, database: Database, snapshot: Snapshot, records: RecordLoader, identity: str) -> None:
        """Create a reader. `snapshot` opens a connection that reads one snapshot.

        `identity` is the id of the database when it was opened, see `read_identity`.
        """
        self._database = database
        self._snapshot = snapshot
        self._records = records
        self.identity = identity

    def check_readable(self) -> None:
        """Raise StoreUnavailableError if the database cannot be read, was replaced, or lacks a table or a column."""
        with self._snapshot() as connection:
            verify_schema(connection)
            if read_identity(connection) != self.identity:
                raise StoreUnavailableError("it is another database than the one that was opened")

    def has_records(self, cluster: str = "") -> bool:
        """Return whether any scheduler has ever sent records; if `cluster` is given, a scheduler of this cluster."""
        any_incarnation = (
            sa.select(INCARNATIONS.c.id).where(*_cluster_condition(INCARNATIONS.c.cluster, cluster)).limit(1)
        )
        with self._snapshot() as connection:
            return connection.scalar(any_incarnation) is not None

    def list_cluster_ids(self) -> list[str]:
        """Return the ids of the clusters whose schedulers sent records, at most CLUSTERS_NAMED."""
        clusters = sa.select(INCARNATIONS.c.cluster).where(INCARNATIONS.c.cluster != "").distinct()
        with self._snapshot() as connection:
            return list(connection.scalars(clusters.order_by(INCARNATIONS.c.cluster).limit(CLUSTERS_NAMED)))

    def decisions_of_pod(self, pod: PodIdentity, *, attempt: int | None = None, last: int = 1) -> list[StoredAttempt]:
        """Return the `last` scheduling attempts of a pod that end with number `attempt`, ordered by start.

        By default the last one returned is the latest stored attempt. `attempt` is a position, from 1, among the stored
        attempts of one UID: the pod's, or that of the latest attempt. Equal attempts that share a record are one item.
        The scheduler's own attempt numbers are not used, because they begin anew with each scheduler process.
        The list is empty if that attempt is not stored.
        """
        with self._snapshot() as connection:
            same = AttemptLookup(connection).find_latest(pod)
            indexes = same.find_last(last, attempt)
            return [self._load_stored_attempt(connection, same, index) for index in indexes]

    def decision_by_id(self, namespace: str, decision_id: str, *, cluster: str = "") -> StoredAttempt | None:
        """Return the scheduling attempt that the decision with this id describes, or None if there is none.

        The pod must be in `namespace`, and in `cluster` if that is given.
        """
        return self.decisions_by_id([(namespace, decision_id)], cluster=cluster)[0]

    def decisions_by_id(self, wanted: Iterable[tuple[str, str]], *, cluster: str = "") -> list[StoredAttempt | None]:
        """Return the scheduling attempts as `decision_by_id` does, for pairs of a namespace and a decision id."""
        d = DECISIONS.c
        columns = [d.id, d.namespace, d.pod, d.cluster, d.started_us]
        loaded: list[StoredAttempt | None] = []
        with self._snapshot() as connection:
            attempts = AttemptLookup(connection)
            for namespace, decision_id in wanted:
                conditions = (
                    d.decision_id == decision_id,
                    d.namespace == namespace,
                    *_cluster_condition(d.cluster, cluster),
                )
                row = connection.execute(sa.select(*columns).where(*conditions).order_by(d.id).limit(1)).one_or_none()
                held = None if row is None else attempts.find_including(row)
                loaded.append(None if held is None else self._load_stored_attempt(connection, *held))
        return loaded

    def find_origin(self, incarnation: str, sequence: int) -> AttemptOrigin | None:
        """Return cluster, source and pod of the decision with this sequence number, or None if it is not stored."""
        d, i = DECISIONS.c, INCARNATIONS.c
        statement = (
            sa.select(d.cluster, d.source, d.namespace, d.pod, d.pod_uid)
            .join(INCARNATIONS, i.id == d.incarnation_id)
            .where(i.incarnation == incarnation, d.sequence == sequence)
        )
        with self._snapshot() as connection:
            row = connection.execute(statement.limit(1)).one_or_none()
        return None if row is None else AttemptOrigin(*row)

    def find_pod_waits(self, ids: Collection[int]) -> dict[int, PodWait]:
        """Return when the pods of some decisions were created and are tried again, by the decisions' row ids.

        `ids` are row ids of `decisions`. Node tables are not read, because they are most of the work of loading a
        decision.
        """
        statement = sa.select(DECISIONS).where(DECISIONS.c.id.in_(ids))
        with self._snapshot() as connection:
            rows = intact_decisions(connection.execute(statement))
            read = ((row.id, load_decision(connection, row)) for row in rows)
            return {row_id: PodWait(d.times.created_us, d.retry, d.restricted_to) for row_id, d in read}

    def similar_pods(self, namespace: str, pod: str, *, cluster: str = "") -> list[str]:
        """Return up to MAX_SIMILAR pod names of a namespace that are similar to `pod`.

        Names with a common prefix and the newest names are searched.
        """
        conditions = (DECISIONS.c.namespace == namespace, *_cluster_condition(DECISIONS.c.cluster, cluster))
        names = sa.select(DECISIONS.c.pod).where(*conditions)
        return self._similar(pod, names, DECISIONS.c.pod, DECISIONS.c.id)

    def similar_pod_groups(self, namespace: str, name: str, *, cluster: str = "") -> list[str]:
        """Return up to MAX_SIMILAR names of pod groups of a namespace that are similar to `name`."""
        conditions = (
            DECISIONS.c.namespace == namespace,
            DECISIONS.c.pod_group.is_not(None),
            *_cluster_condition(DECISIONS.c.cluster, cluster),
        )
        return self._similar(
            name, sa.select(DECISIONS.c.pod_group).where(*conditions), DECISIONS.c.pod_group, DECISIONS.c.id
        )

    def other_namespaces(self, namespace: str, pod: str, *, cluster: str = "") -> list[str]:
        """Return other namespaces with decisions for a pod of this name, at most NAMESPACES."""
        statement = (
            sa.select(DECISIONS.c.namespace)
            .where(
                DECISIONS.c.pod == pod,
                DECISIONS.c.namespace != namespace,
                *_cluster_condition(DECISIONS.c.cluster, cluster),
            )
            .distinct()
        )
        with self._snapshot() as connection:
            return list(connection.scalars(statement.order_by(DECISIONS.c.namespace).limit(NAMESPACES)))

    def sum_node_history(self, node: str, *, cluster: str = "", from_bucket: int = 0) -> NodeHistoryCounts | None:
        """Return the history of the nodes with this name since `from_bucket`, or None if no decision considered one.

        `from_bucket` is in hours since the epoch. If `cluster` is given, only nodes of this cluster count.
        """
        with self._snapshot() as connection:
            ids = [n.id for n in self._nodes(connection, node, cluster) if n.considered]
            if not ids:
                return None
            statement = sa.select(ROLLUPS.c.bucket, ROLLUPS.c.counters)
            parts = {*map(part_of, ids)}
            statement = statement.where(ROLLUPS.c.part.in_(parts), ROLLUPS.c.bucket >= from_bucket)
            if cluster:
                statement = statement.where(ROLLUPS.c.cluster == cluster)
            sums = NodeSums(ids, _COUNTED)
            # not ordered by the database: it would move all the blobs for it
            for bucket, blob in sorted(connection.execute(statement), key=itemgetter(0)):
                sums.add(bucket, blob)
        return NodeHistoryCounts(sums.counters(), sums.workloads, sums.decided, sums.buckets)

    def sum_cluster_totals(self, *, cluster: str = "", from_bucket: int = 0) -> ClusterTotals:
        """Return the placements on all nodes since `from_bucket`, and the largest number of nodes in an hour.

        `from_bucket` is in hours since the epoch. If `cluster` is given, only this cluster counts.
        """
        r = ROLLUPS.c
        sums = sa.select(r.bucket, r.cluster, sa.func.sum(r.chosen), sa.func.sum(r.nodes))
        sums = sums.where(r.bucket >= from_bucket).group_by(r.bucket, r.cluster, r.profile)
        if cluster:
            sums = sums.where(r.cluster == cluster)
        placements, in_cluster, in_hour = 0, Counter[tuple[int, str]](), Counter[int]()
        with self._snapshot() as connection:
            for bucket, of, chosen, nodes in connection.execute(sums):
                placements += int(chosen)
                in_cluster[bucket, of] = max(
                    in_cluster[bucket, of], int(nodes)
                )  # profiles of a cluster share its nodes
        for (bucket, _), nodes in in_cluster.items():
            in_hour[bucket] += nodes
        return ClusterTotals(placements, max(in_hour.values(), default=0))

    def find_recent_decisions(self, node: str, *, cluster: str = "") -> list[NodeDecision]:
        """Return the latest decisions whose node table contains the node, newest first, at most RECENT.

        Only the newest MAX_SEARCHED full records are searched.
        """
        decisions: list[NodeDecision] = []
        with self._snapshot() as connection:
            nodes = self._nodes(connection, node, cluster)
            clusters = sorted({n.cluster for n in nodes})
            statement = sa.select(DECISIONS).where(DECISIONS.c.cluster.in_(clusters), DECISIONS.c.tier != SUMMARY)
            newest = connection.execute(statement.order_by(DECISIONS.c.id.desc()).limit(MAX_SEARCHED))
            attempts = AttemptLookup(connection)
            for row in intact_decisions(newest):
                slots = (find_slot(connection, row.incarnation_id, row.generation, n.id) for n in nodes)
                slot = next((s for s in slots if s is not None), None)
                loaded = None if slot is None else self._load_if_main_record(connection, attempts, row)
                if slot is not None and loaded is not None and slot < loaded[0].slots:
                    decisions.append(NodeDecision(*loaded, slot))
                if len(decisions) == RECENT:
                    break
        return decisions

    def _load_if_main_record(
        self, connection: sa.Connection, attempts: AttemptLookup, row: sa.Row[Any]
    ) -> tuple[Decision, tuple[Outcome, ...]] | None:
        """Return the decision and outcomes of a row, or None if another record of its attempt is more detailed."""
        if row.source == Source.SCHEDULER.value:
            return load_decision(connection, row), load_outcomes(connection, row)
        same, index = attempts.find_including(row)
        attempt = same[index]
        if attempt.record.id != row.id:
            return None
        _, records = self._load_records(connection, attempt)
        merged = StoredAttempt.from_records(records, AttemptSeries([attempt]), 0)
        return merged.decision, merged.outcomes

    def similar_nodes(self, node: str, *, cluster: str = "") -> list[str]:
        """Return up to MAX_SIMILAR names that are similar to `node`, of nodes that decisions considered."""
        names = sa.select(NODES.c.name).where(NODES.c.considered, *_cluster_condition(NODES.c.cluster, cluster))
        return self._similar(node, names, NODES.c.name, NODES.c.id)

    def measure_sizes(self) -> StoreSizes:
        """Return the numbers of rows and of missing sequence numbers and the bytes in use, for metrics."""
        counts = {t.name: sa.select(sa.func.count()).select_from(t) for t in (DECISIONS, OUTCOMES, GAPS, ROLLUPS)}
        lengths = sa.func.coalesce(sa.func.sum(HOLES.c.last - HOLES.c.first + 1), 0)
        with self._snapshot() as connection:
            return StoreSizes(
                {name: connection.scalar(count) or 0 for name, count in counts.items()},
                connection.scalar(sa.select(lengths).where(~HOLES.c.explained, ~HOLES.c.left_out)) or 0,
                connection.scalar(sa.select(lengths).where(HOLES.c.explained)) or 0,
                self._database.live_bytes(connection),
                self._database.measure_tiers(connection),
            )

    def incarnations(self, cluster: str = "") -> list[IncarnationStatus]:
        """Return the newest runs of scheduler processes with their status, newest first, at most INCARNATIONS_SHOWN.

        If `cluster` is given, only runs of this cluster are returned, and those whose cluster is not known yet.
        """
        of_it = (INCARNATIONS.c.cluster.in_((cluster, "")),) if cluster else ()
        statement = sa.select(INCARNATIONS).where(*of_it).order_by(INCARNATIONS.c.id.desc()).limit(INCARNATIONS_SHOWN)
        with self._snapshot() as connection:
            return [self._load_incarnation(connection, row) for row in connection.execute(statement)]

    def list_clusters(self, cluster: str = "") -> list[ClusterStatus]:
        """Return the clusters whose schedulers sent records, sorted by ID, at most CLUSTERS_SHOWN.

        If `cluster` is given, only this one is returned.
        """
        row, hole = INCARNATIONS.c, HOLES.c
        named = [row.cluster != "", *_cluster_condition(row.cluster, cluster)]
        last_us = sa.func.max(row.last_us)
        statement = sa.select(row.cluster, last_us, sa.func.count()).where(*named).group_by(row.cluster)
        profiles = sa.select(row.cluster, PROFILES.c.profile).where(*named).distinct()
        lost = sa.select(row.cluster, hole.explained, sa.func.sum(hole.last - hole.first + 1)).where(*named)
        lost = lost.join(HOLES, hole.incarnation_id == row.id).where(~hole.left_out)
        names: dict[str, list[str]] = {}
        with self._snapshot() as connection:
            rows = connection.execute(statement.order_by(last_us.desc()).limit(CLUSTERS_SHOWN)).all()
            for id, profile in connection.execute(profiles.join(PROFILES, PROFILES.c.incarnation_id == row.id)):
                names.setdefault(id, []).append(profile)
            lost_of = {
                (id, bool(explained)): int(records)
                for id, explained, records in connection.execute(lost.group_by(row.cluster, hole.explained))
            }
        return [
            ClusterStatus(
                id,
                seen_us,
                incarnations,
                tuple(sorted(names.get(id, ()))),
                lost_of.get((id, False), 0),
                lost_of.get((id, True), 0),
            )
            for id, seen_us, incarnations in sorted(map(tuple, rows))
        ]

    def _load_incarnation(self, connection: sa.Connection, row: sa.Row[Any]) -> IncarnationStatus:
        of_it = sa.select(HOLES).where(HOLES.c.incarnation_id == row.id, ~HOLES.c.left_out).order_by(HOLES.c.first)
        holes = [Hole(h.first, h.last, h.explained) for h in connection.execute(of_it)]
        profiles = sa.select(PROFILES.c.profile).where(PROFILES.c.incarnation_id == row.id)
        return IncarnationStatus(
            row.incarnation,
            row.cluster,
            row.identity,
            tuple(connection.scalars(profiles.order_by(PROFILES.c.profile))),
            row.first_us,
            row.last_us,
            row.rows_generation,
            row.highest,
            sum(len(h) for h in holes if not h.explained),
            sum(len(h) for h in holes if h.explained),
            tuple(holes[:HOLES_SHOWN]),
            len(holes[HOLES_SHOWN:]),
        )

    def _similar(self, name: str, names: sa.Select[str], column: sa.Column[str], age: sa.Column[int]) -> list[str]:
        """Return up to MAX_SIMILAR names that are similar to `name`; those that begin with `name` come first.

        The query `names` selects `column` of the candidates. `age` is a column with higher values for newer rows.
        """
        same_prefix = names.where(column >= name[:3], column < name[:3] + "\U0010ffff")
        with self._snapshot() as connection:
            candidates = set(connection.scalars(same_prefix.limit(MAX_CANDIDATES)))
            candidates |= set(connection.scalars(names.order_by(age.desc()).limit(MAX_CANDIDATES)))
        begins = sorted(n for n in candidates if n.startswith(name))[:MAX_SIMILAR]
        close = get_close_matches(name, sorted(candidates - set(begins)), n=MAX_SIMILAR, cutoff=0.5)
        return [*begins, *close][:MAX_SIMILAR]

    def _nodes(self, connection: sa.Connection, node: str, cluster: str) -> list[sa.Row[Any]]:
        statement = sa.select(NODES).where(NODES.c.name == node)
        if cluster:
            statement = statement.where(NODES.c.cluster == cluster)
        return list(connection.execute(statement))

    def _load_stored_attempt(self, connection: sa.Connection, same: AttemptSeries, index: int) -> StoredAttempt:
        """Load the attempt at `index` of `same`, which holds all attempts of one pod, ordered by start."""
        row, records = self._load_records(connection, same[index])
        return StoredAttempt.from_records(records, same, index, replaced=self._is_replaced(connection, row))

    def _load_records(
        self, connection: sa.Connection, attempt: AttemptRecords
    ) -> tuple[sa.Row[Any], list[DecisionRecord]]:
        """Return the row of an attempt's most detailed record, and the attempt's one or two records, that one first."""
        statement = sa.select(DECISIONS).where(DECISIONS.c.id.in_(attempt.ids_by_detail))
        rows = {row.id: row for row in connection.execute(statement)}
        by_detail = [rows[id_] for id_ in attempt.ids_by_detail]
        return by_detail[0], [self._records.load(connection, row) for row in by_detail]

    def _is_replaced(self, connection: sa.Connection, row: sa.Row[Any]) -> bool:
        """Return whether a later scheduler process has made decisions for the profile and cluster of this row."""
        later = (
            sa.select(PROFILES.c.incarnation_id)
            .join(INCARNATIONS, INCARNATIONS.c.id == PROFILES.c.incarnation_id)
            .where(
                INCARNATIONS.c.cluster == row.cluster,
                PROFILES.c.profile == row.profile,
                PROFILES.c.incarnation_id > row.incarnation_id,
                PROFILES.c.first_us > row.started_us,
            )
        )
        return connection.scalar(later.limit(1)) is not None


def _cluster_condition(column: sa.Column[str], cluster: str) -> Sequence[sa.ColumnElement[bool]]:
    """Return a tuple with the SQL condition that `column` equals `cluster`, or an empty tuple if `cluster` is empty."""
    return (column == cluster,) if cluster else ()
