"""Pod groups where nothing is bound: which pods belong to a group, in which order they are decided, and its quorum.

Owns: these rules. Does not own: the decision on one pod (`engine.cycle`), placing pods on a copy (`simulation`,
`herodotus_local.evaluation`).

A pod is decided on the cluster with the earlier pods of its group placed. If fewer than `minCount` pods of the group
then have a node, all of them are taken back. Preemption for pods of a group is reported and not carried out.

Source: pkg/scheduler/schedule_one_podgroup.go and plugins/gangscheduling v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record import reasons
from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group
from scheduler.engine.rules import Rules

UNSCHEDULABLE: Final = ", ".join(
    reasons.format_reason(Reason(code)) for code in ("group-unschedulable", "gang-waiting", "permit-waits")
)

NO_GROUPS: Final = "pod groups are not evaluated by the rules of {version}"
NO_TOPOLOGY: Final = "the topology constraint of a pod group is evaluated by the scheduler alone"


@dataclass(frozen=True)
class Quorum:
    """How many pods a group needs, and how many of them have a node already.

    `min_count` is 0 if the pods of the group are independent. `problem` tells why no pod of the group is tried, or is
    "".
    """

    min_count: int
    scheduled: int
    problem: str = ""

    def is_reached(self, placed: int) -> bool:
        """Return whether the group can be placed if `placed` (at least 1) of its waiting pods found a node."""
        return placed > 0 and self.scheduled + placed >= self.min_count


def find_quorum(key: PodGroupKey, waiting: int, nodes: NodeColumns, objects: ClusterObjects, rules: Rules) -> Quorum:
    """Return how many pods the group needs and has, and a problem if its `waiting` pods cannot be tried."""
    if not rules.knows_pod_groups:
        return Quorum(0, 0, NO_GROUPS.format(version=rules.version.minor_version))
    group = find_pod_group(objects, key)
    if group is None:
        return Quorum(0, 0, reasons.format_reason(Reason("gang-no-group", {"group": key.name})))
    if group.topology_key is not None:
        return Quorum(group.min_count, 0, NO_TOPOLOGY)
    scheduled = sum(pod.pod_group == key for pods in nodes.pods for pod in pods.values())
    problem = reasons.format_reason(Reason("gang-too-few")) if scheduled + waiting < group.min_count else ""
    return Quorum(group.min_count, scheduled, problem)


def sort_members(pods: Iterable[Any], pod_of: Callable[[Any], PodInfo]) -> list[Any]:
    """Return the elements for the pods of a group in the order of decisions: by descending priority, then by age.

    `pod_of` returns the pod of an element.
    """

    def rank(each: Any) -> tuple[int, str]:
        pod = pod_of(each)
        return -pod.priority, pod.pod.metadata.creation_timestamp or ""

    return sorted(pods, key=rank)


def split_by_group(pods: Sequence[Any], pod_of: Callable[[Any], PodInfo]) -> list[tuple[PodGroupKey | None, list[Any]]]:
    """Return the elements in units that are decided together: all of one group, or one whose pod has no group (None).

    Units are in the order of their first elements. `pod_of` returns the pod of an element.
    """
    units: list[tuple[PodGroupKey | None, list[Any]]] = []
    of_group: dict[PodGroupKey, list[Any]] = {}
    for each in pods:
        key = pod_of(each).pod_group
        if key is None:
            units.append((None, [each]))
        elif key in of_group:
            of_group[key].append(each)
        else:
            of_group[key] = [each]
            units.append((key, of_group[key]))
    return units
