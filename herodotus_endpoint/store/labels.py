"""A pod's labels as one text of its decision's row, and what a selector asks of it.

Owns: that text. Does not own: how a selector is written, other conditions (`listing`). Pure.

The text is a line for each label, `key=value`, between line ends: so a label is found as a part of the text, without a
table of labels and an index over it. A key or a value that would break its line is none that Kubernetes has, and is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from herodotus_endpoint.store.schema import DECISIONS


@dataclass(frozen=True)
class LabelCondition:
    """What a label must be: one of `values`, or there at all (None); `negated`: not that, so it may be absent too."""

    key: str
    values: tuple[str, ...] | None
    negated: bool = False

    def clause(self) -> sa.ColumnElement[bool]:
        """The condition as SQL. REPLACE heeds case on every database, which LIKE does not."""
        column = DECISIONS.c.labels
        found = sa.or_(sa.false(), *(sa.func.replace(column, part, "") != column for part in self._parts()))
        return sa.or_(column.is_(None), sa.not_(found)) if self.negated else sa.and_(column.is_not(None), found)

    def selects(self, row: Any, _state: str) -> bool:
        """Whether it holds for a row, in whatever state its decision is."""
        return any(part in (row.labels or "") for part in self._parts()) is not self.negated

    def _parts(self) -> list[str]:
        if self.values is None:
            return [f"\n{self.key}="]
        return [f"\n{self.key}={value}\n" for value in self.values]


def format_labels(labels: Mapping[str, str]) -> str:
    """Labels as a text; empty where there are none."""
    lines = [f"{key}={value}" for key, value in sorted(labels.items()) if "=" not in key and "\n" not in key + value]
    return "\n".join(("", *lines, "")) if lines else ""


def parse_labels(text: str | None) -> dict[str, str]:
    """The labels of a text."""
    return dict(line.split("=", 1) for line in (text or "").split("\n") if line)
