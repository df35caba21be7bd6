"""The screen of `kubectl herodotus pending`: PendingPods -> blocks.

Owns: the content of the screen. Does not own: grouping (`herodotus_answers.pending`), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from herodotus_cli.render.formatting import format_age_or_time, format_ago, format_time_until, title_of_times
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
)
from herodotus_record.units import join_limited, pluralize

if TYPE_CHECKING:
    from herodotus_answers.pending import ListedPendingPod, PendingGroup, PendingPods

_MIN_ROWS = 3  # of a screen that its reasons fill
_NAMED = 3  # of a group
_FATES = {
    "deleted": "deleted since",
    "replaced": "deleted since, and created again with the same name",
    "placed": "placed since",
    None: "deleted or placed since",
}
_ROOMY = 100  # columns of a terminal that hold the queue too
_WIDE = 160  # columns of a terminal that hold the reason too


class PodsAlike(NamedTuple):
    """Pods of one owner with one reason, of which the first is shown."""

    first: ListedPendingPod
    pods: int


def build_screen(answer: PendingPods, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: reasons why pods are pending, most pods first, then the pods.

    `answer` has `live` applied (`herodotus_answers.pending.apply_live`). On a terminal, pods of one owner with one
    reason share a row. If not all rows fit the terminal, there are none where the reasons name every pod; otherwise as
    many as fit, but a few at least.
    """
    if _is_whole(view):
        return _build(answer, view, [PodsAlike(pod, 1) for pod in answer["pods"]])
    from herodotus_cli.render.terminal import count_lines, fit_terminal  # here, because piped output needs no Rich

    rows = _merge_alike(answer["pods"])
    if view.headers and all(group["count"] <= _NAMED for group in answer["groups"]):
        blocks = _build(answer, view, rows)
        return blocks if count_lines(blocks, view) <= view.lines else _build(answer, view, [])
    return fit_terminal(lambda most: _build(answer, view, rows[:most]), len(rows), _MIN_ROWS, view)


def _is_whole(view: ViewOptions) -> bool:
    """Return whether each pod has a row."""
    return view.piped or view.wide


def _merge_alike(pods: Sequence[ListedPendingPod]) -> list[PodsAlike]:
    """Return the pods with those of one owner and one reason counted together, in the order of the first of each."""
    alike: dict[tuple[str, ...], PodsAlike] = {}
    for pod in pods:
        key = (pod["namespace"], pod["owner"] or pod["uid"], _reason(pod), "overdue" if pod["overdue"] else "")
        before = alike.get(key)
        alike[key] = before._replace(pods=before.pods + 1) if before else PodsAlike(pod, 1)
    return list(alike.values())


def _build(answer: PendingPods, view: ViewOptions, shown: Sequence[PodsAlike]) -> list[Block]:
    """Return the blocks of the screen with these rows of pods."""
    count, late = answer["count"], answer["overdue"]
    overdue = f"; {'the retry' if late == 1 else 'the retries'} of {late} {'is' if late == 1 else 'are'} overdue"
    omitted = f" {answer['podsOmitted']} are not listed." if answer["podsOmitted"] else ""
    subject = f"{pluralize(count, 'pod') if count else 'No pods'} {'is' if count == 1 else 'are'}"
    pending = f"{subject} pending{overdue if late else ''}."
    absent = _describe_absent(answer, view) if _is_whole(view) else ""
    left_out = len(answer["pods"]) - sum(row.pods for row in shown)
    others = "next tries" if not shown else pluralize(left_out, "more pod") if left_out else "each pod"
    more = [f"-o wide ({others})"] if left_out or len(shown) < len(answer["pods"]) else []
    more += [] if view.piped or not count else ["kubectl herodotus pod NAME (why it is pending)"]
    is_local = "source" in answer  # there are no attempts
    has_groups = view.report or (view.headers and not view.piped)
    sections: list[list[Block]] = [
        [TextLine(f"{pending}{omitted}{absent}", "strong"), *_date_fixes(answer, view)],
        [_groups(answer["groups"], view)] if answer["groups"] and has_groups else [],
        _list_uncreated(answer, view),
        [(_pods_without_attempts if is_local else _pods)(shown, view)] if shown else [],
        [TextLine(f"more: {', '.join(more)}", "dim")] if more else [],
    ]
    return join_sections(sections)


