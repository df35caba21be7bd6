"""What is wrong with node selector terms in a configuration: every requirement that does not parse, by its path.

A pod's own terms are read by `selectors`, where the first malformed one ends the attempt. Sources:
k8s.io/component-helpers/scheduling/corev1/nodeaffinity and k8s.io/apimachinery/pkg/labels (NewRequirement) v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.objects import selectors
from scheduler.objects.names import wrong_with_key, wrong_with_value
from scheduler.objects.problems import Problem, invalid, not_supported
from scheduler.objects.types import NodeSelectorTerm, Requirement

_FIELD_OPERATORS = ("In", "NotIn")


def term_problems(term: NodeSelectorTerm, path: str) -> Iterator[Problem]:
    """Of a whole term: its labels' requirements, then its fields'."""
    for i, requirement in enumerate(term.match_expressions or ()):
        yield from _label_problems(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.match_fields or ()):
        yield from _field_problems(requirement, f"{path}.matchFields[{i}]")


def _label_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    if requirement.operator not in selectors.OPERATORS:
        yield not_supported(f"{path}.operator", requirement.operator, selectors.OPERATORS)
        return
    key, values = requirement.key, list(requirement.values or ())
    wrong = wrong_with_key(key)
    if wrong:
        yield invalid(f"{path}.key", key, "; ".join(wrong))
    yield from _count_problems(requirement.operator, requirement.values, f"{path}.values")
    for i, value in enumerate(values):
        wrong = wrong_with_value(value)
        if wrong:
            yield invalid(f"{path}.values[{i}][{key}]", value, "; ".join(wrong))


def _count_problems(operator: str, values: list[str] | None, path: str) -> Iterator[Problem]:
    count = len(values or ())
    if operator in ("In", "NotIn") and not count:
        yield invalid(path, values, "for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and count:
        yield invalid(path, values, "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if count != 1:
            yield invalid(path, values, "for 'Gt', 'Lt' operators, exactly one value is required")
        for i, value in enumerate(values or ()):
            if selectors.int64(value) is None:
                yield invalid(f"{path}[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")


def _field_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    if requirement.operator not in _FIELD_OPERATORS:
        yield not_supported(f"{path}.operator", requirement.operator, _FIELD_OPERATORS)
    elif len(requirement.values or ()) != 1:
        yield invalid(f"{path}.values", requirement.values, "must have one element")
