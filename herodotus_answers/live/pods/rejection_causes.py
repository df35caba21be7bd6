"""Find what a kubelet that rejected a pod found on its node: ports and resources in use, labels, taints.

The kubelet checks a pod that arrives as a scheduler does, and its message does not say what stood against the pod. The
pod's spec and the node say it, as they are now.

Owns: these comparisons. Does not own: that the kubelet rejected the pod (`pod_ending`), which pods hold something
(`holders`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.node_rules import (
    describe_taint,
    describe_terms,
    list_lacking_labels,
    list_pod_terms,
    matches_any_term,
    read_labels,
    tolerates,
)
from herodotus_answers.live.objects import find_controller, has_ended, is_node_name_managed
from herodotus_answers.live.pod_facts import change_templates, list_containers, make_remedy, name_source
from herodotus_answers.live.pods.holders import HeldObject, find_holders, list_host_ports, make_resource
from herodotus_answers.pod_templates import has_template, read_template

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import Remedy

Json = dict[str, Any]
_MAX_NAMES: Final = 3  # in a sentence
_PORTS: Final = "NodePorts"
_OUT_OF: Final = "OutOf"
_OF_LABELS: Final = ("NodeAffinity", "PodOSSelectorNodeLabelDoesNotMatch")


def describe_rejection(pod: Json, reason: str, objects: ClusterObjects) -> tuple[str, list[str]]:
    """Return what stands against a pod on its node now, "" if nothing known does, and the pods that hold it."""
    name = str(pod["spec"]["nodeName"])
    node = objects.get("Node", name).object
    if reason == _PORTS:
        ports = list(dict.fromkeys(list_host_ports(pod["spec"])))
        return _describe_held(pod, HeldObject(name, "ports", tuple(ports)), f"host port {', '.join(ports)}", objects)
    if reason.startswith(_OUT_OF) and node is not None:
        held = make_resource(pod, node, reason.removeprefix(_OUT_OF))
        return _describe_held(pod, held, held.names[0], objects) if held.requested else ("", [])
    if reason in _OF_LABELS and node is not None:
        return _compare_labels(pod, node), []
    if reason == "TaintToleration" and node is not None:
        return _compare_taints(pod, node), []
    if reason == "TopologyAffinityError" and (requests := _list_requests(pod)):
        return f"it requests {requests}", []
    return "", []


def advise_on_holders(pod: Json, reason: str, holders: list[str], objects: ClusterObjects) -> list[Remedy]:
    """Return what lets a pod in where its port is taken: [] for other rejections."""
    if reason != _PORTS:
        return []
    owner, node = name_source(pod, objects), pod["spec"]["nodeName"]
    text = f"end {' and '.join(holders)} on {node}, or take" if holders else "take"
    pinned = "" if not holders else "; without nodeName a scheduler chooses a node where the port is free"
    return [make_remedy(f"{text} another hostPort, or none, in {owner}{pinned}")]


def describe_naming(pod: Json, objects: ClusterObjects) -> str:
    """Return a sentence, without a full stop, on who named the pod's node before a scheduler could; "" if none did.

    A pod that a kubelet rejected has lost the condition PodScheduled, so that its absence says nothing.
    """
    node = pod["spec"]["nodeName"]
    owner = find_controller(pod)
    maker = None
    if owner is not None and has_template(owner["kind"]):
        maker = objects.get(owner["kind"], owner["name"], pod["metadata"]["namespace"]).object
    spec = read_template(owner["kind"], maker).get("spec") or {} if owner is not None and maker is not None else {}
    if owner is not None and spec.get("nodeName") == node:
        return f"the template of {owner['kind']}/{owner['name']} has nodeName {node}, so no scheduler chooses a node"
    if is_node_name_managed(pod):
        return f"the pod was created with nodeName {node}, so no scheduler chose it"
    return ""


def advise_on_naming(pod: Json, reason: str, objects: ClusterObjects) -> list[Remedy]:
    """Return the remedy that lets a scheduler choose a node, for a pod whose node was named and does not take it."""
    of_node = reason in (*_OF_LABELS, "TaintToleration") or reason.startswith(_OUT_OF)
    if not of_node or not describe_naming(pod, objects):
        return []
    text = "let a scheduler choose a node that takes the pod: remove nodeName"
    changed = change_templates(pod, {"nodeName": None}, text, objects)
    return [changed or make_remedy(f"{text} in {name_source(pod, objects)}")]


def _describe_held(pod: Json, held: HeldObject, what: str, objects: ClusterObjects) -> tuple[str, list[str]]:
    """Return which other pods of the node hold something now, as a clause, and their names."""
    listed = objects.list_pods_of_node(held.node, pod["metadata"]["namespace"])
    own = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    others = [
        each
        for each in listed.items
        if (each["metadata"]["namespace"], each["metadata"]["name"]) != own
        and each["spec"].get("nodeName") == held.node
        and not has_ended(each)
    ]
    names = [holder.pod for holder in find_holders(held, others).pods]
    if not names:
        return (f"no other pod that you may see holds {what} on {held.node} now" if held.kind == "ports" else ""), []
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    verb = "holds" if len(names) == 1 else "hold"
    return f"{', '.join(names[:_MAX_NAMES])}{more} {verb} {what} on {held.node} now", names[:_MAX_NAMES]


def _compare_labels(pod: Json, node: Json) -> str:
    """Return what a pod demands of the labels of its node and the node does not have now."""
    name, labels, lacking = node["metadata"]["name"], read_labels(node), list_lacking_labels(pod["spec"], node)
    if lacking:
        has = [f"{key}={labels[key]}" for key in (each.partition("=")[0] for each in lacking) if key in labels]
        return f"{name} lacks {', '.join(lacking)} now" + (f" and has {', '.join(has)}" if has else "")
    terms = list_pod_terms(pod["spec"])
    if terms and not matches_any_term(terms, node):
        return f"{name} does not match {describe_terms(terms)} now"
    return f"{name} matches the pod's node selector and affinity now"


def _compare_taints(pod: Json, node: Json) -> str:
    """Return which taints that the kubelet checks the pod does not tolerate on its node now."""
    tolerations = pod["spec"].get("tolerations") or ()
    taints = [each for each in (node.get("spec") or {}).get("taints") or () if each.get("effect") == "NoExecute"]
    against = [describe_taint(each) for each in taints if not tolerates(tolerations, each)]
    name = node["metadata"]["name"]
    if not against:
        return f"the pod tolerates the NoExecute taints that {name} has now"
    return f"{name} has {', '.join(against)} now, which the pod does not tolerate"


def _list_requests(pod: Json) -> str:
    """Return what each container requests, for a sentence: `18 cpu, 8Gi memory (container fwd)`; "" if nothing."""
    requests = ((c.label, (c.spec.get("resources") or {}).get("requests") or {}) for c in list_containers(pod))
    amounts = ((", ".join(f"{amount} {resource}" for resource, amount in of.items()), label) for label, of in requests)
    return " and ".join(f"{listed} ({label})" for listed, label in amounts if listed)
