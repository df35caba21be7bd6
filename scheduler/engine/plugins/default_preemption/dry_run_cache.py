"""A cache of preemption results by node, valid until the node changes.

Pods of one template preempt one after another, and each would try the same nodes.

Invariant: a cached result equals what trying the node again would return, and is the same object.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.extender import PreemptionCandidate
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.plugins.default_preemption.victims import PreemptionAttempt, group_by_namespace, select_victims

# 8 pod specs at 5,000 nodes. A result takes about a kilobyte, with the names of the victims.
MAX_RESULTS: Final = 40_000

_INVALID: Final = -1

DryRunResult = PreemptionCandidate | Verdict


class DryRunCache:
    """A cache of the preemption results of one profile: the victims on a node, or why evicting does not help."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._results_by_key: Lru[Hashable, _NodeResults] = Lru(1)

    def evaluate(
        self, attempt: PreemptionAttempt, slots: NDArray[np.intp], expected_count: int
    ) -> Iterator[DryRunResult]:
        """Yield the preemption result for each node slot in order, from the cache or by dry runs.

        `expected_count` is how many results the caller probably needs, and so how many nodes are tried together.
        """
        _, pod, nodes, dry_run = attempt
        dependencies = dry_run.dependencies(pod, nodes)
        pods_on_other_nodes: Set[int] = frozenset() if dependencies is None else dependencies[1]
        stored = _NodeResults(nodes) if dependencies is None else self._get_node_results(pod, dependencies[0], nodes)
        stored.invalidate(pods_on_other_nodes)
        step = max(expected_count, 1) if dry_run.can_batch_nodes else 1
        for first in range(0, len(slots), step):
            chosen = slots[first : first + step]
            missing = chosen[~stored.is_valid(chosen)]
            if len(missing):
                budgets = group_by_namespace(self._objects.all(PodDisruptionBudget))
                stored.store(missing, select_victims(attempt, missing, budgets))
            results = stored.get(chosen)
            stored.invalidate(pods_on_other_nodes)
            yield from results

    def _get_node_results(self, pod: PodInfo, dependencies: Hashable, nodes: NodeColumns) -> _NodeResults:
        """Return the cached results for pods with this pod's spec; they are empty if nothing is cached yet.

        `dependencies` is the cache key of the dry run.
        """
        key = (pod.spec_digest, dependencies, self._objects.revision_of(PodDisruptionBudget))
        results = self._results_by_key.get(key)
        if results is None or results.nodes is not nodes:
            results = self._results_by_key.put(key, _NodeResults(nodes))
        self._results_by_key.set_limit(MAX_RESULTS // max(nodes.slots, 1))
        return results


class _NodeResults:
    """The cached preemption results by node slot, for pods with one spec.

    A result is valid while the revision of its node slot is unchanged. A new version of a pod on the node changes the
    revision too.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self._revisions = np.zeros(0, np.int64)
        self._results: list[DryRunResult | None] = []

    def is_valid(self, slots: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return, for each of the node slots, whether it has a cached result that is still valid."""
        more = self.nodes.slots - len(self._results)
        if more > 0:
            self._revisions = np.pad(self._revisions, (0, more), constant_values=_INVALID)
            self._results += [None] * more
        valid: NDArray[np.bool_] = self._revisions[slots] == self.nodes.revised[slots]
        return valid

    def store(self, slots: NDArray[np.intp], results: Sequence[DryRunResult]) -> None:
        """Store the results of these node slots, one each; a result is valid until its node changes."""
        self._revisions[slots] = self.nodes.revised[slots]
        for slot, result in zip(slots.tolist(), results, strict=True):
            self._results[slot] = result

    def invalidate(self, slots: Iterable[int]) -> None:
        """Invalidate the cached results of these node slots."""
        present = [slot for slot in slots if slot < len(self._revisions)]
        self._revisions[present] = _INVALID

    def get(self, slots: NDArray[np.intp]) -> list[DryRunResult]:
        """Return the cached results of these node slots, each of which must have one."""
        results: list[Any] = self._results
        return [results[slot] for slot in slots.tolist()]
