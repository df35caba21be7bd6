"""The columns of a decision follow the order of the nodes and hold null for unknown values."""

from __future__ import annotations

from dataclasses import replace

from herodotus_answers.node_columns import build_node_columns
from tests.builders import CORDONED, FILTERS, a_decision, a_table
from tests.support.answers import as_json

NODES = ("worker-10", "", "worker-2", "worker-1")
DECISION = a_decision(
    nodes=NODES,
    rejected={"worker-2": {"NodeUnschedulable": CORDONED}},
    points={"worker-1": {"TaintToleration": 100, "ImageLocality": 7}, "worker-10": {"ImageLocality": 5}},
)
PASSED = {"code": "Success", "against": False, "reasons": []}
CORDON = {"code": "UnschedulableAndUnresolvable", "against": True, "reasons": ["node(s) were unschedulable"]}


def test_columns_have_one_entry_for_each_node_in_order_of_names() -> None:
    columns = build_node_columns(DECISION, a_table(NODES))
    assert columns == {
        "nodes": ["worker-1", "worker-2", "worker-10"],
        "evaluations": columns["evaluations"],
        "evaluation": [0, 0, 0],
        "filters": [
            {"plugin": "NodeUnschedulable", "skipped": False, "verdicts": [PASSED, CORDON], "ids": [0, 1, 0]},
            *({"plugin": f, "skipped": False, "verdicts": [PASSED], "ids": []} for f in FILTERS[1:]),
        ],
        "scores": [
            score("TaintToleration", 3, [100, 0, 0]),
            score("NodeResourcesFit", 1, [0, 0, 0]),
            score("ImageLocality", 1, [7, 0, 5]),
        ],
        "totals": [307, 0, 5],
        "rank": [1, 0, 2],
    }
    assert columns["evaluations"][0] == "evaluated"


def test_unknown_values_are_null() -> None:
    unknown = replace(DECISION, unknown=("scores.raw", "totals", "seed"))
    columns = as_json(build_node_columns(unknown, a_table(NODES)))
    assert [score["raw"] for score in columns["scores"]] == [None, None, None]
    assert columns["totals"] is None
    assert columns["rank"] == [1, 0, 2]


def score(plugin: str, weight: int, points: list[int]) -> dict[str, object]:
    return {"plugin": plugin, "weight": weight, "skipped": False, "raw": points, "normalized": points}
