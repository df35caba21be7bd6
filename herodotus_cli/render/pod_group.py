"""The screen of `kubectl herodotus podgroup NAME`: PodGroupPlacement -> blocks.

Owns: the content of the screen. Does not own: what blocks a group (`herodotus_answers.pod_group`), drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from herodotus_cli.render import suggestions
from herodotus_cli.render.formatting import format_ago
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    Style,
    TextLine,
    ViewOptions,
    build_table,
    headline,
    join_sections,
    labelled_rows,
)
from herodotus_record.units import join_limited, natural_sort_key, pluralize

if TYPE_CHECKING:
    from herodotus_answers.pod_group import GroupNode, GroupPod, PodGroupPlacement
    from herodotus_answers.undecided_group import UndecidedPodGroup

_NODES = 4  # on a terminal; every node with -o wide
_NAMED = 3  # pods or nodes in a cell
_STATUSES = {
    "Bound": "placed",
    "Binding": "binding",
    "DryRun": "dry run",
    "Error": "error",
    "Failed": "failed",
    "Preempted": "preempted",
}
_UNDECIDED_PODS = 12  # of a group without a decision, on a terminal


def build_screen(answer: PodGroupPlacement, view: ViewOptions, held: Sequence[list[Block]] = ()) -> list[Block]:
    """Return the blocks of the screen: the result for the group, what would be enough, and its pods by reason.

    Piped and with -o wide, each pod has a row. `held` are sections on the pods that hold what the group lacks.
    """
    meta, is_good = answer["metadata"], answer["state"] in ("Scheduled", "Fits")
    sign = "" if view.piped else "✓ " if is_good else "✗ "
    proposed = answer["reasons"][0]["suggestions"] if answer["reasons"] else []
    whole = view.piped or view.wide
    sections: list[list[Block]] = [
        [
            SplitLine(f"{meta['name']} ({meta['namespace']})  PodGroup", _when(answer, view)),
            headline(sign + answer["headline"], "placed" if is_good else None),
            *suggestions.build_blocks({"suggestions": proposed, "possibleChanges": []}, view),
        ],
        [labelled_rows(rows)] if (rows := _notes(answer)) else [],
        *held,
        [] if whole and not view.headers else [_groups(answer)] if not view.piped else [],
        [_pods(answer["pods"])] if whole else [],
        _nodes(answer["nodes"], view),
        [] if view.piped else [TextLine(_hint(answer, view), "dim")],
    ]
    return join_sections(sections)


def build_undecided_screen(answer: UndecidedPodGroup, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen of a group without a decision: its queue, and its pods by their conditions."""
    from herodotus_cli.render.pod import build_queue  # here, because most groups have decisions

    meta, pods = answer["metadata"], answer["pods"]
    shown = pods if view.piped or view.wide else pods[:_UNDECIDED_PODS]
    rows = [(pod["pod"], pod["node"] or "–", pod["reason"] or "–") for pod in shown]
    left_out = len(pods) - len(shown) + answer["podsOmitted"]
    sections: list[list[Block]] = [
        [TextLine(f"{meta['name']} ({meta['namespace']})  PodGroup"), TextLine(answer["headline"], "strong")],
        build_queue(dict(answer["queue"])) if answer["queue"] else [],
        [build_table(("POD", "NODE", "REASON"), rows)] if rows else [],
        [TextLine(f"… {pluralize(left_out, 'more pod')}: -o wide", "dim")] if left_out else [],
        [TextLine(f"note: {note}", "dim") for note in answer["notes"]],
    ]
    return join_sections(sections)


def _when(answer: PodGroupPlacement, view: ViewOptions) -> str:
    cycle = answer["cycle"]
    if answer["source"] == "evaluated":
        return "evaluated now"
    if cycle is None:
        return "decided pod by pod"
    return f"{pluralize(cycle['pods'], 'pod')} decided {format_ago(cycle['startedAt'], view)}"


