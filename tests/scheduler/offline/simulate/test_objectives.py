"""Objectives and limits name figures as the document of a simulation does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler.offline.simulate.metrics import RunMetrics, SimulationFigures
from scheduler.offline.simulate.objectives import (
    FigureObjective,
    Limit,
    ObjectiveError,
    compute_mean,
    read_figure,
)


def make_figures(**values: object) -> SimulationFigures:
    return replace(RunMetrics(["cpu", "nvidia.com/gpu"], 1.0).figures(), **values)


def test_figures_are_read_by_their_names() -> None:
    resource = RunMetrics(["cpu"], 1.0).figures().resources["cpu"]
    figures = make_figures(
        nodes_in_use=4.5,
        waited_p99_s=7.0,
        skew={"topology.kubernetes.io/zone": 2.0},
        resources={"nvidia.com/gpu": resource},
    )
    assert read_figure(figures, "nodesInUse") == 4.5
    assert read_figure(figures, "waitedP99S") == 7.0
    assert read_figure(figures, "topology.kubernetes.io/zone.skew") == 2.0
    assert read_figure(figures, "other.skew") == 0
    assert read_figure(figures, "nvidia.com/gpu.largestFree") == resource.largest_free
    assert compute_mean([figures, make_figures(nodes_in_use=5.5)], "nodesInUse") == 5


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: FigureObjective.parse("nodes", maximize=False),
            "'nodes' is not a figure: use one of arrived, .*nodesInUse",
        ),
        (lambda: FigureObjective.parse("cpu.best", maximize=False), "is not a figure"),
        (lambda: FigureObjective.parse(".mean", maximize=False), "is not a figure"),
        (lambda: FigureObjective.parse("resources", maximize=False), "is not a figure"),
        (lambda: Limit.parse("waitedP99S<60"), "is not a limit: use FIGURE<=NUMBER"),
        (lambda: Limit.parse("waitedP99S<=many"), "is not a limit"),
        (lambda: Limit.parse("waitedP99S<=inf"), "is not a limit"),
        (lambda: Limit.parse("p99<=60"), "is not a figure"),
        (lambda: read_figure(make_figures(), "cost"), "cost needs prices"),
        (lambda: read_figure(make_figures(), "tpu.mean"), "no pod of the trace requests tpu: use cpu, nvidia.com/gpu"),
    ],
)
def test_what_is_no_figure_or_limit_is_an_error(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        ask()


def test_a_limit_is_about_the_mean_of_runs() -> None:
    runs = [make_figures(waited_p99_s=50.0), make_figures(waited_p99_s=80.0)]
    at_most, at_least = Limit.parse(" waitedP99S <= 60 "), Limit.parse("waitedP99S>=70")
    assert [str(at_most), str(at_least)] == ["waitedP99S<=60", "waitedP99S>=70"]
    assert [each.measure_violation(runs) for each in (at_most, at_least)] == [5, 5]
    assert [each.measure_violation(runs[:1]) for each in (at_most, at_least)] == [0, 20]
    assert [each.measure_violation(runs[1:]) for each in (at_most, at_least)] == [20, 0]


def test_a_lower_loss_is_better() -> None:
    runs = [make_figures(nodes_in_use=3.0), make_figures(nodes_in_use=5.0)]
    assert FigureObjective.parse("nodesInUse", maximize=False).compute_loss(runs) == 4
    assert FigureObjective.parse("nodesInUse", maximize=True).compute_loss(runs) == -4
