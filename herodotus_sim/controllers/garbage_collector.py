"""The garbage collector: deletes objects whose owners are deleted, and completes foreground and orphan deletion.

Does not own: adding the finalizers (`registry`). Invariant: an object with an owner that exists, or whose kind is
unsupported here, is never deleted.
"""

from __future__ import annotations

from herodotus_sim.controllers.access import ControllerClient, owners_of, without_owner
from herodotus_sim.kinds import BY_TYPE, ApiResource
from herodotus_sim.registry import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object


class GarbageCollector:
    """The garbage collector of one cluster: deletes objects whose owners no longer exist."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def collect(self, uid: str, reference: str) -> float:
        """Delete an object whose owners no longer exist, or continue its deletion.

        Returns 0.0: no later check is needed. `uid` is the object's UID. `reference` is `API
        VERSION|KIND|NAMESPACE|NAME`. If it is "", the object was deleted, and its dependents are processed instead.
        """
        if not reference:
            for kind, version in self._access.ownership.dependents(uid):
                self._delete_unowned(kind, version)
            return 0.0
        api_version, name_of_kind, namespace, name = reference.split("|")
        kind = BY_TYPE[api_version, name_of_kind]
        stored = self._access.store.find(kind, namespace, name)
        if stored is None or stored.obj["metadata"]["uid"] != uid:
            return 0.0
        finalizers = stored.obj["metadata"].get("finalizers") or []
        if stored.obj["metadata"].get("deletionTimestamp"):
            if ORPHAN_FINALIZER in finalizers:
                self._orphan_dependents(uid)
                self._finish(kind, stored, ORPHAN_FINALIZER)
            elif FOREGROUND_FINALIZER in finalizers and self._delete_dependents(uid):
                self._finish(kind, stored, FOREGROUND_FINALIZER)
        else:
            self._delete_unowned(kind, stored)
        return 0.0

    def _delete_unowned(self, kind: ApiResource, version: StoredObject) -> None:
        """Delete an object if none of its owners exists any more; otherwise remove its references to deleted owners."""
        owners = owners_of(version.obj)
        absent = [owner for owner in owners if not self._exists(owner, version.key[0])]
        if not absent:
            return
        if len(absent) == len(owners):
            self._access.delete(kind, version)
            return
        for owner in absent:
            uid = owner["uid"]
            self._access.update(kind, version, lambda obj, uid=uid: without_owner(obj, uid))  # type: ignore[misc]

    def _exists(self, owner: Object, namespace: str) -> bool:
        kind = BY_TYPE.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if kind is None:
            return True
        stored = self._access.store.find(kind, namespace if kind.namespaced else "", owner["name"])
        return stored is not None and stored.obj["metadata"]["uid"] == owner["uid"]

    def _orphan_dependents(self, uid: str) -> None:
        for kind, version in self._access.ownership.dependents(uid):
            self._access.update(kind, version, lambda obj: without_owner(obj, uid))

    def _delete_dependents(self, uid: str) -> bool:
        """Delete an owner's dependents with foreground propagation.

        Return whether no dependent with `blockOwnerDeletion` is left, so that the owner can be deleted.
        """
        for kind, version in self._access.ownership.dependents(uid):
            if not version.obj["metadata"].get("deletionTimestamp"):
                self._access.delete_in_foreground(kind, version)
        return not any(
            owner["uid"] == uid and owner.get("blockOwnerDeletion")
            for _, version in self._access.ownership.dependents(uid)
            for owner in owners_of(version.obj)
        )

    def _finish(self, kind: ApiResource, version: StoredObject, finalizer: str) -> None:
        """Remove a finalizer from an object that is being deleted; if it was the last one, the object is removed."""

        def finished(old: StoredObject) -> Object:
            meta = old.obj["metadata"]
            left = [f for f in meta.get("finalizers") or [] if f != finalizer]
            metadata = {k: v for k, v in meta.items() if k != "finalizers"} | ({"finalizers": left} if left else {})
            return {**old.obj, "metadata": metadata}

        self._access.store.guaranteed_update(kind, *version.key, finished)
