"""The screen of `kubectl herodotus pod NAME --node X`: why that node, or why not.

Owns: what the screen says. Does not own: drawing, sentences about reasons and remedies (`herodotus_record`).
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.blocks import Blank, Block, Cell, Line, View, facts, table
from herodotus_cli.render.rejections import NOTHING, PASS, REJECT
from herodotus_cli.render.words import age, count

Json = dict[str, Any]


def screen(answer: Json, view: View) -> list[Block]:
    """Every filter's verdict with its numbers, what would have to change, and how it scored against the winner."""
    node = answer["perNode"][0]
    pod, attempt = answer["metadata"]["name"], answer["attempt"]
    lead = f"{pod} on {node['node']}, attempt {attempt['number']}, {age(attempt['startedAt'], view.now)} ago"
    blocks: list[Block] = [Line(f"{lead}: {_verdict(answer, node)}", "strong"), Blank(), *_filters(answer, node)]
    if node["toMakeItFeasible"]:
        blocks += [Blank(), facts([("To make it feasible", "; and ".join(node["toMakeItFeasible"]))])]
    if node.get("scores"):
        blocks += [Blank(), *_scores(answer, node)]
    return blocks


def _verdict(answer: Json, node: Json) -> str:
    """The answer in a few words."""
    feasible = answer["nodes"]["feasible"]
    if node["chosen"]:
        return f"chosen, of {count(feasible, 'feasible node')}"
    if node["rejectedBy"]:
        ran = len(node["passed"]) + len(node["rejectedBy"])
        return f"rejected by {len(node['rejectedBy'])} of {count(ran, 'filter')}"
    if node["feasible"]:
        best = answer["ranking"][0]
        behind = f", {count(best['total'] - node['total'], 'point')} behind {best['node']}" if node.get("total") else ""
        return f"feasible, but only rank {node['rank']} of {feasible}{behind}"
    return f"not evaluated ({node['evaluation']})"


def _filters(answer: Json, node: Json) -> list[Block]:
    """One row per filter, in the order in which they ran."""
    rejected = {verdict["plugin"]: verdict for verdict in node["rejectedBy"]}
    rows: list[tuple[Cell, ...]] = []
    for f in answer["filters"]:
        plugin = f["plugin"]
        if plugin in rejected:
            why = [reason["text"] for reason in rejected[plugin]["reasons"]] or [rejected[plugin]["code"]]
            rows += [(Cell(REJECT, "bad"), Cell(plugin), Cell("rejects"), Cell(words)) for words in why]
        elif f["skipped"]:
            rows.append((Cell(NOTHING, "dim"), Cell(plugin), Cell("skipped"), Cell("nothing to check for this pod")))
        elif plugin in node["passed"]:
            rows.append((Cell(PASS, "good"), Cell(plugin), Cell("passes"), Cell("")))
        else:
            rows.append((Cell(NOTHING, "dim"), Cell(plugin), Cell("not run"), Cell("")))
    return [table(("", "FILTER", "VERDICT", "WHY"), rows)] if rows else []


def _scores(answer: Json, node: Json) -> list[Block]:
    """The node's points plugin by plugin, beside the best other node's."""
    other = next((row for row in answer["ranking"] if row["node"] != node["node"]), None)
    header = ["SCORE PLUGIN", "WEIGHT", "RAW", "NORMALISED", "POINTS"]
    if other:
        header += [other["node"], "DIFFERENCE"]
    rows: list[list[Cell | str]] = []
    for s in answer["scorePlugins"]:
        if s["skipped"]:
            continue
        got = node["scores"][s["plugin"]]
        row: list[Cell | str] = [s["plugin"], *map(str, (s["weight"], got["raw"], got["normalized"], got["weighted"]))]
        if other:
            row += _against(got["weighted"], other["scores"][s["plugin"]]["weighted"])
        rows.append(row)
    total: list[Cell | str] = ["total", "", "", "", Cell(str(node["total"]), "strong")]
    rows.append([*total, *_against(node["total"], other["total"])] if other else total)
    return [table(header, rows, right=range(1, len(header)))]


def _against(ours: int, theirs: int) -> list[Cell | str]:
    difference = ours - theirs
    return [str(theirs), Cell(f"{difference:+d}" if difference else "0", "good" if difference > 0 else "")]
