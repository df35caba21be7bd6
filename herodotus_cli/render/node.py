"""The screen of `kubectl herodotus node NAME`: NodeHistory -> blocks.

Owns: the content of the screen and its order. Does not own: counting (the decisions service), drawing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from herodotus_cli.render.formatting import NOT_EVALUATED, format_age_or_time, format_duration, title_of_times
from herodotus_cli.render.node_groups import summarize_reports
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)
from herodotus_record.units import format_number, format_percent, join_limited, pluralize

Json = dict[str, Any]
_NAMED = 5  # plugins or workloads in a sentence
_ROWS = 3  # of a table, so that the screen fits a terminal of 24 lines; all when piped or with -o wide
_WORKLOADS = 2
_REASONS = 2  # in a cell of such a table
_HOUR_S = 3600
_UNCOUNTED = {"unrecorded": "the log does not say", "not-counted": "reason not counted"}
_ROOMY = 100  # columns of a terminal that hold the recent decisions with names as long as ReplicaSets give them


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen about a node's scheduling history.

    It shows what the node is like now, feasibility, the filters that reject most, wins and losses, the workloads that
    the node wins most often, and the last decisions. When piped or with -o wide, it has every filter, the scores and
    every row.
    """
    whole = _is_whole(view)
    sections: list[list[Block]] = [
        [
            SplitLine(answer["metadata"]["name"], _window(answer)),
            *_present(answer, view),
            TextLine(answer["headline"], "strong"),
        ],
    ]
    if answer["considered"]:
        sections += [
            _filters(answer, view),
            _scores(answer) if whole else [],
            [labelled_rows(_results(answer, view))],
            _top_workloads(answer, view),
            [
                *_recent(answer, view),
                *([] if whole else [TextLine("more: -o wide (scores, all filters and rows)", "dim")]),
            ],
        ]
    return join_sections(sections)


def _is_whole(view: ViewOptions) -> bool:
    """Return whether the screen shows every row and filter: when piped or with -o wide."""
    return view.piped or view.wide


