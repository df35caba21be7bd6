"""The answers to questions about node groups and scale-down, as parts of a ClusterReview.

Owns: the answers from what the other modules find. Does not own: groups, verdicts, estimates, blockers.

Invariant: the state is as before when an answer is returned, so that other questions can follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from herodotus_answers.cluster_questions import (
    ClusterQuestion,
    NodeGroupShape,
    NodeGroupsQuestion,
    ScaleDownQuestion,
)
from herodotus_answers.node_groups import (
    KNOWN,
    PARTLY_KNOWN,
    UNKNOWN,
    NodeEstimate,
    NodeGroup,
    NodeGroupCondition,
    NodeGroupReview,
    NodeTemplate,
    PodVerdicts,
    ScaleDown,
)
from herodotus_record.templates import parse_pod_template
from herodotus_record.units import format_available, format_requests
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.nodegroups.discovery import FoundGroups, NodeGroupError, find_groups
from scheduler.engine.nodegroups.estimate import Estimator
from scheduler.engine.nodegroups.limits import find_limit
from scheduler.engine.nodegroups.reports import (
    AutoscalerStatus,
    format_pool_source,
    list_autoscaler_events,
    list_group_conditions,
    list_reports,
)
from scheduler.engine.nodegroups.scale_down import find_blockers
from scheduler.engine.nodegroups.shapes import FoundGroup
from scheduler.engine.nodegroups.templates import TemplateNode, TemplateNodes
from scheduler.engine.nodegroups.verdicts import GroupEvaluator
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import format_taint
from scheduler.engine.objects.types import Pod
from scheduler.engine.progress import ProgressReport
from scheduler.engine.whatif.owners import find_workload
from scheduler.engine.whatif.pods import PriorityClass, build_pods
from scheduler.engine.whatif.simulation import Simulation, WhatIfState

MAX_PODS = 100  # with verdicts in one answer; each takes some 50 ms at 5,000 nodes in 60 groups
NO_AUTOSCALER = "no node group is known here: no node has a pool label, and there is no NodePool or MachineDeployment"


class NodeGroupAnswers:
    """Answers questions about the node groups of one cluster, which are found once."""

    def __init__(
        self, state: WhatIfState, label_keys: Sequence[str] = (), shapes: Sequence[NodeGroupShape] = ()
    ) -> None:
        """Find the node groups of the cluster. Raises NodeGroupError for an invalid shape.

        `label_keys` are labels whose values name groups, and `shapes` the descriptions of groups in the user's file.
        """
        self._state = state
        self._nodes: NodeColumns = state.nodes
        self._objects: ClusterObjects = state.objects
        self._status = AutoscalerStatus.read(state.objects)
        self.found: FoundGroups = find_groups(state.nodes, state.objects, label_keys, shapes)
        self._take_sizes()
        self._templates = TemplateNodes(state.nodes, state.objects)
        self._evaluator = GroupEvaluator(self._templates, self.found.groups)

    def _take_sizes(self) -> None:
        """Set unknown sizes of groups to those that cluster-autoscaler reports under the group's name or source."""
        for group in self.found.groups:
            reported = self._status.groups.get(group.name) or self._status.groups.get(group.source.replace(" ", "/"))
            if reported is not None:
                group.min_size = reported.min_size if group.min_size is None else group.min_size
                group.max_size = reported.max_size if group.max_size is None else group.max_size
                group.size = reported.target if group.size is None else group.size

    def describe(self) -> NodeGroupReview:
        """Return the groups and the conditions that autoscalers report, without verdicts on pods."""
        by_source = list_group_conditions(self._objects)
        groups = [self._describe_group(group, by_source) for group in self.found.groups]
        matched = {name for group in self.found.groups for name in (group.name, group.source.replace(" ", "/"))}
        others = [r.conditions for name, r in self._status.groups.items() if name not in matched]
        return {
            "groups": groups,
            "pods": [],
            "estimates": [],
            "ungrouped": self.found.ungrouped,
            "conditions": [
                *self._status.conditions,
                *(condition for each in others for condition in each),
                *list_autoscaler_events(self._objects),
            ],
        }

    def _describe_group(self, group: FoundGroup, by_source: Mapping[str, list[NodeGroupCondition]]) -> NodeGroup:
        templates = self._evaluator.known_templates(group)
        partly = group.requirements is not None or any(shape.labels or shape.taints for shape in group.shapes)
        reported = self._status.groups.get(group.name) or self._status.groups.get(group.source.replace(" ", "/"))
        is_pool = group.requirements is not None
        taints = (*group.own_taints, *(taint for shape in group.shapes for taint in shape.taints))
        conditions = by_source.get(format_pool_source(group.name) if is_pool else group.source, [])
        limits = [find_limit(group, template.shape.allocatable) for template in templates] or [find_limit(group)]
        return {
            "name": group.name,
            "source": group.source,
            "nodes": len(group.nodes),
            "size": group.present_size,
            "shape": KNOWN if templates else PARTLY_KNOWN if partly else UNKNOWN,
            "minSize": group.min_size,
            "maxSize": group.max_size,
            "limits": {r: format_available(r, amount) for r, amount in group.limits.items()},
            "used": format_requests({r: amount for r, amount in group.used.items() if r in group.limits}),
            "atLimit": limits[0] if all(limits) else "",
            "weight": group.weight,
            "taints": list(dict.fromkeys(map(format_taint, taints))),
            "startupTaints": [format_taint(taint) for taint in group.startup_taints],
            "disruptionBudgets": group.budgets,
            "templates": [_describe_template(template) for template in templates],
            "conditions": [*conditions, *(reported.conditions if reported else ())],
        }

    def evaluate(self, pod: Pod, *, exists: bool = True) -> PodVerdicts:
        """Return the verdict of each group on a pod without a node, and the autoscalers' events about the pod.

        `exists` False means that the pod is hypothetical and has no events. Raises NodeGroupError if no profile has its
        scheduler's name.
        """
        meta, workload = pod.metadata, find_workload(pod, self._objects)
        framework = self._framework(pod)
        return {
            "namespace": meta.namespace,
            "name": meta.name,
            "owner": "" if workload is None else str(workload),
            "groups": self._evaluator.evaluate(framework, PodInfo(pod)),
            "reports": list_reports(self._objects, meta.namespace, meta.name) if exists else [],
        }

    def _framework(self, pod: Pod) -> Framework:
        """Return the framework of the pod's scheduler. Raises NodeGroupError if no profile has its name."""
        framework = self._state.framework(pod.spec.scheduler_name)
        if framework is None:
            raise NodeGroupError(f'no profile of the scheduler is named "{pod.spec.scheduler_name}"')
        return framework

    def estimate(self, report: ProgressReport, seed: int) -> list[NodeEstimate]:
        """Return for each group of known shape how many new nodes the pending pods need if no other group grows.

        `report(done, total)` is called for each pod. `seed` determines the choice among nodes with equal totals.
        """
        pods = [PodInfo(pod) for pod in self._state.pending if is_waiting(pod)]
        estimator = Estimator(self._templates, self._state.framework, seed)
        groups = [g for g in self.found.groups if self._evaluator.known_templates(g)]
        done, total = 0, len(pods) * len(groups)

        def count() -> None:
            nonlocal done
            done += 1
            report(done, total)

        return [estimator.estimate(group, self._evaluator.known_templates(group), pods, count) for group in groups]


