"""A search reports a gain that arrivals show which it did not see, and none where there is none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from scipy import stats

from herodotus_answers.simulation_questions import TuningQuestion
from scheduler.config import parse_config
from scheduler.engine.plugins.registry import Registry
from scheduler.offline.simulate.metrics import RunMetrics, SimulationFigures
from scheduler.offline.simulate.objectives import FigureObjective, Limit
from scheduler.offline.simulate.score_settings import ScoreSettings
from scheduler.offline.simulate.search import BATCH
from scheduler.offline.simulate.tuning import Task, TuningResult, compute_margin, tune

DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
REGISTRY = Registry()
SETTINGS = ScoreSettings(DOCUMENT, parse_config(yaml.safe_dump(DOCUMENT)), REGISTRY, ["cpu"])
NODES, WAITED, PLACED = "nodesInUse", "waitedP99S", "neverPlaced"
Figure = Callable[[Task, random.Random], float]


def measure_with(nodes: Figure, waited: Figure = lambda *_: 0.0, never_placed: Figure = lambda *_: 0.0) -> Any:
    """Return a function that measures tasks as these functions of the task and of noise say."""
    empty = RunMetrics(["cpu"], 1.0).figures()

    def measure(tasks: Sequence[Task]) -> list[SimulationFigures]:
        runs = []
        for task in tasks:
            noise = random.Random(str(task))
            values = {"nodes_in_use": nodes(task, noise), "waited_p99_s": waited(task, noise)}
            values["never_placed"] = int(never_placed(task, noise))
            runs.append(replace(empty, **values))
        return runs

    return measure


def search(measure: Any, seed: int = 0, trials: int = 24, limit: str = "", time_limit_s: float = 600.0) -> TuningResult:
    question = TuningQuestion(
        traces=(), figure=NODES, trials=trials, seed=seed, seeds=2, samples=8, time_limit_s=time_limit_s
    )
    limits = (Limit.parse(limit),) if limit else ()
    return tune(SETTINGS, measure, question, FigureObjective(NODES, maximize=False), limits)


def is_packed(task: Task) -> bool:
    return "MostAllocated" in task.text


def test_a_gain_is_found_and_its_interval_has_the_true_one() -> None:
    def nodes(task: Task, noise: random.Random) -> float:
        return (20 if is_packed(task) else 30) + noise.gauss(0, 1)

    covered = 0
    for seed in range(20):
        result = search(measure_with(nodes), seed)
        assert result.has_gain
        assert result.values["NodeResourcesFit.type"] == "MostAllocated"
        assert result.gain is not None
        covered += result.gain["low"] <= 10 <= result.gain["high"]
    assert covered >= 17


def test_noise_in_place_of_the_objective_gives_a_gain_as_seldom_as_the_interval_says() -> None:
    results = [search(measure_with(lambda _, noise: noise.gauss(30, 3)), seed, trials=16) for seed in range(60)]
    assert sum(result.trained[1] < result.trained[0] for result in results) > 50  # to the search it looks like a gain
    assert sum(result.has_gain for result in results) <= 4  # 2.5 % of 60, and chance


def test_an_objective_that_no_setting_changes_gives_the_present_configuration() -> None:
    result = search(measure_with(lambda *_: 30.0))
    assert (result.has_gain, result.checked, result.gain) == (False, None, None)
    assert SETTINGS.list_changes(result.values) == []


def test_settings_without_effect_are_reset() -> None:
    def nodes(task: Task, _noise: random.Random) -> float:
        return 25.0 - 5 * is_packed(task) - 5 * ("ImageLocality" in task.text)

    result = search(measure_with(nodes), trials=64)
    assert SETTINGS.list_changes(result.values) == ["ImageLocality.weight", "NodeResourcesFit.type"]
    assert result.trained == (25.0, 15.0)


def test_what_breaks_a_limit_is_not_chosen() -> None:
    def nodes(task: Task, _noise: random.Random) -> float:
        return 20.0 if is_packed(task) else 25.0 if "RequestedToCapacityRatio" in task.text else 30.0

    def waited(task: Task, _noise: random.Random) -> float:
        return 90.0 if is_packed(task) else 50.0

    result = search(measure_with(nodes, waited), limit="waitedP99S<=60")
    assert result.values["NodeResourcesFit.type"] == "RequestedToCapacityRatio"
    assert [str(each) for each in result.limits] == ["waitedP99S<=60", "neverPlaced<=0"]
    result = search(measure_with(nodes, never_placed=lambda task, _: is_packed(task)))
    assert result.values["NodeResourcesFit.type"] == "RequestedToCapacityRatio"
    result = search(measure_with(nodes, never_placed=lambda task, _: is_packed(task)), limit="neverPlaced<=1")
    assert result.values["NodeResourcesFit.type"] == "MostAllocated"


def test_a_limit_that_breaks_on_the_unseen_half_is_no_gain() -> None:
    def waited(task: Task, _noise: random.Random) -> float:
        return 0.0 if task.sample is None else 90.0

    result = search(measure_with(lambda task, _: 30.0 - is_packed(task), waited), limit="waitedP99S<=60")
    assert result.gain is not None
    assert (result.gain["low"] > 0, result.has_gain) == (True, False)
    assert [str(each) for each in result.broken] == ["waitedP99S<=60"]


def test_no_configuration_that_keeps_an_impossible_limit_is_claimed() -> None:
    result = search(measure_with(lambda task, _: 30.0 - is_packed(task)), limit="waitedP99S>=60")
    assert (result.has_gain, result.checked) == (False, None)


def test_the_time_limit_ends_the_search_after_a_batch() -> None:
    result = search(measure_with(lambda task, _: 30.0 - is_packed(task)), trials=1000, time_limit_s=-1.0)
    assert (result.tried, result.is_complete, result.has_gain) == (BATCH, False, True)


def test_equal_seeds_give_equal_results_and_others_try_other_values() -> None:
    asked: list[list[str]] = []
    for seed in (0, 0, 1):
        texts: list[str] = []
        noisy = measure_with(lambda _, noise: noise.gauss(30, 3))

        def measure(tasks: Sequence[Task], texts: list[str] = texts, noisy: Any = noisy) -> Any:
            texts += [task.text for task in tasks]
            return noisy(tasks)

        search(measure, seed)
        asked.append(texts)
    assert asked[0] == asked[1] != asked[2]


@pytest.mark.parametrize("count", [3, 10, 100])
def test_the_margin_is_that_of_students_t(count: int) -> None:
    sampled = [float(each % 7) for each in range(count)]
    expected = stats.t.ppf(0.975, count - 1) * stats.tstd(sampled)
    assert compute_margin(sampled) == pytest.approx(expected, rel=1e-6)
    assert compute_margin([2.0] * count) == 0