def _notes(answer: PodGroupPlacement) -> list[tuple[str, str]]:
    """Return (label, sentence) pairs on what would have been enough, and on facts without a record."""
    rows = []
    short = answer["shortage"]
    if short is not None:
        amounts = ", ".join(f"{name} {amount}" for name, amount in short["requests"].items())
        closest = short["closestNode"]
        near = f"; closest for the next: {closest['node']} ({closest['reason']})" if closest else ""
        rows.append(("SHORT OF", f"{pluralize(short['pods'], 'pod')}{f': {amounts} together' * bool(amounts)}{near}"))
        if short["enoughMinCount"]:
            rows.append(("ENOUGH", f"minCount {short['enoughMinCount']} would have been enough"))
    full = [node for node in answer["nodes"] if node["full"]]
    if full:
        chosen = pluralize(len(answer["nodes"]), "node")
        rows.append(("FULL", f"{len(full)} of {chosen} chosen for pods of the group"))
    others = answer.get("otherMembers") or ()
    rows += [("NOT TRIED", f"{other['pod']} {other['reason']}") for other in others[:_NAMED]]
    if len(others) > _NAMED:
        rows.append(("", f"{len(others) - _NAMED} more: -o json"))
    if answer["notRecorded"]:
        rows.append(("NOT RECORDED", pluralize(answer["notRecorded"], "pod")))
    return rows


def _groups(answer: PodGroupPlacement) -> Block:
    """Return a table of the pods with the same status and reason, in the order of the cycle."""
    groups: dict[tuple[str, str], list[GroupPod]] = {}
    for pod in answer["pods"]:
        groups.setdefault((_status(pod), "" if pod["provisional"] else pod["reason"] or ""), []).append(pod)
    rows = []
    for (status, reason), pods in groups.items():
        nodes = sorted({p["node"] for p in pods if p["node"]}, key=natural_sort_key)
        found = f"{pluralize(len(nodes), 'node')}: {join_limited(nodes, _NAMED)}" if nodes else ""
        node_or_reason = reason or (f"would fit {found}" if pods[0]["provisional"] and found else found)
        names = join_limited([p["pod"] for p in pods], 1 if len(pods) > _NAMED else _NAMED)
        style: Style = "" if status in ("placed", "fits") else "bad"
        rows.append((str(len(pods)), _ranges(p["position"] for p in pods), Cell(status, style), names, node_or_reason))
    return build_table(("PODS", "POSITION", "STATUS", "POD", "NODE OR REASON"), rows, right=(0,))


def _ranges(positions: Iterable[int | None]) -> str:
    """Return positions as ranges, such as `1-500, 502`; at most three."""
    ranges: list[list[int]] = []
    for position in sorted(p for p in positions if p is not None):
        if ranges and ranges[-1][1] == position - 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    texts = [f"{a}-{b}" if b > a else str(a) for a, b in ranges]
    return ", ".join(texts[:_NAMED]) + (", …" if len(texts) > _NAMED else "") or "–"


def _status(pod: GroupPod) -> str:
    if pod["provisional"]:
        return "fits"
    return _STATUSES.get(pod["state"], "no node")


def _node(pod: GroupPod) -> str:
    """Return the node of a pod, in parentheses if the pod is not placed on it."""
    return "–" if pod["node"] is None else f"({pod['node']})" if pod["provisional"] else pod["node"]


def _pods(pods: Sequence[GroupPod]) -> Block:
    rows = [
        (str(p["position"] or "–"), p["pod"], _status(p), _node(p), str(p["attempt"]), p["reason"] or "–") for p in pods
    ]
    return build_table(("POSITION", "POD", "STATUS", "NODE", "ATTEMPT", "REASON"), rows, right=(0, 4))


def _nodes(nodes: list[GroupNode], view: ViewOptions) -> list[Block]:
    """Return a table of the chosen nodes, those that were full first; [] if piped, as each pod names its node."""
    if view.piped or not nodes:
        return []
    is_known = any(n["full"] is not None for n in nodes)
    order = sorted(nodes, key=lambda n: (not n["full"], -n["pods"], natural_sort_key(n["node"])))
    shown = order if view.wide else order[:_NODES]
    rows = []
    for n in shown:
        after = f"{n['last']} ({n['position']})" if n["position"] else n["last"]
        status = "–" if n["full"] is None else n["reason"] if n["full"] else "has room"
        rows.append((n["node"], str(n["pods"]), after, *((status,) if is_known else ())))
    left_out = len(order) - len(shown)
    header = ("NODE", "PODS", "LAST POD", *(("STATUS AFTERWARDS",) if is_known else ()))
    table = build_table(header, rows, right=(1,))
    more = [TextLine(f"… {pluralize(left_out, 'more node')}: -o wide", "dim")] if left_out else []
    return [table, *more]


def _hint(answer: PodGroupPlacement, view: ViewOptions) -> str:
    first = answer["reasons"][0]["first"] if answer["reasons"] else "NAME"
    every = "" if view.wide else ", -o wide (every pod)"
    return f"more: kubectl herodotus pod {first} (why or where){every}"
