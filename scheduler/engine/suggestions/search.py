"""The search for suggestions: which nodes and changes are tried, in which order, and for how long.

Owns: the order, the number of suggestions, the limit of time, reuse for pods of one template. Does not own: changes,
the check.

Invariant: a suggestion that says it is checked fits the snapshot that the caller passed. The search takes no longer
than its share of the time, for any number of rejected pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from herodotus_record.model import DecisionPath, Reason, Suggestion
from herodotus_record.node_labels import names_role
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import UNSCHEDULABLE
from scheduler.engine.suggestions.changes import (
    CHANGES_OF_NODES,
    Draft,
    Place,
    count_answers,
    count_unmet_requirements,
    find_change,
    has_change,
    label_node,
    list_required_terms,
)
from scheduler.engine.suggestions.check import change_spec, find_rejections, find_victims, fits_without
from scheduler.engine.suggestions.departures import (
    draft_departures,
    has_preemption,
    list_leaving_pods,
    list_places,
    name_leaving,
)
from scheduler.engine.suggestions.helped import count_helped, find_template, list_unschedulable
from scheduler.engine.suggestions.new_nodes import draft_new_nodes

MAX_SUGGESTIONS: Final = 3  # an operator reads no more, and each is stored with the record
MAX_NODES: Final = 8  # each costs a PreFilter and a Filter on one node: about a millisecond at 5,000 nodes
MAX_COMPARED: Final = 100  # nodes rejected for equal reasons, those with most free
MAX_ROUNDS: Final = 3  # a filter states one reason at a time; the next one shows when that is answered
SHARE: Final = 0.02  # of the time, so that rejected pods do not slow down those that fit
BURST_S: Final = 0.25  # saved up while there is nothing to suggest: ten searches or more at 5,000 nodes
MAX_TEMPLATES: Final = 256
_SCARCE: Final = 0.5  # of the burst: the rest is for templates of which nothing is known

_LAST_RESORT: Final = 100.0  # the smallest rank of these groups
_LOST: Final = "lost"  # parameter of a change that names the hardware
_ROLE: Final = "node-role"

# The order of suggestions, declared here alone: the risk and the cost of each change, the smallest first. A suggestion
# has the sum of its changes. The last two groups are no advice as long as another change helps, whatever that costs.
# A label of a role is a change of its own: an administrator gives roles, other labels state what a node has.
_RANKS: Final = {
    # Nothing is changed, or a node gets what somebody owes it anyway.
    "await-end": 0.5,
    "uncordon": 1.0,
    "clear-taint": 1.5,
    "remove-taint": 2.0,
    # The application is changed and keeps what it asks for.
    "set-taints-policy": 2.0,
    "set-affinity-policy": 2.0,
    "set-rollout-strategy": 2.5,
    "add-toleration": 3.0,
    "remove-min-domains": 3.0,
    "rename-node-selector": 3.2,
    # A node is added to those that the application selects by their role, so that it gives up nothing.
    _ROLE: 3.3,
    # It gives up a part of it.
    "set-node-selector": 3.5,
    "remove-node-selector": 3.5,
    "set-node-affinity": 3.5,
    "remove-node-affinity": 3.6,
    "set-max-skew": 3.5,
    "set-request": 4.5,
    "remove-host-port": 4.5,
    # Other pods feel it: they are evicted, or may land on a node with a label or without a taint that it has now.
    "set-priority-class": 4.6,
    "label-node": 4.7,
    "open-node": 4.8,
    # It gives up what it asks of its neighbours.
    "set-when-unsatisfiable": 104.0,
    "remove-pod-affinity": 105.0,
    "remove-pod-anti-affinity": 105.0,
    # A node that does not exist.
    "add-node": 106.0,
    "add-node-like": 106.0,
    "add-node-of-kind": 106.0,
    # In addition to its own rank, of a change onto a node without hardware that the pod selects: it may not run there.
    _LOST: 200.0,
}
_COSTS: Final = {  # how much a change asks of its reader: the smaller ones first
    "unschedulable": 1.0,
    "untolerated-taint": 2.0,
    "spread": 2.5,
    "spread-label": 3.0,
    "insufficient": 3.0,  # and up to three more, by the share of the request that is missing
    "node-affinity": 4.0,
    "ports": 4.0,
    "pod-anti-affinity": 5.0,
    "pod-affinity": 5.0,
}


@dataclass(frozen=True)
class _Candidate:
    """A rejected node with the reasons against it, and the cost of the changes that answer them."""

    cost: float
    slot: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class FoundChange:
    """A draft that fits on a node, by the node's name."""

    node: str
    draft: Draft


@dataclass(frozen=True)
class _Remembered:
    """What a search found for a template, and the generation of the nodes it searched; None if time cut it short."""

    found: Sequence[FoundChange]
    generation: int | None


