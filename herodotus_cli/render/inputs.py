"""The measurements that plugins and extenders used for their scores: one row per number, one column per node.

Owns: the table, its number of nodes, the format of ages. Does not own: the screen around it.

Invariant: a measurement that was ignored as too old is never shown like one that counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from herodotus_cli.render.formatting import format_time_between, short_plugin_names
from herodotus_cli.render.screen_elements import Block, TextLine, ViewOptions, build_table
from herodotus_record.units import pluralize

Json = dict[str, Any]
NODES = 3  # in a default answer: the best nodes
_GAP = 2
_CHOSEN = "◀"
_NOTHING = "–"
_TOO_OLD = "too old"
_AGE = "age"


def build_blocks(answer: Json, nodes: Sequence[Json], view: ViewOptions) -> list[Block]:
    """Return a table of the measurements, such as node load, from which plugins scored the given nodes.

    `nodes` are entries of the answer's `ranking` or `perNode`. Return [] if no plugin reported measurements.
    """
    sources = answer.get("inputs", [])
    shown = [node for node in nodes if node.get("inputs")]
    if not sources or not shown:
        return []
    if view.piped:
        return [_piped_table(answer, shown)]
    started = answer["attempt"]["startedAt"]
    rows = _drop_repeated([row for i, source in enumerate(sources) for row in _rows(source, i, shown, started)])
    plugins = list(dict.fromkeys(source["plugin"] for source in sources))
    heads = [node["node"] + (f" {_CHOSEN}" if node["chosen"] else "") for node in shown]
    short, fits = _choose_layout(rows, plugins, heads, view.width or 0)
    names = short_plugin_names(plugins) if short else dict(zip(plugins, plugins, strict=True))
    drawn = [
        [
            names[plugin] if first else "",
            number,
            *cells[:fits],
        ]
        for plugin, first, number, cells in _mark_first_of_plugin(rows)
    ]
    left_out = len(shown) - fits
    more = (
        [TextLine(f"… {pluralize(left_out, 'more node')}: --node NODE, -o json", "dim")]
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
    """Yield a table row for each number of one source of measurements, and a row with their ages if they are known.

    `place` is the index of the source in each node's `inputs`. `started` is the time of the attempt, to which ages
    refer.
    """
    inputs = [node["inputs"][place] for node in nodes]
    for number in source["numbers"]:
        unit = f" ({number['unit']})" if number["unit"] else ""
        yield source["plugin"], number["name"] + unit, tuple(format_value(number, of) for of in inputs)
    if any(of["measuredAt"] for of in inputs):
        yield source["plugin"], _AGE, tuple(format_time_between(of["measuredAt"], started) or _NOTHING for of in inputs)


def format_value(number: Json, of: Json) -> str:
    """Return one measurement of one node as text: `too old` if it was ignored as stale, `–` if it is missing.

    `number` describes the measurement, and `of` holds the node's values.
    """
    if of["stale"]:
        return _TOO_OLD
    got = of["values"][number["name"]]
    if got is None:
        return _NOTHING
    text = f"{got:.{number['digits']}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _drop_repeated(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without duplicates, which arise because sources of one plugin often have the same age."""
    return list(dict.fromkeys(reversed(rows)))[::-1]


def _mark_first_of_plugin(rows: Sequence[Row]) -> Iterator[tuple[str, bool, str, tuple[str, ...]]]:
    """Yield (plugin, is_first, number, cells) for each row; `is_first` says if it starts the plugin's rows."""
    before = ""
    for plugin, number, cells in rows:
        yield plugin, plugin != before, number, cells
        before = plugin


def _choose_layout(rows: Sequence[Row], plugins: Sequence[str], heads: Sequence[str], width: int) -> tuple[bool, int]:
    """Return whether plugin names must be shortened, and how many node columns fit the width, at least one."""
    for fits in (*range(len(heads), 0, -1), 1):
        columns = [max(len(heads[i]), *(len(cells[i]) for _, _, cells in rows)) for i in range(fits)]
        numbers = max(len(number) for _, number, _ in rows)
        for short, names in ((False, plugins), (True, list(short_plugin_names(plugins).values()))):
            if sum((max(map(len, names)), numbers, *columns)) + _GAP * (1 + fits) <= width:
                return short, fits
    return True, 1


def _origin(source: Json, names: dict[str, str]) -> str:
    return f"{names[source['plugin']]}: {', '.join(n['name'] for n in source['numbers'])} from {source['source']}"


def _piped_table(answer: Json, nodes: Sequence[Json]) -> Block:
    """Return the table for piped output: one line per node and measurement."""
    rows = []
    for node in nodes:
        for source, of in zip(answer["inputs"], node["inputs"], strict=True):
            measured = of["measuredAt"] or _NOTHING
            for n in source["numbers"]:
                what = (node["node"], source["plugin"], n["name"], format_value(n, of), n["unit"] or _NOTHING)
                rows.append((*what, measured, source["source"]))
    return build_table(("NODE", "PLUGIN", "INPUT", "VALUE", "UNIT", "MEASURED", "SOURCE"), rows, right=(3,))
