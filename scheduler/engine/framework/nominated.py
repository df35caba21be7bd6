"""Waiting pods that are nominated for a node: by preemption, by an earlier attempt or by their status.

Nominations of this process may be ahead of the API server. Only the loop's thread changes them.

Source: pkg/scheduler/backend/queue/nominator.go v1.36.

Invariant: it holds only waiting pods, no pod that is assumed, bound, deleted or of another scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from scheduler.engine.objects.pod import PodInfo


@dataclass(frozen=True)
class Nomination:
    """The new value that an attempt gives to the pod's status.nominatedNodeName; "" clears it."""

    node: str


CLEARED = Nomination("")


class Nominator:
    """The waiting pods that are nominated for a node, by pod UID and by node name."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}
        self._node_by_uid: dict[str, str] = {}
        self._uids_by_node: dict[str, set[str]] = {}

    def node_of(self, uid: str) -> str:
        """Return the name of the node for which the pod with this UID is nominated, or "" if there is none."""
        return self._node_by_uid.get(uid, "")

    def nodes(self) -> list[str]:
        """Return the names of the nodes for which pods are nominated."""
        return list(self._uids_by_node)

    def pods_not_below(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the other pods nominated for `node` whose priority is that of `pod` or higher, sorted by UID."""
        return [p for p in self._pods_for(node) if p.priority >= pod.priority and p.uid != pod.uid]

    def pods_below(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the pods nominated for `node` whose priority is lower than that of `pod`, sorted by UID."""
        return [p for p in self._pods_for(node) if p.priority < pod.priority]

    def update_from_status(self, pod: PodInfo) -> None:
        """Update the nomination of a waiting pod from its new status.

        A status without a node clears the nomination only if the last status named a node. Otherwise, the API server
        may not have received this process's nomination yet.
        """
        nominated = self._pods.get(pod.uid)
        node = pod.pod.status.nominated_node_name
        if not node and nominated is not None and not nominated.pod.status.nominated_node_name:
            node = self._node_by_uid[pod.uid]
        self._set(pod, node)

    def set_nomination(self, pod: PodInfo, nomination: Nomination | None) -> None:
        """Set the nomination of a pod after an attempt that chose no node.

        If `nomination` is None, the node in the pod's status counts.
        """
        self._set(pod, pod.pod.status.nominated_node_name if nomination is None else nomination.node)

    def remove(self, uid: str) -> None:
        """Remove the nomination of the pod with this UID, if there is one."""
        node = self._node_by_uid.pop(uid, None)
        if node is None:
            return
        del self._pods[uid]
        self._uids_by_node[node].discard(uid)
        if not self._uids_by_node[node]:
            del self._uids_by_node[node]

    def remove_named(self, pod: PodInfo) -> None:
        """Remove the nominations of pods that have this pod's UID or its namespace and name."""
        for nominated in [p for p in self._pods.values() if p.uid == pod.uid or p.full_name == pod.full_name]:
            self.remove(nominated.uid)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Hide all nominations in the context, so that no pod counts as nominated, and restore them at its end."""
        saved = self._pods, self._node_by_uid, self._uids_by_node
        self._pods, self._node_by_uid, self._uids_by_node = {}, {}, {}
        try:
            yield
        finally:
            self._pods, self._node_by_uid, self._uids_by_node = saved

    def _pods_for(self, node: str) -> list[PodInfo]:
        return [self._pods[uid] for uid in sorted(self._uids_by_node.get(node, ()))]

    def _set(self, pod: PodInfo, node: str) -> None:
        self.remove(pod.uid)
        if node:
            self._pods[pod.uid] = pod
            self._node_by_uid[pod.uid] = node
            self._uids_by_node.setdefault(node, set()).add(pod.uid)


NO_NOMINATIONS: Final = Nominator()  # for a single decision, without a queue
