"""The screens about node groups: the groups, the verdicts on a pod, estimates, and what keeps nodes.

Owns: the words for verdicts, and which facts are named first. Does not own: the answer, drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herodotus_answers.cluster_headlines import (
    EVENT,
    NO_NODE_GROUP,
    find_problems,
    format_node_group_count,
    format_verdicts,
)
from herodotus_answers.quantities import format_available_amount, parse_quantity
from herodotus_cli.render.formatting import format_age_or_time, format_ago, note_left_out
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table, labelled_rows
from herodotus_record.units import natural_sort_key

if TYPE_CHECKING:
    from herodotus_answers.node_groups import NodeGroupReview, PodVerdicts

Json = Mapping[str, Any]

ROWS = 20  # of each table: a screen's worth
_SUMMARY_GROUPS = 6  # in the section of a pending pod's answer
_REPORTS = 3
_SUMMARY_REPORTS = 2
_SUMMARY_PROBLEMS = 3
_VERDICTS = {
    "Fits": "fits",
    "FitsAtLimit": "fits, but at its limit",
    "DoesNotFit": "does not fit",
    "ShapeUnknown": "shape unknown",
}
_ORDER = tuple(_VERDICTS)
_STYLES = {"Fits": "good", "DoesNotFit": "bad"}
DISCLAIMER = "A group that fits is one whose new node would pass all filters. Whether a node is added is not known."


def build_review(found: NodeGroupReview, view: ViewOptions, *, every_row: bool = False) -> list[list[Block]]:
    """Return the sections of an answer about node groups: verdicts on pods first, then estimates and the groups.

    With `every_row`, no table is cut off. If the answer is about pods, the groups are only shown then, or with -o wide.
    """
    groups, pods = found["groups"], found["pods"]
    if not groups:
        return [[TextLine(NO_NODE_GROUP)]]
    sections = [section for pod in pods for section in build_verdicts(pod, groups, view, every_row=every_row)]
    sections += _estimates(found["estimates"], every_row)
    if not pods or every_row or view.wide:
        sections += _groups(found, view, every_row)
    return sections


def build_verdicts(
    pod: PodVerdicts, groups: Sequence[Json], view: ViewOptions, *, every_row: bool
) -> list[list[Block]]:
    """Return the sections about one pod: a sentence, a row for each group, and what autoscalers report.

    With `every_row`, all groups have a row, otherwise at most ROWS.
    """
    by_name = {group["name"]: group for group in groups}
    verdicts = sorted(pod["groups"], key=lambda v: (_ORDER.index(v["verdict"]), natural_sort_key(v["group"])))
    fits = any(verdict["verdict"] == "Fits" for verdict in verdicts)
    shown = verdicts if every_row else verdicts[:ROWS]
    rows = [
        (
            verdict["group"],
            _size(by_name.get(verdict["group"])),
            Cell(_VERDICTS[verdict["verdict"]], _STYLES.get(verdict["verdict"], "")),  # type: ignore[arg-type]
            _explain(verdict),
        )
        for verdict in shown
    ]
    table = build_table(("NODE GROUP", "NODES", "VERDICT", "REASON"), rows)
    head: list[Block] = [TextLine(format_verdicts(pod, "--all"), "good" if fits else "bad")]
    sections = [head, [table, *note_left_out(len(verdicts) - len(shown), "node group"), TextLine(DISCLAIMER, "dim")]]
    return [*sections, *_reports(pod["reports"], view, every_row)]


def build_summary(found: Json | None, reports: Sequence[Json], view: ViewOptions) -> list[Block]:
    """Return a table of labelled lines about the only pod of an answer: the groups' verdicts, and autoscalers' reports.

    `found` is None if no verdict is known, and `reports` are the autoscalers' present events about the pod. The line
    says when verdicts of a record were made. If nothing is known, the result is [].
    """
    if found is None or not found["pods"]:
        return [labelled_rows([("AUTOSCALER", text) for text in summarize_reports(reports, view)])] if reports else []
    by_name = {group["name"]: group for group in found["groups"]}
    verdicts = sorted(
        found["pods"][0]["groups"], key=lambda v: (_ORDER.index(v["verdict"]), natural_sort_key(v["group"]))
    )
    parts = [
        f"{verdict['group']}: {_VERDICTS[verdict['verdict']]}{_brief(verdict, by_name.get(verdict['group']))}"
        for verdict in verdicts[:_SUMMARY_GROUPS]
    ]
    more = len(verdicts) - len(parts) + found.get("omittedGroups", 0)
    parts += [f"{more} more"] if more else []
    made = f"as of {format_ago(found['recordedAt'], view)}; now: " if "recordedAt" in found else ""
    rows = [("NODE GROUPS", f"{' · '.join(parts)} ({made}--node-groups)")] if found["groups"] else []
    texts = summarize_reports(found["pods"][0]["reports"] or reports, view)
    texts += _summarize_problems(found, view)
    rows += [("AUTOSCALER" if number == 0 else "", text) for number, text in enumerate(texts)]
    return [labelled_rows(rows)] if rows else []


def summarize_reports(reports: Sequence[Json], view: ViewOptions, most: int | None = _SUMMARY_REPORTS) -> list[str]:
    """Return the newest event of each kind, in the reporters' words and with their age: at most `most` (None: all)."""
    newest: dict[tuple[str, str], Json] = {}
    for report in reports:
        newest.setdefault((report["component"], report["reason"]), report)
    shown = list(newest.values())[:most]
    return [
        f"{report['component']}: {report['reason']} {format_ago(report['at'], view)}: {report['message']}"
        for report in shown
    ]


