"""The node table: built from rows in order, and complete after any number of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_record import units
from herodotus_record.model import Code, NodeRows, NodeTable
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table


def test_a_table_equals_the_one_built_from_its_rows() -> None:
    table = a_table(["a", "", "b"], used={"a": 500})
    again = NodeTable()
    again.apply(table.rows(CLUSTER, INCARNATION))
    assert (again.generation, again.names, again.uids, again.since) == (7, ["a", "", "b"], table.uids, [0, 0, 0])
    assert (again.free(0, "cpu"), again.free(2, "cpu"), again.free(2, "gpu")) == (7500, 8000, 0)
    assert again.rows(CLUSTER, INCARNATION) == table.rows(CLUSTER, INCARNATION)


def rows(names: list[str], generation: int, base: int, since: int) -> NodeRows:
    table = a_table(names, generation=generation)
    table.since = [since] * len(names)
    return replace(table.rows(CLUSTER, INCARNATION), base=base)


def test_rows_after_a_missing_generation_are_refused() -> None:
    table = NodeTable()
    table.apply(rows(["a"], generation=3, base=-1, since=3))
    with pytest.raises(ValueError, match="node rows start after generation 5, the table is at 3"):
        table.apply(rows(["b"], generation=6, base=5, since=6))
    table.apply(rows(["b"], generation=6, base=3, since=6))
    assert (table.names, table.generation) == (["b"], 6)


def test_rows_that_are_sent_twice_change_nothing() -> None:
    first, second = rows(["a"], 3, -1, 3), rows(["b"], 6, 3, 6)
    table = NodeTable()
    for each in (first, second, first, second):
        table.apply(each)
    assert (table.names, table.generation) == (["b"], 6)


def test_a_slot_is_found_by_name() -> None:
    table = a_table(["a", "", "b"])
    assert [table.find_slot(n) for n in ("a", "b", "c")] == [0, 2, None]


def test_status_codes_are_spelled_as_in_kube_scheduler() -> None:
    assert [code.label for code in Code] == [
        *("Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"),
    ]
    assert [code.is_rejection for code in Code] == [False, False, True, True, False, False, True]


def test_ties_are_derived_from_ranks() -> None:
    points = {"worker-2": {"NodeResourcesFit": 9}, "worker-3": {"NodeResourcesFit": 9}}
    assert a_decision(points=points).ties == (1, 2)
    assert a_decision(points={"worker-2": {"NodeResourcesFit": 9}}).ties == ()
    assert a_decision(nodes=["only"]).ties == ()


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1500, "1500m"),
        ("memory", 1023, "1023"),
        ("memory", 1024, "1Ki"),
        ("memory", 1536, "1.5Ki"),
        ("memory", (1 << 30) - 1, "1023.9Mi"),  # never overstated
        ("memory", -(3 << 29), "-1.5Gi"),
        ("memory", -(3 << 29) - 1, "-1.6Gi"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("ephemeral-storage", 1 << 60, "1Ei"),
        ("memory", 1 << 72, "4096Ei"),
        ("example.com/gpu", 2000, "2000"),
        ("pods", 110, "110"),
    ],
)
def test_the_format_of_amounts(resource: str, amount: int, text: str) -> None:
    assert units.format_available(resource, amount) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 1500, "1500m"), ("memory", 3 << 29, "1536Mi"), ("memory", 1 << 30, "1Gi"), ("pods", 2048, "2048")],
)
def test_an_exact_amount_loses_nothing(resource: str, amount: int, text: str) -> None:
    assert units.format_exact_quantity(resource, amount) == text


@given(st.integers(0, 1 << 62))
def test_what_is_there_is_never_overstated_and_what_is_asked_never_understated(amount: int) -> None:
    there, scale = _read_tenths(units.format_available("memory", amount))
    assert there <= amount * 10 < there + scale
    asked, scale = _read_tenths(units.format_requested("memory", amount))
    assert asked - scale < amount * 10 <= asked


def _read_tenths(text: str) -> tuple[int, int]:
    """Return ten times the bytes of a text, and the bytes of its unit."""
    digits = text.rstrip("KMGTPEi")
    scale = 1 << 10 * (["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].index(text[len(digits) :]))
    whole, _, tenth = digits.partition(".")
    return int(whole) * scale * 10 + int(tenth or 0) * scale, scale


def test_the_format_of_timestamps() -> None:
    assert units.format_timestamp(0) == "1970-01-01T00:00:00.000000+00:00"
    assert units.format_timestamp(1_772_366_400_000_001) == "2026-03-01T12:00:00.000001+00:00"


def test_names_in_natural_order() -> None:
    names = ["worker-10", "worker-9", "a", "worker-9b", "10", "9"]
    assert sorted(names, key=units.natural_sort_key) == ["9", "10", "a", "worker-9", "worker-9b", "worker-10"]
