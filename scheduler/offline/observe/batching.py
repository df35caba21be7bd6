"""OpportunisticBatching: kube-scheduler may take a pod's node from the ranking of an equal pod just before.

If the last pod's node cannot host the next equal pod, kube-scheduler v1.36 does not score again: it takes the next node
of the ranking that it has (framework/runtime/batch.go). It does so only for pods whose placement depends on no other
pods' labels, so never where a profile spreads pods by default, as the default profile does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from scheduler.engine.columns import NodeColumns
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.profile import Profile
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.pod_topology_spread import PodTopologySpread
from scheduler.engine.rules.feature_gates import BATCHING

MAX_AGE_S: Final = 1.0  # of a ranking: upstream's 500 ms, and as much for the watch


@dataclass
class _Ranking:
    signature: Hashable
    totals: dict[str, int]  # of the nodes that are not taken yet
    last: str  # the node that was taken last
    since_s: float


class BatchDetection:
    """The ranking of nodes that an observed scheduler may be reusing for equal pods, derived from its outcomes."""

    def __init__(self, profile: Profile) -> None:
        plugins = {plugin.name: plugin for plugin in (*profile.pre_filter, *profile.filter, *profile.score)}
        spread = plugins.get(PodTopologySpread.name)
        by_default = isinstance(spread, PodTopologySpread) and spread.has_default_constraints
        self._allowed = profile.rules.enabled(BATCHING) and not by_default
        self._ranking: _Ranking | None = None

    def explains(self, pod: PodInfo, node: str, result: CycleResult, nodes: NodeColumns, now_s: float) -> bool:
        """Return whether the scheduler may have reused for this pod the ranking of an equal pod that it decided before.

        `node` is the pod's node, and `result` the observer's own evaluation of the pod. `now_s` is in monotonic
        seconds.
        """
        ranking = self._ranking
        if ranking is None or ranking.signature != self._signature(pod) or now_s - ranking.since_s > MAX_AGE_S:
            return False
        last = nodes.index.get(ranking.last)
        if last is None or result.trace.feasible[last]:  # upstream uses the ranking only once that node is full
            return False
        return node in ranking.totals and ranking.totals[node] == max(ranking.totals.values())

    def note(self, pod: PodInfo, node: str, result: CycleResult, nodes: NodeColumns, now_s: float) -> None:
        """Update the ranking after an outcome. If `explains` returns True for it, remove `node` from the ranking.

        Otherwise `node` begins a new ranking from `result`, or ends the ranking if it is "" because the pod was
        rejected.
        """
        if self.explains(pod, node, result, nodes, now_s):
            assert self._ranking is not None
            del self._ranking.totals[node]
            self._ranking.last = node
            return
        self._ranking = None
        signature, totals = self._signature(pod), result.trace.totals
        if signature is not None and node and totals is not None:
            feasible = (int(slot) for slot in result.trace.feasible.nonzero()[0])
            ranked = {nodes.names[slot]: int(totals[slot]) for slot in feasible if nodes.names[slot] != node}
            self._ranking = _Ranking(signature, ranked, node, now_s)

    def _signature(self, pod: PodInfo) -> Hashable | None:
        """Return a key that is equal for pods that may share a ranking, or None for a pod that is never batched."""
        spec = pod.pod.spec
        beside = spec.affinity and (spec.affinity.pod_affinity or spec.affinity.pod_anti_affinity)
        if not self._allowed or spec.topology_spread_constraints or beside or spec.resource_claims or pod.has_storage:
            return None
        return pod.spec_digest, pod.namespace, tuple(sorted((pod.pod.metadata.labels or {}).items()))
