"""The scheduling cycle of a pod group: its waiting pods are decided one after the other, and placed together or not.

    pop the group's pods -> for each: cycle, record, preempt, assume, Reserve, Permit -> [a Permit plugin let one pass?]
                                                                                       |             |
                                             bind those that were placed  <--- yes ----+             no
                                                                                                     |
                                       undo in reverse order, every pod back to the queue  <---------+

Owns: the order of these stages, and the result for the group and for each pod. Does not own: the decision on one pod
(`cycle`), its binding (`binding_cycle`), what Permit demands (the plugin GangScheduling).

Source: pkg/scheduler/schedule_one_podgroup.go v1.36. Differs from it in that pods are assumed in the cache, which no
one else reads meanwhile, and stay assumed if the group is placed; upstream undoes them and assumes them again.

Invariant: when `schedule` returns, either no pod of the group that it decided counts on a node, or Permit let one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from herodotus_record import reasons
from herodotus_record.model import Code, Decision, PluginVerdict, Reason
from scheduler import klog
from scheduler.backend.queue import QueuedPod
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.verdicts import Wait
from scheduler.engine.objects.pod import PodGroupKey
from scheduler.engine.objects.pod_groups import SCHEDULED, PodGroup
from scheduler.live.binding_cycle import BindingCycles
from scheduler.live.in_flight import Attempt, InFlightBinding
from scheduler.live.scheduler import AttemptFailure, PodGroupCondition, Scheduler
from scheduler.recorder.recorder import PhaseResult

MAX_WRITTEN: Final = 1000  # from this number on, groups that are gone are dropped before another is kept
UNSCHEDULABLE = reasons.format_reason(Reason("group-unschedulable"))


@dataclass(frozen=True)
class MemberStages:
    """The stages of one pod's attempt that a cycle of its group shares with an attempt of a single pod.

    `decide` runs the pod's scheduling cycle on the cluster as it is, and `record` records the attempt. `preempt` starts
    to evict the victims that it chose. `fail` returns the pod to the queue with the attempt's own reason. `bind` takes
    a pod on from Reserve.
    """

    is_skipped: Callable[[QueuedPod], bool]
    decide: Callable[[QueuedPod], Attempt]
    record: Callable[[Attempt], Decision]
    preempt: Callable[[Attempt, Decision], None]
    explain_failure: Callable[[Attempt], AttemptFailure]
    bind: Callable[[InFlightBinding], None]


@dataclass
class _Member:
    """One pod of the group in this cycle.

    `binding` is set if the pod was assumed, on the node that was chosen for it or, with `preemption`, nominated.
    `preemption` is the failure of an attempt that chose victims, and `failure` that of one that found no node.
    """

    queued: QueuedPod
    failure: AttemptFailure | None = None
    binding: InFlightBinding | None = None
    preemption: AttemptFailure | None = None
    permit_message: str = ""


@dataclass
class _GroupResult:
    """The result of the cycle. Without `error` and `is_schedulable`, the group is unschedulable or preempts."""

    members: list[_Member] = field(default_factory=list)
    is_schedulable: bool = False
    waits_for_preemption: bool = False
    error: str = ""


class PodGroupCycles:
    """Decides the waiting pods of a group together. Only the loop's thread calls it."""

    def __init__(self, scheduler: Scheduler, cycles: BindingCycles, stages: MemberStages) -> None:
        self._scheduler = scheduler
        self._cycles = cycles
        self._stages = stages
        self._written: dict[str, PodGroupCondition] = {}  # the last condition, by the UID of the group

    def schedule(self, first: QueuedPod, now: float) -> None:
        """Run the cycle of the group of a pod from the queue, with the group's other pods in the queue.

        `now` is in monotonic seconds.
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
            self._submit(key, members, self._decide(members))

    def _pop_members(self, first: QueuedPod, key: PodGroupKey, now: float) -> list[QueuedPod]:
        """Return the group's pods that may be tried, by priority and by when they first entered the active queue."""
        queue, found = self._scheduler.queue, [first]
        for uid in self._scheduler.cluster.pod_groups.unscheduled(key):
            other = None if uid == first.uid else queue.pop_pod(uid, now)
            if other is not None:
                found.append(other)
        return sorted(found, key=lambda q: (-q.pod.priority, q.first_active or now, q.first_seen_us))

    # --- deciding ---------------------------------------------------------------------------------------------------

    def _decide(self, pods: list[QueuedPod]) -> _GroupResult:
        """Decide the pods in order, each on the cluster with the earlier ones assumed, until one ends with an error."""
        result = _GroupResult()
        for queued in pods:
            member = _Member(queued)
            result.members.append(member)
            permit = self._place(member)
            if member.failure is not None:
                if member.failure.is_error:
                    other = Reason("group-error", {"error": member.failure.message})
                    result.error, result.waits_for_preemption = reasons.format_reason(other), False
                    result.is_schedulable = False
                    break
            elif not permit:
                if any(other.preemption is not None for other in result.members):
                    result.waits_for_preemption, result.is_schedulable = True, False
                else:
                    result.is_schedulable = True
        if not result.is_schedulable:
            for member in reversed(result.members):
                if member.binding is not None:
                    self._cycles.undo(member.binding)
                    self._scheduler.cluster.nominator.set_nomination(member.queued.pod, None)
        return result

    def _place(self, member: _Member) -> dict[str, Wait]:
        """Decide a pod, assume it, and run Reserve and Permit. Return what Permit plugins wait for.

        Set the member's failure if it found no node, or if a plugin rejects it.
        """
        attempt = self._stages.decide(member.queued)
        decision = self._stages.record(attempt)
        result, node = attempt.result, ""
        if result.chosen is None:
            self._stages.preempt(attempt, decision)
            nomination = result.trace.nomination
            failure = self._stages.explain_failure(attempt)
            if nomination is None or not nomination.node or failure.is_error:
                member.failure = failure
                return {}
            member.preemption, node = failure, nomination.node
        binding = self._cycles.assume(member.queued, result, decision, node)
        refusal, phase = binding.framework.run_reserve(binding.state, binding.pod, binding.node), "Reserve"
        permit: PluginVerdict | dict[str, Wait] = {}
        if refusal is None:
            permit, phase = binding.framework.run_permit(binding.state, binding.pod, binding.node), "Permit"
            refusal = permit if isinstance(permit, PluginVerdict) else None
        if refusal is not None:
            member.failure = self._cycles.reject(binding, phase, refusal)
            return {}
        assert isinstance(permit, dict)
        member.binding = binding
        member.permit_message = _join_waits(permit)
        return permit

    # --- the result -------------------------------------------------------------------------------------------------

    def _submit(self, key: PodGroupKey, pods: list[QueuedPod], result: _GroupResult) -> None:
        """Bind the placed pods of a group that is schedulable, and return all others to the queue."""
        for member in result.members:
            if result.is_schedulable and member.binding is not None:
                self._stages.bind(member.binding)
            else:
                self._return(member, result)
        for queued in pods[len(result.members) :]:  # after an error
            self._scheduler.handle_failure(queued, AttemptFailure(result.error, is_error=True))
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
            condition = PodGroupCondition("False", "Unschedulable", _preempting())
        else:
            klog.info(2, "Unable to schedule a pod group", podGroup=str(key), unschedulablePods=len(pods))
            condition = PodGroupCondition("False", "Unschedulable", UNSCHEDULABLE)
        self._set_condition(key, condition)

    def _set_condition(self, key: PodGroupKey, condition: PodGroupCondition) -> None:
        """Write the group's condition if it changes. A group that was scheduled stays so, as further pods may come."""
        group = self._scheduler.cluster.objects.get(PodGroup, key.name, key.namespace)
        if group is None:
            klog.error("not found", "Failed to get PodGroup for status update", podGroup=str(key))
            return
        known = self._written.get(group.metadata.uid) or _find_condition(group)
        if known is not None and known.status == "True" and condition.status != "True":
            return
        if known != condition:
            changes = known is None or known.status != condition.status
            self._scheduler.writes.set_pod_group_condition(group, condition, changes_status=changes)
            self._remember(group, condition)

    def _remember(self, group: PodGroup, condition: PodGroupCondition) -> None:
        """Keep a written condition, since the next cycle of the group may come before the watch shows it."""
        if len(self._written) >= MAX_WRITTEN:
            uids = {known.metadata.uid for known in self._scheduler.cluster.objects.all(PodGroup)}
            self._written = {uid: last for uid, last in self._written.items() if uid in uids}
        self._written[group.metadata.uid] = condition

    def _return(self, member: _Member, result: _GroupResult) -> None:
        """Return a pod that is not bound to the queue: with its own reason, or with that of the group."""
        failure, nomination = member.failure, CLEARED
        if result.waits_for_preemption and member.preemption is not None:
            failure = member.preemption
        if failure is None or (result.error and not failure.is_error):
            if result.error:
                message = result.error
            elif result.waits_for_preemption:
                message, nomination = _preempting(), Nomination(member.binding.node if member.binding else "")
            else:
                message = f"{UNSCHEDULABLE}, {member.permit_message}"
            failure = AttemptFailure(message, nomination=nomination, is_error=bool(result.error))
        if member.binding is not None:
            code = Code.ERROR if failure.is_error else Code.UNSCHEDULABLE
            phase = PhaseResult("PodGroup", code, member.binding.node, failure.message, final=True)
            self._scheduler.recorder.record_outcome(member.binding.decision, phase)
        klog.info(
            2,
            "Unable to schedule pod belonging to a pod group; waiting",
            pod=member.queued.pod.full_name,
            err=failure.message,
        )
        self._scheduler.handle_failure(member.queued, failure)


def _find_condition(group: PodGroup) -> PodGroupCondition | None:
    found = next((c for c in group.status.conditions or () if c.type == SCHEDULED), None)
    return None if found is None else PodGroupCondition(found.status, found.reason, found.message)


def _join_waits(permit: dict[str, Wait]) -> str:
    """Return upstream's message of a pod on which Permit plugins wait: the reason of the last one, and a sentence."""
    last = list(permit.values())[-1:]
    waits = [wait.reason for wait in last if wait.reason is not None] + [Reason("permit-waits")]
    return ", ".join(map(reasons.format_reason, waits)) if permit else ""


def _preempting() -> str:
    return f"{UNSCHEDULABLE}, {reasons.format_reason(Reason('group-preempting'))}"
