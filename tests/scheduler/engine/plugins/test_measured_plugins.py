"""The plugins known only to Herodotus say what the agents say: the same checked values, in whole cycles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from herodotus_record import notes, reasons
from herodotus_record.model import DecisionPath
from scheduler.config import ConfigError
from scheduler.engine.cycle import CycleResult
from scheduler.engine.formulas.packing import Demand
from scheduler.engine.plugins.pigeon import Pigeon
from tests.scheduler.builders import NodeBuilder, columns_of, make_node, make_pod
from tests.support.one_scorer import decide, only_scores, scoring_framework


def loaded(name: str, free: int, deviation: int, **more: str) -> NodeBuilder:
    node = make_node(name).annotation("mean-free-cpu", str(free)).annotation("std-free-cpu", str(deviation))
    for key, value in more.items():
        node.annotation(key.replace("_", "-"), value)
    return node


POD = {"cpu": "500m"}


def test_safe_overload_rejects_with_the_risk() -> None:
    columns = columns_of([loaded("calm", 2500, 400), loaded("over", 700, 400), make_node("unknown")])
    result = decide(scoring_framework("SafeOverload", "filter"), columns, make_pod().request(POD))
    run = next(run for run in result.trace.filters if run.plugin == "SafeOverload")
    found = [[reasons.format_reason(reason) for reason in run.verdicts.verdict_at(slot).reasons] for slot in range(3)]
    assert found == [[], ["node(s) had a risk of 85 % that cpu is used more than 90 %"], []]


def test_safe_overload_s_message_groups_nodes_by_risk() -> None:
    columns = columns_of([loaded(f"n{i}", 700, 400) for i in range(3)])
    result = decide(scoring_framework("SafeOverload", "filter"), columns, make_pod().request(POD))
    assert result.path is DecisionPath.NONE
    counted = "3 node(s) had a risk of 85 % that cpu is used more than 90 %"
    assert result.message.startswith(f"0/3 nodes are available: {counted}.")


@pytest.mark.parametrize(
    ("args", "accepted"),
    [({}, True), ({"percentile": 25}, False), ({"utilization": 85}, False)],
    ids=["defaults", "less risk", "lower threshold"],
)
def test_arguments_of_safe_overload_flip_the_row_with_risk_0_254(args: dict[str, int], accepted: bool) -> None:
    columns = columns_of([loaded("n", 1200, 400)])
    result = decide(scoring_framework("SafeOverload", "filter", **args), columns, make_pod().request(POD))
    assert (result.path is not DecisionPath.NONE) is accepted


@pytest.mark.parametrize(("plugin", "points"), [("SafeOverload", [9, 0, 0]), ("SafeBalance", [6, 4, 0])])
def test_safe_points(plugin: str, points: list[int]) -> None:
    columns = columns_of([loaded("calm", 2500, 400), loaded("over", 700, 400), make_node("unknown")])
    result = decide(scoring_framework(plugin), columns, make_pod().request(POD))
    assert only_scores(result) == (points, [10 * p for p in points])


def test_a_changed_annotation_counts_in_the_next_cycle() -> None:
    columns = columns_of([loaded("a", 2500, 400), loaded("b", 700, 400)])
    runner = scoring_framework("SafeBalance")
    assert only_scores(decide(runner, columns, make_pod().request(POD)))[0] == [6, 4]
    columns.refresh_node(loaded("b", 2500, 400).obj())
    assert only_scores(decide(runner, columns, make_pod().request(POD)))[0] == [6, 6]


def test_stale_measurements_are_ignored_and_marked() -> None:
    old = {"herodotus.dev/usage_measured_at": "2020-01-01T00:00:00Z"}
    columns = columns_of([loaded("a", 2500, 400), loaded("b", 2500, 400, **old)])
    result = decide(scoring_framework("SafeBalance", "preScore", "score"), columns, make_pod().request(POD))
    assert only_scores(result)[0] == [6, 0]
    note = "SafeBalance: what was measured of 1 node(s) is older than 300 s, and ignored"
    assert notes.format_notes(result.trace.notes) == [note]


Told = dict[str, list[float | None]]


def numbers_by_source(result: CycleResult) -> dict[str, Told]:
    """By source, each number of every slot; None where there is none."""
    return {
        run.inputs.source: {
            number.name: [None if math.isnan(v) else round(v, number.digits) for v in number.values]
            for number in run.inputs.numbers
        }
        for run in result.trace.inputs
    }


@pytest.mark.parametrize("points", [("filter",), ("score",), ("filter", "score")], ids="+".join)
def test_safe_overload_reports_used_share_deviation_and_risk(points: tuple[str, ...]) -> None:
    """Whether it filters, scores or both: once."""
    columns = columns_of([loaded("calm", 2500, 400), loaded("over", 1200, 400), make_node("unknown")])
    result = decide(scoring_framework("SafeOverload", *points), columns, make_pod().request(POD))
    assert numbers_by_source(result) == {
        "annotations mean-free-cpu, std-free-cpu": {
            "cpu used": [50.0, 82.5, None],
            "cpu deviation": [10.0, 10.0, None],
            "cpu risk": [0.0, 25.42, None],
        },
        "annotation mean-free-memory": dict.fromkeys(("memory used", "memory deviation", "memory risk"), [None] * 3),
    }


def test_safe_balance_reports_times_and_staleness_of_its_measurements() -> None:
    old = {"herodotus.dev/usage_measured_at": "2020-01-01T00:00:00Z"}
    columns = columns_of([loaded("a", 2500, 400), loaded("b", 2500, 400, **old)])
    result = decide(scoring_framework("SafeBalance"), columns, make_pod().request(POD))
    numbers = {"cpu used": [50.0, None], "cpu deviation": [10.0, None]}
    assert numbers_by_source(result)["annotations mean-free-cpu, std-free-cpu"] == numbers
    cpu = result.trace.inputs[0].inputs
    assert (cpu.stale is not None, cpu.measured_s is not None) == (True, True)
    np.testing.assert_equal(cpu.stale, [False, True])
    np.testing.assert_equal(cpu.measured_s, [math.nan, 1_577_836_800])


@pytest.mark.parametrize(
    ("plugin", "source", "name", "values", "expected"),
    [
        ("Congestion", "annotation congestion-factor", "factor", ("15", "x", None), (15, None, None)),
        ("BestPrice", "annotation hightower.com/cost", "price", ("0.05", "free", None), (0.05, None, None)),
        ("Reward", "annotation herodotus.dev/rewards", "reward", ('{"D":0.59049}', "[", None), (0.59049, None, 1.0)),
    ],
    ids=["Congestion", "BestPrice", "Reward"],
)
def test_reward_and_price_report_their_annotation(
    plugin: str, source: str, name: str, values: tuple[str | None, ...], expected: tuple[float | None, ...]
) -> None:
    nodes = [make_node(f"n{i}") for i in range(len(values))]
    for node, given in zip(nodes, values, strict=True):
        if given is not None:
            node.annotation(source.partition(" ")[2], given)
    result = decide(scoring_framework(plugin), columns_of(nodes), make_pod().label("podtype", "D"))
    of = ", pod type D" if plugin == "Reward" else ""
    assert numbers_by_source(result) == {source + of: {name: list(expected)}}


def test_pigeon_reports_the_objective_of_each_node() -> None:
    columns = columns_of([make_node("n1"), make_node("n2").allocatable(cpu="1")])
    runner = scoring_framework("Pigeon", policyObjective="LOAD_BALANCE")
    result = decide(runner, columns, make_pod().request(cpu="500m"))
    assert numbers_by_source(result) == {"LOAD_BALANCE of requested cpu, memory": {"objective": [0.0625, 0.25]}}


def test_congestion() -> None:
    values = ("15", "50", "96", "x", "1.5", "-5")
    columns = columns_of([make_node(f"n{i}").annotation("congestion-factor", v) for i, v in enumerate(values)])
    columns.set_node(make_node("none").obj())
    assert only_scores(decide(scoring_framework("Congestion"), columns, make_pod()))[0] == [9, 5, 0, 10, 10, 10, 10]
    ten = scoring_framework("Congestion", factorMax=10)
    five = columns_of([make_node("a").annotation("congestion-factor", "5"), make_node("b")])
    assert only_scores(decide(ten, five, make_pod())) == ([5, 10], [50, 100])


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("A_BINPACK", [[4, 1, 10], [4, 1, 10], [10, 1, 3]]),
        ("LOAD_BALANCE", [[5, 1, 10], [5, 1, 10], [4, 1, 10]]),
        ("CONSOLIDATE", [[9, 10, 1], [9, 10, 1], [7, 10, 1]]),
    ],
)
def test_pigeon(objective: str, expected: list[list[int]]) -> None:
    columns = columns_of(
        [make_node(n).allocatable(memory="8Gi") for n in ("n1", "n2", "n3")],
        [
            make_pod("a").request(cpu="1", memory="2Gi").node("n1"),
            make_pod("b").request(cpu="2", memory="2Gi").node("n2"),
        ],
    )
    runner = scoring_framework("Pigeon", policyObjective=objective)
    pods = (("500m", "1Gi"), ("500m", "1Gi"), ("2", "512Mi"))
    found = [only_scores(decide(runner, columns, make_pod().request(cpu=c, memory=m)))[0] for c, m in pods]
    assert found == expected


def test_pigeon_learns_from_the_pods_that_are_there() -> None:
    """As if they had been scheduled one after another: a restart loses nothing."""
    columns = columns_of([make_node("n1")])
    for i, (cpu, memory) in enumerate((("500m", "1Gi"), ("2", "512Mi"))):
        columns.add_pod(make_pod(f"p{i}").request(cpu=cpu, memory=memory).node("n1").info(), "n1")
    runner = scoring_framework("Pigeon")
    runner.prepare(columns)
    (plugin,) = runner.profile.score
    assert isinstance(plugin, Pigeon)
    assert plugin._learned == Demand().learn((500.0, 1024.0)).learn((2000.0, 512.0))


def test_reward() -> None:
    bad = make_node("bad").annotation("herodotus.dev/rewards", '{"D":0.59049,"E":0.1}')
    columns = columns_of([bad, make_node("new"), make_node("odd").annotation("herodotus.dev/rewards", "[")])
    result = decide(scoring_framework("Reward"), columns, make_pod().label("podtype", "D"))
    assert only_scores(result) == ([5, 10, 0], [50, 100, 0])


def test_best_price() -> None:
    prices = {"cheap": "0.05", "dear": "1.60", "mid": "0.80", "odd": "free"}
    columns = columns_of([make_node(n).annotation("hightower.com/cost", p) for n, p in prices.items()])
    columns.set_node(make_node("unpriced").obj())
    result = decide(scoring_framework("BestPrice"), columns, make_pod())
    assert only_scores(result) == ([50_000, 1_600_000, 800_000, -1, -1], [100, 0, 51, 0, 0])
    assert result.chosen == 0
    other = columns_of([make_node("a").annotation("example.com/eur", "2"), make_node("b")])
    assert only_scores(decide(scoring_framework("BestPrice", annotation="example.com/eur"), other, make_pod()))[1] == [
        100,
        0,
    ]


def test_the_cheapest_node_that_is_full_is_skipped() -> None:
    cheap = make_node("cheap").annotation("hightower.com/cost", "0.05").allocatable(cpu="1")
    others = [make_node(n).annotation("hightower.com/cost", p) for n, p in (("mid", "0.40"), ("dear", "1.60"))]
    columns = columns_of([cheap, *others])
    result = decide(scoring_framework("BestPrice"), columns, make_pod().request(cpu="2"))
    assert result.chosen is not None
    assert columns.names[result.chosen] == "mid"


@pytest.mark.parametrize(
    ("plugin", "args", "why"),
    [
        ("SafeOverload", {"utilization": 120}, "utilization: Invalid value: 120: must be from 0 to 100"),
        ("SafeOverload", {"maxAgeSeconds": 0}, "maxAgeSeconds: Invalid value: 0.0: must be positive"),
        ("SafeBalance", {"percentile": 5}, "percentile"),
        ("Congestion", {"factorMax": 0}, "factorMax: Invalid value: 0: must be positive"),
        ("Pigeon", {"policyObjective": "BEST"}, 'policyObjective: Unsupported value: "BEST"'),
        ("Pigeon", {"policyResourceIndex": 2}, "policyResourceIndex: Invalid value: 2: must be less than numResources"),
        ("BestPrice", {"annotation": "a b"}, 'annotation: Invalid value: "a b"'),
        ("NetworkTraffic", {}, "ip: Required value"),
        ("NetworkTraffic", {"ip": "10.0.0.4"}, 'ip: Invalid value: "10.0.0.4": must be a URL'),
        ("NetworkTraffic", {"ip": "http://p", "timeRange": -1}, "timeRange: Invalid value: -1: must be a positive"),
        ("NetworkTraffic", {"ip": "http://p", "kind": "NetworkArgs"}, "NetworkTrafficArgs"),
    ],
)
def test_wrong_arguments_are_refused_with_their_field(plugin: str, args: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as e:
        scoring_framework(plugin, **args)
    assert why in str(e.value)
