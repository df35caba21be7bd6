"""The screens of `kubectl herodotus compare`: PodComparison and NodeComparison -> blocks.

Owns: the content of the screens. Does not own: drawing, sentences about decisions (`herodotus_record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from herodotus_cli.render.formatting import (
    attempt_label,
    attempt_ordinals,
    format_age_or_time,
    format_ago,
    format_duration,
    format_feasible,
    title_of_times,
)
from herodotus_cli.render.rejections import NOTHING, PASS, REJECT
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)

Json = dict[str, Any]
_SIGNS = {"pass": PASS, "reject": REJECT, "skipped": NOTHING, "not-run": NOTHING}


def build_pods_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen that compares two pods.

    It shows their nodes and requests, what changed between their decisions, the results of the best nodes for both, and
    the points of the chosen nodes. The two may be one pod in two simulations.
    """
    sides = answer["pods"]
    differences = _differences(answer, format_duration(answer["secondsApart"]))
    sections: list[list[Block]] = [
        [TextLine(answer["headline"], "strong")],
        [_pods_table(sides, view)],
        [labelled_rows(differences)] if differences else [],
        [_nodes_table(answer["nodes"], sides)] if answer["nodes"] else [],
        _points_for_both(answer["nodes"], sides),
    ]
    return join_sections(sections)


