"""The scheduling cycle of a pod group in a running scheduler: pods are recorded, bound, or returned to the queue.

Owns: the stages of a pod of a group that a running scheduler adds, and what follows from the result of the cycle for
the group and for each pod. Does not own: which pods are placed (`backend.pod_groups`), evictions (`preemption`),
binding (`binding_cycle`).

Invariant: when `schedule` returns, either no pod of the group that it decided counts on a node, or Permit let one pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from herodotus_record import klog
from herodotus_record.model import POD_GROUP_PHASE, Code, Decision, PodGroupCycle
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.pod_groups.cycle import PodGroupDecider, explain_failure, find_name_conflict, pop_members
from scheduler.backend.pod_groups.placing import GroupMember, MemberInput, PhaseRejection, PodGroupResult
from scheduler.backend.queue import QueuedPod
from scheduler.engine.framework.writes import PodGroupCondition
from scheduler.engine.objects.pod import PodGroupKey
from scheduler.engine.objects.pod_groups import SCHEDULED, PodGroup, find_pod_group
from scheduler.engine.objects.preemptor import PreemptingGroup
from scheduler.engine.plugins.default_preemption import DefaultPreemption
from scheduler.live.binding_cycle import BindingCycles
from scheduler.live.in_flight import InFlightBinding
from scheduler.live.preemption import ChosenVictims
from scheduler.live.scheduler import Attempt, Scheduler
from scheduler.recorder.recorder import PhaseResult

MAX_WRITTEN: Final = 1000  # from this number on, groups that are gone are dropped before another is kept
DOMAIN: Final = "cluster"  # what messages name as the node on which a group preempts


@dataclass(frozen=True)
class AttemptStages:
    """The stages of one pod's attempt that a cycle of its group shares with an attempt of a single pod.

    `decide` runs the pod's scheduling cycle on the cluster as it is, and `record` records the attempt. `preempt` starts
    to evict the victims that an attempt chose. `bind` takes a pod on from Reserve.
    """

    is_skipped: Callable[[QueuedPod], bool]
    decide: Callable[[QueuedPod, MemberInput], Attempt]
    find_start: Callable[[], int]
    record: Callable[[Attempt, PodGroupCycle], Decision]
    preempt: Callable[[Attempt, Decision], None]
    explain_failure: Callable[[Attempt], AttemptFailure]
    bind: Callable[[InFlightBinding], None]


@dataclass(kw_only=True)
class ScheduledMember(GroupMember):
    """A pod of the group in a cycle, its recorded attempt, and its binding if it was assumed and not refused."""

    decision: Decision
    binding: InFlightBinding | None = None


class _MemberStages:
    """The stages of a pod of a group, which are recorded. Implements `MemberStages`."""

    def __init__(self, cycles: BindingCycles, stages: AttemptStages) -> None:
        self._cycles, self._stages = cycles, stages
        self.find_start = stages.find_start

    def decide(self, queued: QueuedPod, member_input: MemberInput, cycle: PodGroupCycle) -> ScheduledMember:
        attempt = self._stages.decide(queued, member_input)
        member = ScheduledMember(queued, cycle, attempt.result, decision=self._stages.record(attempt, cycle))
        if attempt.result.chosen is None:
            self._stages.preempt(attempt, member.decision)
            member.failure = self._stages.explain_failure(attempt)
        return member

    def assume(self, member: ScheduledMember) -> None:
        member.binding = self._cycles.assume(member.queued, member.result, member.decision, member.node)

    def reject(self, member: ScheduledMember, refusal: PhaseRejection) -> AttemptFailure:
        assert member.binding is not None
        binding, member.binding = member.binding, None
        return self._cycles.reject(binding, refusal.phase, refusal.verdict)

    def undo(self, member: ScheduledMember) -> None:
        assert member.binding is not None
        self._cycles.undo(member.binding)


class PodGroupCycles:
    """Decides the waiting pods of a group together. Only the loop's thread calls it."""

    def __init__(
        self,
        scheduler: Scheduler,
        cycles: BindingCycles,
        stages: AttemptStages,
        evict: Callable[[ChosenVictims], None],
    ) -> None:
        """Prepare without deciding. `evict` starts the evictions of the victims of a group as a whole."""
        self._scheduler, self._stages, self._evict = scheduler, stages, evict
        self._decider = PodGroupDecider(
            scheduler.cluster, scheduler.framework, _MemberStages(cycles, stages), random.Random(random.getrandbits(64))
        )
        self._written: dict[str, PodGroupCondition] = {}  # the last condition, by the UID of the group

    def schedule(self, first: QueuedPod, now: float) -> None:
        """Run the scheduling cycle of the pod group of `first`, a popped pod, with the group's pods in the queue.

        All pods end in their binding cycle or back in the queue. `now` is in monotonic seconds.
        """
        key = first.pod.pod_group
        assert key is not None
        popped = pop_members(self._scheduler.queue, self._scheduler.cluster.pod_groups, first, key, now)
        conflict = find_name_conflict(popped)
        if conflict:
            for queued in popped:
                self._scheduler.handle_failure(queued, AttemptFailure(conflict, is_error=True))
            return
        members = []
        for queued in popped:
            if self._stages.is_skipped(queued):
                self._scheduler.queue.done(queued.uid)
            else:
                members.append(queued)
        if members:
            klog.info(3, "Attempting to schedule pod group", podGroup=str(key))
            result = self._decider.decide(key, members)
            self._preempt(key, members, result)
            self._submit(key, members, result)

    def _preempt(self, key: PodGroupKey, pods: list[QueuedPod], result: PodGroupResult[ScheduledMember]) -> None:
        """Start to evict the victims that were chosen for the group as a whole, if there are any."""
        group = find_pod_group(self._scheduler.cluster.objects, key)
        if not result.victims or not result.members or group is None:
            return
        first = result.members[0]
        pod = first.queued.pod
        preemptor = PreemptingGroup(group, pod.pod.spec.scheduler_name, tuple(queued.uid for queued in pods))
        self._evict(ChosenVictims(pod, DefaultPreemption.name, DOMAIN, result.victims, first.decision, preemptor))

    # --- the result -------------------------------------------------------------------------------------------------

    def _submit(self, key: PodGroupKey, pods: list[QueuedPod], result: PodGroupResult[ScheduledMember]) -> None:
        """Bind the placed pods of a group that is schedulable, and return all others to the queue."""
        for member in result.members:
            if result.is_schedulable and member.binding is not None:
                self._stages.bind(member.binding)
            else:
                self._return(member, result)
        for queued in pods[len(result.members) :]:
            self._scheduler.handle_failure(queued, result.explain_undecided())
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

    def _return(self, member: ScheduledMember, result: PodGroupResult[ScheduledMember]) -> None:
        """Return a pod of the group, which is not bound, to the queue, with its own failure or else that of the group.

        If the pod was assumed, also record the outcome of the phase PodGroup.
        """
        failure = explain_failure(member, result)
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
