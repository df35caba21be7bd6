"""Tables of rejected nodes: grouped by reason, per node, and as a matrix of verdicts.

Owns: the tables on filters. Does not own: the screen around them, sentences on reasons (`herodotus_record`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from herodotus_cli.render.formatting import omitted_hint, short_plugin_names
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table, labelled_rows
from herodotus_record.units import format_available, natural_sort_key

Json = dict[str, Any]
PASS, REJECT, NOTHING = "✓", "✗", "–"
NO_REASON = "no reason given"  # an extender may give none


def build_groups(answer: Json, *, title: str, name_nodes: bool, most: int | None = None) -> list[Block]:
    """Return a table of the rejected nodes with one row per filter and reason, most nodes first.

    A node counts for the first filter that rejects it. `title` heads the column of counts; with `name_nodes` the nodes
    are named. With `most`, return the first `most` groups, and of each the first node. Without a rejected node, return
    [].
    """
    groups = answer["rejections"]
    if not groups:
        return []
    shown = groups[:most]
    name = _group_reason if most is None else _name_first
    texts = [name(group, rest=omitted_hint(answer)) if name_nodes else _common_reason(group) for group in shown]
    rows = [(Cell(str(g["count"])), Cell(g["plugin"]), Cell(why)) for g, why in zip(shown, texts, strict=True)]
    if len(shown) < len(groups):
        left = groups[len(shown) :]
        why = f"{'another reason' if len(left) == 1 else f'{len(left)} other reasons'}: {omitted_hint(answer)}"
        rows.append((Cell(str(sum(g["count"] for g in left))), Cell("…"), Cell(why)))
    return [build_table((title, "FILTER", "REASON"), rows, right=(0,))]


def build_all_passed_line(answer: Json) -> list[Block]:
    """Return a line that says that all nodes passed all filters; [] if no filter ran or no node was evaluated."""
    ran = [f for f in answer["filters"] if not f["skipped"]]
    nodes = answer["nodes"]["evaluated"]
    if not ran or not nodes:
        return []
    evaluated = " evaluated" if answer["nodes"]["notEvaluated"] else ""
    who = f"All {nodes}{evaluated} nodes" if nodes > 1 else f"The one{evaluated} node"
    return [TextLine(f"{who} passed {f'all {len(ran)} filters' if len(ran) > 1 else 'the one filter that ran'}.")]


def build_node_table(answer: Json, view: ViewOptions) -> list[Block]:
    """Return a table of all rejections: one row per node, filter and reason."""
    rows: list[tuple[Cell, ...]] = []
    for node in answer.get("perNode", ()):
        first = True
        for verdict in node["rejectedBy"]:
            for why in [reason["text"] for reason in verdict["reasons"]] or [NO_REASON]:
                named = node["node"] if first or view.piped else ""
                rows.append((Cell(named), Cell(verdict["plugin"]), Cell(why)))
                first = False
    return [build_table(("NODE", "FILTER", "REASON"), rows)] if rows else []


def build_verdict_matrix(answer: Json, view: ViewOptions) -> list[Block]:
    """Return a table of verdicts with one row per node and one column per filter that rejects any node.

    Filters that rejected no node share a line, also if that is all. In piped output each filter that ran has a column.
    """
    ran = [f for f in answer["filters"] if not f["skipped"]]
    nodes = answer.get("perNode", ())
    if not ran or not nodes:
        return []
    telling = [f["plugin"] for f in ran if f["rejected"] or view.piped]
    names = {p: p for p in telling} if view.piped else short_plugin_names(telling)
    rows = [[Cell(node["node"]), *(_verdict(node, plugin, view) for plugin in telling)] for node in nodes]
    header = ("FILTERS" if not view.piped else "NODE", *(names[p] for p in telling))
    blocks: list[Block] = [build_table(header, rows)] if telling else []
    return [*blocks, labelled_rows(_uniform(answer))] if any(words for _, words in _uniform(answer)) else blocks


def _uniform(answer: Json) -> list[tuple[str, str]]:
    """Return (label, names) pairs of the filters that all nodes pass, and of those that had nothing to check."""
    everywhere = [f["plugin"] for f in answer["filters"] if not f["skipped"] and not f["rejected"]]
    skipped = [f["plugin"] for f in answer["filters"] if f["skipped"]]
    return [("ALL NODES PASS", ", ".join(everywhere)), ("NOTHING TO CHECK", ", ".join(skipped))]


def _verdict(node: Json, plugin: str, view: ViewOptions) -> Cell:
    if any(verdict["plugin"] == plugin for verdict in node["rejectedBy"]):
        return Cell("reject" if view.piped else REJECT, "bad")
    if plugin in node["passed"]:
        return Cell("pass" if view.piped else PASS)
    return Cell(str(node["evaluation"]) if view.piped else NOTHING)


def _common_reason(group: Json) -> str:
    return "; ".join(reason["text"] for reason in group["reasons"]) or NO_REASON


def _name_first(group: Json, **_: str) -> str:
    """Return the reason of a group of rejected nodes with the first of them, that with most free, as a short text."""
    named = group["nodes"][:1]
    by_free = _group_by_free(named)
    parts = [_list_nodes(free, nodes) for free, nodes in by_free.items()]
    if left := group["count"] - len(named):
        parts.append(f"… {left} more")
    return f"{_common_reason(group)}{'; free ' if any(by_free) else ': '}{', '.join(parts)}"


def _group_by_free(rows: Sequence[Json]) -> dict[str, list[str]]:
    """Return the names of rejected nodes by what they have free of that of which they have too little."""
    by_free: dict[str, list[str]] = {}
    for row in rows:
        by_free.setdefault(_free_amounts(row["reasons"]), []).append(row["node"])
    return by_free


def _group_reason(group: Json, *, rest: str) -> str:
    """Return the text for a group of rejected nodes: their common reason, then their names by free amount.

    `rest` is the hint on how to see nodes that are not named.
    """
    common, by_free = _common_reason(group), _group_by_free(group["nodes"])
    parts = [_list_nodes(free, nodes) for free, nodes in by_free.items()]
    if group["nodesOmitted"]:
        parts.append(f"… {group['nodesOmitted']} more: {rest}")
    also = _other_filters(group)
    return f"{common}{'; free ' if any(by_free) else ': '}{', '.join(parts)}{'; ' + also if also else ''}"


def _list_nodes(free: str, nodes: Sequence[str]) -> str:
    names = ", ".join(sorted(nodes, key=natural_sort_key))
    return f"{free} ({names})" if free else names


def _free_amounts(reasons: Sequence[Json]) -> str:
    """Return how much the node has free of each resource of which it has too little: `300m`, or `cpu 300m, memory 2Gi`.

    Return "" if the reasons are about no resource.
    """
    short = [r for r in reasons if "free" in r and r["params"].get("allocatable") != "0"]  # 0: the text says so
    amounts = [format_available(r["resource"], r["free"]) for r in short]
    if len(short) == len(reasons) == 1:
        return amounts[0]
    return ", ".join(f"{r['resource']} {amount}" for r, amount in zip(short, amounts, strict=True))


def _other_filters(group: Json) -> str:
    """Return a text on the other filters that reject nodes of the group too, with the number of these nodes."""
    others = _count_other_filters(group)
    every = [plugin for plugin, nodes in others.items() if nodes == group["count"]]
    notes = [f"also rejected by {', '.join(every)}"] if every else []
    some = sorted(((n, plugin) for plugin, n in others.items() if plugin not in every), key=lambda s: (-s[0], s[1]))
    return "; ".join([*notes, *(f"{n} of them also rejected by {plugin}" for n, plugin in some)])


def _count_other_filters(group: Json) -> Mapping[str, int]:
    """Return how many nodes of the group each other filter rejects too, by plugin; {} if that is not known."""
    if "alsoRejectedBy" in group:
        counts: Mapping[str, int] = group["alsoRejectedBy"]
        return counts
    if group["nodesOmitted"]:  # those that are named say nothing about the others
        return {}
    return Counter(plugin for row in group["nodes"] for plugin in row["alsoRejectedBy"])
