"""Affinity terms of the incoming pod matched against running pods, and of running pods against the incoming pod.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from herodotus_record.lru import Lru
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.tallies import Tally
from scheduler.engine.framework.interface import Mask
from scheduler.engine.objects import selectors
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_affinity import PodTerms, Term, Terms
from scheduler.engine.objects.selectors import InvalidSelectorError, label_selector_matches
from scheduler.engine.objects.types import LabelSelector, Namespace

MAX_ENTRIES: Final = 256  # a bound on cached pods, since labels may be unique to each pod


@dataclass(frozen=True)
class IncomingTerm:
    """An affinity or anti-affinity term of the incoming pod, with its namespace selector resolved.

    `namespaces` are the names of the namespaces whose pods it may select, or None for all namespaces.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    weight: int

    def selects(self, pod: PodInfo) -> bool:
        """Return whether the term selects a pod, by the pod's namespace and labels."""
        in_namespace = self.namespaces is None or pod.namespace in self.namespaces
        return in_namespace and label_selector_matches(self.selector, pod.labels)

    def match_rows(self, nodes: NodeColumns) -> Mask:
        """Return a mask of the running pods that the term selects, over the rows of `nodes.pod_rows`."""
        return nodes.pod_rows.matching(self.selector, self.namespaces)

    def count_pods(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the number of running pods that the term selects."""
        return nodes.pod_rows.tally(self.selector, self.namespaces, nodes.slots)

    def __str__(self) -> str:
        return selectors.format_label_selector(self.selector)


class MatchingTerms:
    """The affinity terms of running pods that have one topology key and select a certain pod, with weights."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._weights: dict[PodTerms, int] = {}
        self._cached_keys: tuple[Hashable, Hashable] | None = None

    def add(self, terms: PodTerms, weight: int) -> None:
        """Add the terms of a running pod, of which some select the pod, with the sum of their weights."""
        self._weights[terms], self._cached_keys = weight, None

    def count_pods(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the number of running pods that have one of these terms."""
        return nodes.pod_rows.tally_terms(self._tally_keys[0], dict.fromkeys(self._weights, 1), nodes.slots)

    def sum_weights(self, nodes: NodeColumns) -> Tally:
        """Return, for each node slot, the total weight of these terms over its running pods."""
        return nodes.pod_rows.tally_terms(self._tally_keys[1], self._weights, nodes.slots)

    def includes(self, pod: PodInfo) -> bool:
        """Return whether a running pod has one of these terms."""
        return pod.terms in self._weights

    @property
    def _tally_keys(self) -> tuple[Hashable, Hashable]:
        """The cache keys of the tallies by number of pods and by weight; equal if the same terms select."""
        if self._cached_keys is None:
            self._cached_keys = (frozenset(self._weights), frozenset(self._weights.items()))
        return self._cached_keys


class MatchingTermsCache:
    """A cache of the affinity terms of running pods that select a given pod, by topology key.

    Pods with equal labels and namespaces share an entry; each distinct list of terms is evaluated once per entry.
    """

    def __init__(self, terms_of: Callable[[PodTerms], Iterator[Term]]) -> None:
        """Take `terms_of`, which returns the relevant terms of a running pod, such as its required anti-affinity."""
        self._terms_of = terms_of
        self._entries: Lru[Hashable, _CacheEntry] = Lru(MAX_ENTRIES)

    def find(self, pod: PodInfo, labels: Mapping[str, str], nodes: NodeColumns) -> Mapping[str, MatchingTerms]:
        """Return, by topology key, the terms of running pods that select `pod`.

        `labels` are the labels of the pod's namespace. The result may include terms whose pods are no longer running.
        """
        known = nodes.pod_rows.terms.values
        if len(known) == 1:  # no running pod has affinity terms
            return {}
        cache_key = (pod.namespace, frozenset(pod.labels.items()), frozenset(labels.items()))
        entry = self._entries.get(cache_key)
        if entry is None or entry.terms is not known:
            entry = self._entries.put(cache_key, _CacheEntry(known))
        for terms in known[entry.evaluated :]:
            if terms is not None:
                self._evaluate(entry, terms, pod, labels)
        entry.evaluated = len(known)
        return entry.by_key

    def _evaluate(self, entry: _CacheEntry, terms: PodTerms, pod: PodInfo, labels: Mapping[str, str]) -> None:
        weights: dict[str, int] = {}
        for term in self._terms_of(terms):
            if term.selects(pod, labels):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + term.weight
        for key, weight in weights.items():
            entry.by_key.setdefault(key, MatchingTerms(key)).add(terms, weight)


@dataclass
class _CacheEntry:
    """The terms of running pods that select pods with certain labels, by topology key.

    `terms` holds the distinct lists of terms of the running pods; the first `evaluated` of them were evaluated.
    """

    terms: list[PodTerms | None]
    evaluated: int = 0
    by_key: dict[str, MatchingTerms] = field(default_factory=dict)


class IncomingTerms(NamedTuple):
    """The affinity terms of an incoming pod. In `preferred`, the weights of anti-affinity terms are negative."""

    required: tuple[IncomingTerm, ...] = ()
    required_anti: tuple[IncomingTerm, ...] = ()
    preferred: tuple[IncomingTerm, ...] = ()


_NO_INCOMING_TERMS: Final = IncomingTerms()


class IncomingTermsCache:
    """A cache of the affinity terms of incoming pods, parsed and with namespace selectors resolved.

    It is cleared when a namespace changes.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._revision = -1
        self._known: dict[PodTerms, IncomingTerms] = {}

    def get(self, pod: PodInfo) -> IncomingTerms:
        """Return the pod's affinity terms. Raise InvalidSelectorError if one does not parse."""
        if pod.terms is None:
            return _NO_INCOMING_TERMS
        revision = self._objects.revision_of(Namespace)
        if revision != self._revision or len(self._known) > MAX_ENTRIES:
            self._known, self._revision = {}, revision
        found = self._known.get(pod.terms)
        if found is None:
            terms, objects = pod.terms, self._objects
            required, required_anti = (
                resolve_terms(terms.required, objects),
                resolve_terms(terms.required_anti, objects),
            )
            preferred = resolve_terms((*terms.preferred, *terms.preferred_anti), objects)
            found = self._known[terms] = IncomingTerms(required, required_anti, preferred)
        return found


def resolve_terms(terms: Terms, objects: ClusterObjects) -> tuple[IncomingTerm, ...]:
    """Return affinity terms of the incoming pod with their namespace selectors resolved to namespaces.

    As in kube-scheduler, a selector that matches a namespace without labels matches every namespace: it is evaluated
    again against no labels after it was resolved.
    """
    return tuple(IncomingTerm(t.topology_key, t.selector, _namespaces(t, objects), t.weight) for t in terms)


def get_namespace_labels(namespace: str, objects: ClusterObjects) -> Mapping[str, str]:
    """Return the labels of a namespace, or an empty mapping if the namespace is unknown."""
    found = objects.get(Namespace, namespace)
    return (found.metadata.labels if found else None) or {}


def read_valid_terms(terms: Callable[[], Terms]) -> Terms:
    """Return what `terms` returns, terms of a running pod, or an empty tuple if they do not parse.

    A running pod with an invalid selector must not affect other pods.
    """
    try:
        return terms()
    except InvalidSelectorError:
        return ()


def _namespaces(term: Term, objects: ClusterObjects) -> frozenset[str] | None:
    selector = term.namespace_selector
    if label_selector_matches(selector, {}):
        return None
    if selector is None:
        return term.namespaces
    known = objects.all(Namespace)
    matching = (n.metadata.name for n in known if label_selector_matches(selector, n.metadata.labels or {}))
    return term.namespaces.union(matching)
