"""Problems are written as the API machinery writes them; names are judged as it judges them."""

import pytest

from scheduler.engine.objects.names import validate_label_key, validate_label_value
from scheduler.engine.objects.problems import Problem, aggregate, duplicate, forbidden, invalid, not_supported, required


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (invalid("a.b", 3, "too many"), "a.b: Invalid value: 3: too many"),
        (invalid("a", 'say "x"', "no"), 'a: Invalid value: "say \\"x\\"": no'),
        (invalid("a", True, "no"), "a: Invalid value: true: no"),
        (invalid("a", {"k": ["v"]}, "no"), 'a: Invalid value: {"k":["v"]}: no'),
        (required("a"), "a: Required value"),
        (required("a", "say it"), "a: Required value: say it"),
        (forbidden("a", "not here"), "a: Forbidden: not here"),
        (duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"'),
        (not_supported("a", "x", ("Y", "Z")), 'a: Unsupported value: "x": supported values: "Y", "Z"'),
        (required("b").below("a"), "a.b: Required value"),
        (required("[0].b").below("a"), "a[0].b: Required value"),
        (required("").below("a"), "a: Required value"),
    ],
    ids=str,
)
def test_a_problem_is_one_line(problem: Problem, line: str) -> None:
    assert str(problem) == line


def test_several_are_one_line_each_once() -> None:
    one, other = required("a"), required("b")
    assert aggregate([one]) == aggregate([one, one]) == "a: Required value"
    assert aggregate([one, other, one]) == "[a: Required value, b: Required value]"


@pytest.mark.parametrize(
    ("key", "beginnings"),
    [
        ("zone", []),
        ("topology.kubernetes.io/zone", []),
        ("A.b_c-9", []),
        ("x" * 63, []),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("-a", ["name part must consist of"]),
        ("a\n", ["name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("Upper/a", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
        (f"{'x' * 254}/a", ["prefix part must be no more than 253 bytes"]),
        ("a/b/c", ["a valid label key must consist of"]),
    ],
)
def test_keys(key: str, beginnings: list[str]) -> None:
    found = validate_label_key(key)
    assert len(found) == len(beginnings)
    assert all(said.startswith(begun) for said, begun in zip(found, beginnings, strict=True))


@pytest.mark.parametrize(("value", "count"), [("", 0), ("a.b", 0), ("x" * 63, 0), ("x" * 64, 1), ("a b", 1), ("_", 1)])
def test_values(value: str, count: int) -> None:
    assert len(validate_label_value(value)) == count
