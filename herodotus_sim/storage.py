"""Storage of all objects, with one resource version counter and the bounded history of changes that watches replay.

    insert ────────────┐
    guaranteed_update ─┼─> StoredObject (immutable, encoded once) ──> WatchCache.items
    remove ────────────┘                                        └──> WatchCache.history ──notify──> watches

Owns: the objects, the version counter, the history. Does not own: what a valid object is, HTTP, selectors.

Invariants: a StoredObject never changes after it is stored. Every change of any resource increments the version by one.
Under the lock, items and history agree with the counter.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from herodotus_sim import errors
from herodotus_sim.kinds import EVENT_V1, ApiResource
from herodotus_sim.options import MAX_EVENTS, MAX_OBJECTS
from herodotus_sim.wire import Object, encode

# The events.k8s.io/v1 name of each field of a core/v1 Event, which is the stored form.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _RENAMED.items()}

Key = tuple[str, str]
"""Namespace ('' for cluster-scoped objects) and name: kube-apiserver's list order."""


def from_storage_form(kind: ApiResource, obj: Object) -> Object:
    """Return a stored object with the field names of the given resource, which differ only for events.k8s.io/v1."""
    if kind is not EVENT_V1:
        return obj
    return {_RENAMED.get(name, name): value for name, value in obj.items()}


def to_storage_form(kind: ApiResource, obj: Object) -> Object:
    """Return an object as it is stored: without kind and apiVersion, and Events with the field names of core/v1."""
    names = _CORE_NAMES if kind is EVENT_V1 else {}
    return {names.get(name, name): value for name, value in obj.items() if name not in ("kind", "apiVersion")}


class StoredObject:
    """One version of an object as it is stored: without `kind` and `apiVersion`, and never changed."""

    __slots__ = ("_bodies", "key", "obj", "version")

    def __init__(self, key: Key, obj: Object, version: int) -> None:
        self.key = key
        self.obj = obj
        self.version = version
        self._bodies: dict[str, bytes] = {}

    def to_object(self, kind: ApiResource) -> Object:
        """Return the object as clients of this resource see it, with `kind` and `apiVersion`."""
        return {**kind.type_meta, **from_storage_form(kind, self.obj)}

    def encode_item(self, kind: ApiResource) -> bytes:
        """Return the object as JSON without `kind` and `apiVersion`, as an item of a list; the bytes are cached."""
        body = self._bodies.get(kind.group)
        if body is None:
            body = self._bodies[kind.group] = encode(from_storage_form(kind, self.obj))
        return body

    def encode_object(self, kind: ApiResource) -> bytes:
        """Return the object as JSON, with `kind` and `apiVersion`."""
        return b'{"kind":"%b","apiVersion":"%b",%b' % (
            kind.kind.encode(),
            kind.api_version.encode(),
            self.encode_item(kind)[1:],
        )


class WatchChange:
    """One change of an object, as the history of a resource holds it for watches.

    `type` is ADDED, MODIFIED or DELETED. A DELETED change holds the last object with the version of the deletion.
    """

    __slots__ = ("_lines", "current", "previous", "type")

    def __init__(self, type_: str, current: StoredObject, previous: StoredObject | None) -> None:
        self.type = type_
        self.current = current
        self.previous = previous
        self._lines: dict[str, bytes] = {}

    @property
    def version(self) -> int:
        """Return the resource version of the change."""
        return self.current.version

    def encode_event(self, kind: ApiResource) -> bytes:
        """Return the change as one line of a watch stream; the bytes are cached, so that many watches share them."""
        line = self._lines.get(kind.group)
        if line is None:
            line = self._lines[kind.group] = encode_watch_event(self.type, self.current.encode_object(kind))
        return line