def suggest(framework: Framework, pod: PodInfo, nodes: NodeColumns, result: CycleResult) -> tuple[Suggestion, ...]:
    """Return the suggestions for a rejected pod, the smallest first; () for a pod that was placed."""
    return tuple(build_suggestion(framework, hit) for hit in find_changes(framework, pod, nodes, result))


def find_changes(framework: Framework, pod: PodInfo, nodes: NodeColumns, result: CycleResult) -> list[FoundChange]:
    """Return what `suggest` returns, with the changed spec of the pod."""
    return _search(framework, pod, nodes, result, lambda: True)


class Suggester:
    """Finds the changes after which a rejected pod would fit, in at most a share of the scheduler's time.

    Pods of one template that were rejected with the same message share what was found on the same nodes. After a change
    of the nodes it is searched anew, so that equal facts have equal suggestions, unless the time left is scarce.
    """

    def __init__(self, clock: Callable[[], float], share: float = SHARE, burst_s: float = BURST_S) -> None:
        """Start with the whole burst unspent. `clock` returns monotonic seconds."""
        self._clock, self._share, self._burst_s = clock, share, burst_s
        self._credit_s, self._credited_at = burst_s, clock()
        self._remembered: Lru[Hashable, _Remembered] = Lru(MAX_TEMPLATES)

    def suggest(
        self,
        framework: Framework,
        pod: PodInfo,
        nodes: NodeColumns,
        result: CycleResult,
        waiting: Iterable[PodInfo] = (),
    ) -> tuple[Suggestion, ...]:
        """Return the suggestions for a rejected pod, the smallest first.

        They are not checked, and may be missing, if the share of the time is spent. Of the pods `waiting` in the
        queue, those that a suggestion helps too are counted while there is time.
        """
        if result.chosen is not None or result.path is DecisionPath.ERROR:
            return ()
        started = self._clock()
        self._credit_s = min(self._burst_s, self._credit_s + self._share * (started - self._credited_at))
        self._credited_at, end = started, started + self._credit_s
        key = (framework.profile.scheduler_name, find_template(pod), result.message)
        remembered = self._remembered.get(key)
        if self._credit_s <= 0:
            return tuple(
                build_suggestion(framework, hit, is_checked=False) for hit in (remembered.found if remembered else ())
            )
        if remembered is None or not self._is_valid(remembered, framework, pod, nodes):
            has_time = self._has_time(end)
            found = _search(framework, pod, nodes, result, has_time)
            remembered = _Remembered(found, nodes.generation if has_time() else None)
            self._remembered.put(key, remembered)
        others = list_unschedulable(waiting, pod) if remembered.found else []
        helped = [
            count_helped(framework, Place(pod, nodes, nodes.index[hit.node]), hit.draft, others, self._has_time(end))
            if hit.node
            else 0
            for hit in remembered.found
        ]
        self._credit_s -= self._clock() - started
        return tuple(
            replace(build_suggestion(framework, hit), helps=count)
            for hit, count in zip(remembered.found, helped, strict=True)
        )

    def _is_valid(self, remembered: _Remembered, framework: Framework, pod: PodInfo, nodes: NodeColumns) -> bool:
        """Return whether what was found still fits, and is what a search would find now or there is little time."""
        is_scarce = self._credit_s < self._burst_s * _SCARCE
        is_of_now = remembered.generation == nodes.generation
        return (is_of_now or is_scarce) and _still_fit(framework, pod, nodes, remembered.found)

    def _has_time(self, end: float) -> Callable[[], bool]:
        return lambda: self._clock() < end


def find_smallest_change(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, slot: int, rejections: Sequence[Reason]
) -> Suggestion | None:
    """Return the changes of the pod after which it fits on the node in this slot, or None if none are known.

    `rejections` are the reasons of all filters against that node, as `find_rejections` returns them. No change of the
    node is suggested.
    """
    if not rejections or not all(map(has_change, rejections)):
        return None
    draft = _answer(framework, Place(pod, nodes, slot), Draft(pod.pod.spec, {}), rejections)
    if draft is None or not draft.changes or any(change.code in CHANGES_OF_NODES for change in draft.changes):
        return None
    return build_suggestion(framework, FoundChange(nodes.names[slot], draft))


def build_suggestion(framework: Framework, hit: FoundChange, *, is_checked: bool = True) -> Suggestion:
    """Return the record of a suggestion. Extenders are not asked, so with them no suggestion is checked."""
    patch = msgspec.json.encode(hit.draft.patch).decode() if hit.draft.patch else ""
    checked = is_checked and hit.draft.is_exact and not framework.extenders.filter
    return Suggestion(hit.node, hit.draft.changes, patch, checked)


