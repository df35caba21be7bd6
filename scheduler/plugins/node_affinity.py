"""NodeAffinity: nodeSelector, required and preferred node affinity, and the affinity a profile adds to all its pods.

Source: pkg/scheduler/framework/plugins/nodeaffinity v1.36, and k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas.allocation import default_normalize
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, BasePlugin, Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIP, SKIPPED, PreFilterResult, Verdicts, unresolvable
from scheduler.objects import selectors
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem
from scheduler.objects.selector_problems import term_problems
from scheduler.objects.selectors import InvalidSelectorError
from scheduler.objects.types import Node, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, Requirement
from scheduler.objects.types import NodeAffinity as Affinity

ENFORCED = unresolvable(Reason("enforced-node-affinity"))
CONFLICT = unresolvable(Reason("affinity-conflict"))


class NodeAffinityArgs(Args, frozen=True):
    """`addedAffinity` holds for every pod of the profile, besides its own."""

    added_affinity: Affinity | None = None

    def problems(self) -> Iterator[Problem]:
        """Every term must parse, but for preferred ones without weight."""
        if self.added_affinity is None:
            return
        required = self.added_affinity.required
        for i, term in enumerate(required.node_selector_terms or () if required else ()):
            path = f"addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
            yield from term_problems(term, path)
        for i, preferred in enumerate(self.added_affinity.preferred or ()):
            if _counts(preferred):
                path = f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
                yield from term_problems(preferred.preference, path)


class NodeAffinity(BasePlugin):
    """Each requirement is asked once of each distinct value of its label."""

    name = "NodeAffinity"
    follows = Follows.NODE
    args_type = NodeAffinityArgs

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """A node that matches now and did not before."""
        yield ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node)

    def settled_by_spec(self, pod: PodInfo) -> bool:
        """What is required and preferred stands there."""
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Terms that name nodes (metadata.name In) narrow the search to them, where every term does."""
        required, added = _required(pod), self._added_required
        if required is None and not pod.pod.spec.node_selector and added is None:
            return SKIPPED
        names = _named(required)
        if names is None:
            return PreFilterResult()
        return PreFilterResult(SUCCESS, names) if names else PreFilterResult(CONFLICT)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """The profile's affinity first, then the pod's."""
        ids = np.zeros(nodes.slots, np.uint8)
        ids[~required_matches(pod, nodes)] = 2
        if self._added_required is not None:
            ids[~_any_term(self._added_required.node_selector_terms or (), nodes)] = 1
        mismatch = unresolvable(Reason("node-affinity", {"wants": _wants(pod)}))
        return Verdicts((SUCCESS, ENFORCED, mismatch), ids) if ids.any() else Verdicts()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Nothing preferred, no points."""
        affinity = pod.pod.spec.affinity
        own = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
        return SUCCESS if own or self._added_preferred else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """The weights of the preferred terms that match."""
        affinity = pod.pod.spec.affinity
        own = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
        total = np.zeros(nodes.slots, np.int64)
        for preferred in own or ():
            if _counts(preferred):
                total += preferred.weight * _term(selectors.validated(preferred.preference), nodes)
        for preferred in self._added_preferred:
            if _counts(preferred):
                total += preferred.weight * _valid_term(preferred.preference, nodes)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """The most is best."""
        return default_normalize(raw, feasible)

    def _after_node(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        added = self._added_required
        if added is not None and not _any_term_of(added.node_selector_terms or (), new):
            return False
        return _accepts(pod, new) and (old is None or not _accepts(pod, old))

    @property
    def _added_required(self) -> NodeSelector | None:
        added: Affinity | None = self.args.added_affinity
        return added.required if added else None

    @property
    def _added_preferred(self) -> Iterable[PreferredSchedulingTerm]:
        added: Affinity | None = self.args.added_affinity
        return (added.preferred if added else None) or ()


def required_matches(pod: PodInfo, nodes: NodeColumns) -> Mask:
    """Which nodes the pod's nodeSelector and required node affinity accept."""
    matches = np.ones(nodes.slots, np.bool_)
    for key, value in (pod.pod.spec.node_selector or {}).items():
        matches &= nodes.label(key).where(nodes.slots, lambda v, value=value: v == value)  # type: ignore[misc]
    required = _required(pod)
    if required is not None:
        matches &= _any_term(required.node_selector_terms or (), nodes)
    return matches


