"""The cluster cache: nodes, and the pods on them, confirmed by the API server or assumed until it confirms.

Owns: the state of a pod, assumed or bound. Does not own: the columns' arithmetic, waiting pods (`queue`).

                 assume                confirmed by the watch
    (unknown) ------------> assumed --------------------------> bound
        ^                      | forget (binding failed)          |
        |<---------------------+                                  |
        |<--------------------------------------------------------+  deleted, or finished

A pod that the watch shows bound and that was not assumed (bound by another scheduler, or before a restart) becomes
bound directly. Only the loop's thread changes the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node


class Cache:
    """The cluster cache: all nodes, and the pods on them, whether bound or only assumed."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        self._node_of: dict[str, str] = {}  # pod UID -> node name, assumed and bound
        self._assumed: set[str] = set()

    def snapshot(self, placement: NDArray[np.bool_] | None = None) -> Snapshot:
        """Return a snapshot of all nodes and their pods, which raises an error when it is read after the next change.

        If `placement`, a mask with one entry per node slot, is given, a cycle on the snapshot may choose only nodes in
        the mask.
        """
        return Snapshot.from_columns(self.columns, placement)

    def node(self, name: str) -> Node | None:
        """Return the Node object; None if the node is unknown."""
        slot = self.columns.index.get(name)
        return None if slot is None else self.columns.nodes[slot]

    def node_names(self) -> Iterable[str]:
        """Return the names of all nodes."""
        return [node.metadata.name for node in self.columns.nodes if node is not None]

    def set_node(self, node: Node) -> None:
        """Add or update a node."""
        self.columns.set_node(node)

    def refresh_node(self, node: Node) -> None:
        """Replace a Node object whose changes are limited to annotations and to fields that no plugin reads."""
        self.columns.refresh_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay in the cache until they are removed themselves."""
        self.columns.remove_node(name)

    def pod(self, uid: str) -> PodInfo | None:
        """Return the pod with this UID, assumed or bound, or None if it is on no node."""
        node_name = self._node_of.get(uid)
        return None if node_name is None else self.columns.pods[self.columns.index[node_name]][uid]

    def node_of(self, uid: str) -> str | None:
        """Return the name of the node that the pod is bound to or assumed on, or None if there is none."""
        return self._node_of.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Return whether the pod is assumed on a node and the API server has not confirmed the binding yet."""
        return uid in self._assumed

    def is_counted(self, uid: str) -> bool:
        """Return whether the cache counts the pod on a node, because it is assumed there or bound to it."""
        return uid in self._node_of

    def pod_uids(self) -> Set[str]:
        """Return the UIDs of bound pods."""
        return self._node_of.keys() - self._assumed

    def assumed_uids(self) -> Set[str]:
        """Return the UIDs of assumed pods."""
        return frozenset(self._assumed)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count the pod on the node before it is bound. Raise ValueError if it already counts on a node."""
        if pod.uid in self._node_of:
            raise ValueError(f"pod {pod.full_name} already counts on node {self._node_of[pod.uid]}")
        self.columns.add_pod(pod, node_name)
        self._node_of[pod.uid] = node_name
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Remove the pod from its node if it is assumed there. A pod whose binding was confirmed stays on its node."""
        if uid in self._assumed:
            self.remove_pod(uid)

    def set_pod(self, pod: PodInfo) -> None:
        """Add or update a pod that is on a node according to the API server. The pod is no longer assumed."""
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
        """Remove a deleted or finished pod, and return whether the cache counted it on a node."""
        self._assumed.discard(uid)
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        self.columns.remove_pod(uid, node_name)
        return True
