"""Would the pod fit if? The filters of one attempt, asked again of nodes that are changed for the question."""

from __future__ import annotations

from collections.abc import Sequence, Set

from herodotus_record.model import SUCCESS, Code, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.extender import Agreement, Victims
from scheduler.framework.extenders import Extenders
from scheduler.framework.interface import PreFilterExtensions
from scheduler.framework.profile import Profile
from scheduler.framework.state import CycleState
from scheduler.objects.pod import PodInfo


class FilterDryRun:
    """`interface.DryRun` for one attempt."""

    def __init__(self, profile: Profile, skipped: Set[str], extenders: Extenders, marks: list[str]) -> None:
        """`skipped`: the plugins whose filter PreFilter ruled out for this pod. `marks`: where failures are noted."""
        self._extenders = extenders
        self._marks = marks
        self._filters = [plugin for plugin in profile.filter if plugin.name not in skipped]
        asked = [plugin for plugin in profile.pre_filter if plugin.name not in skipped]
        self._extensions = [plugin for plugin in asked if isinstance(plugin, PreFilterExtensions)]

    def first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> list[Verdict]:
        """Each slot's first verdict that is not Success, or Success."""
        found = [SUCCESS] * nodes.slots
        left = set(range(nodes.slots))
        for plugin in self._filters:
            verdicts = plugin.filter(state, pod, nodes)
            if verdicts.ids is None:
                continue
            for slot in list(left):
                verdict = verdicts.at(slot)
                if verdict.code is not Code.SUCCESS:
                    found[slot] = verdict
                    left.discard(slot)
            if not left:
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
