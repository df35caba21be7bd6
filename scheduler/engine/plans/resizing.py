"""Room for a pod whose resize is deferred: other pods leave its node until the requests of its spec fit there.

kube-scheduler counts such a pod with what it asks for, so that its node is overcommitted until the resize fits. The
kubelet counts other deferred pods of the node with what they have, and may resize the pod earlier than a plan says.

Owns: which pods wait for a resize, the goal. Does not own: the search for moves (`search`), the causes of a deferred
resize (`herodotus_answers.live.pods.resize_causes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.counting_proof import prove_by_room
from scheduler.engine.plans.movable import count_leaving
from scheduler.engine.plans.verification import PlannedStep, Proof, Verification
from scheduler.engine.plans.world import World


def is_deferred(pod: PodInfo) -> bool:
    """Return whether the kubelet has deferred a resize of the pod."""
    conditions = pod.pod.status.conditions or ()
    return any(c.type == "PodResizePending" and c.status == "True" and c.reason == "Deferred" for c in conditions)


class ResizeGoal:
    """The goal that a node has what its pods request, so that a deferred resize fits."""

    def __init__(self, world: World, node: str, movable: Sequence[PodInfo]) -> None:
        """Prepare without placing. `movable` are the pods of the node that the plan may evict."""
        self._world, self._node, self._movable = world, node, movable

    def _list_lacking(self) -> list[tuple[str, int]]:
        """Return each resource of which the node has too little, with the amount."""
        nodes = self._world.nodes
        slot = nodes.index[self._node]
        lacking = [(name, int(nodes.requested(name)[slot] - nodes.allocatable(name)[slot])) for name in nodes.resources]
        return [(name, amount) for name, amount in lacking if amount > 0]

    def is_reached(self) -> bool:
        """Return whether the node has what its pods request."""
        return not self._list_lacking()

    def count_least_moves(self) -> tuple[int, str]:
        """Return the least number of pods that must leave the node, or IMPOSSIBLE, and why fewer are not enough."""
        counts = (count_leaving(self._movable, name, lacking) for name, lacking in self._list_lacking())
        return max(counts, default=0), "it frees too little on the pod's node"

    def may_be_reached(self, additions: int) -> bool:
        """Return whether the node has enough now: pods that are placed free nothing."""
        return self.is_reached()

    def rank_nodes(self) -> Callable[[str], int]:
        """Return the function that ranks the pod's node above all others."""
        return lambda name: int(name == self._node)

    def prove(
        self, verification: Verification, leaving: Sequence[PlannedStep]
    ) -> tuple[list[PlannedStep], Proof] | None:
        """Return the steps with a proof by counting the nodes that fit, or None if it does not apply."""
        return prove_by_room(self._world, verification, leaving, exist=True)
