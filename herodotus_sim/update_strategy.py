"""Rules for replacing or patching an object: identity, status apart from the rest, generation.

Does not own: computing the new object. Invariant: a write through `status` changes nothing of the spec, and a write to
the object changes nothing of its status. UID, creation and deletion times never change by a write.
"""

from __future__ import annotations

from herodotus_sim import errors, workloads
from herodotus_sim.create_strategy import check_times, gated_condition
from herodotus_sim.kinds import POD, ApiResource
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object

_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# Fields of a pod's spec that may change after its creation.
_POD_MUTABLE = ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations")
_POD_MUTABLE_GATED = ("nodeSelector", "affinity")
_POD_FORBIDDEN = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def prepare_for_update(kind: ApiResource, old: StoredObject, new: Object, subresource: str) -> Object:
    """Return the object to store when a client replaces the stored object `old` by `new`.

    `subresource` is the written one, such as status, or "" for the object itself. Raises StatusError 409 for an
    outdated resource version or another UID, 422 for a forbidden change.
    """
    before = old.obj
    namespace, name = old.key
    new_metadata = dict(new.get("metadata") or {})
    version, uid = new_metadata.get("resourceVersion"), new_metadata.get("uid")
    if uid and uid != before["metadata"]["uid"]:
        raise errors.wrong_uid(kind, namespace, name, uid, before["metadata"]["uid"])
    if version and version != before["metadata"]["resourceVersion"]:
        raise errors.stale_version(kind, name)
    if not version and not kind.unconditional_update:
        message = "Invalid value: 0x0: must be specified for an update"
        raise errors.invalid(kind, name, "metadata.resourceVersion", "FieldValueInvalid", message)
    check_times(kind, new)
    meta = _metadata(before["metadata"], new_metadata)
    if subresource == "status":
        meta["ownerReferences"] = before["metadata"].get("ownerReferences")
        after = {**before, "status": new.get("status") or {}}
    else:
        after = dict(new)
        if kind.has_status:
            after.pop("status", None)
            after |= {"status": before["status"]} if "status" in before else {}
        if kind is POD:
            after = _prepare_pod(before, after)
        after = workloads.with_defaults(kind, {**after, "metadata": meta})
        workloads.check_update(kind, before, after)
        if "generation" in meta and after.get("spec") != before.get("spec"):
            meta["generation"] += 1
    return {**after, "metadata": {k: v for k, v in meta.items() if v is not None}}


def _metadata(before: Object, new_metadata: Object) -> Object:
    meta = {**new_metadata, **{field: before.get(field) for field in _FIXED}}
    meta["resourceVersion"] = before["resourceVersion"]
    meta["generation"] = before.get("generation")
    if meta["generation"] is None:
        del meta["generation"]
    return meta


def _prepare_pod(before: Object, after: Object) -> Object:
    old, new = before["spec"], after.get("spec") or {}
    name = before["metadata"]["name"]
    if old == new:
        return after
    gates, old_gates = new.get("schedulingGates") or [], old.get("schedulingGates") or []
    if any(g not in old_gates for g in gates):
        message = "Forbidden: only deletion is allowed, but found new scheduling gate"
        raise errors.invalid(POD, name, "spec.schedulingGates", "FieldValueForbidden", message)
    if _immutable_fields(old, bool(old_gates)) != _immutable_fields(new, bool(old_gates)):
        raise errors.invalid(POD, name, "spec", "FieldValueForbidden", _POD_FORBIDDEN)
    if old_gates and not gates:
        new = {k: v for k, v in new.items() if k != "schedulingGates"}
        conditions = (after.get("status") or {}).get("conditions") or []
        kept = [c for c in conditions if c.get("reason") != gated_condition()["reason"]]
        after = {**after, "status": {**after.get("status", {}), "conditions": kept}}
    return {**after, "spec": new}


def _immutable_fields(spec: Object, gated: bool) -> Object:
    mutable = _POD_MUTABLE + (_POD_MUTABLE_GATED if gated else ())
    immutable = {k: v for k, v in spec.items() if k not in mutable}
    for field in ("containers", "initContainers"):
        if field in immutable:
            immutable[field] = [{k: v for k, v in c.items() if k != "image"} for c in immutable[field]]
    return immutable
