"""The work queue of all controllers, filled by changes of the storage.

    change ─> Ownership ─> queue of (controller, key), each at most once ─> reconcile, one after another

Owns: which controller must reconcile which object after a change, retries, delays, the thread. Does not own: what a
controller does.

Invariant: controllers are level-triggered. A reconcile reads the current state under the storage's lock, and runs again
if it fails or if that state changes. The garbage collector runs first, then the owners of pods, then Deployments, so
that a Deployment decides by the current counts of its ReplicaSets.
"""

from __future__ import annotations

import heapq
import threading
import time
import traceback
from collections.abc import Callable
from typing import Protocol

from herodotus_sim.controllers.access import ControllerClient, Ownership, owners_of
from herodotus_sim.controllers.daemon_set import DaemonSetController
from herodotus_sim.controllers.deployment import DeploymentController
from herodotus_sim.controllers.disruption import DisruptionController
from herodotus_sim.controllers.garbage_collector import GarbageCollector
from herodotus_sim.controllers.job import JobController
from herodotus_sim.controllers.node_lifecycle import NodeLifecycleController
from herodotus_sim.controllers.replica_set import ReplicaSetController
from herodotus_sim.controllers.resource_quota import ResourceQuotaController
from herodotus_sim.controllers.stateful_set import StatefulSetController
from herodotus_sim.errors import StatusError
from herodotus_sim.kinds import BY_TYPE, EVENT, KINDS, NODE, POD, POD_DISRUPTION_BUDGET, RESOURCE_QUOTA, ApiResource
from herodotus_sim.registry import ResourceRegistry
from herodotus_sim.selectors import label_predicate, selector_text
from herodotus_sim.storage import Key, StoredObject, WatchChange
from herodotus_sim.wire import Object
from herodotus_sim.workloads import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET

_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 30.0
# Which kinds adopt objects of another kind.
_ADOPTERS = {POD: (REPLICA_SET, STATEFUL_SET, JOB, DAEMON_SET), REPLICA_SET: (DEPLOYMENT,)}
_DEPEND_ON = {NODE: (DAEMON_SET,), POD: (RESOURCE_QUOTA, POD_DISRUPTION_BUDGET)}
"""The kinds whose objects are reconciled after each change of another kind, those of its namespace if it has one."""


class Controller(Protocol):
    """A controller of one kind, which brings objects of that kind to the state in their spec."""

    def reconcile(self, version: StoredObject, /) -> float:
        """Take the next step for one object, of which `version` is the stored version.

        Returns the seconds until the next check, or 0 if none is needed.
        """


Item = tuple[ApiResource | None, Key]
"""What to reconcile: an object of a kind, or for the garbage collector (None) an object it looks at."""


