"""Owns: label and field selectors: text -> predicate over stored objects.

Does not own: which fields a kind offers (`kinds`). Invariant: a selector that cannot be read is a 400, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herodotus_sim import errors
from herodotus_sim.kinds import BOOLEAN_FIELDS, Kind
from herodotus_sim.wire import Object

Predicate = Callable[[Object], bool]

_KEY = r"(?P<key>[A-Za-z0-9][\w./-]*)"
_SET = re.compile(rf"^{_KEY}\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUALITY = re.compile(rf"^{_KEY}\s*(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)$")
_ORDER = re.compile(rf"^{_KEY}\s*(?P<op>[<>])\s*(?P<value>-?\d+)$")
_EXISTS = re.compile(rf"^(?P<op>!?)\s*{_KEY}$")
_COMMA = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True)
class Selection:
    """Which objects a list or watch is about."""

    namespace: str = ""
    predicates: tuple[Predicate, ...] = ()
    name: str | None = None
    """The only name that can match, when a field selector says so."""

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.namespace and not self.predicates

    def matches(self, obj: Object) -> bool:
        """Whether a stored object is selected."""
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return all(p(obj) for p in self.predicates)


def selection(kind: Kind, namespace: str, name: str, label_selector: str, field_selector: str) -> Selection:
    """What the parameters of a list or watch select."""
    fields = list(parse_fields(kind, field_selector))
    if name:
        fields.append(("metadata.name", "=", name))
    predicates = [label_predicate(label_selector)] if label_selector.strip() else []
    predicates += [_field_predicate(path, op, value) for path, op, value in fields]
    only = next((value for path, op, value in fields if path == "metadata.name" and op == "="), None)
    return Selection(namespace, tuple(predicates), only)


def label_predicate(text: str) -> Predicate:
    """All requirements of a label selector."""
    requirements = [_requirement(part.strip()) for part in _COMMA.split(text)]

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(r(labels) for r in requirements)

    return matches


def _requirement(text: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(text):
        key, values = found["key"], frozenset(v.strip() for v in found["values"].split(","))
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALITY.match(text):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _ORDER.match(text):
        key, bound, sign = found["key"], int(found["value"]), 1 if found["op"] == ">" else -1
        return lambda labels: _number(labels.get(key), bound, sign)
    if found := _EXISTS.match(text):
        key, wanted = found["key"], not found["op"]
        return lambda labels: (key in labels) is wanted
    raise errors.bad_request(f"unable to parse requirement: {text!r}")


def _number(value: str | None, bound: int, sign: int) -> bool:
    try:
        return value is not None and (int(value) - bound) * sign > 0
    except ValueError:
        return False


def parse_fields(kind: Kind, text: str) -> list[tuple[str, str, str]]:
    """Path in the stored object, operator (= or !=) and value of each term."""
    terms = []
    known = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace", **dict(kind.fields)}
    for term in filter(None, (part.strip() for part in text.split(","))):
        label, operator, value = _split_term(term)
        if label not in known:
            raise errors.bad_request(_unknown_field(kind, label))
        terms.append((known[label], operator, value))
    return terms


def _split_term(term: str) -> tuple[str, str, str]:
    for sign, operator in (("!=", "!="), ("==", "="), ("=", "=")):
        label, found, value = term.partition(sign)
        if found:
            return label.strip(), operator, value.strip()
    raise errors.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")


def _unknown_field(kind: Kind, label: str) -> str:
    if kind.fields:
        return f"field label not supported: {label}"
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _field_predicate(path: str, operator: str, value: str) -> Predicate:
    keys = path.split(".")
    wanted = operator == "="

    def matches(obj: Object) -> bool:
        at: Any = obj
        for key in keys:
            at = at.get(key) if isinstance(at, dict) else None
        return (_text(at, path) == value) is wanted

    return matches


def _text(value: Any, path: str) -> str:
    if value is None:
        return "false" if path in BOOLEAN_FIELDS else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
