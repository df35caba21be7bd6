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

import msgspec

from scheduler import klog
from scheduler.binding import Assumed
from scheduler.framework.changes import node_events, pod_events
from scheduler.framework.events import Action, Event, object_event
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Object, Pod
from scheduler.queue import QueuedPod, SchedulingQueue
from scheduler.shared import Shared

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
        shared: Shared,
        queue: SchedulingQueue,
        kinds: Mapping[str, type[Object]],
        scheduler_names: Collection[str],
        in_flight: Mapping[str, InFlight],
        annotations: frozenset[str] = frozenset(),
    ) -> None:
        """`kinds`: what is watched into `shared.objects`, besides nodes and pods. `in_flight`: by pod UID.

        `annotations`: of a node, those that some plugin reads. No others are kept: they may be 256 kB a node.
        """
        self.cache = shared.cache
        self.queue = queue
        self.objects = shared.objects
        self.nominator = shared.nominator
        self.absent: dict[str, str] = {}  # kinds that the API server does not serve, and what records say of it
        self._kinds = kinds
        self._scheduler_names = scheduler_names
        self._in_flight = in_flight
        self._annotations = annotations
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
        before = {_key(obj): obj for obj in self.objects.all(kind)}
        after = {_key(obj): obj for obj in message.objects}
        self.objects.replace_all(kind, message.objects)
        self.absent.pop(message.kind, None)
        if message.absent:
            self.absent[message.kind] = f"absent: {message.kind} are not served, so there are none"
        if message.kind in self._listed_once:  # changes that were not seen one by one
            for key in {**before, **after}:
                if before.get(key) != after.get(key):
                    self._wake_for(kind, before.get(key), after.get(key))

    def _object(self, kind: type[Object], change: str, obj: Object) -> None:
        """Something else than a node or pod appeared, changed or went."""
        old = self.objects.get(kind, obj.metadata.name, obj.metadata.namespace)
        if change == "DELETED":
            self.objects.remove(obj)
            self._wake_for(kind, old or obj, None)
        else:
            self.objects.set(obj)
            self._wake_for(kind, old, obj)

    def _wake_for(self, kind: type[Object], old: Object | None, new: Object | None) -> None:
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
        event = object_event(kind.__name__, action)
        if event is not None:
            self.queue.wake(event, time.monotonic(), old, new)

    def _nodes_listed(self, nodes: Iterable[Node]) -> None:
        listed = {node.metadata.name: node for node in nodes}
        for name in self.cache.node_names():
            if name not in listed:
                self._node_gone(name)
        for node in listed.values():
            self._node(node)

    def _node(self, node: Node) -> None:
        node = _with_annotations(node, self._annotations)
        old = self.cache.node(node.metadata.name)
        events = node_events(old, node)
        if old is None:
            klog.info(3, "Add event for node", node=node.metadata.name)
        if old is None or any(e is not Event.NODE_ANNOTATION for e in events) or _differ(old, node):
            self.cache.set_node(node)
        else:
            self.cache.refresh_node(node)
        for event in events:
            self.queue.wake(event, time.monotonic(), old, node)

    def _node_gone(self, name: str) -> None:
        old = self.cache.node(name)
        self.cache.remove_node(name)
        klog.info(3, "Delete event for node", node=name)
        if old is not None:
            self.queue.wake(Event.NODE_DELETE, time.monotonic(), old, None)

    def _pods_listed(self, pods: Iterable[Pod]) -> None:
        listed = {pod.metadata.uid: pod for pod in pods}
        for uid in [*self.cache.pod_uids(), *(queued.uid for queued in self.queue), *self._in_flight]:
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
            self._pod_on_node(PodInfo(pod, running=True))
        elif pod.spec.scheduler_name not in self._scheduler_names:
            self.queue.delete(uid)
            self.nominator.remove(uid)
        elif self.queue.get(uid) is not None:
            self._pod_changed(PodInfo(pod))
        elif not self.cache.bound(uid):
            self.queue.add(PodInfo(pod), now, time.time_ns() // 1000)
            self.nominator.observe(PodInfo(pod))

    def _pod_on_node(self, pod: PodInfo) -> None:
        self.queue.delete(pod.uid)
        self.nominator.remove(pod.uid)
        old = None if self.cache.assumed(pod.uid) else self.cache.pod(pod.uid)
        self.cache.set_pod(pod)
        for event in pod_events(old, pod):
            self.queue.wake(event, time.monotonic(), old, pod)

    def _pod_changed(self, pod: PodInfo) -> None:
        """A pod that waits, or is on its way to a node."""
        known = self.queue.get(pod.uid)
        assert known is not None
        old = known.pod
        self.queue.update(pod, time.monotonic())
        flight = self._in_flight.get(pod.uid)
        if flight is not None:
            if pod.terminating and self.cache.assumed(pod.uid):  # no binding will succeed now
                self._leaves(pod.uid)
            return
        self.nominator.observe(pod)
        if old.pod.status.nominated_node_name not in ("", pod.pod.status.nominated_node_name):
            self._nomination_ended(old)

    def pod_gone(self, uid: str) -> None:
        """The pod was deleted or has finished."""
        waited, flight = self.queue.delete(uid), self._in_flight.get(uid)
        self.nominator.remove(uid)
        if flight is not None:
            flight.deleted = True
        if self.cache.bound(uid):
            self._leaves(uid)
        elif waited is not None and waited.pod.pod.status.nominated_node_name:
            self._nomination_ended(waited.pod)

    def left(self, pod: PodInfo, node: str) -> None:
        """A pod that counted on a node, if only before it was bound there, no longer does."""
        spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
        was = PodInfo(msgspec.structs.replace(pod.pod, spec=spec), running=True)
        self.queue.wake(Event.POD_DELETE, time.monotonic(), was, None, among=lambda other: other.uid != pod.uid)

    def _leaves(self, uid: str) -> None:
        pod, node = self.cache.pod(uid), self.cache.node_of(uid)
        assert pod is not None
        assert node is not None
        self.cache.remove_pod(uid)
        self.left(pod, node)

    def _nomination_ended(self, pod: PodInfo) -> None:
        """Pods that had to leave room for this one need not any longer."""
        self.queue.wake(Event.POD_DELETE, time.monotonic(), pod, None, among=lambda p: p.priority <= pod.priority)


def _with_annotations(node: Node, keys: frozenset[str]) -> Node:
    """The node with these annotations alone."""
    has = node.metadata.annotations
    if not has:
        return node
    kept = {key: has[key] for key in keys if key in has} or None
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, annotations=kept))


def _key(obj: Object) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _differ(old: Node, new: Node) -> bool:
    """Whether nodes differ in what wakes no pod and yet is in the columns: a node of the same name may be another."""
    return (old.metadata.uid, old.spec, old.status.images) != (new.metadata.uid, new.spec, new.status.images)
