"""The skew of a workload's pods by its topology spread constraints, which a plan restores.

Counts as the plugin PodTopologySpread does: pods in the constraint's selector that are not being deleted, in the
domains of the nodes that the pod's node affinity and selector allow. Cordoned and tainted nodes count, unless
`nodeTaintsPolicy` is Honor; then the scheduler counts fewer domains than this module.

Owns: domains and counts. Does not own: the search for moves (`search`), decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from herodotus_answers.plans import SpreadSkew
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import LabelSelector, Requirement, TopologySpreadConstraint
from scheduler.engine.plans.world import World
from scheduler.engine.suggestions.check import check_slots

_ELIGIBLE = ("NodeAffinity", "NodeName")


class SpreadGoal(NamedTuple):
    """The topology spread constraints of the workload of `pod`, and the slots of the nodes that its pods may use."""

    world: World
    pod: PodInfo
    slots: tuple[int, ...]

    @classmethod
    def of_pod(cls, world: World, pod: PodInfo) -> SpreadGoal:
        """Return the goal for the workload of a pod."""
        nodes = world.nodes
        live = np.flatnonzero(nodes.live[: nodes.slots]).tolist()
        framework = world.framework(pod.pod)
        if framework is None:
            return cls(world, pod, ())
        spec = msgspec.structs.replace(pod.pod.spec, node_name="")
        anywhere = PodInfo(msgspec.structs.replace(pod.pod, spec=spec))
        checked = check_slots(framework, anywhere, nodes, live, lambda plugin: plugin in _ELIGIBLE)
        return cls(world, pod, tuple(slot for slot in live if not checked.rejections[slot]))

    @property
    def constraints(self) -> Sequence[TopologySpreadConstraint]:
        return self.pod.pod.spec.topology_spread_constraints or ()

    def is_reached(self) -> bool:
        """Return whether every constraint's skew is at most its maxSkew."""
        return all(_skew(self.count_pods(each)) <= each.max_skew for each in self.constraints)

    def count_pods(self, constraint: TopologySpreadConstraint) -> dict[str, int]:
        """Return the number of matching pods by domain."""
        nodes = self.world.nodes
        selector = _with_keys(constraint, self.pod)
        matching = nodes.pod_rows.matching(selector, frozenset({self.pod.namespace}))
        per_slot = nodes.pod_rows.per_slot(matching & ~nodes.pod_rows.terminating, nodes.slots)
        counts: dict[str, int] = {}
        for slot in self.slots:
            node = nodes.nodes[slot]
            domain = ((node and node.metadata.labels) or {}).get(constraint.topology_key)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + int(per_slot[slot])
        return counts

    def list_skews(self) -> list[SpreadSkew]:
        """Return each constraint with its present skew."""
        skews: list[SpreadSkew] = []
        for each in self.constraints:
            counts = self.count_pods(each)
            skews.append(
                {
                    "topologyKey": each.topology_key,
                    "maxSkew": each.max_skew,
                    "before": _skew(counts),
                    "domains": dict(sorted(counts.items())),
                }
            )
        return skews


def _skew(counts: dict[str, int]) -> int:
    return max(counts.values()) - min(counts.values()) if counts else 0


def _with_keys(constraint: TopologySpreadConstraint, pod: PodInfo) -> LabelSelector | None:
    """Return the selector with the pod's values of matchLabelKeys, which tell one rollout's pods from another's."""
    selector, keys = constraint.label_selector, constraint.match_label_keys or ()
    more = [Requirement(key=key, operator="In", values=[pod.labels[key]]) for key in keys if key in pod.labels]
    if selector is None or not more:
        return selector
    return msgspec.structs.replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])
