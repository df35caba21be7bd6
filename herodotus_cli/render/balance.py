"""The screen of `kubectl herodotus balance`: Balance -> blocks.

Owns: the content of the screen. Does not own: recomputing decisions (`herodotus_answers.balance`), drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herodotus_cli.render.formatting import format_age
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)
from herodotus_cli.render.workload import format_reasons
from herodotus_record.units import format_number, format_percent, join_limited, pluralize

if TYPE_CHECKING:
    from herodotus_answers.balance import Balance, MovedPlacement, NodeBalance

_NODES = 20  # on a terminal: those that won most; every node when piped or with -o wide
_MOVES = 10  # on a terminal
_ROOMY = 100  # columns of a terminal that hold every column, weights included, and whole names of plugins


def build_screen(answer: Balance, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: wins per node, then the effect of each score plugin.

    If the answer has other weights, the pods that would have gone elsewhere follow.
    """
    whole = view.piped or view.wide
    nodes = answer["nodes"] if whole else answer["nodes"][:_NODES]
    left_out = len(answer["nodes"]) - len(nodes) + answer["nodesOmitted"]
    over = "all" if answer["complete"] else "the newest"
    title = f"{over} {pluralize(answer['decisions'], 'placement')} of the last {format_age(answer['since'], view.now)}"
    moves = answer["moves"] if whole else answer["moves"][:_MOVES]
    more_moves = len(answer["moves"]) + answer["movesOmitted"] - len(moves)
    sections: list[list[Block]] = [
        [SplitLine("balance", title), TextLine(answer["headline"], "strong")],
        [_nodes(nodes, view, weighed=answer["weights"] is not None)] if nodes else [],
        [TextLine(f"… {pluralize(left_out, 'more node')} with no more wins{'' if whole else ': -o wide'}", "dim")]
        if left_out
        else [],
        [_plugins(answer)] if answer["plugins"] else [],
        [
            labelled_rows(
                [("OTHER", join_limited([_count_reason(by, n) for by, n in answer["otherReasons"].items()], 5))]
            )
        ],
        [_moves(moves)] if moves else [],
        [TextLine(f"… {pluralize(more_moves, 'more pod')} would have gone elsewhere", "dim")] if more_moves else [],
    ]
    return join_sections([section for section in sections if not _has_no_rows(section)])


def _has_no_rows(section: list[Block]) -> bool:
    return any(getattr(block, "rows", None) == () for block in section)


def _nodes(nodes: list[NodeBalance], view: ViewOptions, *, weighed: bool) -> Block:
    """Return the table of each node's wins, beside the wins expected if all feasible nodes had scored the same.

    With `weighed`, the table also has the wins under other weights; on a narrow terminal it then lacks SHARE and FIT.
    """
    narrow = weighed and view.width is not None and view.width < _ROOMY
    rows: list[list[Cell | str]] = []
    for n in nodes:
        row: list[Cell | str] = [n["node"], str(n["won"]), format_number(n["expected"])]
        if not narrow:
            row = [*row[:2], format_percent(n["share"]), row[2], str(n["fit"])]
        if n["wouldWin"] is not None:
            row += [format_number(n["wouldWin"]), _difference(n["wouldWin"] - n["won"])]
        rows.append([*row, format_reasons(n["decidedBy"])])
    columns = ["EXPECTED"] if narrow else ["SHARE", "EXPECTED", "FIT"]
    header = ["NODE", "WON", *columns, *(["WOULD WIN", "CHANGE"] if weighed else []), "DECIDED BY"]
    return build_table(header, rows, right=range(1, len(header) - 1))


def _plugins(answer: Balance) -> Block:
    weights = answer["weights"] or {}
    rows = []
    for p in sorted(answer["plugins"], key=lambda p: (-p["movesWithout"], -p["decided"], p["plugin"])):
        weight = f"{p['weight']} → {weights[p['plugin']]}" if p["plugin"] in weights else str(p["weight"])
        rows.append((p["plugin"], weight, str(p["decided"]), str(p["movesWithout"])))
    return build_table(("SCORE PLUGIN", "WEIGHT", "DECIDED", "CHANGED WINNER"), rows, right=(1, 2, 3))


def _moves(moves: list[MovedPlacement]) -> Block:
    rows = []
    for m in moves:
        to = m["to"] or f"random among {pluralize(m['drawnAmong'] or 0, 'node')}"
        rows.append((f"{m['namespace']}/{m['pod']}", m["from"], to))
    return build_table(("POD", "WENT TO", "WOULD GO TO"), rows)


def _count_reason(reason: str, n: int) -> str:
    """Return how often a reason decided a placement, as `16 ties` or `3 × the only node that fits`."""
    return pluralize(n, "tie") if reason == "tie" else f"{n} × {reason}"


def _difference(change: float) -> str:
    text = format_number(change)
    return f"+{text}" if change > 0 and text != "0" else text
