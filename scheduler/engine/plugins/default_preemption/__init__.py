"""DefaultPreemption: finds a node, and the pods on it whose eviction does the least harm and lets the pod in.

`victims` tries nodes, and `dry_run_cache` stores the results. `scheduler.live.preemption` evicts after the attempt,
unless the attempt only shows what would happen (`Handle.evicts`). Until the last eviction request is sent, the pod is
kept out of the active queue.

Source: pkg/scheduler/framework/preemption v1.36. Upstream starts at a random node; this plugin starts at a node that
follows from the pod's UID, so that equal cases have equal results.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import SUCCESS, Code, Preemption, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import QUEUE_SKIP, ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.extender import PreemptionCandidate, RemainingCandidates
from scheduler.engine.framework.interface import DryRun
from scheduler.engine.framework.nominated import CLEARED, Nomination
from scheduler.engine.framework.plugin import Args, BasePlugin, Handle
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PostFilterResult, error, unresolvable, unschedulable
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.plugins.default_preemption.dry_run_cache import DryRunCache
from scheduler.engine.plugins.default_preemption.victims import PreemptionAttempt, group_by_namespace, select_victims
from scheduler.engine.rules.feature_gates import TOPOLOGY_AWARE, WORKLOAD_PREEMPTION
from scheduler.engine.rules.version_rules import PREEMPTION_NODE_NAMED

NO_CANDIDATE = reasons.format_reason(Reason("preemption-no-candidate"))
NEVER = reasons.format_reason(Reason("preemption-never"))
TERMINATING = reasons.format_reason(Reason("preemption-terminating"))
UNHELPFUL = reasons.format_reason(Reason("preemption-unhelpful"))
SWITCHED_OFF = reasons.format_reason(Reason("preemption-off"))
IS_PREEMPTING = unresolvable(Reason("preempting"))
GROUP_IS_PREEMPTING = unresolvable(Reason("preempting-group"))


class DefaultPreemptionArgs(Args, frozen=True):
    """Arguments of DefaultPreemption: how many candidate nodes suffice, in percent and as an absolute number."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self) -> Iterator[Problem]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            other = "cannot be zero at the same time as minCandidateNodes"
            yield invalid("minCandidateNodesPercentage", percentage, f"{other}Absolute")
            yield invalid("minCandidateNodesAbsolute", absolute, f"{other}Percentage")


