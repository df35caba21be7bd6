"""InterPodAffinity: places a pod by its affinity and anti-affinity to running pods, and by theirs to it.

`terms` finds the pods that a term selects. Source: pkg/scheduler/framework/plugins/interpodaffinity v1.36
(filtering.go, scoring.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.tallies import Tally
from scheduler.engine.framework.equivalence_cache import union_rows
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, DependsOn, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import SKIP, SKIPPED, PreFilterResult, Verdicts, unresolvable, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_affinity import PodTerms, Term
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.objects.selectors import InvalidSelectorError
from scheduler.engine.plugins.inter_pod_affinity.hints import AffinityHints
from scheduler.engine.plugins.inter_pod_affinity.terms import (
    IncomingTerm,
    IncomingTerms,
    IncomingTermsCache,
    MatchingTermsCache,
    format_namespaces,
    get_namespace_labels,
    read_valid_terms,
)
from scheduler.engine.plugins.topology import (
    DomainCounts,
    DomainEntries,
    FirstRejections,
    get_labels,
    has_label,
)

# With at most this many closed domains, the reason names a pod in each; more names would only fill the record.
_MAX_NAMED_DOMAINS: Final = 8
_MAX_EXPLAINED_TERMS: Final = 8  # of one topology key: each is counted by itself
Slots = NDArray[np.intp]

_NO_TERMS: Final = PodTerms("", b"", None, None)


class InterPodAffinityArgs(Args, frozen=True):
    """Arguments of InterPodAffinity, both for scoring.

    `hard_pod_affinity_weight` is the weight of required affinity terms of running pods. If
    `ignore_preferred_terms_of_existing_pods` is set, a pod without preferred terms is not scored.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self) -> Iterator[Problem]:
        """Yield a problem if the weight is not from 0 to 100."""
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]")


@dataclass
class _ClosedDomains:
    """The topology domains with pods that the incoming pod must stay away from.

    `examples` maps a domain, by its label value, to the parameters that name one such pod. It is empty if there are
    many domains.
    """

    domains: DomainCounts
    examples: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def clone(self) -> _ClosedDomains:
        return _ClosedDomains(self.domains.clone(), self.examples)

    def changed_slots(self, before: _ClosedDomains, nodes: NodeColumns) -> Slots | None:
        return self.domains.changed_slots(before.domains, nodes) if self.examples == before.examples else None


@dataclass
class _PreFilterState:
    """The state that PreFilter writes: the numbers of pods by topology domain, for each of the filter's three rules.

    The rules are the pod's affinity, its anti-affinity, and the anti-affinity of running pods.
    """

    namespace_labels: Mapping[str, str]
    terms: IncomingTerms
    affinity: dict[str, DomainCounts]  # by key: pods that match every required term
    anti: dict[str, _ClosedDomains]  # by key: pods that match a required anti-affinity term
    existing: dict[str, _ClosedDomains]  # by key: running pods whose required anti-affinity selects the pod
    matches_itself: bool  # the pod matches every required term of its own

    @property
    def accepts_first_pod(self) -> bool:
        """Whether the pod matches its own affinity terms while no running pod does.

        Every node with the topology keys then satisfies the affinity.
        """
        return self.matches_itself and not any(domains.counts.any() for domains in self.affinity.values())

    def changed_slots(self, before: _PreFilterState, nodes: NodeColumns) -> Slots | None:
        """Return the slots of the nodes in domains that gained their first, or lost their last, counted pod.

        `before` is the state to compare with. Return None if every node may be affected.
        """
        if self.terms is not before.terms or self.anti.keys() != before.anti.keys():
            return None
        if self.existing.keys() != before.existing.keys() or self.accepts_first_pod != before.accepts_first_pod:
            return None
        pairs: list[tuple[Any, Any]] = [(self.affinity[key], before.affinity[key]) for key in self.affinity]
        pairs += [(self.anti[key], before.anti[key]) for key in self.anti]
        pairs += [(self.existing[key], before.existing[key]) for key in self.existing]
        return union_rows(now.changed_slots(then, nodes) for now, then in pairs)

    def clone(self) -> _PreFilterState:
        return _PreFilterState(
            self.namespace_labels,
            self.terms,
            {key: domains.clone() for key, domains in self.affinity.items()},
            {key: closed.clone() for key, closed in self.anti.items()},
            {key: closed.clone() for key, closed in self.existing.items()},
            self.matches_itself,
        )

    def update_counts(self, pod: PodInfo, changed: PodInfo, nodes: NodeColumns, slot: int, by: int) -> None:
        """Add `by` (1 or -1) to the counts of the node's domains, for each term that selects `changed`.

        Terms of `changed` that select `pod` count too.
        """
        required = self.terms.required_together
        if required is not None and required.selects(changed):
            for domains in self.affinity.values():
                domains.add(nodes, slot, by)
        for key, closed in self.anti.items():
            selecting = sum(1 for _ in self.terms.required_anti[key].find_selecting(changed))
            if selecting:
                closed.domains.add(nodes, slot, by * selecting)
        labels = get_labels(nodes, slot)
        anti_affinity = (term for term in _required_anti(changed.terms or _NO_TERMS) if term.topology_key in labels)
        for key in {term.topology_key for term in anti_affinity if term.selects(pod, self.namespace_labels)}:
            self.existing.setdefault(key, _ClosedDomains(DomainCounts.empty(key))).domains.add(nodes, slot, by)