def _summarize_problems(found: Json, view: ViewOptions) -> list[str]:
    """Return what keeps groups from getting nodes, such as failed launches or backoff, as texts.

    Only the first problem of each group is included, those of groups that reject the pod after others, then problems of
    no single group. The last text counts the problems that are left out.
    """
    rejecting = {v["group"] for v in found["pods"][0]["groups"] if v["verdict"] == "DoesNotFit"}
    by_group = [
        [f"{group['name']}: {_format_problem(*problem, view)}" for problem in find_problems(group["conditions"])]
        for group in sorted(found["groups"], key=lambda group: group["name"] in rejecting)
    ]
    first = [texts[0] for texts in by_group if texts]
    first += [_format_problem(*problem, view) for problem in find_problems(found["conditions"])]
    left = sum(max(0, len(texts) - 1) for texts in by_group) + max(0, len(first) - _SUMMARY_PROBLEMS)
    return [*first[:_SUMMARY_PROBLEMS], *([f"{left} more: nodegroups"] if left else [])]


def _format_problem(condition: Json, clause: str, view: ViewOptions) -> str:
    since = condition.get("since")  # records of earlier versions lack it
    if condition["type"] == EVENT:
        ago = f" {format_ago(since, view)}" if since else ""
        return f"{condition['object']}: {clause}{ago}: {condition['message']}"
    lasts = f" {'since' if view.utc else 'for'} {format_age_or_time(since, view)}" if since else ""
    why = ": ".join(filter(None, (condition["reason"], condition["message"])))
    subject = "" if condition["object"].startswith("node group ") else f"{condition['object']} "
    return f"{subject}{clause}{lasts}{': ' if why else ''}{why}"


def build_sections(found: Json | None, reports: Sequence[Json], view: ViewOptions, *, whole: bool) -> list[list[Block]]:
    """Return the sections for the screen of a pending pod: one line, or with `whole` a row for each group.

    `found` and `reports` are as `build_summary` has them.
    """
    if found is None or not whole:
        summary = build_summary(found, reports, view)
        return [summary] if summary else []
    notes: list[Block] = [TextLine(f"note: {note}", "dim") for note in found["notes"]]
    groups, sections = found["groups"], list[list[Block]]()
    for pod in found["pods"] if groups else ():
        sections += build_verdicts(pod, groups, view, every_row=True)
    return [section for section in (*sections, notes) if section]


def build_scale_down(found: Json, *, every_row: bool = False) -> list[list[Block]]:
    """Return two tables about the removal of nodes: nodes that nothing blocks, and what blocks each of the others.

    With `every_row`, no table is cut off.
    """
    nodes = found["nodes"]
    free = [node for node in nodes if not node["blockers"]]
    sections = list[list[Block]]()
    if free:
        rows = [(node["node"], node["group"] or "–", str(node["pods"])) for node in _cut(free, every_row)]
        table = build_table(("NO BLOCKER", "NODE GROUP", "PODS TO MOVE"), rows, right=(2,))
        sections.append([table, *note_left_out(len(free) - len(rows), "node")])
    blocked = [node for node in nodes if node["blockers"]]
    if blocked:
        reasons = [
            (node["node"], blocker["cause"], blocker["pod"] or "the node", _explain_blocker(blocker))
            for node in _cut(blocked, every_row)
            for blocker in _cut(node["blockers"], every_row)
        ]
        table = build_table(("NODE", "CAUSE", "BECAUSE OF", "REASON"), reasons)
        sections.append([table, *note_left_out(len(blocked) - len(_cut(blocked, every_row)), "node")])
    return sections


