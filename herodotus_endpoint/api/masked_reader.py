"""Access to the store for routes: every answer covers one cluster and is masked for the reader of the request.

Owns: masking every value before a document is built. Does not own: what is hidden (`masking`), SQL (`store`).

Invariant: routes use this class, never the reader or the listing of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from herodotus_endpoint.access.masking import Value, VisibleNamespaces, VisibleRow, list_namespaces, mask, mask_row
from herodotus_endpoint.store import Involved, KnownIncarnation, NodeFacts, Share, Store, Stored, Wait
from herodotus_endpoint.store.listing import AnyCondition, Condition, Listing, NodeCounts
from herodotus_record.attempts import AttemptRecords, group_by_attempt
from herodotus_record.reviews import ReviewedAttempt

FindVisible = Callable[
    [frozenset[str]], VisibleNamespaces
]  # of the namespaces that a value tells of, what this request's reader sees


class MaskedListing:
    """`Listing` for one reader and one cluster, with masked messages. The route has checked the right to the namespace.

    `within` holds the conditions that every shown row must meet. `following`, `settling` and `of_ids` do not apply it;
    a watch does.
    """

    def __init__(self, listing: Listing, visible: VisibleNamespaces, cluster: str) -> None:
        self._listing = listing
        self._visible = visible
        self._cluster = cluster
        self.within: Sequence[AnyCondition] = (Condition("cluster", (cluster,)),) if cluster else ()

    def decisions(self, conditions: Sequence[AnyCondition], before: int | None, limit: int) -> list[VisibleRow]:
        return self._mask_rows(self._listing.decisions([*self.within, *conditions], before, limit))

    def following(self, after: int, limit: int) -> list[VisibleRow]:
        return self._mask_rows(self._listing.following(after, limit))

    def settling(self, after: int, upto: int, within_s: float) -> list[VisibleRow]:
        return self._mask_rows(self._listing.settling(after, upto, within_s))

    def of_ids(self, ids: Collection[int]) -> list[VisibleRow]:
        return self._mask_rows(self._listing.of_ids(ids))

    def bounds(self) -> tuple[int, int]:
        return self._listing.bounds()

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

    def decision_of_pod(self, namespace: str, pod: str, *, uid: str = "", attempt: int | None = None) -> Stored | None:
        cluster = self._cluster()
        return self._mask(self._reader.decision_of_pod(namespace, pod, uid=uid, attempt=attempt, cluster=cluster))

    def decision_by_id(self, namespace: str, decision_id: str) -> Stored | None:
        return self._mask(self._reader.decision_by_id(namespace, decision_id, cluster=self._cluster()))

    def waits(self, ids: Collection[int]) -> dict[int, Wait]:
        """Return times of decisions that the reader has already listed."""
        return self._reader.waits(ids)

    def any_records(self) -> bool:
        """Return whether the cluster has any record; this names no pod."""
        return self._reader.any_records(self._cluster())

    def similar_pods(self, namespace: str, pod: str) -> list[str]:
        """Return similar pod names in the namespace of the request."""
        return self._reader.similar_pods(namespace, pod, cluster=self._cluster())

    def other_namespaces(self, namespace: str, pod: str) -> list[str]:
        """Return the other namespaces with a pod of this name that the reader may see."""
        found = self._reader.other_namespaces(namespace, pod, cluster=self._cluster())
        visible = self._find_visible(frozenset(found))
        return [name for name in found if visible.sees(name)]

    def node_facts(self, node: str, *, from_bucket: int = 0) -> NodeFacts | None:
        return self._mask(self._reader.node_facts(node, cluster=self._cluster(), from_bucket=from_bucket))

    def share(self, *, from_bucket: int = 0) -> Share:
        """Return sums over all nodes unmasked: they name no pod."""
        return self._reader.share(cluster=self._cluster(), from_bucket=from_bucket)

    def recent_of_node(self, node: str) -> list[Involved]:
        found = (self._mask(involved) for involved in self._reader.recent_of_node(node, cluster=self._cluster()))
        return [involved for involved in found if involved is not None]

    def reviewed(self, attempt: ReviewedAttempt) -> ReviewedAttempt:
        """Mask an attempt of a review. A reader that may create reviews in a namespace sees that namespace."""
        visible = self._find_visible(list_namespaces(attempt))
        return mask(attempt, replace(visible, namespaces=visible.namespaces | {attempt.decision.pod.namespace}))

    def similar_nodes(self, node: str) -> list[str]:
        return self._reader.similar_nodes(node, cluster=self._cluster())

    def incarnations(self) -> list[KnownIncarnation]:
        """Return the known scheduler processes unmasked: they name no namespace."""
        return self._reader.incarnations(self._cluster())

    def _mask(self, value: Value | None) -> Value | None:
        return None if value is None else mask(value, self._find_visible(list_namespaces(value)))
