"""The stages of a pod of a pod group on a simulated cluster, for the cycle of its group.

Owns: what counts on a node while the cycle runs. Does not own: the order of the stages (`backend.pod_groups`), what
follows from the result (`simulation`).
"""

from __future__ import annotations

from collections.abc import Callable

from herodotus_record.model import PodGroupCycle
from scheduler.backend.attempt_failure import AttemptFailure
from scheduler.backend.pod_groups.placing import GroupMember, MemberInput, PhaseRejection
from scheduler.backend.queue import QueuedPod
from scheduler.offline.simulate.virtual_cluster import SimulatedAttempt, VirtualCluster


class SimulatedStages:
    """Decides and assumes pods of a group on a virtual cluster. Implements `MemberStages`."""

    def __init__(self, cluster: VirtualCluster, observe: Callable[[SimulatedAttempt], None]) -> None:
        """Prepare without deciding. `observe` gets each attempt, also of pods that are not placed in the end."""
        self._cluster, self._observe = cluster, observe

    def find_start(self) -> int:
        return self._cluster.next_start

    def decide(self, queued: QueuedPod, member_input: MemberInput, cycle: PodGroupCycle) -> GroupMember:
        attempt = self._cluster.decide(queued.pod, member_input.seed, member_input)
        self._observe(attempt)
        failure = AttemptFailure.from_result(attempt.result) if attempt.result.chosen is None else None
        return GroupMember(queued, cycle, attempt.result, failure)

    def assume(self, member: GroupMember) -> None:
        self._cluster.assume(member.queued.pod, member.node)

    def reject(self, member: GroupMember, refusal: PhaseRejection) -> AttemptFailure:
        self.undo(member)
        rules = self._cluster.framework(member.queued.pod).profile.rules
        return AttemptFailure.from_refusal(refusal.verdict, refusal.phase, rules)

    def undo(self, member: GroupMember) -> None:
        self._cluster.forget(member.queued.pod, member.node, member.result.state)
