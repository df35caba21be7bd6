"""The client of the controllers: reads and writes the storage through kube-apiserver's rules.

Owns: creating, updating and deleting on behalf of a controller, adopting and releasing, events, and the indexes of
owners and dependents. Does not own: deciding what to write. Invariants: a status is written only if it changed, so that
a settled cluster causes no events. Under the storage's lock the indexes agree with the storage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone

from herodotus_sim import errors
from herodotus_sim.kinds import EVENT, POD, ApiResource
from herodotus_sim.registry import ResourceRegistry
from herodotus_sim.selectors import label_predicate, selector_text
from herodotus_sim.storage import Key, StoredObject, WatchChange
from herodotus_sim.strategy import now, prepare_for_update
from herodotus_sim.wire import Object
from herodotus_sim.workloads import REPLICA_SET

# Generated names collide once in 27^5 pairs; kube-apiserver also tries eight times.
_NAME_ATTEMPTS = 8

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
        dependents = self._dependents.get(uid, {})
        return [(kind, version) for (kind, _), version in dependents.items()]

    def controlled(self, uid: str, kind: ApiResource) -> list[StoredObject]:
        """Return the objects of a kind whose controller is the owner with this UID."""
        dependents = (version for of, version in self.dependents(uid) if of is kind)
        return [v for v in dependents if (find_controller(v.obj) or {}).get("uid") == uid]

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
            dependents = self._dependents.get(owner["uid"], {})
            dependents.pop((kind, version.key), None)
            if not dependents:
                self._dependents.pop(owner["uid"], None)
        place = (kind, version.key[0])
        if place in self._uncontrolled:
            self._uncontrolled[place].pop(version.key, None)


class ControllerClient:
    """A controller's access to the objects of one cluster.

    Every method must be called under the storage's lock.
    """

    def __init__(self, verbs: ResourceRegistry, ownership: Ownership, clock: Callable[[], float] = time.time) -> None:
        self.verbs = verbs
        self.store = verbs.store
        self.ownership = ownership
        self.clock = clock

    def create(self, kind: ApiResource, namespace: str, obj: Object) -> StoredObject:
        """Create an object as a client would, with further attempts if a generated name exists. Raises StatusError."""
        for attempt in range(_NAME_ATTEMPTS):
            try:
                return self.verbs.insert(kind, namespace, obj)
            except errors.StatusError as error:
                generated = not obj["metadata"].get("name") and error.reason == "AlreadyExists"
                if not generated or attempt == _NAME_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def delete(self, kind: ApiResource, version: StoredObject) -> None:
        """Delete an object, or do nothing if it no longer exists."""
        if self.store.find(kind, *version.key) is not None:
            self.verbs.remove(kind, version)

    def delete_in_foreground(self, kind: ApiResource, version: StoredObject) -> None:
        """Delete an object with foreground propagation: its dependents are deleted before it."""
        self.verbs.remove_with_dependents(kind, version, "Foreground")

    def update(self, kind: ApiResource, version: StoredObject, change: Callable[[Object], Object]) -> StoredObject:
        """Replace an object's metadata and spec by those that `change` returns for it; return the stored object.

        The status stays. If nothing differs, nothing is stored.
        """

        def changed(old: StoredObject) -> Object:
            new = change(old.obj)
            meta = {k: v for k, v in new["metadata"].items() if k != "resourceVersion"}
            after = prepare_for_update(kind, old, {**new, "metadata": meta}, "")
            return old.obj if _same(old.obj, after) else after

        return self.store.guaranteed_update(kind, *version.key, changed)

    def update_status(self, kind: ApiResource, version: StoredObject, status: Object) -> StoredObject:
        """Replace the object's status and return the stored object; an equal status is not stored again."""
        return self.store.guaranteed_update(kind, *version.key, lambda old: {**old.obj, "status": status})

    def annotate(self, kind: ApiResource, version: StoredObject, annotations: Object) -> StoredObject:
        """Add or replace annotations of an object and return the stored object."""

        def annotated(obj: Object) -> Object:
            meta = obj["metadata"]
            return {**obj, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}}

        return self.update(kind, version, annotated)

    def claim(self, owner_kind: ApiResource, owner: StoredObject, kind: ApiResource) -> list[StoredObject]:
        """Return the objects of a kind that the owner controls, after adopting and releasing objects by its selector.

        Objects without a controller that match the selector are adopted; controlled ones that no longer match are
        released.
        """
        matches = label_predicate(selector_text(owner.obj["spec"].get("selector") or {}))
        uid = owner.obj["metadata"]["uid"]
        claimed = []
        for version in self.ownership.controlled(uid, kind):
            if matches(version.obj) or version.obj["metadata"].get("deletionTimestamp"):
                claimed.append(version)
            else:
                self.update(kind, version, lambda obj: without_owner(obj, uid))
        reference = owner_reference(owner_kind, owner.obj)
        loose = [v for v in self.ownership.uncontrolled(kind, owner.key[0]) if matches(v.obj) and is_active(v.obj)]
        return claimed + [self.update(kind, version, lambda obj: _with_owner(obj, reference)) for version in loose]

    def record(self, kind: ApiResource, obj: Object, reason: str, message: str, type_: str = "Normal") -> None:
        """Create an Event about an object, in the name of its kind's controller."""
        meta, stamp = obj["metadata"], now()
        component = f"{kind.kind.lower()}-controller"
        about = {"kind": kind.kind, "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        self.verbs.insert(EVENT, meta["namespace"], {
            "metadata": {"name": f"{meta['name']}.{time.time_ns():x}"},
            "involvedObject": {**about, "apiVersion": kind.api_version, "resourceVersion": meta["resourceVersion"]},
            "reason": reason, "message": message, "type": type_, "count": 1,
            "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
            "firstTimestamp": stamp, "lastTimestamp": stamp, "eventTime": None,
        })  # fmt: skip

    def create_pod(
        self,
        kind: ApiResource,
        owner: StoredObject,
        template: Object,
        name: str = "",
        name_prefix: str = "",
        **labels: str,
    ) -> StoredObject:
        """Create a pod from a pod template, with an owner reference to `owner`, and record an Event about it.

        Without `name`, the pod gets a generated name, from `name_prefix` or else from the name of its owner. `labels`
        are added to the template's labels.
        """
        head = template.get("metadata") or {}
        meta = {k: v for k, v in head.items() if k in ("annotations", "finalizers") and v}
        meta["labels"] = {**(head.get("labels") or {}), **labels}
        meta["generateName"] = f"{name_prefix or owner.key[1]}-"
        if name:
            meta["name"] = name
        meta["ownerReferences"] = [owner_reference(kind, owner.obj)]
        try:
            created = self.create(POD, owner.key[0], {"metadata": meta, "spec": template["spec"]})
        except errors.StatusError as error:
            self.record(kind, owner.obj, "FailedCreate", f"Error creating: {error.message}", "Warning")
            raise
        self.record(kind, owner.obj, "SuccessfulCreate", f"Created pod: {created.key[1]}")
        return created

    def delete_pod(self, kind: ApiResource, owner: StoredObject, pod: StoredObject) -> None:
        """Delete a pod on behalf of its owner and record an Event about it on the owner."""
        self.delete(POD, pod)
        self.record(kind, owner.obj, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")

    def availability(self, pod: Object, min_ready_s: int) -> tuple[bool, float]:
        """Return whether a pod has been ready for `min_ready_s` and, if not, the seconds until it may be.

        The seconds are 0 if the pod is available, or if it is not ready, so that no time is known.
        """
        ready = find_condition(pod, "Ready")
        if ready is None or ready.get("status") != "True" or not is_active(pod):
            return False, 0.0
        if not min_ready_s:
            return True, 0.0
        left = parse_timestamp(ready.get("lastTransitionTime")) + min_ready_s - self.clock()
        return left <= 0, max(left, 0.0)


def _same(before: Object, after: Object) -> bool:
    return {k: v for k, v in before.items() if k != "metadata"} == {
        k: v for k, v in after.items() if k != "metadata"
    } and _meta(before) == _meta(after)


def _meta(obj: Object) -> Object:
    return {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields") and v}


def without_owner(obj: Object, uid: str) -> Object:
    """Return an object without its reference to the owner with this UID."""
    left = [owner for owner in owners_of(obj) if owner["uid"] != uid]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": left or None}}


def _with_owner(obj: Object, reference: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [*owners_of(obj), reference]}}


def is_active(obj: Object) -> bool:
    """Return whether a pod has not ended and is not being deleted; true for other objects."""
    ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not obj["metadata"].get("deletionTimestamp")


def is_ready(pod: Object) -> bool:
    """Return whether the pod's Ready condition is True."""
    ready = find_condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def find_condition(obj: Object, type_: str) -> Object | None:
    """Return the status condition of the given type, or None if the object has no such condition."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == type_), None)


def with_condition(conditions: list[Object], new: Object, time_s: float) -> list[Object]:
    """Return the status conditions with `new` added, or in place of the one of its type.

    `lastTransitionTime` is set to `time_s` only if the condition's status changed. If nothing changed, the same list is
    returned.
    """
    old = next((c for c in conditions if c.get("type") == new["type"]), None)
    if old is not None and all(old.get(k) == new.get(k) for k in ("status", "reason", "message")):
        return conditions
    stamped = {**new, "lastTransitionTime": format_timestamp(time_s)}
    if old is not None and old.get("status") == new["status"]:
        stamped["lastTransitionTime"] = old.get("lastTransitionTime")
    return [*(c for c in conditions if c.get("type") != new["type"]), stamped]


def parse_timestamp(text: str | None) -> float:
    """Return an API timestamp as seconds since 1970, or 0 for None or ""."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


def format_timestamp(time_s: float) -> str:
    """Return seconds since 1970 as an API timestamp, such as `2026-03-01T12:00:00Z`."""
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
