"""Selectors match as apimachinery's do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects import selectors
from scheduler.objects.types import LabelSelector, NodeSelectorTerm, Requirement

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
values = st.sampled_from(
    ["", "a", "b", "1", "2", "-3", "+4", "007", "1.5", "1e3", "9223372036854775807", "9223372036854775808", "٣"]
)


def naive(operator: str, wanted: list[str], value: str | None) -> bool:
    """The table of section 3.6 word for word."""

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
def test_a_requirement_matches_as_the_table_says(operator: str, wanted: list[str], value: str | None) -> None:
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


@pytest.mark.parametrize(
    ("expressions", "fields", "wrong"),
    [
        ([requirement("k", "In")], [], "for 'in', 'notin' operators, values set can't be empty"),
        ([requirement("k", "NotIn")], [], "for 'in', 'notin' operators, values set can't be empty"),
        ([requirement("k", "Exists", "v")], [], "values set must be empty for exists and does not exist"),
        ([requirement("k", "DoesNotExist", "v")], [], "values set must be empty for exists and does not exist"),
        ([requirement("k", "Gt")], [], "for 'Gt', 'Lt' operators, exactly one value is required"),
        ([requirement("k", "Lt", "1", "2")], [], "for 'Gt', 'Lt' operators, exactly one value is required"),
        ([requirement("k", "Gt", "x")], [], "for 'Gt', 'Lt' operators, the value must be an integer"),
        ([requirement("k", "Gt", str(1 << 63))], [], "for 'Gt', 'Lt' operators, the value must be an integer"),
        ([requirement("k", "in", "v")], [], '"in" is not a valid label selector operator'),
        ([], [requirement("metadata.namespace", "In", "v")], "matchFields: metadata.namespace In is not supported"),
        ([], [requirement("metadata.name", "Exists")], "matchFields: metadata.name Exists is not supported"),
        ([], [requirement("metadata.name", "In", "a", "b")], "matchFields: metadata.name In is not supported"),
    ],
)
def test_a_malformed_term_is_refused(expressions: list[object], fields: list[object], wrong: str) -> None:
    term = msgspec.convert({"matchExpressions": expressions, "matchFields": fields}, NodeSelectorTerm)
    with pytest.raises(selectors.InvalidSelectorError) as raised:
        selectors.validated(term)
    assert str(raised.value) == wrong


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
    assert selectors.describe(msgspec.convert(written, Requirement)) == words
