"""The screen of `kubectl herodotus pod NAME --node X`: why the pod is on that node, or why not.

Owns: the content of the screen. Does not own: drawing, sentences on reasons and remedies (`herodotus_record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_cli.render import inputs, scores
from herodotus_cli.render.formatting import attempt_label, format_ago, short_plugin_names
from herodotus_cli.render.rejections import NOTHING, PASS, REJECT
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    Table,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)
from herodotus_record.units import join_limited, pluralize

Json = dict[str, Any]
_GAP = 2
_VICTIMS = 8  # named in a line
_FULL = ("SCORE PLUGIN", "WEIGHT", "RAW", "NORMALIZED", "POINTS", "DIFFERENCE")
_BRIEF = ("SCORE PLUGIN", "WEIGHT", "RAW", "NORM", "POINTS", "DIFF")


def build_screen(
    answer: Json, view: ViewOptions, *, every_node: bool = False, live: Sequence[Sequence[Block]] = ()
) -> list[Block]:
    """Return the blocks of the screen on why the pod is on the node, or why not.

    It shows the filters' verdicts, what would have to change, and the node's scores beside those of the best other
    node. `live` has the sections on what the API server says now.
    """
    node = answer["perNode"][0]
    pod, tried = answer["metadata"]["name"], answer["attempt"]
    when = f"{attempt_label(tried)}, {format_ago(tried['startedAt'], view)}"
    lead = f"{node['node']} for {pod}, {'evaluated now' if tried['source'] == 'evaluated' else when}"
    headline, *more = build_evidence(answer, view, every_node=every_node)
    return join_sections([[TextLine(lead), *headline], *more, *live])


def build_evidence(answer: Json, view: ViewOptions, *, every_node: bool = False) -> list[list[Block]]:
    """Return the sections about the node: headline, filters, notes, scores, and measurements."""
    node = answer["perNode"][0]
    evaluated = node["passed"] or node["rejectedBy"]
    return [
        [TextLine(node["headline"], "good" if node["passed"] and not node["rejectedBy"] else "bad")],
        [] if not evaluated else _filters(answer, node) if every_node or view.piped else _rejecting(answer, node),
        [labelled_rows(notes, bold=("FIX", "AND"))] if (notes := _notes(answer, node)) else [],
        _scores(answer, node, view) if node.get("scores") else [],
        scores.build_reasons(answer, view, node["node"]),
        inputs.build_blocks(answer, [node, *_best_other_node(answer, node)], view),
    ]


def _notes(answer: Json, node: Json) -> list[tuple[str, str]]:
    """Return (label, text) pairs on what would make the node feasible: changes, or pods that preemption would evict.

    Filters that did not run and may reject the node too are named as unknown.
    """
    steps, eviction = node["possibleChanges"], node.get("eviction")
    not_run = [f["plugin"] for f in answer["filters"] if _not_run(f, node)] if node["rejectedBy"] else []
    labelled = [("FIX" if i == 0 else "AND", step) for i, step in enumerate(steps)]
    labelled += [("UNKNOWN", f"{', '.join(not_run)} did not run and may reject the node too")] if not_run else []
    if eviction:
        refused = f"; {eviction['rejectedBy']} refused it" if eviction["rejectedBy"] else ""
        labelled.append(("OR EVICT", f"{join_limited(eviction['victims'], _VICTIMS)}{refused}"))
    return labelled


def _not_run(f: Json, node: Json) -> bool:
    ran = f["plugin"] in node["passed"] or any(v["plugin"] == f["plugin"] for v in node["rejectedBy"])
    return not ran and not f["skipped"]


def _rejecting(answer: Json, node: Json) -> list[Block]:
    """Return a table of the filters that rejected the node, and a line that counts the other filters."""
    rejected = {verdict["plugin"] for verdict in node["rejectedBy"]}
    others = [f for f in answer["filters"] if f["plugin"] not in rejected]
    skipped = sum(f["skipped"] for f in others)
    passed = sum(f["plugin"] in node["passed"] for f in others)
    not_run = len(others) - skipped - passed
    counts = [
        f"{pluralize(passed, 'other')} passed" if rejected else f"{pluralize(passed, 'filter')} passed",
        f"{skipped} had nothing to check",
        f"{not_run} did not run",
    ]
    line = ", ".join(words for words, n in zip(counts, (passed, skipped, not_run), strict=True) if n)
    tables = _filters(answer | {"filters": [f for f in answer["filters"] if f["plugin"] in rejected]}, node)
    mark = PASS if passed else NOTHING
    return [*tables, build_table((), [(mark, f"{line} (--all)")])] if line else tables


def _filters(answer: Json, node: Json) -> list[Block]:
    """Return a table with each filter's verdict on the node and its reasons, in the order in which filters ran."""
    rejected = {verdict["plugin"]: verdict for verdict in node["rejectedBy"]}
    rows: list[tuple[str, ...]] = []
    for f in answer["filters"]:
        plugin = f["plugin"]
        if plugin in rejected:
            why = [reason["text"] for reason in rejected[plugin]["reasons"]] or [rejected[plugin]["code"]]
            rows += [(REJECT, plugin, "rejects", words) for words in why]
        elif f["skipped"]:
            rows.append((NOTHING, plugin, "skipped", "nothing to check for this pod"))
        elif plugin in node["passed"]:
            rows.append((PASS, plugin, "passes", ""))
        else:
            rows.append((NOTHING, plugin, "not run", ""))
    return [build_table(("", "FILTER", "VERDICT", "REASON"), rows)] if rows else []


