"""Would the pod fit if? The filters of one attempt, asked again of nodes that are changed for the question.

Owns: the two questions that need it, what if pods were gone (preemption) and what if nominated pods were there already
(every node that waiting pods of the same or a higher priority are nominated for is asked twice: with them and without).
Does not own: which pods those are (`nominated`), what follows from the answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import product

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
from scheduler.framework.verdicts import Verdicts, error
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

    def first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Each slot's first verdict that is not Success, or Success. With the nominated pods first, where there are."""
        reserved = {
            slot: next(verdict for verdict in said.values() if verdict.code is not Code.SUCCESS)
            for slot, said in self.with_nominated(state, pod, nodes).items()
        }
        return self._first_failures(state, pod, nodes).replaced(reserved, nodes.slots)

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
        self.add_pods(state, pod, [(there, rival) for slot, there in slots.items() for rival in rivals[slot]], copy)
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

    def _first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        table, ids = [SUCCESS], np.zeros(nodes.slots, np.intp)
        for plugin in self._filters:
            said = plugin.filter(state, pod, nodes)
            if said.ids is None:
                continue
            newly = (ids == 0) & (said.codes(nodes.slots) != 0)
            ids[newly] = len(table) + said.ids[newly].astype(np.intp)
            table += [_blaming(plugin.name, verdict) for verdict in said.table]
            if ids.all():
                break
        return Verdicts(tuple(table), ids)

    def add_pods(self, state: CycleState, pod: PodInfo, added: Sequence[tuple[int, PodInfo]], nodes: Copy) -> None:
        """Count pods on slots of `nodes` and in the plugins' notes."""
        for some in self._steps(added):
            nodes.add_pods(some)
            for (slot, p), plugin in product(some, self._extensions):
                plugin.add_pod(state, pod, p, nodes, slot)

    def remove_pods(self, state: CycleState, pod: PodInfo, removed: Sequence[tuple[int, PodInfo]], nodes: Copy) -> None:
        """Stop counting them."""
        for some in self._steps(removed):
            nodes.remove_pods(some)
            for (slot, p), plugin in product(some, self._extensions):
                plugin.remove_pod(state, pod, p, nodes, slot)

    def _steps(self, pods: Sequence[tuple[int, PodInfo]]) -> Iterable[Sequence[tuple[int, PodInfo]]]:
        """One by one where plugins keep notes: they are told of each as it comes or goes."""
        return [pods] if self.together else [[one] for one in pods]

    def agreement(self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[Victims]) -> Agreement:
        """What the extenders leave of the candidates."""
        return self._extenders.run_preempt(pod, nodes, candidates, self._marks)


def _blaming(plugin: str, verdict: Verdict) -> Verdict:
    """An Error says which filter it is of; another verdict is the node's and stays as it is."""
    if verdict.code is not Code.ERROR:
        return verdict
    said = ", ".join(reasons.sentence(reason) for reason in verdict.reasons)
    return error(f'running "{plugin}" filter plugin: {said}')
