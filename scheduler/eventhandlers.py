"""What an API object that appears, changes or goes means to cache and queue.

Owns: the translation of watch messages into changes of the cache, of the other objects, and into events that may wake
waiting pods. Does not own: the queue's and the cache's own rules, any attempt (`loop`). Called by the loop's thread.

Source: pkg/scheduler/eventhandlers.go v1.36.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.binding import Assumed
from scheduler.cache import Cache
from scheduler.framework.events import Event, object_event
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Object, Pod
from scheduler.queue import QueuedPod, SchedulingQueue

NODES, PODS = "nodes", "pods"
FINISHED: Final = ("Succeeded", "Failed")


@dataclass
class InFlight:
    """A pod whose binding is under way, and what became of it meanwhile."""

    queued: QueuedPod
    assumed: Assumed
    evaluated: int
    feasible: int
    deleted: bool = False


class EventHandlers:
    """The cluster as the watches show it, brought to cache and queue."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        objects: ClusterObjects,
        kinds: Mapping[str, type[Object]],
        scheduler_names: Collection[str],
        in_flight: Mapping[str, InFlight],
    ) -> None:
        """`kinds`: what is watched into `objects`, besides nodes and pods. `in_flight`: by pod UID."""
        self.cache = cache
        self.queue = queue
        self.objects = objects
        self.absent: dict[str, str] = {}  # kinds that the API server does not serve, and what records say of it
        self._kinds = kinds
        self._scheduler_names = scheduler_names
        self._in_flight = in_flight
        self._listed_once: set[str] = set()

    @property
    def synced(self) -> bool:
        """Whether everything was listed once: before, the cluster looks emptier than it is."""
        return self._listed_once >= {NODES, PODS, *self._kinds}

    def apply(self, message: Listed[Any] | Changed[Any]) -> None:
        """A watch said something."""
        if isinstance(message, Listed):
            self._listed(message)
            self._listed_once.add(message.kind)
        elif message.kind in self._kinds:
            self._object(self._kinds[message.kind], message.type, message.object)
        elif message.kind == NODES:
            if message.type == "DELETED":
                self._node_gone(message.object.metadata.name)
            else:
                self._node(message.object)
        elif message.type == "DELETED":
            self.pod_gone(message.object.metadata.uid)
        else:
            self._pod(message.object)

    def _listed(self, message: Listed[Any]) -> None:
        if message.kind == NODES:
            self._nodes_listed(message.objects)
        elif message.kind == PODS:
            self._pods_listed(message.objects)
        else:
            self._objects_listed(message)

    def _objects_listed(self, message: Listed[Any]) -> None:
        kind = self._kinds[message.kind]
        self.objects.replace_all(kind, message.objects)
        self.absent.pop(message.kind, None)
        if message.absent:
            self.absent[message.kind] = f"absent: {message.kind} are not served, so there are none"
        if message.kind in self._listed_once:  # what changed unseen may be anything
            for action in ("Add", "Update", "Delete"):
                self._wake_for(kind, action)

    def _object(self, kind: type[Object], change: str, obj: Object) -> None:
        """Something else than a node or pod appeared, changed or went."""
        known = self.objects.get(kind, obj.metadata.name, obj.metadata.namespace) is not None
        if change == "DELETED":
            self.objects.remove(obj)
            self._wake_for(kind, "Delete")
        else:
            self.objects.set(obj)
            self._wake_for(kind, "Update" if known else "Add")

    def _wake_for(self, kind: type[Object], action: str) -> None:
        event = object_event(kind.__name__, action)
        if event is not None:
            self.queue.wake(event, time.monotonic())

    def _nodes_listed(self, nodes: Iterable[Node]) -> None:
        listed = {node.metadata.name: node for node in nodes}
        for name in self.cache.node_names():
            if name not in listed:
                self._node_gone(name)
        for node in listed.values():
            self._node(node)

    def _node(self, node: Node) -> None:
        old = self.cache.node(node.metadata.name)
        events = node_events(old, node)
        if old is None or events or _differ(old, node):
            self.cache.set_node(node)
        for event in events:
            self.queue.wake(event, time.monotonic())

    def _node_gone(self, name: str) -> None:
        self.cache.remove_node(name)
        self.queue.wake(Event.NODE_DELETE, time.monotonic())

    def _pods_listed(self, pods: Iterable[Pod]) -> None:
        listed = {pod.metadata.uid: pod for pod in pods}
        for uid in [*self.cache.pod_uids(), *self.queue.uids(), *self._in_flight]:
            if uid not in listed:
                self.pod_gone(uid)
        for uid in self.cache.assumed_uids() - listed.keys() - self._in_flight.keys():
            self.pod_gone(uid)  # bound, and deleted before the watch showed either
        for pod in listed.values():
            self._pod(pod)

    def _pod(self, pod: Pod) -> None:
        """A pod as it is now: on a node, waiting for us, or none of our business."""
        uid, now = pod.metadata.uid, time.monotonic()
        if pod.status.phase in FINISHED:
            self.pod_gone(uid)
        elif pod.spec.node_name:
            self.queue.delete(uid)
            old, new = None if self.cache.assumed(uid) else self.cache.pod(uid), PodInfo(pod, running=True)
            self.cache.set_pod(new)
            for event in pod_events(old, new):
                self.queue.wake(event, now)
        elif pod.spec.scheduler_name not in self._scheduler_names:
            self.queue.delete(uid)
        elif uid in self._in_flight:
            self._in_flight[uid].queued.pod = PodInfo(pod)
        elif uid in self.queue:
            self.queue.update(PodInfo(pod), now)
        elif not self.cache.bound(uid):
            self.queue.add(PodInfo(pod), now, time.time_ns() // 1000)

    def pod_gone(self, uid: str) -> None:
        """The pod was deleted or has finished."""
        self.queue.delete(uid)
        if uid in self._in_flight:
            self._in_flight[uid].deleted = True  # it counts until its binding is done
        elif self.cache.remove_pod(uid):
            self.queue.wake(Event.POD_DELETE, time.monotonic())


def _differ(old: Node, new: Node) -> bool:
    """Whether nodes differ in what wakes no pod and yet is in the columns: a node of the same name may be another."""
    return (old.metadata.uid, old.spec, old.status.images) != (new.metadata.uid, new.spec, new.status.images)


def pod_events(old: PodInfo | None, new: PodInfo) -> list[Event]:
    """What a change of a pod on a node may mean to waiting pods. `old`: None where it was not confirmed there yet.

    Source: framework/events.go podSchedulingPropertiesChange.
    """
    if old is None:
        return [Event.POD_ADD]
    events = []
    if old.labels != new.labels:
        events.append(Event.POD_LABEL)
    if any(new.requests.get(resource, 0) < amount for resource, amount in old.requests.items()):
        events.append(Event.POD_SCALE_DOWN)
    return events


def node_events(old: Node | None, new: Node) -> list[Event]:
    """What a node's change may mean to waiting pods. Source: framework/events.go nodeSchedulingPropertiesChange."""
    if old is None:
        return [Event.NODE_ADD]
    events = []
    if old.status.allocatable != new.status.allocatable:
        events.append(Event.NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        events.append(Event.NODE_LABEL)
    if old.spec.taints != new.spec.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        events.append(Event.NODE_TAINT)
    if old.status.declared_features != new.status.declared_features:
        events.append(Event.NODE_FEATURE)
    return events
