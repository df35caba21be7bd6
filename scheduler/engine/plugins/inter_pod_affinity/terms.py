"""Affinity terms of the incoming pod matched against running pods, and of running pods against the incoming pod.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import numpy as np

from herodotus_record.lru import Lru
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.pods import Namespaces
from scheduler.engine.columns.tallies import Counts, PodWeights, Tally
from scheduler.engine.framework.interface import Mask
from scheduler.engine.objects import selectors
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_affinity import LabelledPod, PodTerms, Term, Terms
from scheduler.engine.objects.selectors import InvalidSelectorError, SelectorIndex, label_selector_matches
from scheduler.engine.objects.types import LabelSelector, Namespace, Requirement
from scheduler.engine.rules import Rules
from scheduler.engine.rules.version_rules import NAMESPACE_SELECTOR_KEPT

MAX_ENTRIES: Final = 256  # a bound on cached pods, since labels may be unique to each pod
MAX_TERMS: Final = 8192  # of incoming pods, each about a kilobyte; users write them, and a pod may have 8,000
ENTRY_TERMS: Final = MAX_TERMS // MAX_ENTRIES  # an entry counts as at least so many terms
MAX_NAMES: Final = 3  # namespaces of a term that a reason names
MANY_TERMS: Final = 16  # of a running pod: then an index of them is faster
PART: Final = 32  # terms that are matched at once: a few milliseconds at 20,000 pods


class SelectedNamespaces:
    """The namespaces that a term names, and those whose labels match its namespace selector.

    Which these are is found for one namespace at a time: a term may select all but one of a thousand, and a pod may
    have thousands of terms. An instance is valid until a namespace changes.
    """

    def __init__(self, names: frozenset[str], selector: LabelSelector, objects: ClusterObjects) -> None:
        self._names, self._selector, self._objects = names, selector, objects
        self._key = (names, msgspec.msgpack.encode(selector), objects.revision_of(Namespace))

    def __contains__(self, name: object) -> bool:
        if name in self._names:
            return True
        namespace = self._objects.get(Namespace, name) if isinstance(name, str) else None
        return namespace is not None and label_selector_matches(self._selector, namespace.metadata.labels or {})

    def __str__(self) -> str:
        named = f", and {_join_names(self._names)}" if self._names else ""
        absent = "" if self._names or self._selects_any() else ", which no namespace has"
        return f"namespaces with {selectors.format_label_selector(self._selector)}{named}{absent}"

    def _selects_any(self) -> bool:
        """Return whether the selector matches a namespace; True if there are no Namespace objects to compare."""
        known = [namespace.metadata.labels or {} for namespace in self._objects.all(Namespace)]
        return not known or any(label_selector_matches(self._selector, labels) for labels in known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SelectedNamespaces) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class CommonNamespaces:
    """The namespaces that are in each of several collections. Each name is decided once."""

    def __init__(self, collections: Collection[Namespaces]) -> None:
        self._collections = collections
        self._decided: dict[object, bool] = {}

    def decide(self, names: Iterable[str], has_time: Callable[[], bool]) -> bool:
        """Determine in advance which of `names` are in all collections, until `has_time` returns False.

        Returns whether all of them are determined.
        """
        return all(name in self._decided or (has_time() and (name in self, True)[1]) for name in names)

    def __contains__(self, name: object) -> bool:
        decision = self._decided.get(name)
        if decision is None:
            decision = self._decided[name] = all(name in collection for collection in self._collections)
        return decision


def format_namespaces(namespaces: Namespaces) -> str:
    """Return the namespaces of a term as words: `namespace shop`, or `namespaces with team=a`."""
    if not isinstance(namespaces, frozenset):
        return str(namespaces)
    return f"namespace{'s' if len(namespaces) > 1 else ''} {_join_names(namespaces)}"


def _join_names(names: frozenset[str]) -> str:
    shown = sorted(names)
    more = f", … {len(shown) - MAX_NAMES} more" if len(shown) > MAX_NAMES else ""
    return f"{', '.join(shown[:MAX_NAMES])}{more}"


@dataclass(frozen=True, slots=True)
class IncomingTerm:
    """An affinity or anti-affinity term of the incoming pod, with its namespace selector resolved.

    `namespaces` are the namespaces whose pods it may select, or None for all namespaces.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: Namespaces | None
    weight: int = 0

    def selects(self, pod: LabelledPod) -> bool:
        """Return whether the term selects a pod, by the pod's namespace and labels."""
        in_namespace = self.namespaces is None or pod.namespace in self.namespaces
        return in_namespace and label_selector_matches(self.selector, pod.labels)

    def count_pods(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the number of running pods that the term selects."""
        return nodes.pod_rows.tally(self.selector, self.namespaces, nodes.slots)

    def match_rows(self, nodes: NodeColumns) -> Mask:
        """Return a mask of the running pods that the term selects, over the rows of `nodes.pod_rows`."""
        return nodes.pod_rows.matching(self.selector, self.namespaces)

    def __str__(self) -> str:
        return selectors.format_label_selector(self.selector)


class TermGroup:
    """The terms of an incoming pod that have one topology key, counted together.

    A pod may have thousands of terms, while nodes have few topology keys.
    """

    def __init__(self, terms: Sequence[IncomingTerm], query: Hashable) -> None:
        """Create a group of `terms`; `query` is the key of their cached counts.

        Groups with equal queries must have equal terms.
        """
        self.terms = terms
        self._query = query
        self._index = SelectorIndex([term.selector for term in terms])

    def find_selecting(self, pod: LabelledPod) -> Iterator[tuple[int, IncomingTerm]]:
        """Yield the terms that select a pod with their positions, in no particular order."""
        for position in self._index.find_matching(pod.labels):
            term = self.terms[position]
            if term.namespaces is None or pod.namespace in term.namespaces:
                yield position, term

    def selects(self, pod: LabelledPod) -> bool:
        """Return whether one of the terms selects a pod."""
        return any(True for _ in self.find_selecting(pod))

    def count_pods(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the number of pairs of a term and a running pod that it selects."""
        if len(self.terms) == 1:
            return self.terms[0].count_pods(nodes)
        return self._tally(nodes, is_weighted=False)

    def sum_weights(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the sum of the terms' weights over the running pods that they select."""
        return self._tally(nodes, is_weighted=True)

    def prepare(self, nodes: NodeColumns, has_time: Callable[[], bool], *, is_weighted: bool) -> bool:
        """Count the terms' pods in advance until `has_time` returns False; return whether all are counted."""
        kinds = (False, True) if is_weighted else (False,)
        parts = -(-len(self.terms) // PART)
        return len(self.terms) == 1 or all(
            self._tally(nodes, is_weighted=kind, has_time=has_time).parts == parts for kind in kinds
        )

    def _tally(self, nodes: NodeColumns, *, is_weighted: bool, has_time: Callable[[], bool] = lambda: True) -> Tally:
        rows, slots, terms = nodes.pod_rows, nodes.slots, self.terms

        def weigh(pod: LabelledPod, parts: int) -> int:
            selecting = [term for position, term in self.find_selecting(pod) if position < parts * PART]
            return sum(term.weight for term in selecting) if is_weighted else len(selecting)

        def count(part: int) -> Counts:
            counts = np.zeros(slots, np.int64)
            for term in terms[part * PART : (part + 1) * PART]:
                selected = rows.slots[term.match_rows(nodes)]
                if len(selected):
                    counts += np.bincount(selected, minlength=slots) * (term.weight if is_weighted else 1)
            return counts

        weights = PodWeights(weigh, count, -(-len(terms) // PART), self._index.tried_each_time)
        return rows.tally_weights((self._query, is_weighted), weights, slots, has_time)


class MatchingTerms:
    """The affinity terms of running pods that have one topology key and select a certain pod, with weights."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._weights: dict[PodTerms, int] = {}
        self._cached_keys: tuple[Hashable, Hashable] | None = None

    def add(self, terms: PodTerms, weight: int) -> None:
        """Add the terms of a running pod; `weight` is the sum of the weights of those that select the pod."""
        self._weights[terms], self._cached_keys = weight, None

    def count_pods(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the number of running pods that have one of the added lists of terms."""
        return nodes.pod_rows.tally_terms(self._tally_keys[0], dict.fromkeys(self._weights, 1), nodes.slots)

    def sum_weights(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the sum of the weights of its running pods' lists of terms."""
        return nodes.pod_rows.tally_terms(self._tally_keys[1], self._weights, nodes.slots)

    def includes(self, pod: PodInfo) -> bool:
        """Return whether the running pod has one of the added lists of terms."""
        return pod.terms in self._weights

    @property
    def _tally_keys(self) -> tuple[Hashable, Hashable]:
        """The cache keys of the two tallies: by number of pods, and by weight.

        Instances with the same lists of terms, and the same weights, have equal keys.
        """
        if self._cached_keys is None:
            names = {(terms.namespace, terms.digest): weight for terms, weight in self._weights.items()}
            self._cached_keys = (frozenset(names), frozenset(names.items()))
        return self._cached_keys


class MatchingTermsCache:
    """A cache of the affinity terms of running pods that select a given pod, by topology key.

    Pods with equal labels and namespaces share an entry; each distinct list of terms is evaluated once per entry.
    """

    def __init__(self, terms_of: Callable[[PodTerms], Iterator[Term]]) -> None:
        """Create an empty cache; `terms_of` yields a running pod's relevant terms, such as required anti-affinity."""
        self._terms_of = terms_of
        self._entries: Lru[Hashable, _CacheEntry] = Lru(MAX_ENTRIES)
        self._known: list[PodTerms | None] = []
        self._indexes: dict[PodTerms, tuple[list[Term], SelectorIndex]] = {}  # of long lists of terms

    def find(self, pod: PodInfo, labels: Mapping[str, str], nodes: NodeColumns) -> Mapping[str, MatchingTerms]:
        """Return, by topology key, the relevant terms of running pods that select `pod`.

        Keys that no node has are absent. `labels` are the labels of the pod's namespace. The result may include terms
        whose pods are no longer running.
        """
        values = nodes.pod_rows.terms.values
        if len(values) == 1:  # no running pod has affinity terms
            return {}
        if values is not self._known:  # entries of another list keep terms of pods that are gone
            self._entries.clear()
            self._indexes.clear()
            self._known = values
        cache_key = (pod.namespace, frozenset(pod.labels.items()), frozenset(labels.items()))
        entry = self._entries.get_or_create(cache_key, _CacheEntry)
        for terms in values[entry.evaluated :]:
            if terms is not None:
                self._evaluate(entry, terms, pod, labels)
        entry.evaluated = len(values)
        known = nodes.label_keys
        return {key: terms for key, terms in entry.by_key.items() if key in known}

    def selects(self, terms: PodTerms, pod: PodInfo, labels: Mapping[str, str]) -> bool:
        """Return whether a relevant term of a running pod selects `pod`, whose namespace has these labels."""
        return any(term.selects(pod, labels) for term in self._find_candidates(terms, pod))

    def _evaluate(self, entry: _CacheEntry, terms: PodTerms, pod: PodInfo, labels: Mapping[str, str]) -> None:
        weights: dict[str, int] = {}
        for term in self._find_candidates(terms, pod):
            if term.selects(pod, labels):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + term.weight
        for key, weight in weights.items():
            entry.by_key.setdefault(key, MatchingTerms(key)).add(terms, weight)

    def _find_candidates(self, terms: PodTerms, pod: PodInfo) -> Iterable[Term]:
        """Return those of a running pod's terms that may select `pod`.

        If the running pod has many terms, those with another label selector are excluded by an index.
        """
        if terms.size < MANY_TERMS:
            return self._terms_of(terms)
        indexed = self._indexes.get(terms)
        if indexed is None:
            relevant = [*self._terms_of(terms)]
            indexed = self._indexes[terms] = relevant, SelectorIndex([term.selector for term in relevant])
        return (indexed[0][position] for position in indexed[1].find_matching(pod.labels))


@dataclass
class _CacheEntry:
    """The terms of running pods that select pods with certain labels, by topology key.

    The first `evaluated` of the distinct lists of terms of the running pods were evaluated.
    """

    evaluated: int = 0
    by_key: dict[str, MatchingTerms] = field(default_factory=dict)


class IncomingTerms(NamedTuple):
    """The affinity terms of an incoming pod, by topology key in the order of the keys' first terms.

    `required` has the first term of each key: a running pod counts only if all required terms select it, as the term
    `required_together` does. In `preferred`, the weights of anti-affinity terms are negative. `size` is the number of
    all terms.
    """

    required: Mapping[str, IncomingTerm] = MappingProxyType({})
    required_together: IncomingTerm | None = None
    required_anti: Mapping[str, TermGroup] = MappingProxyType({})
    preferred: Mapping[str, TermGroup] = MappingProxyType({})
    size: int = 0

    def prepare(self, nodes: NodeColumns, has_time: Callable[[], bool]) -> bool:
        """Count the terms' pods in advance until `has_time` returns False; return whether all are counted."""
        together = self.required_together
        limits = None if together is None else together.namespaces
        if isinstance(limits, CommonNamespaces) and not limits.decide(nodes.pod_rows.namespaces, has_time):
            return False
        groups = [(group, False) for group in self.required_anti.values()]
        groups += [(group, True) for group in self.preferred.values()]
        return all(
            group.prepare(nodes, has_time, is_weighted=weighted)
            for group, weighted in groups
            if group.terms[0].topology_key in nodes.label_keys
        )


_NO_INCOMING_TERMS: Final = IncomingTerms()


class IncomingTermsCache:
    """A cache of the affinity terms of incoming pods, parsed and with namespace selectors resolved.

    It is cleared when a namespace changes.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._revision = -1
        self._known: Lru[PodTerms, IncomingTerms] = Lru(MAX_TERMS, size=lambda terms: max(terms.size, ENTRY_TERMS))

    def get(self, pod: PodInfo, rules: Rules) -> IncomingTerms:
        """Return the pod's parsed affinity terms. All calls must pass equal `rules`.

        Raise InvalidSelectorError if a term does not parse.
        """
        terms = pod.terms
        if terms is None:
            return _NO_INCOMING_TERMS
        revision = self._objects.revision_of(Namespace)
        if revision != self._revision:
            self._known.clear()
            self._revision = revision
        return self._known.get_or_create(terms, lambda: self._resolve(terms, rules))

    def _resolve(self, terms: PodTerms, rules: Rules) -> IncomingTerms:
        required, required_anti, preferred = (
            resolve_terms(group, self._objects, rules)
            for group in (terms.required, terms.required_anti, (*terms.preferred, *terms.preferred_anti))
        )
        return IncomingTerms(
            {key: group.terms[0] for key, group in self._group("required", terms, required).items()},
            _combine(required) if required else None,
            self._group("required-anti", terms, required_anti),
            self._group("preferred", terms, preferred),
            terms.size,
        )

    def _group(self, kind: str, terms: PodTerms, resolved: Iterable[IncomingTerm]) -> Mapping[str, TermGroup]:
        by_key: dict[str, list[IncomingTerm]] = {}
        for term in resolved:
            by_key.setdefault(term.topology_key, []).append(term)
        return {
            key: TermGroup(group, (kind, key, terms.namespace, terms.digest, self._revision))
            for key, group in by_key.items()
        }


def resolve_terms(terms: Terms, objects: ClusterObjects, rules: Rules) -> tuple[IncomingTerm, ...]:
    """Return affinity terms of the incoming pod with each namespace selector resolved to namespaces.

    With the rule NAMESPACE_SELECTOR_KEPT, a selector that matches an empty set of labels matches every namespace,
    because kube-scheduler then evaluates the selector again, without labels.
    """
    return tuple(IncomingTerm(t.topology_key, t.selector, _namespaces(t, objects, rules), t.weight) for t in terms)


def get_namespace_labels(namespace: str, objects: ClusterObjects) -> Mapping[str, str]:
    """Return the labels of a namespace, or an empty mapping if the namespace is unknown."""
    stored = objects.get(Namespace, namespace)
    return (stored.metadata.labels if stored else None) or {}


def read_valid_terms(terms: Callable[[], Terms]) -> Terms:
    """Return the terms of a running pod that `terms()` parses, or an empty tuple if they do not parse.

    A running pod with an invalid selector must not affect other pods.
    """
    try:
        return terms()
    except InvalidSelectorError:
        return ()


def _combine(terms: Sequence[IncomingTerm]) -> IncomingTerm:
    """Return a term that selects the pods that all of these terms select. It has no topology key."""
    if len(terms) == 1:
        return terms[0]
    limits = dict.fromkeys(term.namespaces for term in terms if term.namespaces is not None)
    namespaces = CommonNamespaces(limits) if len(limits) > 1 else next(iter(limits), None)
    requirements: list[Requirement] = []
    for term in terms:
        if term.selector is None:
            return IncomingTerm("", None, namespaces)
        labels = (term.selector.match_labels or {}).items()
        requirements += (Requirement(key=key, operator="In", values=[value]) for key, value in labels)
        requirements += term.selector.match_expressions or ()
    return IncomingTerm("", LabelSelector(match_expressions=requirements), namespaces)


def _namespaces(term: Term, objects: ClusterObjects, rules: Rules) -> Namespaces | None:
    selector = term.namespace_selector
    matches_all = selector == LabelSelector()
    if matches_all or (rules.enabled(NAMESPACE_SELECTOR_KEPT) and label_selector_matches(selector, {})):
        return None
    return term.namespaces if selector is None else SelectedNamespaces(term.namespaces, selector, objects)