def _list_uncreated(answer: PendingPods, view: ViewOptions) -> list[Block]:
    """Return the workloads whose pods do not exist, so that none of them is pending; [] if there are none."""
    live = answer.get("live")
    uncreated = live.get("notCreated", ()) if live else ()
    omitted = live.get("notCreatedOmitted", 0) if live else 0
    others = f"These have the newest refusals; pods of {pluralize(omitted, 'more object')} were refused too."
    further: list[Block] = [TextLine(others, "dim")] if omitted else []
    if view.piped:
        listed = [
            f"{each['missing']} of {each['namespace']}/{each['workload']}: {each['reason']}" for each in uncreated
        ]
        return [*(TextLine(f"Not created: {line}.") for line in listed), *further]
    rows = [
        (Cell(str(each["missing"])), Cell(f"{each['namespace']}/{each['workload']}"), Cell(each["reason"]))
        for each in uncreated
    ]
    return [build_table(("NOT CREATED", "WORKLOAD", "REASON"), rows, right=(0,)), *further] if rows else []


def _describe_absent(answer: PendingPods, view: ViewOptions) -> str:
    """Return a sentence on pods that have a record as pending but were deleted or placed since; "" if none."""
    sentences = ""
    for fate, words in _FATES.items():
        gone = [pod for pod in (answer["live"]["gone"] if "live" in answer else None) or () if pod["fate"] == fate]
        named = [f"{p['namespace']}/{p['pod']} (last tried {format_ago(p['startedAt'], view)})" for p in gone]
        sentences += f" {len(gone)} {words}: {join_limited(named, _NAMED)}." if gone else ""
    return sentences


def _date_fixes(answer: PendingPods, view: ViewOptions) -> list[Block]:
    """Return a line that says of which moments recorded fixes are; [] if there are none, or they are of now."""
    tried = {f"{pod['namespace']}/{pod['pod']}": pod["startedAt"] for pod in answer["pods"]}
    fixes = [fix["pod"] for group in answer["groups"] if (fix := group.get("fix"))]
    times = sorted({time for pod in fixes if (time := tried.get(pod))})
    if not times or "source" in answer or (view.piped and not view.report):
        return []
    first, last = format_age_or_time(times[0], view), format_age_or_time(times[-1], view)
    when = format_ago(times[-1], view) if first == last else f"{first} to {last}{'' if view.utc else ' ago'}"
    return [TextLine(f"Fixes are of the last attempts, {when}; of now: plan pod NAME", "dim")]


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


def _name_pods(rows: Sequence[PodsAlike]) -> tuple[list[str], list[list[str]]]:
    """Return the titles and the cells of the columns that name the first pod of each row, and count those like it."""
    names = [f"{row.first['namespace']}/{row.first['pod']}" for row in rows]
    if all(row.pods == 1 for row in rows):
        return ["POD"], [[name] for name in names]
    return ["POD", "ALIKE"], [[name, str(row.pods)] for name, row in zip(names, rows, strict=True)]


def _pods_without_attempts(rows: Sequence[PodsAlike], view: ViewOptions) -> Block:
    titles, names = _name_pods(rows)
    cells = [
        [*named, format_age_or_time(row.first["createdAt"], view) or "–", _reason(row.first)]
        for named, row in zip(names, rows, strict=True)
    ]
    return build_table((*titles, title_of_times(view), "REASON"), cells, right=range(1, len(titles)))


def _pods(rows: Sequence[PodsAlike], view: ViewOptions) -> Block:
    titles, names = _name_pods(rows)
    narrow = view.width is not None and view.width < _ROOMY
    has_reason = _is_whole(view) or (view.width is not None and view.width >= _WIDE)
    table = []
    for named, (p, _) in zip(names, rows, strict=True):
        since, tried = format_age_or_time(p["createdAt"], view) or "–", format_age_or_time(p["startedAt"], view) or "–"
        cells = [*named, since, tried, str(p["attempt"]), *([] if narrow else [p["queue"] or "–"])]
        table.append([*cells, next_try(p, view), *([_reason(p)] if has_reason else [])])
    queue, reason = [] if narrow else ["QUEUE"], ["REASON"] if has_reason else []
    header = [*titles, title_of_times(view), "TRIED", "ATTEMPT", *queue, "NEXT TRY", *reason]
    return build_table(header, table, right=(*range(1, len(titles)), len(titles) + 2))


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