def _explain_blocker(blocker: Json) -> str:
    sentence, end, _ = str(blocker["reason"] or blocker["message"]).partition(". ")
    limited = f" ({blocker['autoscaler']})" if blocker["autoscaler"] else ""
    return f"{sentence}{end.strip()}{limited}"


def _explain(verdict: Json) -> str:
    """Return why a group has its verdict, and the change that would help."""
    parts = []
    if verdict["verdict"] == "Fits" and verdict["zones"]:
        parts.append(f"in {', '.join(verdict['zones'])}")
    if verdict["atLimit"]:
        parts.append(
            verdict["atLimit"] if verdict["verdict"] == "FitsAtLimit" else f"at its limit: {verdict['atLimit']}"
        )
    parts += [f"{r['plugin']}: {', '.join(r['reasons'])}{_where(r)}" for r in verdict["rejections"]]
    if verdict["unknown"]:
        parts.append(verdict["unknown"])
    if verdict["change"] and verdict["verdict"] == "DoesNotFit":
        parts.append(f"fix: {verdict['change']}")
    return "; ".join(parts) or "–"


def _where(rejection: Json) -> str:
    return f" (in {', '.join(rejection['zones'])})" if len(rejection["zones"]) > 1 else ""


def _brief(verdict: Json, group: Json | None) -> str:
    """Return a note on a verdict, in parentheses and after a space; "" if there is nothing to note.

    It has the rejections of the pod, or that the group is at its limit, or the group's size, weight and problems.
    """
    if verdict["verdict"] == "DoesNotFit":
        return f" ({', '.join(_name_rejection(r, group) for r in verdict['rejections'])})"
    if verdict["atLimit"]:
        return f" ({verdict['atLimit']})"
    if group is None or verdict["verdict"] != "Fits":
        return ""
    weight = f", weight {group['weight']}" if group.get("weight") is not None else ""
    stuck = ", but see AUTOSCALER" if find_problems(group["conditions"]) else ""
    return f" ({_size(group)} nodes{weight}{stuck})"


def _name_rejection(rejection: Json, group: Json | None) -> str:
    """Return the filter that rejects the pod, with the taints of the group if they are the reason."""
    if group is not None and rejection["plugin"] == "TaintToleration" and group.get("taints"):
        return f"taint {', '.join(group['taints'])}"
    return str(rejection["plugin"])


def _size(group: Json | None) -> str:
    """Return a group's number of nodes, with its maximum if that is known, such as `3 of 10`; `–` without a group."""
    if group is None:
        return "–"
    return f"{group['size']} of {group['maxSize']}" if group["maxSize"] is not None else str(group["size"])


def _groups(found: NodeGroupReview, view: ViewOptions, every_row: bool) -> list[list[Block]]:
    groups = found["groups"]
    head: list[Block] = [TextLine(format_node_group_count(found))]
    shown = groups if every_row else groups[:ROWS]
    columns = ["NODE GROUP", "NODES", "ZONES", "NEW NODE", "SOURCE"]
    rows = [
        [group["name"], _size(group), ", ".join(_zones(group)) or "–", _shape(group), group["source"]]
        for group in shown
    ]
    if view.wide:
        columns[4:4] = ["MIN", "TAINTS", "DAEMON PODS", "WEIGHT"]
        for row, group in zip(rows, shown, strict=True):
            row[4:4] = [_number(group["minSize"]), _taints(group), _daemons(group), _number(group["weight"])]
    sections: list[list[Block]] = [
        head,
        [build_table(columns, rows), *note_left_out(len(groups) - len(shown), "node group")],
    ]
    limits = [(group["name"], _limits(group)) for group in groups if group["atLimit"] or group["limits"]]
    if limits:
        sections.append([build_table(("LIMIT OF", "AMOUNTS"), limits)])
    conditions = [*found["conditions"], *(c for group in groups for c in group["conditions"])]
    told = [c for c in conditions if every_row or c["status"] not in ("True", "Healthy", "NoActivity", "NoCandidates")]
    if told:
        rows = [
            [
                c["object"],
                c["type"],
                c["status"] or "–",
                format_age_or_time(c.get("since"), view) or "–",
                _join(c["reason"], c["message"]),
            ]
            for c in told
        ]
        cut = rows if every_row else rows[:ROWS]
        sections.append(
            [
                build_table(("AUTOSCALER", "CONDITION", "STATUS", "SINCE", "MESSAGE"), cut),
                *note_left_out(len(rows) - len(cut), "condition"),
            ]
        )
    return sections


