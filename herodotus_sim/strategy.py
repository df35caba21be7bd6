"""Completes and checks written objects: names, metadata, identity, status apart from the rest, and defaults.

The defaults are those of kube-apiserver that a client notices. Does not own: storing, and computing the new object.

Invariant: no admission exists but that of this module. A write through `status` changes nothing of the spec, and a
write to the object changes nothing of its status. UID, creation and deletion times never change by a write.
"""

from __future__ import annotations

import random
import re
import time
import uuid
from datetime import datetime, timezone
from typing import Any

from herodotus_sim import errors, quotas, workloads
from herodotus_sim.kinds import EVENT, EVENT_V1, LEASE, NAMESPACE, POD, PRIORITY_CLASS, ApiResource
from herodotus_sim.storage import ObjectStorage, StoredObject
from herodotus_sim.wire import Object

# The initial namespaces.
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' alphabet: no vowels, no similar characters
_MAX_GENERATED_BASE = 58  # 63 minus the suffix of five characters
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PATH_NAME = re.compile(r"[^/%]+")  # RBAC names may contain colons and capitals
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")

_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# Fields of a pod's spec that may change after its creation.
_POD_MUTABLE = ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations")
_POD_MUTABLE_GATED = ("nodeSelector", "affinity")
_POD_FORBIDDEN = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def now() -> str:
    """Return the current time in the format of `metav1.Time`."""
    return datetime.fromtimestamp(time.time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def initial_objects() -> list[tuple[ApiResource, Object]]:
    """Return the namespaces and priority classes of a new cluster, each with its resource."""
    spaces: list[tuple[ApiResource, Object]] = [(NAMESPACE, {"metadata": {"name": name}}) for name in NAMESPACES]
    classes = [
        (PRIORITY_CLASS, {"metadata": {"name": n}, "value": v, "preemptionPolicy": "PreemptLowerPriority"})
        for n, v in _SYSTEM_CLASSES.items()
    ]
    return spaces + classes


def prepare_for_create(
    store: ObjectStorage, kind: ApiResource, namespace: str, obj: Object, keep_status: bool
) -> Object:
    """Return a new object, in storage form, checked and completed with metadata and defaults.

    Only its resource version is missing. `keep_status` keeps the given status and deletion timestamp, for objects that
    do not come from a client. Raises StatusError for an invalid object.
    """
    meta = dict(obj.get("metadata") or {})
    if meta.get("resourceVersion"):
        raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")
    if not meta.get("name") and meta.get("generateName"):
        suffix = "".join(random.choices(_SUFFIX_ALPHABET, k=5))
        meta["name"] = meta["generateName"][:_MAX_GENERATED_BASE] + suffix
    check_name(kind, meta.get("name", ""))
    if kind.namespaced:
        meta["namespace"] = namespace
        if store.find(NAMESPACE, "", namespace) is None:
            raise errors.not_found(NAMESPACE, namespace)
    else:
        meta.pop("namespace", None)
    for field in ("resourceVersion", "selfLink", *(() if keep_status else _DELETION)):
        meta.pop(field, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now()
    if kind.has_status and "spec" in obj:
        meta["generation"] = 1
    return apply_defaults(store, kind, {**obj, "metadata": meta}, keep_status)


def check_name(kind: ApiResource, name: str) -> None:
    """Raise StatusError 422 if Kubernetes does not allow this object name."""
    if not name:
        message = "Required value: name or generateName is required"
        raise errors.invalid(kind, "", "metadata.name", "FieldValueRequired", message)
    pattern = _PATH_NAME if kind.group.startswith("rbac.") else _NAME
    if len(name) > 253 or not pattern.fullmatch(name):
        message = (
            f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character"
        )
        raise errors.invalid(kind, name, "metadata.name", "FieldValueInvalid", message)


def apply_defaults(store: ObjectStorage, kind: ApiResource, obj: Object, keep_status: bool) -> Object:
    """Return the object with kube-apiserver's defaults for its kind; raise StatusError if it is invalid.

    `keep_status` keeps the object's status instead of the status of a new object.
    """
    if kind is POD:
        return _complete_pod(store, obj, keep_status)
    check_times(kind, obj)
    if kind in workloads.CONTROLLED:
        completed = workloads.with_defaults(kind, obj)
        if not keep_status:
            workloads.check_new(kind, completed)
        return completed
    if kind is NAMESPACE:
        labels = {"kubernetes.io/metadata.name": obj["metadata"]["name"], **(obj["metadata"].get("labels") or {})}
        return {
            **obj,
            "metadata": {**obj["metadata"], "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
    # kube-apiserver creates both as Pending. No controller here makes a volume Available.
    if kind.kind in ("PersistentVolume", "PersistentVolumeClaim") and not (keep_status and obj.get("status")):
        return {**obj, "status": {"phase": "Available" if kind.kind == "PersistentVolume" else "Pending"}}
    if kind.kind == "StorageClass":
        return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **obj}
    if kind is PRIORITY_CLASS:
        return {"preemptionPolicy": "PreemptLowerPriority", **obj}
    return obj


def check_times(kind: ApiResource, obj: Object) -> None:
    """Raise StatusError 400 if a MicroTime of a Lease or Event lacks six fractional digits, as Go's parser does."""
    if kind is LEASE:
        spec = obj.get("spec") or {}
        times = [spec.get("acquireTime"), spec.get("renewTime")]
    elif kind in (EVENT, EVENT_V1):
        times = [obj.get("eventTime"), (obj.get("series") or {}).get("lastObservedTime")]
    else:
        return
    for value in times:
        if value is not None and not _MICRO_TIME.fullmatch(str(value)):
            layout = "2006-01-02T15:04:05.000000Z07:00"
            raise errors.bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f'parsing time "{value}" as "{layout}": cannot parse "{str(value)[19:]}" as ".000000"'
            )


def _complete_pod(store: ObjectStorage, obj: Object, keep_status: bool) -> Object:
    spec: Object = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        **{k: v for k, v in (obj.get("spec") or {}).items() if v is not None},
    }
    name = obj["metadata"]["name"]
    if not spec.get("containers"):
        raise errors.invalid(POD, name, "spec.containers", "FieldValueRequired", "Required value")
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_complete_container(c) for c in spec[field]]
    spec.update(_priority(store, name, spec))
    quotas.check_new_pod(store, {**obj, "spec": spec})
    status = dict(obj.get("status") or {}) if keep_status else {}
    status.setdefault("phase", "Pending")
    if spec.get("schedulingGates") and not status.get("conditions"):
        status["conditions"] = [gated_condition()]
    return {**obj, "spec": spec, "status": status}