def encode_watch_event(type_: str, encoded: bytes) -> bytes:
    """Return one line of a watch stream: an event of the given type with an object that is already encoded as JSON."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), encoded)


class WatchCache:
    """The current objects of one resource and the history of their changes."""

    def __init__(self, history_limit: int, version: int, lock: threading.RLock, report: Callable[[WatchChange], None]):
        """Create an empty cache at resource version `version`, which retains at least `history_limit` changes.

        `lock` is the storage's lock. `report` is called under it with each change.
        """
        self.items: dict[Key, StoredObject] = {}
        self.changed = threading.Condition(lock)
        self.history: list[WatchChange] = []
        self.first_sequence = 0
        """The number of discarded changes, which is the sequence number of `history[0]`."""
        self.compacted_version = version
        """Changes up to this version are discarded."""
        self._limit = history_limit
        self._report = report
        self._sorted: list[StoredObject] | None = []

    def list_sorted(self) -> list[StoredObject]:
        """Return every current object, sorted by namespace and name, in a list that must not be changed."""
        if self._sorted is None:
            self._sorted = [self.items[key] for key in sorted(self.items)]
        return self._sorted

    def sequence_after(self, version: int) -> int:
        """Return the sequence number of the first change after a resource version.

        The changes of the resource are numbered from 0, discarded ones included.
        """
        return self.first_sequence + bisect_right(self.history, version, key=attrgetter("version"))

    def append(self, change: WatchChange) -> None:
        """Append a change to the history, wake the watches and report the change to the event handlers."""
        self._sorted = None
        self.history.append(change)
        if len(self.history) > self._limit + self._limit // 4:  # Discarding many at once keeps an append cheap.
            self.discard_oldest(len(self.history) - self._limit)
        self.changed.notify_all()
        self._report(change)

    def discard_oldest(self, count: int) -> None:
        """Discard the `count` oldest changes of the history."""
        if count > 0:
            self.compacted_version = self.history[count - 1].version
            self.first_sequence += count
            del self.history[:count]


class ObjectStorage:
    """The objects and change histories of all resources, under one lock and one resource version counter."""

    def __init__(self, history_limit: int) -> None:
        self.lock = threading.RLock()
        self.stopping = False
        # Above every version of an earlier run: a client of that run gets 410 and lists again.
        self.version = time.time_ns() // 1_000_000
        self._start = self.version
        self._history_limit = history_limit
        self._caches: dict[str, WatchCache] = {}
        self._handlers: list[Callable[[ApiResource, WatchChange], None]] = []
        self.stopped = threading.Condition(self.lock)
        """Notified when the storage stops."""

    def watch_cache(self, kind: ApiResource) -> WatchCache:
        """Return the watch cache of a resource; core/v1 and events.k8s.io/v1 Events share one."""
        with self.lock:
            cache = self._caches.get(kind.plural)
            if cache is None:
                cache = WatchCache(self._history_limit, self._start, self.lock, partial(self._dispatch, kind))
                self._caches[kind.plural] = cache
            return cache

    def add_event_handler(self, handle: Callable[[ApiResource, WatchChange], None]) -> None:
        """Call `handle` with each later change and its resource, under the lock.

        Events are reported as core/v1 Events.
        """
        with self.lock:
            self._handlers.append(handle)

    def _dispatch(self, kind: ApiResource, change: WatchChange) -> None:
        for handle in self._handlers:
            handle(kind, change)

    def find(self, kind: ApiResource, namespace: str, name: str) -> StoredObject | None:
        """Return the stored object with this namespace and name, or None if there is none."""
        return self.watch_cache(kind).items.get((namespace, name))

    def get(self, kind: ApiResource, namespace: str, name: str) -> StoredObject:
        """Return the stored object with this namespace and name; raise StatusError 404 if there is none."""
        stored = self.find(kind, namespace, name)
        if stored is None:
            raise errors.not_found(kind, name)
        return stored

    def list_sorted(self, kind: ApiResource) -> list[StoredObject]:
        """Return every object of a resource, sorted by namespace and name, in a list that must not be changed."""
        with self.lock:
            return self.watch_cache(kind).list_sorted()

    def insert(self, kind: ApiResource, obj: Object, dry_run: bool = False) -> StoredObject:
        """Store a new object, which is in storage form, and return it with its resource version.

        With `dry_run`, nothing is stored. Raises StatusError if the object exists or a limit is reached.
        """
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        with self.lock:
            collection = self.watch_cache(kind)
            if key in collection.items:
                raise errors.already_exists(kind, meta["name"])
            if sum(len(c.items) for c in self._caches.values()) >= MAX_OBJECTS:
                raise errors.too_many(f"the simulated cluster holds {MAX_OBJECTS} objects, its limit")
            if dry_run:
                return StoredObject(key, obj, self.version)
            if kind.plural == "events" and len(collection.items) >= MAX_EVENTS:
                self._remove(collection, next(iter(collection.items.values())))
            current = self._stamp(key, obj)
            collection.items[key] = current
            collection.append(WatchChange("ADDED", current, None))
            return current

    def guaranteed_update(
        self,
        kind: ApiResource,
        namespace: str,
        name: str,
        change: Callable[[StoredObject], Object],
        dry_run: bool = False,
    ) -> StoredObject:
        """Replace an object atomically by the one that `change` returns for it, and return the stored object.

        If `change` returns an equal object, nothing is stored. An object with a deletion timestamp and no finalizers is
        removed. Raises StatusError 404 if the object does not exist.
        """
        with self.lock:
            collection = self.watch_cache(kind)
            previous = self.get(kind, namespace, name)
            obj = change(previous)
            if obj is previous.obj or obj == previous.obj:
                return previous
            if dry_run:
                return StoredObject(previous.key, obj, previous.version)
            meta = obj["metadata"]
            if meta.get("deletionTimestamp") and not meta.get("finalizers"):
                return self._remove(collection, StoredObject(previous.key, obj, previous.version))
            current = self._stamp(previous.key, obj)
            collection.items[previous.key] = current
            collection.append(WatchChange("MODIFIED", current, previous))
            return current

    def remove(self, kind: ApiResource, namespace: str, name: str) -> StoredObject:
        """Remove an object and return its last version; raise StatusError 404 if it does not exist."""
        with self.lock:
            return self._remove(self.watch_cache(kind), self.get(kind, namespace, name))

    def compact(self) -> None:
        """Discard the history of all resources, as etcd's compaction does, so that every earlier version is expired."""
        with self.lock:
            for collection in self._caches.values():
                collection.discard_oldest(len(collection.history))
                collection.compacted_version = self.version

    def stop(self) -> None:
        """End every watch, and wake the threads that wait on `stopped`, because the cluster stops."""
        with self.lock:
            self.stopping = True
            self.stopped.notify_all()
            self.wake()

    def wake(self) -> None:
        """Wake every idle watch, so that it checks whether its client is still connected."""
        with self.lock:
            for collection in self._caches.values():
                collection.changed.notify_all()

    def _stamp(self, key: Key, obj: Object) -> StoredObject:
        self.version += 1
        meta = {**obj["metadata"], "resourceVersion": str(self.version)}
        return StoredObject(key, {**obj, "metadata": meta}, self.version)

    def _remove(self, collection: WatchCache, previous: StoredObject) -> StoredObject:
        before = collection.items.pop(previous.key)
        current = self._stamp(previous.key, previous.obj)
        collection.append(WatchChange("DELETED", current, before))
        return current
