"""Pods that we bound and that a kubelet then turned away, counted: what a race with another scheduler looks like.

Owns: watching failed pods, telling which of them a kubelet refused for what schedulers check. Does not own: the cache,
for which a failed pod is gone (its watch shows none), and what a pod's controller does next.

Invariant: a pod counts once. What failed before we watched, or while nobody did, does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from scheduler.kube.http import ApiServer
from scheduler.kube.watch import Changed, Listed, Reflector
from scheduler.objects.types import Object, Struct

FAILED: Final = "failed pods"
# What a kubelet writes to status.reason (pkg/kubelet/lifecycle/predicate.go v1.36) where a filter's check fails there.
REASONS: Final = ("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "NodePorts", "NodeAffinity")
OUT_OF: Final = "OutOf"
OTHER: Final = "OutOfextended"  # extended resources share a label: their names are the cluster's


class _Spec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""


class _Status(Struct, frozen=True):
    reason: str = ""


class FailedPod(Object, frozen=True):
    """v1.Pod, as far as a refusal shows in it."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


class Refusals:
    """Tells `count` the reason and the profile of each refusal. A watch's sink, in that watch's thread."""

    def __init__(self, count: Callable[[str, str], None]) -> None:
        self._count = count
        self._seen: set[str] | None = None  # None: not listed yet

    def put(self, message: Listed[Any] | Changed[Any]) -> None:
        """A watch said something."""
        if isinstance(message, Listed):
            pods = {pod.metadata.uid: pod for pod in message.objects}
            new = pods.keys() - self._seen if self._seen is not None else set()
            self._seen = set(pods)
            for uid in new:
                self._refused(pods[uid])
        elif self._seen is not None:
            uid = message.object.metadata.uid
            if message.type == "DELETED":
                self._seen.discard(uid)
            elif uid not in self._seen:
                self._seen.add(uid)
                self._refused(message.object)

    def _refused(self, pod: FailedPod) -> None:
        reason = pod.status.reason
        if pod.spec.node_name and (reason in REASONS or reason.startswith(OUT_OF)):
            self._count(reason if reason in REASONS else OTHER, pod.spec.scheduler_name)


def reflectors(api: ApiServer, profiles: Collection[str], count: Callable[[str, str], None]) -> list[Reflector[Any]]:
    """One for each profile, not started: the API server has no selector for several."""
    return [
        Reflector(
            *(api, "/api/v1/pods", FAILED, FailedPod, Refusals(count).put),
            {"fieldSelector": f"status.phase=Failed,spec.schedulerName={profile}"},
        )
        for profile in sorted(profiles)
    ]
