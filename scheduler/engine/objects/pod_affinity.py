"""The pod affinity and anti-affinity terms of a pod, parsed, and the test whether a term selects another pod.

Source: k8s.io/kube-scheduler/framework AffinityTerm and pkg/scheduler/framework/types.go (getAffinityTerms) v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec

from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.selectors import label_selector_matches, validate_selector
from scheduler.engine.objects.types import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)


class LabelledPod(Protocol):
    """The protocol of a pod that an affinity term can select, by its namespace and labels. `PodInfo` implements it."""

    @property
    def namespace(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class Term(NamedTuple):
    """A pod affinity or anti-affinity term, required or preferred, with parsed selectors.

    `namespaces` holds the namespace of the term's own pod if the term has neither namespaces nor a namespace selector.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    weight: int = 0  # of a preferred term, negative for anti-affinity

    def selects(self, pod: LabelledPod, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term's selectors match a pod. `namespace_labels` are the labels of the pod's namespace."""
        in_namespace = pod.namespace in self.namespaces
        if not in_namespace and not label_selector_matches(self.namespace_selector, namespace_labels):
            return False
        return label_selector_matches(self.selector, pod.labels)


Terms = tuple[Term, ...]


@dataclass(frozen=True)
class PodTerms:
    """The pod affinity and anti-affinity terms of a pod, equal for all pods of a namespace with the same terms.

    Reading one of the four lists of terms raises InvalidSelectorError if a selector in it does not parse.
    """

    namespace: str
    digest: bytes  # of both fields below, which may be a megabyte; instances are compared by it
    affinity: PodAffinity | None = field(compare=False)
    anti_affinity: PodAffinity | None = field(compare=False)

    @classmethod
    def from_affinity(cls, namespace: str, affinity: Affinity | None) -> PodTerms | None:
        """Return the terms of a pod in this namespace, or None if it has neither pod affinity nor pod anti-affinity."""
        if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
            return None
        both = (affinity.pod_affinity, affinity.pod_anti_affinity)
        return cls(namespace, blake2b(msgspec.msgpack.encode(both), digest_size=16).digest(), *both)

    @property
    def identity(self) -> PodTerms:
        """A small object that compares equal to this one but holds only the digest of the terms, for use as a key."""
        return PodTerms(self.namespace, self.digest, None, None)

    @lazy
    def size(self) -> int:
        """The number of terms in all four lists."""
        lists = [(a.required, a.preferred) for a in (self.affinity, self.anti_affinity) if a is not None]
        return sum(len(required or ()) + len(preferred or ()) for required, preferred in lists)

    @lazy
    def required(self) -> Terms:
        """The required affinity terms."""
        return self._required(self.affinity)

    @lazy
    def required_anti(self) -> Terms:
        """The required anti-affinity terms."""
        return self._required(self.anti_affinity)

    @lazy
    def preferred(self) -> Terms:
        """The preferred affinity terms, with positive weights."""
        return self._preferred(self.affinity, +1)

    @lazy
    def preferred_anti(self) -> Terms:
        """The preferred anti-affinity terms; their weights are negated."""
        return self._preferred(self.anti_affinity, -1)

    def _required(self, affinity: PodAffinity | None) -> Terms:
        return tuple(self._term(t) for t in (affinity.required if affinity else None) or ())

    def _preferred(self, affinity: PodAffinity | None, sign: int) -> Terms:
        weighted: Iterable[WeightedPodAffinityTerm] = (affinity.preferred if affinity else None) or ()
        return tuple(self._term(w.pod_affinity_term)._replace(weight=sign * w.weight) for w in weighted)

    def _term(self, term: PodAffinityTerm) -> Term:
        named = term.namespaces or ([self.namespace] if term.namespace_selector is None else [])
        selectors = (validate_selector(term.label_selector), validate_selector(term.namespace_selector))
        return Term(term.topology_key, selectors[0], frozenset(named), selectors[1])
