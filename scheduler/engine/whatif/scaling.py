"""Which pods a controller deletes when its workload is scaled down.

Sources: pkg/controller/controller_utils.go ActivePodsWithRanks and pkg/controller/statefulset v1.36. Two criteria are
left out because they are not known here: the annotation pod-deletion-cost, and restarts of containers. Among pods that
became Ready at about the same time the ReplicaSet controller decides by chance; here the newer pod goes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.whatif.budgets import is_ready
from scheduler.engine.whatif.owners import STATEFUL_SET

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def choose_pods_to_delete(kind: str, pods: Sequence[tuple[PodInfo, str]], count: int) -> list[tuple[PodInfo, str]]:
    """Return the pods that a controller of this kind deletes first, of pods that are given with their node or ""."""
    if kind == STATEFUL_SET:
        return sorted(pods, key=lambda found: _ordinal(found[0].name), reverse=True)[:count]
    together = Counter(node for _, node in pods)

    newest_first = sorted(pods, key=lambda found: (_created(found[0]), found[0].uid), reverse=True)

    def order(found: tuple[PodInfo, str]) -> tuple[bool, int, bool, int]:
        pod, node = found
        return bool(node), _PHASES.get(pod.pod.status.phase, 0), is_ready(pod.pod), -together[node]

    return sorted(newest_first, key=order)[:count]


def _created(pod: PodInfo) -> str:
    return pod.pod.metadata.creation_timestamp or "9999"  # a pod that a review created is the newest


def _ordinal(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
