"""Owns: the objects, the one version counter, and the bounded history of changes that watches replay.

    insert ─┐
    modify ─┼─> Version (immutable, encoded once) ──> Collection.items
    remove ─┘                                    └──> Collection.history ──notify──> watches

Does not own: what a valid object is, HTTP, selectors.
Invariants: a Version never changes after it is stored; versions grow by one per change over all collections; under the
lock, items and history agree with the counter.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from herodotus_sim import errors, views
from herodotus_sim.kinds import Kind
from herodotus_sim.options import MAX_EVENTS, MAX_OBJECTS
from herodotus_sim.wire import Object, encode

Key = tuple[str, str]
"""Namespace ('' for cluster-scoped objects) and name: kube-apiserver's list order."""


class Version:
    """One version of one object, in storage form: without `kind` and `apiVersion`."""

    __slots__ = ("_bodies", "key", "obj", "version")

    def __init__(self, key: Key, obj: Object, version: int) -> None:
        self.key = key
        self.obj = obj
        self.version = version
        self._bodies: dict[str, bytes] = {}

    def view(self, kind: Kind) -> Object:
        """The object as this kind's group shows it, complete with its type."""
        return {**kind.type_meta, **views.shown(kind, self.obj)}

    def item(self, kind: Kind) -> bytes:
        """Encoded without its type, as an item of a list."""
        body = self._bodies.get(kind.group)
        if body is None:
            body = self._bodies[kind.group] = encode(views.shown(kind, self.obj))
        return body

    def encoded(self, kind: Kind) -> bytes:
        """Encoded with its type."""
        return b'{"kind":"%b","apiVersion":"%b",%b' % (
            kind.kind.encode(),
            kind.api_version.encode(),
            self.item(kind)[1:],
        )


class Change:
    """One entry of the history. A DELETED change carries the last object under the version of the deletion."""

    __slots__ = ("_lines", "current", "previous", "type")

    def __init__(self, type_: str, current: Version, previous: Version | None) -> None:
        self.type = type_
        self.current = current
        self.previous = previous
        self._lines: dict[str, bytes] = {}

    @property
    def version(self) -> int:
        """The version at which it happened."""
        return self.current.version

    def line(self, kind: Kind) -> bytes:
        """The watch event, encoded once for all watches that see this change as it is."""
        line = self._lines.get(kind.group)
        if line is None:
            line = self._lines[kind.group] = watch_line(self.type, self.current.encoded(kind))
        return line


