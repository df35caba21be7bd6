"""What came of trying nodes: tried together, and not again as long as nothing changed there.

Pods that preempt come in herds too, and each of them would try the same nodes.

Owns: how many nodes are tried at once, what is remembered of which. Does not own: trying (`victims`).

Invariant: what is remembered of a node equals what trying it again would find.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Verdict
from scheduler.columns import Copy, NodeColumns
from scheduler.framework.extender import Victims
from scheduler.framework.interface import DryRun
from scheduler.framework.state import CycleState
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.plugins.default_preemption.victims import select

KEPT: Final = 8  # specs; of each perhaps all nodes are remembered, and which pods were on them


class _Trial(NamedTuple):
    """A node, its row and pods as they were tried, and the answer."""

    since: int
    pods: Sequence[PodInfo]
    answer: Victims | Verdict


class Trials:
    """One profile's."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._known: OrderedDict[Hashable, dict[int, _Trial]] = OrderedDict()  # by question, then by slot

    def of(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: NodeColumns,
        slots: NDArray[np.intp],
        dry_run: DryRun,
        at_once: int,
    ) -> Iterator[Victims | Verdict]:
        """The answer about each slot, in their order. `at_once`: as many are likely to be needed."""
        follows = dry_run.follows(pod, nodes)
        known, others = ({}, frozenset()) if follows is None else (self._of_question(pod, follows[0]), follows[1])
        step = max(at_once, 1) if dry_run.together else 1
        for first in range(0, len(slots), step):
            chosen = slots[first : first + step].tolist()
            answers = {s: t.answer for s in chosen if s not in others and (t := _held(known, nodes, s)) is not None}
            unknown = [slot for slot in chosen if slot not in answers]
            if unknown:
                budgets = self._objects.all(PodDisruptionBudget)
                found = select(Copy(nodes, unknown), state.clone(), pod, budgets, dry_run)
                for slot, answer in zip(unknown, found, strict=True):
                    answers[slot] = answer
                    if slot not in others:
                        known[slot] = _Trial(int(nodes.since[slot]), [*nodes.pods[slot].values()], answer)
            yield from (answers[slot] for slot in chosen)

    def _of_question(self, pod: PodInfo, follows: Hashable) -> dict[int, _Trial]:
        """What is remembered of pods like this one."""
        question = (pod.spec_digest, follows, self._objects.revision_of(PodDisruptionBudget))
        known = self._known.setdefault(question, {})
        self._known.move_to_end(question)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known


def _held(known: Mapping[int, _Trial], nodes: NodeColumns, slot: int) -> _Trial | None:
    """What is remembered of a slot's node, where nothing happened there since: another node there is a change too.

    Pods are compared too: a newer version of one that asks for the same may have other labels, or have started.
    """
    trial, pods = known.get(slot), nodes.pods[slot]
    if trial is None or trial.since != nodes.since[slot] or len(trial.pods) != len(pods):
        return None
    return trial if all(a is b for a, b in zip(trial.pods, pods.values(), strict=True)) else None
