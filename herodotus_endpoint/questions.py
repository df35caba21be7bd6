"""What routes may ask of the store: every answer is masked for the reader of this request.

Owns: that nothing reaches a document unmasked. Does not own: what is hidden (`masking`), statements (`store`).

Invariant: routes have this and not the store's reader. Rows of lists tell of their own namespace alone, for which the
reader's right was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from herodotus_endpoint.masking import Sight, Value, masked, namespaces_in
from herodotus_endpoint.store import Involved, KnownIncarnation, NodeFacts, Share, Store, Stored, Wait
from herodotus_endpoint.store.listing import Listing
from herodotus_record.reviews import Reviewed

Look = Callable[[frozenset[str]], Sight]  # of the namespaces that a value tells of, what this request's reader sees


class Questions:
    """The store, as the reader of the current request may see it."""

    def __init__(self, store: Store, look: Look) -> None:
        self._reader = store.reader
        self._look = look
        self.listing: Listing = store.listing

    def decision_of_pod(
        self, namespace: str, pod: str, *, uid: str = "", attempt: int | None = None, cluster: str = ""
    ) -> Stored | None:
        """As `Reader.decision_of_pod`."""
        return self._seen(self._reader.decision_of_pod(namespace, pod, uid=uid, attempt=attempt, cluster=cluster))

    def decision_by_id(self, namespace: str, decision_id: str) -> Stored | None:
        """As `Reader.decision_by_id`."""
        return self._seen(self._reader.decision_by_id(namespace, decision_id))

    def waits(self, ids: Collection[int]) -> dict[int, Wait]:
        """As `Reader.waits`: times, of decisions that a list of the reader's own told of."""
        return self._reader.waits(ids)

    def any_records(self) -> bool:
        """As `Reader.any_records`: it names nobody."""
        return self._reader.any_records()

    def similar_pods(self, namespace: str, pod: str) -> list[str]:
        """As `Reader.similar_pods`: of the namespace that the request is about."""
        return self._reader.similar_pods(namespace, pod)

    def other_namespaces(self, namespace: str, pod: str) -> list[str]:
        """As `Reader.other_namespaces`, those alone that are seen."""
        found = self._reader.other_namespaces(namespace, pod)
        sight = self._look(frozenset(found))
        return [name for name in found if sight.sees(name)]

    def node_facts(self, node: str, *, cluster: str = "", from_bucket: int = 0) -> NodeFacts | None:
        """As `Reader.node_facts`."""
        return self._seen(self._reader.node_facts(node, cluster=cluster, from_bucket=from_bucket))

    def share(self, *, cluster: str = "", from_bucket: int = 0) -> Share:
        """As `Reader.share`: sums that name nobody."""
        return self._reader.share(cluster=cluster, from_bucket=from_bucket)

    def recent_of_node(self, node: str, *, cluster: str = "") -> list[Involved]:
        """As `Reader.recent_of_node`."""
        found = (self._seen(involved) for involved in self._reader.recent_of_node(node, cluster=cluster))
        return [involved for involved in found if involved is not None]

    def reviewed(self, attempt: Reviewed) -> Reviewed:
        """An attempt of a review, which is not of the store: who may ask in a namespace sees what is in it."""
        sight = self._look(namespaces_in(attempt))
        return masked(attempt, replace(sight, namespaces=sight.namespaces | {attempt.decision.pod.namespace}))

    def similar_nodes(self, node: str) -> list[str]:
        """As `Reader.similar_nodes`."""
        return self._reader.similar_nodes(node)

    def incarnations(self) -> list[KnownIncarnation]:
        """As `Reader.incarnations`: they tell of no namespace."""
        return self._reader.incarnations()

    def _seen(self, value: Value | None) -> Value | None:
        return None if value is None else masked(value, self._look(namespaces_in(value)))
