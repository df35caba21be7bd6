"""Which pods count on which node: confirmed by the API server, or assumed by us until it confirms.

Owns: the life of a pod in the columns. Does not own: the columns' arithmetic, pods that wait (`queue`).

                 assume                confirmed by the watch
    (unknown) ------------> assumed --------------------------> bound
        ^                      | forget (binding failed)          |
        |<---------------------+                                  |
        |<--------------------------------------------------------+  deleted, or finished

A pod that the watch shows bound without having been assumed (another scheduler's, or ours before a restart) goes
straight to bound. Changed by the loop's thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from scheduler.columns import NodeColumns, Snapshot
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node


class Cache:
    """Nodes and the pods on them."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        self._node_of: dict[str, str] = {}  # pod UID -> node name, assumed and bound
        self._assumed: set[str] = set()

    def snapshot(self) -> Snapshot:
        """The state as of now, valid until the next change."""
        return Snapshot.of(self.columns)

    def node(self, name: str) -> Node | None:
        """The node of that name, as last seen."""
        slot = self.columns.index.get(name)
        return None if slot is None else self.columns.nodes[slot]

    def node_names(self) -> Iterable[str]:
        """Every known node."""
        return [node.metadata.name for node in self.columns.nodes if node is not None]

    def set_node(self, node: Node) -> None:
        """A node appeared or changed."""
        self.columns.set_node(node)

    def refresh_node(self, node: Node) -> None:
        """A node changed in nothing but what extenders are sent and annotations."""
        self.columns.refresh_node(node)

    def remove_node(self, name: str) -> None:
        """A node went."""
        self.columns.remove_node(name)

    def pod(self, uid: str) -> PodInfo | None:
        """The pod as it counts, assumed or confirmed."""
        node_name = self._node_of.get(uid)
        return None if node_name is None else self.columns.pods[self.columns.index[node_name]][uid]

    def node_of(self, uid: str) -> str | None:
        """The node that the pod counts on, assumed or confirmed."""
        return self._node_of.get(uid)

    def assumed(self, uid: str) -> bool:
        """Whether the pod counts on a node that the API server has not confirmed yet."""
        return uid in self._assumed

    def bound(self, uid: str) -> bool:
        """Whether the pod counts on a node, assumed or confirmed."""
        return uid in self._node_of

    def pod_uids(self) -> Set[str]:
        """Every pod that the API server has confirmed on a node."""
        return self._node_of.keys() - self._assumed

    def assumed_uids(self) -> Set[str]:
        """Every pod that counts on a node and is not confirmed yet."""
        return frozenset(self._assumed)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count the pod on the node before it is bound. ValueError when it counts somewhere already."""
        if pod.uid in self._node_of:
            raise ValueError(f"pod {pod.full_name} already counts on node {self._node_of[pod.uid]}")
        self.columns.add_pod(pod, node_name)
        self._node_of[pod.uid] = node_name
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Stop counting an assumed pod. One that was confirmed in the meantime stays."""
        if uid in self._assumed:
            self.remove_pod(uid)

    def set_pod(self, pod: PodInfo) -> None:
        """The API server shows the pod on a node (spec.nodeName)."""
        node_name, counted_on = pod.pod.spec.node_name, self._node_of.get(pod.uid)
        self._assumed.discard(pod.uid)
        if counted_on == node_name:
            self.columns.replace_pod(pod, node_name)
            return
        if counted_on is not None:
            self.columns.remove_pod(pod.uid, counted_on)
        self.columns.add_pod(pod, node_name)
        self._node_of[pod.uid] = node_name

    def remove_pod(self, uid: str) -> bool:
        """The pod is gone or finished; whether it counted."""
        self._assumed.discard(uid)
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        self.columns.remove_pod(uid, node_name)
        return True
