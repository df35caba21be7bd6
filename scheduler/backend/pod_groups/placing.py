"""Placing the pods of a group one after the other: for good, or to find out whether the group fits.

Owns: the order of the stages of one pod within the cycle of its group, and undoing them. Does not own: which nodes and
how often (`cycle`), the decision on one pod (`engine.cycle`), what a program does with it (`MemberStages`).

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
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import DecisionPath, PluginVerdict, PodGroupCycle, Reason
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.queue import QueuedPod
from scheduler.engine.cycle import CycleResult, try_group_member
from scheduler.engine.framework.placement import GroupPlacement
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Wait
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group

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


@dataclass
class GroupMember:
    """One pod of the group in a cycle of the group, and what became of it.

    `cycle` states its place in the cycle. `node` is that on which the pod is assumed, chosen for it or, with
    `preemption`, nominated; "" if there is none. `preemption` is the failure of an attempt that chose victims, and
    `failure` that of one that found no node. `permit` has the waits of Permit plugins by plugin name.
    """

    queued: QueuedPod
    cycle: PodGroupCycle
    result: CycleResult
    failure: AttemptFailure | None = None
    node: str = ""
    preemption: AttemptFailure | None = None
    permit: dict[str, Wait] = field(default_factory=dict)

    @property
    def permit_message(self) -> str:
        """kube-scheduler's message for a pod on which Permit plugins wait: that of the last one; "" if none waits."""
        last = list(self.permit.values())[-1:]
        waits = [wait.reason for wait in last if wait.reason is not None] + [Reason("permit-waits")]
        return ", ".join(map(reasons.format_reason, waits)) if self.permit else ""


Member = TypeVar("Member", bound=GroupMember)


class PhaseRejection(NamedTuple):
    """The phase, Reserve or Permit, in which a plugin rejected a pod, and its verdict."""

    phase: str
    verdict: PluginVerdict


class MemberStages(Protocol[Member]):
    """What a program does with one pod of a group in the stages of its attempt."""

    def find_start(self) -> int:
        """Return the position in the visiting order at which the next cycle starts its search."""

    def decide(self, queued: QueuedPod, member_input: MemberInput, cycle: PodGroupCycle) -> Member:
        """Decide a pod on the cluster as it is, and preempt for it. Set the member's `failure` if it has no node."""

    def assume(self, member: Member) -> None:
        """Count the pod on the member's node in the cache."""

    def reject(self, member: Member, refusal: PhaseRejection) -> AttemptFailure:
        """Undo the assumption of a pod that a plugin refused, and return its failure."""

    def undo(self, member: Member) -> None:
        """Run Unreserve, and remove the assumed pod from the cache."""


@dataclass
class PodGroupResult(Generic[Member]):
    """The result of a cycle of a group: every pod that was decided, with its node or the reason why it has none.

    Without `error` and `is_schedulable`, the group is unschedulable or waits for preemption, and `message` is that of
    its condition. `placement` names the set of nodes in which the pods were decided, one of `placements`; it is empty
    for all nodes. `victims` are to be evicted for the group as a whole.
    """

    members: list[Member] = field(default_factory=list)
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

    def explain_undecided(self) -> AttemptFailure:
        """Return the failure of the pods that were not decided: after an error, or without a placement."""
        return AttemptFailure(self.error or self.message, is_error=bool(self.error))


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


