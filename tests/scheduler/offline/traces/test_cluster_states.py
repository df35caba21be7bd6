"""States of a cluster become the arrivals, bindings and ends that follow from them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.snapshots.document import snapshot
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.cluster_states import import_cluster_states
from scheduler.offline.traces.document import NodeAdded, NodeRemoved, PodArrived, TraceContent

Json = dict[str, Any]
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def node(name: str, created_s: float = -600, heartbeat_s: float = 0, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": at(created_s), "labels": labels},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": at(heartbeat_s)}],
        },
    }


def pod(name: str, created_s: float, bound_s: float | None = None, on: str = "n1", **changes: Any) -> Json:
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound_s or 0)}]
    status = {"phase": "Pending"} if bound_s is None else {"phase": "Running", "conditions": conditions}
    requests = {"cpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": at(created_s)}
        | changes.pop("metadata", {}),
        "spec": {"nodeName": on if bound_s is not None else "", "containers": [{"resources": {"requests": requests}}]}
        | changes.pop("spec", {}),
        "status": status | changes.pop("status", {}),
    }


def listed(folder: Path, name: str, *objects: Json) -> Path:
    path = folder / name
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


def taken(folder: Path, name: str, at_s: float, *objects: Json) -> Path:
    path = folder / name
    path.write_text(json.dumps(snapshot(objects, cluster="c", server="v1.36", taken_at=at(at_s), full=True)))
    return path


def pods(trace: TraceContent) -> list[tuple[str, float, float | None, str, float | None]]:
    return [
        (event.pod.metadata.name, event.at_s, event.bound_at_s, event.node, event.ended_at_s)
        for event in trace.events
        if isinstance(event, PodArrived)
    ]


def test_one_state_has_the_arrivals_and_bindings_of_the_pods_that_are_left(tmp_path: Path) -> None:
    finished = {
        "phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": at(90)}}}],
    }
    trace = import_cluster_states(
        listed(
            tmp_path,
            "cluster.json",
            node("n1"),
            node("n2", created_s=30),
            pod("first", 10, 12),
            pod("job", 20, 21, status=finished),
            pod("waits", 40),
            pod("gated", 50, spec={"schedulingGates": [{"name": "g"}]}),
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "skipped"}},
        )
    )
    assert pods(trace) == [
        ("first", 0, 2, "n1", None),
        ("job", 10, 11, "n1", 80),
        ("waits", 30, None, "", None),
    ]
    assert [(event.name, event.at_s) for event in trace.events if isinstance(event, NodeAdded)] == [
        ("n1", 0),
        ("n2", 20),
    ]
    assert trace.missing


def test_what_is_gone_in_a_later_state_ended_at_its_moment(tmp_path: Path) -> None:
    first = taken(tmp_path, "1.json", 100, node("n1"), node("n2"), pod("a", 0, 1), pod("b", 10, 11), pod("w", 20))
    second = taken(
        tmp_path, "2.json", 200, node("n1", disk="ssd"), node("n3", 150), pod("b", 10, 11), pod("w", 20, 130)
    )
    third = listed(tmp_path, "3.json", node("n1", heartbeat_s=300, disk="ssd"), node("n3", 150), pod("w", 20, 130))
    trace = import_cluster_states(first, second, third)
    assert pods(trace) == [
        ("a", 0, 1, "n1", 200),
        ("b", 10, 11, "n1", 300),
        ("w", 20, 130, "n1", None),
    ]
    nodes = [event for event in trace.events if not isinstance(event, PodArrived)]
    assert [(type(event), event.name, event.at_s) for event in nodes] == [
        (NodeAdded, "n1", 0),
        (NodeAdded, "n2", 0),
        (NodeAdded, "n3", 150),
        (NodeRemoved, "n2", 200),
        (NodeAdded, "n1", 200),
    ]


def test_a_static_pod_stays_on_its_node_and_a_pod_that_was_evicted_is_marked(tmp_path: Path) -> None:
    owner = {"ownerReferences": [{"kind": "Node", "name": "n1", "controller": True}]}
    target = {"conditions": [{"type": "DisruptionTarget", "status": "True"}], "phase": "Failed"}
    trace = import_cluster_states(
        taken(tmp_path, "1.json", 9, node("n1"), pod("static", 0, 0, metadata=owner), pod("gone", 1, 2, status=target))
    )
    static, gone = (event for event in trace.events if isinstance(event, PodArrived))
    assert (static.was_on_node, static.was_evicted) == (True, False)
    assert (gone.was_evicted, gone.ended_at_s) == (True, 9)


def test_a_trace_of_states_can_be_simulated(tmp_path: Path) -> None:
    states = [
        taken(tmp_path, "1.json", 50, node("n1"), *(pod(f"p{i}", i, i) for i in range(4)), pod("late", 20)),
        taken(tmp_path, "2.json", 90, node("n1"), *(pod(f"p{i}", i, i) for i in range(3)), pod("late", 20, 60)),
    ]
    trace = import_cluster_states(*states)
    metrics = RunMetrics.from_events(trace.events)
    config = Configuration(profiles=(ProfileConfig(scheduler_name="default-scheduler"),))
    TraceSimulation(config, IN_TREE, 0).run(trace.events, metrics, lambda _: None)
    figures = metrics.figures()
    assert (figures.placed, figures.never_placed) == (5, 0)
    assert metrics.placed_s["shop/late"] == 90


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ([node("n1"), pod("a", 0, 1)], r"2\.json: its moment, 2026-03-01T12:00:01.*, is not after 2026-03-01T12:01:40"),
        ([pod("a", 0, 1)], r"2\.json: no Node in the cluster"),
        ([node("n1") | {"metadata": {"name": "n1", "creationTimestamp": "now"}}], "creationTimestamp"),
        ([{"kind": "Pod"}], r"2\.json: items\[0\]"),
    ],
)
def test_states_that_are_invalid_or_out_of_order_are_refused(tmp_path: Path, second: list[Json], message: str) -> None:
    first = taken(tmp_path, "1.json", 100, node("n1"))
    with pytest.raises(TraceError, match=message):
        import_cluster_states(first, listed(tmp_path, "2.json", *second))
