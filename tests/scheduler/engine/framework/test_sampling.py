"""Which nodes are looked at where not all are: vectors of kube-scheduler, and rotation between cycles."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_record.model import Evaluation
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.sampling import ADAPTIVE, num_feasible_nodes_to_find, select_visited_slots
from tests.scheduler.builders import columns_of, make_node
from tests.scheduler.engine.framework.plugins import Filters, PreFilters, Scores, framework, run, text

CLUSTER = [f"n{i:03}" for i in range(200)]
FULL = text("full")


@pytest.mark.parametrize(
    ("nodes", "enough"),
    [
        (99, 99),
        (100, 100),
        (200, 100),
        (500, 230),
        (1000, 420),
        (3000, 780),
        (5000, 500),
        (5624, 337),
        (5625, 281),
        (6000, 300),
        (10000, 500),
    ],
)
def test_the_adaptive_share(nodes: int, enough: int) -> None:
    assert num_feasible_nodes_to_find(nodes, ADAPTIVE) == enough


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    [
        (5000, 0, 5000),
        (5000, 100, 5000),
        (5000, 30, 1500),
        (5000, 1, 100),
        (99, 1, 99),
        (1000, 33, 330),
        (150, 99, 148),
    ],
)
def test_configured_percentage_is_used(nodes: int, percentage: int, enough: int) -> None:
    """0 means every node: ours differs from kube-scheduler's on purpose."""
    assert num_feasible_nodes_to_find(nodes, percentage) == enough


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 29), st.integers(1, 30))
def test_the_search_ends_when_one_too_many_was_found(feasible: list[bool], start: int, enough: int) -> None:
    n = len(feasible)
    start = start % n if n else 0
    expected: list[int] = []
    found = 0
    for slot in (*range(start, n), *range(start)):
        found += feasible[slot]
        if found > enough:
            break
        expected.append(slot)
    order = np.arange(n, dtype=np.intp)
    assert select_visited_slots(order, start, np.array(feasible, np.bool_), enough).tolist() == expected


def made(percentage: int, full: tuple[str, ...] = (), **points: Any) -> Framework:
    return framework(filter=(Filters("Fit", dict.fromkeys(full, FULL)),), percentage=percentage, **points)


def looked_at(result: CycleResult) -> list[str]:
    return [name for name, e in zip(CLUSTER, result.trace.evaluation, strict=True) if e == Evaluation.EVALUATED]


def test_the_next_search_starts_where_the_last_one_ended() -> None:
    columns = columns_of([make_node(name) for name in CLUSTER])
    sampled = made(50, full=tuple(CLUSTER[:20]), score=(Scores("S", {}),))

    first = run(sampled, columns)
    assert looked_at(first) == CLUSTER[:120]  # 20 full ones and 100 feasible
    assert set(first.trace.evaluation.tolist()) == {Evaluation.EVALUATED, Evaluation.NOT_SAMPLED}
    assert first.next_start == 120

    second = run(sampled, columns, start=first.next_start)
    assert looked_at(second) == CLUSTER[:40] + CLUSTER[120:]
    assert second.next_start == 40


def test_every_node_leaves_the_start_where_it_was() -> None:
    columns = columns_of([make_node(name) for name in CLUSTER])
    result = run(made(0, score=(Scores("S", {}),)), columns, start=7)
    assert (len(looked_at(result)), result.next_start) == (200, 7)


def test_one_node_is_enough_where_nothing_scores() -> None:
    columns = columns_of([make_node(name) for name in CLUSTER])
    result = run(made(0, full=("n000", "n001")), columns)
    assert looked_at(result) == CLUSTER[:3]
    assert (result.chosen, result.next_start) == (2, 3)


def test_an_error_on_a_node_that_is_not_looked_at_has_no_effect() -> None:
    columns = columns_of([make_node(name) for name in CLUSTER])
    broken = framework(
        filter=(PreFilters("P"), Filters("Bad", {"n150": text("broken")})), percentage=50, score=(Scores("S", {}),)
    )
    assert run(broken, columns).chosen is not None


def test_sampling_looks_at_the_narrowed_nodes_only() -> None:
    columns = columns_of([make_node(name) for name in CLUSTER])
    narrow = PreFilters("P", names=set(CLUSTER[50:]))
    result = run(framework(pre_filter=(narrow,), percentage=1, score=(Scores("S", {}),)), columns)
    assert looked_at(result) == CLUSTER[50:150]
    assert result.next_start == 100
