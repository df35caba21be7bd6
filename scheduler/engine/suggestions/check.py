"""The check of a suggestion: PreFilter and Filter of the changed pod on one node of the snapshot.

Owns: which plugins run, and on how many nodes. Does not own: the change. Nothing is cached, because a changed spec
comes once, and would displace the specs of real pods from the equivalence cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np

from herodotus_record.model import Code, PluginVerdict, Reason, Verdict
from scheduler.engine.columns import NodeColumns, RowCopy, RowSubset
from scheduler.engine.framework.dry_run import FilterDryRun
from scheduler.engine.framework.equivalence_cache import PluginDependencies
from scheduler.engine.framework.interface import Filter
from scheduler.engine.framework.per_node import PartialFilter
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.pre_filtering import PreFilterOutcome, run_plugin_pre_filter
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import Trace
from scheduler.engine.framework.verdicts import error
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import PodSpec
from scheduler.engine.plugins.default_preemption import DefaultPreemption
from scheduler.engine.plugins.default_preemption.victims import PreemptionAttempt


def change_spec(pod: PodInfo, spec: PodSpec) -> PodInfo:
    """Return the pod with another spec."""
    return PodInfo(msgspec.structs.replace(pod.pod, spec=spec))


@dataclass(frozen=True)
class CheckedSlots:
    """The verdicts that reject a pod on some nodes, by node slot; the list of a feasible node is empty.

    No change to the node or the pod lifts the verdicts on the slots in `unanswerable`: a PreFilter plugin rejects the
    pod, a plugin fails, or nominated pods take the room. `skipped` names the plugins that had nothing to check.
    """

    rejections: dict[int, list[PluginVerdict]]
    unanswerable: frozenset[int] = frozenset()
    skipped: frozenset[str] = frozenset()


def find_rejections(framework: Framework, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason] | None:
    """Return every filter's reasons against the node in this slot, or None if the pod fits there.

    The list is empty if the pod does not fit for a reason that no change to this node or pod answers.
    """
    checked = check_slots(framework, pod, nodes, [slot])
    rejections = checked.rejections[slot]
    if not rejections:
        return None
    return [] if slot in checked.unanswerable else [reason for each in rejections for reason in each.verdict.reasons]


def fits_without(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, slot: int, removed: Mapping[int, Sequence[PodInfo]]
) -> bool:
    """Return whether the pod passes all filters on the node in this slot after pods have left it, and other nodes.

    `removed` has the pods that leave, by the slot of their node.
    """
    try:
        attempt = _pre_filter(framework, pod, nodes, slot)
        if attempt is None:
            return False
        state, dry_run, copy = attempt.state, attempt.dry_run, RowCopy(nodes, sorted({slot, *removed}))
        row, rows = copy.index[nodes.names[slot]], {each: copy.index[nodes.names[each]] for each in removed}
        leaving = [(rows[each], other) for each, pods in removed.items() for other in pods]
        dry_run.remove_pods(state, pod, leaving, copy)
        return dry_run.find_first_failures(state, pod, copy).verdict_at(row).code is Code.SUCCESS
    except (Exception, SystemExit):  # a plugin failed: nothing is known about this node
        return False


def find_victims(framework: Framework, pod: PodInfo, nodes: NodeColumns, slot: int) -> Sequence[PodInfo]:
    """Return the pods that preemption would evict from the node in this slot; () if it does not make the pod fit."""
    plugins = (plugin for plugin in framework.profile.post_filter if isinstance(plugin, DefaultPreemption))
    preemption = next(plugins, None)
    try:
        attempt = None if preemption is None else _pre_filter(framework, pod, nodes, slot)
        return () if preemption is None or attempt is None else preemption.find_victims(attempt, slot)
    except (Exception, SystemExit):  # a plugin failed: nothing is known about this node
        return ()


def _pre_filter(framework: Framework, pod: PodInfo, nodes: NodeColumns, slot: int) -> PreemptionAttempt | None:
    """Run PreFilter, and return what a dry run of the filters needs; None if the pod may not use the node."""
    state, trace, outcome = CycleState(), Trace.start(nodes), PreFilterOutcome()
    for plugin in framework.profile.pre_filter:
        if not outcome.add(plugin.name, run_plugin_pre_filter(plugin, state, pod, nodes), trace):
            break
    if outcome.rejection is not None or (outcome.names is not None and nodes.names[slot] not in outcome.names):
        return None
    dry_run = FilterDryRun(framework.profile, outcome.skip, framework.extenders, framework.nominator, trace.notes)
    return PreemptionAttempt(state, pod, nodes, dry_run)


def check_slots(
    framework: Framework,
    pod: PodInfo,
    nodes: NodeColumns,
    slots: Sequence[int],
    includes: Callable[[str], bool] = lambda _plugin: True,
) -> CheckedSlots:
    """Return the verdicts of all filters on the nodes in these slots, also of those after the first that rejects.

    `includes` selects plugins by name; the others are left out.
    """
    state, trace, outcome = CycleState(), Trace.start(nodes), PreFilterOutcome()
    try:
        for plugin in framework.profile.pre_filter:
            if not includes(plugin.name):
                continue
            if not outcome.add(plugin.name, run_plugin_pre_filter(plugin, state, pod, nodes), trace):
                break
        if outcome.rejection is not None:
            return CheckedSlots({slot: [outcome.rejection] for slot in slots}, frozenset(slots))
        left = [slot for slot in slots if outcome.names is None or nodes.names[slot] in outcome.names]
        rejections: dict[int, list[PluginVerdict]] = {slot: [] for slot in left}
        for filter_ in framework.profile.filter:
            if includes(filter_.name) and filter_.name not in outcome.skip and left:
                for slot, verdict in zip(left, _run_filter(filter_, state, pod, nodes, left), strict=True):
                    if verdict.code is not Code.SUCCESS:
                        rejections[slot].append(PluginVerdict(filter_.name, verdict))
    except (Exception, SystemExit) as e:  # a plugin failed: nothing is known about these nodes
        return CheckedSlots({slot: [PluginVerdict("", error(str(e)))] for slot in slots}, frozenset(slots))
    excluded = set(slots).difference(left)
    rejections |= {slot: [_exclude(outcome.restricted_by)] for slot in excluded}
    if not {nodes.names[slot] for slot in slots}.isdisjoint(framework.nominator.nodes()):
        dry_run = FilterDryRun(framework.profile, outcome.skip, framework.extenders, framework.nominator, trace.notes)
        for slot, verdicts in dry_run.filter_with_nominated(state, pod, nodes).items():
            if slot in rejections and not rejections[slot]:
                rejections[slot] = [
                    PluginVerdict(name, v) for name, v in verdicts.items() if v.code is not Code.SUCCESS
                ]
                excluded.add(slot)
    return CheckedSlots(rejections, frozenset(excluded), frozenset(outcome.skip))


def _exclude(plugins: Sequence[str]) -> PluginVerdict:
    """Return the verdict on a node that is not among those to which PreFilter plugins limit the pod."""
    reason = Reason("narrowed", {"plugins": f"[{' '.join(plugins)}]"})
    return PluginVerdict(plugins[-1], Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))


def _run_filter(
    plugin: Filter, state: CycleState, pod: PodInfo, nodes: NodeColumns, slots: Sequence[int]
) -> list[Verdict]:
    """Return a filter's verdicts on some nodes, from a view of these nodes where the filter reads no other."""
    partial, depends_on = _find_dependencies(plugin)  # type: ignore[arg-type]  # plugins hash by identity
    if partial is not None:
        only = np.zeros(nodes.slots, np.bool_)
        only[slots] = True
        verdicts = partial.filter_remaining(state, pod, nodes, only)
    elif depends_on is DependsOn.ANYTHING:
        verdicts = plugin.filter(state, pod, nodes)
    else:
        verdicts = plugin.filter(state, pod, RowSubset(nodes, np.array(slots, np.intp)))
        return [verdicts.verdict_at(row) for row in range(len(slots))]
    return [verdicts.verdict_at(slot) for slot in slots]


@lru_cache(maxsize=256)  # checking a protocol takes 50 µs
def _find_dependencies(plugin: Filter) -> tuple[PartialFilter | None, DependsOn]:
    """Return the plugin if it filters only remaining nodes, else None, and what its filter depends on."""
    partial = plugin if isinstance(plugin, PartialFilter) else None
    return partial, PluginDependencies.from_plugin(plugin, "filter").depends_on
