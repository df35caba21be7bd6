"""What a plugin of the descheduler has at hand while it runs: its nodes, the evictor, and the record of its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from herodotus_answers.descheduling import NodeUtilization
from scheduler.engine.descheduler.cluster import SeenCluster, SeenNode
from scheduler.engine.descheduler.eviction import DefaultEvictor, DeschedulerRun, Result
from scheduler.engine.descheduler.policy import NamespaceFilter
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.types import LabelSelector


@dataclass
class PluginRun:
    """The run of one plugin of a profile. `nodes` are the ready nodes of the policy, in the order of the run.

    The plugin may set `summary`, a sentence on why it evicts no pod, and `utilization`.
    """

    run: DeschedulerRun
    evictor: DefaultEvictor
    nodes: list[SeenNode]
    profile: str
    plugin: str
    summary: str = ""
    utilization: list[NodeUtilization] = field(default_factory=list)

    @property
    def cluster(self) -> SeenCluster:
        return self.run.cluster

    def evict(self, pod: PodInfo, node: str, reason: str) -> Result:
        """Try to evict a pod; `reason` says by which rule."""
        return self.run.evict(pod, node, self.profile, self.plugin, reason)

    def explain(self, pod: PodInfo, why: str) -> None:
        """Record why the plugin does not evict a pod, if the question asks about it. The first reason stays."""
        if pod.uid in self.run.asked:
            self.run.explanations.setdefault((pod.uid, self.profile, self.plugin), why)

    def passes_filter(self, pod: PodInfo) -> bool:
        """Return whether the evictor lets the pod be evicted, by its first check."""
        return self._passes(pod, self.evictor.find_protection(pod))

    def passes_late_filter(self, pod: PodInfo) -> bool:
        """Return whether the evictor lets the pod be evicted, by its last check."""
        return self._passes(pod, self.evictor.find_late_protection(pod))

    def _passes(self, pod: PodInfo, protection: str) -> bool:
        if protection:
            self.explain(pod, protection)
        return not protection

    def is_in_scope(self, pod: PodInfo, namespaces: NamespaceFilter, selector: LabelSelector | None) -> bool:
        """Return whether the plugin's namespaces and label selector include the pod."""
        if not namespaces.contain(pod.namespace):
            self.explain(pod, "its namespace is left out")
            return False
        if selector is not None and not label_selector_matches(selector, pod.labels):
            self.explain(pod, "its labels do not match the plugin's labelSelector")
            return False
        return True

    def list_evictable(
        self, node: SeenNode, namespaces: NamespaceFilter, selector: LabelSelector | None = None
    ) -> Iterator[PodInfo]:
        """Yield the node's pods that are in scope and pass both checks of the evictor, in the order of the run."""
        for pod in self.run.arrange(node.pods):
            if self.is_in_scope(pod, namespaces, selector) and self.passes_filter(pod) and self.passes_late_filter(pod):
                yield pod
