"""The cluster's other objects, as plugins look them up by kind, namespace and name.

Owns: the latest state of each object by kind, namespace and name. Does not own: watching, nodes and pods (`columns`).
Changed by the loop's thread only, between cycles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from scheduler.objects.types import Object

T = TypeVar("T", bound=Object)


class ClusterObjects:
    """Objects by kind. Kinds are the structs they decode to."""

    def __init__(self) -> None:
        self.revision = 0  # goes up with every change
        self._kinds: dict[type[Object], dict[str, dict[str, Object]]] = {}

    def set(self, obj: Object) -> None:
        """Add or replace an object."""
        self.revision += 1
        self._kinds.setdefault(type(obj), {}).setdefault(obj.metadata.namespace, {})[obj.metadata.name] = obj

    def remove(self, obj: Object) -> None:
        """Forget an object."""
        self.revision += 1
        self._kinds.get(type(obj), {}).get(obj.metadata.namespace, {}).pop(obj.metadata.name, None)

    def replace_all(self, kind: type[T], objects: Iterable[T]) -> None:
        """Everything there is of a kind."""
        self._kinds.pop(kind, None)
        self.revision += 1
        for obj in objects:
            self.set(obj)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """One object; cluster-scoped kinds have no namespace."""
        found = self._kinds.get(kind, {}).get(namespace, {}).get(name)
        return found if isinstance(found, kind) else None

    def all(self, kind: type[T]) -> list[T]:
        """Every object of a kind."""
        return [o for names in self._kinds.get(kind, {}).values() for o in names.values() if isinstance(o, kind)]

    def in_namespace(self, kind: type[T], namespace: str) -> list[T]:
        """Every object of a kind in a namespace."""
        return [o for o in self._kinds.get(kind, {}).get(namespace, {}).values() if isinstance(o, kind)]
