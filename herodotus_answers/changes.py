"""Compare two decisions: of one pod at two times, or of two pods.

Owns: the differences in the pod, the cluster and the filters' verdicts, as values with a sentence each. Does not own:
the documents that contain them (`pod_history`, `comparison`).

Nodes are compared by name, because two decisions may be of two incarnations, whose slots differ.

Invariant: every difference follows from what both decisions recorded. Nodes that a difference does not name are
counted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Protocol, TypedDict

from herodotus_answers.declare import NotRequired
from herodotus_answers.explain import find_first_rejections
from herodotus_answers.pruned import describe_kept
from herodotus_record.model import Decision, Evaluation, NodeTable, Outcome
from herodotus_record.units import format_available, format_requested, natural_sort_key, pluralize

MAX_NAMED = 5  # nodes that one difference names; the others are counted
FITS = ""  # in place of the name of the rejecting filter: the node is feasible
NOT_EVALUATED = "(not looked at)"
POD, VERDICT, CLUSTER = "pod", "verdict", "cluster"  # what a difference is of


class Difference(TypedDict):
    """A difference between two decisions."""

    what: Annotated[
        str,
        "What differs: requests, priority, pod, nominated, scheduler, nodes-added, nodes-removed, looked-at,"
        " not-looked-at, fits, does-not-fit, other-filter, room, or pruned if nodes cannot be compared.",
    ]
    about: Annotated[
        str, "What it is a difference of: pod, verdict, or cluster if the cluster changed between the two decisions."
    ]
    text: Annotated[str, "The difference as a sentence."]
    resource: NotRequired[Annotated[str, "Resource whose amount differs."]]
    before: NotRequired[
        Annotated[int, "Former amount, in base units (millicores, bytes or pieces), or former priority."]
    ]
    after: NotRequired[Annotated[int, "Later amount, in base units, or later priority."]]
    node: NotRequired[Annotated[str, "Node that is nominated."]]
    nodes: NotRequired[Annotated[list[str], "Names of the first nodes with the difference."]]
    count: NotRequired[Annotated[int, "Number of nodes with the difference."]]
    filter: NotRequired[Annotated[str | None, "Filter whose verdict differs; null if the nodes fit."]]


class RecordedDecision(Protocol):
    """A decision together with its outcomes and the node table as it was at the decision's snapshot."""

    @property
    def decision(self) -> Decision:
        """Return the decision of the attempt that this record describes."""
        ...

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Return the outcomes that have been recorded for the decision so far."""
        ...

    @property
    def table(self) -> NodeTable:
        """Return the node table (names and resources by node slot) as it was at the decision's snapshot."""
        ...


def compare_decisions(
    before: RecordedDecision, after: RecordedDecision, names: tuple[str, str] | None = None
) -> list[Difference]:
    """Return the differences between two decisions as JSON objects, each with a sentence.

    They are in this order: the pod's fields, added and removed nodes, filter verdicts, free resources. If one of the
    records was pruned, nodes cannot be compared, and the last entry says so. `names` are those of the two pods if the
    decisions are about two: their verdicts differ then, and nothing has changed from one to the other.
    """
    lost = describe_kept(before.decision) or describe_kept(after.decision)
    if lost:
        what = f"which nodes came, went or were judged differently is not known: {lost}"
        pruned: Difference = {"what": "pruned", "about": CLUSTER, "text": what}
        return [*_compare_pods(before.decision, after.decision, names), pruned]
    there, here = classify_nodes(before), classify_nodes(after)
    return [
        *_compare_pods(before.decision, after.decision, names),
        *_compare_node_sets("nodes-added", here.keys() - there.keys(), "new"),
        *_compare_node_sets("nodes-removed", there.keys() - here.keys(), "gone"),
        *_compare_verdicts(there, here, names),
        *_compare_free(before, after),
    ]