def _complete_container(container: Object) -> Object:
    """Return the container with resource requests that default to its limits, and with ports that default to TCP."""
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        resources = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    ports = [{"protocol": "TCP", **port} for port in container.get("ports") or []]
    return {**container, "resources": resources, **({"ports": ports} if ports else {})}


def _priority(store: ObjectStorage, pod: str, spec: Object) -> Object:
    """Return the pod's priority fields, as the Priority admission plugin derives them from its priority class.

    Raises StatusError 403 if the class does not exist.
    """
    name = spec.get("priorityClassName")
    if name:
        priority_class = store.find(PRIORITY_CLASS, "", name)
        if priority_class is None:
            raise errors.forbidden(POD, pod, f"no PriorityClass with name {name} was found")
        source: Object = priority_class.obj
    else:
        classes = store.list_sorted(PRIORITY_CLASS)
        source = next((c.obj for c in classes if c.obj.get("globalDefault")), {})
        name = source.get("metadata", {}).get("name")
    policy = spec.get("preemptionPolicy") or source.get("preemptionPolicy", "PreemptLowerPriority")
    named = {"priorityClassName": name} if name else {}
    priority = source.get("value", spec.get("priority", 0))
    return {**named, "priority": priority, "preemptionPolicy": policy}


def gated_condition() -> Object:
    """Return the PodScheduled condition of a pod with scheduling gates."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": None,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def complete_node(obj: Object) -> Object:
    """Return a copy of a node with a Ready condition, unless it has one, and with capacity and allocatable amounts.

    If only one of these amounts is given, it stands for both.
    """
    status: dict[str, Any] = dict(obj.get("status") or {})
    capacity, allocatable = status.get("capacity"), status.get("allocatable")
    if capacity or allocatable:
        status["capacity"] = capacity or allocatable
        status["allocatable"] = allocatable or capacity
    conditions = status.get("conditions") or []
    if not any(c.get("type") == "Ready" for c in conditions):
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
        status["conditions"] = [*conditions, ready]
    return {**obj, "status": status}


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
        others = [c for c in conditions if c.get("reason") != gated_condition()["reason"]]
        after = {**after, "status": {**after.get("status", {}), "conditions": others}}
    return {**after, "spec": new}


def _immutable_fields(spec: Object, gated: bool) -> Object:
    mutable = _POD_MUTABLE + (_POD_MUTABLE_GATED if gated else ())
    immutable = {k: v for k, v in spec.items() if k not in mutable}
    for field in ("containers", "initContainers"):
        if field in immutable:
            immutable[field] = [{k: v for k, v in c.items() if k != "image"} for c in immutable[field]]
    return immutable
