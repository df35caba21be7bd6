"""Decisions that are counted together add what each of them adds when it is counted alone."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from herodotus_answers.node import (
    ClusterTotals,
    CounterName,
    HistoryWindow,
    NodeHistory,
    NodeHistoryCounts,
    build_node_history,
)
from herodotus_answers.workload import OUTSCORED, PlacementCount
from herodotus_endpoint.store.counters import DecisionCounts
from herodotus_record.codec import find_feasible
from herodotus_record.model import Decision, Evaluation
from tests.builders import CORDONED, INSUFFICIENT_CPU, TAINTED, a_decision

NODES = tuple(f"worker-{i}" for i in range(24))
VERDICTS = {"NodeUnschedulable": CORDONED, "TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU}


def decisions_of_one_template(count: int, rng: random.Random, most_changed: int) -> list[Decision]:
    """Return decisions in which up to `most_changed` nodes have other filter results than in the one before."""
    rejected: dict[str, Any] = {}
    found = []
    for sequence in range(1, count + 1):
        for node in rng.sample(NODES[1:], rng.randint(0, most_changed)):
            if node in rejected and rng.random() < 0.5:
                del rejected[node]
            else:
                plugins = rng.sample(sorted(VERDICTS), rng.randint(1, 2))
                rejected[node] = {plugin: VERDICTS[plugin] for plugin in plugins}
        points = {node: {"ImageLocality": rng.randint(0, 3), "TaintToleration": 1} for node in NODES}
        found.append(a_decision(nodes=NODES, rejected=dict(rejected), points=points, sequence=sequence))
    return found


def summed(decisions: Sequence[Decision], *, together: bool) -> dict[Any, Any]:
    total: Counter[Any] = Counter()
    for part in [decisions] if together else [[d] for d in decisions]:
        counted = DecisionCounts(len(NODES))
        for decision in part:
            counted.count(decision, find_feasible(decision))
        counted.finish()
        for name, column in counted.columns.items():
            total.update({(name, slot): value for slot, value in enumerate(column.tolist()) if value})
        for slot, workloads in counted.workloads.items():
            total.update({(workload, slot): count for workload, count in workloads.items()})
    return {key: value for key, value in total.items() if value}


@pytest.mark.parametrize("most_changed", [0, 1, 4, 16])
@pytest.mark.parametrize("seed", range(4))
def test_changed_nodes_are_counted_with_the_results_that_they_had(seed: int, most_changed: int) -> None:
    decisions = decisions_of_one_template(40, random.Random(seed), most_changed)
    assert summed(decisions, together=True) == summed(decisions, together=False)


def test_the_plugin_with_the_largest_weighted_part_in_the_lead_decides() -> None:
    points = {"worker-1": {"TaintToleration": 2, "ImageLocality": 7}}  # 6 and 7 points with their weights
    decision = a_decision(nodes=("worker-1", "worker-2"), points=points)
    counted = DecisionCounts(2)
    counted.count(decision, find_feasible(decision))
    counted.finish()
    assert [by for _, by in counted.decided[0]] == ["ImageLocality"]


def test_a_pod_that_runs_where_another_node_scores_higher_is_no_lead_of_its_node() -> None:
    points = {"worker-1": {"ImageLocality": 9}, "worker-2": {"ImageLocality": 3}}
    best = a_decision(nodes=("worker-1", "worker-2"), points=points)
    counted = DecisionCounts(2)
    for decision in (best, replace(best, chosen=1)):
        counted.count(decision, find_feasible(decision))
    counted.finish()
    names = ("won", "lead", "outscored")
    of_each = {name: counted.columns[CounterName(name)].tolist() for name in names}
    assert of_each == {"won": [1, 1], "lead": [6, 0], "outscored": [0, 1]}
    assert [(by, count) for (_, by), count in counted.decided[1].items()] == [(OUTSCORED, PlacementCount(1, None))]


@pytest.mark.parametrize("together", [True, False])
def test_a_node_that_scores_higher_than_the_chosen_node_is_not_behind_it(together: bool) -> None:
    """Another scheduler chose it. Only the decision in which the node scores less shows points that it lost."""
    nodes = ("worker-1", "worker-2", "worker-3")
    points = {"worker-1": {"ImageLocality": 9}, "worker-2": {"ImageLocality": 3}, "worker-3": {"ImageLocality": 1}}
    best = a_decision(nodes=nodes, points=points)
    misfit = a_decision(nodes=nodes, points=points, rejected={"worker-2": {"NodeResourcesFit": INSUFFICIENT_CPU}})
    decisions = [best, replace(best, chosen=1), replace(misfit, chosen=1)]
    total: Counter[Any] = Counter()
    for part in [decisions] if together else [[d] for d in decisions]:
        counted = DecisionCounts(3)
        for decision in part:
            counted.count(decision, find_feasible(decision))
        counted.finish()
        for name, column in counted.columns.items():
            total.update({(name, slot): n for slot, n in enumerate(column.tolist())})
    names = (CounterName("lost"), CounterName("ahead"), CounterName("behind"), CounterName("cost", "ImageLocality"))
    of_each = {name: [total[name, slot] for slot in range(3)] for name in names}
    assert list(of_each.values()) == [[2, 1, 3], [2, 0, 1], [0, 6, 8 + 2], [0, -6, -8 - 2]]
    lost = [
        build_node_history(
            "n",
            HistoryWindow(0, 3_600_000_000, 3_600_000_000),
            NodeHistoryCounts(Counter({name: of_each[name][slot] for name in names}), Counter(), {}, {}),
            ClusterTotals(0, 0),
            [],
            searched=0,
        )["lost"]
        for slot in range(3)
    ]
    assert lost == [
        {"count": 2, "ahead": 2, "meanBehind": None, "costsMost": {}},
        {"count": 1, "ahead": 0, "meanBehind": 6, "costsMost": {"ImageLocality": -6}},
        {"count": 3, "ahead": 1, "meanBehind": 5, "costsMost": {"ImageLocality": -5}},
    ]


def test_decisions_of_which_few_nodes_change_are_counted_in_one_run() -> None:
    decisions = decisions_of_one_template(40, random.Random(1), 2)
    assert decisions[0].filters != decisions[-1].filters
    counted = DecisionCounts(len(NODES))
    for decision in decisions:
        counted.count(decision, find_feasible(decision))
    (run,) = counted._runs.values()
    assert run.decisions == len(decisions)


@pytest.mark.parametrize("seed", range(4))
def test_the_counts_of_a_node_add_up_to_the_decisions(seed: int) -> None:
    """Also where another scheduler chose a node that a filter rejects, none was chosen, or nodes were not looked at."""
    rng = random.Random(seed)
    decisions = []
    for d in decisions_of_one_template(60, rng, 8):
        unseen = [rng.choice([Evaluation.RESTRICTED, Evaluation.NOT_SAMPLED]) for _ in NODES]
        evaluation = [why if rng.random() < 0.2 else Evaluation.EVALUATED for why in unseen]
        chosen = rng.choice([d.chosen, rng.randrange(len(NODES)), None])
        decisions.append(replace(d, evaluation=array("B", evaluation), chosen=chosen))
    total = summed(decisions, together=True)
    over = HistoryWindow(0, 3_600_000_000, 3_600_000_000)
    not_compared = 0
    for slot in range(len(NODES)):
        counters = Counter(
            {key[0]: n for key, n in total.items() if key[1] == slot and isinstance(key[0], CounterName)}
        )

        def build(counted: Counter[CounterName]) -> NodeHistory:
            facts = NodeHistoryCounts(counted, Counter(), {}, {})
            return build_node_history("n", over, facts, ClusterTotals(0, 0), [], searched=0)

        node = build(counters)
        assert node["considered"] == node["evaluated"] + sum(node["notEvaluatedBy"].values())
        assert "not-counted" not in node["notEvaluatedBy"]
        assert node["evaluated"] == node["feasible"] + sum(f["decisive"] for f in node["filters"])
        fitting = [d for d in decisions if find_feasible(d)[slot]]
        won = sum(d.chosen == slot for d in fitting)
        lost = sum(d.chosen not in (slot, None) for d in fitting)
        assert (node["won"]["count"] - node["won"]["misfit"], node["lost"]["count"]) == (won, lost)
        assert node["notCompared"] == len(fitting) - won - lost
        not_compared += node["notCompared"]
        before = Counter({name: n for name, n in counters.items() if name.counter != "not_evaluated"})
        assert build(before)["notEvaluatedBy"] == {"not-counted": node["notEvaluated"]}
    assert not_compared
