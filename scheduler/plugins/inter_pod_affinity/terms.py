"""Terms against pods: the incoming pod's against the running ones, and theirs against it.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from scheduler.columns import NodeColumns
from scheduler.framework.interface import Mask
from scheduler.objects import selectors
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.pod_affinity import PodTerms, Term, Terms
from scheduler.objects.selectors import InvalidSelectorError, label_selector_matches
from scheduler.objects.types import LabelSelector, Namespace
from scheduler.plugins.topology import Counts


@dataclass(frozen=True)
class Wanted:
    """A term of the incoming pod, its namespaces looked up once. `namespaces`: None means all."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    weight: int

    def selects(self, pod: PodInfo) -> bool:
        """Whether the term means the pod."""
        in_namespace = self.namespaces is None or pod.namespace in self.namespaces
        return in_namespace and label_selector_matches(self.selector, pod.labels)

    def rows(self, nodes: NodeColumns) -> Mask:
        """The running pods that the term means, as rows of `nodes.pod_rows`."""
        return nodes.pod_rows.matching(self.selector, self.namespaces)

    def pods(self, nodes: NodeColumns) -> Counts:
        """How many of them each slot has; not to be changed."""
        return nodes.pod_rows.tally(self.selector, self.namespaces, nodes.slots)

    def __str__(self) -> str:
        return selectors.describe_labels(self.selector)


@dataclass
class Reach:
    """Running pods that have terms with one topology key which mean the incoming pod, and what those add up to, a slot.

    `terms`: what these pods ask for.
    """

    pods: Counts
    weights: Counts
    terms: list[PodTerms] = field(default_factory=list)

    def rows(self, nodes: NodeColumns) -> Mask:
        """The pods, as rows of `nodes.pod_rows`."""
        rows = nodes.pod_rows
        return rows.terms.among(rows.count, self.terms)


def wanted(terms: Terms, objects: ClusterObjects) -> tuple[Wanted, ...]:
    """Terms of the incoming pod with their namespace selectors looked up.

    As in kube-scheduler, a selector that matches a namespace without labels matches them all: it is matched once more
    against no labels, after the lookup.
    """
    return tuple(Wanted(t.topology_key, t.selector, _namespaces(t, objects), t.weight) for t in terms)


def namespace_labels(namespace: str, objects: ClusterObjects) -> Mapping[str, str]:
    """The labels of a namespace; none where it is not known."""
    found = objects.get(Namespace, namespace)
    return (found.metadata.labels if found else None) or {}


def reaching(
    pod: PodInfo, labels: Mapping[str, str], nodes: NodeColumns, terms_of: Callable[[PodTerms], Iterator[Term]]
) -> dict[str, Reach]:
    """By topology key, the running pods that have terms which mean the pod, each with the sum of their weights.

    `labels`: those of the pod's namespace. `terms_of`: which of a running pod's terms to ask. Pods that ask for the
    same are asked once.
    """
    found: dict[str, Reach] = {}
    for terms in nodes.pod_rows.terms.values:
        weights: dict[str, int] = {}
        for term in terms_of(terms) if terms is not None else ():
            if term.selects(pod, labels):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + term.weight
        if terms is None or not weights:
            continue
        pods = nodes.pod_rows.tally_of_terms(terms, nodes.slots)
        if not pods.any():  # the last of its pods went
            continue
        for key, weight in weights.items():
            if key not in found:
                found[key] = Reach(np.zeros(nodes.slots, np.int64), np.zeros(nodes.slots, np.int64))
            found[key].pods += pods
            found[key].weights += pods * weight
            found[key].terms.append(terms)
    return found


def readable(terms: Callable[[], Terms]) -> Terms:
    """Terms of a running pod; none where they do not parse, for one bad pod must not stop the others."""
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
