"""Defaults and validation of the kinds that controllers handle, as kube-apiserver applies them.

Owns: which kinds those are, the defaulted fields, the rejected writes. Does not own: reconciling the objects
(`controllers`). Invariant: `with_defaults` is idempotent, so that an unchanged template equals its copy in a
ReplicaSet.
"""

from __future__ import annotations

import math
from typing import Any

from herodotus_sim import errors
from herodotus_sim.kinds import BY_TYPE, ApiResource
from herodotus_sim.wire import Object, encode

DEPLOYMENT = BY_TYPE["apps/v1", "Deployment"]
REPLICA_SET = BY_TYPE["apps/v1", "ReplicaSet"]
STATEFUL_SET = BY_TYPE["apps/v1", "StatefulSet"]
JOB = BY_TYPE["batch/v1", "Job"]
DAEMON_SET = BY_TYPE["apps/v1", "DaemonSet"]
CONTROLLED = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB, DAEMON_SET)
"""Kinds that a controller of `controllers` handles."""
WITHOUT_CONTROLLER = (BY_TYPE["v1", "ReplicationController"],)
"""Kinds that need a controller that does not exist here."""

_JOB_NAME = ("batch.kubernetes.io/job-name", "job-name")
_JOB_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")
_STATEFUL_SET_MUTABLE = frozenset(
    {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
     "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}
)  # fmt: skip


def with_defaults(kind: ApiResource, obj: Object) -> Object:
    """Return the object with kube-apiserver's defaults for its kind.

    Objects of kinds that no controller here handles are returned unchanged.
    """
    spec = obj.get("spec")
    if kind not in CONTROLLED or not isinstance(spec, dict):
        return obj
    spec = {k: v for k, v in spec.items() if v is not None}
    if kind is JOB:
        spec = _job_defaults(obj["metadata"], spec)
        if not obj["metadata"].get("labels"):
            obj = {**obj, "metadata": {**obj["metadata"], "labels": spec["template"]["metadata"].get("labels")}}
    elif kind is not DAEMON_SET:
        spec = {"replicas": 1, **spec}
    if kind is DEPLOYMENT:
        spec = {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, **spec}
        spec["strategy"] = _deployment_strategy(spec.get("strategy") or {})
    elif kind is DAEMON_SET:
        spec = {"revisionHistoryLimit": 10, **spec}
        strategy = {"type": "RollingUpdate", **(spec.get("updateStrategy") or {})}
        if strategy["type"] == "RollingUpdate":
            limits = {"maxUnavailable": 1, "maxSurge": 0}
            strategy["rollingUpdate"] = limits | (strategy.get("rollingUpdate") or {})
        spec["updateStrategy"] = strategy
    elif kind is STATEFUL_SET:
        keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
        spec = {"revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady", "serviceName": "",
                "persistentVolumeClaimRetentionPolicy": keep, **spec}  # fmt: skip
        strategy = {"type": "RollingUpdate", **(spec.get("updateStrategy") or {})}
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {"partition": 0, **(strategy.get("rollingUpdate") or {})}
        spec["updateStrategy"] = strategy
    if isinstance(spec.get("template"), dict):
        spec["template"] = _template(spec["template"])
    return {**obj, "spec": spec}


def _deployment_strategy(strategy: Object) -> Object:
    type_ = strategy.get("type") or "RollingUpdate"
    if type_ != "RollingUpdate":
        return {"type": type_}
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%", **(strategy.get("rollingUpdate") or {})}
    return {"type": type_, "rollingUpdate": rolling}


def _job_defaults(meta: Object, spec: Object) -> Object:
    if "completions" not in spec and "parallelism" not in spec:
        spec = {"completions": 1, **spec}
    spec = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed", "manualSelector": False, **spec}  # fmt: skip
    if not spec["manualSelector"]:
        names = dict.fromkeys(_JOB_NAME, meta["name"]) | dict.fromkeys(_JOB_UID, meta["uid"])
        template = spec.get("template") or {}
        head = template.get("metadata") or {}
        labels = {**(head.get("labels") or {}), **names}
        spec["template"] = {**template, "metadata": {**head, "labels": labels}}
        spec["selector"] = {"matchLabels": {_JOB_UID[0]: meta["uid"]}}
    return spec


def _template(template: Object) -> Object:
    """Return a pod template with the defaults that are visible in the workload.

    A pod that is created from it gets its other defaults then.
    """
    own_spec = {k: v for k, v in (template.get("spec") or {}).items() if v is not None}
    spec: Object = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **own_spec,
    }
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [{"resources": {}, **container} for container in spec[field] or []]
    return {**template, "metadata": template.get("metadata") or {}, "spec": spec}


