"""NodeAffinity: nodeSelector, required and preferred node affinity, and the affinity a profile adds to all its pods.

Source: pkg/scheduler/framework/plugins/nodeaffinity v1.36, and k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns, match_node_requirement
from scheduler.engine.formulas.allocation import default_normalize
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import SKIP, SKIPPED, PreFilterResult, Verdicts, error, unresolvable
from scheduler.engine.objects import selectors
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, aggregate
from scheduler.engine.objects.selectors import InvalidSelectorError, find_term_problems, is_valid
from scheduler.engine.objects.types import Node, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, Requirement
from scheduler.engine.objects.types import NodeAffinity as Affinity

ENFORCED = unresolvable(Reason("enforced-node-affinity"))
CONFLICT = unresolvable(Reason("affinity-conflict"))


class NodeAffinityArgs(Args, frozen=True):
    """Arguments of NodeAffinity: `added_affinity` applies to every pod of the profile, besides the pod's own."""

    added_affinity: Affinity | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for each invalid requirement in `addedAffinity`, except in preferred terms with weight 0."""
        if self.added_affinity is None:
            return
        required = self.added_affinity.required
        for i, term in enumerate(required.node_selector_terms or () if required else ()):
            path = f"addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
            yield from find_term_problems(term, path)
        path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        yield from _preference_problems(self.added_affinity.preferred, path)


class NodeAffinity(BasePlugin):
    """The plugin that filters and scores by nodeSelector and node affinity.

    A requirement costs one operation on its label's column, so that pods with thousands of them are decided in time.
    """

    name = "NodeAffinity"
    reads = frozenset({PluginInput.NODE})
    depends_on = DependsOn.NODE
    args_type = NodeAffinityArgs

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self._is_schedulable_after_node_change
        )

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Limit the cycle to the nodes that the pod's required terms select by metadata.name, if every term does.

        Skip the filter if neither the pod nor the profile restricts nodes. Reject the pod if no node name satisfies a
        term.
        """
        required, added = _required(pod), self._added_required
        if required is None and not pod.pod.spec.node_selector and added is None:
            return SKIPPED
        names = _list_named_nodes(required)
        if names is None:
            return PreFilterResult()
        return PreFilterResult(SUCCESS, names) if names else PreFilterResult(CONFLICT)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes that the profile's added affinity excludes, then nodes that the pod's own affinity excludes."""
        ids = np.zeros(nodes.slots, np.uint8)
        ids[~match_required_affinity(pod, nodes)] = 2
        if self._added_required is not None:
            ids[~_match_any_term(self._added_required.node_selector_terms or (), nodes)] = 1
        mismatch = unresolvable(Reason("node-affinity", {"wants": _format_requirements(pod)}))
        return Verdicts((SUCCESS, ENFORCED, mismatch), ids) if ids.any() else Verdicts()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Skip Score if there are no preferred terms; return an error if one of the pod's does not parse."""
        try:
            own = _preferred(pod)
        except InvalidSelectorError as e:
            return error(str(e))
        return SUCCESS if own or self._added_preferred else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the sum of the weights of the preferred terms that match the node.

        Raise InvalidSelectorError for an invalid preferred term of the pod.
        """
        total = np.zeros(nodes.slots, np.int64)
        for preferred in (*_preferred(pod), *self._added_preferred):
            if _has_effect(preferred):
                total += preferred.weight * _match_term(preferred.preference, nodes)
        return total

    def explain_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason]:
        """Return the preferred terms that match the node, the heaviest first."""
        node = nodes.nodes[slot]
        terms = [p for p in (*_preferred(pod), *self._added_preferred) if _has_effect(p)]
        matching = [p for p in terms if node is not None and selectors.node_matches_any_term((p.preference,), node)]
        return [
            Reason("preferred-node-affinity", {"wants": _format_term(p.preference), "weight": str(p.weight)})
            for p in sorted(matching, key=lambda p: -p.weight)
        ]

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Scale the scores so that the highest becomes 100."""
        return default_normalize(raw, feasible)

    def _is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        added = self._added_required
        if added is not None and not selectors.node_matches_any_term(added.node_selector_terms or (), new):
            return False
        return _node_accepts(pod, new) and (old is None or not _node_accepts(pod, old))

    @property
    def _added_required(self) -> NodeSelector | None:
        added: Affinity | None = self.args.added_affinity
        return added.required if added else None

    @property
    def _added_preferred(self) -> Iterable[PreferredSchedulingTerm]:
        added: Affinity | None = self.args.added_affinity
        return (added.preferred if added else None) or ()


