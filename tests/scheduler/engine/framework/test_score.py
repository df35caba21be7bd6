"""Scores: skipped, normalised, weighed, summed, drawn."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from herodotus_record.model import Code, DecisionPath
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.allocation import default_normalize
from scheduler.engine.framework.equivalence_cache import CacheEntry
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.scoring import ScorePhase, ScoreRunner
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import SKIP
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, Named, Normalized, Scores, framework, run, text

NODES = ("a", "b", "c")


def cluster(count: int = 3) -> NodeColumns:
    return columns_of([make_node(name) for name in "abcdefghij"[:count]])


def as_list(values: NDArray[np.int64] | None) -> list[int]:
    assert values is not None
    return [int(value) for value in values]


def test_totals_are_the_sum_of_normalised_points_by_weight() -> None:
    plain = Scores("Plain", {"a": 10, "b": 20, "c": 30})
    turned = Normalized("Turned", {"a": 7, "b": 1000, "c": -5}, lambda raw: np.where(raw > 0, 100, 0))
    result = run(framework(score=(plain, turned), weights={"Plain": 3, "Turned": 2}), cluster())

    assert [(r.plugin, r.weight, as_list(r.raw), as_list(r.normalized)) for r in result.trace.scores] == [
        ("Plain", 3, [10, 20, 30], [10, 20, 30]),
        ("Turned", 2, [7, 1000, -5], [100, 100, 0]),
    ]
    assert as_list(result.trace.totals) == [230, 260, 90]
    assert (result.path, result.chosen) == (DecisionPath.SCORED, 1)


def test_a_skipped_plugin_gives_nothing_to_anyone() -> None:
    skipped, other = Scores("Skipped", {"a": 100}, pre_score=SKIP), Scores("Other", {"b": 1})
    result = run(framework(score=(skipped, other)), cluster())
    assert skipped.calls == ["preScore"]
    assert [(r.plugin, r.raw is None, r.normalized is None) for r in result.trace.scores] == [
        ("Skipped", True, True),
        ("Other", False, False),
    ]
    assert as_list(result.trace.totals) == [0, 1, 0]


def test_nodes_that_are_not_feasible_get_no_points_and_break_no_rule() -> None:
    made = framework(filter=(Filters("Fit", {"c": text("full")}),), score=(Scores("S", {"a": 1, "b": 2, "c": 10**9}),))
    result = run(made, cluster())
    assert as_list(result.trace.totals) == [1, 2, 0]
    assert result.chosen == 1


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        pytest.param(
            Scores("Bad", {"a": 101}),
            'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score 101,'
            " it should in the range of [0, 100] after normalizing",
            id="too high",
        ),
        pytest.param(
            Scores("Bad", {"a": -1, "b": 200}),
            'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score -1,'
            " it should in the range of [0, 100] after normalizing",
            id="negative",
        ),
        pytest.param(
            Normalized("Bad", {}, lambda raw: raw + 101),
            'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score 101,'
            " it should in the range of [0, 100] after normalizing",
            id="too high after normalising",
        ),
        pytest.param(
            Scores("Bad", ValueError("broken")),
            'running Score plugins: plugin "Bad" failed with: broken',
            id="score raises",
        ),
        pytest.param(
            Scores("Bad", np.zeros(3)),
            "running Score plugins: plugin \"Bad\" failed with: Cannot cast array data from dtype('float64') to"
            " dtype('int64') according to the rule 'same_kind'",
            id="fractions",
        ),
        pytest.param(
            Normalized("Bad", {}, lambda raw: 1 // 0),
            "running Normalize on Score plugins: integer division or modulo by zero",
            id="normalise raises",
        ),
        pytest.param(
            Scores("Bad", {}, pre_score=text("broken", Code.ERROR)),
            'running PreScore plugin "Bad": broken',
            id="PreScore fails",
        ),
        pytest.param(
            Scores("Bad", {}, pre_score=text("no")), 'running PreScore plugin "Bad": no', id="PreScore must not reject"
        ),
        pytest.param(
            Scores("Bad", {}, pre_score=KeyError("k")), "running PreScore plugin \"Bad\": 'k'", id="PreScore raises"
        ),
    ],
)
def test_a_plugin_that_breaks_its_contract_fails_the_attempt(scorer: Scores, message: str) -> None:
    result = run(framework(score=(scorer,)), cluster())
    assert (result.path, result.chosen, result.message) == (DecisionPath.ERROR, None, message)


def test_too_few_points_fail_the_attempt() -> None:
    result = run(framework(score=(Scores("Bad", np.zeros(2, np.int64)),)), cluster())
    assert result.path is DecisionPath.ERROR
    assert result.message.startswith('running Score plugins: plugin "Bad" failed with: ')


@given(st.lists(st.integers(0, 3), min_size=2, max_size=10), st.integers(0, 1 << 32))
def test_the_draw_is_among_the_best_and_repeats_with_its_seed(points: list[int], seed: int) -> None:
    names = "abcdefghij"[: len(points)]
    made = framework(score=(Scores("S", dict(zip(names, points, strict=True))),))
    best = [slot for slot, p in enumerate(points) if p == max(points)]

    first, again = (run(made, cluster(len(points)), seed=seed) for _ in range(2))

    assert first.chosen in best
    assert again.chosen == first.chosen


def test_every_tied_node_is_drawn_about_as_often() -> None:
    made, columns = framework(score=(Scores("S", {"b": 5, "c": 5}),)), cluster()
    drawn = Counter(run(made, columns, seed=seed).chosen for seed in range(400))
    assert drawn.keys() == {1, 2}
    assert all(140 < count < 260 for count in drawn.values())


def test_durations_come_from_the_clock_that_was_given() -> None:
    made = framework(score=(Scores("S", {}),))
    ticks = iter(range(100))
    made._clock = lambda: float(next(ticks))  # each look at the clock is a second later
    assert run(made, cluster()).trace.phases_s == {"PreFilter": 1.0, "Filter": 1.0, "PreScore": 1.0, "Score": 1.0}


class CpuScores(Named):
    """Scores nodes by their requested cpu, and notes of how many nodes it was given each time."""

    depends_on = DependsOn.ROW

    def score(self, state: object, pod: object, nodes: NodeColumns, feasible: object) -> NDArray[np.int64]:
        self.calls.append(str(nodes.slots))
        return np.minimum(nodes.requested("cpu"), 100)


class NormalizedCpuScores(CpuScores):
    def normalize(
        self, state: object, pod: object, raw: NDArray[np.int64], feasible: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        return default_normalize(raw, feasible, reverse=True)


@given(st.lists(st.tuples(st.integers(0, 23), st.integers(0, 40), st.integers(0, 23)), min_size=1, max_size=12))
def test_scores_of_only_the_changed_rows_equal_those_of_all_nodes(changes: list[tuple[int, int, int]]) -> None:
    """Each change adds a pod to one node and makes another node feasible or infeasible."""
    nodes = columns_of([make_node(f"n{i}").allocatable(cpu="4") for i in range(24)])
    plugins = (CpuScores("Plain"), NormalizedCpuScores("Scaled"))
    runners = [ScoreRunner(plugin, weight) for plugin, weight in zip(plugins, (3, 1), strict=True)]
    pod, feasible = make_pod("incoming").info(), np.ones(24, np.bool_)
    entry, kept = CacheEntry(24), ScorePhase(runners, set())
    kept.refresh(entry, CycleState(), pod, nodes, feasible)
    for number, (slot, milli, flipped) in enumerate(changes):
        nodes.add_pod(make_pod(f"p{number}").request(cpu=f"{milli}m").info(), f"n{slot}")
        feasible = feasible.copy()
        feasible[flipped] = not feasible[flipped]
        for plugin in plugins:
            plugin.calls.clear()
        kept.refresh(entry, CycleState(), pod, nodes, feasible)
        assert [plugin.calls for plugin in plugins] == [["1"], ["1"]]
        whole = ScorePhase(runners, set())
        whole.refresh(CacheEntry(24), CycleState(), pod, nodes, feasible)
        assert kept.totals.tolist() == whole.totals.tolist()
        assert kept.best.tolist() == whole.best.tolist()
        for run_of_rows, run_of_all in zip(kept.runs, whole.runs, strict=True):
            assert as_list(run_of_rows.raw) == as_list(run_of_all.raw)
            assert as_list(run_of_rows.normalized) == as_list(run_of_all.normalized)
