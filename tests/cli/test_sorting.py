"""`--sort-by`: words and JSONPaths of rows, numbers as numbers, rows without a value last."""

from __future__ import annotations

from typing import Any

import click
import pytest

from herodotus_cli.sorting import SortField, SortKey, sort_rows

WORDS = {"name": SortKey(("metadata", "name")), "pods": SortKey(("pods",), largest_first=True)}
ROWS: list[dict[str, Any]] = [
    {"metadata": {"name": "n10"}, "pods": 3, "taints": ["b"], "a.b/c": 2},
    {"metadata": {"name": "n9"}, "pods": None, "taints": []},
    {"metadata": {"name": "n1"}, "pods": 20, "taints": ["a"], "a.b/c": 1},
]


@pytest.mark.parametrize(
    ("field", "order"),
    [
        ("name", ["n1", "n9", "n10"]),
        ("pods", ["n1", "n10", "n9"]),
        ("{.metadata.name}", ["n1", "n9", "n10"]),
        (".metadata.name", ["n1", "n9", "n10"]),
        ("metadata.name", ["n1", "n9", "n10"]),
        ("{.pods}", ["n10", "n1", "n9"]),
        ("{.taints[0]}", ["n1", "n10", "n9"]),
        (r"{.a\.b/c}", ["n1", "n10", "n9"]),
        ("{['a.b/c']}", ["n1", "n10", "n9"]),
    ],
)
def test_rows_are_sorted_as_by_kubectl(field: str, order: list[str]) -> None:
    key = SortField(WORDS).convert(field, None, None)
    assert [row["metadata"]["name"] for row in sort_rows({"items": ROWS}, "items", key)["items"]] == order


def test_without_a_key_the_order_stays() -> None:
    assert sort_rows({"items": ROWS}, "items", None) == {"items": ROWS}


def test_a_document_without_the_list_stays() -> None:
    assert sort_rows({"kind": "PendingPods"}, "pods", WORDS["name"]) == {"kind": "PendingPods"}


@pytest.mark.parametrize("field", ["nope", "{.items[*].x}", "{.a[?(@.b)]}", "{}"])
def test_what_is_no_field_is_wrong_usage(field: str) -> None:
    with pytest.raises(click.BadParameter):
        SortField(WORDS).convert(field, None, None)


def test_a_field_that_no_row_has_is_wrong_usage() -> None:
    key = SortField(WORDS).convert("{.nope}", None, None)
    with pytest.raises(click.UsageError, match=r"couldn't find any field with path '\{\.nope\}'"):
        sort_rows({"items": ROWS}, "items", key)
    assert sort_rows({"items": []}, "items", key) == {"items": []}