def classify_nodes(recorded: RecordedDecision) -> dict[str, str]:
    """Return, by node name, the filter that rejected the node first, FITS if none did, or NOT_EVALUATED."""
    d, names = recorded.decision, recorded.table.names
    classes = {
        names[slot]: FITS if evaluation == Evaluation.EVALUATED else NOT_EVALUATED
        for slot, evaluation in enumerate(d.evaluation)
        if evaluation != Evaluation.ABSENT
    }
    for (position, _), slots in find_first_rejections(d).items():
        classes.update({names[slot]: d.filters[position].plugin for slot in slots})
    return classes


def _compare_pods(before: Decision, after: Decision, names: tuple[str, str] | None) -> list[Difference]:
    then, now = before.pod, after.pod
    differences = list[Difference]()
    for resource in sorted(then.requests.keys() | now.requests.keys()):
        was, has = then.requests.get(resource, 0), now.requests.get(resource, 0)
        if was != has:
            text = f"requests {resource} {format_requested(resource, was)} → {format_requested(resource, has)}"
            differences.append(_of_pod("requests", text) | {"resource": resource, "before": was, "after": has})
    if then.priority != now.priority:
        text = f"priority {then.priority} → {now.priority}"
        differences.append(_of_pod("priority", text) | {"before": then.priority, "after": now.priority})
    if then.digest != now.digest and not differences:
        differences.append(_of_pod("pod", "labels, affinity or other fields that scheduling reads"))
    nominated = [(now.nominated_node, "")]
    if names:
        nominated = [(then.nominated_node, f" for {names[0]}"), (now.nominated_node, f" for {names[1]}")]
    for node, pod in nominated:
        if node and then.nominated_node != now.nominated_node:
            text = f"{node} is nominated{pod}: pods were evicted there"
            differences.append(_of_pod("nominated", text) | {"node": node})
    if before.key.incarnation != after.key.incarnation:
        differences.append({"what": "scheduler", "about": CLUSTER, "text": "another scheduler process"})
    return differences


def _compare_node_sets(what: str, names: Iterable[str], word: str) -> list[Difference]:
    every = sorted(names, key=natural_sort_key)
    text = f"{join_names(every)} {'is' if len(every) == 1 else 'are'} {word}"
    return [_of_nodes(what, CLUSTER, every, text)] if every else []


def _compare_verdicts(
    there: Mapping[str, str], here: Mapping[str, str], pods: tuple[str, str] | None
) -> list[Difference]:
    """Return the differences of nodes that the other decision judged differently: another filter, feasible or not.

    `there` and `here` are results of `classify_nodes`, before and after. Nodes with the same difference form one entry.
    `pods` are the names of the pods if they are two.
    """
    moved: dict[tuple[str, str], list[str]] = {}
    for name in sorted(there.keys() & here.keys(), key=natural_sort_key):
        if there[name] != here[name]:
            moved.setdefault((there[name], here[name]), []).append(name)
    largest = sorted(moved.items(), key=lambda m: (m[0][1] != FITS, m[0][0] != FITS, -len(m[1])))
    describe = partial(_describe_two_pods, pods) if pods else _describe_change
    return [
        _of_nodes(_name_difference(was, now), VERDICT, names, describe(was, now, names))
        | {"filter": was if now == FITS and was != NOT_EVALUATED else now or None}
        for (was, now), names in largest
    ]


def _name_difference(was: str, now: str) -> str:
    if NOT_EVALUATED in (was, now):
        return "looked-at" if was == NOT_EVALUATED else "not-looked-at"
    return "fits" if now == FITS else "does-not-fit" if was == FITS else "other-filter"


def _describe_change(was: str, now: str, names: Sequence[str]) -> str:
    """Return what changed for nodes between two decisions about one pod."""
    which = join_names(names)
    s, were = ("s", "was") if len(names) == 1 else ("", "were")
    if now == NOT_EVALUATED:
        return f"{which} {were} no longer evaluated"
    if was == NOT_EVALUATED:
        return f"{which} {were} evaluated: {f'fit{s}' if now == FITS else f'rejected by {now}'}"
    if now == FITS:
        return f"{which} fit{s} now, no longer rejected by {was}"
    return f"{which} fit{s} no more: {now}" if was == FITS else f"{which}: rejected by {now}, before by {was}"


