"""How many other waiting pods a suggestion helps: those that would fit on its node with the same changes.

Owns: which pods the changes reach, and how many are checked. Does not own: changes, the check of one pod (`check`).

Invariant: a pod is counted only if it is of the template that was checked, or was checked itself. Each is checked
alone: whether the node has room for all of them is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Final

from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.suggestions.changes import Draft, Place, tolerate_removed_taints
from scheduler.engine.suggestions.check import change_spec, find_rejections

MAX_WAITING: Final = 200  # pods that are looked at: some microseconds each, for every suggestion
MAX_CHECKED: Final = 16  # templates of other pods for one suggestion: each costs as much as checking the suggestion


def list_unschedulable(waiting: Iterable[PodInfo], besides: PodInfo) -> list[PodInfo]:
    """Return the first of the waiting pods for which their scheduler found no node, without the pod `besides`."""
    return list(islice((p for p in waiting if p.uid != besides.uid and _is_unschedulable(p)), MAX_WAITING))


def _is_unschedulable(pod: PodInfo) -> bool:
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.pod.status.conditions or ())


def find_template(pod: PodInfo) -> Hashable:
    """Return the key of the pod's template: pods with equal keys are decided alike."""
    return (pod.namespace, tuple(sorted(pod.labels.items())), pod.spec_digest)


def count_helped(
    framework: Framework, place: Place, draft: Draft, waiting: Iterable[PodInfo], has_time: Callable[[], bool]
) -> int:
    """Return how many of the waiting pods would fit on the node too, each alone, with the changes of the draft.

    A change of the node reaches every pod, one of the pod those of its owner. Counting ends when `has_time` is False.
    """
    own, owner = find_template(place.pod), _find_owner(place.pod)
    known: dict[Hashable, bool] = {own: True}
    count = 0
    for other in waiting:
        template = find_template(other)
        if template not in known:
            spec = tolerate_removed_taints(draft, other.pod.spec)
            if spec is None or len(known) > MAX_CHECKED or not has_time() or _is_costly(framework, place, other):
                continue
            known[template] = find_rejections(framework, change_spec(other, spec), place.nodes, place.slot) is None
        is_reached = tolerate_removed_taints(draft, other.pod.spec) is not None or (
            owner is not None and _find_owner(other) == owner
        )
        count += known[template] and is_reached
    return count


def _is_costly(framework: Framework, place: Place, pod: PodInfo) -> bool:
    """Return whether a pod is not checked: it is of another profile, or takes long by the size of its spec."""
    if pod.pod.spec.scheduler_name not in ("", framework.profile.scheduler_name):
        return True
    return pod.is_large or pod.has_many_terms(place.nodes.slots)


def _find_owner(pod: PodInfo) -> Hashable:
    """Return what identifies the pod's controller; None if it has none."""
    owner = pod.pod.metadata.controller
    return None if owner is None else (pod.namespace, owner.kind, owner.name, owner.uid)
