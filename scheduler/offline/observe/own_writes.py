"""The node and volumes that another scheduler wrote to a pod's claims before it bound the pod.

A scheduler chooses a node, selects it on the pod's claims and gives them volumes (PreBind), and binds the pod when they
are bound. When the binding is seen, the claims allow only that node; at the decision they did not. A controller binds
claims that do not wait for their first consumer, so the scheduler saw these as they are.

Used by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from herodotus_kube.watch import WatchEvent
from scheduler.backend.event_handlers import PODS
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.offline.observe.window import Message


class SchedulerClaimWrites:
    """The versions that claims and volumes had before a scheduler wrote to them for a pod that is not bound yet.

    They are kept by claim (NAMESPACE/NAME).
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._since: dict[str, float] = {}
        self._volumes: dict[str, dict[str, PersistentVolume | None]] = {}  # None: the volume was not there

    def note(self, message: Message, now: float) -> None:
        """Store the version of a claim or volume from before a scheduler's write to it, until the pod is bound.

        Takes every message of the watch and ignores other kinds. A bound pod or a deleted claim drops the stored
        versions. Call it before the caches apply the message. `now` is in monotonic seconds.
        """
        if message.kind == PODS:
            for pod in [message.object] if isinstance(message, WatchEvent) else message.objects:
                self._pod(PodInfo(pod))
        elif not isinstance(message, WatchEvent):
            return
        elif isinstance(message.object, PersistentVolumeClaim):
            self._claim(message.type, message.object, now)
        elif isinstance(message.object, PersistentVolume) and message.type != "DELETED":
            self._volume(message.object, now)

    def since(self, pod: PodInfo, node: str) -> float | None:
        """Return when the scheduler's first write to the pod's claims for `node` was seen, or None if none was seen.

        The scheduler writes just after its decision. The time is in monotonic seconds.
        """
        return min((self._since[claim] for claim in self._for(pod, node)), default=None)

    def node_of(self, claim: PersistentVolumeClaim) -> str:
        """Return the node that a scheduler selected on the claim for a pod that is not bound yet, or ""."""
        old = self._objects.get(PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace)
        new = claim.full_name in self._claims or (old is not None and _free(old))
        return (claim.annotations.selected_node or "") if new else ""

    @contextmanager
    def taken_back(self, pod: PodInfo, node: str) -> Iterator[None]:
        """Context manager that restores the earlier versions of the pod's claims and volumes while the block runs.

        `node` is the node that the pod's scheduler chose.
        """
        hidden = [change for claim in self._for(pod, node) for change in self._take_back(claim)]
        try:
            yield
        finally:
            for now in hidden:
                self._objects.restore(now)
                self._objects.set(now)

    def _for(self, pod: PodInfo, node: str) -> Iterator[str]:
        """Yield the pod's claims that a scheduler may have written for this pod and `node`.

        A claim with another selected node was written for another pod.
        """
        for claim in pod.claims:
            if claim in self._claims:
                now = self._objects.get(PersistentVolumeClaim, *reversed(claim.split("/")))
                if now is not None and now.annotations.selected_node in (None, node):
                    yield claim

    def _take_back(self, claim: str) -> Iterator[PersistentVolumeClaim | PersistentVolume]:
        before = self._claims[claim]
        now = self._objects.get(PersistentVolumeClaim, before.metadata.name, before.metadata.namespace)
        assert now is not None  # `_for` has looked
        self._objects.assume(before)
        yield now
        for name, old in self._volumes.get(claim, {}).items():
            volume = self._objects.get(PersistentVolume, name)
            if volume is not None:
                if old is None:
                    self._objects.remove(volume)
                else:
                    self._objects.assume(old)
                yield volume

    def _pod(self, pod: PodInfo) -> None:
        """Forget the earlier versions of the pod's claims if the pod is bound.

        Pods that are decided later find the claims in their present state.
        """
        if pod.pod.spec.node_name:
            for claim in pod.claims:
                self._forget(claim)

    def _claim(self, change: str, claim: PersistentVolumeClaim, now: float) -> None:
        if change == "DELETED":
            self._forget(claim.full_name)
            return
        old = self._objects.get(PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace)
        if old is not None and _free(old) and not _free(claim) and self._waited(old):
            self._claims[claim.full_name] = old
            self._since.setdefault(claim.full_name, now)

    def _waited(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the claim's storage class binds at the first consumer, so that a scheduler binds the claim."""
        storage_class = self._objects.get(StorageClass, claim.storage_class)
        return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _volume(self, volume: PersistentVolume, now: float) -> None:
        to = volume.spec.claim_ref
        old = self._objects.get(PersistentVolume, volume.metadata.name)
        if to is not None and (old is None or old.spec.claim_ref is None):
            claim = f"{to.namespace}/{to.name}"
            self._volumes.setdefault(claim, {})[volume.metadata.name] = old
            self._since.setdefault(claim, now)

    def _forget(self, claim: str) -> None:
        for index in (self._claims, self._volumes, self._since):
            index.pop(claim, None)


def _free(claim: PersistentVolumeClaim) -> bool:
    return not claim.spec.volume_name and claim.annotations.selected_node is None
