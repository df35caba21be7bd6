"""Pods that wait with a node in view: nominated by preemption, by an earlier attempt or by their own status.

Owns: which waiting pod is nominated for which node, as this process knows it, which may be ahead of the API server.
Does not own: pods on nodes (`cache`), the status that says so to others (`writes`). Changed by the loop's thread only.

Source: pkg/scheduler/backend/queue/nominator.go v1.36.

Invariant: only pods that wait are here; one that is assumed, bound, gone or another scheduler's is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from scheduler.objects.pod import PodInfo


@dataclass(frozen=True)
class Nomination:
    """What an attempt says of status.nominatedNodeName: this node, or "" for none. Absent: it stays as it is."""

    node: str


CLEARED = Nomination("")


class Nominator:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}
        self._node_of: dict[str, str] = {}
        self._on: dict[str, set[str]] = {}

    def node_of(self, uid: str) -> str:
        """The pod's nominated node; "" where it has none."""
        return self._node_of.get(uid, "")

    def nodes(self) -> list[str]:
        """Every node that some pod is nominated for."""
        return list(self._on)

    def rivals(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The other pods nominated for the node that have the pod's priority or a higher one, by UID."""
        return [p for p in self._at(node) if p.priority >= pod.priority and p.uid != pod.uid]

    def lower(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The pods nominated for the node that have a lower priority than the pod, by UID."""
        return [p for p in self._at(node) if p.priority < pod.priority]

    def observe(self, pod: PodInfo) -> None:
        """The API server shows a waiting pod.

        A nomination that it does not show yet is kept: only a status that had named a node and names none clears it.
        """
        known = self._pods.get(pod.uid)
        node = pod.pod.status.nominated_node_name
        if not node and known is not None and not known.pod.status.nominated_node_name:
            node = self._node_of[pod.uid]
        self._set(pod, node)

    def decide(self, pod: PodInfo, nomination: Nomination | None) -> None:
        """An attempt ended without a node for the pod, which waits again."""
        self._set(pod, pod.pod.status.nominated_node_name if nomination is None else nomination.node)

    def remove(self, uid: str) -> None:
        """The pod waits no longer."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        del self._pods[uid]
        self._on[node].discard(uid)
        if not self._on[node]:
            del self._on[node]

    @contextmanager
    def none(self) -> Iterator[None]:
        """As if no pod were nominated, for a while."""
        held = self._pods, self._node_of, self._on
        self._pods, self._node_of, self._on = {}, {}, {}
        try:
            yield
        finally:
            self._pods, self._node_of, self._on = held

    def _at(self, node: str) -> list[PodInfo]:
        return [self._pods[uid] for uid in sorted(self._on.get(node, ()))]

    def _set(self, pod: PodInfo, node: str) -> None:
        self.remove(pod.uid)
        if node:
            self._pods[pod.uid] = pod
            self._node_of[pod.uid] = node
            self._on.setdefault(node, set()).add(pod.uid)


NOBODY: Final = Nominator()  # where no pod waits: a single decision
