"""The answer to a ClusterReview as its reader may see it: an allow list of every field.

Owns: what each field of the answer discloses. Does not own: which namespaces the reader may see (`guard`). Pure.

A reader with the right to ask about the whole cluster may see all nodes and all amounts. Names of pods, their
owners and budgets belong to the pod's namespace; texts may name anything, so only kube-scheduler's constant sentences
stay in them.

Invariant: each answer is built anew from the fields that are listed here, so a new field is not shown before it is
listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from herodotus_answers.cluster_review import (
    BlockedPod,
    Capacity,
    ChangedNode,
    ClusterReviewStatus,
    Consolidation,
    EmptiedNode,
    KeptNode,
    NodeAmounts,
    NodeCapacity,
    RemovedPod,
    ReviewedGroup,
    ReviewedPlacement,
    UpgradedDecisions,
    UpgradedRule,
    UpgradeReview,
)
from herodotus_endpoint.access.masking import VisibleNamespaces
from herodotus_endpoint.access.node_group_masking import (
    list_node_group_namespaces,
    mask_node_groups,
    mask_scale_down,
)
from herodotus_record.disclosure import HIDDEN, HIDDEN_TEXT, mask_message


def list_cluster_review_namespaces(status: ClusterReviewStatus) -> frozenset[str]:
    """Return the namespaces of all pods that the answer names."""
    namespaces = {name.partition("/")[0] for name in _full_names(status)}
    namespaces.update(pod.namespace for pod in (*status.placements, *status.pending))
    namespaces.update(group.namespace for group in status.groups)
    namespaces.update(pod.namespace for pod in status.blocked)
    namespaces.update(pod.namespace for pod in (*status.ignored, *status.deleted))
    namespaces.update(pods.namespace for pods in (status.upgrade.changes if status.upgrade else ()))
    namespaces.update(list_node_group_namespaces(status.node_groups, status.scale_down))
    return frozenset(namespaces)


def mask_cluster_review(status: ClusterReviewStatus, visible: VisibleNamespaces) -> ClusterReviewStatus:
    """Return the answer without the names and texts that the reader may not see; itself if nothing is hidden."""
    if visible.everything:
        return status
    return ClusterReviewStatus(
        placements=[_mask_placement(pod, visible) for pod in status.placements],
        pending=[_mask_placement(pod, visible) for pod in status.pending],
        groups=[_mask_group(group, visible) for group in status.groups],
        blocked=[_mask_blocked(pod, visible) for pod in status.blocked],
        ignored=[_mask_removed(pod, visible) for pod in status.ignored],
        deleted=[_mask_removed(pod, visible) for pod in status.deleted],
        nodes=[
            ChangedNode(
                name=node.name,
                before=_copy_amounts(node.before),
                after=_copy_amounts(node.after),
                schedulable=node.schedulable,
            )
            for node in status.nodes
        ],
        capacity=_mask_capacity(status.capacity),
        consolidation=_mask_consolidation(status.consolidation, visible),
        node_groups=mask_node_groups(status.node_groups, visible),
        scale_down=mask_scale_down(status.scale_down, visible),
        upgrade=_mask_upgrade(status.upgrade, visible),
        notes=[HIDDEN_TEXT for _ in status.notes],
    )


def _full_names(status: ClusterReviewStatus) -> Iterator[str]:
    """Yield the pods that the answer names as NAMESPACE/NAME."""
    for placement in (*status.placements, *status.pending):
        yield from placement.victims
    for kept in status.consolidation.kept if status.consolidation else ():
        yield from kept.pods


def _mask_placement(pod: ReviewedPlacement, visible: VisibleNamespaces) -> ReviewedPlacement:
    seen = visible.sees(pod.namespace)
    return ReviewedPlacement(
        namespace=_show(pod.namespace, seen),
        name=_show(pod.name, seen),
        cause=pod.cause,
        owner=_show(pod.owner, seen),
        from_node=pod.from_node,
        node=pod.node,
        plugin=pod.plugin,
        reason=mask_message(pod.reason) if seen else _show(pod.reason, seen),
        victims=[_show(name, visible.sees(name.partition("/")[0])) for name in pod.victims],
    )


def _mask_group(group: ReviewedGroup, visible: VisibleNamespaces) -> ReviewedGroup:
    seen = visible.sees(group.namespace)
    return ReviewedGroup(
        namespace=_show(group.namespace, seen),
        name=_show(group.name, seen),
        min_count=group.min_count,
        pods=group.pods,
        feasible=group.feasible,
        fits=group.fits,
        stopped_at=_show(group.stopped_at, seen),
        reason=mask_message(group.reason) if seen else _show(group.reason, seen),
    )


def _mask_blocked(pod: BlockedPod, visible: VisibleNamespaces) -> BlockedPod:
    seen = visible.sees(pod.namespace)
    return BlockedPod(
        namespace=_show(pod.namespace, seen),
        name=_show(pod.name, seen),
        node=pod.node,
        cause=pod.cause,
        message=_show(pod.message, seen),
        owner=_show(pod.owner, seen),
        budget=_show(pod.budget, seen),
    )


def _mask_removed(pod: RemovedPod, visible: VisibleNamespaces) -> RemovedPod:
    seen = visible.sees(pod.namespace)
    return RemovedPod(
        namespace=_show(pod.namespace, seen),
        name=_show(pod.name, seen),
        node=pod.node,
        cause=pod.cause,
        owner=_show(pod.owner, seen),
    )


def _copy_amounts(amounts: NodeAmounts | None) -> NodeAmounts | None:
    return amounts and NodeAmounts(pods=amounts.pods, cpu=amounts.cpu, memory=amounts.memory)


def _mask_capacity(found: Capacity | None) -> Capacity | None:
    return found and Capacity(
        fits=found.fits,
        limited=found.limited,
        message=mask_message(found.message),
        nodes=[
            NodeCapacity(node=node.node, fits=node.fits, limited_by=mask_message(node.limited_by))
            for node in found.nodes
        ],
        zones=dict(found.zones),
        groups=found.groups,
        group_size=found.group_size,
    )


def _mask_upgrade(found: UpgradeReview | None, visible: VisibleNamespaces) -> UpgradeReview | None:
    return found and UpgradeReview(
        from_version=found.from_version,
        to_version=found.to_version,
        pods=found.pods,
        decided=found.decided,
        changes=[_mask_upgraded(pods, visible.sees(pods.namespace)) for pods in found.changes],
        rules=[
            UpgradedRule(name=rule.name, plugin=rule.plugin, enabled=rule.enabled, effect=rule.effect)
            for rule in found.rules
        ],
    )


def _mask_upgraded(pods: UpgradedDecisions, seen: bool) -> UpgradedDecisions:
    def mask(message: str) -> str:
        return mask_message(message) if seen else _show(message, seen)

    return UpgradedDecisions(
        namespace=_show(pods.namespace, seen),
        owner=_show(pods.owner, seen),
        change=pods.change,
        pods=pods.pods,
        name=_show(pods.name, seen),
        node=pods.node,
        best_before=list(pods.best_before),
        best_after=list(pods.best_after),
        message_before=mask(pods.message_before),
        message_after=mask(pods.message_after),
        rules=list(pods.rules),
    )


def _mask_consolidation(found: Consolidation | None, visible: VisibleNamespaces) -> Consolidation | None:
    return found and Consolidation(
        emptied=[EmptiedNode(node=node.node, pods=node.pods, targets=dict(node.targets)) for node in found.emptied],
        kept=[KeptNode(node=node.node, pods=dict(_mask_kept(node.pods.items(), visible))) for node in found.kept],
    )


def _mask_kept(pods: Iterable[tuple[str, str]], visible: VisibleNamespaces) -> Iterator[tuple[str, str]]:
    """Yield the pods that keep a node; hidden ones are numbered, so that their number is known."""
    hidden = 0
    for name, reason in pods:
        if visible.sees(name.partition("/")[0]):
            yield name, mask_message(reason)
        else:
            hidden += 1
            yield f"{HIDDEN} {hidden}", HIDDEN_TEXT


def _show(text: str, seen: bool) -> str:
    return text if seen or not text else HIDDEN
