"""A kube-scheduler's own log at -v=10 (tests/golden/logs), held against the objects and events at its end."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pytest

from herodotus_answers.decision import build_decision_document
from herodotus_record.model import DecisionPath, NodeTable
from scheduler.offline.read_log.reader import AttemptFrames, LogReader
from tests.support.answers import as_json
from tests.support.scheduler_logs import LOGS, recorded_lines

NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)
Json = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> Json:
    found: Json = json.loads(gzip.decompress((LOGS / "objects.json.gz").read_bytes()))
    return found


@pytest.fixture(scope="module")
def reads() -> list[AttemptFrames]:
    return list(LogReader(now=lambda: NOW).all(recorded_lines()))


@pytest.fixture(scope="module")
def documents(reads: list[AttemptFrames]) -> list[Json]:
    table, found = NodeTable(), []
    for read in reads:
        if read.rows is not None:
            table.apply(read.rows)
        found.append(as_json(build_decision_document(read.decision, (read.outcome,) if read.outcome else (), table)))
    return found


def pod_of(document: Json) -> str:
    return f"{document['metadata']['namespace']}/{document['spec']['pod']['name']}"


def test_every_attempt_of_the_log_is_a_decision(documents: list[Json]) -> None:
    assert len(documents) == sum('"Attempting to schedule pod"' in line for line in recorded_lines())


def test_the_chosen_node_is_the_pods_node(documents: list[Json], objects: Json) -> None:
    last = {pod_of(d): d["status"]["node"] for d in documents}
    pods = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p["spec"].get("nodeName") for p in objects["pods"]}
    assert {pod: last[pod] for pod in pods} == pods
    assert last.keys() - pods.keys() == {"default/p-013"}  # preempted


def test_messages_are_those_of_the_events(documents: list[Json], objects: Json) -> None:
    """The scheduler ended before one event was written; its words are in the pod's condition."""
    told = {
        (f"{e['regarding']['namespace']}/{e['regarding']['name']}", e["note"])
        for e in objects["events"]
        if e["reason"] == "FailedScheduling"
    }
    read = {(pod_of(d), d["status"]["message"]) for d in documents if d["status"]["message"]}
    assert told - read == set()
    conditions = {
        (f"{p['metadata']['namespace']}/{p['metadata']['name']}", c.get("message"))
        for p in objects["pods"]
        for c in p["status"].get("conditions", ())
    }
    assert len(read - told) == 1
    assert read - told <= conditions


def test_totals_and_weighted_points_are_those_of_the_lines(reads: list[AttemptFrames]) -> None:
    """Nothing is lost on the way from 926 lines with points to the records' columns."""
    for read in reads:
        d = read.decision
        for slot, total in enumerate(d.totals):
            assert total == sum(s.normalized[slot] * s.weight for s in d.scores)
    assert sum(len([r for r in read.decision.rank if r]) for read in reads if len(read.decision.totals)) == 126
    assert all(0 <= n <= 100 for read in reads for s in read.decision.scores for n in s.normalized)


def test_the_best_total_was_chosen(reads: list[AttemptFrames]) -> None:
    scored = [r.decision for r in reads if len(r.decision.totals) and r.decision.chosen is not None]
    assert [d.rank[d.chosen] for d in scored if d.chosen is not None] == [1] * len(scored) == [1] * 27


def test_paths_are_distinguished_only_if_the_log_does(reads: list[AttemptFrames]) -> None:
    """One node looked at that fits may have been nominated: the log does not say, so the record does not."""
    assert Counter(read.decision.path for read in reads) == {
        DecisionPath.SCORED: 27,
        DecisionPath.ONLY_FEASIBLE: 8,
        DecisionPath.UNKNOWN: 1,
        DecisionPath.NONE: 33,
    }


def test_preemption_names_its_node_and_victim(documents: list[Json]) -> None:
    (found,) = [d["spec"] for d in documents if d["spec"]["preemption"]]
    assert (found["pod"]["name"], found["preemption"]["nominatedNode"]) == ("p-029", "node-004")
    assert found["preemption"]["candidates"][0]["victims"] == ["default/p-013"]


def test_taints_are_those_of_the_nodes(documents: list[Json], objects: Json) -> None:
    taints = {
        (n["metadata"]["name"], t["key"], t.get("value", ""), t["effect"])
        for n in objects["nodes"]
        for t in n["spec"].get("taints", ())
    }
    for document in documents:
        for column in document["spec"]["filters"]:
            for node, verdict in column["rejected"].items() if column["plugin"] == "TaintToleration" else ():
                params = verdict["reasons"][0]["params"]
                assert (node, params["key"], params.get("value", ""), params["effect"]) in taints


def test_unlogged_values_are_null(documents: list[Json]) -> None:
    for document in documents:
        spec = document["spec"]
        assert (spec["pod"]["uid"], spec["pod"]["requests"], spec["pod"]["labels"]) == (None, None, None)
        assert (spec["seed"], spec["times"]["podCreatedAt"], spec["preFilters"]) == (None, None, None)
        assert all(column["raw"] is None for column in spec["scores"])


def test_reading_again_gives_the_same_records(reads: list[AttemptFrames]) -> None:
    """So that delivering them again stores nothing twice."""
    assert list(LogReader(now=lambda: NOW).all(recorded_lines())) == reads
