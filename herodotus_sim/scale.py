"""The `scale` subresource: the desired number of pods of a workload, as `autoscaling/v1` Scale.

Owns: the conversion between a workload and its Scale. Does not own: storing (`registry`). Invariant: a write changes
only `spec.replicas`.
"""

from __future__ import annotations

from herodotus_sim import errors
from herodotus_sim.kinds import ApiResource
from herodotus_sim.selectors import selector_text
from herodotus_sim.storage import StoredObject
from herodotus_sim.update_strategy import prepare_for_update
from herodotus_sim.wire import Object

SCALE = ApiResource("Scale", "scales", "autoscaling")
_METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_from_workload(workload: StoredObject) -> Object:
    """Return the Scale object that represents a stored workload."""
    obj = workload.obj
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    scale_status: Object = {"replicas": status.get("replicas", 0)}
    if spec.get("selector"):
        scale_status["selector"] = selector_text(spec["selector"])
    meta = {field: obj["metadata"][field] for field in _METADATA_FIELDS if field in obj["metadata"]}
    replicas = {"replicas": spec["replicas"]} if spec.get("replicas") else {}
    return {**SCALE.type_meta, "metadata": meta, "spec": replicas, "status": scale_status}


def apply_scale(kind: ApiResource, old: StoredObject, scale: Object) -> Object:
    """Return the stored workload with `spec.replicas` taken from a Scale object.

    Raises StatusError 409 for an outdated resource version or another UID, 422 for an invalid number of pods.
    """
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(replicas, int) or replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise errors.invalid(SCALE, old.key[1], "spec.replicas", "FieldValueInvalid", message)
    sent = scale.get("metadata") or {}
    preconditions = {field: sent[field] for field in ("uid", "resourceVersion") if sent.get(field)}
    new = {**old.obj, "spec": {**old.obj["spec"], "replicas": replicas}}
    new["metadata"] = {k: v for k, v in old.obj["metadata"].items() if k != "resourceVersion"} | preconditions
    return prepare_for_update(kind, old, new, "")