def _zones(group: Json) -> list[str]:
    return sorted({template["zone"] for template in group["templates"] if template["zone"]})


def _shape(group: Json) -> str:
    """Return the main amounts of a new node of the group, or `unknown`.

    If its nodes have several shapes, the first is returned, with the number of the others.
    """
    if not group["templates"]:
        return "partly known" if group["shape"] == "PartlyKnown" else "unknown"
    shapes: dict[str, None] = dict.fromkeys(_amounts(template["allocatable"]) for template in group["templates"])
    first, *others = shapes
    return f"{first} and {len(others)} more" if others else first


def _amounts(allocatable: Json) -> str:
    extended = [
        f"{amount} {name}" for name, amount in allocatable.items() if "/" in name and "kubernetes.io" not in name
    ]
    cpu, memory = (_format_amount(resource, allocatable.get(resource)) for resource in ("cpu", "memory"))
    return ", ".join([f"{cpu} CPU", memory, *extended])


def _format_amount(resource: str, quantity: object) -> str:
    amount = parse_quantity(quantity)
    return "?" if amount is None else format_available_amount(resource, amount)


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _taints(group: Json) -> str:
    return ", ".join(group.get("taints", ())) or "–"


def _daemons(group: Json) -> str:
    return str(max((template["daemonPods"] for template in group["templates"]), default=0))


def _limits(group: Json) -> str:
    amounts = [f"{r}: {group['used'].get(r, '0')} of at most {limit}" for r, limit in group["limits"].items()]
    reached = [f"reached: {group['atLimit']}"] if group["atLimit"] else []
    return "; ".join([*reached, *amounts])


def _estimates(estimates: Sequence[Json], every_row: bool) -> list[list[Block]]:
    if not estimates:
        return []
    ordered = sorted(estimates, key=lambda e: (e["left"], e["nodes"], natural_sort_key(e["group"])))
    rows = [
        (
            e["group"],
            str(e["nodes"]),
            _spread(e["zones"]),
            str(e["pods"]),
            str(e["left"]),
            _explain_limit(e),
        )
        for e in _cut(ordered, every_row)
    ]
    sentence = "Estimate for all pending pods, placed in sequence, if only this group grows:"
    columns = ("NODE GROUP", "NEW NODES", "BY ZONE", "PODS PLACED", "PODS LEFT", "LIMITED BY")
    return [
        [
            TextLine(sentence),
            build_table(columns, rows, right=(1, 3, 4)),
            *note_left_out(len(ordered) - len(rows), "node group"),
        ]
    ]


def _explain_limit(estimate: Json) -> str:
    """Return the text of LIMITED BY: what limited the group, that the pods left fit none of its nodes, or `–`."""
    return estimate["limitedBy"] or ("the others fit no node of the group" if estimate["left"] else "–")


def _spread(zones: dict[str, int]) -> str:
    return ", ".join(f"{zone} {count}" for zone, count in zones.items()) or "–"


def _reports(reports: Sequence[Json], view: ViewOptions, every_row: bool) -> list[list[Block]]:
    shown = reports if every_row else reports[:_REPORTS]
    rows = [(report["component"] or "–", report["reason"], _when(report, view), report["message"]) for report in shown]
    table = build_table(("AUTOSCALER", "EVENT", "LAST", "MESSAGE"), rows)
    return [[table, *note_left_out(len(reports) - len(shown), "event")]] if rows else []


def _when(report: Json, view: ViewOptions) -> str:
    times = f" (×{report['count']})" if report["count"] > 1 else ""
    return f"{format_ago(report['at'], view) if report['at'] else '–'}{times}"


def _join(*texts: str) -> str:
    return ": ".join(filter(None, texts)) or "–"


def _cut(rows: Sequence[Json], every_row: bool) -> Sequence[Json]:
    return rows if every_row else rows[:ROWS]
