"""The screen of `kubectl herodotus whatif`: PlacementReview -> blocks.

Owns: which pods and nodes are named, and of which pod the evidence is shown: the one that does not fit, else the first.
Does not own: that evidence (`pod`, `node_of_pod`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render import pod as pod_screen
from herodotus_cli.render import pod_on_node
from herodotus_cli.render.formatting import format_count, format_number
from herodotus_cli.render.screen_elements import Block, SplitLine, TextLine, ViewOptions, build_table, join_sections

Json = dict[str, Any]
_NODES = 20  # named: a screen's worth
_NOTHING = "nothing is created"
_ALL = {  # what --all adds, by: is it about one node, about several pods
    (False, False): "--all every node",
    (False, True): "--all every pod and node",
    (True, False): "--all every filter",
    (True, True): "--all every pod and filter",
}


def build_screen(answer: Json, view: ViewOptions, *, every_node: bool = False, one_node: bool = False) -> list[Block]:
    """What would happen, and why. `one_node`: the answer tells of one node alone."""
    status, asked = answer["status"], answer["spec"]["replicas"]
    first, stopped = status["first"], status["stopped"]
    told = first if one_node else stopped or first
    sections: list[list[Block]] = [
        [SplitLine(_identity(answer), f"what if, by {answer['spec']['schedulerName']}: {_NOTHING}")],
        [TextLine(status["headline"], "strong")],
    ]
    if asked > 1:
        sections += [
            _pods(status["pods"]) if every_node or view.wide else _nodes(status["nodes"], every_node=every_node)
        ]
        sections += [[TextLine(_about(answer, told))]]
    if one_node:
        sections += pod_on_node.build_evidence(told, view, every_node=every_node)
    else:
        sections += pod_screen.build_evidence(told, view, every_node=every_node)
    sections += [_more(view, every_node=every_node, one_node=one_node, several=asked > 1)]
    return join_sections(sections)


def _identity(answer: Json) -> str:
    metadata, kind, asked = answer["metadata"], answer["spec"]["kind"], answer["spec"]["replicas"]
    parts = [
        metadata["name"],
        f"namespace {metadata['namespace']}",
        kind,
        format_count(asked, "pod") if asked > 1 else "",
    ]
    return "  ".join(part for part in parts if part)


def _about(answer: Json, told: Json) -> str:
    """Which of several pods the rest of the screen is about."""
    name, fits = told["metadata"]["name"], answer["status"]["fits"]
    if told["outcome"]["node"] is None:
        return f"Number {fits + 1}, {name}, which does not fit:"
    return f"The first, {name}: {told['headline']}"


def _nodes(nodes: list[Json], *, every_node: bool) -> list[Block]:
    """How many would go where."""
    if not nodes:
        return []
    shown = nodes if every_node else nodes[:_NODES]
    rows = [(node["node"], format_number(node["pods"])) for node in shown]
    left = len(nodes) - len(shown)
    more: list[Block] = [TextLine(f"… {format_count(left, 'more node')} (--all)")] if left else []
    return [build_table(("NODE", "PODS"), rows, right=(1,)), *more]


def _pods(pods: list[Json]) -> list[Block]:
    """Each pod in the order in which they were placed."""
    if not pods:
        return []
    rows = [
        (p["pod"], p["node"], p["decidedBy"], format_number(p["points"]), format_number(p["feasible"])) for p in pods
    ]
    return [build_table(("POD", "NODE", "DECIDED BY", "MARGIN", "FEASIBLE"), rows, right=(3, 4))]


def _more(view: ViewOptions, *, every_node: bool, one_node: bool, several: bool) -> list[Block]:
    """How to see more; for people only."""
    if view.piped:
        return []
    hints = [] if every_node else [_ALL[one_node, several]]
    hints += [] if one_node else ["--node NODE why (not) that one"]
    hints += [] if several else ["--replicas N how many fit"]
    return [TextLine(f"more: {', '.join(hints)}", "dim")] if hints else []
