"""Compare two decisions: of one pod at two times, or of two pods.

Owns: the differences in the pod, the cluster and the filters' verdicts, as values with a sentence each. Does not own:
the documents that contain them (`pod_history`, `comparison`).

Nodes are compared by name, because two decisions may be of two incarnations, whose slots differ.

Invariant: every difference follows from what both decisions recorded. Nodes that a difference does not name are
counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol, TypedDict

from herodotus_answers.declare import NotRequired
from herodotus_answers.explain import find_first_rejections
from herodotus_answers.pruned import describe_kept
from herodotus_record.model import Decision, Evaluation, NodeTable, Outcome
from herodotus_record.units import format_available, format_requested, natural_sort_key, pluralize

MAX_NAMED = 5  # nodes that one difference names; the others are counted
FITS = ""  # in place of the name of the rejecting filter: the node is feasible
NOT_EVALUATED = "(not looked at)"


class Difference(TypedDict):
    """A difference between two decisions."""

    what: Annotated[
        str,
        "What differs: requests, priority, pod, nominated, scheduler, nodes-added, nodes-removed, looked-at,"
        " not-looked-at, fits, does-not-fit, other-filter, room, or pruned if nodes cannot be compared.",
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


def compare_decisions(before: RecordedDecision, after: RecordedDecision) -> list[Difference]:
    """Return the differences between two decisions as JSON objects, each with a sentence.

    They are in this order: the pod's fields, added and removed nodes, filter verdicts, free resources. If one of the
    records was pruned, nodes cannot be compared, and the last entry says so.
    """
    lost = describe_kept(before.decision) or describe_kept(after.decision)
    if lost:
        what = f"which nodes came, went or were judged differently is not known: {lost}"
        return [*_compare_pods(before.decision, after.decision), {"what": "pruned", "text": what}]
    there, here = classify_nodes(before), classify_nodes(after)
    return [
        *_compare_pods(before.decision, after.decision),
        *_compare_node_sets("nodes-added", here.keys() - there.keys(), "new"),
        *_compare_node_sets("nodes-removed", there.keys() - here.keys(), "gone"),
        *_compare_verdicts(there, here),
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


def _compare_pods(before: Decision, after: Decision) -> list[Difference]:
    then, now = before.pod, after.pod
    differences = list[Difference]()
    for resource in sorted(then.requests.keys() | now.requests.keys()):
        was, has = then.requests.get(resource, 0), now.requests.get(resource, 0)
        if was != has:
            text = f"requests {resource} {format_requested(resource, was)} → {format_requested(resource, has)}"
            differences.append({"what": "requests", "resource": resource, "before": was, "after": has, "text": text})
    if then.priority != now.priority:
        text = f"priority {then.priority} → {now.priority}"
        differences.append({"what": "priority", "before": then.priority, "after": now.priority, "text": text})
    if then.digest != now.digest and not differences:
        differences.append({"what": "pod", "text": "labels, affinity or other fields that scheduling reads"})
    if then.nominated_node != now.nominated_node and now.nominated_node:
        text = f"{now.nominated_node} is nominated: pods were evicted there"
        differences.append({"what": "nominated", "node": now.nominated_node, "text": text})
    if before.key.incarnation != after.key.incarnation:
        differences.append({"what": "scheduler", "text": "another scheduler process"})
    return differences


def _compare_node_sets(what: str, names: Iterable[str], word: str) -> list[Difference]:
    every = sorted(names, key=natural_sort_key)
    return (
        [_node_change(what, every, f"{join_names(every)} {'is' if len(every) == 1 else 'are'} {word}")] if every else []
    )


def _compare_verdicts(there: Mapping[str, str], here: Mapping[str, str]) -> list[Difference]:
    """Return the changes of nodes that another filter rejects first than before, or that became feasible or infeasible.

    `there` and `here` are results of `classify_nodes`, before and after. Nodes with the same change form one entry.
    """
    moved: dict[tuple[str, str], list[str]] = {}
    for name in sorted(there.keys() & here.keys(), key=natural_sort_key):
        if there[name] != here[name]:
            moved.setdefault((there[name], here[name]), []).append(name)
    largest = sorted(moved.items(), key=lambda m: (m[0][1] != FITS, m[0][0] != FITS, -len(m[1])))
    return [_verdict_change(was, now, names) for (was, now), names in largest]


def _verdict_change(was: str, now: str, names: Sequence[str]) -> Difference:
    which = join_names(names)
    s, were = ("s", "was") if len(names) == 1 else ("", "were")
    if NOT_EVALUATED in (was, now):
        change = f"fit{s}" if FITS in (was, now) else f"rejected by {was if now == NOT_EVALUATED else now}"
        text = f"{which} {were} evaluated: {change}" if was == NOT_EVALUATED else f"{which} {were} no longer evaluated"
        what = "looked-at" if was == NOT_EVALUATED else "not-looked-at"
        return _node_change(what, names, text) | {"filter": now or None}
    if now == FITS:
        return _node_change("fits", names, f"{which} fit{s} now, no longer rejected by {was}") | {"filter": was}
    if was == FITS:
        return _node_change("does-not-fit", names, f"{which} fit{s} no more: {now}") | {"filter": now}
    return _node_change("other-filter", names, f"{which}: {now} where it was {was}") | {"filter": now}


def _compare_free(before: RecordedDecision, after: RecordedDecision) -> list[Difference]:
    """Return how the largest free amount on any node changed, for each resource that the pod requests.

    A resource is left out if a node had enough of it both before and after.
    """
    differences = list[Difference]()
    for resource, requested in sorted(after.decision.pod.requests.items()):
        then, now = _find_most_free(before, resource), _find_most_free(after, resource)
        if then and now and then[0] != now[0] and min(then[0], now[0]) < requested:
            amounts = f"{format_available(resource, then[0])} → {format_available(resource, now[0])}"
            text = f"most {resource} free on a node: {amounts} ({now[1]})"
            differences.append(
                {
                    "what": "room",
                    "resource": resource,
                    "before": then[0],
                    "after": now[0],
                    "nodes": [now[1]],
                    "count": 1,
                    "text": text,
                }
            )
    return differences


def _find_most_free(recorded: RecordedDecision, resource: str) -> tuple[int, str] | None:
    slots = [slot for slot, e in enumerate(recorded.decision.evaluation) if e == Evaluation.EVALUATED]
    if not slots:
        return None
    best = max(slots, key=lambda slot: recorded.table.free(slot, resource))
    return recorded.table.free(best, resource), recorded.table.names[best]


def _node_change(what: str, names: Sequence[str], text: str) -> Difference:
    return {"what": what, "nodes": list(names[:MAX_NAMED]), "count": len(names), "text": text}


def join_names(names: Sequence[str]) -> str:
    """Return node names as text for a sentence: all of them if they are few, else their number and the first two."""
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    return f"{pluralize(len(names), 'node')} ({', '.join(names[:2])}, …)"
