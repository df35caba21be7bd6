"""What plugins and extenders went by: a row for each number, a column for each node.

Owns: the table, how many nodes it shows, how an age is told. Does not own: the screen around it.

Invariant: a number that was ignored because it was too old is never shown as if it had counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from herodotus_cli.render.formatting import format_count, format_time_between, short_plugin_names
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, ViewOptions, build_table

Json = dict[str, Any]
NODES = 3  # in a default answer: the best, and whom it beat
_GAP = 2
_CHOSEN = "◀"
_NOTHING = "–"
_TOO_OLD = "too old"
_AGE = "age"


def build_blocks(answer: Json, nodes: Sequence[Json], view: ViewOptions) -> list[Block]:
    """The inputs of these nodes (rows of the ranking, or of `perNode`); empty where no plugin told any."""
    sources = answer.get("inputs", [])
    shown = [node for node in nodes if node.get("inputs")]
    if not sources or not shown:
        return []
    if view.piped:
        return [_for_programs(answer, shown)]
    started = answer["attempt"]["startedAt"]
    rows = _once([row for i, source in enumerate(sources) for row in _rows(source, i, shown, started)])
    plugins = list(dict.fromkeys(source["plugin"] for source in sources))
    heads = [node["node"] + (f" {_CHOSEN}" if node["chosen"] else "") for node in shown]
    short, fits = _fitting(rows, plugins, heads, view.width or 0)
    names = short_plugin_names(plugins) if short else dict(zip(plugins, plugins, strict=True))
    drawn = [
        [
            names[plugin] if first else "",
            number,
            *(_cell(text, node) for text, node in zip(cells, shown[:fits], strict=False)),
        ]
        for plugin, first, number, cells in _grouped(rows)
    ]
    left_out = len(shown) - fits
    more = (
        [TextLine(f"… {format_count(left_out, 'more node')}: --node NODE, -o json", "dim")]
        if left_out and view.wide
        else []
    )
    header = ("INPUTS", "", *heads[:fits])
    return [
        build_table(header, drawn, right=range(2, 2 + fits)),
        *more,
        *(TextLine(_origin(s, names), "dim") for s in sources),
    ]


Row = tuple[str, str, tuple[str, ...]]  # plugin, number, a text for each node


def _rows(source: Json, place: int, nodes: Sequence[Json], started: str) -> Iterator[Row]:
    """A source's numbers, and how old they were, if it says so."""
    told = [node["inputs"][place] for node in nodes]
    for number in source["numbers"]:
        unit = f" ({number['unit']})" if number["unit"] else ""
        yield source["plugin"], number["name"] + unit, tuple(value(number, of) for of in told)
    if any(of["measuredAt"] for of in told):
        yield source["plugin"], _AGE, tuple(format_time_between(of["measuredAt"], started) or _NOTHING for of in told)


def value(number: Json, of: Json) -> str:
    """A number of one node, as exact as its plugin keeps it."""
    if of["stale"]:
        return _TOO_OLD
    got = of["values"][number["name"]]
    if got is None:
        return _NOTHING
    text = f"{got:.{number['digits']}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _once(rows: Sequence[Row]) -> list[Row]:
    """Of rows that say the same the last: sources of one plugin are mostly of one age."""
    return list(dict.fromkeys(reversed(rows)))[::-1]


def _grouped(rows: Sequence[Row]) -> Iterator[tuple[str, bool, str, tuple[str, ...]]]:
    """The rows, with whether each is the first of its plugin."""
    before = ""
    for plugin, number, cells in rows:
        yield plugin, plugin != before, number, cells
        before = plugin


def _fitting(rows: Sequence[Row], plugins: Sequence[str], heads: Sequence[str], width: int) -> tuple[bool, int]:
    """Whether plugins' names have to be short, and how many nodes the width holds: one at least."""
    for fits in (*range(len(heads), 0, -1), 1):
        columns = [max(len(heads[i]), *(len(cells[i]) for _, _, cells in rows)) for i in range(fits)]
        numbers = max(len(number) for _, number, _ in rows)
        for short, names in ((False, plugins), (True, list(short_plugin_names(plugins).values()))):
            if sum((max(map(len, names)), numbers, *columns)) + _GAP * (1 + fits) <= width:
                return short, fits
    return True, 1


def _cell(text: str, node: Json) -> Cell:
    return Cell(text, "bad" if text == _TOO_OLD else "good" if node["chosen"] else "")


def _origin(source: Json, names: dict[str, str]) -> str:
    return f"{names[source['plugin']]}: {', '.join(n['name'] for n in source['numbers'])} from {source['source']}"


def _for_programs(answer: Json, nodes: Sequence[Json]) -> Block:
    """One number of one node a line."""
    rows = []
    for node in nodes:
        for source, of in zip(answer["inputs"], node["inputs"], strict=True):
            measured = of["measuredAt"] or _NOTHING
            for n in source["numbers"]:
                what = (node["node"], source["plugin"], n["name"], value(n, of), n["unit"] or _NOTHING)
                rows.append((*what, measured, source["source"]))
    return build_table(("NODE", "PLUGIN", "INPUT", "VALUE", "UNIT", "MEASURED", "SOURCE"), rows, right=(3,))
