"""The screen of questions about the whole cluster: ClusterReview -> blocks.

Owns: what is named first: the answer in one line, then the pods that find no node, what blocks, and the moves. Does not
own: the answer, drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from herodotus_answers.cluster_headlines import (
    GROUP_UNSCHEDULABLE,
    NOT_DRAINED,
    is_daemon_of_new_node,
    shorten_fit_error,
)
from herodotus_cli.render import deschedule, node_groups, plan, upgrade
from herodotus_cli.render.formatting import cut_rows, note_left_out
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    Style,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)
from herodotus_cli.render.suggestions import NOT_CHECKED
from herodotus_record.units import format_requested, natural_sort_key, pluralize

Json = dict[str, Any]

_ROWS = 6  # of a table, at least, on a terminal that has not the lines for more
_PIPED_ROWS = 20  # when piped; all of them with --all or -o wide
_NOTHING = "nothing is changed"
_CAUSES = {
    "Terminating": "was being deleted already",
    "NoController": "has no controller that replaces it",
    "DaemonSet": "belongs to a DaemonSet",
    "Node": "belongs to the node itself (static pod)",
    "ScaledDown": "scaled down",
}


def build_screen(answer: Json, title: str, view: ViewOptions, *, every_row: bool = False) -> list[Block]:
    """Return the blocks of the screen. `title` names the question; with `every_row`, no table is cut off.

    Otherwise tables on a terminal have as many rows as its lines hold.
    """
    if every_row or view.wide or view.piped:
        return _build(answer, title, view, None if every_row or view.wide else _PIPED_ROWS)
    from herodotus_cli.render.terminal import fit_terminal  # here, because piped output needs no Rich

    return fit_terminal(lambda most: _build(answer, title, view, most), view.lines, _ROWS, view)


def _build(answer: Json, title: str, view: ViewOptions, most: int | None) -> list[Block]:
    """Return the blocks of the screen with at most `most` rows in a table; None: all of them."""
    status, every_row = answer["status"], most is None
    groups = status.get("nodeGroups")
    is_list = groups is not None and not groups["pods"] and not groups["estimates"]  # of what exists: no what-if
    sections: list[list[Block]] = [] if is_list else [[SplitLine(title, f"what-if: {_NOTHING}")]]
    if status["capacity"] is not None:
        style: Style = "bad" if status.get("refusals") else ""
        sections += [[TextLine(status["headline"], style)], *_capacity(status["capacity"], most)]
    elif status["consolidation"] is not None:
        sections += [[TextLine(status["headline"])], *_consolidation(status["consolidation"], most)]
    elif status.get("upgrade") is not None:
        sections += upgrade.build_screen(status["upgrade"], status["headline"], every_row=every_row)
    elif status.get("plan") is not None:
        sections += plan.build_screen(status["plan"], status["headline"], every_row=every_row)
    elif status.get("deschedule") is not None:
        sections += deschedule.build_screen(status["deschedule"], status["headline"], most)
    elif groups is not None:
        sections += node_groups.build_review(groups, view, every_row=every_row)
    elif status.get("scaleDown") is not None:
        sections += [
            [TextLine(status["headline"])],
            *node_groups.build_scale_down(status["scaleDown"], every_row=every_row),
        ]
    else:
        sections += _changes(status, most)
    sections.append([TextLine(f"note: {note}", "dim") for note in status["notes"]])
    return join_sections(section for section in sections if section)


def _changes(status: Json, most: int | None) -> list[list[Block]]:
    """Return the sections on the effects of changes to the cluster, with at most `most` rows in a table (None: all)."""
    moved, new = (
        [pod for pod in status["placements"] if pod["node"] and bool(pod["fromNode"]) is leaves]
        for leaves in (True, False)
    )
    pending = [pod for pod in status["placements"] if not pod["node"]]
    own = [pod for pod in pending if not pod["reason"].startswith(GROUP_UNSCHEDULABLE)]
    good = not (pending or status["blocked"] or status.get("refusals"))
    return [
        [TextLine(status["headline"], "good" if good else "bad"), *_checked(status), *_drain(status)],
        _groups(status.get("groups") or ()),
        _table(
            "STAYS PENDING",
            ("FROM", "WHY"),
            own,
            lambda p: (p["fromNode"] or "–", _explain_pending(p)),
            most,
        ),
        _blocked(status["blocked"], most),
        _table("PENDING, GETS A NODE", ("TO", "DECIDED BY"), status["pending"], lambda p: _move(p)[1:], most),
        _table("MOVES", ("FROM", "TO", "DECIDED BY"), moved, _move, most),
        _table("NEW POD", ("TO", "DECIDED BY"), new, lambda p: _move(p)[1:], most),
        _still_pending(status, most),
        _table("ENDS", ("ON", "WHY"), status["deleted"], _end, most),
        _ignored(status["ignored"]),
        _nodes(status["nodes"], most),
    ]


def _explain_pending(pod: Json) -> str:
    """Return why a pod finds no node, with the pods that keep it away."""
    beside = f" (against {', '.join(pod['peers'])})" if pod["peers"] else ""
    return shorten_fit_error(pod["reason"]) + beside


def _still_pending(status: Json, most: int | None) -> list[Block]:
    """Return a table of the pods that waited and still get no node, unless the question is where other pods go.

    That is so if pods leave their nodes or are new, and for a drain that makes room nowhere.
    """
    waiting = status.get("stillPending") or ()
    others = any(not is_daemon_of_new_node(pod) for pod in status["placements"])
    if others or status["deleted"] or status["blocked"] or (status.get("drained") and not status["pending"]):
        return []
    table = _table("STAYS PENDING", ("WHY",), waiting, lambda p: (_explain_pending(p),), most)
    if waiting and any(node["before"] is None for node in status["nodes"]):
        ask = f"kubectl herodotus nodegroups pod {waiting[0]['name']} -n {waiting[0]['namespace']}"
        return [*table, TextLine(f"a new node of which group fits one: {ask}", "dim")]
    return table


def _groups(groups: Sequence[Json]) -> list[Block]:
    """Return a table of the pod groups that were decided: how far each came, and what stops it."""
    rows = []
    for group in groups:
        needs = f"{group['feasible']} of {group['pods']}"
        minimum = str(group["minCount"]) if group["minCount"] else "–"
        stopped = ": ".join(filter(None, (group["stoppedAt"], shorten_fit_error(group["reason"]))))
        outcome = Cell("placed", "good") if group["fits"] else Cell("does not fit", "bad")
        rows.append((f"{group['namespace']}/{group['name']}", outcome, needs, minimum, stopped or "–"))
    return [build_table(("POD GROUP", "RESULT", "FIND A NODE", "NEEDS", "STOPS AT"), rows)] if rows else []


def _table(title: str, columns: Sequence[str], pods: Sequence[Json], cells: Any, most: int | None) -> list[Block]:
    """Return a table of at most `most` pods (None: all), whose first column has the title of the section.

    `columns` are the titles of the other columns, and `cells` returns their texts for a pod.
    """
    shown = cut_rows(pods, most)
    rows = [(f"{pod['namespace']}/{pod['name']}", *cells(pod)) for pod in shown]
    return [build_table((title, *columns), rows), *note_left_out(len(pods) - len(shown), "pod")] if rows else []


def _blocked(pods: Sequence[Json], most: int | None) -> list[Block]:
    """Return a table of pods that block the drain of a node, and a line that counts the other pods on these nodes.

    The table has at most `most` rows; None means all.
    """
    own = [pod for pod in pods if pod["cause"] != NOT_DRAINED]
    table = _table("BLOCKED", ("ON", "WHY"), own, lambda p: (p["node"], _explain_blocked(p)), most)
    fixes = list(dict.fromkeys(pod.get("remedy") or "" for pod in own))  # one of an earlier version does not say
    rows = [("AND" if number else "FIX", f"{fix} ({NOT_CHECKED})") for number, fix in enumerate(filter(None, fixes))]
    table += [labelled_rows(rows, bold=("FIX", "AND"))] if rows else []
    others = [f"{pod['namespace']}/{pod['name']}" for pod in pods if pod["cause"] == NOT_DRAINED]
    if not others:
        return table
    stay = f"{others[0]} stays" if len(others) == 1 else f"{len(others)} other pods stay"
    why = "kubectl drain evicts no pod of a node with one that it cannot delete"
    return [*table, TextLine(f"{stay} too: {why}.", "dim")]


def _explain_blocked(pod: Json) -> str:
    """Return why a pod cannot be evicted: kubectl's message, or only its part on the budget if it is about one."""
    message = str(pod["message"])
    _, end, about = message.partition("would violate the pod's disruption budget. ")
    unready = pod.get("unready") or []  # a service of an earlier version does not say
    waits = f"; not ready: {', '.join(unready)}" if unready else ""
    return about.removeprefix("The disruption ") + waits if end else message


