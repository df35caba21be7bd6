"""The scheduling cycle of a pod group: its waiting pods are decided one after the other, and placed together or not.

    pop the group's pods -> placements -> try the group in each -> in the best one, for each pod:
                                             cycle, record, preempt, assume, Reserve, Permit -> [did one pass Permit?]
                                                                                       |             |
                                             bind those that were placed  <--- yes ----+             no
                                                                                                     |
                        undo in reverse order, preempt for the group, every pod back to the queue <--+

Owns: the order of these stages, and the result for the group and for each pod. Does not own: placing the pods
(`pod_group_placing`), preemption for the group (`pod_group_preemption`), binding (`binding_cycle`), what Permit demands
(the plugin GangScheduling). Without the gate TopologyAwareWorkloadScheduling, the only placement is all nodes.

Source: pkg/scheduler/schedule_one_podgroup.go v1.36.

Invariant: when `schedule` returns, either no pod of the group that it decided counts on a node, or Permit let one pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from herodotus_record import klog, reasons
from herodotus_record.model import POD_GROUP_PHASE, Code, Reason, Verdict
from scheduler.backend.queue import QueuedPod
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.placement import (
    GroupPlacement,
    ProposedPlacement,
    generate_placements,
    score_placements,
)
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.writes import PodGroupCondition
from scheduler.engine.objects.pod import PodGroupKey
from scheduler.engine.objects.pod_groups import SCHEDULED, PodGroup, find_pod_group
from scheduler.engine.rules.feature_gates import TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from scheduler.live.binding_cycle import BindingCycles
from scheduler.live.pod_group_placing import (
    UNSCHEDULABLE,
    GroupPlacer,
    MemberStages,
    PodGroupResult,
    ScheduledMember,
    Trial,
)
from scheduler.live.pod_group_preemption import PodGroupPreemptions, TrialFailedError
from scheduler.live.preemption import ChosenVictims
from scheduler.live.scheduler import AttemptFailure, Scheduler
from scheduler.recorder.recorder import PhaseResult

MAX_WRITTEN: Final = 1000  # from this number on, groups that are gone are dropped before another is kept


class PodGroupCycles:
    """Decides the waiting pods of a group together. Only the loop's thread calls it."""

    def __init__(
        self,
        scheduler: Scheduler,
        cycles: BindingCycles,
        stages: MemberStages,
        evict: Callable[[ChosenVictims], None],
    ) -> None:
        """Prepare without deciding.

        `evict` starts the evictions of the victims that were chosen for a group as a whole. `stages` are the stages of
        an attempt that pods of a group share with single pods.
        """
        self._scheduler = scheduler
        self._stages = stages
        self._placer = GroupPlacer(scheduler, cycles, stages)
        self._preemptions = PodGroupPreemptions(scheduler, self._find_failure, evict)
        self._written: dict[str, PodGroupCondition] = {}  # the last condition, by the UID of the group

    def schedule(self, first: QueuedPod, now: float) -> None:
        """Run the scheduling cycle of the pod group of `first`, a popped pod, with the group's pods in the queue.

        All pods end in their binding cycle or back in the queue. `now` is in monotonic seconds.
        """
        key = first.pod.pod_group
        assert key is not None
        popped = self._pop_members(first, key, now)
        names = list(dict.fromkeys(queued.pod.pod.spec.scheduler_name for queued in popped))
        if len(names) > 1:
            message = (
                "all pods in a single pod group should have the same .spec.schedulerName set,"
                f' got: "{names[0]}" and "{names[1]}"'
            )
            for queued in popped:
                self._scheduler.handle_failure(queued, AttemptFailure(message, is_error=True))
            return
        members = []
        for queued in popped:
            if self._stages.is_skipped(queued):
                self._scheduler.queue.done(queued.uid)
            else:
                members.append(queued)
        if members:
            klog.info(3, "Attempting to schedule pod group", podGroup=str(key))
            self._submit(key, members, self._decide(key, members))

    def _pop_members(self, first: QueuedPod, key: PodGroupKey, now: float) -> list[QueuedPod]:
        """Pop the group's other pods that may be tried, and return all with `first`, ordered by priority.

        Of equal priority, the pod comes first that entered the active queue earlier.
        """
        queue, members = self._scheduler.queue, [first]
        for uid in self._scheduler.cluster.pod_groups.unscheduled(key):
            other = None if uid == first.uid else queue.pop_pod(uid, now)
            if other is not None:
                members.append(other)
        return sorted(members, key=lambda q: (-q.pod.priority, q.first_active or now, q.first_seen_us))

    # --- deciding ---------------------------------------------------------------------------------------------------

    def _decide(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> PodGroupResult:
        """Place the pods and return the result.

        If they do not fit, undo all placements and, if enabled, preempt for the group.
        """
        rules = self._scheduler.framework(pods[0].pod).profile.rules
        if rules.enabled(TOPOLOGY_AWARE):
            result = self._decide_in_placements(key, pods)
        else:
            result = self._placer.place(pods, self._placer.build_inputs(pods, None))
        unschedulable = not (result.is_schedulable or result.waits_for_preemption or result.error)
        if unschedulable and rules.enabled(WORKLOAD_PREEMPTION):
            self._preemptions.preempt(key, pods, result)
        return result

    def _decide_in_placements(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> PodGroupResult:
        """Place the pods in the best placement (set of nodes) in which the group fits, and return the result.

        If the group fits in none, the result is that of the first one. A placement in which a plugin fails ends the
        search.
        """
        placements = self._generate(key, pods)
        if isinstance(placements, Verdict):
            result = PodGroupResult(placements=0, message=join_reasons(placements))
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
        profile = self._scheduler.framework(pods[0].pod).profile
        return generate_placements(profile, key, self._scheduler.cluster.cache.columns)

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
        profile = self._scheduler.framework(pods[0].pod).profile
        scores = score_placements(
            profile, key, [ProposedPlacement(placements[number], trials[number].placed) for number in fitting]
        )
        return random.choice([n for n, score in zip(fitting, scores, strict=True) if score == max(scores)])

    def _find_failure(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> str:
        """Return the message of the group if its pods cannot be placed on the cluster as it is now, or else "".

        Raise TrialFailedError if a plugin fails.
        """
        if not self._scheduler.framework(pods[0].pod).profile.rules.enabled(TOPOLOGY_AWARE):
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

    # --- the result -------------------------------------------------------------------------------------------------

    def _submit(self, key: PodGroupKey, pods: list[QueuedPod], result: PodGroupResult) -> None:
        """Bind the placed pods of a group that is schedulable, and return all others to the queue."""
        for member in result.members:
            if result.is_schedulable and member.binding is not None:
                self._stages.bind(member.binding)
            else:
                self._return(member, result)
        for queued in pods[len(result.members) :]:  # after an error, or without a placement
            message = result.error or result.message
            self._scheduler.handle_failure(queued, AttemptFailure(message, is_error=bool(result.error)))
        placed = sum(member.binding is not None for member in result.members) if result.is_schedulable else 0
        counts = {"scheduledPods": placed, "unschedulablePods": len(pods) - placed}
        if result.is_schedulable:
            klog.info(2, "Successfully scheduled a pod group", podGroup=str(key), **counts)
            condition = PodGroupCondition("True", "Scheduled", "")
        elif result.error:
            klog.error(result.error, "Error scheduling pod group", podGroup=str(key), errorPods=len(pods))
            condition = PodGroupCondition("False", "SchedulerError", result.error)
        elif result.waits_for_preemption:
            klog.info(2, "Pod group is waiting for preemption", podGroup=str(key), unschedulablePods=len(pods))
            condition = PodGroupCondition("False", "Unschedulable", result.message)
        else:
            klog.info(2, "Unable to schedule a pod group", podGroup=str(key), unschedulablePods=len(pods))
            condition = PodGroupCondition("False", "Unschedulable", result.message)
        self._set_condition(key, condition)

    def _set_condition(self, key: PodGroupKey, condition: PodGroupCondition) -> None:
        """Write the group's condition if it differs from the present one.

        A condition with the status True is never replaced by one with another status, since further pods may still
        come.
        """
        group = find_pod_group(self._scheduler.cluster.objects, key)
        if group is None:
            klog.error("not found", "Failed to get PodGroup for status update", podGroup=str(key))
            return
        present = self._written.get(group.metadata.uid) or _find_condition(group)
        if present is not None and present.status == "True" and condition.status != "True":
            return
        if present != condition:
            changes = present is None or present.status != condition.status
            self._scheduler.writes.set_pod_group_condition(group, condition, changes_status=changes)
            self._remember(group, condition)

    def _remember(self, group: PodGroup, condition: PodGroupCondition) -> None:
        """Store the condition that was written, since the group's next cycle may come before the watch shows it."""
        if len(self._written) >= MAX_WRITTEN:
            uids = {each.metadata.uid for each in self._scheduler.cluster.objects.all(PodGroup)}
            self._written = {uid: last for uid, last in self._written.items() if uid in uids}
        self._written[group.metadata.uid] = condition

    def _return(self, member: ScheduledMember, result: PodGroupResult) -> None:
        """Return a pod of the group, which is not bound, to the queue, with its own failure or else that of the group.

        If the pod was assumed, also record the outcome of the phase PodGroup.
        """
        failure, nomination = member.failure, CLEARED
        if result.waits_for_preemption and member.preemption is not None:
            failure = member.preemption
        if failure is None or (result.error and not failure.is_error):
            if result.error:
                message = result.error
            elif result.waits_for_preemption:
                message, nomination = result.message, Nomination(member.binding.node if member.binding else "")
            else:
                message = f"{UNSCHEDULABLE}, {member.permit_message}"
            failure = AttemptFailure(message, nomination=nomination, is_error=bool(result.error))
        if member.binding is not None:
            code = Code.ERROR if failure.is_error else Code.UNSCHEDULABLE
            phase = PhaseResult(POD_GROUP_PHASE, code, member.binding.node, failure.message, final=True)
            self._scheduler.recorder.record_outcome(member.binding.decision, phase)
        klog.info(
            2,
            "Unable to schedule pod belonging to a pod group; waiting",
            pod=member.queued.pod.full_name,
            err=failure.message,
        )
        self._scheduler.handle_failure(member.queued, failure)


def _find_condition(group: PodGroup) -> PodGroupCondition | None:
    condition = next((c for c in group.status.conditions or () if c.type == SCHEDULED), None)
    return None if condition is None else PodGroupCondition(condition.status, condition.reason, condition.message)


def _format_placements(count: int) -> str:
    """Return upstream's message of a group that fits in none of `count` placements."""
    params = {"count": str(count), "status": UNSCHEDULABLE}
    return reasons.format_reason(Reason("group-placements", params))
