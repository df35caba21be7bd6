"""Parses label and field selectors to predicates over stored objects.

Does not own: which fields a resource supports (`kinds`). Invariant: an invalid selector gives 400 and is never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herodotus_sim import errors
from herodotus_sim.kinds import BOOLEAN_FIELDS, ApiResource
from herodotus_sim.wire import Object

Predicate = Callable[[Object], bool]

_KEY = r"(?P<key>[A-Za-z0-9][\w./-]*)"
_SET = re.compile(rf"^{_KEY}\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUALITY = re.compile(rf"^{_KEY}\s*(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)$")
_ORDER = re.compile(rf"^{_KEY}\s*(?P<op>[<>])\s*(?P<value>-?\d+)$")
_EXISTS = re.compile(rf"^(?P<op>!?)\s*{_KEY}$")
_COMMA = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True)
class SelectionPredicate:
    """The condition that an object must meet to be part of a list or watch: a namespace and selectors."""

    namespace: str = ""
    predicates: tuple[Predicate, ...] = ()
    name: str | None = None
    """The only name that can match, if a field selector requires one."""

    @property
    def matches_everything(self) -> bool:
        """Return whether every object of the resource is selected."""
        return not self.namespace and not self.predicates

    def matches(self, obj: Object) -> bool:
        """Return whether a stored object is selected."""
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return all(p(obj) for p in self.predicates)


def build_predicate(
    kind: ApiResource, namespace: str, name: str, label_selector: str, field_selector: str
) -> SelectionPredicate:
    """Return the predicate for a list or watch with these parameters; an empty parameter restricts nothing.

    Raises StatusError 400 for an invalid selector.
    """
    fields = list(parse_fields(kind, field_selector))
    if name:
        fields.append(("metadata.name", "=", name))
    predicates = [label_predicate(label_selector)] if label_selector.strip() else []
    predicates += [_field_predicate(path, op, value) for path, op, value in fields]
    required_name = next((value for path, op, value in fields if path == "metadata.name" and op == "="), None)
    return SelectionPredicate(namespace, tuple(predicates), required_name)


def label_predicate(text: str) -> Predicate:
    """Return a predicate over objects that is true if their labels match the label selector `text`; "" matches all."""
    requirements = [_requirement(part.strip()) for part in _COMMA.split(text)] if text else []

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(r(labels) for r in requirements)

    return matches


def selector_text(selector: Object) -> str:
    """Return a LabelSelector object as a `labelSelector` query parameter, "" if it selects everything."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        key, operator = expression["key"], expression["operator"]
        values = f"({','.join(expression.get('values') or [])})"
        signs = {"Exists": key, "DoesNotExist": f"!{key}", "In": f"{key} in {values}", "NotIn": f"{key} notin {values}"}
        terms.append(signs[operator])
    return ",".join(terms)


def _requirement(text: str) -> Callable[[dict[str, str]], bool]:
    if match := _SET.match(text):
        key, values = match["key"], frozenset(v.strip() for v in match["values"].split(","))
        if match["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUALITY.match(text):
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _ORDER.match(text):
        key, bound, sign = match["key"], int(match["value"]), 1 if match["op"] == ">" else -1
        return lambda labels: _compare_number(labels.get(key), bound, sign)
    if match := _EXISTS.match(text):
        key, expects_equal = match["key"], not match["op"]
        return lambda labels: (key in labels) is expects_equal
    raise errors.bad_request(f"unable to parse requirement: {text!r}")


def _compare_number(value: str | None, bound: int, sign: int) -> bool:
    try:
        return value is not None and (int(value) - bound) * sign > 0
    except ValueError:
        return False


def parse_fields(kind: ApiResource, text: str) -> list[tuple[str, str, str]]:
    """Return the terms of a field selector, each as a path in the stored object, an operator (= or !=) and a value.

    Raises StatusError 400 for an unknown field or an invalid term.
    """
    terms = []
    paths = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace", **dict(kind.fields)}
    for term in filter(None, (part.strip() for part in text.split(","))):
        label, operator, value = _split_term(term)
        if label not in paths:
            raise errors.bad_request(_unknown_field(kind, label))
        terms.append((paths[label], operator, value))
    return terms


def _split_term(term: str) -> tuple[str, str, str]:
    for sign, operator in (("!=", "!="), ("==", "="), ("=", "=")):
        label, sign_present, value = term.partition(sign)
        if sign_present:
            return label.strip(), operator, value.strip()
    raise errors.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")


def _unknown_field(kind: ApiResource, label: str) -> str:
    if kind.fields:
        return f"field label not supported: {label}"
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _field_predicate(path: str, operator: str, value: str) -> Predicate:
    keys = path.split(".")
    expects_equal = operator == "="

    def matches(obj: Object) -> bool:
        current: Any = obj
        for key in keys:
            current = current.get(key) if isinstance(current, dict) else None
        return (_field_text(current, path) == value) is expects_equal

    return matches


def _field_text(value: Any, path: str) -> str:
    if value is None:
        return "false" if path in BOOLEAN_FIELDS else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
