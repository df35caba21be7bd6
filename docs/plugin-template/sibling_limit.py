"""SiblingLimit: at most so many pods of one controller on a node, and rather where there are few of them.

The template of an out-of-tree plugin in the plain form: one node at a time. docs/writing-a-plugin.md walks through it.
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
    """`maxPerNode`: how many pods of one controller a node may hold."""

    max_per_node: int = 2

    def problems(self) -> Iterable[Problem]:
        """Checked when the configuration is read; the path is relative to `args`."""
        if self.max_per_node < 1:
            yield invalid("maxPerNode", self.max_per_node, "must be at least 1")


class SiblingLimit(PerNodePlugin):
    """Extends Filter and Score."""

    name = "SiblingLimit"
    args_type = SiblingLimitArgs
    args: SiblingLimitArgs
    pure = True  # it only reads: Herodotus may ask about every node, and record every answer

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Verdict | None:
        """Rejects a node that holds as many siblings as it may. Eviction would help, so not `unresolvable`."""
        siblings = _siblings(pod, node)
        if siblings < self.args.max_per_node:
            return None
        return unschedulable(Reason("text", {"text": "node(s) had too many pods of the same controller"}))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """100 where there is none, less with every sibling."""
        return 100 - 100 * _siblings(pod, node) // self.args.max_per_node

    def inputs(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Iterable[Input]:
        """For the record: by which number both decided."""
        yield Input("siblings", _siblings(pod, node), source="pods on the node", digits=0)


def _siblings(pod: PodInfo, node: NodeInfo) -> int:
    """How many pods on the node have the pod's controller."""
    ours = _controller(pod)
    return sum(_controller(other) == ours for other in node.pods) if ours else 0


def _controller(pod: PodInfo) -> str:
    """The controller's UID, "" where there is none."""
    owners = pod.pod.metadata.owner_references or ()
    return next((owner.uid for owner in owners if owner.controller), "")
