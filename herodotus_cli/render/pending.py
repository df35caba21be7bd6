"""The screen of `kubectl herodotus pending`: PendingPods -> blocks.

Owns: what the screen says. Does not own: grouping (`herodotus_record.pending`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.blocks import Block, Cell, Line, View, spaced, table
from herodotus_cli.render.words import ago, count, listed, until, when

Json = dict[str, Any]
_PODS = 20  # on a terminal, one by one; every pod when piped
_NAMED = 3  # of a group
_ROOMY = 100  # columns of a terminal that hold the queue too


def screen(answer: Json, view: View) -> list[Block]:
    """The reasons, most pods first; then the pods, the oldest first."""
    waiting = answer["count"] - answer["overdue"]
    late = answer["overdue"]
    overdue = f" {late} {'was' if late == 1 else 'were'} not tried again when due." if late else ""
    omitted = f" {answer['podsOmitted']} are not told here." if answer["podsOmitted"] else ""
    said = f"{count(waiting, 'pod')} {'is' if waiting == 1 else 'are'} pending.{overdue}{omitted}{_gone(answer, view)}"
    pods = answer["pods"]
    shown = pods if view.piped or view.wide else pods[:_PODS]
    left_out = len(pods) - len(shown)
    if not view.headers and view.piped:
        return [_pods(shown, view)] if shown else []
    sections: list[list[Block]] = [
        [Line(said, "strong")],
        [] if view.piped else [_groups(answer["groups"], view)],
        [_pods(shown, view)],
        [Line(f"… {count(left_out, 'more pod')}: -o wide", "dim")] if left_out else [],
        [] if view.piped else [Line("more: kubectl herodotus pod NAME why one of them is pending", "dim")],
    ]
    return spaced(sections)


def _gone(answer: Json, view: View) -> str:
    """Say which pods the service still counts although they were deleted or placed since."""
    gone = answer.get("gone") or []
    if not gone:
        return ""
    named = [f"{p['namespace']}/{p['pod']} (last tried {ago(p['startedAt'], view)})" for p in gone]
    verb = "waits" if len(gone) == 1 else "wait"
    return f" {len(gone)} {verb} no longer, deleted or placed since: {listed(named, _NAMED)}."


def _groups(groups: list[Json], view: View) -> Block:
    rows = []
    for g in groups:
        which = listed(g["pods"], _NAMED) if not g["podsOmitted"] else ", ".join([*g["pods"][:_NAMED], "…"])
        late = "not tried when it was due (no scheduler runs, or it was deleted); " if g["overdue"] else ""
        said = Cell(f"{late}{g['reason']}: {which}", "dim" if late else "")
        rows.append((Cell(str(g["count"])), Cell(when(g["oldestAt"], view) or "–"), said))
    return table(("PODS", "OLDEST", "MOST NODES SAY"), rows, right=(0,))


def _pods(pods: list[Json], view: View) -> Block:
    rows = []
    narrow = view.width is not None and view.width < _ROOMY
    for p in pods:
        since, tried = when(p["createdAt"], view) or "–", when(p["startedAt"], view) or "–"
        cells = [f"{p['namespace']}/{p['pod']}", since, tried, str(p["attempt"])]
        cells += [] if narrow else [p["queue"] or "–"]
        rows.append([*cells, next_try(p, view), *([p["reason"]] if view.piped or view.wide else [])])
    queue = [] if narrow else ["QUEUE"]
    header = ["POD", "AGE", "TRIED", "ATTEMPT", *queue, "NEXT TRY", *(["REASON"] if view.piped or view.wide else [])]
    return table(header, rows, right=(3,))


def next_try(pod: Json, view: View) -> str:
    """When a pod is tried again, as far as the record says: `in 8s`, or with what and by when."""
    if pod["notBefore"] is None:
        return "once its gates are removed" if pod["queue"] == "gated" else "–"
    if pod["overdue"]:
        return "overdue"
    earliest = until(pod["notBefore"], view.now)
    if pod["latest"] is None:
        return f"in {earliest}" if earliest else "now"
    after = f" after {earliest}," if earliest else ""
    return f"on an event{after} or in {until(pod['latest'], view.now) or '0s'}"
