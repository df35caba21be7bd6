"""Label selectors and node selector requirements: does one set of labels match.

Source: k8s.io/apimachinery/pkg/labels and k8s.io/component-helpers/scheduling/corev1/nodeaffinity. Node columns match
a requirement against each distinct value once; the rule itself is here, once, as a function of one value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from scheduler.objects.types import LabelSelector, NodeSelectorTerm, Requirement

NAME_FIELD = "metadata.name"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_INT64 = re.compile(r"[+-]?\d+", re.ASCII)


class InvalidSelectorError(ValueError):
    """A requirement that the API would refuse: unknown operator, or the wrong number of values for it."""


def requirement_matches(requirement: Requirement, value: str | None) -> bool:
    """Whether a requirement holds for the value of its key; None where the key is absent. Node operators included."""
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
            number, bound = int64(value), int64(values[0])
            if number is None or bound is None:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
        case _:
            raise InvalidSelectorError(f'"{requirement.operator}" is not a valid label selector operator')


def label_selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a pod's or namespace's labels match; None matches nothing, an empty selector everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(requirement_matches(r, labels.get(r.key)) for r in selector.match_expressions or ())


def checked(selector: LabelSelector | None) -> LabelSelector | None:
    """The selector, or InvalidSelectorError when one of its requirements is malformed."""
    for r in (selector.match_expressions if selector else None) or ():
        if r.operator in ("In", "NotIn"):
            if not r.values:
                raise InvalidSelectorError("for 'in', 'notin' operators, values set can't be empty")
        elif r.operator not in ("Exists", "DoesNotExist"):
            raise InvalidSelectorError(f'"{r.operator}" is not a valid label selector operator')
        elif r.values:
            raise InvalidSelectorError("values set must be empty for exists and does not exist")
    return selector


def validated(term: NodeSelectorTerm) -> NodeSelectorTerm:
    """The term, or InvalidSelectorError when one of its requirements is malformed."""
    for r in term.match_expressions or ():
        count = len(r.values or ())
        if r.operator in ("In", "NotIn"):
            if not count:
                raise InvalidSelectorError("for 'in', 'notin' operators, values set can't be empty")
        elif r.operator in ("Exists", "DoesNotExist"):
            if count:
                raise InvalidSelectorError("values set must be empty for exists and does not exist")
        elif r.operator in ("Gt", "Lt"):
            if count != 1:
                raise InvalidSelectorError("for 'Gt', 'Lt' operators, exactly one value is required")
            if int64((r.values or [""])[0]) is None:
                raise InvalidSelectorError("for 'Gt', 'Lt' operators, the value must be an integer")
        else:
            raise InvalidSelectorError(f'"{r.operator}" is not a valid label selector operator')
    for r in term.match_fields or ():
        if r.key != NAME_FIELD or r.operator not in ("In", "NotIn") or len(r.values or ()) != 1:
            raise InvalidSelectorError(f"matchFields: {r.key} {r.operator} is not supported")
    return term


def empty(term: NodeSelectorTerm) -> bool:
    """A term without requirements, which matches nothing."""
    return not term.match_expressions and not term.match_fields


def describe(requirement: Requirement) -> str:
    """The requirement as people write it: `disktype in (ssd,nvme)`."""
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


def describe_labels(selector: LabelSelector | None) -> str:
    """The selector as people write it: `app=web,tier in (a,b)`."""
    if selector is None:
        return "no pod"
    equal = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    return ",".join([*equal, *(describe(r) for r in selector.match_expressions or ())]) or "any pod"


def int64(text: str | None) -> int | None:
    """A decimal number as Go reads an int64; None when the text is none, or out of range."""
    if text is None or not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
