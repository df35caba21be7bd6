"""The cluster's objects other than nodes and pods, which plugins look up by kind, namespace and name.

The store also holds the changes that this process assumes before the API server confirms them, and a list of recent
changes, from which `Index` updates itself. Only the scheduling loop's thread changes it, between cycles.

Invariant: an assumption ends when the API server sends another version of the object than the assumed change is based
on. Source: pkg/scheduler/util/assumecache v1.36.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar, cast

from scheduler.engine.objects.types import Object

T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)
D = TypeVar("D")

MAX_CHANGES: Final = 4096  # stored changes of a kind; an index that is further behind is rebuilt


def _key(obj: Object) -> tuple[type[Object], str, str]:
    return type(obj), obj.metadata.namespace, obj.metadata.name


def _same_version(one: Object, other: Object) -> bool:
    version = one.metadata.resource_version
    return bool(version) and version == other.metadata.resource_version


class _Changes:
    """A counter of the changes to the objects of one kind, with the (namespace, name) of the latest changes."""

    def __init__(self) -> None:
        self.revision = 0
        self.recent: deque[tuple[str, str]] = deque(maxlen=MAX_CHANGES)

    def add(self, namespace: str, name: str) -> None:
        self.revision += 1
        self.recent.append((namespace, name))

    def forget(self) -> None:
        self.revision += 1
        self.recent.clear()


class ClusterObjects:
    """A store of the cluster's objects other than nodes and pods, by kind, namespace and name.

    A kind is the struct class of its objects, such as `PersistentVolume`. An assumed object, which this process changed
    before the API server confirms the change, hides the version that the API server sent.
    """

    def __init__(self) -> None:
        self.revision = 0  # increases with every change
        self._kinds: dict[type[Object], dict[str, dict[str, Object]]] = {}
        self._changes: dict[type[Object], _Changes] = {}
        self._shown: dict[tuple[type[Object], str, str], Object] = {}  # the API server's version of each assumed object
        self._derived: dict[object, object] = {}

    def set(self, obj: Object) -> None:
        """Store an object that the API server sent, which ends an assumption about the object.

        The assumption stays if the object has the resource version that the assumed change is based on.
        """
        key = _key(obj)
        shown = self._shown.get(key)
        if shown is not None and _same_version(shown, obj):
            return
        self._shown.pop(key, None)
        self._put(obj)

    def assume(self, obj: Object) -> None:
        """Store an object that this process changed, before the API server confirms the change.

        Raise KeyError if the store has no such object.
        """
        key = _key(obj)
        self._shown.setdefault(key, self._kinds[key[0]][key[1]][key[2]])
        self._put(obj)

    def restore(self, obj: Object) -> None:
        """Replace an assumed object with the version that the API server last sent.

        Do nothing if the object is not assumed.
        """
        shown = self._shown.pop(_key(obj), None)
        if shown is not None:
            self._put(shown)

    def shown(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return an object as the API server last sent it, without assumed changes, or None if it does not exist."""
        obj = self._shown.get((kind, namespace, name))
        return obj if isinstance(obj, kind) else self.get(kind, name, namespace)

    def _put(self, obj: Object) -> None:
        self.revision += 1
        self._kinds.setdefault(type(obj), {}).setdefault(obj.metadata.namespace, {})[obj.metadata.name] = obj
        self._changes_of(type(obj)).add(obj.metadata.namespace, obj.metadata.name)

    def remove(self, obj: Object) -> None:
        """Remove an object, together with an assumed change of it."""
        self._shown.pop(_key(obj), None)
        self.revision += 1
        self._kinds.get(type(obj), {}).get(obj.metadata.namespace, {}).pop(obj.metadata.name, None)
        self._changes_of(type(obj)).add(obj.metadata.namespace, obj.metadata.name)

    def replace_all(self, kind: type[T], objects: Iterable[T]) -> None:
        """Replace the stored objects of a kind with `objects`, the result of a new list request.

        An assumed object stays if the resource version that its change is based on is still the current one.
        """
        assumed = [(self._shown[k], o) for k, o in self._assumed(kind)]
        self._kinds.pop(kind, None)
        self.revision += 1
        self._changes_of(kind).forget()
        for key in [_key(o) for _, o in assumed]:
            del self._shown[key]
        for obj in objects:
            self._put(obj)
        for shown, believed in assumed:
            now = self.get(kind, believed.metadata.name, believed.metadata.namespace)
            if now is not None and _same_version(shown, now):
                self.assume(believed)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return an object with its assumed change, if any, or None if the object does not exist.

        Cluster-scoped kinds have the namespace "".
        """
        obj = self._kinds.get(kind, {}).get(namespace, {}).get(name)
        return obj if isinstance(obj, kind) else None

    def all(self, kind: type[T]) -> list[T]:
        """Return every object of a kind."""
        return [o for names in self._kinds.get(kind, {}).values() for o in names.values() if isinstance(o, kind)]

    def in_namespace(self, kind: type[T], namespace: str) -> list[T]:
        """Return every object of a kind in a namespace."""
        return [o for o in self._kinds.get(kind, {}).get(namespace, {}).values() if isinstance(o, kind)]

    def revision_of(self, kind: type[Object]) -> int:
        """Return a number that increases with every change to an object of the kind."""
        return self._changes_of(kind).revision

    def changed_since(self, kind: type[Object], revision: int) -> list[tuple[str, str]] | None:
        """Return the (namespace, name) of each change to a kind since a revision, or None if some are not stored.

        `revision` is an earlier result of `revision_of`. The store keeps only the latest changes of each kind.
        """
        changes = self._changes_of(kind)
        behind = changes.revision - revision
        if behind > len(changes.recent):
            return None
        return list(islice(changes.recent, len(changes.recent) - behind, None))

    def derived(self, build: Callable[[ClusterObjects], D]) -> D:
        """Return `build(self)`, such as an index that several plugins share; later calls return the same object."""
        if build not in self._derived:
            self._derived[build] = build(self)
        return cast(D, self._derived[build])

    def _assumed(self, kind: type[Object]) -> list[tuple[tuple[type[Object], str, str], Object]]:
        return [(key, self._kinds[kind][key[1]][key[2]]) for key in self._shown if key[0] is kind]

    def _changes_of(self, kind: type[Object]) -> _Changes:
        changes = self._changes.get(kind)
        if changes is None:
            changes = self._changes[kind] = _Changes()
        return changes


class Index(Generic[K, T]):
    """An index of the objects of one kind by the result of a key function.

    Each read first applies the changes that `ClusterObjects` recorded since the last read.
    """

    def __init__(self, objects: ClusterObjects, kind: type[T], key: Callable[[T], K]) -> None:
        self._objects = objects
        self._kind = kind
        self._key = key
        self._revision = -1
        self._key_of: dict[tuple[str, str], K] = {}
        self._found: dict[K, dict[tuple[str, str], T]] = {}

    def get(self, key: K) -> list[T]:
        """Return the objects for which the key function returns `key`, in no particular order."""
        self.catch_up()
        return list(self._found.get(key, {}).values())

    def __iter__(self) -> Iterator[K]:
        self.catch_up()
        return iter(list(self._found))

    def catch_up(self) -> None:
        """Apply the changes of the stored objects to the index now, rather than at the next read."""
        revision = self._objects.revision_of(self._kind)
        if revision == self._revision:
            return
        changed = self._objects.changed_since(self._kind, self._revision) if self._revision >= 0 else None
        self._revision = revision
        if changed is None:
            self._key_of, self._found = {}, {}
            for obj in self._objects.all(self._kind):
                self._add(obj)
            return
        for namespace, name in changed:
            old = self._key_of.pop((namespace, name), None)
            if old is not None:
                self._found[old].pop((namespace, name))
                if not self._found[old]:
                    del self._found[old]
            now = self._objects.get(self._kind, name, namespace)
            if now is not None:
                self._add(now)

    def _add(self, obj: T) -> None:
        name, key = (obj.metadata.namespace, obj.metadata.name), self._key(obj)
        self._key_of[name] = key
        self._found.setdefault(key, {})[name] = obj
