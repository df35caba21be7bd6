"""The text of the rows that `top` shows: bars, amounts, ages.

Owns: columns and their widths. Does not own: which rows there are (`cluster`), drawing them (`row_list`). Pure.

Invariant: a row is never wider than the width that it is made for, and colour only repeats what a number says.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from herodotus_cli.render.formatting import format_age
from herodotus_cli.render.screen_elements import display_width
from herodotus_cli.top.cluster import Amount, NodeRow, PodRow
from herodotus_cli.top.simulation import PodMove
from herodotus_record.escaping import escape
from herodotus_record.units import format_available, format_requested

Part = tuple[str, str]  # a text, and the style in which it is drawn, in Rich's words

_UNKNOWN = "?"
_NEARLY_FULL, _FULL = 0.8, 0.95
_WIDE, _WIDEST = 115, 150  # columns from which there are amounts and zones, and node groups
_PERCENT = 5  # columns, with the space before it
_MORE, _LESS = "+", "-"  # the part of a bar that a simulation adds or takes away


class RowWriter:
    """Writes rows for a width. `blocks` says whether the terminal can show block characters."""

    def __init__(self, width: int, now: datetime, *, blocks: bool, knows_requests: bool = True) -> None:
        self._width, self._now, self._knows_requests = width, now, knows_requests
        self._full, self._empty = ("█", "░") if blocks else ("#", ".")

    def _node_widths(self) -> tuple[int, int, int]:
        """Return the widths of a node's name, of a bar, and of the amounts beside a bar.

        The last is 0 if the terminal is too narrow for amounts.
        """
        if self._width >= _WIDEST:
            return 32, 20, 20
        if self._width >= _WIDE:
            return 24, 10, 17
        return 20, 10, 0

    def node_header(self) -> str:
        """Return the column titles of the list of nodes."""
        name, bar, amounts = self._node_widths()
        wide = bar + _PERCENT + amounts
        return f"{'NODE':<{name}} {'CPU':<{wide}} {'MEMORY':<{wide}} {'PODS':<7} STATE"[: self._width]

    def node(self, row: NodeRow) -> list[Part]:
        """Return the parts of a node's row, or of the row of a zone or group."""
        name, bar, amounts = self._node_widths()
        title = f"{row.name} ({row.members})" if row.members else row.name
        parts = [
            (_fit(title, name) + " ", "bold" if row.members else ""),
            *self._bar(row.cpu, "cpu", bar, amounts),
            *self._bar(row.memory, "memory", bar, amounts),
            (f"{row.pods.requested if self._knows_requests else _UNKNOWN}/{row.pods.allocatable}".ljust(8), ""),
        ]
        if row.is_changed:
            parts.append((_describe_change(row), "bold"))
        place = [row.zone if self._width >= _WIDE else "", row.group if self._width >= _WIDEST else ""]
        marks = ", ".join(row.marks)
        left = self._width - sum(display_width(text) for text, _ in parts)
        return [*parts, (_fit(" ".join(filter(None, [marks, *place])), left), "yellow" if marks else "")]

    def _bar(self, amount: Amount, resource: str, width: int, amounts: int) -> list[Part]:
        if not self._knows_requests:
            allocatable = format_available(resource, amount.allocatable)
            return [(_fit(f"{_UNKNOWN} of {allocatable}", width + _PERCENT + amounts) + " ", "")]
        share = amount.share
        full, before = _count_cells(share, width), _count_cells(amount.share_before, width)
        colour = "red" if share >= _FULL else "yellow" if share >= _NEARLY_FULL else "green"
        texts = [
            (self._full * min(full, before), colour),
            (_MORE * (full - before) + _LESS * (before - full), "bold"),
            (self._empty * (width - max(full, before)), colour),
            (f"{share:>{_PERCENT}.0%}", "bold" if amount.before not in (None, amount.requested) else ""),
        ]
        if amounts:
            of = f"{format_requested(resource, amount.requested)}/{format_available(resource, amount.allocatable)}"
            texts.append((_fit(f" {of}", amounts), "dim"))
        return [*texts, (" ", "")]

    def waiting_header(self) -> str:
        """Return the column titles of the list of pods that wait."""
        return f"{'WAITING POD':<{self._name_width()}} {'AGE':<7} REASON"

    def waiting(self, pod: Mapping[str, Any]) -> list[Part]:
        """Return the parts of the row of a listed pending pod."""
        age = "overdue" if pod["overdue"] else format_age(pod["createdAt"], self._now) if pod["createdAt"] else "–"
        name = self._name_width()
        return [
            (_fit(f"{pod['namespace']}/{pod['pod']}", name) + f" {age:<7} ", ""),
            (_fit(str(pod["reason"]), self._width - name - 9), ""),
        ]

    @property
    def has_wide_reasons(self) -> bool:
        """Whether rows of waiting pods have room for most reasons."""
        return self._width >= _WIDE

    def placement_header(self) -> str:
        """Return the column titles of the list of pods that got a node."""
        return f"{'PLACED POD':<{self._name_width()}} {'AGE':<7} NODE"

    def placement(self, pod: PodRow) -> list[Part]:
        """Return the parts of the row of a pod that got a node."""
        name = self._name_width()
        age = format_age(pod.placed_at, self._now)
        text = f"{_fit(f'{pod.namespace}/{pod.name}', name)} {age:<7} {_fit(pod.node, self._width - name - 9)}"
        return [(text, "")]

    def move_header(self) -> str:
        """Return the column titles of the list of pods that a simulation moves."""
        return f"{'MOVED POD':<{self._name_width()}} FROM → TO"

    def move(self, move: PodMove) -> list[Part]:
        """Return the parts of the row of a pod that a simulation moves."""
        name = self._name_width()
        to = move.node or (f"deleted ({move.cause})" if move.is_deleted else "no node")
        why = f"  {move.decided_by}" if move.node and self._width >= _WIDE else ""
        way = f"{move.from_node or ('waiting' if move.cause == 'Pending' else 'new')} → {to}{why}"
        return [
            (_fit(f"{move.namespace}/{move.name}", name) + " ", ""),
            (_fit(way, self._width - name - 1), "" if move.node else "yellow"),
        ]

    def pod_header(self) -> str:
        """Return the column titles of the list of pods on a node."""
        return f"{'POD':<{self._name_width()}} {'CPU':>8} {'MEMORY':>9} {'AGE':<7} OWNER"

    def pod(self, pod: PodRow) -> list[Part]:
        """Return the parts of the row of a pod on a node."""
        name = self._name_width()
        cpu, memory = format_requested("cpu", pod.cpu), format_requested("memory", pod.memory)
        age = format_age(pod.created_at, self._now) if pod.created_at else "–"
        text = f"{_fit(f'{pod.namespace}/{pod.name}', name)} {cpu:>8} {memory:>9} {age:<7} "
        return [(text + _fit(pod.owner, self._width - name - 28), "")]

    def _name_width(self) -> int:
        return min(60, max(30, self._width * 2 // 5))


def _count_cells(share: float, width: int) -> int:
    return min(width, round(share * width)) or int(share > 0)


def _describe_change(row: NodeRow) -> str:
    """Return the change of a node's number of pods by a simulation, such as `+2 pods ` with a space after it.

    Returns "" if the number does not change.
    """
    more = row.pods.requested - (row.pods.before or 0)
    return f"{more:+} pod{'s' if abs(more) != 1 else ''} " if more else ""


def _fit(text: str, width: int) -> str:
    """Return a text of exactly this width: filled with spaces, or cut. Unsafe characters are escaped."""
    text = escape(text)
    if display_width(text) > width:
        while text and display_width(text) > width - 1:
            text = text[:-1]
        text = f"{text}…" if width > 0 else ""
    return text + " " * (width - display_width(text))