def _move(pod: Json) -> tuple[str, str, str]:
    victims = f", evicts {', '.join(pod['victims'])}" if pod["victims"] else ""
    return pod["fromNode"], pod["node"], f"{pod['plugin']}{victims}"


def _end(pod: Json) -> tuple[str, str]:
    return pod["node"] or "–", _CAUSES.get(str(pod["cause"]), str(pod["cause"]))


def _ignored(pods: Sequence[Json]) -> list[Block]:
    counts = Counter(pod["cause"] for pod in pods)
    parts = [pluralize(counts["DaemonSet"], "pod") + " of DaemonSets"] if counts["DaemonSet"] else []
    parts += [pluralize(counts["Node"], "static pod")] if counts["Node"] else []
    return [TextLine(f"Not evicted: {' and '.join(parts)}.", "dim")] if parts else []


def _checked(status: Json) -> list[Block]:
    """Return a line that says which budgets a drain asked, or that none selects a pod.

    Return [] if the drain asked no budgets, or if one forbids an eviction, which the headline says.
    """
    budgets = status.get("budgets")
    if budgets is None or any(pod["cause"] == "Budget" for pod in status["blocked"]):
        return []
    names = [f"{each['namespace']}/{each['name']} ({pluralize(each['pods'], 'pod')})" for each in budgets["selecting"]]
    said = f"{', '.join(names)}, asked before each eviction" if names else "none selects an evicted pod"
    return [TextLine(f"PodDisruptionBudgets: {said}.", "dim")]


