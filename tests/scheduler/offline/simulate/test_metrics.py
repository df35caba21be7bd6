"""The figures of a run over time, computed by hand: cost, moments and their means."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import MOMENTS, RunMetrics, SimulationFigures
from scheduler.offline.simulate.prices import Prices, read_prices
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, PodArrived
from tests.scheduler.builders import PROFILE, PodBuilder, make_node, make_pod

CONFIG = Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),))
HOUR = 3600.0


def joins(name: str, at_s: float = 0.0, cpu: str = "4") -> NodeAdded:
    return NodeAdded(at_s, make_node(name).label("type", name[0]).allocatable(cpu=cpu).obj())


def arrives(at_s: float, pod: PodBuilder, runs_s: float | None = None) -> PodArrived:
    return PodArrived(at_s, pod.obj(), ended_at_s=None if runs_s is None else at_s + runs_s)


def simulate(*events: Event, prices: Prices | None = None) -> SimulationFigures:
    metrics = RunMetrics.from_events(events, prices)
    TraceSimulation(CONFIG, IN_TREE, 0).run(events, metrics, lambda _: None)
    return metrics.figures()


def test_the_cost_counts_all_nodes_and_those_with_pods_from_the_first_to_the_last_arrival() -> None:
    figures = simulate(
        joins("small"),
        joins("large", HOUR),  # an hour before it leaves
        arrives(HOUR, make_pod("p").request(cpu="2").node_selector(type="s"), HOUR / 2),
        NodeRemoved(2 * HOUR, "large"),
        arrives(4 * HOUR, make_pod("q").request(cpu="2"), 9 * HOUR),
        prices=Prices("type", (("s", 2.0), ("l", 10.0))),
    )
    assert figures.cost == pytest.approx(3 * 2 + 1 * 10)
    assert figures.cost_in_use == pytest.approx(0.5 * 2)


def test_without_prices_there_is_no_cost() -> None:
    figures = simulate(joins("n"), arrives(1, make_pod("p").request(cpu="1")))
    assert (figures.cost, figures.cost_in_use) == (None, None)


def test_moments_are_spread_evenly_and_have_the_state_that_held_then() -> None:
    figures = simulate(
        joins("a"),
        joins("b", 50),
        arrives(0, make_pod("p").request(cpu="2"), 25),
        arrives(100, make_pod("q").request(cpu="2")),
    )
    assert [each.at_s for each in figures.moments] == pytest.approx([2.5 + 5 * i for i in range(MOMENTS)])
    assert [each.requested["cpu"] for each in figures.moments] == [2000] * 5 + [0] * 15
    assert [each.allocatable["cpu"] for each in figures.moments] == [4000] * 10 + [8000] * 10
    # One node with a pod, then one and two without: a cluster may lose all its nodes if it has no pod.
    assert [each.removable_nodes for each in figures.moments] == [0] * 5 + [1] * 5 + [2] * 10
    assert figures.removable_nodes == pytest.approx(1.25)
    assert figures.resources["cpu"].fragmentation == 0
    assert figures.resources["cpu"].mean == pytest.approx(0.125)


def test_the_fragmentation_is_that_for_the_pods_of_the_trace() -> None:
    figures = simulate(
        joins("a"),
        arrives(0, make_pod("p").request(cpu="3")),
        arrives(100, make_pod("q").request(cpu="3")),
    )
    assert figures.resources["cpu"].fragmentation == 1  # one cpu is free, and all pods want three


def test_arrivals_at_one_time_have_no_moments() -> None:
    figures = simulate(joins("a"), arrives(5, make_pod("p").request(cpu="1")))
    assert (figures.moments, figures.removable_nodes, figures.skew) == ((), 0, {})


def test_prices_are_found_by_the_first_pattern_of_the_name_or_of_a_label(tmp_path: Path) -> None:
    file, node = tmp_path / "prices.csv", make_node("gpu-1").label("type", "g4.large").obj()
    file.write_text("name,per_hour\ngpu-*,3.5\n*,1\n")
    assert read_prices(file).find(node) == 3.5
    file.write_text("type,per_hour\nc5.*,1\ng4.large,2.25\n")
    assert read_prices(file).find(node) == 2.25
    file.write_text("type,per_hour\nc5.*,1\n")
    with pytest.raises(TraceError, match="no price for node gpu-1"):
        read_prices(file).find(node)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("name,price\n", 1),
        ("name,per_hour\na,-1\n", 2),
        ("name,per_hour\na,1\nb,much\n", 3),
        ("name,per_hour\na,1\n\n", 3),
        ("name,per_hour\na,nan\n", 2),
        ("name,per_hour\na,1,2\n", 2),
    ],
)
def test_an_invalid_price_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(text)
    with pytest.raises(TraceError, match=f"line {line}"):
        read_prices(file)
