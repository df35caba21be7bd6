"""The scheduling cycle of a pod group: its waiting pods are decided one after the other, and placed together or not.

    pop the group's pods -> placements -> try the group in each -> in the best one, for each pod:
                                             decide, preempt, assume, Reserve, Permit -> [did one pass Permit?]
                                                                                             |             |
                                            they stay assumed on their nodes  <---- yes -----+             no
                                                                                                           |
                                             undo in reverse order, choose victims for the group  <--------+

Owns: the order of these stages, and the result for the group and for each pod. Does not own: placing the pods
(`placing`), the choice of victims (`preemption`), what Permit demands (the plugin GangScheduling), and what follows
from the result: bindings, evictions, returns to the queue. Without the gate TopologyAwareWorkloadScheduling, the only
placement is all nodes.

Source: pkg/scheduler/schedule_one_podgroup.go v1.36.

Invariant: after `decide`, either no pod of the group that it decided counts on a node, or Permit let one pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Generic

from herodotus_record import reasons
from herodotus_record.model import Reason, Verdict
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.cluster_state import ClusterState, PodGroupMembers
from scheduler.backend.pod_groups.placing import (
    UNSCHEDULABLE,
    GroupMember,
    GroupPlacer,
    Member,
    MemberStages,
    PodGroupResult,
    Trial,
)
from scheduler.backend.pod_groups.preemption import TrialFailedError, VictimsOfGroups
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.placement import (
    GroupPlacement,
    ProposedPlacement,
    generate_placements,
    score_placements,
)
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.rules.feature_gates import TOPOLOGY_AWARE, WORKLOAD_PREEMPTION


def pop_members(
    queue: SchedulingQueue, pod_groups: PodGroupMembers, first: QueuedPod, key: PodGroupKey, now: float
) -> list[QueuedPod]:
    """Pop the group's other pods that may be tried, and return all with `first`, ordered by priority.

    Of equal priority, the pod comes first that entered the active queue earlier.
    """
    members = [first]
    for uid in pod_groups.unscheduled(key):
        other = None if uid == first.uid else queue.pop_pod(uid, now)
        if other is not None:
            members.append(other)
    return sorted(members, key=lambda q: (-q.pod.priority, q.first_active or now, q.first_seen_us))


def find_name_conflict(pods: Sequence[QueuedPod]) -> str:
    """Return the message of a group whose pods are for several schedulers, or ""."""
    names = list(dict.fromkeys(queued.pod.pod.spec.scheduler_name for queued in pods))
    if len(names) < 2:
        return ""
    wanted = "all pods in a single pod group should have the same .spec.schedulerName set"
    return f'{wanted}, got: "{names[0]}" and "{names[1]}"'


def explain_failure(member: GroupMember, result: PodGroupResult[Member]) -> AttemptFailure:
    """Return why a pod that was decided in the cycle is not bound: its own failure, or else that of the group."""
    failure, nomination = member.failure, CLEARED
    if result.waits_for_preemption and member.preemption is not None:
        failure = member.preemption
    if failure is not None and (failure.is_error or not result.error):
        return failure
    if result.error:
        message = result.error
    elif result.waits_for_preemption:
        message, nomination = result.message, Nomination(member.node)
    else:
        message = f"{UNSCHEDULABLE}, {member.permit_message}"
    return AttemptFailure(message, nomination=nomination, is_error=bool(result.error))


class PodGroupDecider(Generic[Member]):
    """Decides the waiting pods of a group together."""

    def __init__(
        self,
        cluster: ClusterState,
        framework: Callable[[PodInfo], Framework],
        stages: MemberStages[Member],
        draw: random.Random,
    ) -> None:
        """Prepare without deciding.

        `framework` returns that of a pod's profile. `draw` gives the seeds of the cycles, and chooses between equally
        good placements.
        """
        self._cluster, self._framework, self._draw = cluster, framework, draw
        self._placer = GroupPlacer(cluster, framework, stages, draw)
        self._victims = VictimsOfGroups(cluster, framework, self._find_failure)

    def decide(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> PodGroupResult[Member]:
        """Place the pods and return the result.

        If they do not fit, undo all placements and, if enabled, choose victims for the group.
        """
        rules = self._framework(pods[0].pod).profile.rules
        if rules.enabled(TOPOLOGY_AWARE):
            result = self._decide_in_placements(key, pods)
        else:
            result = self._placer.place(pods, self._placer.build_inputs(pods, None))
        unschedulable = not (result.is_schedulable or result.waits_for_preemption or result.error)
        if unschedulable and rules.enabled(WORKLOAD_PREEMPTION):
            self._victims.choose(key, pods, result)
        return result

    def _decide_in_placements(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> PodGroupResult[Member]:
        """Place the pods in the best placement (set of nodes) in which the group fits, and return the result.

        If the group fits in none, the result is that of the first one. A placement in which a plugin fails ends the
        search.
        """
        placements = self._generate(key, pods)
        if isinstance(placements, Verdict):
            result = PodGroupResult[Member](placements=0, message=join_reasons(placements))
            if not placements.code.is_rejection:
                result.fail(join_reasons(placements))
            return result
        trials = [self._placer.try_placing(pods, each) for each in placements] if len(placements) > 1 else []
        number = self._choose(key, pods, placements, trials)
        inputs = trials[number].inputs if trials else self._placer.build_inputs(pods, placements[0])
        result = self._placer.place(pods, inputs)
        result.placement, result.placements = placements[number].name, len(placements)
        if not result.is_schedulable and not result.waits_for_preemption:
            result.message = _format_placements(len(placements))
        return result

    def _generate(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> Sequence[GroupPlacement] | Verdict:
        return generate_placements(self._framework(pods[0].pod).profile, key, self._cluster.cache.columns)

    def _choose(
        self, key: PodGroupKey, pods: Sequence[QueuedPod], placements: Sequence[GroupPlacement], trials: Sequence[Trial]
    ) -> int:
        """Return the index of the first placement with an error, or else of the best one in which the group fits.

        `trials` has one result per placement. Among equal scores the choice is random. Return 0 if the group fits in
        none.
        """
        failed = next((number for number, trial in enumerate(trials) if trial.error), None)
        if failed is not None:
            return failed
        fitting = [number for number, trial in enumerate(trials) if trial.is_schedulable]
        if len(fitting) < 2:
            return fitting[0] if fitting else 0
        profile = self._framework(pods[0].pod).profile
        scores = score_placements(
            profile, key, [ProposedPlacement(placements[number], trials[number].placed) for number in fitting]
        )
        return self._draw.choice([n for n, score in zip(fitting, scores, strict=True) if score == max(scores)])

    def _find_failure(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> str:
        """Return the message of the group if its pods cannot be placed on the cluster as it is now, or else "".

        Raise TrialFailedError if a plugin fails.
        """
        if not self._framework(pods[0].pod).profile.rules.enabled(TOPOLOGY_AWARE):
            return self._try(pods, None, UNSCHEDULABLE)
        placements = self._generate(key, pods)
        if isinstance(placements, Verdict):
            return join_reasons(placements)
        failures = (self._try(pods, each, _format_placements(len(placements))) for each in placements)
        return "" if not all(failures) else _format_placements(len(placements))

    def _try(self, pods: Sequence[QueuedPod], placement: GroupPlacement | None, failure: str) -> str:
        trial = self._placer.try_placing(pods, placement)
        if trial.error:
            raise TrialFailedError(trial.error)
        return "" if trial.is_schedulable else failure


def _format_placements(count: int) -> str:
    """Return upstream's message of a group that fits in none of `count` placements."""
    params = {"count": str(count), "status": UNSCHEDULABLE}
    return reasons.format_reason(Reason("group-placements", params))
