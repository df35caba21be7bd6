"""Resources: rows only for what nodes offer, and the same amounts for every other resource."""

import numpy as np
import pytest

from scheduler.engine.columns import NodeColumns, RowCopy, RowSubset
from scheduler.engine.columns.resources import MAX_ROWS
from scheduler.engine.objects.requests import CPU, MEMORY, PODS, STORAGE
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod

GPU = "example.com/gpu"
BASE = (CPU, MEMORY, STORAGE, PODS)


def names(count: int) -> list[str]:
    return [f"example.com/r{i}" for i in range(count)]


def requesting(name: str, resources: list[str], amount: str, node: str = "a") -> PodBuilder:
    return make_pod(name).request(dict.fromkeys(resources, amount)).node(node)


def matrix_bytes(columns: NodeColumns) -> int:
    return columns._resources._amounts.nbytes


@pytest.mark.parametrize("amount", ["0", "1"])
def test_names_that_only_pods_request_take_no_rows(amount: str) -> None:
    columns = columns_of([make_node("a"), make_node("b")])
    before, pod = matrix_bytes(columns), requesting("p", names(20_000), amount).info()
    columns.add_pod(pod, "a")
    assert columns.resources == BASE
    assert matrix_bytes(columns) == before
    assert columns.requested("example.com/r7").tolist() == [int(amount), 0]
    columns.remove_pod(pod.uid, "a")
    assert columns.list_resources() == list(BASE)
    assert not columns._resources._sparse_requested.by_slot


def test_node_that_begins_to_offer_a_resource_has_the_sum_of_earlier_requests() -> None:
    columns = columns_of([make_node("a"), make_node("b")], [requesting("p", [GPU], "2"), requesting("q", [GPU], "3")])
    columns.set_node(make_node("a").allocatable({GPU: "8"}).obj())
    assert len(columns.resources) == len(BASE) + 1
    assert columns.allocatable(GPU).tolist() == [8, 0]
    assert columns.requested(GPU).tolist() == columns.scoring_requested(GPU).tolist() == [5, 0]
    columns.remove_pod("uid-p", "a")
    columns.set_node(make_node("a").obj())
    assert columns.resources == BASE
    assert columns.requested(GPU).tolist() == [3, 0]


def test_rows_go_with_the_last_node_that_offers_the_resource() -> None:
    columns = columns_of([make_node("a"), make_node("b")])
    before, many = matrix_bytes(columns), dict.fromkeys(names(5_000), "1")
    for node in "ab":
        columns.set_node(make_node(node).allocatable(many | {GPU: "4"}).obj())
    assert len(columns.resources) == MAX_ROWS
    assert columns.allocatable("example.com/r4999").tolist() == [1, 1]
    columns.set_node(make_node("a").allocatable({GPU: "4"}).obj())
    assert columns.allocatable("example.com/r0").tolist() == [0, 1]
    columns.remove_node("b")
    assert columns.resources == (*BASE, GPU)
    assert matrix_bytes(columns) <= 2 * before


def test_resources_beyond_the_rows_have_the_same_amounts_in_subsets_and_copies() -> None:
    many = names(2 * MAX_ROWS)
    nodes = [make_node(n).allocatable(dict.fromkeys(many, str(i + 2))) for i, n in enumerate("abc")]
    columns = columns_of(nodes, [requesting("p", many, "1", "b")])
    subset, copy = RowSubset(columns, np.array([2, 1])), RowCopy(columns, [1, 2])
    copy.add_pods([(1, requesting("q", many, "2", "c").info())])
    for resource in many:
        assert columns.allocatable(resource).tolist() == [2, 3, 4]
        assert subset.requested(resource).tolist() == [0, 1]
        assert copy.requested(resource).tolist() == [1, 2]
        assert columns.requested(resource).tolist() == [0, 1, 0]
    assert copy.allocatable_of(many).tolist() == [[3, 4]] * len(many)


def test_sums_without_a_row_wrap_around_as_an_int64() -> None:
    columns = columns_of([make_node("a")], [requesting(p, [GPU], "9E") for p in ("p", "q")])
    assert columns.requested(GPU).tolist() == [2 * 9 * 10**18 - 2**64]


def test_contents_differ_if_the_same_row_is_another_resource() -> None:
    one, other = (
        RowSubset(columns_of([make_node("a").allocatable({name: "4"})]), np.array([0])) for name in (GPU, "b/x")
    )
    assert one.content != other.content


def test_find_differences_compares_what_has_no_row() -> None:
    columns = columns_of([make_node("a"), make_node("b")], [requesting("p", [GPU], "1")])
    other = columns_of([make_node("a"), make_node("b")])
    assert columns.find_differences(columns.rebuilt()) == {}
    assert columns.find_differences(other)["requested"].tolist() == [True, False]