def _drain(status: Json) -> list[Block]:
    """Return the commands of the drains, if they are possible."""
    return [TextLine(f"  {command}", command=True) for command in status.get("drainCommands") or ()]


def _nodes(nodes: Sequence[Json], most: int | None) -> list[Block]:
    """Return a table of the nodes that changed, with their pods and requests before and after.

    With more than `most` nodes, those that are new, removed or unschedulable are kept first, then those whose number of
    pods changes most.
    """
    shown = cut_rows(sorted(nodes, key=_rank_change), most)
    shown = sorted(shown, key=lambda node: natural_sort_key(node["name"]))
    rows = [
        (
            node["name"],
            _state(node),
            _both(node, lambda amounts: str(amounts["pods"])),
            *(_both(node, partial(_format_amount, resource)) for resource in ("cpu", "memory")),
        )
        for node in shown
    ]
    if not rows:
        return []
    return [
        build_table(("NODE", "STATE", "PODS", "CPU REQUESTS", "MEMORY"), rows),
        *note_left_out(len(nodes) - len(shown), "node"),
    ]


def _rank_change(node: Json) -> tuple[bool, int, tuple[tuple[int, str], ...]]:
    before, after = node["before"], node["after"]
    is_same = before is not None and after is not None
    pods = abs(after["pods"] - before["pods"]) if is_same else 0
    return is_same and node["schedulable"], -pods, natural_sort_key(node["name"])


def _state(node: Json) -> str:
    if node["after"] is None:
        return "removed"
    new = "new, " if node["before"] is None else ""
    return f"{new}{'schedulable' if node['schedulable'] else 'cordoned'}"


def _both(node: Json, text: Any) -> str:
    before, after = (text(node[side]) if node[side] else "–" for side in ("before", "after"))
    return before if before == after else f"{before} → {after}"


def _format_amount(resource: str, amounts: Json) -> str:
    return format_requested(resource, amounts[resource])


def _capacity(found: Json, most: int | None) -> list[list[Block]]:
    nodes = [node for node in found["nodes"] if node["fits"] or node.get("isNew")]
    sections = list[list[Block]]()
    zones = [(zone or "(no zone)", str(count)) for zone, count in found["zones"].items()]
    if len(zones) > 1:
        sections.append([build_table(("ZONE", "PODS"), zones, right=(1,))])
    shown = cut_rows(nodes, most)
    limits = Counter(node["limitedBy"] for node in found["nodes"] if node["limitedBy"])
    is_beside_nodes = bool(limits) and all(node in shown for node in found["nodes"] if node["limitedBy"])
    if limits and not is_beside_nodes:
        rows = [(reason, str(count)) for reason, count in limits.most_common()]
        sections.append([build_table(("WHAT LIMITS IT", "NODES"), rows, right=(1,))])
    if shown:
        names = [f"{node['node']} (new)" if node.get("isNew") else node["node"] for node in shown]
        by_node = [(name, str(node["fits"]), node["limitedBy"]) for name, node in zip(names, shown, strict=True)]
        columns = ("NODE", "PODS", "LIMITED BY") if is_beside_nodes else ("NODE", "PODS")
        table = build_table(columns, [row[: len(columns)] for row in by_node], right=(1,))
        sections.append([table, *note_left_out(len(nodes) - len(shown), "node")])
    return sections


def _consolidation(answer: Json, most: int | None) -> list[list[Block]]:
    emptied, kept = answer["emptied"], answer["kept"]
    sections = list[list[Block]]()
    shown = cut_rows(emptied, most)
    if shown:
        rows = [(node["node"], str(node["pods"]), _targets(node["targets"])) for node in shown]
        table = build_table(("EMPTIED", "PODS", "TO"), rows, right=(1,))
        sections.append([table, *note_left_out(len(emptied) - len(shown), "node")])
    shown = cut_rows(kept, most)
    if shown:
        rows = [(node["node"], *_describe_keeping(node["pods"])) for node in shown]
        sections.append([build_table(("KEPT", "BY", "WHY"), rows), *note_left_out(len(kept) - len(shown), "node")])
    return sections


def _targets(targets: dict[str, int]) -> str:
    named = [f"{node} ({count})" for node, count in sorted(targets.items(), key=lambda item: -item[1])]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")


def _describe_keeping(pods: Sequence[Json]) -> tuple[str, str]:
    """Return two texts: the first of the pods that keep a node, with the number of the others, and its reason."""
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"{pods[0]['pod']}{more}", shorten_fit_error(pods[0]["reason"])
