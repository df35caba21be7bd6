"""The first Herodotus' routes: its shapes, its numbers, its codes."""

from array import array
from dataclasses import replace
from typing import Any

import pytest

from herodotus_record.model import Evaluation, FilterColumn
from tests.builders import CORDONED, FILTERS, INSUFFICIENT_CPU, TAINTED, a_decision, a_table
from tests.endpoint.service import Service, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3", "worker-4"])
REJECTED = {
    "worker-3": {"TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU},
    "worker-4": {"NodeUnschedulable": CORDONED},
}
POINTS = {
    "worker-1": {"TaintToleration": 100, "ImageLocality": 5},
    "worker-2": {"TaintToleration": 100, "NodeResourcesFit": 60},
}
DECISION = a_decision(nodes=TABLE.names, rejected=REJECTED, points=POINTS)


def test_pod_has_the_format_of_the_first_system(service: Service) -> None:
    service.stored(rows(TABLE), DECISION)
    passed = dict.fromkeys(FILTERS, 1)
    assert service.get("/pod", name=DECISION.pod.name, namespace="shop") == {
        "filter_scores": {
            DECISION.pod.name: {
                "worker-1": {"TaintToleration": 300.0, "NodeResourcesFit": 0.0, "ImageLocality": 5.0},
                "worker-2": {"TaintToleration": 300.0, "NodeResourcesFit": 60.0, "ImageLocality": 0.0},
            }
        },
        "filter_status": {
            DECISION.pod.name: {
                "worker-1": passed,
                "worker-2": passed,
                "worker-3": passed | {"TaintToleration": 0, "NodeAffinity": 2, "NodePorts": 2, "NodeResourcesFit": 2},
                "worker-4": dict.fromkeys(FILTERS, 2) | {"NodeUnschedulable": 0},
            }
        },
        "skipped_scoring": False,
    }


def test_pod_with_one_feasible_node_skipped_scoring(service: Service) -> None:
    service.stored(rows(TABLE), a_decision(nodes=TABLE.names, rejected=REJECTED | {"worker-2": REJECTED["worker-3"]}))
    document = service.get("/pod", name=DECISION.pod.name, namespace="shop")
    assert (document["skipped_scoring"], document["filter_scores"]) == (True, {DECISION.pod.name: {}})


def test_a_filter_with_nothing_to_check_passes_and_a_node_not_evaluated_has_no_status(service: Service) -> None:
    skipped = replace(
        DECISION,
        filters=(FilterColumn("NodePorts", skipped=True), *(f for f in DECISION.filters if f.plugin != "NodePorts")),
        evaluation=array("B", [0, Evaluation.NOT_SAMPLED, 0, 0]),
        rank=array("B", [1, 0, 0, 0]),
        chosen=0,
        totals=array("q", [305, 0, 0, 0]),
    )
    service.stored(rows(TABLE), skipped)
    statuses = service.get("/pod", name=DECISION.pod.name, namespace="shop")["filter_status"][DECISION.pod.name]
    assert sorted(statuses) == ["worker-1", "worker-3", "worker-4"]
    assert {node: s["NodePorts"] for node, s in statuses.items()} == {"worker-1": 1, "worker-3": 1, "worker-4": 1}


def test_node_counts_filters_up_to_the_first_failure(service: Service) -> None:
    service.stored(rows(TABLE), DECISION, a_decision(pod="b", nodes=TABLE.names, sequence=2))
    assert service.get("/node", name="worker-3") == {
        "node_score_total": 0,
        "node_score_attempts": 1,
        "node_score_plugin_total": {"TaintToleration": "0", "NodeResourcesFit": "0", "ImageLocality": "0"},
        "node_filter_pass": {
            "NodeUnschedulable": 2,
            "NodeName": 2,
            "TaintToleration": 1,
            "NodeAffinity": 1,
            "NodePorts": 1,
            "NodeResourcesFit": 1,
        },
        "node_filter_attempts": {
            "NodeUnschedulable": 2,
            "NodeName": 2,
            "TaintToleration": 2,
            "NodeAffinity": 1,
            "NodePorts": 1,
            "NodeResourcesFit": 1,
        },
        "node_eligible_num": 1,
        "node_eligible_check_num": 2,
    }
    one = service.get("/node", name="worker-2")
    assert (one["node_score_total"], one["node_score_plugin_total"]["NodeResourcesFit"]) == (360, "60")


@pytest.mark.parametrize("path", ["/POD", "/Pod", "/Node", "/nODE"])
def test_paths_are_compared_in_lower_case(service: Service, path: str) -> None:
    service.stored(rows(TABLE), DECISION)
    query = {"name": "worker-1"} if path.lower() == "/node" else {"name": DECISION.pod.name, "namespace": "shop"}
    assert service.get(path, **query) == service.get(path.lower(), **query)


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        ("/POD", {}, 400),
        ("/POD/", {}, 404),
        ("/Livez", {}, 404),
        ("/pod", {}, 400),
        ("/pod", {"name": "x"}, 400),
        ("/pod", {"namespace": "shop"}, 400),
        ("/pod", {"name": "x", "namespace": "shop"}, 404),
        ("/pod", {"name": DECISION.pod.name, "namespace": "test"}, 404),
        ("/node", {}, 400),
        ("/node", {"name": ""}, 400),
        ("/node", {"name": "worker-9"}, 404),
        ("/node", {"name": "worker-4"}, 404),
    ],
    ids=repr,
)
def test_status_codes_equal_those_of_the_first_system(
    service: Service, path: str, query: dict[str, Any], code: int
) -> None:
    service.stored(rows(TABLE), DECISION)
    assert service.error(path, **query)["code"] == code
