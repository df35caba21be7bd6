"""The scores of the feasible nodes as a table that fits.

Owns: which columns fit the width, and how the others are summed up. Does not own: the screen around the table.

Invariant: the columns shown, those named as equal and `others` add up to the total of every row; columns left
out silently are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from herodotus_cli.render.formatting import omitted_hint, short_plugin_names
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table
from herodotus_record.units import pluralize

Json = dict[str, Any]
_GAP = 2
_CHOSEN = "◀"


class Column(NamedTuple):
    """A column of the score table: the weighted scores of one plugin, or the sum over several plugins.

    `points` has one entry per node, in order of rank.
    """

    header: str
    points: tuple[int, ...]

    @property
    def width(self) -> int:
        return max(len(self.header), *(len(str(p)) for p in self.points))

    @property
    def equal(self) -> bool:
        """Whether all nodes have the same points in this column."""
        return len(set(self.points)) == 1


def build_blocks(answer: Json, view: ViewOptions, *, every_node: bool = False) -> list[Block]:
    """Return the table of the feasible nodes' scores, with notes, or [] if nothing was scored.

    `every_node` says whether the answer was requested with --all, so that no hint on that option is needed.
    """
    ranking = answer["ranking"]
    plugins = [s for s in answer["scorePlugins"] if not s["skipped"]]
    if not ranking or not plugins or ranking[0].get("total") is None:
        return []
    if view.wide:
        return [_full_table(ranking, plugins, view), *_omitted(answer, every_node)]
    if not view.piped:
        plugins = _scoring_plugins(ranking, plugins)
    leading = _leading(ranking, view)
    room = None if view.width is None else view.width - sum(_GAP + max(map(len, column)) for column in leading)
    columns, notes = _choose_layout(ranking, plugins, room)
    header = [*(column[0] for column in leading), *(c.header for c in columns)]
    rows: list[list[Cell | str]] = [
        [
            *(column[i + 1] for column in leading),
            *(str(c.points[i]) for c in columns),
        ]
        for i, row in enumerate(ranking)
    ]
    if view.piped:
        header.append("CHOSEN")
        rows = [[*cells, "yes" if row["chosen"] else "no"] for cells, row in zip(rows, ranking, strict=True)]
    numbers = range(len(leading) - 1, len(header) - view.piped)
    return [
        build_table(header, rows, right=numbers),
        *(TextLine(note, "dim") for note in notes),
        *_omitted(answer, every_node),
    ]


def build_reasons(answer: Json, view: ViewOptions, node: str = "") -> list[Block]:
    """Return a table of what made up the lead of the best node over the next one; [] if that is not known.

    With `node`, the result is [] unless that is one of the two. Plugins with equal texts share a row.
    """
    margin = answer["margin"]
    if not margin or not margin.get("reasons") or (node and node not in (margin["best"], margin["runnerUp"])):
        return []
    plugins = [each["plugin"] for each in margin["reasons"]]
    names = dict(zip(plugins, plugins, strict=True)) if view.piped else short_plugin_names(plugins)
    shares: dict[str, list[str]] = {}
    for each in margin["reasons"]:
        points = f"{each['points']:+d}" if each["points"] else "equal"
        shares.setdefault(each["text"], []).append(f"{names[each['plugin']]} {points}")
    title = f"{margin['best']} AGAINST {margin['runnerUp']}"
    return [build_table(("DECIDED BY", title), [(", ".join(decided), text) for text, decided in shares.items()])]


def _scoring_plugins(ranking: Sequence[Json], plugins: list[Json]) -> list[Json]:
    """Return the plugins that gave points to any node, or all plugins if none did."""
    nonzero = [s for s in plugins if any(_is_nonzero(row["scores"][s["plugin"]]) for row in ranking)]
    return nonzero or plugins


def _is_nonzero(score: Json) -> bool:
    return bool(score["raw"] or score["weighted"])


def _leading(ranking: Sequence[Json], view: ViewOptions) -> list[list[str]]:
    """Return the first columns of the score table as lists of texts, each of which starts with its header.

    On a terminal rank and node share a column; piped, they have one each. The total comes last.
    """
    totals = ["TOTAL", *(str(row["total"]) for row in ranking)]
    ranks = [str(row["rank"]) for row in ranking]
    if view.piped:
        return [["RANK", *ranks], ["NODE", *(row["node"] for row in ranking)], totals]
    wide = max(map(len, ranks))
    named = [f"{row['rank']:>{wide}} {row['node']}{' ' + _CHOSEN if row['chosen'] else ''}" for row in ranking]
    return [["SCORES", *named], totals]


def _choose_layout(
    ranking: Sequence[Json], plugins: Sequence[Json], room: int | None
) -> tuple[list[Column], list[str]]:
    """Return the score columns of the first layout that fits `room` terminal columns, and notes on what is left out.

    The layouts are: full plugin names; short names; only plugins whose scores differ; and the least different plugins
    summed up in one column. A `room` of None means no limit.
    """
    full = [_column(ranking, s, s["plugin"]) for s in plugins]
    if room is None or _width(full) <= room:
        return full, []
    names = short_plugin_names([s["plugin"] for s in plugins])
    short = [_column(ranking, s, names[s["plugin"]]) for s in plugins]
    if _width(short) <= room:
        return short, []
    telling = [(c, s["plugin"]) for c, s in zip(short, plugins, strict=True) if not c.equal]
    same = [f"{s['plugin']} {c.points[0]}" for c, s in zip(short, plugins, strict=True) if c.equal]
    notes = [f"equal for these {len(ranking)} nodes: {', '.join(same)}"] if same else []
    if _width([c for c, _ in telling]) <= room:
        return [c for c, _ in telling], notes
    by_spread = sorted(telling, key=lambda t: min(t[0].points) - max(t[0].points))
    shown = by_spread
    while shown and _width([*(c for c, _ in shown), _sum([c for c, _ in by_spread[len(shown) :]])]) > room:
        shown = shown[:-1]
    rest = by_spread[len(shown) :]
    notes.append(f"others: {', '.join(plugin for _, plugin in rest)} (separately: -o wide)")
    return [*(c for c, plugin in telling if (c, plugin) in shown), _sum([c for c, _ in rest])], notes


def _column(ranking: Sequence[Json], plugin: Json, name: str) -> Column:
    points = tuple(row["scores"][plugin["plugin"]]["weighted"] for row in ranking)
    return Column(f"{name} ×{plugin['weight']}", points)


def _sum(columns: Sequence[Column]) -> Column:
    return Column(pluralize(len(columns), "other"), tuple(map(sum, zip(*(c.points for c in columns), strict=True))))


def _width(columns: Sequence[Column]) -> int:
    return sum(c.width for c in columns if c.points) + _GAP * max(0, len(columns) - 1)


def _full_table(ranking: Sequence[Json], plugins: Sequence[Json], view: ViewOptions) -> Block:
    """Return a table with one row per node and plugin: raw, normalized (0–100) and weighted score.

    The raw score is left out if no node has one.
    """
    has_raw = any(row["scores"][s["plugin"]]["raw"] is not None for row in ranking for s in plugins)
    amounts = (("raw", "RAW"),) * has_raw + (("normalized", "NORM"), ("weighted", "POINTS"))
    rows: list[list[Cell | str]] = []
    for row in ranking:
        mark = "" if view.piped or not row["chosen"] else f" {_CHOSEN}"
        for i, s in enumerate(plugins):
            once = view.piped or i == 0
            got = row["scores"][s["plugin"]]
            place = [str(row["rank"]), row["node"] + mark, str(row["total"])] if once else ["", "", ""]
            points = (str(got[amount]) for amount, _ in amounts)
            rows.append([*place, f"{s['plugin']} ×{s['weight']}", *points])
    header = ("RANK", "NODE", "TOTAL", "PLUGIN", *(title for _, title in amounts))
    return build_table(header, rows, right=(0, 2, *range(4, len(header))))


def _omitted(answer: Json, every_node: bool) -> list[Block]:
    left_out = answer["rankingOmitted"]
    if not left_out or (every_node and not answer.get("pruned")):
        return []
    return [TextLine(f"… {pluralize(left_out, 'more feasible node')}: {omitted_hint(answer)}", "dim")]
