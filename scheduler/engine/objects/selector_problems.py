"""Validation of node selector terms: every requirement that does not parse, by its path.

The same rules hold for terms in a configuration, in a pod and in a volume. Whether a valid term matches a node is
`selectors`. Sources: k8s.io/component-helpers/scheduling/corev1/nodeaffinity and k8s.io/apimachinery/pkg/labels
(NewRequirement) v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.engine.objects import selectors
from scheduler.engine.objects.names import validate_label_key, validate_label_value
from scheduler.engine.objects.problems import Problem, invalid, not_supported
from scheduler.engine.objects.types import NodeSelectorTerm, Requirement

_FIELD_OPERATORS = ("In", "NotIn")


def is_valid(term: NodeSelectorTerm) -> bool:
    """Return whether every requirement of a node selector term parses."""
    return next(find_term_problems(term, ""), None) is None


def find_term_problems(term: NodeSelectorTerm, path: str) -> Iterator[Problem]:
    """Yield the problems of a node selector term, those of its label requirements before its field requirements.

    `path` is the term's path in its document; the paths of the problems start with it.
    """
    for i, requirement in enumerate(term.match_expressions or ()):
        yield from _label_problems(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.match_fields or ()):
        yield from _field_problems(requirement, f"{path}.matchFields[{i}]")


def _label_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    if requirement.operator not in selectors.OPERATORS:
        yield not_supported(f"{path}.operator", requirement.operator, selectors.OPERATORS)
        return
    key, values = requirement.key, list(requirement.values or ())
    wrong = validate_label_key(key)
    if wrong:
        yield invalid(f"{path}.key", key, "; ".join(wrong))
    yield from _count_problems(requirement.operator, requirement.values, f"{path}.values")
    for i, value in enumerate(values):
        wrong = validate_label_value(value)
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
            if selectors.parse_int64(value) is None:
                yield invalid(f"{path}[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")


def _field_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    if requirement.operator not in _FIELD_OPERATORS:
        yield not_supported(f"{path}.operator", requirement.operator, _FIELD_OPERATORS)
    elif len(requirement.values or ()) != 1:
        yield invalid(f"{path}.values", requirement.values, "must have one element")
