"""Owns: the two writes that end a pod's scheduling from outside: binding and eviction.

Does not own: choosing a node; whether the node exists (kube-apiserver does not look either).
Invariant: a pod is bound at most once, and only while it has no gates and is not being deleted.
"""

from __future__ import annotations

from herodotus_sim import errors
from herodotus_sim.defaults import now
from herodotus_sim.kinds import BY_TYPE, POD, POD_DISRUPTION_BUDGET, Kind
from herodotus_sim.selectors import Predicate, label_predicate
from herodotus_sim.store import Version
from herodotus_sim.verbs import Target, Verbs, is_dry_delete, is_dry_run, read_object
from herodotus_sim.wire import Object, Request, Response, encode, json_response

_EVICTION = Kind("Eviction", "evictions", "policy")
_BINDING = BY_TYPE["v1", "Binding"]
_CREATED = encode(errors.success(201))


def bind(verbs: Verbs, target: Target, request: Request) -> Response:
    """`pods/NAME/binding`, and `bindings` with the pod's name in the body."""
    binding = read_object(request, _BINDING)
    meta = binding.get("metadata") or {}
    name = target.name or meta.get("name", "")
    if meta.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    goal = binding.get("target") or {}
    if goal.get("kind", "Node") not in ("", "Node"):
        raise errors.bad_request(f'target.kind: Unsupported value: "{goal["kind"]}": supported values: "Node", ""')
    node = goal.get("name")
    if not node:
        raise errors.bad_request("target.name: Required value")
    verbs.store.modify(POD, target.namespace, name, lambda pod: bound(pod, meta, node), is_dry_run(request))
    return Response(201, _CREATED)


def bound(pod: Version, binding: Object, node: str) -> Object:
    """The pod after a binding. Raises 409 when it may not be bound."""
    meta, spec, status = pod.obj["metadata"], pod.obj["spec"], pod.obj.get("status") or {}
    name = meta["name"]
    if binding.get("uid") and binding["uid"] != meta["uid"]:
        raise errors.wrong_uid(POD, *pod.key, binding["uid"], meta["uid"])
    if binding.get("resourceVersion") and binding["resourceVersion"] != meta["resourceVersion"]:
        raise errors.stale(POD, name)
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


def evict(verbs: Verbs, target: Target, request: Request) -> Response:
    """`pods/NAME/eviction`: a delete that asks the disruption budgets."""
    eviction = read_object(request, _EVICTION)
    dry_run = is_dry_delete(request, eviction.get("deleteOptions") or {})
    with verbs.store.lock:
        pod = verbs.store.get(POD, target.namespace, target.name)
        budgets = [b for b in verbs.store.ordered(POD_DISRUPTION_BUDGET) if _covers(b, pod)]
        if len(budgets) > 1:
            rest = "which the eviction subresource does not support"
            raise errors.ApiError(500, "", f"This pod has more than one PodDisruptionBudget, {rest}.")
        if pod.obj["spec"].get("nodeName") and budgets:
            _charge(verbs, budgets[0], pod, dry_run)
        if not dry_run:
            verbs.remove(POD, pod)
    return json_response(errors.success(201), 201)


def _covers(budget: Version, pod: Version) -> bool:
    selector = (budget.obj.get("spec") or {}).get("selector")
    return budget.key[0] == pod.key[0] and selector is not None and _label_selector(selector)(pod.obj)


def _charge(verbs: Verbs, budget: Version, pod: Version, dry_run: bool) -> None:
    """Take one disruption off the budget. Raises 429 when there is none left."""
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
    verbs.store.modify(POD_DISRUPTION_BUDGET, *budget.key, lambda _: spent, dry_run)


def _label_selector(selector: Object) -> Predicate:
    """A `LabelSelector` object as the text form says it."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        key, operator = expression["key"], expression["operator"]
        values = f"({','.join(expression.get('values') or [])})"
        signs = {"Exists": key, "DoesNotExist": f"!{key}", "In": f"{key} in {values}", "NotIn": f"{key} notin {values}"}
        terms.append(signs[operator])
    return label_predicate(",".join(terms)) if terms else lambda _: True
