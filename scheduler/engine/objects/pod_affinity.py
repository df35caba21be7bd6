"""Pod affinity terms prepared: which pods does a term of a pod mean.

Source: k8s.io/kube-scheduler/framework AffinityTerm and pkg/scheduler/framework/types.go (getAffinityTerms) v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.selectors import label_selector_matches, validate_selector
from scheduler.engine.objects.types import LabelSelector, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm

if TYPE_CHECKING:  # a PodInfo has its terms at hand
    from scheduler.engine.objects.pod import PodInfo


class Term(NamedTuple):
    """A term of a pod in some namespace, which is what `namespaces` holds where the term names none."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    weight: int = 0  # of a preferred term, negative for anti-affinity

    def selects(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term means the pod. `namespace_labels`: those of the pod's namespace."""
        in_namespace = pod.namespace in self.namespaces
        if not in_namespace and not label_selector_matches(self.namespace_selector, namespace_labels):
            return False
        return label_selector_matches(self.selector, pod.labels)


Terms = tuple[Term, ...]


@dataclass(frozen=True)
class PodTerms:
    """All pod affinity of a pod; equal for pods of one namespace that ask for the same, whatever their names.

    A kind of term whose selectors do not parse raises InvalidSelectorError where it is read.
    """

    namespace: str
    encoded: bytes  # of both below: what is compared
    affinity: PodAffinity | None = field(compare=False)
    anti_affinity: PodAffinity | None = field(compare=False)

    @classmethod
    def of(cls, pod: PodInfo) -> PodTerms | None:
        """None where the pod has neither affinity nor anti-affinity to pods."""
        spec = pod.pod.spec.affinity
        if spec is None or (spec.pod_affinity is None and spec.pod_anti_affinity is None):
            return None
        both = (spec.pod_affinity, spec.pod_anti_affinity)
        return cls(pod.namespace, msgspec.msgpack.encode(both), *both)

    @lazy
    def required(self) -> Terms:
        """Pods that must be near."""
        return self._required(self.affinity)

    @lazy
    def required_anti(self) -> Terms:
        """Pods that must be far."""
        return self._required(self.anti_affinity)

    @lazy
    def preferred(self) -> Terms:
        """Pods that had better be near."""
        return self._preferred(self.affinity, +1)

    @lazy
    def preferred_anti(self) -> Terms:
        """Pods that had better be far: their weights are negative."""
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
