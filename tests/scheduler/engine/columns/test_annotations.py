"""Columns of node annotations follow the nodes, and change no row."""

import numpy as np

from scheduler.engine.columns import NodeColumns, RowCopy, RowSubset
from tests.scheduler.builders import NodeBuilder, columns_of, make_node

KEY = "hightower.com/cost"


def priced(name: str, price: str) -> NodeBuilder:
    return make_node(name).annotation(KEY, price)


def values(columns: NodeColumns) -> list[str | None]:
    column = columns.annotation(KEY)
    return [column.values[number] for number in column.ids(columns.slots)]


def test_requested_column_follows_every_change() -> None:
    columns = columns_of([priced("a", "1"), make_node("b")])
    assert values(columns) == ["1", None]
    columns.set_node(priced("b", "2").obj())
    columns.set_node(priced("c", "3").obj())
    columns.refresh_node(priced("a", "4").obj())
    columns.remove_node("c")
    assert values(columns) == ["4", "2", None]


def test_it_grows_with_the_nodes() -> None:
    columns = columns_of([priced("first", "1")])
    columns.annotation(KEY)
    for i in range(200):
        columns.set_node(priced(f"n{i}", str(i)).obj())
    assert values(columns) == ["1", *map(str, range(200))]


def test_a_change_makes_snapshots_stale_and_touches_no_row() -> None:
    columns = columns_of([priced("a", "1")])
    columns.annotation(KEY)
    columns.take_changed_slots()
    generation, revision = columns.generation, columns.revision
    columns.refresh_node(priced("a", "2").obj())
    assert (columns.generation, columns.take_changed_slots()) == (generation, [])
    assert columns.revision > revision


def test_rows_and_copies_have_them() -> None:
    columns = columns_of([priced("a", "1"), priced("b", "2")])
    assert values(RowSubset(columns, np.array([1]))) == ["2"]
    assert values(RowCopy(columns, [1])) == ["2"]
