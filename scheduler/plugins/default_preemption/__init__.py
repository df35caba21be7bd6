"""DefaultPreemption: finds the pods whose eviction would let the pod in, and the node where that does the least harm.

Owns: eligibility, which nodes are tried, the message. `victims` tries one node, `choice` picks one of those that work.
Does not own: evicting, which the scheduler around it does or, as long as that is not built, does not (`Handle.evicts`).

Source: pkg/scheduler/framework/preemption v1.36. Upstream starts at a random node; ours at one that follows from the
pod's UID, so that a case decides alike every time.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import SUCCESS, Candidate, Code, Preemption, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.events import SKIP, Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import DryRun
from scheduler.framework.plugin import Args, InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PostFilterResult, unschedulable
from scheduler.objects.pod import PodInfo
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.problems import Problem, invalid
from scheduler.plugins.default_preemption.choice import best
from scheduler.plugins.default_preemption.victims import Victims, select

NEVER = reasons.sentence(Reason("preemption-never"))
TERMINATING = reasons.sentence(Reason("preemption-terminating"))
UNHELPFUL = reasons.sentence(Reason("preemption-unhelpful"))
NOT_BUILT = reasons.sentence(Reason("not-built", {"feature": "evicting pods", "plugin": "DefaultPreemption"}))


class DefaultPreemptionArgs(Args, frozen=True):
    """How many candidate nodes to look for."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self) -> Iterator[Problem]:
        """Ranges, and not both zero."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            other = "cannot be zero at the same time as minCandidateNodes"
            yield invalid("minCandidateNodesPercentage", percentage, f"{other}Absolute")
            yield invalid("minCandidateNodesAbsolute", absolute, f"{other}Percentage")


class DefaultPreemption(InTreePlugin):
    """PostFilter only."""

    name = "DefaultPreemption"
    idle_at = frozenset({"preEnqueue"})
    args_type = DefaultPreemptionArgs

    def events_to_register(self) -> Iterator[ClusterEventWithHint]:
        """A pod that waits for its victims is looked at when one is gone; whether that helps, its rejectors say."""
        yield ClusterEventWithHint(Resource.POD, Action.DELETE, lambda pod, old, new: SKIP)

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """Success nominates a node. A node is tried where its first failure was Unschedulable."""
        if pod.pod.spec.preemption_policy == "Never":
            return _said(NEVER)
        if _waits_for_victims(pod, nodes, codes):
            return _said(TERMINATING)
        candidates, refusals = self._try_nodes(state, pod, nodes, np.flatnonzero(codes == Code.UNSCHEDULABLE), dry_run)
        total = int(nodes.live.sum())
        if not candidates:
            words = Counter(reasons.sentence(reason) for verdict in refusals for reason in verdict.reasons)
            words[UNHELPFUL] += total - len(refusals)
            return _said(reasons.fit_error(total, [(w, count) for w, count in words.items() if count]))
        return self._found(candidates)

    def _try_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, potential: NDArray[np.intp], dry_run: DryRun
    ) -> tuple[list[Victims], list[Verdict]]:
        """The nodes where evicting helps, and why it does not on the others that were tried."""
        args: DefaultPreemptionArgs = self.args
        share = len(potential) * args.min_candidate_nodes_percentage // 100
        enough = min(max(share, args.min_candidate_nodes_absolute), len(potential))
        start = zlib.crc32(pod.uid.encode()) % max(len(potential), 1)
        budgets = self.handle.objects.all(PodDisruptionBudget)
        candidates: list[Victims] = []
        refusals: list[Verdict] = []
        for slot in np.roll(potential, -start).tolist():
            found = select(nodes.copy_of(slot), state.clone(), pod, budgets, dry_run)
            if isinstance(found, Verdict):
                refusals.append(found)
                continue
            if not found.pods:
                raise ValueError(f'expected at least one victim pod on node "{found.node}"')
            candidates.append(found)
            if len(candidates) >= enough and any(c.pdb_violations == 0 for c in candidates):
                break
        return candidates, refusals

    def _found(self, candidates: list[Victims]) -> PostFilterResult:
        nominated = best(candidates)
        evicts = self.handle.evicts
        preemption = Preemption(
            nominated=nominated.node,
            candidates=tuple(
                Candidate(c.node, tuple(p.full_name for p in c.pods), c.pdb_violations) for c in candidates
            ),
            evicted=evicts,
        )
        if evicts:
            return PostFilterResult(SUCCESS, preemption)
        would_help = f"{NOT_BUILT}; evicting {len(nominated.pods)} pod(s) from {nominated.node} would make room."
        return PostFilterResult(_said(would_help).verdict, preemption)


def _waits_for_victims(pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8]) -> bool:
    """Whether pods that were evicted for this one are still on their way out of its nominated node."""
    slot = nodes.index.get(pod.pod.status.nominated_node_name or "")
    if slot is None or not nodes.live[slot] or codes[slot] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return False
    return any(p.priority < pod.priority and _evicted(p) for p in nodes.pods[slot].values())


def _evicted(p: PodInfo) -> bool:
    return p.terminating and any(
        (c.type, c.status, c.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for c in p.pod.status.conditions or ()
    )


def _said(message: str) -> PostFilterResult:
    return PostFilterResult(unschedulable(Reason("preemption", {"message": message})))
