"""Whether a pod fits on a new node of each group, by the real filters on template nodes.

Owns: which template nodes are tried together, and the verdict on a group. Does not own: the filters
(`suggestions.check`), the changes that would help (`suggestions.search`), template nodes (`templates`).

Template nodes are added together for the filters that read one node alone. For topology spreading and affinity to
pods each is added alone, as an autoscaler adds one node after the other.

Invariant: a verdict depends only on the group, the pod and the cluster without any other template node.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from herodotus_answers.node_groups import (
    DOES_NOT_FIT,
    FITS,
    FITS_AT_LIMIT,
    SHAPE_UNKNOWN,
    NodeGroupRejection,
    NodeGroupVerdict,
    Verdict,
)
from herodotus_answers.suggestions import format_change
from herodotus_record import reasons
from herodotus_record.model import PluginVerdict, Suggestion
from scheduler.engine.framework.pre_filtering import find_unsupported_feature
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.nodegroups.karpenter import list_possible_shapes
from scheduler.engine.nodegroups.limits import find_limit
from scheduler.engine.nodegroups.shapes import HOSTNAME, FoundGroup, NodeShape
from scheduler.engine.nodegroups.templates import TemplateNode, TemplateNodes
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import HARD_EFFECTS, is_tolerated
from scheduler.engine.suggestions.changes import has_change
from scheduler.engine.suggestions.check import check_slots
from scheduler.engine.suggestions.search import find_smallest_change

_SPREAD, _AFFINITY = "PodTopologySpread", "InterPodAffinity"
CHANGES_S: Final = 0.1  # for the search for changes; the groups that are left have none in the answer
_ALWAYS_DECIDE: Final = frozenset({"TaintToleration", "NodeUnschedulable", "NodeName"})
_DECIDE_BY_ZONE: Final = frozenset({"VolumeBinding", "VolumeZone"})
_AMOUNTS_UNKNOWN: Final = "the amounts of its nodes are not known"
_NO_SHAPE: Final = "nothing is known of its nodes"
_OTHERS_POSSIBLE: Final = "its requirements allow nodes that the NodePool has not had"


@dataclass
class _Tried:
    """A template node with the verdicts that reject the pod there, and a change that helps."""

    template: TemplateNode
    rejections: list[PluginVerdict]
    change: Suggestion | None = None

    @property
    def decided(self) -> list[PluginVerdict]:
        """The rejections that are certain although amounts or labels of the node may be unknown."""
        shape = self.template.shape
        return [each for each in self.rejections if shape.allocatable is not None or _decides(each.plugin, shape)]


class GroupEvaluator:
    """Evaluates pods against the groups of one cluster."""

    def __init__(self, templates: TemplateNodes, groups: Sequence[FoundGroup]) -> None:
        """Build the template nodes of those shapes of `groups` whose amounts are known."""
        self._templates, self._groups = templates, groups
        self._known = {
            group.name: [templates.build(group, shape) for shape in group.shapes if shape.allocatable is not None]
            for group in groups
        }

    def known_templates(self, group: FoundGroup) -> list[TemplateNode]:
        """Return the template nodes of those shapes of the group whose amounts are known."""
        return self._known[group.name]

    def evaluate(self, framework: Framework, pod: PodInfo) -> list[NodeGroupVerdict]:
        """Return the verdict of each group on the pod, in the order of the groups."""
        tried: dict[str, list[_Tried]] = defaultdict(list)
        for each in self._try(framework, pod, list(self._list_templates(pod))):
            tried[each.template.group.name].append(each)
        return [_judge(group, tried[group.name]) for group in self._groups]

    def _list_templates(self, pod: PodInfo) -> Iterator[TemplateNode]:
        for group in self._groups:
            yield from self._known[group.name]
            shapes = [shape for shape in group.shapes if shape.allocatable is None]
            if group.requirements is not None:
                shapes += list_possible_shapes(group, pod)
            for shape in shapes:
                yield self._templates.build(group, shape, pod)

    def _try(self, framework: Framework, pod: PodInfo, templates: list[TemplateNode]) -> list[_Tried]:
        """Return each template node with the verdicts that reject the pod there.

        In each group without a fitting node, one of them may also have a change of the pod that helps.
        """
        refused = find_unsupported_feature(pod)
        if refused is not None:
            return [_Tried(template, [refused]) for template in templates]
        alone = self._find_dependent(framework, pod)
        added = templates if alone else [template.compact for template in templates]
        with self._templates.added(added) as slots:
            checked = check_slots(framework, pod, self._templates.nodes, slots, lambda name: name not in alone)
        tried = [_Tried(template, checked.rejections[slot]) for template, slot in zip(templates, slots, strict=True)]
        if alone:
            self._add_dependent(framework, pod, tried, alone)
        order = {plugin.name: number for number, plugin in enumerate(framework.profile.filter)}
        for each in tried:
            each.rejections.sort(key=lambda verdict: order.get(verdict.plugin, -1))
        _search_changes(framework, pod, self._templates, tried, is_alone=bool(alone))
        return tried

    def _find_dependent(self, framework: Framework, pod: PodInfo) -> frozenset[str]:
        """Return the names of filters whose verdict on a template node may change if other such nodes are present.

        These are topology spreading, which counts nodes, and affinity, which counts the DaemonSets' pods on them.
        """
        nodes, dependent = self._templates.nodes, set[str]()
        if _SPREAD not in check_slots(framework, pod, nodes, [], _SPREAD.__eq__).skipped:
            dependent.update(plugin.name for plugin in framework.profile.filter if plugin.name == _SPREAD)
        if self._templates.daemons.affect_affinity(pod):
            dependent.add(_AFFINITY)
        return frozenset(dependent)

    def _add_dependent(
        self, framework: Framework, pod: PodInfo, tried: Sequence[_Tried], plugins: frozenset[str]
    ) -> None:
        """Add the verdicts of the filters `plugins`, for which each template node is added to the columns alone.

        Nodes that these filters cannot distinguish are tried once.
        """
        nodes, find_key = self._templates.nodes, _KeyFinder(pod, plugins)
        alike: dict[object, list[_Tried]] = defaultdict(list)
        for each in tried:
            alike[find_key(each.template)].append(each)
        for members in alike.values():
            with self._templates.added([members[0].template]) as (slot,):
                rejections = check_slots(framework, pod, nodes, [slot], plugins.__contains__).rejections[slot]
            for each in members:
                each.rejections += rejections


class _KeyFinder:
    """Finds what the dependent filters read of a template node: nodes with equal keys have equal verdicts."""

    def __init__(self, pod: PodInfo, plugins: frozenset[str]) -> None:
        """Determine which labels of a template node the filters `plugins` can read for this pod.

        All labels count if affinity is among the filters, or if the pod has no spread constraints of its own.
        """
        spec = pod.pod.spec
        constraints, of_node = spec.topology_spread_constraints or (), spec.affinity and spec.affinity.node_affinity
        terms = (of_node.required.node_selector_terms if of_node and of_node.required else None) or ()
        selected = [requirement.key for term in terms for requirement in term.match_expressions or ()]
        keys = {constraint.topology_key for constraint in constraints}.union(spec.node_selector or (), selected)
        self._tolerations = spec.tolerations or ()
        self._keys = sorted(keys - {HOSTNAME}) if constraints and _AFFINITY not in plugins else None

    def __call__(self, template: TemplateNode) -> object:
        labels = template.node.metadata.labels or {}
        keys = sorted(labels.keys() - {HOSTNAME}) if self._keys is None else self._keys
        taints = (taint for taint in template.node.spec.taints or () if taint.effect in HARD_EFFECTS)
        is_selectable = all(is_tolerated(taint, self._tolerations) for taint in taints)
        first_pods = tuple((pod.namespace, pod.name) for pod in template.pods)
        return tuple((key, labels.get(key)) for key in keys), is_selectable, first_pods


def _search_changes(
    framework: Framework, pod: PodInfo, templates: TemplateNodes, tried: Sequence[_Tried], *, is_alone: bool
) -> None:
    """In each group without a fitting node, set `change` of the first template node for which a change helps.

    The search ends after `CHANGES_S` seconds. `is_alone` says whether filters read the pods that the node starts with.
    """
    with_amounts = [each for each in tried if each.template.shape.allocatable is not None]
    done = {each.template.group.name for each in with_amounts if not each.rejections}
    end = time.perf_counter() + CHANGES_S
    for each in with_amounts:
        group = each.template.group.name
        if group in done or time.perf_counter() >= end:
            continue
        rejections = [reason for verdict in each.rejections for reason in verdict.verdict.reasons]
        if not all(map(has_change, rejections)):
            continue
        with templates.added([each.template if is_alone else each.template.compact]) as (slot,):
            each.change = find_smallest_change(framework, pod, templates.nodes, slot, rejections)
        if each.change is not None:
            done.add(group)


def _decides(plugin: str, shape: NodeShape) -> bool:
    """Return whether the filter's rejection of a node whose amounts are not known is certain."""
    if plugin == "NodeAffinity":
        return not shape.has_unknown_labels
    return plugin in _ALWAYS_DECIDE or (plugin in _DECIDE_BY_ZONE and bool(shape.zone))


