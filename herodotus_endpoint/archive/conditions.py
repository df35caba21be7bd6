"""Conditions on decisions as SQL over the archive's columns.

Owns: which column of the archive holds a column of the database. Does not own: parsing selectors, queries (`reader`).
Pure.

Invariant: a condition selects the same decisions here as in the database. Values are parameters, never part of the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from herodotus_endpoint.store.labels import LabelCondition
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition, StartCondition
from herodotus_endpoint.store.schema import UNSUCCESSFUL

# Columns of the database that the archive has under another name, as SQL.
_RENAMED: Final = {"decision_id": "decision", "profile": "scheduler", "owner": "(owner_kind || '/' || owner)"}

Clause = tuple[str, list[Any]]


def build_clause(conditions: Sequence[AnyCondition]) -> Clause:
    """Return SQL that is true where all conditions hold, and the values of its parameters."""
    clauses = [_build_one(condition) for condition in conditions]
    if not clauses:
        return "true", []
    return " and ".join(sql for sql, _ in clauses), [value for _, values in clauses for value in values]


def _build_one(condition: AnyCondition) -> Clause:
    if isinstance(condition, ColumnCondition):
        return _build_column(condition)
    if isinstance(condition, LabelCondition):
        return _build_label(condition)
    if isinstance(condition, StartCondition):
        return _build_start(condition)
    return _is_one_of("state", list(UNSUCCESSFUL))


def _build_column(condition: ColumnCondition) -> Clause:
    column = _RENAMED.get(condition.column, condition.column)
    sql, named = _is_one_of(column, [value for value in condition.values if value is not None])
    if condition.negated:
        sql = f"({column} is null or not {sql})"
    if None in condition.values:
        sql = f"({sql} and {column} is not null)" if condition.negated else f"({sql} or {column} is null)"
    return sql, named


def _build_start(condition: StartCondition) -> Clause:
    bounds = [("epoch_us(started) >= ?", condition.since_us), ("epoch_us(started) < ?", condition.until_us)]
    named = [(sql, value) for sql, value in bounds if value is not None]
    return " and ".join(["true", *(sql for sql, _ in named)]), [value for _, value in named]


def _build_label(condition: LabelCondition) -> Clause:
    value, key = "labels[?]", condition.key  # null without the label
    if condition.values is None:
        return f"({value} is {'' if condition.negated else 'not '}null)", [key]
    sql, values = _is_one_of(value, list(condition.values))
    if condition.negated:
        return f"({value} is null or not {sql})", [key, key, *values]
    return f"coalesce({sql}, false)", [key, *values]


def _is_one_of(column: str, values: list[Any]) -> Clause:
    """Return the SQL condition that a column has one of some values, with its parameters; false without values.

    A single value is compared with =, by which the reader of the files can select rows.
    """
    if not values:
        return "false", []
    if len(values) == 1:
        return f"({column} = ?)", values
    return f"({column} in ({', '.join('?' * len(values))}))", values
