"""The lines of `kubectl herodotus watch`: one decision each, in columns that never move.

Owns: columns and their widths. Does not own: the stream.

Invariant: a line is at most as wide as the terminal; what is piped is never cut.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any, Final

from herodotus_cli.render.formatting import format_feasible
from herodotus_record.escaping import escape
from herodotus_record.pending import find_dominant_reason

Json = dict[str, Any]
_COLUMNS: Final = (("TIME", 8), ("POD", 40), ("TRY", 3), ("RESULT", 13), ("NODE", 20), ("FIT", 9), ("WHY", 0))
_MEDIUM: Final = {"TIME": 8, "POD": 40, "RESULT": 13, "NODE": 20, "WHY": 0}
_NARROW: Final = {"TIME": 8, "POD": 24, "RESULT": 13, "NODE": 10, "WHY": 0}  # 80 columns hold "Insufficient cpu" too
_WIDTHS: Final = ((140, dict(_COLUMNS)), (110, _MEDIUM), (0, _NARROW))  # from so many columns of a terminal on
_COLOURS: Final = {"Bound": "\x1b[32m", "Unschedulable": "\x1b[31m", "Failed": "\x1b[31m", "Error": "\x1b[31m"}
_PATHS: Final = {"only-feasible-node": "the only node that fits", "nominated-node": "nominated by preemption"}
_PLAIN: Final = "\x1b[0m"
_GAP: Final = "  "


class WatchFormatter:
    """How lines are laid out. `terminal`: its width, None where the output is piped."""

    def __init__(self, *, terminal: int | None, color: bool) -> None:
        self._width, self._color = terminal, color
        given = next(columns for least, columns in _WIDTHS if terminal is None or terminal >= least)
        self._columns = given

    def header(self) -> str:
        """The columns' names."""
        return self._laid_out({name: name for name in self._columns})

    def line(self, decision: Json, zone: tzinfo | None) -> str:
        """A decision, its time in a zone."""
        spec, status = decision["spec"], decision["status"]
        at = datetime.fromisoformat(str(spec["times"]["startedAt"]).replace("Z", "+00:00")).astimezone(zone)
        nodes = spec["snapshot"]
        pod = f"{spec['pod']['namespace']}/{spec['pod']['name']}"
        state = str(status["state"])
        cells = {
            "TIME": f"{at:%H:%M:%S}",
            "POD": pod,
            "TRY": str(spec["key"]["attempt"]),
            "RESULT": state,
            "NODE": status["node"] or "–",
            "FIT": format_feasible(nodes, "nodes"),
            "WHY": self._why(status["message"]) or _PATHS.get(status["path"], ""),
        }
        text = self._laid_out(cells)
        colour = _COLOURS.get(state) if self._color else None
        return text.replace(state, f"{colour}{state}{_PLAIN}", 1) if colour else text

    def _why(self, message: str) -> str:
        """The event's message; on a terminal what most nodes said."""
        return message if self._width is None or not message else find_dominant_reason(message)

    def _laid_out(self, cells: dict[str, str]) -> str:
        text = _GAP.join(escape(cells[name]).ljust(width) for name, width in self._columns.items()).rstrip()
        if self._width is not None and len(text) > self._width:
            text = f"{text[: self._width - 1]}…"
        return f"{text}\n"