def _judge(group: FoundGroup, tried: Sequence[_Tried]) -> NodeGroupVerdict:
    """Return the group's verdict on a pod; `tried` has the group's template nodes with their rejections."""
    with_amounts = [each for each in tried if each.template.shape.allocatable is not None]
    fitting = [each for each in with_amounts if not each.rejections]
    if fitting:
        limits = [find_limit(group, each.template.shape.allocatable) for each in fitting]
        at_limit = limits[0] if all(limits) else ""
        verdict = _state(group, FITS_AT_LIMIT if at_limit else FITS, at_limit)
        return {**verdict, "zones": _list_zones(fitting)}
    at_limit = find_limit(group)
    if not tried:
        return {**_state(group, SHAPE_UNKNOWN, at_limit), "unknown": _NO_SHAPE}
    undecided = [each for each in tried if not each.decided]
    if undecided:
        return {
            **_state(group, SHAPE_UNKNOWN, at_limit),
            "zones": _list_zones(undecided),
            "rejections": _combine(with_amounts),
            "unknown": _OTHERS_POSSIBLE if with_amounts else _AMOUNTS_UNKNOWN,
        }
    change = next((each.change for each in tried if each.change is not None), None)
    return {
        **_state(group, DOES_NOT_FIT, at_limit),
        "rejections": _combine(with_amounts or tried),
        "change": "" if change is None else " and ".join(format_change(change, each) for each in change.changes),
    }