def check_new(kind: ApiResource, obj: Object) -> None:
    """Raise StatusError 422 if a new workload is invalid, for example if its selector does not match its template."""
    if kind not in CONTROLLED:
        return
    name, spec = obj["metadata"]["name"], obj.get("spec") or {}
    template = spec.get("template") or {}
    if not (template.get("spec") or {}).get("containers"):
        raise errors.invalid(kind, name, "spec.template.spec.containers", "FieldValueRequired", "Required value")
    check_counts(kind, name, spec)
    selector = spec.get("selector") or {}
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        raise errors.invalid(kind, name, "spec.selector", "FieldValueRequired", "Required value")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        message = f"Invalid value: {encode(labels).decode()}: `selector` does not match template `labels`"
        raise errors.invalid(kind, name, "spec.template.metadata.labels", "FieldValueInvalid", message)
    policy = template["spec"]["restartPolicy"]
    wanted = ("OnFailure", "Never") if kind is JOB else ("Always",)
    if policy not in wanted:
        supported = ", ".join(f'"{p}"' for p in wanted)
        message = f'Unsupported value: "{policy}": supported values: {supported}'
        raise errors.invalid(kind, name, "spec.template.spec.restartPolicy", "FieldValueNotSupported", message)


def check_counts(kind: ApiResource, name: str, spec: Object) -> None:
    """Raise StatusError 422 if a field of a workload's spec that counts pods or retries is no number of at least 0."""
    for field in ("replicas", "parallelism", "completions", "backoffLimit"):
        value = spec.get(field)
        if value is not None and (not isinstance(value, int) or value < 0):
            message = f"Invalid value: {value}: must be greater than or equal to 0"
            raise errors.invalid(kind, name, f"spec.{field}", "FieldValueInvalid", message)


def check_update(kind: ApiResource, before: Object, after: Object) -> None:
    """Raise StatusError 422 if an update changes a field of a workload that must not change after its creation."""
    if kind not in CONTROLLED:
        return
    name, old, new = before["metadata"]["name"], before.get("spec") or {}, after.get("spec") or {}
    check_counts(kind, name, new)
    if kind is STATEFUL_SET:
        changed = [f for f in old.keys() | new.keys() if f not in _STATEFUL_SET_MUTABLE and old.get(f) != new.get(f)]
        if changed:
            message = (
                "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden"
            )
            raise errors.invalid(kind, name, "spec", "FieldValueForbidden", message)
        return
    fixed = ("selector", "template", "completions", "completionMode") if kind is JOB else ("selector",)
    for field in fixed:
        if old.get(field) is not None and old.get(field) != new.get(field):
            message = f"Invalid value: {encode(new.get(field)).decode()}: field is immutable"
            raise errors.invalid(kind, name, f"spec.{field}", "FieldValueInvalid", message)


def check_supported(kind: ApiResource, name: str, obj: Object) -> None:
    """Raise StatusError 403 if the object needs a controller, or has a field, that this simulator does not support."""
    why = ""
    spec = obj.get("spec") or {}
    if kind in WITHOUT_CONTROLLER:
        why = f"the simulated cluster has no controller for {kind.plural}"
    elif kind is DAEMON_SET and spec.get("template", {}).get("spec", {}).get("affinity"):
        why = "the simulated cluster has no spec.template.spec.affinity of a DaemonSet, only its nodeSelector"
    elif kind is DAEMON_SET and _surges(spec):
        why = "the simulated cluster has no spec.updateStrategy.rollingUpdate.maxSurge of a DaemonSet"
    elif kind is STATEFUL_SET and spec.get("volumeClaimTemplates"):
        why = "the simulated cluster has no volumes for spec.volumeClaimTemplates"
    elif kind is JOB and (spec.get("backoffLimitPerIndex") is not None or spec.get("maxFailedIndexes") is not None):
        why = "the simulated cluster has no spec.backoffLimitPerIndex and spec.maxFailedIndexes"
    elif kind is JOB and (spec.get("podFailurePolicy") or spec.get("successPolicy")):
        why = "the simulated cluster has no spec.podFailurePolicy or spec.successPolicy"
    elif kind is JOB and spec.get("managedBy"):
        why = "the simulated cluster has no controller of spec.managedBy"
    if why:
        raise errors.forbidden(kind, name, why)


def _surges(spec: Object) -> bool:
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return rolling.get("maxSurge") not in (None, 0, "0", "0%")


def resolve(value: Any, total: int, *, up: bool) -> int:
    """Return the number of pods for `value`, which is a number or a percentage of `total` such as 25%.

    A share is rounded up with `up`, else down.
    """
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total / 100
        return math.ceil(share) if up else math.floor(share)
    return int(value)
