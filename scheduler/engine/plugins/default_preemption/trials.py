"""A cache of preemption results by node, valid until the node changes.

Pods of one template preempt one after another, and each would try the same nodes.

Owns: how many nodes are tried together, which results are stored. Does not own: trying (`victims`).

Invariant: a cached result equals what trying the node again would return, and is the same object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.extender import PreemptionCandidate
from scheduler.engine.framework.interface import DryRun
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.policy import PodDisruptionBudget
from scheduler.engine.plugins.default_preemption.victims import by_namespace, select

KEPT: Final = 40_000  # answers: of 8 specs at 5,000 nodes; a kilobyte each, with the names of the pods that would go

_NEVER: Final = -1

Answer = PreemptionCandidate | Verdict


class Trials:
    """The cached preemption results of one profile."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()  # by question

    def of(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: NodeColumns,
        slots: NDArray[np.intp],
        dry_run: DryRun,
        at_once: int,
    ) -> Iterator[Answer]:
        """Yield the result of each slot, in their order. `at_once`: how many are likely to be needed."""
        follows = dry_run.dependencies(pod, nodes)
        of_more: Set[int] = frozenset() if follows is None else follows[1]
        known = _Known(nodes) if follows is None else self._of_question(pod, follows[0], nodes)
        known.forget(of_more)
        step = max(at_once, 1) if dry_run.can_batch_nodes else 1
        for first in range(0, len(slots), step):
            chosen = slots[first : first + step]
            unknown = chosen[~known.stands(chosen)]
            if len(unknown):
                budgets = by_namespace(self._objects.all(PodDisruptionBudget))
                known.put(unknown, select(nodes, unknown, state, pod, budgets, dry_run))
            answers = known.answers(chosen)
            known.forget(of_more)
            yield from answers

    def _of_question(self, pod: PodInfo, follows: Hashable, nodes: NodeColumns) -> _Known:
        """What is remembered of pods like this one."""
        question = (pod.spec_digest, follows, self._objects.revision_of(PodDisruptionBudget))
        known = self._known.get(question)
        if known is None or known.nodes is not nodes:
            known = self._known[question] = _Known(nodes)
        self._known.move_to_end(question)
        while len(self._known) > 1 and len(self._known) * nodes.slots > KEPT:
            self._known.popitem(last=False)
        return known


class _Known:
    """Answers to one question about the nodes of some columns, by slot, and as of which revision of the slot.

    A newer version of a pod is another revision too: it may have other labels, or have started.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self._as_of = np.zeros(0, np.int64)
        self._answers: list[Answer | None] = []

    def stands(self, slots: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of these slots have a cached result that is still valid."""
        more = self.nodes.slots - len(self._answers)
        if more > 0:
            self._as_of = np.pad(self._as_of, (0, more), constant_values=_NEVER)
            self._answers += [None] * more
        stands: NDArray[np.bool_] = self._as_of[slots] == self.nodes.revised[slots]
        return stands

    def put(self, slots: NDArray[np.intp], answers: Sequence[Answer]) -> None:
        """Store the results of these slots."""
        self._as_of[slots] = self.nodes.revised[slots]
        for slot, answer in zip(slots.tolist(), answers, strict=True):
            self._answers[slot] = answer

    def forget(self, slots: Iterable[int]) -> None:
        """Invalidate the results of these slots."""
        known = [slot for slot in slots if slot < len(self._as_of)]
        self._as_of[known] = _NEVER

    def answers(self, slots: NDArray[np.intp]) -> list[Answer]:
        """Return the results of these slots, all of which are stored."""
        answers: list[Any] = self._answers
        return [answers[slot] for slot in slots.tolist()]