def _state(group: FoundGroup, verdict: Verdict, at_limit: str) -> NodeGroupVerdict:
    """Return a group's verdict with empty zones, rejections, change and reason of uncertainty."""
    return {
        "group": group.name,
        "verdict": verdict,
        "zones": [],
        "atLimit": at_limit,
        "rejections": [],
        "change": "",
        "unknown": "",
    }


def _list_zones(tried: Iterable[_Tried]) -> list[str]:
    return sorted({each.template.shape.zone for each in tried if each.template.shape.zone})


def _combine(tried: Sequence[_Tried]) -> list[NodeGroupRejection]:
    """Return the filters that reject the pod, each with its reasons and zones on all template nodes.

    Only certain rejections count (`_Tried.decided`). Filters are in the order in which they first occur.
    """
    rejections: dict[str, NodeGroupRejection] = {}
    for each in tried:
        for verdict in each.decided:
            found: NodeGroupRejection = {"plugin": verdict.plugin, "reasons": [], "zones": []}
            rejection = rejections.setdefault(verdict.plugin, found)
            texts = map(reasons.format_reason, verdict.verdict.reasons)
            rejection["reasons"] += [text for text in texts if text not in rejection["reasons"]]
            zone = each.template.shape.zone
            rejection["zones"] += [zone] if zone and zone not in rejection["zones"] else []
    return list(rejections.values())
