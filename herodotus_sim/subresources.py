"""Subresources: binding and eviction of pods, which the scheduler and kubectl drain write, and the scale of workloads.

Does not own: choosing a node. Like kube-apiserver it does not check that the node exists.

Invariant: a pod is bound at most once, and only while it has no scheduling gates and is not being deleted. A write of a
scale changes only `spec.replicas`.
"""

from __future__ import annotations

from herodotus_sim import errors
from herodotus_sim.kinds import BY_TYPE, POD, POD_DISRUPTION_BUDGET, ApiResource
from herodotus_sim.registry import RequestInfo, ResourceRegistry, is_dry_delete, is_dry_run, read_object
from herodotus_sim.selectors import label_predicate, selector_text
from herodotus_sim.storage import StoredObject
from herodotus_sim.strategy import now, prepare_for_update
from herodotus_sim.wire import Object, SimulatedRequest, SimulatedResponse, encode, json_response

_EVICTION = ApiResource("Eviction", "evictions", "policy")
_BINDING = BY_TYPE["v1", "Binding"]
SCALE = ApiResource("Scale", "scales", "autoscaling")
_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_CREATED = encode(errors.success(201))


def bind(verbs: ResourceRegistry, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
    """Bind a pod to a node and return the response, for `pods/NAME/binding` and for `bindings`.

    For `bindings`, the body names the pod. Raises StatusError 400 for an invalid body, 404 if the pod does not exist,
    409 if it must not be bound.
    """
    binding = read_object(request, _BINDING)
    meta = binding.get("metadata") or {}
    name = target.name or meta.get("name", "")
    if meta.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    target_reference = binding.get("target") or {}
    if target_reference.get("kind", "Node") not in ("", "Node"):
        raise errors.bad_request(
            f'target.kind: Unsupported value: "{target_reference["kind"]}": supported values: "Node", ""'
        )
    node = target_reference.get("name")
    if not node:
        raise errors.bad_request("target.name: Required value")
    verbs.store.guaranteed_update(
        POD, target.namespace, name, lambda pod: assign_node(pod, meta, node), is_dry_run(request)
    )
    return SimulatedResponse(201, _CREATED)


def assign_node(pod: StoredObject, binding: Object, node: str) -> Object:
    """Return the pod as it is after binding to the node; `binding` is the Binding's metadata.

    Raises StatusError 409 if the pod must not be bound.
    """
    meta, spec, status = pod.obj["metadata"], pod.obj["spec"], pod.obj.get("status") or {}
    name = meta["name"]
    if binding.get("uid") and binding["uid"] != meta["uid"]:
        raise errors.wrong_uid(POD, *pod.key, binding["uid"], meta["uid"])
    if binding.get("resourceVersion") and binding["resourceVersion"] != meta["resourceVersion"]:
        raise errors.stale_version(POD, name)
    if meta.get("deletionTimestamp"):
        raise errors.conflict(POD, name, f"pod {name} is being deleted, cannot be assigned to a host", "binding")
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise errors.conflict(POD, name, why, "binding")
    if spec.get("schedulingGates"):
        raise errors.conflict(POD, name, f"pod {name} has non-empty .spec.schedulingGates", "binding")
    if binding.get("annotations"):
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **binding["annotations"]}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
    others = [c for c in status.get("conditions") or [] if c.get("type") != "PodScheduled"]
    after = {k: v for k, v in status.items() if k != "nominatedNodeName"} | {"conditions": [*others, scheduled]}
    return {**pod.obj, "metadata": meta, "spec": {**spec, "nodeName": node}, "status": after}


def evict(verbs: ResourceRegistry, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
    """Delete a pod within its disruption budget and return the response, for `pods/NAME/eviction`.

    Raises StatusError 429 if the budget allows no disruption, and 500 if several budgets select the pod.
    """
    eviction = read_object(request, _EVICTION)
    dry_run = is_dry_delete(request, eviction.get("deleteOptions") or {})
    with verbs.store.lock:
        pod = verbs.store.get(POD, target.namespace, target.name)
        budgets = [b for b in verbs.store.list_sorted(POD_DISRUPTION_BUDGET) if covers_pod(b, pod)]
        if len(budgets) > 1:
            rest = "which the eviction subresource does not support"
            raise errors.StatusError(500, "", f"This pod has more than one PodDisruptionBudget, {rest}.")
        if pod.obj["spec"].get("nodeName") and budgets:
            _decrement_budget(verbs, budgets[0], pod, dry_run)
        if not dry_run:
            verbs.remove(POD, pod)
    return json_response(errors.success(201), 201)


def covers_pod(budget: StoredObject, pod: StoredObject) -> bool:
    """Return whether a PodDisruptionBudget's selector selects a pod of its namespace; False without a selector."""
    selector = (budget.obj.get("spec") or {}).get("selector")
    return budget.key[0] == pod.key[0] and selector is not None and label_predicate(selector_text(selector))(pod.obj)


def _decrement_budget(verbs: ResourceRegistry, budget: StoredObject, pod: StoredObject, dry_run: bool) -> None:
    """Subtract one disruption from the budget's status; raise StatusError 429 if it allows none."""
    status = budget.obj.get("status") or {}
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        name, healthy, wanted = budget.key[1], status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently",
        }
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        raise errors.too_many(message, details={"causes": [cause]})
    disrupted = {**(status.get("disruptedPods") or {}), pod.key[1]: now()}
    spent = {**budget.obj, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}
    verbs.store.guaranteed_update(POD_DISRUPTION_BUDGET, *budget.key, lambda _: spent, dry_run)


def scale_from_workload(workload: StoredObject) -> Object:
    """Return the Scale object that represents a stored workload."""
    obj = workload.obj
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    scale_status: Object = {"replicas": status.get("replicas", 0)}
    if spec.get("selector"):
        scale_status["selector"] = selector_text(spec["selector"])
    meta = {field: obj["metadata"][field] for field in _SCALE_METADATA if field in obj["metadata"]}
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