def _describe_two_pods(pods: tuple[str, str], was: str, now: str, names: Sequence[str]) -> str:
    """Return how nodes were judged for each of two pods."""
    fit = "fits" if len(names) == 1 else "fit"
    if NOT_EVALUATED in (was, now):
        (pod, verdict), other = ((pods[1], now), pods[0]) if was == NOT_EVALUATED else ((pods[0], was), pods[1])
        judged = f"{fit} {pod}" if verdict == FITS else f"{verdict} rejects {pod}"
        return f"{join_names(names)}: {judged}, not evaluated for {other}"
    if FITS in (was, now):
        fitting, rejected = pods if was == FITS else pods[::-1]
        return f"{join_names(names)}: {fit} {fitting}, not {rejected} ({was or now})"
    return f"{join_names(names)}: {was} rejects {pods[0]}, {now} rejects {pods[1]}"


def _compare_free(before: RecordedDecision, after: RecordedDecision) -> list[Difference]:
    """Return how the largest free amount on any node that is open to the pod changed, for each resource it requests.

    A node is open if no filter rejected it first for another reason than amounts: the room on a node whose taint is not
    tolerated changes nothing for the pod. Nodes that one of the decisions did not evaluate do not count. A resource is
    left out if a node had enough of it both before and after.
    """
    differences = list[Difference]()
    skipped = _list_not_evaluated(before) | _list_not_evaluated(after)
    for resource, requested in sorted(after.decision.pod.requests.items()):
        then, now = _find_most_free(before, resource, skipped), _find_most_free(after, resource, skipped)
        if then and now and then[0] != now[0] and min(then[0], now[0]) < requested:
            was, has = (format_available(resource, amount) for amount, _ in (then, now))
            of = f" ({then[1]})" if then[1] != now[1] else ""
            text = f"largest free {resource} on a node: {was}{of} → {has} ({now[1]})"
            differences.append(
                _of_nodes("room", CLUSTER, [now[1]], text) | {"resource": resource, "before": then[0], "after": now[0]}
            )
    return differences


def _list_not_evaluated(recorded: RecordedDecision) -> set[str]:
    """Return the names of the nodes that were in the cluster and were not evaluated."""
    ran = (Evaluation.EVALUATED, Evaluation.ABSENT)
    return {recorded.table.names[slot] for slot, each in enumerate(recorded.decision.evaluation) if each not in ran}


def _find_most_free(recorded: RecordedDecision, resource: str, skipped: Container[str]) -> tuple[int, str] | None:
    """Return the largest free amount on the nodes that are open to the pod, and the node's name; None without nodes."""
    names, d = recorded.table.names, recorded.decision
    closed = {
        slot
        for (position, number), slots in find_first_rejections(d).items()
        if all(reason.code != "insufficient" for reason in d.filters[position].verdicts[number].reasons)
        for slot in slots
    }
    evaluated = (slot for slot, e in enumerate(d.evaluation) if e == Evaluation.EVALUATED and slot not in closed)
    slots = [slot for slot in evaluated if names[slot] not in skipped]
    if not slots:
        return None
    best = max(slots, key=lambda slot: recorded.table.free(slot, resource))
    return recorded.table.free(best, resource), names[best]


def _of_pod(what: str, text: str) -> Difference:
    return {"what": what, "about": POD, "text": text}


def _of_nodes(what: str, about: str, names: Sequence[str], text: str) -> Difference:
    return {"what": what, "about": about, "nodes": list(names[:MAX_NAMED]), "count": len(names), "text": text}


def join_names(names: Sequence[str]) -> str:
    """Return node names as text for a sentence: all of them if they are few, else their number and the first two."""
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    return f"{pluralize(len(names), 'node')} ({', '.join(names[:2])}, …)"
