"""Node groups of Karpenter: NodePools, with the shapes of NodeClaims that have no node yet.

Source: pkg/apis/v1 and pkg/controllers/provisioning/scheduling of Karpenter v1. Requirements and labels of a NodePool
become labels of its nodes. A pod need not tolerate startup taints. A label that the NodePool does not define is absent,
except the well-known ones, which the cloud provider sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Final

from scheduler.engine.nodegroups.shapes import (
    INSTANCE_TYPE,
    NODE_CLAIMS,
    REQUIREMENTS,
    ZONE,
    FoundGroup,
    NodeShape,
    is_transient,
    parse_amounts,
)
from scheduler.engine.objects.autoscaling import NODE_POOL_LABEL, DisruptionBudget, NodeClaim, NodePool
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import requirement_matches
from scheduler.engine.objects.types import Labels, Requirement

MAX_COMBINATIONS: Final = 64  # of label values that a NodePool allows and a pod selects by, in one zone
_WELL_KNOWN: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com")


def find_node_pools(objects: ClusterObjects) -> dict[str, FoundGroup]:
    """Return the groups of the NodePools by name, with the shapes of NodeClaims; the groups have no nodes yet."""
    groups = {pool.metadata.name: _build_group(pool) for pool in objects.all(NodePool)}
    for claim in sorted(objects.all(NodeClaim), key=lambda claim: claim.metadata.name):
        labels = claim.metadata.labels or {}
        group = groups.get(labels.get(NODE_POOL_LABEL, ""))
        if group is not None and claim.status.allocatable and not claim.status.node_name:
            group.shapes.append(_build_claim_shape(claim, labels))
    return groups


def _build_group(pool: NodePool) -> FoundGroup:
    spec = pool.spec
    labels = (spec.template.metadata.labels or {}).items()
    own = [Requirement(key=key, operator="In", values=[value]) for key, value in labels]
    own.append(Requirement(key=NODE_POOL_LABEL, operator="In", values=[pool.metadata.name]))
    return FoundGroup(
        name=pool.metadata.name,
        source="NodePool",
        size=spec.replicas,
        limits=parse_amounts(spec.limits),
        used=parse_amounts(pool.status.resources),
        weight=spec.weight,
        startup_taints=tuple(spec.template.spec.startup_taints or ()),
        budgets=[_format_budget(budget) for budget in spec.disruption.budgets or ()],
        requirements=(*own, *(spec.template.spec.requirements or ())),
        ignored_taints=frozenset(taint.key for taint in spec.template.spec.startup_taints or ()),
        own_taints=tuple(spec.template.spec.taints or ()),
    )


def _format_budget(budget: DisruptionBudget) -> str:
    reasons = f" for {', '.join(budget.reasons)}" if budget.reasons else ""
    schedule = f" during {budget.duration} from {budget.schedule}" if budget.schedule and budget.duration else ""
    return f"{budget.nodes} nodes{reasons}{schedule}"


def _build_claim_shape(claim: NodeClaim, labels: Labels) -> NodeShape:
    startup = {taint.key for taint in claim.spec.startup_taints or ()}
    taints = (taint for taint in claim.spec.taints or () if taint.key not in startup and not is_transient(taint))
    return NodeShape(
        source=NODE_CLAIMS,
        zone=labels.get(ZONE, ""),
        instance_type=labels.get(INSTANCE_TYPE, ""),
        labels=dict(labels),
        taints=tuple(taints),
        allocatable=claim.status.allocatable,
    )


def list_possible_shapes(group: FoundGroup, pod: PodInfo) -> list[NodeShape]:
    """Return shapes of nodes that the NodePool's requirements allow, at least one for each zone.

    A label for which several values are allowed has those that the pod selects. Amounts are those of a known shape if
    only one instance type is allowed, and else None. At most `MAX_COMBINATIONS` shapes are returned.
    """
    requirements = group.requirements or ()
    selected = _list_selected(pod)
    keys = sorted({r.key for r in requirements} | {key for key in selected if _is_well_known(key)})
    candidates = {key: _list_candidates(key, requirements, selected.get(key)) for key in keys}
    has_unknown_labels = any(not values and key in selected for key, values in candidates.items())
    allowed = {key: list(_list_allowed(key, values, requirements)) for key, values in candidates.items()}
    restricted = [key for key, values in allowed.items() if values]
    shapes = []
    for values in islice(product(*(allowed[key] for key in restricted)), MAX_COMBINATIONS):
        labels = dict(zip(restricted, values, strict=True))
        instance_type = labels.get(INSTANCE_TYPE, "")
        same = next((s for s in group.shapes if instance_type and s.instance_type == instance_type), None)
        shapes.append(
            NodeShape(
                source=REQUIREMENTS,
                zone=labels.get(ZONE, ""),
                instance_type=instance_type,
                labels=labels,
                taints=group.own_taints,
                allocatable=same.allocatable if same else None,
                like=same.like if same else "",
                has_unknown_labels=has_unknown_labels,
            )
        )
    return shapes


def _is_well_known(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == well_known or domain.endswith(f".{well_known}") for well_known in _WELL_KNOWN)


def _list_candidates(key: str, requirements: Iterable[Requirement], selected: Sequence[str] | None) -> Sequence[str]:
    """Return the values of a label to try: all zones, and of other labels those that the pod selects.

    `selected` holds the values that the pod selects, or is None if it does not select by the label; then one value is
    tried for all. The result is empty if no value is known.
    """
    own = (r for r in requirements if r.key == key and r.operator == "In")
    listed = [value for requirement in own for value in requirement.values or ()]
    if key == ZONE and listed:
        return listed
    if selected is None:
        return listed[:1]
    return [value for value in selected if value in listed] or listed or selected


def _list_allowed(key: str, values: Iterable[str], requirements: Iterable[Requirement]) -> Iterator[str]:
    """Yield those of the values that meet every requirement on the label `key`, each once."""
    here = [requirement for requirement in requirements if requirement.key == key]
    for value in dict.fromkeys(values):
        if all(requirement_matches(requirement, value) for requirement in here):
            yield value


def _list_selected(pod: PodInfo) -> dict[str, list[str]]:
    """Return, by label key, the values that the pod's node selector and required node affinity allow."""
    selected = {key: [value] for key, value in (pod.pod.spec.node_selector or {}).items()}
    affinity = pod.pod.spec.affinity and pod.pod.spec.affinity.node_affinity
    for term in (affinity and affinity.required and affinity.required.node_selector_terms) or ():
        for requirement in term.match_expressions or ():
            values = selected.setdefault(requirement.key, [])
            values += requirement.values or () if requirement.operator == "In" else ()
    return selected
