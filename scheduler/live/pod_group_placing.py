"""Placing the pods of a group one after the other: for good, or to find out whether the group fits.

Owns: the stages of one pod within the cycle of its group, and undoing them. Does not own: which nodes and how often
(`pod_group_cycle`), the decision on one pod (`cycle`), binding (`binding_cycle`).

Source: pkg/scheduler/schedule_one_podgroup.go v1.36 (podGroupSchedulingDefaultAlgorithm). Differs from it in that pods
are assumed in the cache, which no one else reads meanwhile, and stay assumed if the group is placed; upstream undoes
them and assumes them again.

Invariant: after a trial the cluster is as before it. After `place`, either no pod of the group that it decided counts
on a node, or Permit let one pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import Decision, DecisionPath, PluginVerdict, PodGroupCycle, Reason
from scheduler.backend.queue import QueuedPod
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.placement import GroupPlacement
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Wait
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group
from scheduler.live.binding_cycle import BindingCycles
from scheduler.live.in_flight import InFlightBinding
from scheduler.live.scheduler import Attempt, AttemptFailure, Scheduler

UNSCHEDULABLE = reasons.format_reason(Reason("group-unschedulable"))
PREEMPTING = f"{UNSCHEDULABLE}, {reasons.format_reason(Reason('group-preempting'))}"


@dataclass(frozen=True)
class MemberInput:
    """What the cycle of one pod of a group is given besides the cluster: with equal inputs it has the same result.

    `start` is the position in the visiting order at which the search starts; None: where the last cycle ended.
    """

    placement: GroupPlacement | None
    seed: int
    start: int | None = None

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """The nodes of the placement by slot, or None for all nodes."""
        return None if self.placement is None else self.placement.mask


@dataclass(frozen=True)
class MemberStages:
    """The stages of one pod's attempt that a cycle of its group shares with an attempt of a single pod.

    `decide` runs the pod's scheduling cycle on the cluster as it is, and `record` records the attempt. `try_deciding`
    only returns whether and where the pod fits. `preempt` starts to evict the victims that an attempt chose. `bind`
    takes a pod on from Reserve.
    """

    is_skipped: Callable[[QueuedPod], bool]
    decide: Callable[[QueuedPod, MemberInput], Attempt]
    try_deciding: Callable[[QueuedPod, MemberInput], CycleResult]
    find_start: Callable[[], int]
    record: Callable[[Attempt, PodGroupCycle], Decision]
    preempt: Callable[[Attempt, Decision], None]
    explain_failure: Callable[[Attempt], AttemptFailure]
    bind: Callable[[InFlightBinding], None]


@dataclass
class ScheduledMember:
    """One pod of the group in a cycle of the group, and what became of it.

    `cycle` states its place in the cycle, for its record, and `decision` is its recorded attempt. `binding` is set if
    the pod was assumed, on the node that was chosen for it or, with `preemption`, nominated. `preemption` is the
    failure of an attempt that chose victims, and `failure` that of one that found no node. `permit_message` says what
    Permit waits for.
    """

    queued: QueuedPod
    cycle: PodGroupCycle
    decision: Decision | None = None
    failure: AttemptFailure | None = None
    binding: InFlightBinding | None = None
    preemption: AttemptFailure | None = None
    permit_message: str = ""


@dataclass
class PodGroupResult:
    """The result of a cycle of a group: every pod that was decided, with its node or the reason why it has none.

    Without `error` and `is_schedulable`, the group is unschedulable or waits for preemption, and `message` is that of
    its condition. `placement` names the set of nodes in which the pods were decided, one of `placements`; it is empty
    for all nodes. `victims` are evicted for the group as a whole.
    """

    members: list[ScheduledMember] = field(default_factory=list)
    is_schedulable: bool = False
    waits_for_preemption: bool = False
    error: str = ""
    message: str = UNSCHEDULABLE
    placement: str = ""
    placements: int = 1
    victims: tuple[PodInfo, ...] = ()

    def fail(self, error: str) -> None:
        """Set the error of the whole cycle, so that no pod of the group is bound."""
        self.error, self.is_schedulable, self.waits_for_preemption = error, False, False


@dataclass
class Trial:
    """The result of a trial: whether the group fits, how many of its pods, and the inputs that lead there again."""

    inputs: tuple[MemberInput, ...]
    is_schedulable: bool = False
    placed: int = 0
    error: str = ""


@dataclass(frozen=True)
class _AssumedPod:
    """A pod that counts on a node during a trial."""

    queued: QueuedPod
    framework: Framework
    state: CycleState
    pod: PodInfo
    node: str


class _Refusal(NamedTuple):
    """The phase, Reserve or Permit, in which a plugin rejected a pod, and its verdict."""

    phase: str
    verdict: PluginVerdict


class GroupPlacer:
    """Decides the pods of a group in order, each on the cluster with the earlier ones assumed."""

    def __init__(self, scheduler: Scheduler, cycles: BindingCycles, stages: MemberStages) -> None:
        self._scheduler = scheduler
        self._cycles = cycles
        self._stages = stages
        self._cycle_number = 0  # of the last recorded cycle

    def build_inputs(self, pods: Sequence[QueuedPod], placement: GroupPlacement | None) -> tuple[MemberInput, ...]:
        """Return the inputs for one cycle of these pods, one per pod, with random seeds.

        `placement` None means all nodes.
        """
        return tuple(MemberInput(placement, random.getrandbits(32)) for _ in pods)

    # --- for good ---------------------------------------------------------------------------------------------------

    def place(self, pods: Sequence[QueuedPod], inputs: Sequence[MemberInput]) -> PodGroupResult:
        """Decide, record and assume the pods one after the other, and return the result.

        Stop at a pod that ends with an error. If the group is not schedulable afterwards, undo all assumptions.
        `inputs` has one element per pod.
        """
        result, cycle = PodGroupResult(), self._start_cycle(pods)
        for position, (queued, member_input) in enumerate(zip(pods, inputs, strict=True), 1):
            member = ScheduledMember(queued, replace(cycle, position=position))
            result.members.append(member)
            permit = self._place(member, member_input)
            if member.failure is not None:
                if member.failure.is_error:
                    result.fail(_format_error(member.failure.message))
                    break
            elif not permit:
                if any(other.preemption is not None for other in result.members):
                    result.waits_for_preemption, result.is_schedulable = True, False
                    result.message = PREEMPTING
                else:
                    result.is_schedulable = True
        if not result.is_schedulable:
            for member in reversed(result.members):
                if member.binding is not None:
                    self._cycles.undo(member.binding)
                    self._scheduler.cluster.nominator.set_nomination(member.queued.pod, None)
        return result

    def _start_cycle(self, pods: Sequence[QueuedPod]) -> PodGroupCycle:
        """Begin the next numbered cycle for these pods' group, and return what their records state about the cycle."""
        self._cycle_number += 1
        key, cluster = pods[0].pod.pod_group, self._scheduler.cluster
        assert key is not None
        group = find_pod_group(cluster.objects, key)
        return PodGroupCycle(
            number=self._cycle_number,
            position=0,
            pods=len(pods),
            scheduled=cluster.pod_groups.count_scheduled(key),
            min_count=0 if group is None else group.min_count,
        )

    def _place(self, member: ScheduledMember, member_input: MemberInput) -> dict[str, Wait]:
        """Decide a pod, assume it, and run Reserve and Permit. Return the waits of Permit plugins by plugin name.

        If the pod has no node or a plugin rejects it, set the member's `failure` and return {}.
        """
        attempt = self._stages.decide(member.queued, member_input)
        decision = member.decision = self._stages.record(attempt, member.cycle)
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
        permit = _run_reserve_and_permit(binding)
        if isinstance(permit, _Refusal):
            member.failure = self._cycles.reject(binding, permit.phase, permit.verdict)
            return {}
        member.binding = binding
        member.permit_message = _join_waits(permit)
        return permit

    # --- as a trial -------------------------------------------------------------------------------------------------

    def try_placing(self, pods: Sequence[QueuedPod], placement: GroupPlacement | None) -> Trial:
        """Try to place the pods without preemption, undo that, and return whether the group fits and how many pods do.

        Nothing is recorded. `placement` None means all nodes.
        """
        start = self._stages.find_start()
        trial = Trial(tuple(replace(member_input, start=start) for member_input in self.build_inputs(pods, placement)))
        assumed: list[_AssumedPod] = []
        try:
            for queued, member_input in zip(pods, trial.inputs, strict=True):
                result = self._stages.try_deciding(queued, member_input)
                if result.chosen is not None:
                    self._try_assuming(queued, result, trial, assumed)
                elif result.path is DecisionPath.ERROR:
                    trial.error = _format_error(result.message)
                if trial.error:
                    trial.is_schedulable = False
                    break
        finally:
            for each in reversed(assumed):
                self._forget(each)
        trial.placed = len(assumed)
        return trial

    def _try_assuming(self, queued: QueuedPod, result: CycleResult, trial: Trial, assumed: list[_AssumedPod]) -> None:
        """Assume a pod on its chosen node, run Reserve and Permit, and add it to `assumed` unless a plugin rejects it.

        If a plugin fails with an error, set the trial's `error`. If Permit lets the pod pass, the group is schedulable.
        """
        cluster, framework = self._scheduler.cluster, self._scheduler.framework(queued.pod)
        assert result.chosen is not None
        node, pod = cluster.cache.columns.names[result.chosen], replace(queued.pod, running=True)
        each = _AssumedPod(queued, framework, result.state, pod, node)
        cluster.cache.assume(pod, node)
        cluster.nominator.hide(pod.uid)
        permit = _run_reserve_and_permit(each)
        if not isinstance(permit, _Refusal):
            trial.is_schedulable = trial.is_schedulable or not permit
            assumed.append(each)
            return
        self._forget(each)
        plugin, verdict = permit.verdict.plugin, permit.verdict.verdict
        if not verdict.code.is_rejection:
            trial.error = _format_error(f'running {permit.phase} plugin "{plugin}": {join_reasons(verdict)}')

    def _forget(self, each: _AssumedPod) -> None:
        each.framework.run_unreserve(each.state, each.pod, each.node)
        self._scheduler.cluster.cache.forget(each.pod.uid)
        self._scheduler.cluster.nominator.set_nomination(each.queued.pod, None)


def _run_reserve_and_permit(assumed: InFlightBinding | _AssumedPod) -> _Refusal | dict[str, Wait]:
    """Run Reserve and Permit for an assumed pod.

    Return the waits of Permit plugins by plugin name ({}: none waits), or a _Refusal if a plugin rejects the pod.
    """
    framework, state, pod, node = assumed.framework, assumed.state, assumed.pod, assumed.node
    refusal = framework.run_reserve(state, pod, node)
    if refusal is not None:
        return _Refusal("Reserve", refusal)
    permit = framework.run_permit(state, pod, node)
    return _Refusal("Permit", permit) if isinstance(permit, PluginVerdict) else permit


def _format_error(message: str) -> str:
    return reasons.format_reason(Reason("group-error", {"error": message}))


def _join_waits(permit: dict[str, Wait]) -> str:
    """Return kube-scheduler's message for a pod on which Permit plugins wait, or "" if none waits.

    The message has the reason of the last plugin.
    """
    last = list(permit.values())[-1:]
    waits = [wait.reason for wait in last if wait.reason is not None] + [Reason("permit-waits")]
    return ", ".join(map(reasons.format_reason, waits)) if permit else ""
