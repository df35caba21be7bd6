"""The changes of resource claims around another scheduler's decision.

A scheduler allocates and reserves a pod's claims (PreBind) before it binds the pod. When the binding is seen, the
claims have their devices already; at the decision they had none. Claims that changed after the first write to the pod's
claims changed after the decision too, as far as the order of the writes shows it.

Used by one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from herodotus_kube.watch import WatchEvent
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.offline.observe.window import Message

REMEMBERED: Final = 4096  # changes: each pod with a claim makes about four, and binding conditions may take minutes


class _Change(NamedTuple):
    seen_at: float
    before: ResourceClaim | None
    after: ResourceClaim | None


class SchedulerDeviceWrites:
    """The latest changes of resource claims in `objects`, with the version of each claim before the change."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._changes: deque[_Change] = deque(maxlen=REMEMBERED)

    def note(self, message: Message, now: float) -> None:
        """Store a resource claim's version before the change in a watch message.

        Call it before the caches apply the message.
        """
        if not isinstance(message, WatchEvent) or not isinstance(message.object, ResourceClaim):
            return
        claim = message.object
        before = self._objects.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
        self._changes.append(_Change(now, before, None if message.type == "DELETED" else claim))

    def since(self, pod: PodInfo) -> float | None:
        """Return when the scheduler's first write to one of the pod's claims was seen, or None if no write was seen.

        The time is in monotonic seconds.
        """
        first = self._find_first(pod)
        return None if first is None else self._changes[first].seen_at

    @contextmanager
    def taken_back(self, pod: PodInfo, *, others: bool = True) -> Iterator[None]:
        """Context manager that restores resource claims as they were before the scheduler's first write for the pod.

        With `others`, all claims that changed since then are restored, and otherwise only the pod's. If there was no
        such write, nothing changes.
        """
        first = self._find_first(pod)
        later = [] if first is None else list(self._changes)[first:]
        hidden = self._restore(change for change in later if others or _is_for(change.after, pod))
        try:
            yield
        finally:
            for earlier, now in hidden:
                if now is not None:
                    self._objects.set(now)
                elif earlier is not None:
                    self._objects.remove(earlier)

    def _restore(self, changes: Iterable[_Change]) -> list[tuple[ResourceClaim | None, ResourceClaim | None]]:
        """Undo the changes.

        Return a pair for each claim: its restored and its present version, None where it does not exist.
        """
        hidden: dict[str, tuple[ResourceClaim | None, ResourceClaim | None]] = {}
        for change in changes:
            claim = change.after or change.before
            if claim is None or claim.full_name in hidden:
                continue
            now = self._objects.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
            hidden[claim.full_name] = (change.before, now)
            if change.before is not None:
                self._objects.set(change.before)
            elif now is not None:
                self._objects.remove(now)
        return list(hidden.values())

    def _find_first(self, pod: PodInfo) -> int | None:
        """Return the index of the first change that reserved a claim for the pod or made one for it, or None."""
        return next(
            (
                i
                for i, change in enumerate(self._changes)
                if _is_for(change.after, pod) and not _is_for(change.before, pod)
            ),
            None,
        )


def _is_for(claim: ResourceClaim | None, pod: PodInfo) -> bool:
    """Return whether a claim is reserved for the pod or was made for its extended resources; False for None."""
    if claim is None:
        return False
    return claim.is_reserved_for(pod.uid) or (claim.is_for_extended_resources and claim.is_controlled_by(pod.uid))