def _scores(answer: Json, node: Json, view: ViewOptions) -> list[Block]:
    """Return a table of the node's points per score plugin beside those of the best other node.

    On a terminal, names and columns are shortened until the table fits the width.
    """
    plugins = [s for s in answer["scorePlugins"] if not s["skipped"]]
    other = next(iter(_best_other_node(answer, node)), None)
    names = {s["plugin"]: s["plugin"] for s in plugins}
    full = _score_table(node, other, plugins, names, (*_FULL, other["node"] if other else ""))
    if view.width is None or _width(full) <= view.width:
        return [full]
    short = short_plugin_names(list(names))
    layouts = [_score_table(node, other, plugins, its, (*_BRIEF, "OTHER")) for its in (names, short)]
    table = next((layout for layout in layouts if _width(layout) <= view.width), layouts[-1])
    if _width(table) > view.width and not view.wide:
        table = _drop_columns(table, "RAW", "NORM")
    note = f"OTHER: {other['node']}, rank {other['rank']}" if other else ""
    return [table, *([TextLine(note, "dim")] if note else [])]


def _best_other_node(answer: Json, node: Json) -> list[Json]:
    """Return the ranking's entry for the best node except this one, as a list of one; [] if there is no other."""
    return [row for row in answer["ranking"] if row["node"] != node["node"]][:1]


def _score_table(
    node: Json, other: Json | None, plugins: Sequence[Json], names: dict[str, str], header: Sequence[str]
) -> Table:
    """Return a table with one row per score plugin and one for the total.

    `names` maps plugins to the names to show. `header` holds the column titles; the last one is that of the column with
    the points of `other`, which is shown before the difference.
    """
    *ours, difference, theirs = header
    rows: list[list[Cell | str]] = []
    for s in plugins:
        got = node["scores"][s["plugin"]]
        amounts = (s["weight"], got["raw"], got["normalized"], got["weighted"])
        row: list[Cell | str] = [names[s["plugin"]], *map(str, amounts)]
        if other:
            row += _difference_cells(got["weighted"], other["scores"][s["plugin"]]["weighted"])
        rows.append(row)
    total: list[Cell | str] = ["total", "", "", "", Cell(str(node["total"]), "strong")]
    rows.append([*total, *_difference_cells(node["total"], other["total"])] if other else total)
    columns = [*ours, theirs, difference] if other else ours
    table = build_table(columns, rows, right=range(1, len(columns)))
    has_raw = any(score["raw"] is not None for score in node["scores"].values())
    return table if has_raw else _drop_columns(table, "RAW")


def _drop_columns(block: Table, *headers: str) -> Table:
    columns = [i for i, title in enumerate(block.header) if title not in headers]
    rows = [[row[i] for i in columns] for row in block.rows]
    return build_table([block.header[i] for i in columns], rows, right=range(1, len(columns)))


def _width(block: Table) -> int:
    columns = zip(block.header, *([cell.text for cell in row] for row in block.rows), strict=True)
    return sum(max(map(len, column)) + _GAP for column in columns) - _GAP


def _difference_cells(ours: int, theirs: int) -> list[Cell | str]:
    difference = ours - theirs
    return [str(theirs), f"{difference:+d}" if difference else "0"]
