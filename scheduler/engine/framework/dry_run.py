"""Dry runs of one attempt's filters on nodes to which pods were added, or from which pods were removed.

Preemption asks whether the pod fits without some pods. Each node with nominated pods of the same or a higher priority
is filtered twice, with and without these pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import product

import numpy as np

from herodotus_record.model import SUCCESS, Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns, RowCopy
from scheduler.engine.framework.equivalence_cache import PluginDependencies, find_cache_revision
from scheduler.engine.framework.extender import PreemptionCandidate, RemainingCandidates
from scheduler.engine.framework.extenders import Extenders
from scheduler.engine.framework.interface import Filter, PreFilterExtensions
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.plugin_results import filter_status
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, error
from scheduler.engine.objects.pod import PodInfo


class FilterDryRun:
    """A runner of one attempt's filters on copies of nodes to which pods were added or from which pods were removed.

    Implements `interface.DryRun`, which preemption uses.
    """

    def __init__(
        self, profile: Profile, skipped: Set[str], extenders: Extenders, nominator: Nominator, notes: list[Reason]
    ) -> None:
        """Prepare the filters and PreFilter plugins of the profile, except those in `skipped`.

        `skipped` names the plugins that returned Skip at PreFilter. `run_extenders` appends failures of extenders to
        `notes`, the list of problems that the record of the attempt shows.
        """
        self._extenders = extenders
        self._nominator = nominator
        self._notes = notes
        self._filters = [plugin for plugin in profile.filter if plugin.name not in skipped]
        self._dependencies = [PluginDependencies.from_plugin(plugin, "filter") for plugin in self._filters]
        pre_filters = [plugin for plugin in profile.pre_filter if plugin.name not in skipped]
        self._extensions = [plugin for plugin in pre_filters if isinstance(plugin, PreFilterExtensions)]

    @property
    def can_batch_nodes(self) -> bool:
        return not self._extensions

    def dependencies(self, pod: PodInfo, nodes: NodeColumns) -> tuple[Hashable, Set[int]] | None:
        if any(d.depends_on is DependsOn.ANYTHING or d.state_data is not None for d in self._dependencies):
            return None
        other_nodes = any(d.depends_on is DependsOn.NODES for d in self._dependencies)
        names, revision = tuple(d.name for d in self._dependencies), find_cache_revision(self._filters)
        key = (names, revision, nodes.node_generation if other_nodes else None)
        return key, self.nominated_pods(pod, nodes).keys()

    def find_first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        rejected = {
            slot: next(verdict for verdict in by_plugin.values() if verdict.code is not Code.SUCCESS)
            for slot, by_plugin in self.filter_with_nominated(state, pod, nodes).items()
        }
        return self._filter_in_order(state, pod, nodes).with_verdicts(rejected, nodes.slots)

    def find_nominated_node(self, pod: PodInfo) -> str:
        return self._nominator.find_node(pod)

    def nominated_pods(self, pod: PodInfo, nodes: NodeColumns) -> dict[int, list[PodInfo]]:
        """Return, by node slot (row index in `nodes`), the other pods that are nominated for the node.

        Only pods with the same or a higher priority count; a node without such pods is absent.
        """
        by_slot = {}
        nominated = self._nominator.nodes()
        for name in nominated if len(nominated) < nodes.slots else nodes.index:
            slot = nodes.index.get(name)
            if slot is not None and nodes.live[slot] and (pods := self._nominator.pods_not_below(pod, name)):
                by_slot[slot] = pods
        return dict(sorted(by_slot.items()))

    def filter_with_nominated(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns
    ) -> dict[int, dict[str, Verdict]]:
        """Filter each node that has nominated pods as if these pods ran there; return the verdicts on rejected nodes.

        Only nominated pods with the same or a higher priority count. The result maps node slot to filter name to
        verdict.
        """
        nominated = self.nominated_pods(pod, nodes)
        groups = [list(nominated)] if self.can_batch_nodes else [[slot] for slot in nominated]
        rejections: dict[int, dict[str, Verdict]] = {}
        for group in groups:
            if group:
                rejections |= self._filter_with_nominated(
                    state.clone(), pod, nodes, {slot: nominated[slot] for slot in group}
                )
        return rejections

    def _filter_with_nominated(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, nominated: Mapping[int, Sequence[PodInfo]]
    ) -> dict[int, dict[str, Verdict]]:
        """Filter copies of these nodes with their nominated pods added; return the verdicts on rejected nodes.

        `nominated` maps node slot to pods. The result maps node slot to filter name to verdict. Changes `state`, which
        must be a clone.
        """
        copy = RowCopy(nodes, list(nominated))
        slots = {slot: copy.index[nodes.names[slot]] for slot in nominated}
        self.add_pods(state, pod, [(there, other) for slot, there in slots.items() for other in nominated[slot]], copy)
        rejections: dict[int, dict[str, Verdict]] = {slot: {} for slot in nominated}
        for plugin in self._filters:
            verdicts = _run_filter(plugin, state, pod, copy)
            for slot, there in slots.items():
                rejections[slot][plugin.name] = verdicts.verdict_at(there)
        return {slot: by for slot, by in rejections.items() if any(v.code is not Code.SUCCESS for v in by.values())}

    def _filter_in_order(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        table, ids = [SUCCESS], np.zeros(nodes.slots, np.intp)
        for plugin in self._filters:
            verdicts = _run_filter(plugin, state, pod, nodes)
            if verdicts.ids is None:
                continue
            newly = (ids == 0) & (verdicts.codes(nodes.slots) != 0)
            ids[newly] = len(table) + verdicts.ids[newly].astype(np.intp)
            table += [filter_status(plugin.name, verdict) for verdict in verdicts.table]
            if ids.all():
                break
        return Verdicts(tuple(table), ids)

    def add_pods(self, state: CycleState, pod: PodInfo, added: Sequence[tuple[int, PodInfo]], nodes: RowCopy) -> None:
        for some in self._steps(added):
            nodes.add_pods(some)
            for (slot, p), plugin in product(some, self._extensions):
                plugin.add_pod(state, pod, p, nodes, slot)

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: Sequence[tuple[int, PodInfo]], nodes: RowCopy
    ) -> None:
        for some in self._steps(removed):
            nodes.remove_pods(some)
            for (slot, p), plugin in product(some, self._extensions):
                plugin.remove_pod(state, pod, p, nodes, slot)

    def _steps(self, pods: Sequence[tuple[int, PodInfo]]) -> Iterable[Sequence[tuple[int, PodInfo]]]:
        """Split pairs of node slot (row index) and pod into groups to apply together.

        If plugins must update their state for each pod, each group is a single pair.
        """
        return [pods] if self.can_batch_nodes else [[one] for one in pods]

    def run_extenders(
        self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[PreemptionCandidate]
    ) -> RemainingCandidates:
        return self._extenders.run_preempt(pod, nodes, candidates, self._notes)


def _run_filter(plugin: Filter, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
    """Return the filter's verdict on each node of `nodes`, or an error verdict on each node if the plugin raises."""
    try:
        return plugin.filter(state, pod, nodes)
    except (Exception, SystemExit) as e:
        return Verdicts.everywhere(error(str(e)), nodes.slots)