class DefaultPreemption(BasePlugin):
    """The preemption plugin, which finds a node and victims on it if no node is feasible for a pod.

    It also keeps a pod out of the active queue until the eviction requests for its victims are sent.
    """

    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._dry_run_cache = DryRunCache(handle.objects)

    def events_to_register(self) -> Iterator[ClusterEventWithHint]:
        """Yield the event Pod/Delete with a queueing hint that always skips it.

        The plugins that rejected the pod decide whether a deletion helps.
        """
        yield ClusterEventWithHint(EventResource.POD, ActionType.DELETE, lambda pod, old, new: QUEUE_SKIP)

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Reject the pod until all eviction requests for its victims are sent: they still occupy the node before.

        With WorkloadAwarePreemption, these are the victims of the pod's group.
        """
        if pod.pod_group is not None and self.rules.enabled(WORKLOAD_PREEMPTION):
            group = find_pod_group(self.handle.objects, pod.pod_group)
            preempts = group is not None and self.handle.is_preempting(group.metadata.uid)
            return GROUP_IS_PREEMPTING if preempts else SUCCESS
        return IS_PREEMPTING if self.handle.is_preempting(pod.uid) else SUCCESS

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """Nominate a node on which the pod fits once victims are evicted, or return why preemption does not help.

        Only nodes that were rejected with Unschedulable (in `codes`, by node slot) are tried.
        """
        if not self.handle.preempts:
            return _reject(SWITCHED_OFF)
        if pod.pod_group is not None:
            refused = self._refuse_member(pod.pod_group)
            if refused is not None:
                return _reject(reasons.format_reason(refused))
        if pod.pod.spec.preemption_policy == "Never":
            return _reject(NEVER)
        if _waits_for_victims(pod, dry_run.find_nominated_node(pod), nodes, codes):
            return _reject(TERMINATING)
        attempt = PreemptionAttempt(state, pod, nodes, dry_run)
        candidates, refusals = self._try_nodes(attempt, np.flatnonzero(codes == Code.UNSCHEDULABLE))
        total = int(nodes.live.sum())
        if not candidates:
            errors = dict.fromkeys(reasons.format_reason(v.reasons[0]) for v in refusals if v.code is Code.ERROR)
            if errors:
                return PostFilterResult(error(f"preemption: {_aggregate(list(errors))}"))
            version = self.rules.version
            words = Counter(
                reasons.format_reason(reason, version) for verdict in refusals for reason in verdict.reasons
            )
            words[UNHELPFUL] += total - len(refusals)
            return _reject(
                reasons.format_fit_error(total, [(w, count) for w, count in words.items() if count]), CLEARED
            )
        agreed = dry_run.run_extenders(pod, nodes, candidates)
        return self._nominate(agreed) if agreed.kept else _reject(NO_CANDIDATE)

    def find_victims(self, attempt: PreemptionAttempt, slot: int) -> Sequence[PodInfo]:
        """Return the pods that preemption would evict from the node in this slot for the pod; () if that is no help.

        Nothing is stored, so that an attempt with a changed pod displaces no result about a real one.
        """
        if not self.handle.preempts:
            return ()
        budgets = group_by_namespace(self.handle.objects.all(PodDisruptionBudget))
        (found,) = select_victims(attempt, np.array([slot]), budgets)
        return found.pods if isinstance(found, PreemptionCandidate) else ()

    def _refuse_member(self, key: PodGroupKey) -> Reason | None:
        """Return the reason why preemption must not run for a single pod of the group, or None if it may."""
        if self.rules.enabled(TOPOLOGY_AWARE):
            group = find_pod_group(self.handle.objects, key)
            if group is None:
                return Reason("preemption-no-group")
            if group.spec.scheduling_constraints is not None:
                return Reason("preemption-placement")
        return Reason("preemption-by-group") if self.rules.enabled(WORKLOAD_PREEMPTION) else None

    def _try_nodes(
        self, attempt: PreemptionAttempt, potential: NDArray[np.intp]
    ) -> tuple[list[PreemptionCandidate], list[Verdict]]:
        """Try preemption on the node slots `potential`; return the candidates, and the other tried nodes' verdicts.

        The search stops when enough candidates are found and at least one of them violates no disruption budget.
        """
        args: DefaultPreemptionArgs = self.args
        share = len(potential) * args.min_candidate_nodes_percentage // 100
        enough = min(max(share, args.min_candidate_nodes_absolute), len(potential))
        start = zlib.crc32(attempt.pod.uid.encode()) % max(len(potential), 1)
        candidates: list[PreemptionCandidate] = []
        refusals: list[Verdict] = []
        spares_budgets = False
        for candidate in self._dry_run_cache.evaluate(attempt, np.roll(potential, -start), enough):
            if isinstance(candidate, Verdict):
                refusals.append(candidate)
                continue
            if not candidate.pods:
                raise ValueError(f'expected at least one victim pod on node "{candidate.node}"')
            candidates.append(candidate)
            spares_budgets = spares_budgets or candidate.pdb_violations == 0
            if spares_budgets and len(candidates) >= enough:
                break
        return candidates, refusals

    def _nominate(self, agreed: RemainingCandidates) -> PostFilterResult:
        nominated = min(agreed.kept, key=attrgetter("eviction_cost"))
        refused = [replace(c.candidate, rejected_by=by) for c, by in agreed.refused]
        preemption = Preemption(
            nominated_node=nominated.node,
            candidates=(*[c.candidate for c in agreed.kept], *refused),
            evicted=self.handle.evicts,
        )
        verdict = SUCCESS
        if self.rules.enabled(PREEMPTION_NODE_NAMED):
            params = {"node": nominated.node, "victims": str(len(nominated.pods))}
            verdict = Verdict(Code.SUCCESS, (Reason("preemption-found", params),))
        return PostFilterResult(verdict, preemption, Nomination(nominated.node), nominated.pods)


def _waits_for_victims(pod: PodInfo, node: str, nodes: NodeColumns, codes: NDArray[np.uint8]) -> bool:
    """Return whether victims of an earlier preemption still terminate on `node`, for which the pod is nominated.

    Only pods of lower priority count. The result is False if the node was rejected with UnschedulableAndUnresolvable.
    """
    slot = nodes.index.get(node)
    if slot is None or not nodes.live[slot] or codes[slot] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return False
    return any(p.priority < pod.priority and _evicted(p) for p in nodes.pods[slot].values())


def _evicted(p: PodInfo) -> bool:
    return p.terminating and any(
        (c.type, c.status, c.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for c in p.pod.status.conditions or ()
    )


def _reject(message: str, nomination: Nomination | None = None) -> PostFilterResult:
    return PostFilterResult(unschedulable(Reason("preemption", {"message": message})), nomination=nomination)


def _aggregate(errors: Sequence[str]) -> str:
    """Return error messages joined as in kube-scheduler: `[FIRST, SECOND]`, or `FIRST` if there is only one."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
