"""Owns: what may change when an object is replaced or patched: identity, status against the rest, generation.

Does not own: computing the new object. Invariant: a write through `status` changes nothing of the spec, a write to the
object nothing of its status; uid, creation and deletion times never change by a write.
"""

from __future__ import annotations

from herodotus_sim import errors
from herodotus_sim.defaults import check_times, gated_condition
from herodotus_sim.kinds import POD, Kind
from herodotus_sim.store import Version
from herodotus_sim.wire import Object

_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# What may change in a pod's spec after it is created.
_POD_MUTABLE = ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations")
_POD_MUTABLE_GATED = ("nodeSelector", "affinity")
_POD_FORBIDDEN = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def replacement(kind: Kind, old: Version, new: Object, subresource: str) -> Object:
    """The object to store when `new` is written over `old`. Raises 409 for a stale version or another uid."""
    before = old.obj
    namespace, name = old.key
    sent = dict(new.get("metadata") or {})
    version, uid = sent.get("resourceVersion"), sent.get("uid")
    if uid and uid != before["metadata"]["uid"]:
        raise errors.wrong_uid(kind, namespace, name, uid, before["metadata"]["uid"])
    if version and version != before["metadata"]["resourceVersion"]:
        raise errors.stale(kind, name)
    if not version and not kind.unconditional_update:
        message = "Invalid value: 0x0: must be specified for an update"
        raise errors.invalid(kind, name, "metadata.resourceVersion", "FieldValueInvalid", message)
    check_times(kind, new)
    meta = _metadata(before["metadata"], sent)
    if subresource == "status":
        meta["ownerReferences"] = before["metadata"].get("ownerReferences")
        after = {**before, "status": new.get("status") or {}}
    else:
        after = dict(new)
        if kind.has_status:
            after.pop("status", None)
            after |= {"status": before["status"]} if "status" in before else {}
        if kind is POD:
            after = _pod(before, after)
        if "generation" in meta and after.get("spec") != before.get("spec"):
            meta["generation"] += 1
    return {**after, "metadata": {k: v for k, v in meta.items() if v is not None}}


def _metadata(before: Object, sent: Object) -> Object:
    meta = {**sent, **{field: before.get(field) for field in _FIXED}}
    meta["resourceVersion"] = before["resourceVersion"]
    meta["generation"] = before.get("generation")
    if meta["generation"] is None:
        del meta["generation"]
    return meta


def _pod(before: Object, after: Object) -> Object:
    old, new = before["spec"], after.get("spec") or {}
    name = before["metadata"]["name"]
    if old == new:
        return after
    gates, old_gates = new.get("schedulingGates") or [], old.get("schedulingGates") or []
    if any(g not in old_gates for g in gates):
        message = "Forbidden: only deletion is allowed, but found new scheduling gate"
        raise errors.invalid(POD, name, "spec.schedulingGates", "FieldValueForbidden", message)
    if _fixed_part(old, bool(old_gates)) != _fixed_part(new, bool(old_gates)):
        raise errors.invalid(POD, name, "spec", "FieldValueForbidden", _POD_FORBIDDEN)
    if old_gates and not gates:
        new = {k: v for k, v in new.items() if k != "schedulingGates"}
        conditions = (after.get("status") or {}).get("conditions") or []
        kept = [c for c in conditions if c.get("reason") != gated_condition()["reason"]]
        after = {**after, "status": {**after.get("status", {}), "conditions": kept}}
    return {**after, "spec": new}


def _fixed_part(spec: Object, gated: bool) -> Object:
    mutable = _POD_MUTABLE + (_POD_MUTABLE_GATED if gated else ())
    fixed = {k: v for k, v in spec.items() if k not in mutable}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{k: v for k, v in c.items() if k != "image"} for c in fixed[field]]
    return fixed