def build_nodes_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen that compares two nodes for one pod.

    It shows the filters with different verdicts (every filter in piped output), the scores, and what would make a
    rejected node fit.
    """
    meta, tried = answer["metadata"], answer["attempt"]
    a, b = answer["nodes"]
    lead = f"{meta['name']} ({meta['namespace']})  {attempt_label(tried)}, {format_ago(tried['startedAt'], view)}"
    steps = [(f"FIX {node['node']}", "; and ".join(node["possibleChanges"])) for node in (a, b)]
    sections: list[list[Block]] = [
        [TextLine(lead), TextLine(answer["headline"], "strong")],
        _filters(answer, view),
        _points(answer),
        [labelled_rows(steps, bold=[label for label, _ in steps])] if any(step for _, step in steps) else [],
    ]
    return join_sections(sections)


def _pods_table(sides: Sequence[Json], view: ViewOptions) -> Block:
    simulated = "variant" in sides[0]
    times = "AT" if simulated else title_of_times(view)
    header = ("VARIANT" if simulated else "POD", "NODE", "RESULT", times, "ATTEMPT", "FIT", "REQUESTS")
    rows = []
    for side in sides:
        fits = format_feasible(side["nodes"])
        requests = side["requests"]
        amounts = "–" if requests is None else ", ".join(f"{r} {amount}" for r, amount in requests.items()) or "nothing"
        started = side["attempt"]["startedAt"]
        age = _format_virtual_time(started) if simulated else format_age_or_time(started, view)
        tried = attempt_ordinals(side["attempt"])
        rows.append((_name(side, sides), side["node"] or "–", side["state"], age, tried, fits, amounts))
    return build_table(header, rows, right=(4, 5))


def _format_virtual_time(started: str) -> str:
    """Return the time since the start of a trace, which documents write as a time from 1970 on."""
    return format_duration(datetime.fromisoformat(started.replace("Z", "+00:00")).timestamp())


def _name(side: Json, sides: Sequence[Json]) -> str:
    """Return what tells one side from the other: a simulated variant, an attempt at one pod, or the pod's name.

    The name has its namespace if the two namespaces differ.
    """
    if "variant" in side:
        return str(side["variant"])
    if len({s["uid"] for s in sides}) == 1:
        return f"attempt {attempt_ordinals(side['attempt'])}"
    return str(side["name"]) if len({s["namespace"] for s in sides}) == 1 else f"{side['namespace']}/{side['name']}"


def _differences(answer: Json, apart: str) -> list[tuple[str, str]]:
    """Return (label, sentence) pairs on how the pods' specs and the cluster differed between the two decisions.

    `apart` is the time between the decisions, as text.
    """
    texts: dict[str, list[str]] = {"pod": [], "verdict": [], "cluster": []}
    for change in answer["differences"]["changes"]:
        texts[change["about"]].append(change["text"])
    simulated = "variant" in answer["pods"][0]
    is_one = len({side["uid"] for side in answer["pods"]}) == 1
    if answer["sameQuestion"] and not simulated:
        what = "the pod was the same" if is_one else "the two pods are the same"
        texts["pod"].insert(0, f"none: {what} in everything that scheduling reads")
    nothing = [] if texts["verdict"] else ["none: no node was added or removed"]
    label = f"CLUSTER CHANGES IN {apart}" if answer["secondsApart"] >= 1 else "CLUSTER CHANGES"
    if simulated:
        nothing, label = [], "CLUSTER DIFFERS"
    return [
        *_label_first("POD SPEC DIFF", texts["pod"]),
        *_label_first("VERDICTS DIFFER", texts["verdict"]),
        *_label_first(label, texts["cluster"] or nothing),
    ]


def _label_first(label: str, sentences: Sequence[str]) -> list[tuple[str, str]]:
    return [(label if i == 0 else "AND", sentence) for i, sentence in enumerate(sentences)]


def _nodes_table(rows: Sequence[Json], sides: Sequence[Json]) -> Block:
    """Return a table with one row per node and its result for each of the two pods."""
    lines = [[row["node"], *(_node_result(of) for of in row["pods"])] for row in rows]
    return build_table(("NODE", *(f"FOR {_name(side, sides)}" for side in sides)), lines)


def _node_result(of: Json) -> str:
    if of["evaluation"] is None:
        return "not in the cluster"
    if of["rejectedBy"]:
        return f"{of['rejectedBy']}: {of['why']}" if of["why"] else str(of["rejectedBy"])
    if not of["rank"]:
        return f"not evaluated ({of['evaluation']})"
    total = f", {of['total']} points" if of["total"] is not None else ""
    return f"{'chosen, ' if of['chosen'] else ''}rank {of['rank']}{total}"


def _points_for_both(rows: Sequence[Json], sides: Sequence[Json]) -> list[Block]:
    """Return a table of the points of each chosen node for the two pods, by score plugin, with their totals.

    Plugins that gave every node that was scored the same points are one row. If no plugin gave other points, there is
    no table.
    """
    chosen = [row for row in rows if any(of["chosen"] for of in row["pods"])]
    points = {(row["node"], i): of.get("scores") or {} for row in chosen for i, of in enumerate(row["pods"])}
    plugins = list(dict.fromkeys(plugin for of in points.values() for plugin in of))
    differing = [p for p in plugins if len({of[p] for of in points.values() if p in of}) > 1]
    equal = [p for p in plugins if p not in differing]
    if not differing:
        return []
    summed = [*((p, [p]) for p in differing), *([("the others, equal", equal)] if equal else ()), ("total", plugins)]
    lines: list[list[str]] = []
    for title, parts in summed:
        for row in chosen:
            of_both = (points[row["node"], i] for i in range(len(sides)))
            sums = (str(sum(of[p] for p in parts if p in of)) if of else "–" for of in of_both)
            lines.append([title, row["node"], *sums])
    header = ("SCORE PLUGIN", "NODE", *(f"FOR {_name(side, sides)}" for side in sides))
    return [build_table(header, lines, right=(2, 3))]


def _filters(answer: Json, view: ViewOptions) -> list[Block]:
    names = [node["node"] for node in answer["nodes"]]
    telling = [f for f in answer["filters"] if len(set(f["verdicts"])) > 1 or "reject" in f["verdicts"]]
    shown = answer["filters"] if view.piped else telling
    why = [{v["plugin"]: _why(v) for v in node["rejectedBy"]} for node in answer["nodes"]]
    rows = [
        [f["plugin"], *(_verdict(word, view) for word in f["verdicts"]), _reasons(f["plugin"], names, why)]
        for f in shown
    ]
    blocks: list[Block] = [build_table(("FILTER", *names, "REASON"), rows)] if rows else []
    others = len(answer["filters"]) - len(shown)
    subject = f"{others} other filters" if blocks else f"all {others} filters"
    return [*blocks, TextLine(f"{subject}: same verdict for both", "dim")] if others else blocks


def _why(verdict: Json) -> str:
    return ", ".join(reason["text"] for reason in verdict["reasons"]) or str(verdict["code"])


def _reasons(plugin: str, names: Sequence[str], why: Sequence[Json]) -> str:
    return "; ".join(f"{name}: {said[plugin]}" for name, said in zip(names, why, strict=True) if plugin in said)


def _verdict(word: str, view: ViewOptions) -> str:
    return word if view.piped else _SIGNS[word]


def _points(answer: Json) -> list[Block]:
    """Return a table of the two nodes' points per score plugin, largest difference first; [] without totals."""
    if not answer["totals"]:
        return []
    a, b = (node["node"] for node in answer["nodes"])
    rows: list[list[Cell | str]] = [
        [f"{s['plugin']} ×{s['weight']}", *map(str, s["points"]), _difference(s["difference"])]
        for s in sorted(answer["scores"], key=lambda s: -abs(s["difference"]))
    ]
    totals = answer["totals"]
    rows.append(["total", *(Cell(str(total), "strong") for total in totals), _difference(totals[0] - totals[1])])
    return [build_table(("SCORE PLUGIN", a, b, "DIFFERENCE"), rows, right=(1, 2, 3))]


def _difference(points: int) -> str:
    return f"{points:+d}" if points else "0"
