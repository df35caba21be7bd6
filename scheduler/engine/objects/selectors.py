"""Label selectors and node selector requirements: validation, and matching against one set of labels.

The same rules of validation hold for terms in a configuration, in a pod and in a volume. Source:
k8s.io/apimachinery/pkg/labels and k8s.io/component-helpers/scheduling/corev1/nodeaffinity v1.36. Node columns match a
requirement once per distinct value; this module holds the rule for one value. An index matches many selectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.engine.objects.names import validate_label_key, validate_label_value
from scheduler.engine.objects.problems import Problem, aggregate, invalid, not_supported
from scheduler.engine.objects.types import LabelSelector, Node, NodeSelectorTerm, Requirement

NAME_FIELD = "metadata.name"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_FIELD_OPERATORS = ("In", "NotIn")
_INT64 = re.compile(r"[+-]?\d+", re.ASCII)
# The parts of a selector's text: KEY in (A,B), KEY notin (A), KEY=VALUE, KEY!=VALUE, KEY>NUMBER, !KEY and KEY.
_WRITTEN = re.compile(
    r"\s*(?:(?P<key>[^\s,=!<>()]+)\s*(?:\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<sign>==?|!=|>|<)\s*(?P<value>[^\s,=!<>()]*))?|!\s*(?P<absent>[^\s,=!<>()]+))\s*(?:,|$)"
)
_SIGNS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}


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
    """Return whether labels match a selector. None matches nothing, an empty selector matches everything.

    Raises InvalidSelectorError for an unknown operator.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(requirement_matches(r, labels.get(r.key)) for r in selector.match_expressions or ())


def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector that a text such as `pool=gpu,zone in (a,b),!spot` stands for; "" selects everything.

    Raises InvalidSelectorError for other text. Source: k8s.io/apimachinery/pkg/labels Parse.
    """
    requirements, position = list[Requirement](), 0
    while position < len(text.rstrip()):
        part = _WRITTEN.match(text, position)
        if part is None:
            raise InvalidSelectorError(f"unable to parse the selector {text!r}")
        position = part.end()
        if part["absent"]:
            requirements.append(Requirement(key=part["absent"], operator="DoesNotExist"))
        elif part["set"]:
            values = [value.strip() for value in part["values"].split(",")]
            requirements.append(
                Requirement(key=part["key"], operator="In" if part["set"] == "in" else "NotIn", values=values)
            )
        elif part["sign"]:
            operator = _SIGNS[part["sign"]]
            requirements.append(Requirement(key=part["key"], operator=operator, values=[part["value"]]))
        else:
            requirements.append(Requirement(key=part["key"], operator="Exists"))
    return LabelSelector(match_expressions=requirements)


def validate_selector(selector: LabelSelector | None) -> LabelSelector | None:
    """Return the selector unchanged. Raise InvalidSelectorError if one of its requirements is malformed."""
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


def node_matches_any_term(terms: Iterable[NodeSelectorTerm], node: Node) -> bool:
    """Return whether one of the node selector terms matches a node.

    Raise InvalidSelectorError if a term is malformed and no other term matches.
    """
    labels, malformed = node.metadata.labels or {}, None
    for term in terms:
        problems = list(find_term_problems(term, ""))
        if problems:
            malformed = InvalidSelectorError(aggregate(problems))
            continue
        by_label = all(requirement_matches(r, labels.get(r.key)) for r in term.match_expressions or ())
        by_name = all(field_matches(f, node.metadata.name) for f in term.match_fields or ())
        if not is_empty_term(term) and by_label and by_name:
            return True
    if malformed is not None:
        raise malformed
    return False


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
    if requirement.operator not in OPERATORS:
        yield not_supported(f"{path}.operator", requirement.operator, OPERATORS)
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
            if parse_int64(value) is None:
                yield invalid(f"{path}[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")


def _field_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    if requirement.operator not in _FIELD_OPERATORS:
        yield not_supported(f"{path}.operator", requirement.operator, _FIELD_OPERATORS)
    elif len(requirement.values or ()) != 1:
        yield invalid(f"{path}.values", requirement.values, "must have one element")


class SelectorIndex:
    """An index of label selectors by a (key, value) pair that each requires. A selector is identified by its position.

    Only selectors whose pair occurs in a pod's labels are compared with them, and those that require no value. Users
    may write thousands of selectors into one pod, and most of them require a value.
    """

    def __init__(self, selectors: Sequence[LabelSelector | None]) -> None:
        self._selectors = selectors
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []  # they require no value of a label, and are tried each time
        for position, selector in enumerate(selectors):
            if selector is not None:
                for entries in self._choose_entries(selector):
                    entries.append(position)

    @property
    def tried_each_time(self) -> int:
        """The number of selectors without a required label value, which `find_matching` compares with all labels."""
        return len(self._others)

    def find_matching(self, labels: Mapping[str, str]) -> Iterator[int]:
        """Yield the positions of the selectors that match the labels, each once, in no particular order."""
        for label in labels.items():
            for position in self._by_label.get(label, ()):
                if label_selector_matches(self._selectors[position], labels):
                    yield position
        for position in self._others:
            if label_selector_matches(self._selectors[position], labels):
                yield position

    def _choose_entries(self, selector: LabelSelector) -> list[list[int]]:
        """Return the lists of the index to which the selector's position must be added.

        They belong to the values of one label that the selector requires: the label whose lists are shortest so far. As
        labels have one value for a key, `find_matching` finds the selector once. A selector that requires no value
        gives `_others`.
        """
        ways = [[label] for label in (selector.match_labels or {}).items()]
        ways += [
            [(requirement.key, value) for value in dict.fromkeys(requirement.values or ())]
            for requirement in selector.match_expressions or ()
            if requirement.operator == "In"
        ]
        if not ways:
            return [self._others]
        fewest = min(ways, key=lambda way: sum(1 + len(self._by_label.get(label, ())) for label in way))
        return [self._by_label.setdefault(label, []) for label in fewest]
