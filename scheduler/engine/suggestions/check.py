"""The check of a suggestion: PreFilter and Filter of the changed pod on one node of the snapshot.

Owns: which plugins run, and on how many nodes. Does not own: the change. Nothing is cached, because a changed spec
comes once, and would displace the specs of real pods from the equivalence cache.
"""

from __future__ import annotations

import msgspec
import numpy as np

from herodotus_record.model import Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns, RowSubset
from scheduler.engine.framework.dry_run import FilterDryRun
from scheduler.engine.framework.equivalence_cache import PluginDependencies
from scheduler.engine.framework.interface import Filter
from scheduler.engine.framework.per_node import PartialFilter
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.pre_filtering import PreFilterOutcome, run_plugin_pre_filter
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import PodSpec


def change_spec(pod: PodInfo, spec: PodSpec) -> PodInfo:
    """Return the pod with another spec."""
    return PodInfo(msgspec.structs.replace(pod.pod, spec=spec))


def find_rejections(framework: Framework, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason] | None:
    """Return every filter's reasons against the node in this slot, or None if the pod fits there.

    The list is empty if the pod does not fit for a reason that no change to this node or pod answers: a PreFilter
    plugin rejects the pod, a filter fails, or nominated pods take the room.
    """
    state, trace, outcome = CycleState(), Trace.start(nodes), PreFilterOutcome()
    try:
        for plugin in framework.profile.pre_filter:
            if not outcome.add(plugin.name, run_plugin_pre_filter(plugin, state, pod, nodes), trace):
                break
        if outcome.rejection is not None or (outcome.names is not None and nodes.names[slot] not in outcome.names):
            return []
        found, is_rejected = list[Reason](), False
        for filter_ in framework.profile.filter:
            if filter_.name not in outcome.skip:
                verdict = _filter_one(filter_, state, pod, nodes, slot)
                is_rejected = is_rejected or verdict.code is not Code.SUCCESS
                found += verdict.reasons if verdict.code is not Code.SUCCESS else ()
    except (Exception, SystemExit):  # a plugin failed: nothing is known about this node
        return []
    if is_rejected:
        return found
    if framework.nominator.nodes():
        dry_run = FilterDryRun(framework.profile, outcome.skip, framework.extenders, framework.nominator, trace.notes)
        if slot in dry_run.filter_with_nominated(state, pod, nodes):
            return []
    return None


def _filter_one(plugin: Filter, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> Verdict:
    """Return a filter's verdict on one node, from a view of that node where the filter reads no other."""
    if isinstance(plugin, PartialFilter):
        only = np.zeros(nodes.slots, np.bool_)
        only[slot] = True
        return plugin.filter_remaining(state, pod, nodes, only).verdict_at(slot)
    if PluginDependencies.from_plugin(plugin, "filter").depends_on is DependsOn.ANYTHING:
        return plugin.filter(state, pod, nodes).verdict_at(slot)
    return plugin.filter(state, pod, RowSubset(nodes, np.array([slot], np.intp))).verdict_at(0)