def _still_fit(framework: Framework, pod: PodInfo, nodes: NodeColumns, remembered: Sequence[FoundChange]) -> bool:
    for hit in remembered:
        if not hit.node:  # a node that does not exist yet
            continue
        slot = nodes.index.get(hit.node)
        if slot is None or not nodes.live[slot]:
            return False
        checked = _check(framework, Place(pod, nodes, slot), hit.draft)
        if checked is None or checked.changes != hit.draft.changes:
            return False
    return any(hit.node for hit in remembered)


def _check(framework: Framework, place: Place, draft: Draft) -> Draft | None:
    """Return the draft if the pod with its changes fits on the node, or will when other pods have left it, else None.

    A draft after which pods leave is returned with their names.
    """
    changed, leaving = change_spec(place.pod, draft.spec), list_leaving_pods(place, draft)
    if has_preemption(draft):
        victims = find_victims(framework, changed, place.nodes, place.slot)
        return name_leaving(draft, victims) if victims else None
    if leaving:
        fits = fits_without(framework, changed, place.nodes, place.slot, {place.slot: leaving})
        return name_leaving(draft, leaving) if fits else None
    return draft if find_rejections(framework, changed, place.nodes, place.slot) is None else None


def _search(
    framework: Framework, pod: PodInfo, nodes: NodeColumns, result: CycleResult, has_time: Callable[[], bool]
) -> list[FoundChange]:
    """Return the drafts that fit, at most one for each set of kinds of changes, the cheapest first.

    None is sought for a large pod, because each change and each check takes time by the size of its spec
    and the number of its terms.
    """
    if result.chosen is not None or result.path is DecisionPath.ERROR:
        return []
    if pod.is_large or pod.has_many_terms(nodes.slots):
        return []
    hits: dict[frozenset[str], FoundChange] = {}

    def add(place: Place, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            kinds = frozenset(change.code for change in draft.changes)
            kinds |= {_LOST} if _loses_hardware(draft) else set()
            if draft.changes and not any(smaller <= kinds for smaller in hits):
                hits[kinds] = FoundChange(nodes.names[place.slot], draft)

    candidates = _list_candidates(pod, nodes, result.trace) or _list_other_nodes(pod, nodes)
    for candidate in candidates[:MAX_NODES]:
        if not has_time():
            break
        place = Place(pod, nodes, candidate.slot)
        add(place, _drafts(framework, place, candidate))
    for place in list_places(pod, nodes, result.trace):
        if not has_time():
            break
        checked = (_check(framework, place, draft) for draft in draft_departures(place, result.trace))
        add(place, [draft for draft in checked if draft is not None])
    found = [hit for kinds, hit in hits.items() if not any(other < kinds for other in hits)]
    found += [FoundChange("", draft) for draft in draft_new_nodes(framework, pod, nodes, result.trace)]
    return sorted(found, key=_rank)[:MAX_SUGGESTIONS]


def _rank(hit: FoundChange) -> tuple[float, int]:
    """Return the sort key of a suggestion by its risk and cost."""
    changes = hit.draft.changes
    loss = _RANKS[_LOST] if _loses_hardware(hit.draft) else 0.0
    return sum(_RANKS[_ROLE if _gives_role(change) else change.code] for change in changes) + loss, len(changes)


def _gives_role(change: Reason) -> bool:
    return change.code == "label-node" and names_role(change.params["key"])


def is_last_resort(draft: Draft) -> bool:
    """Return whether the draft is no advice as long as something else helps."""
    return _loses_hardware(draft) or any(_RANKS[change.code] >= _LAST_RESORT for change in draft.changes)


def _loses_hardware(draft: Draft) -> bool:
    """Return whether the node lacks hardware that the nodes which the pod selects have."""
    return any(_LOST in change.params for change in draft.changes)


def _drafts(framework: Framework, place: Place, candidate: _Candidate) -> list[Draft]:
    """Return the changes of the pod with which it fits on the node, and the labels of the node in their place."""
    drafts = []
    for preferred in range(count_answers(candidate.reasons)):
        changed = _answer(framework, place, Draft(place.pod.pod.spec, {}), candidate.reasons, preferred)
        if changed is not None:
            drafts.append(changed)
    if any(reason.code == "node-affinity" for reason in candidate.reasons):
        labelled = label_node(place)
        others = [reason for reason in candidate.reasons if reason.code != "node-affinity"]
        answered = _answer(framework, place, labelled, others) if labelled is not None else None
        if answered is not None:
            drafts.append(answered)
    return drafts


def _answer(
    framework: Framework, place: Place, draft: Draft, reasons: Sequence[Reason], preferred: int = 0
) -> Draft | None:
    """Return the draft with changes that answer all reasons, and those that show then; None if some have no answer.

    `preferred` is the index of the answer that is tried first for each reason.
    """
    for _ in range(MAX_ROUNDS):
        before = draft
        for reason in reasons:
            changed = find_change(draft, reason, place, preferred)
            if changed is None:
                return None
            draft = changed
        rejections = find_rejections(framework, change_spec(place.pod, draft.spec), place.nodes, place.slot)
        if rejections is None:
            return draft
        if not rejections or (draft is before and reasons):
            return None
        reasons = rejections
    return None


def _list_candidates(pod: PodInfo, nodes: NodeColumns, trace: Trace) -> list[_Candidate]:
    """Return the nearest node of each combination of verdicts that changes may answer, the cheapest first."""
    slots = np.flatnonzero(trace.evaluated & (trace.codes != 0) & nodes.live)
    columns = [run.verdicts for run in trace.filters if run.verdicts.ids is not None]
    if not len(slots) or not columns:
        return []
    ids = np.stack([column.ids[slots] for column in columns if column.ids is not None])
    ways, group_of = np.unique(ids, axis=1, return_inverse=True)
    missing = _missing_shares(pod, nodes)[slots]
    candidates = []
    for number, way in enumerate(ways.T.tolist()):
        reasons = tuple(
            reason
            for column, verdict in zip(columns, way, strict=True)
            if column.table[verdict].rejects_node
            for reason in column.table[verdict].reasons
        )
        if not reasons or not all(map(has_change, reasons)):
            continue
        members = np.flatnonzero(group_of.ravel() == number)
        member = _nearest(
            pod, nodes, slots, members[np.argsort(missing[members], kind="stable")][:MAX_COMPARED], missing
        )
        short = sum(3 * max(0.0, float(missing[member])) for reason in reasons if reason.code == "insufficient")
        cost = sum(_COSTS[reason.code] for reason in _without_cordon_taint(reasons)) + short
        candidates.append(_Candidate(cost, int(slots[member]), reasons))
    return sorted(candidates, key=lambda c: (c.cost, natural_sort_key(nodes.names[c.slot])))


def _list_other_nodes(pod: PodInfo, nodes: NodeColumns) -> list[_Candidate]:
    """Return nodes with most free for a pod whose terms name only nodes that do not exist; [] for other pods."""
    terms = list_required_terms(pod.pod.spec)
    named = [value for term in terms for field in term.match_fields or () for value in field.values or ()]
    all_name_nodes = bool(terms) and all(term.match_fields for term in terms)
    if pod.pod.is_of_daemon_set or not all_name_nodes or any(name in nodes.index for name in named):
        return []
    missing = _missing_shares(pod, nodes)
    slots = np.flatnonzero(nodes.live)
    nearest = slots[np.argsort(missing[slots], kind="stable")][:MAX_NODES].tolist()
    return [_Candidate(_COSTS["node-affinity"], slot, (Reason("node-affinity"),)) for slot in nearest]


def _without_cordon_taint(reasons: Sequence[Reason]) -> list[Reason]:
    """Return the reasons without the taint of a cordoned node, which goes when the node is uncordoned."""
    is_cordoned = any(reason.code == "unschedulable" for reason in reasons)
    return [r for r in reasons if not (is_cordoned and r.params.get("key") == UNSCHEDULABLE.key)]


def _nearest(
    pod: PodInfo, nodes: NodeColumns, slots: NDArray[np.intp], members: NDArray[np.intp], missing: NDArray[np.float64]
) -> int:
    """Return the member whose node meets most of the pod's node selector, then has most free, then is first by name.

    `members` are indices into `slots`, the node slots, and `missing`, the shares of the request that are missing there.
    """

    def distance(member: int) -> tuple[int, float, int, object]:
        slot = int(slots[member])
        unmet = count_unmet_requirements(Place(pod, nodes, slot)) if selects else 0
        lacking = sum(nodes.allocatable(resource)[slot] < pod.requests[resource] for resource in known)
        return unmet, float(missing[member]), int(lacking), natural_sort_key(nodes.names[slot])

    selects = bool(pod.pod.spec.node_selector or pod.pod.spec.affinity)
    wanted = [resource for resource, amount in pod.requests.items() if amount > 0]
    known = set(wanted) - set(nodes.list_unknown_resources(wanted))
    nearest: int = min(members.tolist(), key=distance)
    return nearest


def _missing_shares(pod: PodInfo, nodes: NodeColumns) -> NDArray[np.float64]:
    """Return, by node slot, the largest share of a request that is not free on the node; at most 0 if all is."""
    wanted = {resource: amount for resource, amount in pod.requests.items() if amount > 0}
    if not wanted:
        return np.zeros(nodes.slots)
    unknown = set(nodes.list_unknown_resources(wanted))
    missing = np.full(nodes.slots, 1.0 if unknown else -np.inf)
    for resource in wanted.keys() - unknown:
        free = nodes.allocatable(resource) - nodes.requested(resource)
        np.maximum(missing, (wanted[resource] - free) / wanted[resource], out=missing)
    return missing
