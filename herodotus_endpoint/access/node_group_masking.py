"""The answers about node groups and scale-down as their reader may see them: an allow list of every field.

Owns: what each field discloses. Does not own: which namespaces the reader may see (`guard`). Pure.

Node groups, their sizes, amounts and labels belong to the cluster. A pod's verdicts belong to its namespace. Texts that
autoscalers wrote may name anything, so only a reader who sees every namespace gets them.

Invariant: each answer is built anew from the fields that are listed here, so a new field is not shown before it is
listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from herodotus_answers.node_groups import (
    AutoscalerReport,
    GroupRejection,
    GroupVerdict,
    NodeEstimate,
    NodeGroup,
    NodeGroupCondition,
    NodeGroupReview,
    NodeScaleDown,
    NodeTemplate,
    PodGroupVerdicts,
    RecordedNodeGroups,
    ScaleDown,
    ScaleDownBlocker,
)
from herodotus_record.disclosure import HIDDEN, HIDDEN_TEXT, mask_message

if TYPE_CHECKING:  # that module masks stored values, among them these answers
    from herodotus_endpoint.access.masking import VisibleNamespaces


def list_node_group_namespaces(review: NodeGroupReview | None, scale_down: ScaleDown | None) -> Iterator[str]:
    """Yield the namespaces of all pods that the answers name."""
    yield from (pod.namespace for pod in (review.pods if review else ()))
    for node in scale_down.nodes if scale_down else ():
        yield from (blocker.pod.partition("/")[0] for blocker in node.blockers if blocker.pod)


def mask_node_groups(review: NodeGroupReview | None, visible: VisibleNamespaces) -> NodeGroupReview | None:
    """Return the answer about node groups without what the reader may not see."""
    return review and NodeGroupReview(
        groups=[_mask_group(group) for group in review.groups],
        pods=[mask_pod_verdicts(pod, visible) for pod in review.pods],
        estimates=[_copy_estimate(estimate) for estimate in review.estimates],
        ungrouped=review.ungrouped,
        conditions=[_mask_condition(condition) for condition in review.conditions],
    )


def mask_recorded_node_groups(text: str, visible: VisibleNamespaces) -> str:
    """Return the verdicts of a record, as JSON, without what the reader may not see; "" if they cannot be read."""
    try:
        recorded = msgspec.json.decode(text, type=RecordedNodeGroups)
    except msgspec.DecodeError:
        return ""
    review = mask_node_groups(recorded.review, visible)
    assert review is not None
    shown = RecordedNodeGroups(review=review, omitted=recorded.omitted, notes=[_hide(note) for note in recorded.notes])
    return msgspec.json.encode(shown).decode()


def mask_pod_verdicts(pod: PodGroupVerdicts, visible: VisibleNamespaces) -> PodGroupVerdicts:
    """Return the verdicts on one pod without what the reader may not see."""
    seen = visible.sees(pod.namespace)
    return PodGroupVerdicts(
        namespace=_show(pod.namespace, seen),
        name=_show(pod.name, seen),
        owner=_show(pod.owner, seen),
        groups=[_mask_verdict(verdict, seen) for verdict in pod.groups],
        reports=[_mask_report(report) for report in pod.reports] if seen else [],
    )


def mask_scale_down(found: ScaleDown | None, visible: VisibleNamespaces) -> ScaleDown | None:
    """Return the answer about scale-down without what the reader may not see."""
    return found and ScaleDown(
        nodes=[
            NodeScaleDown(
                node=node.node,
                group=node.group,
                pods=node.pods,
                blockers=list(_mask_blockers(node.blockers, visible)),
            )
            for node in found.nodes
        ]
    )


def _mask_group(group: NodeGroup) -> NodeGroup:
    return NodeGroup(
        name=group.name,
        source=group.source,
        nodes=group.nodes,
        size=group.size,
        shape=group.shape,
        min_size=group.min_size,
        max_size=group.max_size,
        limits=dict(group.limits),
        used=dict(group.used),
        at_limit=group.at_limit,
        weight=group.weight,
        startup_taints=list(group.startup_taints),
        disruption_budgets=list(group.disruption_budgets),
        templates=[_copy_template(template) for template in group.templates],
        conditions=[_mask_condition(condition) for condition in group.conditions],
    )


def _copy_template(template: NodeTemplate) -> NodeTemplate:
    return NodeTemplate(
        zone=template.zone,
        instance_type=template.instance_type,
        source=template.source,
        labels=dict(template.labels),
        taints=list(template.taints),
        allocatable=dict(template.allocatable),
        daemon_pods=template.daemon_pods,
        daemon_requests=dict(template.daemon_requests),
        volume_limits=dict(template.volume_limits),
        devices=template.devices,
    )


def _mask_condition(condition: NodeGroupCondition) -> NodeGroupCondition:
    return NodeGroupCondition(
        object=condition.object,
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=_hide(condition.message),
    )


def _mask_verdict(verdict: GroupVerdict, seen: bool) -> GroupVerdict:
    return GroupVerdict(
        group=verdict.group,
        verdict=verdict.verdict,
        zones=list(verdict.zones),
        at_limit=verdict.at_limit,
        rejections=[_mask_rejection(rejection) for rejection in verdict.rejections] if seen else [],
        change=_show(verdict.change, seen),
        unknown=verdict.unknown,
    )


def _mask_rejection(rejection: GroupRejection) -> GroupRejection:
    return GroupRejection(
        plugin=rejection.plugin, reasons=list(map(mask_message, rejection.reasons)), zones=list(rejection.zones)
    )


def _mask_report(report: AutoscalerReport) -> AutoscalerReport:
    return AutoscalerReport(
        component=report.component,
        reason=report.reason,
        message=_hide(report.message),
        at=report.at,
        count=report.count,
    )


def _copy_estimate(estimate: NodeEstimate) -> NodeEstimate:
    return NodeEstimate(
        group=estimate.group,
        nodes=estimate.nodes,
        pods=estimate.pods,
        on_present_nodes=estimate.on_present_nodes,
        left=estimate.left,
        zones=dict(estimate.zones),
        limited_by=estimate.limited_by,
    )


def _mask_blockers(blockers: Iterable[ScaleDownBlocker], visible: VisibleNamespaces) -> Iterator[ScaleDownBlocker]:
    for blocker in blockers:
        seen = not blocker.pod or visible.sees(blocker.pod.partition("/")[0])
        yield ScaleDownBlocker(
            cause=blocker.cause,
            message=blocker.message if not blocker.pod else _mask_blocker_text(blocker) if seen else HIDDEN_TEXT,
            pod=_show(blocker.pod, seen),
            autoscaler=blocker.autoscaler,
        )


def _mask_blocker_text(blocker: ScaleDownBlocker) -> str:
    """Return the text about a pod that the reader sees; kube-scheduler's message may name pods of other namespaces."""
    return mask_message(blocker.message) if blocker.cause == "FitsNowhere" else blocker.message


def _hide(text: str) -> str:
    return HIDDEN_TEXT if text else ""


def _show(text: str, seen: bool) -> str:
    return text if seen or not text else HIDDEN
