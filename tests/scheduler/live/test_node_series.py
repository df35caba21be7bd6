"""Metrics of single nodes: what is counted, for how many nodes, and what a removed node leaves."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.live.node_series import NodeSeries
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, Scores, framework, text


def count(series: NodeSeries, columns: NodeColumns, cycles: int = 1) -> dict[tuple[str, ...], float]:
    """Count cycles that reject n0 and score the others (5 points for n1, times 2); return all samples."""
    made = framework(filter=(Filters("F", {"n0": text("no")}),), score=(Scores("S", {"n1": 5}),), weights={"S": 2})
    for _ in range(cycles):
        series.add(columns.names, schedule(made, make_pod().info(), Snapshot.from_columns(columns), 0).trace)
    registry = CollectorRegistry()
    registry.register(series)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


@pytest.fixture
def columns() -> NodeColumns:
    return columns_of([make_node(f"n{i}") for i in range(3)])


OMITTED = ("herodotus_node_series_omitted_nodes",)
EXPECTED = {
    ("herodotus_node_rejections_total", "n0", "F"): 2,
    ("herodotus_node_points_total", "n1", "S"): 20,
    ("herodotus_node_scored_total", "n1"): 2,
    ("herodotus_node_scored_total", "n2"): 2,
    OMITTED: 0,
}


def test_counts_rejections_and_points_of_each_node(columns: NodeColumns) -> None:
    assert count(NodeSeries(10), columns, cycles=2) == EXPECTED


def test_nodes_above_the_limit_have_no_series(columns: NodeColumns) -> None:
    expected = {key: value for key, value in EXPECTED.items() if "n2" not in key} | {OMITTED: 1}
    assert count(NodeSeries(2), columns, cycles=2) == expected


def test_a_removed_node_has_no_series_before_the_next_cycle(columns: NodeColumns) -> None:
    series = NodeSeries(10)
    count(series, columns)
    columns.remove_node("n1")
    series.update_nodes(columns.names)
    assert not [key for key in count(series, columns, cycles=0) if "n1" in key]


def test_a_removed_node_has_no_series_and_leaves_nothing_to_its_successor(columns: NodeColumns) -> None:
    series = NodeSeries(10)
    count(series, columns)
    columns.remove_node("n1")
    assert not [key for key in count(series, columns) if "n1" in key]
    columns.set_node(make_node("n1").obj())
    assert count(series, columns)["herodotus_node_points_total", "n1", "S"] == 10
