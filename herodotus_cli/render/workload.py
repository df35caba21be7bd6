"""The screen of `kubectl herodotus workload KIND/NAME`: WorkloadPlacement -> blocks.

The state that the workload is really in comes first, then where its pods are and what decided on their nodes.

Owns: the content of the screen. Does not own: sums (`herodotus_answers.workload`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age, format_age_or_time, title_of_times
from herodotus_cli.render.screen_elements import (
    Block,
    SplitLine,
    Table,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)
from herodotus_cli.render.state import build_blocks as build_state
from herodotus_cli.render.state import build_timeline
from herodotus_record.units import format_number, format_percent, join_limited, pluralize

Json = dict[str, Any]
_NODES = 6  # at least, on a terminal that has not the lines for more; every node when piped or with -o wide
_REASONS = 3  # in a cell
_ROOMY = 120  # columns of a terminal that hold so many
_NAMES = 3  # in a row


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen on a workload: its state, its pods per node with what decided, pending pods.

    On a terminal without -o wide, recent placements are left out. So are the nodes if the workload has a problem, and
    those that do not fit the terminal.
    """
    state = (answer.get("live") or {}).get("state")
    if view.piped or view.wide:
        return _build(answer, view, len(answer["nodes"]))
    if state is not None and state["actor"] is not None:
        return _build(answer, view, 0)
    from herodotus_cli.render.terminal import fit_terminal  # here, because piped output needs no Rich

    return fit_terminal(lambda most: _build(answer, view, most), len(answer["nodes"]), _NODES, view)


def _build(answer: Json, view: ViewOptions, most: int) -> list[Block]:
    """Return the blocks of the screen with at most `most` nodes."""
    meta, live = answer["metadata"], answer.get("live") or {}
    whole = view.piped or view.wide
    is_present = "source" in answer
    since = "" if is_present else f"placements of the last {format_age(answer['since'], view.now)}"
    title = f"{meta['name']} ({meta['namespace']})"
    state = live.get("state")
    nodes = answer["nodes"][:most]
    left_out = len(answer["nodes"]) - len(nodes)
    headline = TextLine(answer["headline"], "" if state else "strong")
    shows_placement = not (is_present and state and not answer["placed"])
    recent = answer["recent"] if whole and not is_present else []
    preempted = (answer.get("preempted") or ())[: None if whole else _NAMES]
    sections: list[list[Block]] = [
        [SplitLine(title, since) if since else TextLine(title), *(build_state(state, view) if state else [headline])],
        [labelled_rows(_present_rows(live)), *_commands_for_missing_pods(live)],
        [_pods(live["pods"])] if len(live.get("pods") or ()) > 1 or (view.wide and live.get("pods")) else [],
        [headline] if state and shows_placement else [],
        [labelled_rows([("PREEMPTED", _describe_preempted(each, view)) for each in preempted])],
        _nodes(nodes, left_out, view, is_present=is_present),
        [labelled_rows(_notes(answer, has_nodes=bool(nodes)))],
        [_recent(recent, view)] if recent else [],
        [_waiting(answer["pending"], view)] if answer["pending"] and not state else [],
        build_timeline(state, view) if state and view.wide else [],
    ]
    return join_sections([section for section in sections if any(not _is_empty(block) for block in section)])


def _describe_preempted(pod: Json, view: ViewOptions) -> str:
    from herodotus_cli.render.preemptions import describe_eviction  # here, because few workloads have such pods

    return f"{pod['pod']}: {describe_eviction(pod['preemptedBy'], view)}"


def _is_empty(block: Block) -> bool:
    return isinstance(block, Table) and not block.rows


def _commands_for_missing_pods(live: Json) -> list[Block]:
    """Return each command after which nodes that lack a pod of a DaemonSet get one, below the nodes' names."""
    blocks: list[Block] = []
    for each in live.get("nodesWithoutPod") or ():
        if command := each.get("command"):
            verb = "is" if each["count"] == 1 else "are"
            blocks.append(TextLine(f"if {join_limited(each['nodes'], _NAMES)} {verb} to have one:"))
            blocks.append(TextLine(f"  {command}", command=True))
    return blocks


def _present_rows(live: Json) -> list[tuple[str, str]]:
    """Return labelled rows on the workload's present pods, nodes that lack one, and its HorizontalPodAutoscaler."""
    rows = []
    counts, autoscaler = live.get("counts"), live.get("autoscaler")
    if counts:
        rows.append(("PODS", _describe_counts(counts)))
    for each in live.get("nodesWithoutPod") or ():
        names = join_limited(each["nodes"], _NAMES)
        rows.append(("NO POD ON", f"{pluralize(each['count'], 'node')} ({names}): {each['text']}"))
    rows += [("SPREAD", sentence) for sentence in live.get("selfExcludingConstraints") or ()]
    if autoscaler:
        wants = autoscaler["desiredReplicas"]
        asks = f", asks for {wants}" if wants is not None else ""
        causes = (live.get("state") or {}).get("causes") or ()
        is_told = any(each["code"].startswith("autoscaler-") for each in causes)
        limited = f"; {autoscaler['limited']}" if autoscaler["limited"] and not is_told else ""
        span = f"{autoscaler['minReplicas']} to {autoscaler['maxReplicas']} pods"
        rows.append(("AUTOSCALER", f"HorizontalPodAutoscaler {autoscaler['name']}: {span}{asks}{limited}"))
    return rows


