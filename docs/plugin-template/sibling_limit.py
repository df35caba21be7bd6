"""SiblingLimit: limits the pods of one controller on a node, and prefers nodes with few of them.

A template for plugins outside this repository that handle one node at a time. docs/writing-a-plugin.md explains it.
"""

from __future__ import annotations

from collections.abc import Iterable

from herodotus_record.model import Reason, Verdict
from scheduler.engine.framework.per_node import Input, NodeInfo, PerNodePlugin
from scheduler.engine.framework.plugin import Args
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid


class SiblingLimitArgs(Args, frozen=True):
    """Arguments: `maxPerNode` is how many pods of one controller a node may hold."""

    max_per_node: int = 2

    def problems(self) -> Iterable[Problem]:
        """Yield invalid values when the configuration is read, with their path below `args`."""
        if self.max_per_node < 1:
            yield invalid("maxPerNode", self.max_per_node, "must be at least 1")


class SiblingLimit(PerNodePlugin):
    """A plugin for Filter and Score."""

    name = "SiblingLimit"
    args_type = SiblingLimitArgs
    args: SiblingLimitArgs
    pure = True  # it only reads, so it may be called for every node, and the record has every verdict

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Verdict | None:
        """Reject a node that has the maximum of siblings; preemption may help, so the verdict is not `unresolvable`."""
        siblings = _siblings(pod, node)
        if siblings < self.args.max_per_node:
            return None
        return unschedulable(Reason("text", {"text": "node(s) had too many pods of the same controller"}))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return 100 for a node without siblings, and less for each sibling."""
        return 100 - 100 * _siblings(pod, node) // self.args.max_per_node

    def inputs(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Iterable[Input]:
        """Report the number of siblings, from which verdict and score follow."""
        yield Input("siblings", _siblings(pod, node), source="pods on the node", digits=0)


def _siblings(pod: PodInfo, node: NodeInfo) -> int:
    """Return how many pods on the node have the pod's controller."""
    controller = _controller(pod)
    return sum(_controller(other) == controller for other in node.pods) if controller else 0


def _controller(pod: PodInfo) -> str:
    """Return the UID of the pod's controller, or "" if it has none."""
    owners = pod.pod.metadata.owner_references or ()
    return next((owner.uid for owner in owners if owner.controller), "")
