"""Columns of labels: only for keys that some entry has, and never more than a number of them."""

import numpy as np
import pytest

from scheduler.engine.columns import match_node_requirement
from scheduler.engine.columns.keyed import MAX_KEYS
from scheduler.engine.objects.selectors import requirement_matches
from scheduler.engine.objects.types import Requirement
from tests.scheduler.builders import columns_of, make_node


def test_keys_that_no_node_has_share_one_column() -> None:
    columns = columns_of([make_node("a").label("zone", "x")])
    absent = {id(columns.label(f"key-{i}")) for i in range(25_000)}
    assert len(absent) == 1
    assert len(columns._labels) == 0
    assert columns.label("key-1").values == [None]


def test_column_goes_with_the_last_node_that_has_the_key() -> None:
    columns = columns_of([make_node("a").label("zone", "x"), make_node("b").label("zone", "y")])
    kept = columns.label("zone")
    version = kept.version
    columns.set_node(make_node("a").obj())
    assert kept is columns.label("zone")
    columns.remove_node("b")
    assert (len(columns._labels), columns.label("zone").values) == (0, [None])
    assert kept.version > version + 1  # a reader that kept it sees that it is not current
    columns.set_node(make_node("a").label("zone", "z").obj())
    assert columns.label("zone").among(1, ("z",)).tolist() == [True]


def test_number_of_columns_is_bounded_and_each_is_right() -> None:
    nodes = [make_node(f"n{i}").label(f"key-{i}", "x") for i in range(MAX_KEYS + 50)]
    columns = columns_of(nodes)
    for _ in range(2):
        for i in range(len(nodes)):
            assert np.flatnonzero(columns.label(f"key-{i}").among(len(nodes), ("x",))).tolist() == [i]
    assert len(columns._labels) == MAX_KEYS


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
@pytest.mark.parametrize("key", ["size", "nowhere"])
def test_requirement_on_a_column_matches_as_on_each_value(operator: str, key: str) -> None:
    values = [None, "5", "05", "-7", "x", "", "9223372036854775807", "9223372036854775808", "+5"]
    nodes = [make_node(f"n{i}") if v is None else make_node(f"n{i}").label("size", v) for i, v in enumerate(values)]
    columns = columns_of(nodes)
    for bound in ("5", "-8", "x", "9223372036854775807"):
        requirement = Requirement(key, operator, None if operator.endswith("xist") else [bound])
        each = [requirement_matches(requirement, value if key == "size" else None) for value in values]
        assert match_node_requirement(columns.label(key), len(nodes), requirement).tolist() == each
