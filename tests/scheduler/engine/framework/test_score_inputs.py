"""By which numbers plugins decided: asked once, after they decided; what goes wrong there costs nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from herodotus_record import notes
from herodotus_record.model import SUCCESS, DecisionPath
from herodotus_record.model import InputColumn as RecordedNumber
from herodotus_record.model import Inputs as Recorded
from scheduler.engine.columns import NodeColumns
from scheduler.engine.cycle import CycleResult
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.framework.per_node import Input, NodeInfo, PerNodePlugin, adapt_filter, adapt_score
from scheduler.engine.framework.plugin import NoArgs
from scheduler.engine.framework.score_inputs import expand_to_slots
from scheduler.engine.framework.verdicts import SKIP
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records import build
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import columns_of, make_node
from tests.scheduler.engine.framework.plugins import Filters, Scores, framework, run, text

NAN = float("nan")


class Telling(Scores):
    """Scores, and says by which numbers."""

    def __init__(self, told: Any, pre_score: Any = SUCCESS) -> None:
        super().__init__("Telling", {"a": 1}, pre_score)
        self._told = told

    def inputs(self, state: Any, pod: PodInfo, nodes: NodeColumns) -> Any:
        self.calls.append("inputs")
        if isinstance(self._told, BaseException):
            raise self._told
        return self._told


def cluster() -> NodeColumns:
    return columns_of([make_node("a"), make_node("b"), make_node("c")])


def told(*values: float, **more: Any) -> tuple[NodeInputs, ...]:
    return (NodeInputs("a source", (NodeInputColumn("watts", np.array(values, np.float64), "W"),), **more),)


def recorded(result: CycleResult) -> tuple[Recorded, ...]:
    return tuple(build._inputs(run) for run in result.trace.inputs)


def columns(recorded: Recorded) -> tuple[list[int], list[int], list[int], list[int]]:
    (number,) = recorded.numbers
    return number.values.tolist(), number.lacking.tolist(), recorded.measured.tolist(), recorded.stale.tolist()


def test_inputs_are_read_once_after_the_plugin_decided() -> None:
    plugin = Telling(told(1.5, NAN, 3.126))
    result = run(framework(score=(plugin,)), cluster())
    assert plugin.calls == ["preScore", "score", "inputs"]
    (found,) = recorded(result)
    assert (found.plugin, found.source) == ("Telling", "a source")
    assert [(n.name, n.unit, n.digits) for n in found.numbers] == [("watts", "W", 2)]
    assert columns(found) == ([150, 0, 313], [0, 1, 0], [], [])


@pytest.mark.parametrize(
    ("plugin", "rejected"),
    [(Telling(told(1, 2, 3), pre_score=SKIP), {}), (Telling(told(1, 2, 3)), {"a": text("no"), "b": text("no")})],
    ids=["skipped", "one feasible node, so nothing is scored"],
)
def test_plugin_that_did_not_run_has_no_inputs(plugin: Telling, rejected: Any) -> None:
    result = run(framework(filter=(Filters("Fit", rejected),), score=(plugin,)), cluster())
    assert ("inputs" in plugin.calls, result.trace.inputs) == (False, [])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (RuntimeError("no idea"), "no idea"),
        (told(1, 2), "a source: 2 numbers for 3 nodes"),
        (told(1, 2, 3, stale=np.zeros(4, np.bool_)), "a source: 4 numbers for 3 nodes"),
    ],
    ids=["raises", "too short", "a mask of another length"],
)
def test_unreadable_inputs_are_marked_and_the_decision_is_kept(said: Any, why: str) -> None:
    result = run(framework(score=(Telling(said),)), cluster())
    assert (result.path, result.trace.inputs) == (DecisionPath.SCORED, [])
    assert notes.format_notes(result.trace.notes) == [f"Telling: its inputs are not recorded: {why}"]


@pytest.mark.parametrize(
    ("more", "measured", "stale"),
    [
        ({"measured_s": np.array([60.9, 60.9, 60.9])}, [60], []),
        ({"measured_s": np.array([60.0, NAN, 61.0])}, [60, 0, 61], []),
        ({"measured_s": np.full(3, NAN)}, [], []),
        ({"measured_s": np.array([-1.0, 1e12, float("-inf")])}, [], []),
        ({"stale": np.array([False, True, False])}, [], [0, 1, 0]),
        ({"stale": np.zeros(3, np.bool_)}, [], []),
    ],
    ids=["all alike", "each its own", "nobody says", "no moments", "one too old", "none too old"],
)
def test_moments_and_what_was_too_old(more: Any, measured: list[int], stale: list[int]) -> None:
    (found,) = recorded(run(framework(score=(Telling(told(1, 2, 3, **more)),)), cluster()))
    assert columns(found) == ([100, 200, 300], [], measured, stale)


def test_values_outside_the_record_are_unknown() -> None:
    (found,) = recorded(run(framework(score=(Telling(told(float("inf"), 1e30, -2.0)),)), cluster()))
    assert columns(found)[:2] == ([0, 0, -200], [1, 1, 0])


class Watts(PerNodePlugin):
    """A plain plugin that filters and scores, and says by what."""

    name = "Watts"

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> None:
        return None

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        return 1

    def inputs(self, state: Any, pod: PodInfo, node: NodeInfo) -> Iterable[Input]:
        draws = {"a": 120.0, "b": 80.5}.get(node.name)
        yield Input("draws", draws, "W", "the rack", digits=1, measured_s=60.0, stale=node.name == "b")
        if node.name == "a":
            yield Input("limit", 400.0, "W", "the contract", digits=0)


def test_a_per_node_plugin_reports_its_inputs_for_each_node() -> None:
    plugin: Any = Watts(NoArgs(), NoCluster())
    draws, limit = recorded(run(framework(filter=(adapt_filter(plugin),), score=(adapt_score(plugin),)), cluster()))
    assert (draws.source, columns(draws)) == ("the rack", ([1200, 805, 0], [0, 0, 1], [60], [0, 1, 0]))
    assert (limit.source, columns(limit)) == ("the contract", ([400, 0, 0], [0, 1, 1], [], []))
    assert limit.numbers[0] == RecordedNumber("limit", "W", 0, limit.numbers[0].values, limit.numbers[0].lacking)


def test_numbers_of_some_nodes_become_columns_of_all() -> None:
    (one,) = told(7, 9, measured_s=np.array([1.0, 2.0]), stale=np.array([False, True]))
    found = expand_to_slots(one, np.array([0, 2]), 3)
    np.testing.assert_equal(found.numbers[0].values, [7, NAN, 9])
    np.testing.assert_equal(found.measured_s, [1, NAN, 2])
    np.testing.assert_equal(found.stale, [False, False, True])
