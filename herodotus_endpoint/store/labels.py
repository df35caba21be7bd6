"""A pod's labels as text in its decision's row, and the condition of a label selector on it.

Owns: the format of the text. Does not own: parsing selectors, other conditions (`listing`). Pure.

The text has a line `key=value` for each label, with line ends before and after. A label is thus found as a substring,
without a table of labels and an index on it. A key or value with a line end is invalid in Kubernetes and is omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from herodotus_endpoint.store.schema import DECISIONS


@dataclass(frozen=True)
class LabelCondition:
    """A condition of a label selector: label `key` has one of `values`, or exists if `values` is None.

    If `negated` is true, the condition is inverted, and a pod without the label meets it.
    """

    key: str
    values: tuple[str, ...] | None
    negated: bool = False

    def clause(self) -> sa.ColumnElement[bool]:
        """Return the condition as an SQL expression over the column `labels` of `decisions`.

        It uses REPLACE, which is case-sensitive on both databases; LIKE is not.
        """
        column = DECISIONS.c.labels
        has_label = sa.or_(sa.false(), *(sa.func.replace(column, part, "") != column for part in self._parts()))
        return sa.not_(has_label) if self.negated else has_label

    def selects(self, row: Any, _state: str) -> bool:
        """Return whether a row of `decisions` meets the condition. The state of the decision does not matter."""
        return any(part in row.labels for part in self._parts()) is not self.negated

    def _parts(self) -> list[str]:
        if self.values is None:
            return [f"\n{self.key}="]
        return [f"\n{self.key}={value}\n" for value in self.values]


def format_labels(labels: Mapping[str, str]) -> str:
    """Return labels as the text for the column `labels`, or an empty string if there are none."""
    lines = [f"{key}={value}" for key, value in sorted(labels.items()) if "=" not in key and "\n" not in key + value]
    return "\n".join(("", *lines, "")) if lines else ""


def parse_labels(text: str) -> dict[str, str]:
    """Return the labels in a text that `format_labels` made."""
    return dict(line.split("=", 1) for line in text.split("\n") if line)
