"""The screen of `kubectl herodotus pending`: PendingPods -> blocks.

Owns: the content of the screen. Does not own: grouping (`herodotus_answers.pending`), drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herodotus_cli.render.formatting import (
    format_age_or_time,
    format_ago,
    format_count,
    format_time_until,
    join_limited,
    title_of_times,
)
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table, join_sections

if TYPE_CHECKING:
    from herodotus_answers.pending import ListedPendingPod, PendingGroup, PendingPods

_MAX_PODS = 20  # on a terminal, one by one; every pod when piped
_NAMED = 3  # of a group
_FATES = {
    "deleted": "deleted since",
    "replaced": "deleted since, and created again with the same name",
    "placed": "placed since",
    None: "deleted or placed since",
}
_ROOMY = 100  # columns of a terminal that hold the queue too


def build_screen(answer: PendingPods, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: reasons why pods are pending, most pods first, then the pods.

    `answer` has `live` applied (`herodotus_answers.pending.apply_live`).
    """
    count, late = answer["count"], answer["overdue"]
    overdue = f"; {'the retry' if late == 1 else 'the retries'} of {late} {'is' if late == 1 else 'are'} overdue"
    omitted = f" {answer['podsOmitted']} are not listed." if answer["podsOmitted"] else ""
    pending = f"{format_count(count, 'pod')} {'is' if count == 1 else 'are'} pending{overdue if late else ''}."
    sentence = f"{pending}{omitted}{_deleted_pods_sentence(answer, view)}"
    pods = answer["pods"]
    shown = pods if view.piped or view.wide else pods[:_MAX_PODS]
    left_out = len(pods) - len(shown)
    is_local = "source" in answer  # there are no attempts
    sections: list[list[Block]] = [
        [TextLine(sentence, "strong")],
        [] if view.piped or not view.headers else [_groups(answer["groups"], view)],
        [(_pods_without_attempts if is_local else _pods)(shown, view)] if shown else [],
        [TextLine(f"… {format_count(left_out, 'more pod')}: -o wide", "dim")] if left_out else [],
        [] if view.piped else [TextLine("more: kubectl herodotus pod NAME (why it is pending)", "dim")],
    ]
    return join_sections(sections)


def _deleted_pods_sentence(answer: PendingPods, view: ViewOptions) -> str:
    """Return a sentence on pods that have a record as pending but were deleted or placed since; "" if none."""
    sentences = ""
    for fate, words in _FATES.items():
        gone = [pod for pod in (answer["live"]["gone"] if "live" in answer else None) or () if pod["fate"] == fate]
        named = [f"{p['namespace']}/{p['pod']} (last tried {format_ago(p['startedAt'], view)})" for p in gone]
        sentences += f" {len(gone)} {words}: {join_limited(named, _NAMED)}." if gone else ""
    return sentences


def _groups(groups: list[PendingGroup], view: ViewOptions) -> Block:
    rows = []
    for g in groups:
        which = join_limited(g["pods"], _NAMED) if not g["podsOmitted"] else ", ".join([*g["pods"][:_NAMED], "…"])
        late = "overdue (the scheduler does not run, or the pod was deleted); " if g["overdue"] else ""
        name = f"PodGroup {g['podGroup']}: " if g.get("podGroup") else ""
        reason = Cell(f"{late}{name}{g['reason']}: {which}", "dim" if late else "")
        rows.append((Cell(str(g["count"])), Cell(format_age_or_time(g["oldestAt"], view) or "–"), reason))
        if fix := g.get("fix"):
            sure = "" if fix["checked"] else " (not checked)"
            of = f"{fix['pod']}: " if g["count"] > 1 else ""
            rows.append((Cell(""), Cell(""), Cell(f"FIX {of}{fix['text']}{sure}", "strong")))
    return build_table(("PODS", "OLDEST", "REASON"), rows, right=(0,))


def _pods_without_attempts(pods: list[ListedPendingPod], view: ViewOptions) -> Block:
    rows = [[f"{p['namespace']}/{p['pod']}", format_age_or_time(p["createdAt"], view) or "–", _reason(p)] for p in pods]
    return build_table(("POD", title_of_times(view), "REASON"), rows)


def _pods(pods: list[ListedPendingPod], view: ViewOptions) -> Block:
    rows = []
    narrow = view.width is not None and view.width < _ROOMY
    for p in pods:
        since, tried = format_age_or_time(p["createdAt"], view) or "–", format_age_or_time(p["startedAt"], view) or "–"
        cells = [f"{p['namespace']}/{p['pod']}", since, tried, str(p["attempt"])]
        cells += [] if narrow else [p["queue"] or "–"]
        rows.append([*cells, next_try(p, view), *([_reason(p)] if view.piped or view.wide else [])])
    queue = [] if narrow else ["QUEUE"]
    header = [
        "POD",
        title_of_times(view),
        "TRIED",
        "ATTEMPT",
        *queue,
        "NEXT TRY",
        *(["REASON"] if view.piped or view.wide else []),
    ]
    return build_table(header, rows, right=(3,))


def _reason(pod: ListedPendingPod) -> str:
    """Return the pod's reason, with the only nodes that it may use: a DaemonSet's pod has one."""
    only = ", ".join(pod.get("restrictedTo", ()))
    return f"{pod['reason']} ({only}, the only {'nodes' if ',' in only else 'node'} for it)" if only else pod["reason"]


def next_try(pod: ListedPendingPod, view: ViewOptions) -> str:
    """Return when the scheduler tries the pod again, such as `in 8s` or `on an event or in 4m12s`."""
    if pod["notBefore"] is None:
        return "once its gates are removed" if pod["queue"] == "gated" else "–"
    if pod["overdue"]:
        return "overdue"
    earliest = format_time_until(pod["notBefore"], view.now)
    if pod["latest"] is None:
        return f"in {earliest}" if earliest else "now"
    after = f" after {earliest}," if earliest else ""
    return f"on an event{after} or in {format_time_until(pod['latest'], view.now) or '0s'}"