def _present(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the node's present state and requests, the last events about it, and how to uncordon it.

    The result is [] if the node was not read.
    """
    node = answer.get("present")
    if not node:
        return []
    name = answer["metadata"]["name"]
    unready = f"not ready ({node['problem']})" if node.get("problem") else "not ready"
    faults = [f"faulty: {each}" for each in node.get("faults") or ()]
    states = [unready] * (not node["ready"]) + faults + ["cordoned"] * node["cordoned"]
    states += [f"tainted {taint}" for taint in node["taints"]]
    pods = "" if node["pods"] is None else f"{pluralize(node['pods'], 'pod')} of {node['maxPods']}; "
    amounts = ", ".join(f"{each['resource']} {each['text']}" for each in node["amounts"])
    text = f"Now {', '.join(states) or 'ready'}. Requested: {pods}{amounts}."
    blocks: list[Block] = [TextLine(text, "bad" if not node["ready"] or faults or node["cordoned"] else "strong")]
    events = summarize_reports(node.get("events") or (), view, None if _is_whole(view) else _ROWS)
    if events:
        blocks.append(labelled_rows([("" if number else "EVENTS", text) for number, text in enumerate(events)]))
    if node["cordoned"]:
        fix = f"kubectl uncordon {name} (try it first: kubectl herodotus whatif uncordon {name})"
        blocks.append(labelled_rows([("FIX", fix)], bold=["FIX"]))
    return blocks


def _window(answer: Json) -> str:
    """Return the answer's time window as text: its length, in whole hours if it has any, and its start.

    For an evaluation of the present, the text says which pods were evaluated.
    """
    if _is_evaluated(answer):
        return "evaluated now, for its pods and the pending ones"
    window = answer["window"]
    start, end = (datetime.fromisoformat(window[side].replace("Z", "+00:00")) for side in ("from", "to"))
    length_s = (end - start).total_seconds() // _HOUR_S * _HOUR_S
    length_s = length_s or (end - start).total_seconds()
    return f"last {format_duration(length_s)}, since {start:%Y-%m-%d %H:%M} UTC"


def _is_evaluated(answer: Json) -> bool:
    """Return whether the answer counts evaluations of local mode in place of recorded attempts."""
    return answer.get("source") == "evaluated"


def _filters(answer: Json, view: ViewOptions) -> list[Block]:
    """Return a table of the share of pods that pass each filter on this node, lowest first.

    On a terminal, filters that always pass share a line with -o wide, and so do filters that never ran.
    """
    if not _is_whole(view):
        return _worst_filters(answer)
    filters = sorted(answer["filters"], key=lambda f: (f["rate"] is None, f["rate"] or 0.0, f["plugin"]))
    always = [] if view.piped else [f["plugin"] for f in filters if f["evaluated"] and f["passed"] == f["evaluated"]]
    never = [] if view.piped else [f["plugin"] for f in filters if not f["evaluated"]]
    shown = [f for f in filters if f["plugin"] not in (*always, *never)]
    blocks: list[Block] = []
    if shown:
        rows = [
            (f["plugin"], format_percent(f["rate"]), str(f["passed"]), str(f["evaluated"]), _rejected_for(f))
            for f in shown
        ]
        blocks.append(build_table(("FILTER", "PASSES", "PASSED", "OF", "REJECTED FOR"), rows, right=(1, 2, 3)))
    if always or never:
        blocks.append(labelled_rows([("ALWAYS PASS", ", ".join(always)), ("NOTHING TO CHECK", ", ".join(never))]))
    return blocks


def _worst_filters(answer: Json) -> list[Block]:
    """Return a table of the _ROWS filters that pods pass least often on this node."""
    failing = [f for f in answer["filters"] if f["evaluated"] and f["passed"] < f["evaluated"]]
    failing.sort(key=lambda f: (f["rate"], f["plugin"]))
    rows = [(f["plugin"], format_percent(f["rate"]), _rejected_for(f, _REASONS)) for f in failing[:_ROWS]]
    return [build_table(("FILTER", "PASSES", "REJECTED FOR"), rows, right=(1,))] if rows else []


def _rejected_for(f: Json, most: int | None = None) -> str:
    reasons = [f"{reason['text']} {reason['count']}" for reason in f["reasons"]]
    return join_limited(reasons, len(reasons) if most is None else most) or "–"


def _scores(answer: Json) -> list[Block]:
    """Return a table of the node's accumulated and average points per score plugin and in total."""
    scores = answer["scores"]
    if not scores["attempts"]:
        return []
    rows: list[tuple[Cell | str, ...]] = [
        (s["plugin"], format_number(s["accumulated"]), format_number(s["average"]))
        for s in sorted(scores["plugins"], key=lambda s: (-s["accumulated"], s["plugin"]))
    ]
    rows.append(
        (
            Cell("total", "strong"),
            Cell(format_number(scores["accumulated"]), "strong"),
            Cell(format_number(scores["average"])),
        )
    )
    return [build_table(("SCORES", "ACCUMULATED", "AVERAGE"), rows, right=(1, 2))]


def _results(answer: Json, view: ViewOptions) -> list[tuple[str, str]]:
    """Return (label, text) pairs on how often the node was scored, won, lost, was rejected or not evaluated.

    The last pair names the workloads for which it was chosen.
    """
    rejected = answer.get("evaluated", answer["considered"]) - answer["feasible"]
    decisive = sorted(((f["decisive"], f["plugin"]) for f in answer["filters"] if f.get("decisive")), reverse=True)
    first = ", ".join(f"{plugin} {n}" for n, plugin in decisive)
    workloads = [_workload(w) for w in answer["workloads"]]
    omitted = answer.get("workloadsOmitted", 0)
    whole = _is_whole(view)
    shown = len(workloads) if whole else _ROWS
    named = _NAMED if whole else 1
    chosen_for = join_limited(workloads, shown) + (f", and {pluralize(omitted, 'workload')} more" if omitted else "")
    return [
        ("SCORED", pluralize(answer["scores"]["attempts"], "time") if whole else ""),
        ("WON", _won(answer["won"], named)),
        ("LOST", _lost(answer["lost"], named) if whole or answer["lost"]["count"] else ""),
        ("REJECTED", f"{pluralize(rejected, 'time')}{'; first by ' + first if first else ''}"),
        ("NOT EVALUATED", _describe_not_evaluated(answer)),
        ("NOT COMPARED", _describe_not_compared(answer)),
        ("CHOSEN FOR", chosen_for if workloads and not answer.get("keepsGetting") else ""),
    ]


def _won(won: Json, named: int) -> str:
    """Return how often the node won, and the `named` plugins that most often decided for it."""
    parts = [pluralize(won["count"], "time")]
    if won.get("meanMargin") is not None:
        parts.append(f"by {_format_points(won['meanMargin'])} on average")
    if won.get("uncontested"):
        parts.append(f"{won['uncontested']} as the only feasible node")
    if won.get("ties"):
        parts.append(f"{pluralize(won['ties'], 'tie')}")
    if won.get("outscored"):  # a service of an earlier version does not say
        parts.append(f"{won['outscored']} although another node scores higher")
    if won.get("misfit"):
        parts.append(f"{won['misfit']} although a filter rejects it")
    carried = [f"{plugin} {n}" for plugin, n in won.get("carriedBy", {}).items()]
    return ", ".join(parts) + (f"; mostly on {', '.join(carried[:named])}" if carried else "")


def _describe_not_evaluated(answer: Json) -> str:
    """Return how many decisions did not evaluate the node, and why."""
    number, by = answer.get("notEvaluated", 0), answer.get("notEvaluatedBy") or {}  # an earlier service has no reasons
    reasons = ", ".join(f"{_UNCOUNTED.get(why) or NOT_EVALUATED.get(why, why)} {n}" for why, n in by.items())
    return f"{pluralize(number, 'time')}{': ' + reasons if reasons else ''}" if number else ""


def _describe_not_compared(answer: Json) -> str:
    """Return in how many decisions the node was feasible and neither won nor lost."""
    number, text = answer.get("notCompared"), "feasible where no node was chosen, or scores were not compared"
    return f"{pluralize(number, 'time')} {text}" if number else ""


def _format_points(points: float) -> str:
    text = format_number(points)
    return f"{text} {'point' if text == '1' else 'points'}"


def _lost(lost: Json, named: int) -> str:
    """Return how often another node won, and the `named` plugins that cost this one most points."""
    times = pluralize(lost["count"], "time")
    if lost.get("ahead"):  # a service of an earlier version does not say
        times += f", {lost['ahead']} although it scores higher than the chosen node"
    if lost.get("meanBehind") is not None:
        times += f", by {_format_points(lost['meanBehind'])} on average"
    costs = [
        f"{plugin} -{format_number(abs(points))}"
        for plugin, points in lost.get("costsMost", {}).items()
        if round(points, 1)
    ]
    return times + (f"; most on {', '.join(costs[:named])}" if costs else "")


def _top_workloads(answer: Json, view: ViewOptions) -> list[Block]:
    """Return a table of the workloads whose pods the node wins most often, with the plugins that decided.

    The table covers only the newest placements if the service stored older ones before it counted what decided.
    """
    workloads = answer.get("keepsGetting") or []
    whole = _is_whole(view)
    rows = []
    for k in workloads if whole else workloads[:_WORKLOADS]:
        by = join_limited([f"{plugin} {n}" for plugin, n in k["decidedBy"].items()], _NAMED if whole else 1)
        rows.append((k["workload"], str(k["placements"]), format_number(k["meanMargin"]), by))
    header = ("TOP WORKLOADS", "PODS", "AHEAD BY", "DECIDED BY")
    newest = answer.get("keepsGettingOf", 0)
    note = [] if view.piped or newest >= answer["chosen"] else [TextLine(f"of its newest {newest} placements", "dim")]
    return [build_table(header, rows, right=(1, 2)), *note] if rows else []


def _workload(w: Json) -> str:
    name = f"{w['namespace']}/{w['workload']}" if w.get("namespace") else w["workload"]
    return f"{name} {w['count']}"


def _recent(answer: Json, view: ViewOptions) -> list[Block]:
    """Return a table of the last decisions on the node, newest first; a narrow terminal gets fewer columns."""
    narrow = view.width is not None and view.width < _ROOMY
    rows: list[list[Cell | str]] = []
    judged = [r for r in answer["recent"] if r["result"] != "not-evaluated"]
    for r in answer["recent"] if _is_whole(view) else judged[:_ROWS]:
        row: list[Cell | str] = [format_age_or_time(r["startedAt"], view), f"{r['namespace']}/{r['pod']}"]
        row.append(r["result"])
        if not narrow:
            row += [str(r[key]) if r.get(key) is not None else "–" for key in ("attempt", "rank", "total")]
        rows.append([*row, _reason(r)])
    header = [title_of_times(view), "POD" if view.piped else "RECENT PODS", "RESULT"]
    header += ["REASON"] if narrow else ["ATTEMPT", "RANK", "TOTAL", "REASON"]
    return [build_table(header, rows, right=() if narrow else (3, 4, 5))] if rows else []


def _reason(r: Json) -> str:
    if r["result"] == "rejected":
        return str(r.get("rejectedBy") or "–")
    if r["result"] == "not-evaluated":
        why = str(r.get("why") or "")
        return NOT_EVALUATED.get(why, why) or "–"
    points, by = r.get("points"), r.get("decidedBy")
    if points is None:
        return "the only feasible node" if r["result"] == "chosen" else "–"
    if by == "tie":
        return "random among equals"
    if r["result"] == "chosen":
        side = "ahead" if points >= 0 else "behind"
    else:
        side = "behind" if points >= 0 else "ahead of the chosen node"
    return f"{pluralize(abs(points), 'point')} {side}" + (f": {by}" if by else "")
