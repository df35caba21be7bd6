"""Indexes of owners and dependents, kept current by the storage's changes.

Owns: dependents by owner UID, and objects without a controller by kind and namespace. Does not own: deleting or
adopting objects. Invariant: under the storage's lock the indexes agree with the storage.
"""

from __future__ import annotations

from herodotus_sim.kinds import POD, ApiResource
from herodotus_sim.storage import Key, StoredObject, WatchChange
from herodotus_sim.wire import Object
from herodotus_sim.workloads import REPLICA_SET

Reference = tuple[ApiResource, Key]
# Kinds that a controller adopts if its selector matches them.
_ADOPTED = (POD, REPLICA_SET)


def owners_of(obj: Object) -> list[Object]:
    """Return the owner references of an object, an empty list if it has none."""
    return obj["metadata"].get("ownerReferences") or []


def find_controller(obj: Object) -> Object | None:
    """Return the object's owner reference that has `controller: true`, or None if there is none."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


def owner_reference(kind: ApiResource, owner: Object) -> Object:
    """Return the owner reference that a controller sets on objects that it creates or adopts for this owner."""
    meta = owner["metadata"]
    named = {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


class Ownership:
    """Indexes of dependents by owner UID, and of pods and ReplicaSets without a controller."""

    def __init__(self) -> None:
        self._dependents: dict[str, dict[Reference, StoredObject]] = {}
        self._uncontrolled: dict[tuple[ApiResource, str], dict[Key, StoredObject]] = {}

    def apply(self, kind: ApiResource, change: WatchChange) -> None:
        """Update the indexes with one change of the storage."""
        if change.previous is not None:
            self._remove(kind, change.previous)
        if change.type != "DELETED":
            self._add(kind, change.current)

    def dependents(self, uid: str) -> list[tuple[ApiResource, StoredObject]]:
        """Return the kind and version of every object that names the owner with this UID in its owner references.

        They are in the order in which they were last changed.
        """
        found = self._dependents.get(uid, {})
        return [(kind, version) for (kind, _), version in found.items()]

    def controlled(self, uid: str, kind: ApiResource) -> list[StoredObject]:
        """Return the objects of a kind whose controller is the owner with this UID."""
        found = (version for of, version in self.dependents(uid) if of is kind)
        return [v for v in found if (find_controller(v.obj) or {}).get("uid") == uid]

    def uncontrolled(self, kind: ApiResource, namespace: str) -> list[StoredObject]:
        """Return the pods or ReplicaSets of a namespace that have no controller."""
        return list(self._uncontrolled.get((kind, namespace), {}).values())

    def _add(self, kind: ApiResource, version: StoredObject) -> None:
        for owner in owners_of(version.obj):
            self._dependents.setdefault(owner["uid"], {})[kind, version.key] = version
        if kind in _ADOPTED and find_controller(version.obj) is None:
            self._uncontrolled.setdefault((kind, version.key[0]), {})[version.key] = version

    def _remove(self, kind: ApiResource, version: StoredObject) -> None:
        for owner in owners_of(version.obj):
            found = self._dependents.get(owner["uid"], {})
            found.pop((kind, version.key), None)
            if not found:
                self._dependents.pop(owner["uid"], None)
        place = (kind, version.key[0])
        if place in self._uncontrolled:
            self._uncontrolled[place].pop(version.key, None)
