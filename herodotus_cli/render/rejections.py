"""Why nodes were turned away: grouped by reason, node by node, and as a matrix of verdicts.

Owns: the tables about filters. Does not own: the screen around them, sentences about reasons (`herodotus_record`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from herodotus_cli.render.formatting import natural_sort_key, omitted_hint, short_plugin_names
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table, labelled_rows
from herodotus_record.units import format_quantity

Json = dict[str, Any]
PASS, REJECT, NOTHING = "✓", "✗", "–"
UNSAID = "no reason given"  # an extender need not


def build_groups(answer: Json, *, title: str, name_nodes: bool) -> list[Block]:
    """One row per filter and reason, the most frequent first. The count is of nodes whose first reject it is."""
    groups = answer["rejections"]
    if not groups:
        return []
    said = [_why(group, name_nodes=name_nodes, rest=omitted_hint(answer)) for group in groups]
    rows = [(Cell(str(g["count"])), Cell(g["plugin"], "bad"), Cell(why)) for g, why in zip(groups, said, strict=True)]
    return [build_table((title, "FILTER", "WHY"), rows, right=(0,))]


def build_all_passed_line(answer: Json) -> list[Block]:
    """Return the one line that says that no filter rejected any node."""
    ran = [f for f in answer["filters"] if not f["skipped"]]
    nodes = answer["nodes"]["evaluated"]
    if not ran or not nodes:
        return []
    evaluated = " evaluated" if answer["nodes"]["notEvaluated"] else ""
    who = f"All {nodes}{evaluated} nodes" if nodes > 1 else f"The one{evaluated} node"
    return [TextLine(f"{who} passed {f'all {len(ran)} filters' if len(ran) > 1 else 'the one filter that ran'}.")]


def build_node_table(answer: Json, view: ViewOptions) -> list[Block]:
    """One row per node, filter and reason: every filter that rejects the node, with its numbers."""
    rows: list[tuple[Cell, ...]] = []
    for node in answer.get("perNode", ()):
        first = True
        for verdict in node["rejectedBy"]:
            for why in [reason["text"] for reason in verdict["reasons"]] or [UNSAID]:
                named = node["node"] if first or view.piped else ""
                rows.append((Cell(named, "strong"), Cell(verdict["plugin"], "bad"), Cell(why)))
                first = False
    return [build_table(("NODE", "REJECTED BY", "WHY"), rows)] if rows else []


def build_verdict_matrix(answer: Json, view: ViewOptions) -> list[Block]:
    """Every node's verdict of every filter that told nodes apart; the other filters in a line."""
    ran = [f for f in answer["filters"] if not f["skipped"]]
    nodes = answer.get("perNode", ())
    if not ran or not nodes:
        return []
    telling = [f["plugin"] for f in ran if f["rejected"] or view.piped]
    names = {p: p for p in telling} if view.piped else short_plugin_names(telling)
    rows = [[node["node"], *(_verdict(node, plugin, view) for plugin in telling)] for node in nodes]
    found: list[Block] = [build_table(("FILTERS" if not view.piped else "NODE", *(names[p] for p in telling)), rows)]
    return [*found, labelled_rows(_uniform(answer))] if any(words for _, words in _uniform(answer)) else found


def _uniform(answer: Json) -> list[tuple[str, str]]:
    """The filters that said the same of every node."""
    everywhere = [f["plugin"] for f in answer["filters"] if not f["skipped"] and not f["rejected"]]
    skipped = [f["plugin"] for f in answer["filters"] if f["skipped"]]
    return [("every node passed", ", ".join(everywhere)), ("nothing to check", ", ".join(skipped))]


def _verdict(node: Json, plugin: str, view: ViewOptions) -> Cell:
    if any(verdict["plugin"] == plugin for verdict in node["rejectedBy"]):
        return Cell("reject" if view.piped else REJECT, "bad")
    if plugin in node["passed"]:
        return Cell("pass" if view.piped else PASS, "good")
    return Cell(node["evaluation"] if view.piped else NOTHING, "dim")


def _why(group: Json, *, name_nodes: bool, rest: str) -> str:
    """What the nodes of a group have in common, then the nodes, those with equal numbers together.

    `rest`: where those are that are not named.
    """
    common = "; ".join(reason["text"] for reason in group["reasons"]) or UNSAID
    if not name_nodes:
        return common
    by_free: dict[str, list[str]] = {}
    for row in group["nodes"]:
        by_free.setdefault(_free(row["reasons"]), []).append(row["node"])
    parts = [_named(free, nodes) for free, nodes in by_free.items()]
    if group["nodesOmitted"]:
        parts.append(f"… {group['nodesOmitted']} more: {rest}")
    also = _also(group)
    return f"{common}{'; free ' if any(by_free) else ': '}{', '.join(parts)}{'; ' + also if also else ''}"


def _named(free: str, nodes: Sequence[str]) -> str:
    names = ", ".join(sorted(nodes, key=natural_sort_key))
    return f"{free} ({names})" if free else names


def _free(reasons: Sequence[Json]) -> str:
    """What is free of each resource that a node is short of: `300m`, or `cpu 300m, memory 2Gi`."""
    short = [r for r in reasons if "free" in r]
    amounts = [format_quantity(r["resource"], r["free"]) for r in short]
    if len(short) == 1:
        return amounts[0]
    return ", ".join(f"{r['resource']} {amount}" for r, amount in zip(short, amounts, strict=True))


def _also(group: Json) -> str:
    """The other filters that reject nodes of the group too, and how many of them."""
    others = _others(group)
    every = [plugin for plugin, nodes in others.items() if nodes == group["count"]]
    said = [f"also rejected by {', '.join(every)}"] if every else []
    some = sorted(((n, plugin) for plugin, n in others.items() if plugin not in every), key=lambda s: (-s[0], s[1]))
    return "; ".join([*said, *(f"{n} of them also rejected by {plugin}" for n, plugin in some)])


def _others(group: Json) -> Mapping[str, int]:
    """Nodes of the whole group by the other filters that reject them; empty where the answer does not say."""
    if "alsoRejectedBy" in group:
        counted: Mapping[str, int] = group["alsoRejectedBy"]
        return counted
    if group["nodesOmitted"]:  # those that are named say nothing about the others
        return {}
    return Counter(plugin for row in group["nodes"] for plugin in row["alsoRejectedBy"])