@dataclass(frozen=True, eq=False)
class _PreScoreState:
    """The state that PreScore writes: the points of each topology domain, by topology key."""

    by_key: Mapping[str, DomainEntries]

    def changed_slots(self, before: _PreScoreState, nodes: NodeColumns) -> Slots | None:
        """Return the slots of the nodes whose topology domain has other points than in `before`.

        Return None if every node may be affected.
        """
        if self.by_key.keys() != before.by_key.keys():
            return None
        return union_rows(now.changed_slots(before.by_key[key], nodes) for key, now in self.by_key.items())


class InterPodAffinity(BasePlugin):
    """The plugin for pod affinity and anti-affinity, of the incoming pod and of running pods.

    It matches each term against all pods once and then keeps counts. Running pods with equal terms are evaluated once.
    """

    name = "InterPodAffinity"
    reads = frozenset({PluginInput.NODE, PluginInput.ALL_NODES, PluginInput.PODS, PluginInput.OBJECTS})
    fails_without: ClassVar = {
        "filter": ("preFilter", 'error reading "PreFilterInterPodAffinity" from cycleState: not found'),
        "score": ("preScore", 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'),
    }
    args_type = InterPodAffinityArgs
    depends_on = DependsOn.ROW
    filter_state = _PreFilterState
    score_state = _PreScoreState

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._incoming_terms = IncomingTermsCache(handle.objects)
        self._existing_anti_affinity = MatchingTermsCache(_required_anti)
        self._existing_preferences = MatchingTermsCache(self._scoring_terms)

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        hints = AffinityHints(self.handle.objects, self.rules, self._incoming_terms, self._existing_anti_affinity)
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        yield ClusterEventWithHint(EventResource.POD, pods, hints.is_schedulable_after_pod_change)
        yield ClusterEventWithHint(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, hints.is_schedulable_after_node_change
        )

    def prepare(self, nodes: NodeColumns) -> None:
        """Build the table of running pods and parse their affinity terms, so that the first cycle need not."""
        for terms in nodes.pod_rows.terms.values:
            for _ in self._scoring_terms(terms) if terms is not None else ():
                pass

    def prepare_pod(self, pod: PodInfo, nodes: NodeColumns, has_time: Callable[[], bool]) -> bool:
        """Count in advance the running pods that the terms of `pod` select; return whether all terms are counted.

        Counting stops when `has_time` returns False.
        """
        try:
            terms = self._incoming_terms.get(pod, self.rules)
        except InvalidSelectorError:
            return True
        return terms.prepare(nodes, has_time)

    # --- required terms -------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Count pods by topology domain for the required terms of the pod, and of running pods that select it.

        Skip the filter if there are no such terms. Reject a pod whose terms do not parse.
        """
        try:
            incoming = self._incoming_terms.get(pod, self.rules)  # raises if a term does not parse
        except InvalidSelectorError as e:
            return PreFilterResult(unresolvable(Reason("text", {"text": f"parsing pod: {e}"})))
        labels = get_namespace_labels(pod.namespace, self.handle.objects)
        existing = {
            key: _find_closed_domains(
                key, nodes, terms.count_pods(nodes), terms.includes, partial(_describe_selected, pod, key, labels)
            )
            for key, terms in self._existing_anti_affinity.find(pod, labels, nodes).items()
        }
        if not incoming.required and not incoming.required_anti and not any(len(c.domains) for c in existing.values()):
            return SKIPPED
        anti = {
            key: _find_closed_domains(key, nodes, group.count_pods(nodes), group.selects)
            for key, group in incoming.required_anti.items()
            if key in nodes.label_keys
        }
        required = incoming.required_together
        matches_itself = required is None or required.selects(pod)
        affinity = _pods_by_key(incoming, nodes)
        state.write(_PreFilterState(labels, incoming, affinity, anti, existing, matches_itself))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes by the pod's affinity, then its anti-affinity, then the running pods' anti-affinity to it."""
        note, rejections = state.read(_PreFilterState), FirstRejections(nodes.slots)
        for key, term in note.terms.required.items():
            if rejections.undecided.any():
                _reject_mismatch(rejections, ~has_label(key, nodes), term, lacks="label")
        if not note.accepts_first_pod:
            for key, term in note.terms.required.items():
                if rejections.undecided.any():
                    _reject_mismatch(rejections, note.affinity[key].per_slot(nodes) <= 0, term, lacks="pods")
        for closed in note.anti.values():
            _reject_closed_domains(rejections, closed, nodes, "pod-anti-affinity")
        for key in sorted(note.existing):
            _reject_closed_domains(rejections, note.existing[key], nodes, "existing-anti-affinity")
        return rejections.verdicts()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        state.read(_PreFilterState).update_counts(pod, added, nodes, slot, +1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        state.read(_PreFilterState).update_counts(pod, removed, nodes, slot, -1)

    # --- preferred terms ------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Sum up, by topology domain, the weights of the pod's preferred terms and of running pods' terms for it.

        Running pods' terms count if they select the pod. Skip Score if no term of either side selects a pod.
        """
        preferred = self._incoming_terms.get(pod, self.rules).preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not preferred:
            return SKIP
        points, has_terms = _ScoreSums(nodes), False
        for key, group in preferred.items():
            if key in nodes.label_keys:
                pods, term = group.count_pods(nodes), group.terms[0]
                weights, times = (pods, term.weight) if len(group.terms) == 1 else (group.sum_weights(nodes), 1)
                has_terms |= points.add(key, pods, weights, times)
        labels = get_namespace_labels(pod.namespace, self.handle.objects)
        for key, terms in self._existing_preferences.find(pod, labels, nodes).items():
            has_terms |= points.add(key, terms.count_pods(nodes), terms.sum_weights(nodes), 1)
        state.write(_PreScoreState(points.by_key))
        return SUCCESS if has_terms else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the sum of the points of the node's topology domains, which may be negative."""
        raw = np.zeros(nodes.slots, np.int64)
        for points in state.read(_PreScoreState).by_key.values():
            raw += points.per_slot(nodes)
        return raw

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Scale the scores from 0 for the lowest to 100 for the highest; if all are equal, return 0 for each."""
        sums = raw[feasible]
        least, most = int(sums.min()), int(sums.max())
        if least == most:
            return np.zeros_like(raw)
        # as upstream: divide, then multiply, then truncate, so that 29 of 100 gives 28
        points: Scores = (float(MAX_NODE_SCORE) * ((raw - least) / float(most - least))).astype(np.int64)
        return points

    def explain_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> list[Reason]:
        """Return how the preferred terms of the pod, and those of running pods that select it, add to the node's score.

        A reason has a topology key, the node's domain, the weight and the number of matching pods. There is one reason
        for each preferred term of the pod. If the pod has many terms with one key, and for the terms of running pods,
        there is one for the key, whose weight is the sum over these pods. The reasons with the largest effect come
        first.
        """
        found: list[tuple[int, Reason]] = []

        def add(code: str, key: str, weight: int, pods: int, effect: int, **params: str) -> None:
            if pods:
                domain = str(nodes.label(key).values[nodes.label(key).ids(nodes.slots)[slot]])
                params |= {"key": key, "domain": domain, "weight": str(weight), "pods": str(pods)}
                found.append((abs(effect), Reason(code, params)))

        def count(key: str, tally: Tally) -> int:
            column = nodes.label(key)
            number = column.ids(nodes.slots)[slot]
            return 0 if column.values[number] is None else int(tally.by_value(column)[number])

        for key, group in self._incoming_terms.get(pod, self.rules).preferred.items():
            if key not in nodes.label_keys:
                continue
            if len(group.terms) > _MAX_EXPLAINED_TERMS:
                total, pods = count(key, group.sum_weights(nodes)), count(key, group.count_pods(nodes))
                add("preferred-pod-affinity-sum", key, total, pods, total, terms=str(len(group.terms)))
                continue
            for term in group.terms:
                pods = count(key, term.count_pods(nodes))
                add("preferred-pod-affinity", key, term.weight, pods, term.weight * pods, wants=str(term))
        labels = get_namespace_labels(pod.namespace, self.handle.objects)
        for key, terms in self._existing_preferences.find(pod, labels, nodes).items():
            total = count(key, terms.sum_weights(nodes))
            add("preferred-by-pods", key, total, count(key, terms.count_pods(nodes)), total)
        return [reason for _, reason in sorted(found, key=lambda each: -each[0])]

    def _scoring_terms(self, terms: PodTerms) -> Iterator[Term]:
        """Yield the terms of a running pod by which Score gives points to the pods that they select."""
        hard = self.args.hard_pod_affinity_weight
        if hard > 0:
            yield from (term._replace(weight=hard) for term in read_valid_terms(lambda: terms.required))
        yield from read_valid_terms(lambda: terms.preferred)
        yield from read_valid_terms(lambda: terms.preferred_anti)


def _required_anti(terms: PodTerms) -> Iterator[Term]:
    yield from read_valid_terms(lambda: terms.required_anti)


def _pods_by_key(terms: IncomingTerms, nodes: NodeColumns) -> dict[str, DomainCounts]:
    """Return by topology key the number of running pods in each domain that match all of the required terms."""
    required = terms.required_together
    if required is None:
        return {}
    tally = required.count_pods(nodes)
    return {key: DomainCounts.from_tally(key, nodes, tally) for key in terms.required}


def _find_closed_domains(
    key: str,
    nodes: NodeColumns,
    tally: Tally,
    counts: Callable[[PodInfo], bool],
    describe: Callable[[PodInfo], Mapping[str, str]] = lambda _pod: {},
) -> _ClosedDomains:
    """Return the domains of topology key `key` that contain counted pods, with one example pod each if there are few.

    `tally` has the number of counted pods by node slot; `counts` decides whether a pod is one of them. `describe`
    returns what a reason says of an example beside its name.
    """
    domains = DomainCounts.from_tally(key, nodes, tally)
    if not 0 < len(domains) <= _MAX_NAMED_DOMAINS:
        return _ClosedDomains(domains)
    column, slots = nodes.label(key), np.flatnonzero(tally.counts)
    numbers, first = np.unique(column.ids(nodes.slots)[slots], return_index=True)
    examples: dict[str, Mapping[str, str]] = {}
    for number, slot in zip(numbers.tolist(), slots[first].tolist(), strict=True):
        value = column.values[number]
        if value is not None:
            example = next(pod for pod in nodes.pods[slot].values() if counts(pod))
            examples[value] = {"pod": example.full_name, **describe(example)}
    return _ClosedDomains(domains, examples)


def _describe_selected(pod: PodInfo, key: str, namespace_labels: Mapping[str, str], other: PodInfo) -> dict[str, str]:
    """Return the parameter with the labels of `pod` that a required anti-affinity term of `other` for `key` selects.

    They are the pod's own, so that they tell no more of the other pod than that it excludes this one.
    """
    terms = (term for term in _required_anti(other.terms or _NO_TERMS) if term.topology_key == key)
    selector = next((term.selector for term in terms if term.selects(pod, namespace_labels)), None)
    if selector is None:
        return {}
    keys = [*(selector.match_labels or {}), *(each.key for each in selector.match_expressions or ())]
    return {"labels": ", ".join(f"{k}={pod.labels[k]}" for k in dict.fromkeys(keys) if k in pod.labels)}


def _reject_mismatch(rejections: FirstRejections, where: Mask, term: IncomingTerm, lacks: str) -> None:
    if not where.any():  # Naming the term takes longer than the rest.
        return
    params = {"key": term.topology_key, "wants": str(term), "lacks": lacks}
    if term.namespaces is not None:
        params["namespaces"] = format_namespaces(term.namespaces)
    rejections.reject(where, unresolvable(Reason("pod-affinity", params)))


def _reject_closed_domains(rejections: FirstRejections, closed: _ClosedDomains, nodes: NodeColumns, code: str) -> None:
    key = closed.domains.key
    mask = rejections.undecided & (closed.domains.per_slot(nodes) > 0)
    if not mask.any():
        return
    for value, example in closed.examples.items():
        here = mask & nodes.label(key).among(nodes.slots, (value,))
        rejections.reject(here, unschedulable(Reason(code, {"key": key, **example})))
    rejections.reject(mask, unschedulable(Reason(code, {"key": key, "pod": ""})))


class _ScoreSums:
    """The points of each topology domain, while PreScore adds them up."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self.by_key: dict[str, DomainEntries] = {}

    def add(self, key: str, pods: Tally, weights: Tally, times: int) -> bool:
        """Add `weights` * `times` to the points of each domain of topology key `key`.

        `pods` and `weights` have a number for each node slot. If no pod is in a domain, add nothing and return False;
        otherwise return True.
        """
        column = self._nodes.label(key)
        has_pods = bool(pods.by_value(column)[1:].any())  # index 0 stands for nodes that lack the key
        if has_pods:
            if key not in self.by_key:
                self.by_key[key] = DomainEntries(key, column.values, np.zeros(len(column.values), np.int64))
            points = self.by_key[key].entries
            points += weights.by_value(column) * times
            points[0] = 0
        return has_pods
