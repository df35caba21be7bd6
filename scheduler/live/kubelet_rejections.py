"""Counts bound pods that a kubelet rejected, which shows races with another scheduler.

Owns: watching failed pods, and detecting which of them a kubelet rejected for a reason that schedulers check. Does not
own: the cache (its watch excludes failed pods), what a pod's controller does next.

Invariant: a pod counts once. Pods that failed before this process watched do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from herodotus_kube.http import ApiServer
from herodotus_kube.watch import ListResult, ListWatch, Reflector, WatchEvent
from scheduler.engine.objects.types import Object, Struct

FAILED: Final = "failed pods"
# What a kubelet writes to status.reason (pkg/kubelet/lifecycle/predicate.go v1.36) where a filter's check fails there.
REASONS: Final = ("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "NodePorts", "NodeAffinity")
OUT_OF: Final = "OutOf"
OTHER: Final = "OutOfextended"  # extended resources share a label value, since their names differ by cluster


class _Spec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""


class _Status(Struct, frozen=True):
    reason: str = ""


class FailedPod(Object, frozen=True):
    """The fields of v1.Pod that show a kubelet's rejection."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


class RejectionCounter:
    """Counts pods that a kubelet rejected: receives the messages of a watch of failed pods, in the watch's thread.

    It calls `count` with the reason and the scheduler name of each rejected pod.
    """

    def __init__(self, count: Callable[[str, str], None]) -> None:
        self._count = count
        self._seen: set[str] | None = None  # None: not listed yet

    def put(self, message: ListResult[Any] | WatchEvent[Any]) -> None:
        """Apply a message of the watch. Pods in the first list do not count, since they failed earlier."""
        if isinstance(message, ListResult):
            pods = {pod.metadata.uid: pod for pod in message.objects}
            new = pods.keys() - self._seen if self._seen is not None else set()
            self._seen = set(pods)
            for uid in new:
                self._count_rejection(pods[uid])
        elif self._seen is not None:
            uid = message.object.metadata.uid
            if message.type == "DELETED":
                self._seen.discard(uid)
            elif uid not in self._seen:
                self._seen.add(uid)
                self._count_rejection(message.object)

    def _count_rejection(self, pod: FailedPod) -> None:
        reason = pod.status.reason
        if pod.spec.node_name and (reason in REASONS or reason.startswith(OUT_OF)):
            self._count(reason if reason in REASONS else OTHER, pod.spec.scheduler_name)


def build_rejection_reflectors(
    api: ApiServer, profiles: Collection[str], count: Callable[[str, str], None]
) -> list[Reflector[Any]]:
    """Return one reflector for the failed pods of each profile (scheduler name), not started yet.

    Each calls `count` with the reason and the scheduler name of a pod that a kubelet rejected. One reflector is not
    enough, because a field selector cannot name several schedulers.
    """
    return [
        Reflector(
            api, ListWatch("/api/v1/pods", FAILED, FailedPod, {"fieldSelector": only}), RejectionCounter(count).put
        )
        for only in (f"status.phase=Failed,spec.schedulerName={profile}" for profile in sorted(profiles))
    ]
