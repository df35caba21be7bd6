"""Event handlers: apply watch messages to the cache, the other cluster objects and the scheduling queue.

Owns: the translation of watch messages into changes of the cache and into cluster events, which may requeue pods. Does
not own: the rules of queue and cache, attempts (`loop`). Only the scheduling loop's thread calls the handlers.

Source: pkg/scheduler/eventhandlers.go v1.36.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record import klog
from herodotus_record.model import Reason
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.queue import SchedulingQueue
from scheduler.engine.columns import columns_differ
from scheduler.engine.framework.events import ActionType, ClusterEvent, find_object_event
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.update_events import list_node_events, list_pod_events
from scheduler.engine.objects.autoscaling import NODE_ANNOTATIONS
from scheduler.engine.objects.pod import FINISHED_PHASES, PodInfo
from scheduler.engine.objects.types import Node, Object, Pod
from scheduler.engine.rules.feature_gates import GANG_SCHEDULING

NODES, PODS = "nodes", "pods"


class InFlightPod(Protocol):
    """A pod in its binding cycle. The event handlers set `deleted` if the pod is deleted before the cycle ends."""

    deleted: bool


class EventHandlers:
    """Applies watch messages to the cache, the other cluster objects, the nominated pods and the scheduling queue."""

    def __init__(
        self,
        shared: ClusterState,
        queue: SchedulingQueue,
        kinds: Mapping[str, type[Object]],
        frameworks: Mapping[str, Framework],
        in_flight: Mapping[str, InFlightPod],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take references to the shared state and the queue. `clock` returns monotonic seconds.

        `kinds` are the watched kinds besides nodes and pods, by resource name. Only pods of the schedulers named in
        `frameworks` are queued. `in_flight` holds the pods in a binding cycle by UID. Node annotations that neither a
        plugin nor a question about node groups reads are dropped, since they may take 256 kB per node.
        """
        read_by_plugins = (key for framework in frameworks.values() for key in framework.profile.annotations)
        annotations = NODE_ANNOTATIONS.union(read_by_plugins)
        self.cache = shared.cache
        self.queue = queue
        self.objects = shared.objects
        self.nominator = shared.nominator
        self._pod_groups = shared.pod_groups
        self._schedules_gangs = any(f.profile.rules.enabled(GANG_SCHEDULING) for f in frameworks.values())
        self.absent: dict[str, Reason] = {}  # kinds that the API server does not serve, with the note for records
        self._kinds = kinds
        self._scheduler_names = frameworks.keys()
        self._in_flight = in_flight
        self._clock = clock
        self._annotations = shared.cache.columns.kept_annotations = annotations
        self._listed_once: set[str] = set()

    @property
    def synced(self) -> bool:
        """Whether every watched kind was listed at least once. Before that, the cache is incomplete."""
        return self._listed_once >= {NODES, PODS, *self._kinds}

    def apply(self, message: ListResult[Any] | WatchEvent[Any]) -> None:
        """Apply one message of a watch: a complete list of a kind, or the change of one object."""
        if isinstance(message, ListResult):
            self._listed(message)
            self._listed_once.add(message.kind)
        elif message.kind in self._kinds:
            self._object(self._kinds[message.kind], message.type, message.object)
        elif message.kind == NODES:
            if message.type == "DELETED":
                self._delete_node(message.object.metadata.name)
            else:
                self._node(message.object)
        elif message.type == "DELETED":
            self.delete_pod(message.object.metadata.uid)
        else:
            self._pod(message.object)

    def _listed(self, message: ListResult[Any]) -> None:
        if message.kind == NODES:
            self._nodes_listed(message.objects)
        elif message.kind == PODS:
            self._pods_listed(message.objects)
        else:
            self._objects_listed(message)

    def _objects_listed(self, message: ListResult[Any]) -> None:
        kind = self._kinds[message.kind]
        before = {_key(obj): obj for obj in self.objects.all(kind)}
        after = {_key(obj): obj for obj in message.objects}
        self.objects.replace_all(kind, message.objects)
        self.absent.pop(message.kind, None)
        if message.absent:
            self.absent[message.kind] = Reason("absent-kind", {"kind": message.kind})
        if message.kind in self._listed_once:  # changes that the watch missed
            for key in {**before, **after}:
                if before.get(key) != after.get(key):
                    self.requeue_for(kind, before.get(key), after.get(key))

    def _object(self, kind: type[Object], change: str, obj: Object) -> None:
        """Apply the change of an object that is neither a node nor a pod, and requeue the pods that it may help."""
        old = self.objects.get(kind, obj.metadata.name, obj.metadata.namespace)
        if change == "DELETED":
            self.objects.remove(obj)
            self.requeue_for(kind, old or obj, None)
        else:
            self.objects.set(obj)
            self.requeue_for(kind, old, obj)

    def requeue_for(self, kind: type[Object], old: Object | None, new: Object | None) -> None:
        """Requeue the pods that the change of an object may help. `old` None: it is new; `new` None: it is deleted."""
        action = ActionType.ADD if old is None else ActionType.DELETE if new is None else ActionType.UPDATE
        event = find_object_event(kind.__name__, action)
        if event is not None:
            self.queue.move_all_to_active_or_backoff_queue(event, self._clock(), old, new)

    def _nodes_listed(self, nodes: Iterable[Node]) -> None:
        listed = {node.metadata.name: node for node in nodes}
        for name in self.cache.node_names():
            if name not in listed:
                self._delete_node(name)
        for node in listed.values():
            self._node(node)

    def _node(self, node: Node) -> None:
        node = _with_annotations(node, self._annotations)
        old = self.cache.node(node.metadata.name)
        events = list_node_events(old, node)
        if old is None:
            klog.info(3, "Add event for node", node=node.metadata.name)
        if old is None or columns_differ(old, node):
            self.cache.set_node(node)
        else:
            self.cache.refresh_node(node)
        for event in events:
            self.queue.move_all_to_active_or_backoff_queue(event, self._clock(), old, node)

    def _delete_node(self, name: str) -> None:
        old = self.cache.node(name)
        self.cache.remove_node(name)
        klog.info(3, "Delete event for node", node=name)
        if old is not None:
            self.queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_DELETE, self._clock(), old, None)

    def _pods_listed(self, pods: Iterable[Pod]) -> None:
        listed = {pod.metadata.uid: pod for pod in pods}
        for uid in [*self.cache.pod_uids(), *(queued.uid for queued in self.queue), *self._in_flight]:
            if uid not in listed:
                self.delete_pod(uid)
        for uid in self.cache.assumed_uids() - listed.keys() - self._in_flight.keys():
            self.delete_pod(uid)  # bound and deleted while the watch was interrupted
        for pod in listed.values():
            self._pod(pod)

    def _pod(self, pod: Pod) -> None:
        """Apply the state of an added or changed pod to the cache and the queue.

        A finished pod is removed from both. A pod with a node is counted on it. A pod of another scheduler is removed
        from the queue, and any other pod is added to the queue or updated there.
        """
        uid, now = pod.metadata.uid, self._clock()
        if pod.status.phase in FINISHED_PHASES:
            self.delete_pod(uid)
        elif pod.spec.node_name:
            self._pod_on_node(PodInfo(pod, running=True))
        elif pod.spec.scheduler_name not in self._scheduler_names:
            self.queue.delete(uid)
            self.nominator.remove(uid)
            self._pod_groups.remove_pod(uid)
        elif self.queue.get(uid) is not None:
            self._pod_changed(PodInfo(pod))
        elif not self.cache.is_counted(uid):
            added = PodInfo(pod)
            self._pod_groups.set_pod(added)
            self.queue.add(added, now, time.time_ns() // 1000)
            self.nominator.update_from_status(added)
            if self._schedules_gangs and added.pod_group is not None:  # it may complete its group
                self.queue.move_all_to_active_or_backoff_queue(ClusterEvent.WAITING_POD_ADD, now, None, added)

    def _pod_on_node(self, pod: PodInfo) -> None:
        self.queue.delete(pod.uid)
        self.nominator.remove(pod.uid)
        self._pod_groups.set_pod(pod)
        old = None if self.cache.is_assumed(pod.uid) else self.cache.pod(pod.uid)
        self.cache.set_pod(pod)
        for event in list_pod_events(old, pod):
            self.queue.move_all_to_active_or_backoff_queue(event, self._clock(), old, pod)

    def _pod_changed(self, pod: PodInfo) -> None:
        """Replace the object of a pod that is in the queue or in flight.

        If the pod lost its nominated node, requeue the pods that may use the capacity that was reserved for it.
        """
        queued = self.queue.get(pod.uid)
        assert queued is not None
        old = queued.pod
        self._pod_groups.set_pod(pod)
        self.queue.update(pod, self._clock())
        flight = self._in_flight.get(pod.uid)
        if flight is not None:
            self.nominator.note_status(pod)
            if pod.terminating and self.cache.is_assumed(pod.uid):  # no binding will succeed now
                self._remove_from_node(pod.uid)
            return
        self.nominator.update_from_status(pod)
        if old.pod.status.nominated_node_name not in ("", pod.pod.status.nominated_node_name):
            self._requeue_after_nomination(old)

    def delete_pod(self, uid: str) -> None:
        """Remove a deleted or finished pod from the queue, the nominated pods and the cache.

        Requeue pods that this may help.
        """
        queued, flight = self.queue.delete(uid), self._in_flight.get(uid)
        self.nominator.remove(uid)
        self._pod_groups.remove_pod(uid)
        if flight is not None:
            flight.deleted = True
        if self.cache.is_counted(uid):
            self._remove_from_node(uid)
        elif queued is not None and queued.pod.pod.status.nominated_node_name:
            self._requeue_after_nomination(queued.pod)

    def requeue_after_removal(self, pod: PodInfo, node: str) -> None:
        """Requeue the pods that may fit now that `pod`, bound or assumed, no longer counts on `node`."""
        spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
        was = PodInfo(msgspec.structs.replace(pod.pod, spec=spec), running=True)
        self.queue.move_all_to_active_or_backoff_queue(
            ClusterEvent.POD_DELETE, self._clock(), was, None, among=lambda other: other.uid != pod.uid
        )

    def _remove_from_node(self, uid: str) -> None:
        pod, node = self.cache.pod(uid), self.cache.node_of(uid)
        assert pod is not None
        assert node is not None
        self.cache.remove_pod(uid)
        self.requeue_after_removal(pod, node)

    def _requeue_after_nomination(self, pod: PodInfo) -> None:
        """Requeue pods of equal or lower priority after `pod` lost its nominated node.

        Capacity was reserved for `pod` on that node, which these pods may use now.
        """
        self.queue.move_all_to_active_or_backoff_queue(
            ClusterEvent.POD_DELETE, self._clock(), pod, None, among=lambda p: p.priority <= pod.priority
        )


def _with_annotations(node: Node, keys: frozenset[str]) -> Node:
    """Return the node with only those annotations whose key is in `keys`."""
    annotations = node.metadata.annotations
    if not annotations:
        return node
    declared = {key: annotations[key] for key in keys if key in annotations} or None
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, annotations=declared))


def _key(obj: Object) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