def match_required_affinity(pod: PodInfo, nodes: NodeColumns) -> Mask:
    """Return a mask of the node slots that match the pod's nodeSelector and required node affinity."""
    matches = np.ones(nodes.slots, np.bool_)
    for key, value in (pod.pod.spec.node_selector or {}).items():
        matches &= nodes.label(key).among(nodes.slots, (value,))
    required = _required(pod)
    if required is not None:
        matches &= _match_any_term(required.node_selector_terms or (), nodes)
    return matches


def _required(pod: PodInfo) -> NodeSelector | None:
    affinity = pod.pod.spec.affinity
    return affinity.node_affinity.required if affinity and affinity.node_affinity else None


def _list_named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the node names that the terms require by metadata.name, or None if a term does not require any."""
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        in_names = [
            set(f.values or ()) for f in term.match_fields or () if f.key == selectors.NAME_FIELD and f.operator == "In"
        ]
        if not in_names:
            return None
        names |= set.intersection(*in_names)
    return frozenset(names)


def _preferred(pod: PodInfo) -> Sequence[PreferredSchedulingTerm]:
    """Return the pod's preferred node affinity terms.

    Raise InvalidSelectorError, with every requirement that does not parse, if there are any.
    """
    affinity = pod.pod.spec.affinity
    preferred = (affinity.node_affinity.preferred if affinity and affinity.node_affinity else None) or ()
    problems = list(_preference_problems(preferred, ""))
    if problems:
        raise InvalidSelectorError(aggregate(problems))
    return preferred


def _preference_problems(terms: Iterable[PreferredSchedulingTerm] | None, path: str) -> Iterator[Problem]:
    """Yield a problem for each requirement that does not parse; skip terms with weight 0.

    `path` is the path of the list of terms, with which the paths of the problems start.
    """
    for i, preferred in enumerate(terms or ()):
        if _has_effect(preferred):
            yield from find_term_problems(preferred.preference, f"{path}[{i}]")


def _has_effect(preferred: PreferredSchedulingTerm) -> bool:
    return preferred.weight != 0 and not selectors.is_empty_term(preferred.preference)


def _match_any_term(terms: Iterable[NodeSelectorTerm], nodes: NodeColumns) -> Mask:
    matches = np.zeros(nodes.slots, np.bool_)
    for term in terms:
        matches |= _match_valid_term(term, nodes)
    return matches


def _match_valid_term(term: NodeSelectorTerm, nodes: NodeColumns) -> Mask:
    """Return a mask of the node slots that a node selector term matches. An empty or malformed term matches none."""
    return (
        np.zeros(nodes.slots, np.bool_)
        if selectors.is_empty_term(term) or not is_valid(term)
        else _match_term(term, nodes)
    )


def _match_term(term: NodeSelectorTerm, nodes: NodeColumns) -> Mask:
    matches = np.ones(nodes.slots, np.bool_)
    for r in term.match_expressions or ():
        matches &= match_node_requirement(nodes.label(r.key), nodes.slots, r)
    for f in term.match_fields or ():
        matches &= _match_field(f, nodes)
    return matches


def _match_field(field: Requirement, nodes: NodeColumns) -> Mask:
    if field.key != selectors.NAME_FIELD:
        return np.full(nodes.slots, selectors.field_matches(field, ""))
    named = np.zeros(nodes.slots, np.bool_)
    for name in field.values or ():
        slot = nodes.index.get(name)
        if slot is not None:
            named[slot] = True
    return named if field.operator == "In" else ~named


def _format_requirements(pod: PodInfo) -> str:
    """Return the pod's nodeSelector and required node affinity as text, for the reason of a rejection.

    If both are empty, the text says that the affinity matches nothing.
    """
    requirements = [f"{k}={v}" for k, v in (pod.pod.spec.node_selector or {}).items()]
    required = _required(pod)
    terms = [_format_term(t) for t in (required.node_selector_terms or () if required else ())]
    if terms:
        requirements.append(" or ".join(terms))
    return ", ".join(requirements) or "its node affinity (which matches nothing)"


def _format_term(term: NodeSelectorTerm) -> str:
    requirements = (*(term.match_expressions or ()), *(term.match_fields or ()))
    return " and ".join(map(selectors.format_requirement, requirements))


def _node_accepts(pod: PodInfo, node: Node) -> bool:
    """Return whether a node matches the pod's nodeSelector and required node affinity.

    Raise InvalidSelectorError if a term is malformed and no other term matches.
    """
    labels, required = node.metadata.labels or {}, _required(pod)
    if any(labels.get(key) != value for key, value in (pod.pod.spec.node_selector or {}).items()):
        return False
    return required is None or selectors.node_matches_any_term(required.node_selector_terms or (), node)
