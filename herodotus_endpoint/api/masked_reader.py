"""Access to the store for routes: every answer covers one cluster and is masked for the reader of the request.

Owns: masking every value before a document is built. Does not own: what is hidden (`masking`), SQL (`store`).

Invariant: routes use this class, never the reader or the listing of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from herodotus_endpoint.access.masking import Value, VisibleNamespaces, VisibleRow, list_namespaces, mask, mask_row
from herodotus_endpoint.store import (
    ClusterTotals,
    IncarnationStatus,
    NodeDecision,
    NodeHistoryCounts,
    PodWait,
    Store,
    StoredAttempt,
)
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition, Listing, NodeCounts
from herodotus_record.attempts import AttemptRecords, group_by_attempt
from herodotus_record.reviews import ReviewedAttempt

FindVisible = Callable[
    [frozenset[str]], VisibleNamespaces
]  # of the namespaces that a value tells of, what this request's reader sees


class MaskedListing:
    """`Listing` for one reader and one cluster, with masked messages. The route has checked the right to the namespace.

    `within` holds the conditions that every shown row must meet. `list_after`, `list_unsettled` and `list_by_id` do not
    apply it; a watch does.
    """

    def __init__(self, listing: Listing, visible: VisibleNamespaces, cluster: str) -> None:
        self._listing = listing
        self._visible = visible
        self._cluster = cluster
        self.within: Sequence[AnyCondition] = (ColumnCondition("cluster", (cluster,)),) if cluster else ()

    def decisions(self, conditions: Sequence[AnyCondition], before: int | None, limit: int) -> list[VisibleRow]:
        return self._mask_rows(self._listing.decisions([*self.within, *conditions], before, limit))

    def list_after(self, after: int, limit: int) -> list[VisibleRow]:
        return self._mask_rows(self._listing.list_after(after, limit))

    def list_unsettled(self, after: int, upto: int, within_s: float) -> list[VisibleRow]:
        return self._mask_rows(self._listing.list_unsettled(after, upto, within_s))

    def list_by_id(self, ids: Collection[int]) -> list[VisibleRow]:
        return self._mask_rows(self._listing.list_by_id(ids))

    def id_range(self) -> tuple[int, int]:
        return self._listing.id_range()

    def nodes(self, after: str, limit: int, from_bucket: int) -> list[NodeCounts]:
        """Return the counts of nodes unmasked: they name no pod."""
        return self._listing.nodes(after, limit, from_bucket, self._cluster)

    def _mask_rows(self, rows: Iterable[Any]) -> list[VisibleRow]:
        return [mask_row(row, self._visible) for row in rows]


def group_rows_by_attempt(rows: Iterable[VisibleRow]) -> list[AttemptRecords]:
    """Return the attempts that the rows describe, ordered by start.

    Records are grouped by their unmasked messages: masking may make two equal messages differ.
    """
    visible = {row.id: row for row in rows}
    found = group_by_attempt(row.row for row in visible.values())
    return [replace(attempt, record=visible[attempt.record.id], logged=None, duplicates=()) for attempt in found]


class MaskedReader:
    """`Reader` of the store for the reader and the cluster of the current request; every value is masked."""

    def __init__(self, store: Store, find_visible: FindVisible, cluster: Callable[[], str]) -> None:
        """`cluster` returns the cluster of the current request, or "" if only one is possible."""
        self._reader = store.reader
        self._find_visible = find_visible
        self._cluster = cluster
        self._listing = store.listing

    def listing(self) -> MaskedListing:
        """Return the listing for the reader of this request; it stays valid after the request ends (watches)."""
        return MaskedListing(self._listing, self._find_visible(frozenset()), self._cluster())

    def decision_of_pod(
        self, namespace: str, pod: str, *, uid: str = "", attempt: int | None = None
    ) -> StoredAttempt | None:
        cluster = self._cluster()
        return self._mask(self._reader.decision_of_pod(namespace, pod, uid=uid, attempt=attempt, cluster=cluster))

    def decision_by_id(self, namespace: str, decision_id: str) -> StoredAttempt | None:
        return self._mask(self._reader.decision_by_id(namespace, decision_id, cluster=self._cluster()))

    def find_pod_waits(self, ids: Collection[int]) -> dict[int, PodWait]:
        """Return times of decisions that the reader has already listed."""
        return self._reader.find_pod_waits(ids)

    def has_records(self) -> bool:
        """Return whether the cluster has any record; this names no pod."""
        return self._reader.has_records(self._cluster())

    def similar_pods(self, namespace: str, pod: str) -> list[str]:
        """Return similar pod names in the namespace of the request."""
        return self._reader.similar_pods(namespace, pod, cluster=self._cluster())

    def other_namespaces(self, namespace: str, pod: str) -> list[str]:
        """Return the other namespaces with a pod of this name that the reader may see."""
        found = self._reader.other_namespaces(namespace, pod, cluster=self._cluster())
        visible = self._find_visible(frozenset(found))
        return [name for name in found if visible.sees(name)]

    def sum_node_history(self, node: str, *, from_bucket: int = 0) -> NodeHistoryCounts | None:
        return self._mask(self._reader.sum_node_history(node, cluster=self._cluster(), from_bucket=from_bucket))

    def sum_cluster_totals(self, *, from_bucket: int = 0) -> ClusterTotals:
        """Return sums over all nodes unmasked: they name no pod."""
        return self._reader.sum_cluster_totals(cluster=self._cluster(), from_bucket=from_bucket)

    def find_recent_decisions(self, node: str) -> list[NodeDecision]:
        found = (self._mask(involved) for involved in self._reader.find_recent_decisions(node, cluster=self._cluster()))
        return [involved for involved in found if involved is not None]

    def reviewed(self, attempt: ReviewedAttempt) -> ReviewedAttempt:
        """Mask an attempt of a review. A reader that may create reviews in a namespace sees that namespace."""
        visible = self._find_visible(list_namespaces(attempt))
        return mask(attempt, replace(visible, namespaces=visible.namespaces | {attempt.decision.pod.namespace}))

    def similar_nodes(self, node: str) -> list[str]:
        return self._reader.similar_nodes(node, cluster=self._cluster())

    def incarnations(self) -> list[IncarnationStatus]:
        """Return the known scheduler processes unmasked: they name no namespace."""
        return self._reader.incarnations(self._cluster())

    def _mask(self, value: Value | None) -> Value | None:
        return None if value is None else mask(value, self._find_visible(list_namespaces(value)))