def _required(pod: PodInfo) -> NodeSelector | None:
    affinity = pod.pod.spec.affinity
    return affinity.node_affinity.required if affinity and affinity.node_affinity else None


def _named(required: NodeSelector | None) -> frozenset[str] | None:
    """The nodes that the terms name; None when a term names none, so that every node must be looked at."""
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


def _counts(preferred: PreferredSchedulingTerm) -> bool:
    return preferred.weight != 0 and not selectors.empty(preferred.preference)


def _any_term(terms: Iterable[NodeSelectorTerm], nodes: NodeColumns) -> Mask:
    matches = np.zeros(nodes.slots, np.bool_)
    for term in terms:
        matches |= _valid_term(term, nodes)
    return matches


def _valid_term(term: NodeSelectorTerm, nodes: NodeColumns) -> Mask:
    """A term that is empty or malformed matches nothing; the others still count."""
    nothing = np.zeros(nodes.slots, np.bool_)
    if selectors.empty(term):
        return nothing
    try:
        return _term(selectors.validated(term), nodes)
    except InvalidSelectorError:
        return nothing


def _term(term: NodeSelectorTerm, nodes: NodeColumns) -> Mask:
    matches = np.ones(nodes.slots, np.bool_)
    for r in term.match_expressions or ():
        matches &= nodes.label(r.key).where(
            nodes.slots,
            lambda v, r=r: selectors.requirement_matches(r, v),  # type: ignore[misc]
        )
    for f in term.match_fields or ():
        matches &= _names(f, nodes)
    return matches


def _names(field: Requirement, nodes: NodeColumns) -> Mask:
    named = np.zeros(nodes.slots, np.bool_)
    for name in field.values or ():
        slot = nodes.index.get(name)
        if slot is not None:
            named[slot] = True
    return named if field.operator == "In" else ~named


def _wants(pod: PodInfo) -> str:
    """What the pod asks of a node's labels, as people write it."""
    wanted = [f"{k}={v}" for k, v in (pod.pod.spec.node_selector or {}).items()]
    required = _required(pod)
    terms = [
        " and ".join(selectors.describe(r) for r in [*(t.match_expressions or ()), *(t.match_fields or ())])
        for t in (required.node_selector_terms or () if required else ())
    ]
    if terms:
        wanted.append(" or ".join(terms))
    return ", ".join(wanted) or "its node affinity (which matches nothing)"


def _accepts(pod: PodInfo, node: Node) -> bool:
    """`required_matches` for a single node. InvalidSelectorError where no term matches and one is malformed."""
    labels, required = node.metadata.labels or {}, _required(pod)
    if any(labels.get(key) != value for key, value in (pod.pod.spec.node_selector or {}).items()):
        return False
    return required is None or _any_term_of(required.node_selector_terms or (), node)


def _any_term_of(terms: Iterable[NodeSelectorTerm], node: Node) -> bool:
    labels, malformed = node.metadata.labels or {}, None
    for term in terms:
        try:
            selectors.validated(term)
        except InvalidSelectorError as e:
            malformed = e
            continue
        by_label = all(selectors.requirement_matches(r, labels.get(r.key)) for r in term.match_expressions or ())
        by_name = all(selectors.requirement_matches(f, node.metadata.name) for f in term.match_fields or ())
        if not selectors.empty(term) and by_label and by_name:
            return True
    if malformed is not None:
        raise malformed
    return False
