"""What is different between two decisions: of one pod at two times, or of two pods.

Owns: the differences in the pod, in the cluster and in the filters' verdicts, as values with a sentence each. Does not
own: the documents that hold them (`histories`, `comparisons`).

Nodes are compared by name: two decisions may be of two incarnations, whose slots mean different nodes.

Invariant: a difference that is told follows from what both decisions recorded; nodes that are not named are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from herodotus_record.explain import first_rejections
from herodotus_record.model import Decision, Evaluation, NodeTable, Outcome
from herodotus_record.one_node import count
from herodotus_record.pruned import kept
from herodotus_record.units import natural_key, quantity

Json = dict[str, Any]

NAMED = 5  # nodes named for one difference; the rest is counted
FITS = ""  # where a filter's name stands for who turned the node away
NOT_LOOKED_AT = "(not looked at)"


class Recorded(Protocol):
    """A decision with what belongs to it; `table` at the decision's generation."""

    @property
    def decision(self) -> Decision:
        """What was decided."""
        ...

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What became of it."""
        ...

    @property
    def table(self) -> NodeTable:
        """The nodes that it saw."""
        ...


def changes(before: Recorded, after: Recorded) -> list[Json]:
    """Every difference, what the pod asks for first, then nodes that came and went, then verdicts, then room.

    Where one of the records was pruned nodes cannot be compared, and the last entry says so.
    """
    lost = kept(before.decision) or kept(after.decision)
    if lost:
        what = f"which nodes came, went or were judged differently is not known: {lost}"
        return [*_of_the_pod(before.decision, after.decision), {"what": "pruned", "text": what}]
    there, here = standings(before), standings(after)
    return [
        *_of_the_pod(before.decision, after.decision),
        *_nodes("nodes-added", here.keys() - there.keys(), "new"),
        *_nodes("nodes-removed", there.keys() - here.keys(), "gone"),
        *_verdicts(there, here),
        *_room(before, after),
    ]


def standings(of: Recorded) -> dict[str, str]:
    """Every node of the cluster: the filter that turned it away first, FITS, or NOT_LOOKED_AT."""
    d, names = of.decision, of.table.names
    found = {
        names[slot]: FITS if evaluation == Evaluation.EVALUATED else NOT_LOOKED_AT
        for slot, evaluation in enumerate(d.evaluation)
        if evaluation != Evaluation.ABSENT
    }
    for (position, _), slots in first_rejections(d).items():
        found.update({names[slot]: d.filters[position].plugin for slot in slots})
    return found


def _of_the_pod(before: Decision, after: Decision) -> list[Json]:
    then, now = before.pod, after.pod
    found = []
    for resource in sorted(then.requests.keys() | now.requests.keys()):
        was, has = then.requests.get(resource, 0), now.requests.get(resource, 0)
        if was != has:
            said = f"requests {resource} {quantity(resource, was)} → {quantity(resource, has)}"
            found.append({"what": "requests", "resource": resource, "before": was, "after": has, "text": said})
    if then.priority != now.priority:
        said = f"priority {then.priority} → {now.priority}"
        found.append({"what": "priority", "before": then.priority, "after": now.priority, "text": said})
    if then.digest != now.digest and not found:
        found.append({"what": "pod", "text": "what scheduling reads of the pod is different (labels, affinity, …)"})
    if then.nominated_node != now.nominated_node and now.nominated_node:
        said = f"{now.nominated_node} is nominated: pods were evicted there"
        found.append({"what": "nominated", "node": now.nominated_node, "text": said})
    if before.key.incarnation != after.key.incarnation:
        found.append({"what": "scheduler", "text": "another scheduler process"})
    return found


def _nodes(what: str, names: Iterable[str], word: str) -> list[Json]:
    every = sorted(names, key=natural_key)
    return [_change(what, every, f"{named(every)} {'is' if len(every) == 1 else 'are'} {word}")] if every else []


def _verdicts(there: Mapping[str, str], here: Mapping[str, str]) -> list[Json]:
    """Nodes of both whose first verdict differs, together where it went from the same to the same."""
    moved: dict[tuple[str, str], list[str]] = {}
    for name in sorted(there.keys() & here.keys(), key=natural_key):
        if there[name] != here[name]:
            moved.setdefault((there[name], here[name]), []).append(name)
    largest = sorted(moved.items(), key=lambda m: (m[0][1] != FITS, m[0][0] != FITS, -len(m[1])))
    return [_moved(was, now, names) for (was, now), names in largest]


def _moved(was: str, now: str, names: Sequence[str]) -> Json:
    which = named(names)
    s, were = ("s", "was") if len(names) == 1 else ("", "were")
    if NOT_LOOKED_AT in (was, now):
        known = f"fit{s}" if FITS in (was, now) else f"rejected by {was if now == NOT_LOOKED_AT else now}"
        text = (
            f"{which} {were} looked at: {known}" if was == NOT_LOOKED_AT else f"{which} {were} not looked at any more"
        )
        return _change("looked-at" if was == NOT_LOOKED_AT else "not-looked-at", names, text) | {"filter": now or None}
    if now == FITS:
        return _change("fits", names, f"{which} fit{s} now, no longer rejected by {was}") | {"filter": was}
    if was == FITS:
        return _change("does-not-fit", names, f"{which} fit{s} no more: {now}") | {"filter": now}
    return _change("other-filter", names, f"{which}: {now} where it was {was}") | {"filter": now}


def _room(before: Recorded, after: Recorded) -> list[Json]:
    """Of what the pod asks for and no node had: the most that was free on any node, then and now."""
    found = []
    for resource, asked in sorted(after.decision.pod.requests.items()):
        then, now = _most_free(before, resource), _most_free(after, resource)
        if then and now and then[0] != now[0] and min(then[0], now[0]) < asked:
            amounts = f"{quantity(resource, then[0])} → {quantity(resource, now[0])}"
            text = f"most {resource} free on a node: {amounts} ({now[1]})"
            found.append(
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
    return found


def _most_free(of: Recorded, resource: str) -> tuple[int, str] | None:
    slots = [slot for slot, e in enumerate(of.decision.evaluation) if e == Evaluation.EVALUATED]
    if not slots:
        return None
    best = max(slots, key=lambda slot: of.table.free(slot, resource))
    return of.table.free(best, resource), of.table.names[best]


def _change(what: str, names: Sequence[str], text: str) -> Json:
    return {"what": what, "nodes": list(names[:NAMED]), "count": len(names), "text": text}


def named(names: Sequence[str]) -> str:
    """The nodes of a sentence: all of them, or how many and the first."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{count(len(names), 'node')} ({', '.join(names[:2])}, …)"