def watch_line(type_: str, encoded: bytes) -> bytes:
    """One event of a watch stream."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), encoded)


class Collection:
    """All objects of one storage, and what happened to them."""

    def __init__(self, lock: threading.RLock, history_limit: int, version: int) -> None:
        self.items: dict[Key, Version] = {}
        self.changed = threading.Condition(lock)
        self.history: list[Change] = []
        self.dropped = 0
        """How many changes the history has forgotten: the sequence of `history[0]`."""
        self.floor = version
        """Changes up to this version are forgotten."""
        self._limit = history_limit
        self._sorted: list[Version] | None = []

    def ordered(self) -> list[Version]:
        """Every object in list order. The list is never changed afterwards."""
        if self._sorted is None:
            self._sorted = [self.items[key] for key in sorted(self.items)]
        return self._sorted

    def sequence_after(self, version: int) -> int:
        """Where a reader that knows `version` goes on reading."""
        return self.dropped + bisect_right(self.history, version, key=attrgetter("version"))

    def record(self, change: Change) -> None:
        """Add a change and wake the watches."""
        self._sorted = None
        self.history.append(change)
        if len(self.history) > self._limit + self._limit // 4:  # cutting in slices keeps an append cheap
            self.forget(len(self.history) - self._limit)
        self.changed.notify_all()

    def forget(self, count: int) -> None:
        """Drop the oldest changes."""
        if count > 0:
            self.floor = self.history[count - 1].version
            self.dropped += count
            del self.history[:count]


class Store:
    """Every collection under one lock and one counter."""

    def __init__(self, history_limit: int) -> None:
        self.lock = threading.RLock()
        self.stopping = False
        # Above every version of an earlier run: a client of that run gets 410 and lists again.
        self.version = time.time_ns() // 1_000_000
        self._start = self.version
        self._history_limit = history_limit
        self._collections: dict[str, Collection] = {}

    def collection(self, kind: Kind) -> Collection:
        """Where objects of this kind are kept. Both kinds of Event share one."""
        with self.lock:
            found = self._collections.get(kind.plural)
            if found is None:
                found = Collection(self.lock, self._history_limit, self._start)
                self._collections[kind.plural] = found
            return found

    def find(self, kind: Kind, namespace: str, name: str) -> Version | None:
        """The object, or None."""
        return self.collection(kind).items.get((namespace, name))

    def get(self, kind: Kind, namespace: str, name: str) -> Version:
        """The object; raises NotFound."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise errors.not_found(kind, name)
        return found

    def ordered(self, kind: Kind) -> list[Version]:
        """Every object of a kind in list order. The list is never changed afterwards."""
        with self.lock:
            return self.collection(kind).ordered()

    def insert(self, kind: Kind, obj: Object, dry_run: bool = False) -> Version:
        """Store a new object, in storage form and complete but for its version."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        with self.lock:
            collection = self.collection(kind)
            if key in collection.items:
                raise errors.already_exists(kind, meta["name"])
            if sum(len(c.items) for c in self._collections.values()) >= MAX_OBJECTS:
                raise errors.too_many(f"the simulated cluster holds {MAX_OBJECTS} objects, its limit")
            if dry_run:
                return Version(key, obj, self.version)
            if kind.plural == "events" and len(collection.items) >= MAX_EVENTS:
                self._remove(collection, next(iter(collection.items.values())))
            current = self._stamp(key, obj)
            collection.items[key] = current
            collection.record(Change("ADDED", current, None))
            return current

    def modify(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Version], Object], dry_run: bool = False
    ) -> Version:
        """Replace an object by what `change` makes of it, atomically. The same object again is no change."""
        with self.lock:
            collection = self.collection(kind)
            previous = self.get(kind, namespace, name)
            obj = change(previous)
            if obj is previous.obj or obj == previous.obj:
                return previous
            if dry_run:
                return Version(previous.key, obj, previous.version)
            meta = obj["metadata"]
            if meta.get("deletionTimestamp") and not meta.get("finalizers"):
                return self._remove(collection, Version(previous.key, obj, previous.version))
            current = self._stamp(previous.key, obj)
            collection.items[previous.key] = current
            collection.record(Change("MODIFIED", current, previous))
            return current

    def remove(self, kind: Kind, namespace: str, name: str) -> Version:
        """Take an object away. Returns its last version."""
        with self.lock:
            return self._remove(self.collection(kind), self.get(kind, namespace, name))

    def compact(self) -> None:
        """Forget all history: every version before now is expired."""
        with self.lock:
            for collection in self._collections.values():
                collection.forget(len(collection.history))
                collection.floor = self.version

    def stop(self) -> None:
        """Wake every watch so that it ends."""
        with self.lock:
            self.stopping = True
            self.wake()

    def wake(self) -> None:
        """Make every idle watch look at what became of its client."""
        with self.lock:
            for collection in self._collections.values():
                collection.changed.notify_all()

    def _stamp(self, key: Key, obj: Object) -> Version:
        self.version += 1
        meta = {**obj["metadata"], "resourceVersion": str(self.version)}
        return Version(key, {**obj, "metadata": meta}, self.version)

    def _remove(self, collection: Collection, previous: Version) -> Version:
        before = collection.items.pop(previous.key)
        current = self._stamp(previous.key, previous.obj)
        collection.record(Change("DELETED", current, before))
        return current
