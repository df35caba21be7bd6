"""Label selectors and node selector requirements: matching against one set of labels.

Source: k8s.io/apimachinery/pkg/labels and k8s.io/component-helpers/scheduling/corev1/nodeaffinity. Node columns match a
requirement once per distinct value; this module holds the rule for one value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from scheduler.engine.objects.types import LabelSelector, NodeSelectorTerm, Requirement

NAME_FIELD = "metadata.name"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_INT64 = re.compile(r"[+-]?\d+", re.ASCII)


class InvalidSelectorError(ValueError):
    """An error for a selector requirement with an unknown operator, or the wrong number of values for its operator."""


def requirement_matches(requirement: Requirement, value: str | None) -> bool:
    """Return whether a label or node selector requirement holds for a label's value, None if the label is absent.

    Raise InvalidSelectorError for an unknown operator.
    """
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            number, bound = parse_int64(value), parse_int64(values[0])
            if number is None or bound is None:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
        case _:
            raise InvalidSelectorError(f'"{requirement.operator}" is not a valid label selector operator')


def label_selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a selector. None matches nothing, an empty selector matches everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(requirement_matches(r, labels.get(r.key)) for r in selector.match_expressions or ())


def validate_selector(selector: LabelSelector | None) -> LabelSelector | None:
    """Return the given label selector. Raise InvalidSelectorError if one of its requirements is malformed."""
    for r in (selector.match_expressions if selector else None) or ():
        if r.operator in ("In", "NotIn"):
            if not r.values:
                raise InvalidSelectorError("for 'in', 'notin' operators, values set can't be empty")
        elif r.operator not in ("Exists", "DoesNotExist"):
            raise InvalidSelectorError(f'"{r.operator}" is not a valid label selector operator')
        elif r.values:
            raise InvalidSelectorError("values set must be empty for exists and does not exist")
    return selector


def field_matches(requirement: Requirement, name: str) -> bool:
    """Return whether a valid requirement of matchFields holds for the node with this name.

    Every field except metadata.name counts as empty.
    """
    value = name if requirement.key == NAME_FIELD else ""
    return (value in (requirement.values or ())) == (requirement.operator == "In")


def is_empty_term(term: NodeSelectorTerm) -> bool:
    """Return whether a node selector term has no requirements; such a term matches nothing."""
    return not term.match_expressions and not term.match_fields


def format_requirement(requirement: Requirement) -> str:
    """Return a label or node selector requirement in kubectl's notation: `disktype in (ssd,nvme)`."""
    values = ",".join(requirement.values or ())
    match requirement.operator:
        case "In" if len(requirement.values or ()) == 1:
            return f"{requirement.key}={values}"
        case "Exists":
            return requirement.key
        case "DoesNotExist":
            return f"!{requirement.key}"
        case "Gt" | "Lt":
            return f"{requirement.key}{'>' if requirement.operator == 'Gt' else '<'}{values}"
        case _:
            return f"{requirement.key} {requirement.operator.lower()} ({values})"


def format_label_selector(selector: LabelSelector | None) -> str:
    """Return a label selector in kubectl's notation: `app=web,tier in (a,b)`.

    The result is `no pod` for None and `any pod` for an empty selector.
    """
    if selector is None:
        return "no pod"
    equal = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    return ",".join([*equal, *(format_requirement(r) for r in selector.match_expressions or ())]) or "any pod"


def parse_int64(text: str | None) -> int | None:
    """Return a decimal number as Go parses an int64, or None if the text is not one or is out of range."""
    if text is None or not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
