"""The screens about node groups: the groups, the verdicts on a pod, estimates, and what keeps nodes.

Owns: the words for verdicts, and which facts are named first. Does not own: the answer, drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herodotus_answers.cluster_headlines import NO_NODE_GROUP, format_node_group_count, format_verdicts
from herodotus_cli.render.formatting import format_ago, format_count, natural_sort_key
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table, labelled_rows

if TYPE_CHECKING:
    from herodotus_answers.node_groups import NodeGroupReview, PodVerdicts

Json = Mapping[str, Any]

ROWS = 20  # of each table: a screen's worth
_SUMMARY_GROUPS = 6  # in the section of a pending pod's answer
_REPORTS = 3
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
    """Return the sections of an answer about node groups: verdicts on pods first, then estimates and the groups."""
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
    """Return the sections about one pod: a sentence, a row for each group, and what autoscalers report."""
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
    sections = [head, [table, *_more(len(verdicts) - len(shown), "node group"), TextLine(DISCLAIMER, "dim")]]
    return [*sections, *_reports(pod["reports"], view, every_row)]


def build_summary(found: Json, view: ViewOptions) -> list[Block]:
    """Return a labelled line with the verdict of each group on the only pod of an answer, and one of an autoscaler.

    The line says when verdicts of a record were made.
    """
    if not found["pods"]:
        return []
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
    reports = found["pods"][0]["reports"]
    rows += [("AUTOSCALER", f"{r['component']}: {r['reason']}: {r['message']}") for r in reports[:1]]
    return [labelled_rows(rows)] if rows else []


def build_sections(found: Json, view: ViewOptions, *, whole: bool) -> list[list[Block]]:
    """Return the sections for the screen of a pending pod: one line, or with `whole` a row for each group."""
    if not whole:
        summary = build_summary(found, view)
        return [summary] if summary else []
    notes: list[Block] = [TextLine(f"note: {note}", "dim") for note in found["notes"]]
    groups, sections = found["groups"], list[list[Block]]()
    for pod in found["pods"] if groups else ():
        sections += build_verdicts(pod, groups, view, every_row=True)
    return [section for section in (*sections, notes) if section]


def build_scale_down(found: Json, *, every_row: bool = False) -> list[list[Block]]:
    """Return the sections about what keeps nodes in the cluster."""
    nodes = found["nodes"]
    free = [node for node in nodes if not node["blockers"]]
    sections = list[list[Block]]()
    if free:
        rows = [(node["node"], node["group"] or "–", str(node["pods"])) for node in _cut(free, every_row)]
        table = build_table(("NO BLOCKER", "NODE GROUP", "PODS TO MOVE"), rows, right=(2,))
        sections.append([table, *_more(len(free) - len(rows), "node")])
    blocked = [node for node in nodes if node["blockers"]]
    if blocked:
        reasons = [
            (node["node"], blocker["cause"], blocker["pod"] or "the node", _explain_blocker(blocker))
            for node in _cut(blocked, every_row)
            for blocker in _cut(node["blockers"], every_row)
        ]
        table = build_table(("NODE", "CAUSE", "BECAUSE OF", "REASON"), reasons)
        sections.append([table, *_more(len(blocked) - len(_cut(blocked, every_row)), "node")])
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
    if verdict["verdict"] == "DoesNotFit":
        return f" ({', '.join(r['plugin'] for r in verdict['rejections'])})"
    if verdict["atLimit"]:
        return f" ({verdict['atLimit']})"
    return f" ({_size(group)} nodes)" if group and verdict["verdict"] == "Fits" else ""


def _size(group: Json | None) -> str:
    """Return the size of a group, with its maximum where it is known."""
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
    sections: list[list[Block]] = [head, [build_table(columns, rows), *_more(len(groups) - len(shown), "node group")]]
    limits = [(group["name"], _limits(group)) for group in groups if group["atLimit"] or group["limits"]]
    if limits:
        sections.append([build_table(("LIMIT OF", "AMOUNTS"), limits)])
    conditions = [*found["conditions"], *(c for group in groups for c in group["conditions"])]
    told = [c for c in conditions if every_row or c["status"] not in ("True", "Healthy", "NoActivity", "NoCandidates")]
    if told:
        rows = [[c["object"], c["type"], c["status"] or "–", _join(c["reason"], c["message"])] for c in told]
        cut = rows if every_row else rows[:ROWS]
        sections.append(
            [
                build_table(("AUTOSCALER", "CONDITION", "STATUS", "MESSAGE"), cut),
                *_more(len(rows) - len(cut), "condition"),
            ]
        )
    return sections


def _zones(group: Json) -> list[str]:
    return sorted({template["zone"] for template in group["templates"] if template["zone"]})


def _shape(group: Json) -> str:
    """Return the main amounts of a new node; several if the group has nodes of several shapes."""
    if not group["templates"]:
        return "partly known" if group["shape"] == "PartlyKnown" else "unknown"
    shapes: dict[str, None] = dict.fromkeys(_amounts(template["allocatable"]) for template in group["templates"])
    first, *others = shapes
    return f"{first} and {len(others)} more" if others else first


def _amounts(allocatable: Json) -> str:
    extended = [
        f"{amount} {name}" for name, amount in allocatable.items() if "/" in name and "kubernetes.io" not in name
    ]
    main = [f"{_cores(allocatable.get('cpu', '?'))} CPU", _bytes(str(allocatable.get("memory", "?")))]
    return ", ".join([*main, *extended])


def _cores(text: str) -> str:
    return f"{int(text[:-1]) / 1000:g}" if text.endswith("m") and text[:-1].isdecimal() else text


def _bytes(text: str) -> str:
    return f"{int(text) / (1 << 30):.4g}Gi" if text.isdecimal() and int(text) >= 1 << 30 else text


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _taints(group: Json) -> str:
    taints = dict.fromkeys(taint for template in group["templates"] for taint in template["taints"])
    return ", ".join(taints) or "–"


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
        (e["group"], str(e["nodes"]), _spread(e["zones"]), str(e["pods"]), str(e["left"]), e["limitedBy"] or "–")
        for e in _cut(ordered, every_row)
    ]
    sentence = "Estimate for all pending pods, placed in sequence, if only this group grows:"
    columns = ("NODE GROUP", "NEW NODES", "BY ZONE", "PODS PLACED", "PODS LEFT", "LIMITED BY")
    return [
        [
            TextLine(sentence),
            build_table(columns, rows, right=(1, 3, 4)),
            *_more(len(ordered) - len(rows), "node group"),
        ]
    ]


def _spread(zones: dict[str, int]) -> str:
    return ", ".join(f"{zone} {count}" for zone, count in zones.items()) or "–"


def _reports(reports: Sequence[Json], view: ViewOptions, every_row: bool) -> list[list[Block]]:
    shown = reports if every_row else reports[:_REPORTS]
    rows = [(report["component"] or "–", report["reason"], _when(report, view), report["message"]) for report in shown]
    table = build_table(("AUTOSCALER", "EVENT", "LAST", "MESSAGE"), rows)
    return [[table, *_more(len(reports) - len(shown), "event")]] if rows else []


def _when(report: Json, view: ViewOptions) -> str:
    times = f" (×{report['count']})" if report["count"] > 1 else ""
    return f"{format_ago(report['at'], view) if report['at'] else '–'}{times}"


def _join(*texts: str) -> str:
    return ": ".join(filter(None, texts)) or "–"


def _cut(rows: Sequence[Json], every_row: bool) -> Sequence[Json]:
    return rows if every_row else rows[:ROWS]


def _more(left: int, noun: str) -> list[Block]:
    return [TextLine(f"… {format_count(left, f'more {noun}')} (--all)", "dim")] if left > 0 else []
