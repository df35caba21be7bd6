"""Would the pod fit if? The filters of one attempt, asked again of nodes that are changed for the question.

Owns: the two questions that need it, what if pods were gone (preemption) and what if nominated pods were there already
(every node that waiting pods of the same or a higher priority are nominated for is asked twice: with them and without).
Does not own: which pods those are (`nominated`), what follows from the answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set

import numpy as np

from herodotus_record import reasons
from herodotus_record.model import SUCCESS, Code, Verdict
from scheduler.columns import Copy, NodeColumns
from scheduler.framework.extender import Agreement, Victims
from scheduler.framework.extenders import Extenders
from scheduler.framework.interface import PreFilterExtensions
from scheduler.framework.nominated import Nominator
from scheduler.framework.plugin import Follows
from scheduler.framework.profile import Profile
from scheduler.framework.recall import Asked
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import error
from scheduler.objects.pod import PodInfo


class FilterDryRun:
    """`interface.DryRun` for one attempt."""

    def __init__(
        self, profile: Profile, skipped: Set[str], extenders: Extenders, nominator: Nominator, marks: list[str]
    ) -> None:
        """`skipped`: the plugins whose filter PreFilter ruled out for this pod. `marks`: where failures are noted."""
        self._extenders = extenders
        self._nominator = nominator
        self._marks = marks
        self._filters = [plugin for plugin in profile.filter if plugin.name not in skipped]
        self._asked = [Asked.at("filter", plugin) for plugin in self._filters]
        asked = [plugin for plugin in profile.pre_filter if plugin.name not in skipped]
        self._extensions = [plugin for plugin in asked if isinstance(plugin, PreFilterExtensions)]

    @property
    def together(self) -> bool:
        """Whether nodes may be asked about at once: no plugin keeps notes about one node's pods that tell of others."""
        return not self._extensions

    def follows(self, pod: PodInfo, nodes: NodeColumns) -> tuple[Hashable, Set[int]] | None:
        """What answers follow from beside the pod's spec and a node's row, to compare; and of which slots from more.

        None where they follow from more for every slot.
        """
        if any(asked.follows is Follows.ANYTHING or asked.note is not None for asked in self._asked):
            return None
        others = any(asked.follows is Follows.NODES for asked in self._asked)  # other nodes' objects count too
        names = tuple(asked.name for asked in self._asked)
        return (names, nodes.node_generation if others else None), self.rivals(pod, nodes).keys()

    def first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> list[Verdict]:
        """Each slot's first verdict that is not Success, or Success. With the nominated pods first, where there are."""
        found = self._first_failures(state, pod, nodes)
        for slot, said in self.with_nominated(state, pod, nodes).items():
            found[slot] = next(verdict for verdict in said.values() if verdict.code is not Code.SUCCESS)
        return found

    def rivals(self, pod: PodInfo, nodes: NodeColumns) -> dict[int, list[PodInfo]]:
        """The slots that other pods are nominated for which go before the pod, and those pods."""
        found = {}
        nominated = self._nominator.nodes()
        for name in nominated if len(nominated) < nodes.slots else nodes.index:
            slot = nodes.index.get(name)
            if slot is not None and nodes.live[slot] and (rivals := self._nominator.rivals(pod, name)):
                found[slot] = rivals
        return dict(sorted(found.items()))

    def with_nominated(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> dict[int, dict[str, Verdict]]:
        """What each filter says of the nodes that rivals are nominated for, as if those were there.

        By slot and filter; only the slots that some filter rejects then.
        """
        rivals = self.rivals(pod, nodes)
        # one question for all nodes, unless notes about one node's pods change what is said of another
        groups = [list(rivals)] if self.together else [[slot] for slot in rivals]
        found: dict[int, dict[str, Verdict]] = {}
        for group in groups:
            if group:
                found |= self._with_nominated(state.clone(), pod, nodes, {slot: rivals[slot] for slot in group})
        return found

    def _with_nominated(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rivals: Mapping[int, Sequence[PodInfo]]
    ) -> dict[int, dict[str, Verdict]]:
        """`state` is a copy made for the question."""
        copy = Copy(nodes, list(rivals))
        slots = {slot: copy.index[nodes.names[slot]] for slot in rivals}
        for slot, there in slots.items():
            for rival in rivals[slot]:
                self.add_pod(state, pod, rival, copy, there)
        said: dict[int, dict[str, Verdict]] = {slot: {} for slot in rivals}
        for plugin in self._filters:
            try:
                verdicts = plugin.filter(state, pod, copy)
                for slot, there in slots.items():
                    said[slot][plugin.name] = verdicts.at(there)
            except Exception as e:  # as if it had said so: it counts where no earlier filter rejects
                for slot in slots:
                    said[slot][plugin.name] = error(str(e))
        return {slot: by for slot, by in said.items() if any(v.code is not Code.SUCCESS for v in by.values())}

    def _first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> list[Verdict]:
        found = [SUCCESS] * nodes.slots
        left = np.ones(nodes.slots, np.bool_)
        for plugin in self._filters:
            verdicts = plugin.filter(state, pod, nodes)
            if verdicts.ids is None:
                continue
            for slot in np.flatnonzero(left & (verdicts.codes(nodes.slots) != 0)).tolist():
                found[slot] = _blaming(plugin.name, verdicts.at(slot))
                left[slot] = False
            if not left.any():
                break
        return found

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Count a pod on a node of `nodes` and in the plugins' notes."""
        nodes.add_pod(added, nodes.names[slot])
        for plugin in self._extensions:
            plugin.add_pod(state, pod, added, nodes, slot)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Stop counting it."""
        nodes.remove_pod(removed.uid, nodes.names[slot])
        for plugin in self._extensions:
            plugin.remove_pod(state, pod, removed, nodes, slot)

    def agreement(self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[Victims]) -> Agreement:
        """What the extenders leave of the candidates."""
        return self._extenders.run_preempt(pod, nodes, candidates, self._marks)


def _blaming(plugin: str, verdict: Verdict) -> Verdict:
    """An Error says which filter it is of; another verdict is the node's and stays as it is."""
    if verdict.code is not Code.ERROR:
        return verdict
    said = ", ".join(reasons.sentence(reason) for reason in verdict.reasons)
    return error(f'running "{plugin}" filter plugin: {said}')
