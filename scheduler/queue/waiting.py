"""Pods that wait for an event, filed so that an event costs no more than the questions it raises.

Owns: which plugin's hint must be asked about which pods. Does not own: the answers (`framework.hints`), what becomes of
a pod (`scheduling_queue`).

Each pod is filed under its profile and each of its rejectors; below that, pods that hints cannot tell apart are one
group and are asked about once: ten thousand replicas of a Deployment cost an event one question. Events that no
rejector asks about cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from scheduler.framework.events import Event
from scheduler.framework.hints import QueueingHints
from scheduler.objects.pod import PodInfo
from scheduler.queue.queued_pod import QueuedPod

_Drawer = tuple[str, str]  # (profile, rejector)
_Group = dict[str, QueuedPod]  # by UID; never empty
_encode = msgspec.msgpack.Encoder().encode


class WaitingPods:
    """Those in the unschedulable queue, gated ones included."""

    def __init__(self, hints: Mapping[str, QueueingHints]) -> None:
        """`hints`: by scheduler name."""
        self._hints = hints
        self._pods: dict[str, QueuedPod] = {}
        self._where: dict[str, tuple[bytes, list[_Drawer]]] = {}  # by UID: its template and its drawers
        self._drawers: dict[_Drawer, dict[bytes, _Group]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def add(self, queued: QueuedPod) -> None:
        """File a pod by what it is and by who rejected it, or file it anew."""
        self.remove(queued.uid)
        profile, template = queued.pod.pod.spec.scheduler_name, template_of(queued.pod)
        drawers = [(profile, plugin) for plugin in sorted(queued.rejectors)]
        self._pods[queued.uid] = queued
        self._where[queued.uid] = (template, drawers)
        for drawer in drawers:
            self._drawers.setdefault(drawer, {}).setdefault(template, {})[queued.uid] = queued

    def remove(self, uid: str) -> None:
        """Take a pod out, if it is in."""
        if self._pods.pop(uid, None) is None:
            return
        template, drawers = self._where.pop(uid)
        for drawer in drawers:
            groups = self._drawers[drawer]
            del groups[template][uid]
            if not groups[template]:
                del groups[template]
            if not groups:
                del self._drawers[drawer]

    def helped_by(self, event: Event, old: Any, new: Any) -> Iterator[tuple[str, Iterable[QueuedPod]]]:
        """The pods that the event may help, once for every rejector that says so. Not to be changed meanwhile."""
        for (profile, plugin), groups in self._drawers.items():
            hints = self._hints[profile]
            if not hints.asks(plugin, event):
                continue
            for group in groups.values():
                some = next(iter(group.values()))
                if hints.may_help(plugin, event, some.pod, old, new):
                    yield plugin, group.values()


def template_of(pod: PodInfo) -> bytes:
    """Equal for pods that no hint may tell apart: see `framework.events.Hint`.

    A claim of an ephemeral volume is named after the pod, so there the name counts.
    """
    metadata, spec = pod.pod.metadata, pod.pod.spec
    owners = [(o.api_version, o.kind, o.name) for o in metadata.owner_references or () if o.controller]
    named = metadata.name if any(v.ephemeral is not None for v in spec.volumes or ()) else ""
    nominated = pod.pod.status.nominated_node_name
    told_apart = (metadata.namespace, named, metadata.labels, owners, nominated, spec)
    return blake2b(_encode(told_apart), digest_size=16).digest()
