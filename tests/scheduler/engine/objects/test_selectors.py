"""Selectors match as apimachinery's do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.objects import selectors
from scheduler.engine.objects.selectors import find_term_problems, is_valid
from scheduler.engine.objects.types import LabelSelector, NodeSelectorTerm, Requirement

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
values = st.sampled_from(
    ["", "a", "b", "1", "2", "-3", "+4", "007", "1.5", "1e3", "9223372036854775807", "9223372036854775808", "٣"]
)


def naive(operator: str, wanted: list[str], value: str | None) -> bool:
    """Return whether the operator matches, as kube-scheduler defines each operator."""

    def int64(text: str) -> int | None:
        try:
            number = int(text) if text.isascii() and "_" not in text and text.strip() == text else None
        except ValueError:
            return None
        return number if number is not None and -(1 << 63) <= number < 1 << 63 else None

    match operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return any(value == w for w in wanted)
        case "NotIn":
            return not any(value == w for w in wanted)
    if value is None or (left := int64(value)) is None or (right := int64(wanted[0])) is None:
        return False
    return left > right if operator == "Gt" else left < right


@given(st.sampled_from(OPERATORS), st.lists(values, min_size=1, max_size=3), st.none() | values)
def test_requirement_matches_as_in_the_table(operator: str, wanted: list[str], value: str | None) -> None:
    requirement = Requirement(key="k", operator=operator, values=wanted)
    assert selectors.requirement_matches(requirement, value) is naive(operator, wanted, value)


labels = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("ab"))
expressions = st.lists(
    st.builds(
        Requirement,
        key=st.sampled_from("xyz"),
        operator=st.sampled_from(OPERATORS[:4]),
        values=st.lists(st.sampled_from("ab"), min_size=1, max_size=2),
    ),
    max_size=3,
)


@given(labels, expressions, labels)
def test_a_label_selector_is_all_of_its_parts(
    match: dict[str, str], also: list[Requirement], has: dict[str, str]
) -> None:
    selector = LabelSelector(match_labels=match or None, match_expressions=also or None)
    every = all(k in has and has[k] == v for k, v in match.items()) and all(
        naive(r.operator, r.values or [], has.get(r.key)) for r in also
    )
    assert selectors.label_selector_matches(selector, has) is every


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert selectors.label_selector_matches(None, {"x": "a"}) is False
    assert selectors.label_selector_matches(LabelSelector(), {}) is True


def requirement(key: str, operator: str, *wanted: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(wanted)}


NO_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SETS = "for 'in', 'notin' operators, values set can't be empty"
NONE = "values set must be empty for exists and does not exist"
ONE = "for 'Gt', 'Lt' operators, exactly one value is required"
INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
OPERATOR = 'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'


@pytest.mark.parametrize(
    ("expressions", "fields", "wrong"),
    [
        ([("k", "In")], [], f"Expressions[0].values: Invalid value: []: {SETS}"),
        ([("k", "Exists", "v")], [], f'Expressions[0].values: Invalid value: ["v"]: {NONE}'),
        ([("k", "Gt")], [], f"Expressions[0].values: Invalid value: []: {ONE}"),
        ([("k", "Gt", "x")], [], f'Expressions[0].values[0]: Invalid value: "x": {INTEGER}'),
        ([("k", "Gt", str(1 << 63))], [], f'Expressions[0].values[0]: Invalid value: "{1 << 63}": {INTEGER}'),
        ([("k", "Gt", "-3")], [], f'Expressions[0].values[0][k]: Invalid value: "-3": {NO_LABEL}'),
        ([("k", "In", "a b")], [], f'Expressions[0].values[0][k]: Invalid value: "a b": {NO_LABEL}'),
        ([("k", "NotIn", "a<b")], [], f'Expressions[0].values[0][k]: Invalid value: "a<b": {NO_LABEL}'),
        ([("k", "NotIn", "\x01\u200b")], [], f'Expressions[0].values[0][k]: Invalid value: "\\x01\\u200b": {NO_LABEL}'),
        ([("k", "in", "v")], [], f'Expressions[0].operator: Unsupported value: "in": {OPERATOR}'),
        ([], [("metadata.name", "Gt")], 'Fields[0].operator: Unsupported value: "Gt": supported values: "In", "NotIn"'),
        ([], [("metadata.name", "In", "a", "b")], 'Fields[0].values: Invalid value: ["a","b"]: must have one element'),
    ],
)
def test_a_malformed_term_is_refused(
    expressions: list[tuple[str, ...]], fields: list[tuple[str, ...]], wrong: str
) -> None:
    written = {
        "matchExpressions": [requirement(*e) for e in expressions],
        "matchFields": [requirement(*f) for f in fields],
    }
    term = msgspec.convert(written, NodeSelectorTerm)
    assert [str(problem) for problem in find_term_problems(term, "t")] == [f"t.match{wrong}"]
    assert not is_valid(term)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (requirement("disk", "In", "ssd"), "disk=ssd"),
        (requirement("disk", "In", "ssd", "nvme"), "disk in (ssd,nvme)"),
        (requirement("disk", "NotIn", "hdd"), "disk notin (hdd)"),
        (requirement("gpu", "Exists"), "gpu"),
        (requirement("gpu", "DoesNotExist"), "!gpu"),
        (requirement("gen", "Gt", "3"), "gen>3"),
        (requirement("gen", "Lt", "3"), "gen<3"),
    ],
)
def test_requirements_in_words(written: dict[str, object], words: str) -> None:
    assert selectors.format_requirement(msgspec.convert(written, Requirement)) == words
