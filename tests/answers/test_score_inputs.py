"""Answers and the whole document hold the measurements by which plugins decided: values, sources, and stale ones."""

from __future__ import annotations

from array import array
from dataclasses import replace

from herodotus_answers.decision import build_decision_document
from herodotus_answers.pod import build_pod_explanation
from herodotus_record.model import InputColumn, Inputs
from tests.builders import CORDONED, a_decision, a_table

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
SHARE = InputColumn("cpu used", "%", 2, array("H", [5312, 0, 900]), array("B", [0, 1, 0]))
USED = Inputs("SafeBalance", "annotation mean-free-cpu", (SHARE,), array("i", [60, 90, 0]), array("B", [0, 1, 0]))
PRICE = Inputs("BestPrice", "annotation cost", (InputColumn("price", "", 6, array("i", [50_000, 1_600_000, -1])),))
DECISION = replace(
    a_decision(points={"worker-1": {"ImageLocality": 9}}, rejected={"worker-3": {"NodeName": CORDONED}}),
    inputs=(USED, PRICE),
)


def test_an_answer_has_each_source_once_and_every_nodes_measurements() -> None:
    answer = build_pod_explanation(DECISION, (), TABLE)
    assert answer["inputs"] == [
        {
            "plugin": "SafeBalance",
            "source": "annotation mean-free-cpu",
            "numbers": [{"name": "cpu used", "unit": "%", "digits": 2}],
        },
        {"plugin": "BestPrice", "source": "annotation cost", "numbers": [{"name": "price", "unit": "", "digits": 6}]},
    ]
    by_node = {row["node"]: row["inputs"] for row in answer["ranking"]}
    assert by_node == {
        "worker-1": [
            {
                "plugin": "SafeBalance",
                "values": {"cpu used": 53.12},
                "measuredAt": "1970-01-01T00:01:00.000000+00:00",
                "stale": False,
            },
            {"plugin": "BestPrice", "values": {"price": 0.05}, "measuredAt": None, "stale": False},
        ],
        "worker-2": [
            {
                "plugin": "SafeBalance",
                "values": {"cpu used": None},
                "measuredAt": "1970-01-01T00:01:30.000000+00:00",
                "stale": True,
            },
            {"plugin": "BestPrice", "values": {"price": 1.6}, "measuredAt": None, "stale": False},
        ],
    }


def test_a_rejected_node_has_its_measurements() -> None:
    (node,) = build_pod_explanation(DECISION, (), TABLE, node="worker-3")["perNode"]
    assert [entry["values"] for entry in node["inputs"]] == [{"cpu used": 9.0}, {"price": -0.000001}]


def test_the_document_has_every_evaluated_node() -> None:
    used, price = build_decision_document(DECISION, (), TABLE)["spec"]["inputs"]
    assert used == {
        "plugin": "SafeBalance",
        "source": "annotation mean-free-cpu",
        "numbers": [
            {"name": "cpu used", "unit": "%", "values": {"worker-1": 53.12, "worker-2": None, "worker-3": 9.0}}
        ],
        "measuredAt": {
            "worker-1": "1970-01-01T00:01:00.000000+00:00",
            "worker-2": "1970-01-01T00:01:30.000000+00:00",
            "worker-3": None,
        },
        "stale": ["worker-2"],
    }
    assert price["numbers"][0]["values"]["worker-2"] == 1.6


def test_one_measurement_time_may_apply_to_all_nodes() -> None:
    assert [replace(PRICE, measured=array("B", [7])).measured_s(slot) for slot in range(3)] == [7, 7, 7]
