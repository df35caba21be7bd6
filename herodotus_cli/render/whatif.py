"""The screen of `kubectl herodotus whatif`: PlacementReview -> blocks.

Owns: which pods and nodes are named, and of which pod the evidence is shown: the one that does not fit, else the first.
Does not own: that evidence (`pod`, `node_of_pod`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render import node_of_pod
from herodotus_cli.render import pod as pod_screen
from herodotus_cli.render.blocks import Block, Line, Sides, View, spaced, table
from herodotus_cli.render.words import count, number

Json = dict[str, Any]
_NODES = 20  # named: a screen's worth
_NOTHING = "nothing is created"
_ALL = {  # what --all adds, by: is it about one node, about several pods
    (False, False): "--all every node",
    (False, True): "--all every pod and node",
    (True, False): "--all every filter",
    (True, True): "--all every pod and filter",
}


def screen(answer: Json, view: View, *, every_node: bool = False, one_node: bool = False) -> list[Block]:
    """What would happen, and why. `one_node`: the answer tells of one node alone."""
    status, asked = answer["status"], answer["spec"]["replicas"]
    first, stopped = status["first"], status["stopped"]
    told = first if one_node else stopped or first
    sections: list[list[Block]] = [
        [Sides(_identity(answer), f"what if, by {answer['spec']['schedulerName']}: {_NOTHING}")],
        [Line(status["headline"], "strong")],
    ]
    if asked > 1:
        sections += [
            _pods(status["pods"]) if every_node or view.wide else _nodes(status["nodes"], every_node=every_node)
        ]
        sections += [[Line(_about(answer, told))]]
    if one_node:
        sections += node_of_pod.evidence(told, view, every_node=every_node)
    else:
        sections += pod_screen.evidence(told, view, every_node=every_node)
    sections += [_more(view, every_node=every_node, one_node=one_node, several=asked > 1)]
    return spaced(sections)


def _identity(answer: Json) -> str:
    metadata, kind, asked = answer["metadata"], answer["spec"]["kind"], answer["spec"]["replicas"]
    parts = [metadata["name"], f"namespace {metadata['namespace']}", kind, count(asked, "pod") if asked > 1 else ""]
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
    rows = [(node["node"], number(node["pods"])) for node in shown]
    left = len(nodes) - len(shown)
    more: list[Block] = [Line(f"… {count(left, 'more node')} (--all)")] if left else []
    return [table(("NODE", "PODS"), rows, right=(1,)), *more]


def _pods(pods: list[Json]) -> list[Block]:
    """Each pod in the order in which they were placed."""
    if not pods:
        return []
    rows = [(p["pod"], p["node"], p["decidedBy"], number(p["points"]), number(p["feasible"])) for p in pods]
    return [table(("POD", "NODE", "DECIDED BY", "MARGIN", "FEASIBLE"), rows, right=(3, 4))]


def _more(view: View, *, every_node: bool, one_node: bool, several: bool) -> list[Block]:
    """How to see more; for people only."""
    if view.piped:
        return []
    hints = [] if every_node else [_ALL[one_node, several]]
    hints += [] if one_node else ["--node NODE why (not) that one"]
    hints += [] if several else ["--replicas N how many fit"]
    return [Line(f"more: {', '.join(hints)}", "dim")] if hints else []
