"""Pods that wait for a cluster event, indexed so that an event runs as few queueing hints as possible.

Owns: which plugin's hints run for which pods. Does not own: the hints (`framework.queueing_hints`), the transitions of
a pod (`scheduling_queue`).

The index has an entry for each profile and rejector. In an entry, pods that hints cannot distinguish form one group,
for which a hint runs once: an event for ten thousand replicas of a Deployment runs one hint. An event for which no
rejector registered runs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from scheduler.backend.queue.queued_pod import QueuedPod
from scheduler.engine.framework.events import ClusterEvent
from scheduler.engine.framework.queueing_hints import QueueingHints
from scheduler.engine.objects.pod import PodInfo

_IndexKey = tuple[str, str]  # (profile, rejector)
_Group = dict[str, QueuedPod]  # by UID; never empty
_encode = msgspec.msgpack.Encoder().encode


class UnschedulablePods:
    """The pods in the unschedulable queue, gated pods included, indexed by profile and rejecting plugin."""

    def __init__(self, hints: Mapping[str, QueueingHints]) -> None:
        """Create an empty queue. `hints` maps a scheduler name to the queueing hints of its profile."""
        self._hints = hints
        self._pods: dict[str, QueuedPod] = {}
        self._where: dict[str, tuple[bytes, list[_IndexKey]]] = {}  # by UID: group and index keys
        self._index: dict[_IndexKey, dict[bytes, _Group]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def add(self, queued: QueuedPod) -> None:
        """Add a pod.

        If the pod is there already, index it again, because its spec or its rejecting plugins may have changed.
        """
        self.remove(queued.uid)
        profile, template = queued.pod.pod.spec.scheduler_name, hint_equivalence_key(queued.pod)
        keys = [(profile, plugin) for plugin in sorted(queued.rejectors)]
        self._pods[queued.uid] = queued
        self._where[queued.uid] = (template, keys)
        for key in keys:
            self._index.setdefault(key, {}).setdefault(template, {})[queued.uid] = queued

    def remove(self, uid: str) -> None:
        """Remove the pod with this UID if it is in the unschedulable queue."""
        if self._pods.pop(uid, None) is None:
            return
        template, keys = self._where.pop(uid)
        for key in keys:
            groups = self._index[key]
            del groups[template][uid]
            if not groups[template]:
                del groups[template]
            if not groups:
                del self._index[key]

    def select_for_event(self, event: ClusterEvent, old: Any, new: Any) -> Iterator[tuple[str, Iterable[QueuedPod]]]:
        """Yield the pods that the event may help, as pairs of a rejecting plugin and the pods that its hint selects.

        `old` and `new` are the event's object before and after. A pod with several rejecting plugins may occur
        repeatedly. The index must not change during the iteration.
        """
        for (profile, plugin), groups in self._index.items():
            hints = self._hints[profile]
            if not hints.is_registered(plugin, event):
                continue
            for group in groups.values():
                example = next(iter(group.values()))
                if hints.may_help(plugin, event, example.pod, old, new):
                    yield plugin, group.values()


def hint_equivalence_key(pod: PodInfo) -> bytes:
    """Return a hash that is equal for pods that no queueing hint may distinguish (see `framework.events.QueueingHint`).

    The claim of an ephemeral volume is named after the pod, so the hash of such a pod includes its name.
    """
    metadata, spec = pod.pod.metadata, pod.pod.spec
    owners = [(o.api_version, o.kind, o.name) for o in metadata.owner_references or () if o.controller]
    named = metadata.name if any(v.ephemeral is not None for v in spec.volumes or ()) else ""
    nominated, generated = pod.pod.status.nominated_node_name, pod.pod.status.resource_claim_statuses
    distinguished = (metadata.namespace, named, metadata.labels, owners, nominated, generated, spec)
    return blake2b(_encode(distinguished), digest_size=16).digest()
