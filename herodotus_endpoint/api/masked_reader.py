"""Access to the store for routes: every answer covers one cluster and is masked for the reader of the request.

Owns: masking every value before a document is built. Does not own: what is hidden (`masking`), SQL (`store`).

Invariant: routes use this class, never the reader or the listing of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flask import g

from herodotus_answers.node import ClusterTotals, NodeDecision, NodeHistoryCounts
from herodotus_answers.placement_review import ReviewedAttempt
from herodotus_endpoint.access.masking import Value, VisibleNamespaces, VisibleRow, list_namespaces, mask, mask_row
from herodotus_endpoint.store import (
    IncarnationStatus,
    PodWait,
    Store,
    StoredAttempt,
)
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition, Listing, NodeCounts, RowCondition
from herodotus_endpoint.store.query_results import PodIdentity
from herodotus_endpoint.store.read_budget import check_budget
from herodotus_record.attempts import AttemptRecords, group_by_attempt

if TYPE_CHECKING:  # its packages are optional
    from herodotus_endpoint.archive.reader import ArchivePage, ArchiveReader

FindVisible = Callable[
    [frozenset[str]], VisibleNamespaces
]  # of the namespaces that a value names, those that this request's reader may see


class MaskedListing:
    """The store's `Listing` for one reader and one cluster, whose rows have masked messages.

    The route has already checked the reader's right to the namespace. `within` holds the conditions that limit rows to
    the cluster. `list_after`, `list_unsettled` and `list_settled` do not apply it, so their caller must.
    """

    def __init__(self, listing: Listing, visible: VisibleNamespaces, cluster: str) -> None:
        self._listing = listing
        self._visible = visible
        self._cluster = cluster
        self.within: Sequence[AnyCondition] = (ColumnCondition("cluster", (cluster,)),) if cluster else ()

    def decisions(self, conditions: Sequence[RowCondition], before: int | None, limit: int) -> list[VisibleRow]:
        return self._mask_rows(self._listing.decisions([*self.within, *conditions], before, limit))

    def list_after(self, after: int, limit: int) -> list[VisibleRow]:
        return self._mask_rows(self._listing.list_after(after, limit))

    def list_unsettled(self, after: int, upto: int, within_s: float) -> list[VisibleRow]:
        return self._mask_rows(self._listing.list_unsettled(after, upto, within_s))

    def list_settled(self, ids: Collection[int]) -> list[VisibleRow]:
        return self._mask_rows(self._listing.list_settled(ids))

    def id_range(self) -> tuple[int, int]:
        return self._listing.id_range()

    def nodes(self, after: str, limit: int, from_bucket: int, last_bucket: int) -> list[NodeCounts]:
        """Return at most `limit` nodes whose names sort after `after`, with their counts.

        The counts cover the hours from `from_bucket` to `last_bucket`, in hours since the epoch. Nothing is masked,
        because node counts name no pod.
        """
        return self._listing.nodes(after, limit, from_bucket, last_bucket, self._cluster)

    def _mask_rows(self, rows: Iterable[Any]) -> list[VisibleRow]:
        return [mask_row(row, self._visible) for row in rows]


def group_rows_by_attempt(rows: Iterable[VisibleRow]) -> list[AttemptRecords]:
    """Group rows of the table of decisions by scheduling attempt and return the attempts, ordered by start.

    Rows from two sources, such as an observer and a log, record one attempt if their messages are equal, among other
    things. Messages are compared before masking, because masking may make equal messages differ.
    """
    visible = {row.id: row for row in rows}
    attempts = group_by_attempt(row.row for row in visible.values())
    return [replace(attempt, record=visible[attempt.record.id], logged=None, duplicates=()) for attempt in attempts]


class MaskedReader:
    """The store's `Reader`, restricted to what the user who sent the current request may see.

    Every result covers the request's cluster only and has hidden names and texts masked.
    """

    def __init__(
        self,
        store: Store,
        find_visible: FindVisible,
        cluster: Callable[[], str],
        archive: ArchiveReader | None = None,
    ) -> None:
        """Create a reader over `store` and the archive of older decisions; the two functions describe the request.

        `find_visible` returns which of the given namespaces the user may see. `cluster` returns the ID of the request's
        cluster, or "" to read without a restriction. `archive` is None if there is none.
        """
        self._archive = archive
        self._reader = store.replica_reader
        self._find_visible = find_visible
        self._cluster = cluster
        self._listing = store.replica_listing
        self._watched_listing = store.watched_listing

    def sees(self, namespace: str) -> bool:
        """Return whether the user of the current request may see the decisions of a namespace."""
        return self._find_visible(frozenset({namespace})).sees(namespace)

    def listing(self) -> MaskedListing:
        """Return a listing of decisions for the user of the current request."""
        return MaskedListing(self._listing, self._find_visible(frozenset()), self._cluster())

    def watched_listing(self) -> MaskedListing:
        """Return a listing for a watch, masked as that of `listing`, which shares its reads with other watches.

        It never reads from a replica of the database: a watch continues where a list ended, which a replica may not
        have reached. It stays usable after the request's view has returned.
        """
        return MaskedListing(self._watched_listing, self._find_visible(frozenset()), self._cluster())

    def decision_of_pod(
        self, namespace: str, pod: str, *, uid: str = "", attempt: int | None = None
    ) -> StoredAttempt | None:
        return next(iter(self.decisions_of_pod(namespace, pod, uid=uid, attempt=attempt)), None)

    def decisions_of_pod(
        self, namespace: str, pod: str, *, uid: str = "", attempt: int | None = None, last: int = 1
    ) -> list[StoredAttempt]:
        """Return the `last` stored attempts of a pod that end with number `attempt`, ordered by start.

        Without `attempt`, the last one returned is the newest. The list is empty if that attempt is not stored.
        """
        attempts = self._reader.decisions_of_pod(
            PodIdentity(namespace, pod, self._cluster(), uid), attempt=attempt, last=last
        )
        return [stored for each in attempts if (stored := self._mask(each)) is not None]

    def decision_by_id(self, namespace: str, decision_id: str) -> StoredAttempt | None:
        return self._mask(self._reader.decision_by_id(namespace, decision_id, cluster=self._cluster()))

    def decisions_by_row(self, rows: Iterable[VisibleRow]) -> list[StoredAttempt | None]:
        """Return the attempts that rows of the table of decisions are about, None for one that is no longer stored."""
        ids = [(row.namespace, row.decision_id) for row in rows]
        return [self._mask(stored) for stored in self._reader.decisions_by_id(ids, cluster=self._cluster())]

    def newest_decision(self) -> StoredAttempt | None:
        """Return the attempt that was stored last, of any namespace, or None if there is none."""
        newest = self.decisions_by_row(self.listing().decisions([], None, 1))
        return newest[0] if newest else None

    def archived_decision_by_id(self, namespace: str, decision_id: str) -> StoredAttempt | None:
        """Return the archived attempt that the decision with this ID describes.

        Return None if the decision is not archived, or if the service has no archive.
        """
        if self._archive is None:
            return None
        stored = self._archive.decision_by_id(namespace, decision_id, cluster=self._archived_cluster())
        return self._mask(_note_archive(stored))

    def archived_decisions_of_pod(
        self, namespace: str, pod: str, *, uid: str = "", attempt: int | None = None, last: int = 1
    ) -> list[StoredAttempt]:
        """Return the `last` archived attempts of a pod that end with number `attempt`, ordered by start.

        Without `attempt`, the last one returned is the newest. The list is empty if the archive does not have that
        attempt, or if the service has no archive.
        """
        if self._archive is None:
            return []
        attempts = self._archive.decisions_of_pod(
            PodIdentity(namespace, pod, self._archived_cluster(), uid), attempt=attempt, last=last
        )
        return [stored for each in attempts if (stored := self._mask(_note_archive(each))) is not None]

    def list_archived(
        self, conditions: Sequence[AnyCondition], before: tuple[str, int] | None, limit: int
    ) -> ArchivePage | None:
        """Return a page of archived decisions with masked messages, newest first, or None if there is no archive.

        `before` is the position at which the page begins, as the previous page has it: a day and a row.
        """
        if self._archive is None:
            return None
        from herodotus_endpoint.archive.reader import ArchivePosition

        position = ArchivePosition(*before) if before else None
        page = self._archive.list_decisions(conditions, position, limit, cluster=self._archived_cluster())
        visible = self._find_visible(frozenset())
        g.archived = True
        return replace(page, rows=[mask_row(row, visible) for row in page.rows])

    def find_row(self, stored: StoredAttempt) -> VisibleRow:
        """Return the row of `stored`, an attempt that this reader has returned, with its message masked."""
        if not stored.archived:
            by_id = ColumnCondition("decision_id", (stored.decision.id,))
            (row,) = self.listing().decisions([by_id], None, 1)
            return row
        from herodotus_endpoint.archive.reader import build_archived_row

        row = build_archived_row(stored, 0, 0)
        return VisibleRow(row, row.message)

    def find_pod_waits(self, ids: Collection[int]) -> dict[int, PodWait]:
        """Return creation and retry times of pods, by the row ID of a decision about the pod.

        The caller has already listed these decisions for the user, so nothing is masked.
        """
        return self._reader.find_pod_waits(ids)

    def has_records(self) -> bool:
        """Return whether any scheduler of the request's cluster has ever sent records."""
        return self._reader.has_records(self._cluster())

    def similar_pods(self, namespace: str, pod: str) -> list[str]:
        """Return names of pods in `namespace` that resemble `pod`.

        The caller has already checked the right to the namespace.
        """
        return self._reader.similar_pods(namespace, pod, cluster=self._cluster())

    def similar_pod_groups(self, namespace: str, name: str) -> list[str]:
        """Return names of pod groups in `namespace` that resemble `name`.

        The caller has already checked the right to the namespace.
        """
        return self._reader.similar_pod_groups(namespace, name, cluster=self._cluster())

    def other_namespaces(self, namespace: str, pod: str) -> list[str]:
        """Return namespaces other than `namespace` that have decisions for a pod of this name.

        Only namespaces that the user may see are returned.
        """
        namespaces = self._reader.other_namespaces(namespace, pod, cluster=self._cluster())
        visible = self._find_visible(frozenset(namespaces))
        return [name for name in namespaces if visible.sees(name)]

    def sum_node_history(self, node: str, *, from_bucket: int = 0) -> NodeHistoryCounts | None:
        return self._mask(self._reader.sum_node_history(node, cluster=self._cluster(), from_bucket=from_bucket))

    def sum_cluster_totals(self, *, from_bucket: int = 0) -> ClusterTotals:
        """Return the placements on all nodes since the hour `from_bucket`, and the number of nodes.

        Nothing is masked, because the sums name no pod.
        """
        return self._reader.sum_cluster_totals(cluster=self._cluster(), from_bucket=from_bucket)

    def find_recent_decisions(self, node: str) -> list[NodeDecision]:
        decisions = (
            self._mask(involved) for involved in self._reader.find_recent_decisions(node, cluster=self._cluster())
        )
        return [involved for involved in decisions if involved is not None]

    def reviewed(self, attempt: ReviewedAttempt) -> ReviewedAttempt:
        """Return one attempt of a review without the names and texts that the user may not see.

        The pod's own namespace is visible, because the user has the right to create reviews in it.
        """
        visible = self._find_visible(list_namespaces(attempt))
        return mask(attempt, replace(visible, namespaces=visible.namespaces | {attempt.decision.pod.namespace}))

    def similar_nodes(self, node: str) -> list[str]:
        return self._reader.similar_nodes(node, cluster=self._cluster())

    def incarnations(self) -> list[IncarnationStatus]:
        """Return the state of the known scheduler processes (incarnations) of the request's cluster.

        Nothing is masked, because they name no namespace.
        """
        return self._reader.incarnations(self._cluster())

    def _archived_cluster(self) -> str:
        """Return the ID of the cluster to read from the archive: that of the request, if it has one.

        Otherwise it is the archive's only cluster, or "" if the archive has none or several.
        """
        cluster = self._cluster()
        clusters = self._archive.list_clusters() if self._archive and not cluster else []
        return clusters[0] if len(clusters) == 1 else cluster

    def _mask(self, value: Value | None) -> Value | None:
        check_budget()
        return None if value is None else mask(value, self._find_visible(list_namespaces(value)))


def _note_archive(stored: StoredAttempt | None) -> StoredAttempt | None:
    """Return `stored` unchanged. Unless it is None, the response to this request gets a header about the archive."""
    if stored is not None:
        g.archived = True
    return stored
