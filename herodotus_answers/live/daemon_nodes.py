"""Find on which nodes a DaemonSet has no pod, and why: as the DaemonSet controller decides where pods are to be.

Owns: node selector, required node affinity and taints of a DaemonSet's template against nodes, and the command that
adds a toleration. Does not own: what it means for the workload (`workload_state`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.node_rules import (
    describe_taint,
    list_lacking_labels,
    list_pod_terms,
    matches_any_term,
    tolerates,
)
from herodotus_answers.live.pod_facts import make_remedy
from herodotus_answers.pod_templates import build_template_command
from herodotus_record.node_taints import TaintKind, build_toleration, find_node_taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herodotus_answers.live.declarations import NodesWithoutPod, Remedy

Json = dict[str, Any]
MAX_NAMES: Final = 10
# Taints that the DaemonSet controller lets every pod of its own tolerate, by effect.
_TOLERATED: Final = frozenset(
    f"node.kubernetes.io/{name}"
    for name in ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_FOR_OTHERS: Final = (TaintKind.RESERVED, TaintKind.FOR_DEVICES)  # taints that a DaemonSet may tolerate
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
    for term in list_pod_terms(pod["spec"]):
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("operator") == "In":
                return str((field.get("values") or [""])[0])
    return ""


def _exclude(pod_spec: Json, node: Json) -> tuple[int, str, str]:
    """Return an order, the code, and the text of why a node has no pod."""
    lacking = list_lacking_labels(pod_spec, node)
    if lacking:
        return 1, "not-selected", f"without the label {', '.join(lacking)}"
    terms = list_pod_terms(pod_spec)
    if terms and not matches_any_term(terms, node):
        return 1, "not-selected", "excluded by the required node affinity"
    for taint in list_untolerated_taints(pod_spec, node):
        return 2, "taint", f"taint {describe_taint(taint)} is not tolerated"
    return 0, "missing", "a pod is to be there and does not exist"


def list_untolerated_taints(pod_spec: Json, node: Json) -> list[Json]:
    """Return the taints of a node that keep a DaemonSet's pod away."""
    return [taint for taint in list_hard_taints(node) if not _tolerates(pod_spec, taint)]


def list_hard_taints(node: Json) -> list[Json]:
    """Return the taints of a node that keep every pod away that does not tolerate them."""
    return [t for t in (node.get("spec") or {}).get("taints") or () if t.get("effect") in ("NoSchedule", "NoExecute")]


def advise_toleration(daemon_set: Json, nodes: Sequence[Json]) -> Remedy | None:
    """Return the command after which a DaemonSet has a pod on nodes that its template does not tolerate, or None.

    None if the template excludes one of the nodes for another reason too, or if a taint states that its node starts, is
    in trouble, in maintenance, about to be removed, or of another platform.
    """
    spec, meta = daemon_set["spec"]["template"]["spec"], daemon_set["metadata"]
    taints = {describe_taint(taint): taint for node in nodes for taint in list_untolerated_taints(spec, node)}
    if not taints or not all(map(_may_be_tolerated, taints.values())):
        return None
    present, added = (
        list(spec.get("tolerations") or ()),
        [build_toleration(taint["key"], taint.get("value") or "", taint["effect"]) for taint in taints.values()],
    )
    changed = {**spec, "tolerations": [*present, *added]}
    if any(_exclude(changed, node)[1] != "missing" for node in nodes):
        return None
    operations: list[Json] = [{"op": "add", "path": "/tolerations/-", "value": each} for each in added]
    operations = operations if present else [{"op": "add", "path": "/tolerations", "value": added}]
    label = f"{meta.get('namespace')}/{meta['name']}"
    text = f"let DaemonSet {label} tolerate {', '.join(taints)}, which replaces its pods"
    command = build_template_command("DaemonSet", meta["name"], meta["namespace"], {}, operations)
    return make_remedy(text, command and command.command)


def _may_be_tolerated(taint: Json) -> bool:
    declared = find_node_taint(taint["key"], taint.get("value") or "")
    is_of_platform = taint["key"].endswith(("kubernetes.io/os", "kubernetes.io/arch"))
    return not is_of_platform and (declared is None or declared.kind in _FOR_OTHERS)


def _tolerates(pod_spec: Json, taint: Json) -> bool:
    if taint["key"] in _TOLERATED or (taint["key"] == _NETWORK and pod_spec.get("hostNetwork")):
        return True
    return tolerates(pod_spec.get("tolerations") or (), taint)
