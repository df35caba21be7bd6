"""Waiting pods that are nominated for a node: by preemption, by an earlier attempt or by their status.

An attempt's nomination counts before the API server has it: kube-scheduler writes it while it handles the failure, and
here other threads write it. Only the loop's thread changes nominations.

Source: pkg/scheduler/backend/queue/nominator.go v1.36.

Invariant: it holds only waiting pods, no pod that is assumed, bound, deleted or of another scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.engine.objects.pod import PodInfo


@dataclass(frozen=True)
class Nomination:
    """The new value that an attempt gives to the pod's status.nominatedNodeName; "" clears it."""

    node: str


CLEARED = Nomination("")


class _Unseen(NamedTuple):
    """A node that this process writes into a pod's status, and the one that the status had then; each may be ""."""

    before: str
    written: str


class Nominator:
    """The waiting pods that are nominated for a node, by pod UID and by node name."""

    def __init__(self) -> None:
        self._unseen: dict[str, _Unseen] = {}  # by pod UID, until the status changes
        self._pods: dict[str, PodInfo] = {}
        self._node_by_uid: dict[str, str] = {}
        self._uids_by_node: dict[str, set[str]] = {}

    def node_of(self, uid: str) -> str:
        """Return the name of the node for which the pod with this UID is nominated, or "" if there is none."""
        return self._node_by_uid.get(uid, "")

    def find_node(self, pod: PodInfo) -> str:
        """Return the node that the pod's status names, or will name once what this process writes is there.

        The result is "" if there is none. It also counts for a pod that is assumed.
        """
        unseen = self._unseen.get(pod.uid)
        return pod.pod.status.nominated_node_name if unseen is None else unseen.written

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
        """Update the nomination of a waiting pod from its new status."""
        self.note_status(pod)
        self._set(pod)

    def note_status(self, pod: PodInfo) -> None:
        """Let a pod's new status count from now on, unless it is the one that this process has not yet changed."""
        unseen = self._unseen.get(pod.uid)
        if unseen is not None and unseen.before != pod.pod.status.nominated_node_name:
            del self._unseen[pod.uid]

    def set_nomination(self, pod: PodInfo, nomination: Nomination | None) -> None:
        """Set the nomination of a pod after an attempt that chose no node.

        If `nomination` is None, it is that of before.
        """
        if nomination is not None:
            before = pod.pod.status.nominated_node_name
            self._unseen.pop(pod.uid, None)
            if nomination.node != before:
                self._unseen[pod.uid] = _Unseen(before, nomination.node)
        self._set(pod)

    def remove(self, uid: str) -> None:
        """Remove the nomination of the pod with this UID, if there is one: the pod does not wait any more."""
        self._unseen.pop(uid, None)
        self.hide(uid)

    def hide(self, uid: str) -> None:
        """Count the pod with this UID, which is assumed, as nominated for no node, until its nomination is set."""
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

    def _set(self, pod: PodInfo) -> None:
        self.hide(pod.uid)
        if node := self.find_node(pod):
            self._pods[pod.uid] = pod
            self._node_by_uid[pod.uid] = node
            self._uids_by_node.setdefault(node, set()).add(pod.uid)


NO_NOMINATIONS: Final = Nominator()  # for a single decision, without a queue
