"""Why a node is still here: everything that keeps cluster-autoscaler or Karpenter from removing it.

Owns: which annotations, pods, budgets and sizes keep a node. Does not own: whether pods find another node, which the
what-if engine decides (`whatif.simulation`), disruption budgets (`whatif.budgets`).

Source: cluster-autoscaler simulator/drainability/rules, with its default flags, and Karpenter's disruption controller.
Utilization, delays and prices are not known here: a node without blockers may stay for one of these.

Each node is examined alone: its pods are removed, placed on the other nodes without preemption, and put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from herodotus_answers.node_groups import NodeScaleDown, ScaleDown, ScaleDownBlocker
from scheduler.engine.nodegroups.discovery import FoundGroups
from scheduler.engine.nodegroups.shapes import FoundGroup
from scheduler.engine.objects.autoscaling import DO_NOT_DISRUPT, SCALE_DOWN_DISABLED
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod, PodAnnotations, Volume
from scheduler.engine.whatif.eviction import is_left_alone
from scheduler.engine.whatif.owners import build_replacement, is_replaced
from scheduler.engine.whatif.simulation import Simulation, format_no_profile

CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"
KARPENTER: Final = "karpenter"
SYSTEM_NAMESPACE: Final = "kube-system"
_TRUE, _FALSE = "true", "false"
_CONTROLLERS: Final = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet", "Job", "DaemonSet"})
_NO_ANNOTATIONS: Final = PodAnnotations()


def find_blockers(simulation: Simulation, discovered: FoundGroups, names: Sequence[str] | None) -> ScaleDown:
    """Return what keeps each node from being removed, nodes without blockers first.

    `names` are the nodes in question, None for all; those that do not exist are ignored.
    """
    groups = {group.name: group for group in discovered.groups}
    nodes: list[NodeScaleDown] = []
    for name in list(simulation.nodes.index) if names is None else dict.fromkeys(names):
        node = simulation.node(name)
        if node is None:
            continue
        group = groups.get(discovered.group_of.get(name, ""))
        pods = [pod for pod in simulation.pods_on(name) if not is_left_alone(pod.pod)]
        blockers = [*_list_node_blockers(node, group), *_list_pod_blockers(simulation, name, pods)]
        nodes.append({"node": name, "group": group.name if group else "", "pods": len(pods), "blockers": blockers})
    return {"nodes": sorted(nodes, key=lambda node: (bool(node["blockers"]), node["node"]))}


def _block(
    cause: str, message: str, pod: str | None = None, *, reason: str = "", autoscaler: str = ""
) -> ScaleDownBlocker:
    return {"cause": cause, "pod": pod, "message": message, "reason": reason, "autoscaler": autoscaler}


def _list_node_blockers(node: Node, group: FoundGroup | None) -> Iterator[ScaleDownBlocker]:
    annotations = node.metadata.annotations or {}
    if annotations.get(SCALE_DOWN_DISABLED) == _TRUE:
        message = f"the node is annotated {SCALE_DOWN_DISABLED}: true"
        yield _block("ScaleDownDisabled", message, autoscaler=CLUSTER_AUTOSCALER)
    if annotations.get(DO_NOT_DISRUPT) == _TRUE:
        yield _block("DoNotDisrupt", f"the node is annotated {DO_NOT_DISRUPT}: true", autoscaler=KARPENTER)
    if group is None:
        return
    if group.min_size is not None and group.present_size <= group.min_size:
        message = f"node group {group.name} has size {group.present_size} of at least {group.min_size}"
        yield _block("MinSize", message, autoscaler=CLUSTER_AUTOSCALER)
    for budget in group.budgets:
        if budget.startswith(("0 nodes", "0% nodes")):
            yield _block("DisruptionBudget", f"NodePool {group.name} allows {budget}", autoscaler=KARPENTER)


def _list_pod_blockers(simulation: Simulation, node: str, pods: Sequence[PodInfo]) -> Iterator[ScaleDownBlocker]:
    for pod in pods:
        yield from _list_rules(pod.pod, simulation.budgets.has_budget(pod.pod))
    yield from _check_budgets(simulation, pods)
    yield from _check_placements(simulation, node, pods)


def _list_rules(pod: Pod, has_budget: bool) -> Iterator[ScaleDownBlocker]:
    """Yield the blockers that the pod's own metadata and spec cause.

    The rules are cluster-autoscaler's, and Karpenter's annotation. `has_budget` says whether a disruption budget
    selects the pod.
    """
    if pod.metadata.deletion_timestamp is not None:
        return
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    annotations = pod.metadata.annotations or _NO_ANNOTATIONS
    if annotations.do_not_disrupt == _TRUE:
        yield _block("DoNotDisrupt", f"annotated {DO_NOT_DISRUPT}: true", name, autoscaler=KARPENTER)
    block = partial(_block, pod=name, autoscaler=CLUSTER_AUTOSCALER)
    if annotations.safe_to_evict == _TRUE:
        return
    if annotations.safe_to_evict == _FALSE:
        yield block("NotSafeToEvict", "annotated cluster-autoscaler.kubernetes.io/safe-to-evict: false")
    controller = pod.metadata.controller
    if controller is None:
        yield block("NoController", "has no controller that replaces it")
    elif controller.kind not in _CONTROLLERS:
        yield block(
            "CustomController", f"is controlled by a {controller.kind} (--skip-nodes-with-custom-controller-pods)"
        )
    if pod.metadata.namespace == SYSTEM_NAMESPACE and not has_budget:
        yield block(
            "SystemPod", f"runs in {SYSTEM_NAMESPACE} and has no PodDisruptionBudget (--skip-nodes-with-system-pods)"
        )
    volumes = _list_local_volumes(pod, annotations)
    if volumes:
        yield block("LocalStorage", f"has local storage: {', '.join(volumes)} (--skip-nodes-with-local-storage)")


def _list_local_volumes(pod: Pod, annotations: PodAnnotations) -> list[str]:
    """Return the names of emptyDir and hostPath volumes that are not annotated as safe to lose."""
    safe = {name.strip() for name in (annotations.safe_to_evict_local_volumes or "").split(",")}
    return [volume.name for volume in pod.spec.volumes or () if _is_local(volume) and volume.name not in safe]


def _is_local(volume: Volume) -> bool:
    if volume.host_path is not None:
        return True
    return volume.empty_dir is not None and volume.empty_dir.medium != "Memory"


def _check_budgets(simulation: Simulation, pods: Sequence[PodInfo]) -> Iterator[ScaleDownBlocker]:
    """Yield a blocker for each pod whose eviction, alone, a PodDisruptionBudget would refuse now."""
    before = simulation.budgets
    for pod in pods:
        simulation.budgets = before.copy()
        refusal = simulation.budgets.evict(pod.pod)
        if refusal is not None:
            yield _block("Budget", refusal.message, pod.full_name)
    simulation.budgets = before


def _check_placements(simulation: Simulation, node: str, pods: Sequence[PodInfo]) -> Iterator[ScaleDownBlocker]:
    """Yield a blocker for each pod whose replacement fits on no other node, when all pods of the node are replaced.

    Higher priorities are placed first. The simulation is restored afterwards.
    """
    original = simulation.node(node)
    assert original is not None
    budgets = simulation.budgets.copy()
    spec = msgspec.structs.replace(original.spec, unschedulable=True)
    simulation.set_node(msgspec.structs.replace(original, spec=spec))
    removed, placed, claims = list[PodInfo](), list[tuple[PodInfo, str]](), simulation.claims.mark()
    try:
        for pod in pods:
            simulation.nodes.remove_pod(pod.uid, node)
            simulation.claims.release(pod)
            removed.append(pod)
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            if not is_replaced(pod):
                continue
            successor = build_replacement(pod.pod, simulation.next_number())
            result = simulation.place(successor)
            if result is None or result.chosen is None:
                reason = format_no_profile(pod.pod) if result is None else result.message
                yield _block("FitsNowhere", "fits on no other node", pod.full_name, reason=reason)
            else:
                placed.append((successor, simulation.nodes.names[result.chosen]))
    finally:
        for successor, target in placed:
            simulation.nodes.remove_pod(successor.uid, target)
        for pod in removed:
            simulation.nodes.add_pod(pod, node)
        simulation.claims.undo(claims)
        simulation.set_node(original)
        simulation.budgets = budgets
