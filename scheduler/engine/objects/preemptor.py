"""What preempts: a pod, or a pod group as a whole.

Source: pkg/scheduler/framework/preemption/executor.go v1.36 (podExecutorPreemptor, podGroupExecutorPreemptor).
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup


@dataclass(frozen=True)
class PreemptingGroup:
    """A PodGroup that preempts. `scheduler_name` is that of its pods, and `pod_uids` are those that wait."""

    group: PodGroup
    scheduler_name: str
    pod_uids: tuple[str, ...]

    @property
    def uid(self) -> str:
        return self.group.metadata.uid

    @property
    def name(self) -> str:
        return self.group.metadata.name

    @property
    def full_name(self) -> str:
        """The namespace and name of the group, as NAMESPACE/NAME."""
        return f"{self.group.metadata.namespace}/{self.group.metadata.name}"


Preemptor = PodInfo | PreemptingGroup


def find_scheduler_name(preemptor: Preemptor) -> str:
    """Return the name of the scheduler of a preempting pod or pod group."""
    return preemptor.scheduler_name if isinstance(preemptor, PreemptingGroup) else preemptor.pod.spec.scheduler_name


def name_kind(preemptor: Preemptor) -> str:
    """Return the preemptor's kind as messages about preemption spell it: `pod` or `podgroup`."""
    return "podgroup" if isinstance(preemptor, PreemptingGroup) else "pod"
