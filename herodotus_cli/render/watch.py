"""The lines of `kubectl herodotus watch`: one decision each, in columns of fixed width.

Owns: columns and their widths. Does not own: the stream.

Invariant: a line is at most as wide as the terminal; piped lines are never cut. On a terminal columns are aligned: the
name of a pod that is wider than its column is cut in its middle, because its ends tell it from others, and only the
last column is cut at its end.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any, Final

from herodotus_answers.pending import find_dominant_reason
from herodotus_cli.render.formatting import format_feasible
from herodotus_record.escaping import escape

Json = dict[str, Any]
_COLUMNS: Final = (("TIME", 8), ("POD", 40), ("ATTEMPT", 7), ("RESULT", 13), ("NODE", 20), ("FIT", 9), ("REASON", 0))
_MEDIUM: Final = {"TIME": 8, "POD": 36, "RESULT": 13, "NODE": 14, "REASON": 0}
_NARROW: Final = {"TIME": 8, "POD": 26, "": 1, "NODE": 9, "REASON": 0}  # a sign has room for a reason in 80 columns
_WIDTHS: Final = ((140, dict(_COLUMNS)), (110, _MEDIUM), (0, _NARROW))  # by minimum width of the terminal
_SIGNS: Final = {"Bound": "✓", "DryRun": "✓", "Binding": "…"}  # others: ✗
# kube-scheduler's sentences without the words that all have, so that 26 columns tell them apart.
_SHORTER: Final = (
    ("node(s) ", ""),
    ("didn't match ", "no match: "),
    ("didn't have ", "no "),
    ("didn't satisfy ", "not "),
)
_COLOURS: Final = {"Bound": "\x1b[32m", "Unschedulable": "\x1b[31m", "Failed": "\x1b[31m", "Error": "\x1b[31m"}
_PATHS: Final = {"only-feasible-node": "the only feasible node", "nominated-node": "nominated by preemption"}
_PLAIN: Final = "\x1b[0m"
_GAP: Final = "  "


class WatchFormatter:
    """Formats decisions as lines with columns of fixed width.

    `terminal` is the width of the terminal in columns, or None for piped output.
    """

    def __init__(self, *, terminal: int | None, color: bool) -> None:
        self._width, self._color = terminal, color
        self._columns = next(columns for least, columns in _WIDTHS if terminal is None or terminal >= least)

    def header(self) -> str:
        return self._format_line({name: name for name in self._columns})

    def line(self, decision: Json, zone: tzinfo | None) -> str:
        """Return a decision as a line, with its time in the given time zone."""
        spec, status = decision["spec"], decision["status"]
        started_at = datetime.fromisoformat(str(spec["times"]["startedAt"]).replace("Z", "+00:00")).astimezone(zone)
        nodes = spec["snapshot"]
        pod = f"{spec['pod']['namespace']}/{spec['pod']['name']}"
        state = str(status["state"])
        cells = {
            "TIME": f"{started_at:%H:%M:%S}",
            "POD": pod,
            "ATTEMPT": str(spec["key"]["attempt"]),
            "RESULT": state,
            "": _SIGNS.get(state, "✗"),
            "NODE": status["node"] or "–",
            "FIT": format_feasible(nodes, "nodes"),
            "REASON": self._reason(status["message"]) or _PATHS.get(status["path"], ""),
        }
        text = self._format_line(cells)
        colour = _COLOURS.get(state) if self._color else None
        shown = state if "RESULT" in self._columns else cells[""]
        return text.replace(shown, f"{colour}{shown}{_PLAIN}", 1) if colour else text

    def _reason(self, message: str) -> str:
        """Return the message unchanged in piped output; on a terminal, only the reason that most nodes have."""
        if self._width is None or not message:
            return message
        reason = find_dominant_reason(message)
        if "RESULT" not in self._columns:
            for words, shorter in _SHORTER:
                reason = reason.replace(words, shorter)
        return reason

    def _format_line(self, cells: dict[str, str]) -> str:
        text, start = "", 0
        for name, width in self._columns.items():
            cell = escape(cells[name])
            if self._width is not None and width:
                cell = _cut_middle(cell, width)
            text = f"{text}{_GAP if start else ''}".ljust(start) + cell
            start += width + len(_GAP)
        text = text.rstrip()
        if self._width is not None and len(text) > self._width:
            text = f"{text[: self._width - 1]}…"
        return f"{text}\n"


def _cut_middle(text: str, width: int) -> str:
    """Return a text of at most `width` columns that keeps the beginning and the end of a longer one."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
