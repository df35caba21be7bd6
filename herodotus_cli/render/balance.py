"""The screen of `kubectl herodotus balance`: Balance -> blocks.

Owns: what the screen says. Does not own: weighing (`herodotus_record.balance`), drawing.
"""

from __future__ import annotations

from typing import Any

from herodotus_cli.render.formatting import format_age, format_count, format_number, format_percent, join_limited
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
from herodotus_cli.render.workload import reasons

Json = dict[str, Any]
_NODES = 20  # on a terminal: those that won most; every node when piped or with -o wide
_MOVES = 10  # on a terminal
_ROOMY = 100  # columns of a terminal that hold every column, weights included, and whole names of plugins


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Each node's wins, each plugin's part, and with other weights what would have gone elsewhere."""
    whole = view.piped or view.wide
    nodes = answer["nodes"] if whole else answer["nodes"][:_NODES]
    left_out = len(answer["nodes"]) - len(nodes) + answer["nodesOmitted"]
    over = "all" if answer["complete"] else "the newest"
    title = (
        f"{over} {format_count(answer['decisions'], 'placement')} of the last {format_age(answer['since'], view.now)}"
    )
    moves = answer["moves"] if whole else answer["moves"][:_MOVES]
    more_moves = len(answer["moves"]) + answer["movesOmitted"] - len(moves)
    sections: list[list[Block]] = [
        [SplitLine("balance", title), TextLine(answer["headline"], "strong")],
        [_nodes(nodes, view, weighed=answer["weights"] is not None)] if nodes else [],
        [TextLine(f"… {format_count(left_out, 'more node')} that won no more{'' if whole else ': -o wide'}", "dim")]
        if left_out
        else [],
        [_plugins(answer)] if answer["plugins"] else [],
        [labelled_rows([("ALSO", join_limited([f"{by} {n}" for by, n in answer["otherReasons"].items()], 5))])],
        [_moves(moves)] if moves else [],
        [TextLine(f"… {format_count(more_moves, 'more pod')} would have gone elsewhere", "dim")] if more_moves else [],
    ]
    return join_sections([section for section in sections if not _empty(section)])


def _empty(section: list[Block]) -> bool:
    return any(getattr(block, "rows", None) == () for block in section)


def _nodes(nodes: list[Json], view: ViewOptions, *, weighed: bool) -> Block:
    """WON beside what equal nodes would have won, and with the weights that were asked about.

    SHARE and FIT give way where DECIDED BY would else break plugins' names.
    """
    narrow = weighed and view.width is not None and view.width < _ROOMY
    rows: list[list[Cell | str]] = []
    for n in nodes:
        row: list[Cell | str] = [n["node"], str(n["won"]), format_number(n["expected"])]
        if not narrow:
            row = [*row[:2], format_percent(n["share"]), row[2], str(n["fit"])]
        if weighed:
            row += [format_number(n["wouldWin"]), _difference(n["wouldWin"] - n["won"])]
        rows.append([*row, reasons(n["decidedBy"])])
    counted = ["IF ALIKE"] if narrow else ["SHARE", "IF ALIKE", "FIT"]
    header = ["NODE", "WON", *counted, *(["WOULD WIN", "CHANGE"] if weighed else []), "DECIDED BY"]
    return build_table(header, rows, right=range(1, len(header) - 1))


def _plugins(answer: Json) -> Block:
    weights = answer["weights"] or {}
    rows = []
    for p in sorted(answer["plugins"], key=lambda p: (-p["movesWithout"], -p["decided"], p["plugin"])):
        weight = f"{p['weight']} → {weights[p['plugin']]}" if p["plugin"] in weights else str(p["weight"])
        rows.append((p["plugin"], weight, str(p["decided"]), str(p["movesWithout"])))
    return build_table(("SCORE PLUGIN", "WEIGHT", "DECIDED", "OTHER WINNER WITHOUT IT"), rows, right=(1, 2, 3))


def _moves(moves: list[Json]) -> Block:
    rows = [
        (f"{m['namespace']}/{m['pod']}", m["from"], m["to"] or f"drawn among {format_count(m['drawnAmong'], 'node')}")
        for m in moves
    ]
    return build_table(("POD", "WENT TO", "WOULD GO TO"), rows)


def _difference(change: float) -> Cell:
    text = format_number(change)
    style: Style = "good" if change > 0 else "bad" if change < 0 else ""
    return Cell(f"+{text}" if change > 0 and text != "0" else text, style)
