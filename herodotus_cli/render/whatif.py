"""The screen of `kubectl herodotus whatif`: PlacementReview -> blocks.

Owns: which pods and nodes are named, and of which pod the evidence is shown: the one that does not fit, else the first.
Does not own: that evidence (`pod`, `pod_on_node`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render import pod as pod_screen
from herodotus_cli.render import pod_on_node, suggestions
from herodotus_cli.render.screen_elements import Block, SplitLine, TextLine, ViewOptions, build_table, join_sections
from herodotus_record.units import format_number, pluralize

Json = dict[str, Any]
_NODES = 20  # named: a screen's worth
_NOTHING = "nothing is created"
_ALL = {  # what --all adds, by: is it about one node, about several pods
    (False, False): "--all (every node)",
    (False, True): "--all (every pod and node)",
    (True, False): "--all (every filter)",
    (True, True): "--all (every pod and filter)",
}


def build_screen(answer: Json, view: ViewOptions, *, every_node: bool = False, one_node: bool = False) -> list[Block]:
    """Return the blocks of the screen on where hypothetical pods would go, and why.

    With `one_node`, the answer explains one node. With `every_node`, all pods and nodes are shown.
    """
    status, replicas = answer["status"], answer["spec"]["replicas"]
    first, stopped = status["first"], status["stopped"]
    shown_pod = first if one_node else stopped or first
    sections: list[list[Block]] = [
        [SplitLine(_identity(answer), f"what-if, by {answer['spec']['schedulerName']}: {_NOTHING}")],
        [_headline(status)],
    ]
    if replicas > 1:
        sections += [
            _pods(status["pods"]) if every_node or view.wide else _nodes(status["nodes"], every_node=every_node)
        ]
        sections += [[TextLine(_about(answer, shown_pod))]]
    if one_node:
        sections += pod_on_node.build_evidence(shown_pod, view, every_node=every_node)
    else:
        sections += [
            suggestions.build_blocks(shown_pod, view, with_commands=False),
            *pod_screen.build_evidence(shown_pod, view, every_node=every_node),
        ]
    sections += [_hints(view, every_node=every_node, one_node=one_node, several=replicas > 1)]
    return join_sections(sections)


def _headline(status: Json) -> Block:
    return TextLine(status["headline"], "bad" if status["stopped"] else "good")


def _identity(answer: Json) -> str:
    metadata, kind, replicas = answer["metadata"], answer["spec"]["kind"], answer["spec"]["replicas"]
    parts = [
        f"{metadata['name']} ({metadata['namespace']})",
        kind,
        pluralize(replicas, "pod") if replicas > 1 else "",
    ]
    return "  ".join(part for part in parts if part)


def _about(answer: Json, shown_pod: Json) -> str:
    """Return a line that says which of several pods the rest of the screen explains."""
    name, fits = shown_pod["metadata"]["name"], answer["status"]["fits"]
    if shown_pod["outcome"]["node"] is None:
        return f"Pod {fits + 1}, {name}, which does not fit:"
    return f"Pod 1, {name}: {shown_pod['headline']}"


def _nodes(nodes: list[Json], *, every_node: bool) -> list[Block]:
    """Return a table of the number of pods that each node would get.

    Unless `every_node` is true, only the first _NODES nodes have a row, and a line counts the others.
    """
    if not nodes:
        return []
    shown = nodes if every_node else nodes[:_NODES]
    rows = [(node["node"], format_number(node["pods"])) for node in shown]
    left = len(nodes) - len(shown)
    more: list[Block] = [TextLine(f"… {pluralize(left, 'more node')} (--all)")] if left else []
    return [build_table(("NODE", "PODS"), rows, right=(1,)), *more]


def _pods(pods: list[Json]) -> list[Block]:
    """Return a table of the pods in the order in which they were placed."""
    if not pods:
        return []
    rows = [
        (p["pod"], p["node"], p["decidedBy"], format_number(p["points"]), format_number(p["feasible"])) for p in pods
    ]
    return [build_table(("POD", "NODE", "DECIDED BY", "MARGIN", "FEASIBLE"), rows, right=(3, 4))]


def _hints(view: ViewOptions, *, every_node: bool, one_node: bool, several: bool) -> list[Block]:
    """Return a line that names the options that show more than the present ones; [] for piped output or if none does.

    The options in use are --all (`every_node`), --node (`one_node`) and --replicas (`several`).
    """
    if view.piped:
        return []
    hints = [] if every_node else [_ALL[one_node, several]]
    hints += [] if one_node else ["--node NODE (why or why not)"]
    hints += [] if several else ["--replicas N (how many fit)"]
    return [TextLine(f"more: {', '.join(hints)}", "dim")] if hints else []
