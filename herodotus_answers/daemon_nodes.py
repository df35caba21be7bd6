"""Find on which nodes a DaemonSet has no pod, and why: as the DaemonSet controller decides where pods are to be.

Owns: node selector, required node affinity and taints of a DaemonSet's template against nodes. Does not own: what it
means for the workload (`workload_state`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from herodotus_answers.live import NodesWithoutPod

Json = dict[str, Any]
MAX_NAMES: Final = 10
# Taints that the DaemonSet controller lets every pod of its own tolerate, by effect.
_TOLERATED: Final = frozenset(
    f"node.kubernetes.io/{name}"
    for name in ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_NETWORK: Final = "node.kubernetes.io/network-unavailable"  # tolerated by pods on the host's network alone


def find_nodes_without_pod(pod_spec: Json, nodes: Iterable[Json], occupied: Iterable[str]) -> list[NodesWithoutPod]:
    """Return the nodes without a pod by reason: those that lack a pod first, then those that are to have none.

    `pod_spec` is that of the template, and `occupied` has the nodes that have a pod or are meant by one that waits.
    """
    taken = set(occupied)
    groups: dict[tuple[int, str, str], list[str]] = {}
    for node in nodes:
        name = str(node["metadata"]["name"])
        if name in taken:
            continue
        key = _exclude(pod_spec, node)
        groups.setdefault(key, []).append(name)
    return [
        {"code": code, "text": text, "count": len(names), "nodes": sorted(names)[:MAX_NAMES]}  # type: ignore[typeddict-item]
        for (_, code, text), names in sorted(groups.items())
    ]


def read_meant_node(pod: Json) -> str:
    """Return the node that a DaemonSet's pod is on or is meant for, by its affinity; "" if it has none."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    for term in _list_terms(pod["spec"]):
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("operator") == "In":
                return str((field.get("values") or [""])[0])
    return ""


def _exclude(pod_spec: Json, node: Json) -> tuple[int, str, str]:
    """Return an order, the code, and the text of why a node has no pod."""
    labels = node["metadata"].get("labels") or {}
    selector = pod_spec.get("nodeSelector") or {}
    lacking = [f"{key}={value}" for key, value in selector.items() if labels.get(key) != value]
    if lacking:
        return 1, "not-selected", f"without the label {', '.join(lacking)}"
    terms = _list_terms(pod_spec)
    if terms and not any(_matches(term, node) for term in terms):
        return 1, "not-selected", "excluded by the required node affinity"
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerates(pod_spec, taint):
            value = f"={taint['value']}" if taint.get("value") else ""
            return 2, "taint", f"taint {taint['key']}{value}:{taint['effect']} is not tolerated"
    return 0, "missing", "a pod is to be there and does not exist"


def _list_terms(pod_spec: Json) -> list[Json]:
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _matches(term: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    parts = [(each, labels) for each in term.get("matchExpressions") or ()]
    parts += [(each, fields) for each in term.get("matchFields") or ()]
    return bool(parts) and all(_meets(each, values) for each, values in parts)


def _meets(requirement: Json, values: Mapping[str, str]) -> bool:
    key, operator = str(requirement["key"]), str(requirement["operator"])
    wanted: Sequence[str] = requirement.get("values") or ()
    has = values.get(key)
    if operator in ("Gt", "Lt"):
        try:
            return has is not None and (int(has) > int(wanted[0]) if operator == "Gt" else int(has) < int(wanted[0]))
        except (ValueError, IndexError):
            return False
    if operator in ("Exists", "DoesNotExist"):
        return (has is not None) == (operator == "Exists")
    return (has in wanted) == (operator == "In")


def _tolerates(pod_spec: Json, taint: Json) -> bool:
    if taint["key"] in _TOLERATED or (taint["key"] == _NETWORK and pod_spec.get("hostNetwork")):
        return True
    for each in pod_spec.get("tolerations") or ():
        if each.get("effect") and each["effect"] != taint["effect"]:
            continue
        if each.get("key") and each["key"] != taint["key"]:
            continue
        if each.get("operator") == "Exists" or (each.get("key") and each.get("value", "") == taint.get("value", "")):
            return True
    return False
