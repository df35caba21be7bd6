"""How many new nodes of one group pending pods need.

The scheduling cycle decides one pod after the other, highest priority first, without preemption. Where it finds no
node, one template node of the group is added, in the zone that has got the fewest so far, and stays if the pod then
fits. The count is an estimate: another order of pods or zones leads to another number.

Invariant: the cluster is as before when the estimate is returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from herodotus_answers.node_groups import NodeEstimate
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.nodegroups.limits import find_limit
from scheduler.engine.nodegroups.shapes import FoundGroup
from scheduler.engine.nodegroups.templates import TemplateNode, TemplateNodes
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.suggestions.check import check_slots
from scheduler.engine.whatif.claims import SimulatedClaims

MAX_NODES: Final = 1000  # that one estimate adds to a group
MAX_PODS: Final = 2000  # that one estimate places

FindFramework = Callable[[str], Framework | None]


class Estimator:
    """Estimates the nodes that pending pods need, one group after the other."""

    def __init__(self, templates: TemplateNodes, find_framework: FindFramework, seed: int) -> None:
        """Prepare estimates on the cluster of `templates`; `seed` determines the choice among equally good nodes."""
        self._templates, self._find, self._seed = templates, find_framework, seed
        self._without_preemption: dict[int, Framework] = {}

    def estimate(
        self, group: FoundGroup, kinds: Sequence[TemplateNode], pods: Sequence[PodInfo], report: Callable[[], None]
    ) -> NodeEstimate:
        """Return how many new nodes of these kinds the pods need.

        At most `MAX_PODS` pods, those with the highest priority, are tried. `report` is called after each.
        """
        trial = _Trial(self, group, kinds)
        try:
            for pod in sorted(pods, key=lambda pod: -pod.priority)[:MAX_PODS]:
                trial.place(pod)
                report()
            return trial.describe(len(pods))
        finally:
            trial.undo()

    def framework(self, pod: PodInfo) -> Framework | None:
        """Return the framework of the pod's scheduler, without PostFilter plugins, so that no pod is evicted.

        Returns None if no profile has the scheduler's name.
        """
        framework = self._find(pod.pod.spec.scheduler_name)
        if framework is None:
            return None
        if id(framework) not in self._without_preemption:
            profile = replace(framework.profile, post_filter=())
            self._without_preemption[id(framework)] = framework.without_caches(profile, extenders=True)
        return self._without_preemption[id(framework)]

    def decide(self, pod: PodInfo, framework: Framework) -> CycleResult:
        """Return the result of a scheduling cycle for the pod; nothing is placed."""
        self._seed += 1
        return schedule_regardless_of_group(framework, pod, Snapshot.from_columns(self._templates.nodes), self._seed)

    @property
    def templates(self) -> TemplateNodes:
        """The builder of template nodes, which holds the columns and objects of the cluster."""
        return self._templates


class _Trial:
    """The nodes and pods that were added for one group."""

    def __init__(self, estimator: Estimator, group: FoundGroup, kinds: Sequence[TemplateNode]) -> None:
        self._estimator, self._templates = estimator, estimator.templates
        self._group, self._kinds = group, kinds
        self._added: dict[str, TemplateNode] = {}
        self._placed: list[tuple[PodInfo, str]] = []
        self._claims = SimulatedClaims(self._templates.objects)
        self._zones: Counter[str] = Counter()
        self._on_present = 0
        self._limit = ""
        self._rejected = set[bytes]()  # digests of specs that fit nowhere, whatever else is placed

    def place(self, pod: PodInfo) -> None:
        """Place a pod on a present node, on an added one or on one more new node, if one of them is feasible."""
        framework = self._estimator.framework(pod)
        if framework is None or pod.spec_digest in self._rejected:
            return
        result = self._estimator.decide(pod, framework)
        if result.chosen is None and self._add_node(pod, framework):
            result = self._estimator.decide(pod, framework)
        if result.chosen is None:
            if not _depends_on_pods(pod):
                self._rejected.add(pod.spec_digest)
            return
        node = self._templates.nodes.names[result.chosen]
        self._claims.allocate(pod, node, result.state)
        self._on_present += node not in self._added
        spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
        placed = PodInfo(msgspec.structs.replace(pod.pod, spec=spec), running=True)
        self._templates.nodes.add_pod(placed, node)
        self._placed.append((placed, node))

    def _add_node(self, pod: PodInfo, framework: Framework) -> bool:
        """Add a new node on which the pod fits, in the zone with the fewest new nodes; return whether one was added."""
        for kind in sorted(self._kinds, key=lambda kind: self._zones[kind.shape.zone]):
            limit = find_limit(self._group, kind.shape.allocatable, len(self._added) + 1)
            if limit or len(self._added) >= MAX_NODES:
                self._limit = limit or f"the estimate ends at {MAX_NODES} new nodes"
                continue
            template = self._templates.build(kind.group, kind.shape)
            slot = self._templates.add(template)
            if not check_slots(framework, pod, self._templates.nodes, [slot]).rejections[slot]:
                self._added[template.name] = template
                self._zones[template.shape.zone] += 1
                return True
            self._templates.remove(template)
        return False

    def describe(self, pods: int) -> NodeEstimate:
        """Return the estimate; `pods` is the number of all pods, including those that were not tried."""
        limit = self._limit or (f"the first {MAX_PODS} of {pods} pods are counted" if pods > MAX_PODS else "")
        return {
            "group": self._group.name,
            "nodes": len(self._added),
            "pods": len(self._placed),
            "onPresentNodes": self._on_present,
            "left": pods - len(self._placed),
            "zones": {zone: count for zone, count in sorted(self._zones.items()) if zone},
            "limitedBy": limit,
        }

    def undo(self) -> None:
        """Remove everything that the trial added."""
        self._claims.undo(0)
        for pod, node in self._placed:
            self._templates.nodes.remove_pod(pod.uid, node)
        for template in self._added.values():
            self._templates.remove(template)


def _depends_on_pods(pod: PodInfo) -> bool:
    """Return whether the pod has spread constraints or pod affinity, so that placing other pods may help it."""
    affinity = pod.pod.spec.affinity
    return bool(pod.pod.spec.topology_spread_constraints or (affinity and affinity.pod_affinity))