class ControllerManager(threading.Thread):
    """A thread that runs all controllers of the cluster from one work queue; it ends when the storage stops."""

    def __init__(self, verbs: ResourceRegistry, clock: Callable[[], float] = time.time) -> None:
        super().__init__(name="sim-controllers", daemon=True)
        self._store = verbs.store
        self._ownership = Ownership()
        access = ControllerClient(verbs, self._ownership, clock)
        self._garbage = GarbageCollector(access)
        self._controllers: dict[ApiResource, Controller] = {
            NODE: NodeLifecycleController(access),
            REPLICA_SET: ReplicaSetController(access),
            STATEFUL_SET: StatefulSetController(access),
            JOB: JobController(access),
            DAEMON_SET: DaemonSetController(access),
            RESOURCE_QUOTA: ResourceQuotaController(access),
            POD_DISRUPTION_BUDGET: DisruptionController(access),
            DEPLOYMENT: DeploymentController(access),
        }
        self._order: tuple[ApiResource | None, ...] = (None, *self._controllers)
        self._queues: dict[ApiResource | None, dict[Key, None]] = {kind: {} for kind in self._order}
        self._delayed: list[tuple[float, int, Item]] = []
        self._failures: dict[Item, int] = {}
        self._serial = 0
        self._clock = clock
        with self._store.lock:
            self._store.add_event_handler(self._handle_change)
            for kind in KINDS:
                if kind.plural != EVENT.plural:
                    for version in self._store.list_sorted(kind):
                        self._handle_change(kind, WatchChange("ADDED", version, None))

    def run(self) -> None:
        """Reconcile queued objects until the storage stops."""
        while not self._store.stopping:
            with self._store.lock:
                if not self.process_next() and not self._store.stopping:
                    wait_s = self._delayed[0][0] - self._clock() if self._delayed else None
                    if wait_s is None or wait_s > 0:
                        self._store.stopped.wait(wait_s)
            time.sleep(0)  # Let requests that wait for the lock proceed.

    def process_all(self) -> None:
        """Reconcile queued objects until none is due."""
        with self._store.lock:
            while self.process_next():
                pass

    def process_next(self) -> bool:
        """Reconcile one queued object and return True, or return False if none is due."""
        while self._delayed and self._delayed[0][0] <= self._clock():
            kind, key = heapq.heappop(self._delayed)[2]
            self._queues[kind][key] = None
        for kind in self._order:
            queue = self._queues[kind]
            if queue:
                key = next(iter(queue))
                del queue[key]
                self._reconcile(kind, key)
                return True
        return False

    def _reconcile(self, kind: ApiResource | None, key: Key) -> None:
        item = (kind, key)
        try:
            again_s = self._garbage.collect(*key) if kind is None else self._reconcile_object(kind, key)
        except Exception as error:
            failures = self._failures[item] = self._failures.get(item, 0) + 1
            if not isinstance(error, StatusError):
                traceback.print_exc()
            self._delay(item, min(_FIRST_RETRY_S * 2.0**failures, _LONGEST_RETRY_S))
            return
        self._failures.pop(item, None)
        if again_s:
            self._delay(item, again_s)

    def _reconcile_object(self, kind: ApiResource, key: Key) -> float:
        version = self._store.find(kind, *key)
        if version is None or version.obj["metadata"].get("deletionTimestamp"):
            return 0.0
        return self._controllers[kind].reconcile(version)

    def _delay(self, item: Item, seconds: float) -> None:
        self._serial += 1
        heapq.heappush(self._delayed, (self._clock() + seconds, self._serial, item))

    def _enqueue(self, kind: ApiResource | None, key: Key) -> None:
        if kind in self._queues and key not in self._queues[kind]:
            self._queues[kind][key] = None
            self._store.stopped.notify_all()

    def _handle_change(self, kind: ApiResource, change: WatchChange) -> None:
        """Enqueue every object that a controller must reconcile after this change. Called under the storage's lock."""
        if kind.plural == EVENT.plural:
            return
        self._ownership.apply(kind, change)
        if kind in self._controllers:
            self._enqueue(kind, change.current.key)
        versions = [v for v in (change.previous, change.current) if v is not None]
        for version in versions:
            for owner in owners_of(version.obj):
                of = BY_TYPE.get((owner.get("apiVersion", ""), owner.get("kind", "")))
                if of is not None and owner.get("controller"):
                    self._enqueue(of, (version.key[0] if of.namespaced else "", owner["name"]))
        for depending in _DEPEND_ON.get(kind, ()):
            for version in self._store.list_sorted(depending):
                if version.key[0] == change.current.key[0] or not kind.namespaced:
                    self._enqueue(depending, version.key)
        self._enqueue_adopters(kind, change.current)
        self._enqueue_garbage(kind, change)

    def _enqueue_garbage(self, kind: ApiResource, change: WatchChange) -> None:
        meta = change.current.obj["metadata"]
        if change.type == "DELETED":
            self._enqueue(None, (meta["uid"], ""))
            for owner in owners_of(change.current.obj):  # The owner may wait for its dependents.
                of = BY_TYPE.get((owner.get("apiVersion", ""), owner.get("kind", "")))
                if of is not None:
                    key = (change.current.key[0] if of.namespaced else "", owner["name"])
                    self._enqueue(None, (owner["uid"], _reference(of, key)))
            return
        before = [] if change.previous is None else owners_of(change.previous.obj)
        if owners_of(change.current.obj) != before or meta.get("deletionTimestamp"):
            self._enqueue(None, (meta["uid"], _reference(kind, change.current.key)))

    def _enqueue_adopters(self, kind: ApiResource, version: StoredObject) -> None:
        """Enqueue each workload whose selector matches this object, if the object has no controller."""
        if any(owner.get("controller") for owner in owners_of(version.obj)):
            return
        for adopter in _ADOPTERS.get(kind, ()):
            for workload in self._store.list_sorted(adopter):
                if workload.key[0] == version.key[0] and _selects(workload.obj, version.obj):
                    self._enqueue(adopter, workload.key)


def _reference(kind: ApiResource, key: Key) -> str:
    return "|".join((kind.api_version, kind.kind, *key))


def _selects(workload: Object, obj: Object) -> bool:
    selector = (workload.get("spec") or {}).get("selector")
    return label_predicate(selector_text(selector))(obj) if selector else False