def is_waiting(pod: Pod) -> bool:
    """Return whether a scheduler would try this pod without a node: it has no gates and is not being deleted."""
    return not (pod.spec.node_name or pod.spec.scheduling_gates or pod.metadata.deletion_timestamp)


def answer_node_groups(
    state: WhatIfState,
    spec: ClusterQuestion,
    classes: Mapping[str, PriorityClass] | None,
    report: ProgressReport,
    seed: int,
) -> tuple[NodeGroupReview, list[str]]:
    """Return the answer to a review's question about node groups, and notes on objects that could not be read.

    Raises NodeGroupError if a pod does not exist or a shape is invalid, PodTemplateError or ManifestError for an
    invalid object.
    """
    question = spec.node_groups or NodeGroupsQuestion()
    if len(question.pods) > MAX_PODS:
        raise NodeGroupError(f"pods: at most {MAX_PODS}, got {len(question.pods)}")
    pods = _find_pods(state, question.pods)
    answers = NodeGroupAnswers(state, question.label_keys, question.shapes)
    review, notes = answers.describe(), list(answers.found.notes)
    if state.unread or not review["groups"]:
        notes.insert(0, "; ".join(filter(None, ["" if review["groups"] else NO_AUTOSCALER, state.unread])))
    review["pods"] = [answers.evaluate(pod) for pod in pods]
    if question.object is not None:
        template = parse_pod_template(question.object)
        namespace = template.namespace or question.namespace
        built = build_pods(
            template, namespace, template.scheduler or spec.scheduler_name, 1, dict(classes) if classes else None
        )
        review["pods"].append(answers.evaluate(built.pods[0].pod, exists=False))
    if question.estimate:
        review["estimates"] = answers.estimate(report, seed)
    return review, notes


def _find_pods(state: WhatIfState, names: Sequence[str]) -> list[Pod]:
    """Return the pending pods with these names (NAMESPACE/NAME). Raises NodeGroupError if one is not pending."""
    pending = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in state.pending}
    for name in names:
        if name not in pending:
            raise NodeGroupError(f'pods: "{name}" is not a pod without a node')
    return [pending[name] for name in names]


def answer_scale_down(simulation: Simulation, question: ScaleDownQuestion) -> ScaleDown:
    """Return, for each node in question, what keeps autoscalers from removing it.

    Raises NodeGroupError if a node does not exist.
    """
    for name in question.nodes or ():
        if simulation.node(name) is None:
            raise NodeGroupError(f'nodes "{name}" not found')
    return find_blockers(simulation, find_groups(simulation.nodes, simulation.objects), question.nodes)


def _describe_template(template: TemplateNode) -> NodeTemplate:
    shape, requests = template.shape, dict[str, int]()
    for pod in template.pods:
        for resource, amount in pod.requests.items():
            requests[resource] = requests.get(resource, 0) + amount
    return {
        "zone": shape.zone,
        "instanceType": shape.instance_type,
        "source": shape.source,
        "labels": dict(template.node.metadata.labels or {}),
        "taints": [format_taint(taint) for taint in shape.taints],
        "allocatable": {resource: str(amount) for resource, amount in (shape.allocatable or {}).items()},
        "daemonPods": len(template.pods),
        "daemonRequests": format_requests({r: amount for r, amount in requests.items() if amount}),
        "volumeLimits": dict(template.volume_limits),
        "devices": template.devices,
    }