class GroupPlacer(Generic[Member]):
    """Decides the pods of a group in order, each on the cluster with the earlier ones assumed."""

    def __init__(
        self,
        cluster: ClusterState,
        framework: Callable[[PodInfo], Framework],
        stages: MemberStages[Member],
        draw: random.Random,
    ) -> None:
        """Prepare without deciding. `framework` returns that of a pod's profile. `draw` gives the cycles' seeds."""
        self._cluster, self._framework, self._stages, self._draw = cluster, framework, stages, draw
        self._cycle_number = 0  # of the last cycle for good

    def build_inputs(self, pods: Sequence[QueuedPod], placement: GroupPlacement | None) -> tuple[MemberInput, ...]:
        """Return the inputs for one cycle of these pods, one per pod, with random seeds.

        `placement` None means all nodes.
        """
        return tuple(MemberInput(placement, self._draw.getrandbits(32)) for _ in pods)

    # --- for good ---------------------------------------------------------------------------------------------------

    def place(self, pods: Sequence[QueuedPod], inputs: Sequence[MemberInput]) -> PodGroupResult[Member]:
        """Decide and assume the pods one after the other, and return the result.

        Stop at a pod that ends with an error. If the group is not schedulable afterwards, undo all assumptions.
        `inputs` has one element per pod.
        """
        result, cycle = PodGroupResult[Member](), self._start_cycle(pods)
        for position, (queued, member_input) in enumerate(zip(pods, inputs, strict=True), 1):
            member = self._stages.decide(queued, member_input, replace(cycle, position=position))
            result.members.append(member)
            self._assume(member)
            if member.failure is not None:
                if member.failure.is_error:
                    result.fail(_format_error(member.failure.message))
                    break
            elif not member.permit:
                if any(other.preemption is not None for other in result.members):
                    result.waits_for_preemption, result.is_schedulable = True, False
                    result.message = PREEMPTING
                else:
                    result.is_schedulable = True
        if not result.is_schedulable:
            for member in reversed(result.members):
                if member.node:
                    self._stages.undo(member)
                    self._cluster.nominator.set_nomination(member.queued.pod, None)
        return result

    def _start_cycle(self, pods: Sequence[QueuedPod]) -> PodGroupCycle:
        """Begin the next numbered cycle for these pods' group, and return what their records state about the cycle."""
        self._cycle_number += 1
        key = pods[0].pod.pod_group
        assert key is not None
        group = find_pod_group(self._cluster.objects, key)
        return PodGroupCycle(
            number=self._cycle_number,
            position=0,
            pods=len(pods),
            scheduled=self._cluster.pod_groups.count_scheduled(key),
            min_count=0 if group is None else group.min_count,
        )

    def _assume(self, member: Member) -> None:
        """Assume a pod on the node that was chosen or nominated for it, and run Reserve and Permit.

        If the pod has no such node or a plugin rejects it, the member has a `failure` and no `node` afterwards.
        """
        result, failure = member.result, member.failure
        if failure is None:
            assert result.chosen is not None
            member.node = self._cluster.cache.columns.names[result.chosen]
        elif failure.nomination is not None and failure.nomination.node and not failure.is_error:
            member.preemption, member.failure, member.node = failure, None, failure.nomination.node
        else:
            return
        self._stages.assume(member)
        pod = replace(member.queued.pod, running=True)
        permit = _run_reserve_and_permit(self._framework(pod), result.state, pod, member.node)
        if isinstance(permit, PhaseRejection):
            member.failure = self._stages.reject(member, permit)
            member.node = ""
        else:
            member.permit = permit

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
                snapshot = self._cluster.cache.snapshot(member_input.mask)
                framework = self._framework(queued.pod)
                result = try_group_member(framework, queued.pod, snapshot, member_input.seed, start)
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
        cache, framework = self._cluster.cache, self._framework(queued.pod)
        assert result.chosen is not None
        node, pod = cache.columns.names[result.chosen], replace(queued.pod, running=True)
        each = _AssumedPod(queued, framework, result.state, pod, node)
        cache.assume(pod, node)
        self._cluster.nominator.hide(pod.uid)
        permit = _run_reserve_and_permit(framework, result.state, pod, node)
        if not isinstance(permit, PhaseRejection):
            trial.is_schedulable = trial.is_schedulable or not permit
            assumed.append(each)
            return
        self._forget(each)
        plugin, verdict = permit.verdict.plugin, permit.verdict.verdict
        if not verdict.code.is_rejection:
            trial.error = _format_error(f'running {permit.phase} plugin "{plugin}": {join_reasons(verdict)}')

    def _forget(self, each: _AssumedPod) -> None:
        each.framework.run_unreserve(each.state, each.pod, each.node)
        self._cluster.cache.forget(each.pod.uid)
        self._cluster.nominator.set_nomination(each.queued.pod, None)


def _run_reserve_and_permit(
    framework: Framework, state: CycleState, pod: PodInfo, node: str
) -> PhaseRejection | dict[str, Wait]:
    """Run Reserve and Permit for an assumed pod.

    Return the waits of Permit plugins by plugin name ({}: none waits), or a PhaseRejection if a plugin rejects the pod.
    """
    refusal = framework.run_reserve(state, pod, node)
    if refusal is not None:
        return PhaseRejection("Reserve", refusal)
    permit = framework.run_permit(state, pod, node)
    return PhaseRejection("Permit", permit) if isinstance(permit, PluginVerdict) else permit


def _format_error(message: str) -> str:
    return reasons.format_reason(Reason("group-error", {"error": message}))
