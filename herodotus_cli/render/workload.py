"""The screen of `kubectl herodotus workload KIND/NAME`: WorkloadPlacement -> blocks.

Owns: the content of the screen. Does not own: sums (`herodotus_answers.workload`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render import suggestions
from herodotus_cli.render.formatting import (
    format_age,
    format_age_or_time,
    format_count,
    join_limited,
)
from herodotus_cli.render.screen_elements import (
    Block,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)
from herodotus_record.units import format_number, format_percent

Json = dict[str, Any]
_NODES = 20  # on a terminal; every node when piped or with -o wide
_REASONS = 3  # in a cell
_RECENT = 5  # on a terminal


def build_screen(answer: Json, view: ViewOptions, waiting: Json | None = None) -> list[Block]:
    """Return the blocks of the screen on the state of a workload and on where its pods were placed.

    The state comes first, then the pods per node with what decided, the last placements, and the pending pods.
    `waiting` is the PodExplanation of the first pod without a node.
    """
    meta, live = answer["metadata"], answer.get("live") or {}
    title = f"{meta['name']} ({meta['namespace']})"
    head: list[Block] = []
    if "state" in live:
        from herodotus_cli.render import state as state_screen

        head = state_screen.build_blocks(live["state"], view)
    first = _explain_waiting(waiting) if waiting else []
    if answer["kind"] == "WorkloadState":
        pods = live.get("pods") or []
        return join_sections(
            [[SplitLine(title, answer["workload"]), *head], first, [_pods(pods, view)] if pods else []]
        )
    whole = view.piped or view.wide
    nodes = answer["nodes"] if whole else answer["nodes"][:_NODES]
    left_out = len(answer["nodes"]) - len(nodes)
    since = f"placements of the last {format_age(answer['since'], view.now)}"
    sections: list[list[Block]] = [
        [SplitLine(title, since), *head, TextLine(answer["headline"], "strong")],
        first,
        [_nodes(nodes, view)] if nodes else [],
        [TextLine(f"… {format_count(left_out, 'more node')}: -o wide", "dim")] if left_out else [],
        [labelled_rows(_notes(answer))],
        [_recent(answer["recent"] if whole else answer["recent"][:_RECENT], view)] if answer["recent"] else [],
        [_waiting(answer["pending"], view)] if answer["pending"] else [],
    ]
    return join_sections(sections)


def _explain_waiting(explanation: Json) -> list[Block]:
    """Return why the first pod without a node waits, what to do, and the command that shows more."""
    meta = explanation["metadata"]
    return [
        TextLine(f"{meta['name']}: {explanation['headline']}", "strong"),
        *suggestions.build_blocks(explanation),
        TextLine(f"more: kubectl herodotus pod {meta['name']} -n {meta['namespace']}", "dim"),
    ]


def _pods(pods: list[Json], view: ViewOptions) -> Block:
    shown = pods if view.piped or view.wide else pods[:_NODES]
    rows = [(p["pod"], p["node"] or "–", p["status"], "yes" if p["ready"] else "no") for p in shown]
    return build_table(("POD", "NODE", "STATUS", "READY"), rows)


def _nodes(nodes: list[Json], view: ViewOptions) -> Block:
    header = ("NODE", "PODS", "SHARE", "AHEAD BY", "LAST", "DECIDED BY")
    rows = [
        (
            n["node"],
            str(n["pods"]),
            format_percent(n["share"]),
            format_number(n["meanMargin"]),
            format_age_or_time(n["lastAt"], view),
            format_reasons(n["decidedBy"]),
        )
        for n in nodes
    ]
    return build_table(header, rows, right=(1, 2, 3))


def _notes(answer: Json) -> list[tuple[str, str]]:
    of = f", of the newest {answer['decided']}" if answer["decided"] < answer["placed"] else ""
    skew = (
        f"{format_count(answer['skew'], 'pod')} between the nodes with the most and the fewest"
        if answer["placed"]
        else ""
    )
    complete = (
        "" if answer["complete"] else "only the newest decisions of the namespace were searched; there may be more"
    )
    return [
        ("ZONES", _zones(answer)),
        ("SKEW", skew),
        (
            "DECIDED BY",
            f"{format_reasons(answer['decidedBy'], most=len(answer['decidedBy']))}{of}" if answer["decidedBy"] else "",
        ),
        ("NOTE", complete),
    ]


def _zones(answer: Json) -> str:
    """Return the number of pods per zone as text, or "" if no zone is known."""
    zones = (answer.get("live") or {}).get("zones", ())
    return ", ".join(f"{z['zone'] or 'unknown'} {z['pods']}" for z in zones)


def _recent(recent: list[Json], view: ViewOptions) -> Block:
    rows = []
    for p in recent:
        ahead = f" by {format_count(p['points'], 'point')}" if p["points"] else ""
        rows.append((format_age_or_time(p["startedAt"], view), p["pod"], p["node"], f"{p['decidedBy'] or '–'}{ahead}"))
    return build_table(("AGE", "POD" if view.piped else "LAST PODS", "NODE", "DECIDED BY"), rows)


def _waiting(pending: list[Json], view: ViewOptions) -> Block:
    rows = [(p["pod"], format_age_or_time(p["startedAt"], view), p["message"]) for p in pending]
    return build_table(("PENDING", "TRIED", "MESSAGE"), rows)


def format_reasons(decided_by: Json, most: int = _REASONS) -> str:
    """Return what decided placements and how often, as `NodeResourcesFit 4, tie 3`; at most `most` reasons."""
    return join_limited([f"{by} {n}" for by, n in decided_by.items()], most) or "–"