def _describe_counts(counts: Json) -> str:
    parts = [(counts["wanted"], "wanted"), (counts["created"], "exist"), (counts["placed"], "on a node")]
    parts += [(counts["ready"], "ready"), (counts["available"], "available")]
    parts += [(counts["pending"] or None, "pending"), (counts["notCreated"] or None, "not created")]
    parts += [(counts.get("terminating") or None, "terminating")]
    parts += [(counts.get("succeeded"), "succeeded"), (counts.get("failed") or None, "failed")]
    return " · ".join(f"{number} {word}" for number, word in parts if number is not None)


def _pods(groups: list[Json]) -> Block:
    rows = [
        (str(group["count"]), join_limited(group["pods"], 1 if group["count"] > 1 else _NAMES), group["headline"])
        for group in groups
    ]
    return build_table(("PODS", "FIRST", "STATE"), rows, right=(0,))


def _nodes(nodes: list[Json], left_out: int, view: ViewOptions, *, is_present: bool) -> list[Block]:
    """Return a table of nodes with their pods, and a line about the `left_out` nodes that it does not have.

    `is_present` says whether the pods are those that exist now, instead of recorded placements.
    """
    more: list[Block] = []
    if left_out:
        noun = "more node" if nodes else "node"
        more = [TextLine(f"… {pluralize(left_out, noun)}{' with what decided' * (not nodes)}: -o wide", "dim")]
    return [_nodes_table(nodes, view, is_present=is_present), *more] if nodes else more


def _nodes_table(nodes: list[Json], view: ViewOptions, *, is_present: bool) -> Block:
    reasons = 1 if view.width is not None and view.width < _ROOMY and not view.wide else _REASONS
    if is_present:
        present = [
            (n["node"], str(n["pods"]), format_percent(n["share"]), format_age_or_time(n["lastAt"], view))
            for n in nodes
        ]
        return build_table(("NODE", "PODS", "SHARE", "NEWEST"), present, right=(1, 2))
    header = ("NODE", "PODS", "SHARE", "AHEAD BY", "LAST", "DECIDED BY")
    rows = [
        (
            n["node"],
            str(n["pods"]),
            format_percent(n["share"]),
            format_number(n["meanMargin"]),
            format_age_or_time(n["lastAt"], view),
            format_reasons(n["decidedBy"], reasons),
        )
        for n in nodes
    ]
    return build_table(header, rows, right=(1, 2, 3))


def _notes(answer: Json, *, has_nodes: bool) -> list[tuple[str, str]]:
    of = f", of the newest {answer['decided']}" if answer["decided"] < answer["placed"] else ""
    skew = (
        f"{pluralize(answer['skew'], 'pod')} between the nodes with the most and the fewest"
        if answer["placed"] and has_nodes
        else ""
    )
    complete = (
        "" if answer["complete"] else "only the newest decisions of the namespace were searched; there may be more"
    )
    moves = answer.get("movesWithout")  # a service of an earlier version does not say
    counts = (answer.get("live") or {}).get("counts") or {}
    now = counts.get("placed")
    verb = "pod of it is" if now == 1 else "pods of it are"
    is_of_past = now not in (None, answer["placed"]) and "source" not in answer
    differs = f"placements on record; {now} {verb} on a node now" if is_of_past else ""
    return [
        ("ZONES", _zones(answer)),
        ("SKEW", skew),
        (
            "DECIDED BY",
            f"{format_reasons(answer['decidedBy'], most=len(answer['decidedBy']))}{of}"
            if answer["decidedBy"] and has_nodes
            else "",
        ),
        (
            "CHANGED WINNER",
            f"{format_reasons(moves)} (another node would have won without its score)" if moves and has_nodes else "",
        ),
        ("OTHER NODES", (answer.get("live") or {}).get("otherNodes", "")),
        ("SEE", _see_disagreements(answer)),
        ("NOTE", differs if answer["placed"] else ""),
        ("NOTE", complete),
    ]


def _see_disagreements(answer: Json) -> str:
    """Return what tells more about outcomes of other schedulers than their evaluations; "" if all of them agree."""
    differing = [each["scheduler"] for each in answer.get("observed") or () if each["disagree"]]
    if not differing:
        return ""
    return (
        f"kubectl herodotus pod NAME (its evaluation). An observer evaluates by the configuration of {differing[0]} if"
        " it is started with that as --config"
    )


def _zones(answer: Json) -> str:
    """Return the number of pods per zone as text, or "" if no zone is known."""
    zones = (answer.get("live") or {}).get("zones", ())
    return ", ".join(f"{z['zone'] or 'unknown'} {z['pods']}" for z in zones)


def _recent(recent: list[Json], view: ViewOptions) -> Block:
    rows = []
    for p in recent:
        ahead = f" by {pluralize(p['points'], 'point')}" if p["points"] else ""
        rows.append((format_age_or_time(p["startedAt"], view), p["pod"], p["node"], f"{p['decidedBy'] or '–'}{ahead}"))
    return build_table((title_of_times(view), "POD" if view.piped else "LAST PODS", "NODE", "DECIDED BY"), rows)


def _waiting(pending: list[Json], view: ViewOptions) -> Block:
    rows = [(p["pod"], format_age_or_time(p["startedAt"], view), p.get("reason") or p["message"]) for p in pending]
    return build_table(("PENDING", "TRIED", "REASON"), rows)


def format_reasons(decided_by: Json, most: int = _REASONS) -> str:
    """Return what decided placements and how often, as `NodeResourcesFit 4, tie 3`; at most `most` reasons."""
    return join_limited([f"{by} {n}" for by, n in decided_by.items()], most) or "–"
