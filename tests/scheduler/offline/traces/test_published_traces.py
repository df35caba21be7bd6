"""The traces of Azure and Borg become events, from small files in the published schemas."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.azure import import_azure_packing
from scheduler.offline.traces.borg import import_borg
from scheduler.offline.traces.document import NodeAdded, NodeRemoved, PodArrived, TraceContent

DAY_S = 86_400


def requests(pod: Pod) -> dict[str, Any]:
    (container,) = pod.spec.containers or []
    assert container.resources is not None
    return dict(container.resources.requests or {})


def pods(trace: TraceContent) -> list[PodArrived]:
    return [event for event in trace.events if isinstance(event, PodArrived)]


def simulate(trace: TraceContent) -> RunMetrics:
    config = Configuration(profiles=(ProfileConfig(scheduler_name="default-scheduler"),))
    metrics = RunMetrics.from_events(trace.events)
    TraceSimulation(config, IN_TREE, 0).run(trace.events, metrics, lambda _: None)
    return metrics


@pytest.fixture
def azure(tmp_path: Path) -> tuple[Path, Path]:
    machines, database = tmp_path / "machines.csv", tmp_path / "packing.sqlite"
    machines.write_text("machine,count\n16,2\n")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "CREATE TABLE vmType (id INTEGER, vmTypeId INTEGER, machineId INTEGER,"
            " core REAL, memory REAL, hdd REAL, ssd REAL, nic REAL)"
        )
        connection.execute(
            "CREATE TABLE vm (vmId INTEGER, tenantId INTEGER, vmTypeId INTEGER, priority INTEGER,"
            " starttime REAL, endtime REAL)"
        )
        types = [
            (1, 7, 16, 0.5, 0.25, 0.0, 0.125, 0.015625),
            (2, 7, 17, 1.0, 0.5, None, 0.5, 0.5),
            (3, 8, 16, 1, 1, None, None, None),
            (4, 9, 17, 0.1, 0.1, 0.0, 0.0, 0.0),
        ]
        connection.executemany("INSERT INTO vmType VALUES (?, ?, ?, ?, ?, ?, ?, ?)", types)
        machines_of_vms = [
            (1, 100, 7, 0, -3.5, None),
            (2, 100, 7, 1, 0.5, 2.5),
            (3, 101, 8, 1, 1.25, 1.5),
            (4, 101, 9, 1, 2.0, 3.0),
            (5, 101, 7, 1, -9.0, -1.0),
        ]
        connection.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", machines_of_vms)
    return machines, database


def test_virtual_machines_of_azure_arrive_and_end_in_seconds_and_take_shares_of_one_type_of_machines(
    azure: tuple[Path, Path],
) -> None:
    trace = import_azure_packing(*azure)
    nodes = [event for event in trace.events if isinstance(event, NodeAdded)]
    assert [node.name for node in nodes] == ["machine-0", "machine-1"]
    allocatable = nodes[0].node.status.allocatable or {}
    assert (allocatable["cpu"], allocatable["memory"], allocatable["azure.com/ssd"]) == (
        "1000000m",
        str(10**12),
        "1000000",
    )
    assert [(pod.name, pod.at_s, pod.ended_at_s, pod.pod.spec.priority) for pod in pods(trace)] == [
        ("default/vm-1", 0, None, 1),
        ("default/vm-2", 0.5 * DAY_S, 2.5 * DAY_S, 0),
        ("default/vm-3", 1.25 * DAY_S, 1.5 * DAY_S, 0),
    ]
    assert requests(pods(trace)[0].pod) == {
        "cpu": "500000m",
        "memory": str(10**12 // 4),
        "azure.com/ssd": "125000",
        "azure.com/nic": "15625",
    }
    assert pods(trace)[0].pod.metadata.labels == {"tenant": "100", "type": "7"}
    assert trace.missing[-1] == "1 virtual machine cannot run on machine 16."
    assert simulate(trace).figures().placed == 3


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ("machine,count\n18,2\n", "no type of virtual machines runs on machine 18"),
        ("machine,count\n16,2\n17,2\n", "expected one type of machines, found 2"),
        ("machine,count\n16,0\n", "count: expected a number from 1"),
        ("machine\n16\n", "line 2: count: required"),
    ],
)
def test_machines_of_azure_that_are_unknown_or_of_several_types_are_refused(
    azure: tuple[Path, Path], machines: str, message: str
) -> None:
    azure[0].write_text(machines)
    with pytest.raises(TraceError, match=message):
        import_azure_packing(*azure)


def test_a_file_that_is_no_database_of_azure_is_refused(tmp_path: Path, azure: tuple[Path, Path]) -> None:
    with pytest.raises(TraceError, match=r"absent\.sqlite: unable to open"):
        import_azure_packing(azure[0], tmp_path / "absent.sqlite")
    assert not (tmp_path / "absent.sqlite").exists()
    with pytest.raises(TraceError, match="not a database"):
        import_azure_packing(azure[0], azure[0])


MACHINES = (
    "time,machine_id,type,switch_id,capacity.cpus,capacity.memory,platform_id\n"
    "0,5,1,sw1,0.5,0.25,p1\n0,6,ADD,sw2,1,1,p1\n900000000,5,3,sw1,0.75,0.25,p1\n1000000000,6,2,,,,\n"
)
COLLECTIONS = (
    "time,type,collection_id,collection_type,priority,max_per_machine\n0,0,30,0,200,1\n0,0,30,0,200,1\n0,0,31,1,360,\n"
)
REQUEST = {"cpus": 0.125, "memory": 0.0625}


def instance(at_s: float, kind: int | str, index: int = 0, collection: int = 30, **columns: Any) -> dict[str, Any]:
    event = {"time": str(int(at_s * 1e6)), "collection_id": str(collection), "instance_index": index, "priority": 200}
    return {**event, "type": kind, "resource_request": REQUEST, "machine_id": None, **columns}


def borg(folder: Path, *instances: dict[str, Any]) -> TraceContent:
    paths = [folder / name for name in ("machines.csv", "collections.csv", "instances.json")]
    paths[0].write_text(MACHINES)
    paths[1].write_text(COLLECTIONS)
    paths[2].write_text("".join(json.dumps(each) + "\n" for each in instances))
    return import_borg(*paths)


def test_machines_of_borg_join_change_and_leave(tmp_path: Path) -> None:
    nodes = [event for event in borg(tmp_path).events if not isinstance(event, PodArrived)]
    assert [(type(node), node.at_s, node.name) for node in nodes] == [
        (NodeAdded, 0, "5"),
        (NodeAdded, 0, "6"),
        (NodeAdded, 900, "5"),
        (NodeRemoved, 1000, "6"),
    ]
    added = [node.node for node in nodes if isinstance(node, NodeAdded)]
    assert [(node.status.allocatable or {})["cpu"] for node in added] == ["500000m", "1000000m", "750000m"]
    assert (added[0].metadata.labels or {})["switch"] == "sw1"


def test_an_instance_of_borg_is_a_pod_each_time_that_it_is_eligible(tmp_path: Path) -> None:
    trace = borg(
        tmp_path,
        instance(700, "SCHEDULE", machine_id="5"),
        instance(650, 2),
        instance(600, 0, machine_id=0),
        instance(640, 1),
        instance(800, 4),
        instance(800, 0),
        instance(820, 3, machine_id="6"),
        instance(900, 6),
    )
    first, second = pods(trace)
    assert (first.name, first.at_s, first.bound_at_s, first.node, first.ended_at_s, first.was_evicted) == (
        *("default/30-0", 650, 700, "5", 800, True),
    )
    assert (second.at_s, second.bound_at_s, second.node, second.ended_at_s, second.was_evicted) == (
        *(800, 820, "6", 900, False),
    )
    assert first.pod.metadata.uid != second.pod.metadata.uid
    assert requests(first.pod) == {"cpu": "125000m", "memory": "62500000000"}
    assert first.owner_kind == "Job"
    assert first.pod.spec.priority == 200


def test_instances_of_borg_from_before_the_trace_are_on_their_machine_and_others_may_wait_forever(
    tmp_path: Path,
) -> None:
    trace = borg(
        tmp_path,
        instance(0, 0),
        instance(0, 3, machine_id="5"),
        instance(700, 0, index=1),
        instance(700, 0, index=2),
        instance(710, 7, index=2),
    )
    there, waits, killed = pods(trace)
    assert (there.was_on_node, there.node, there.ended_at_s) == (True, "5", None)
    assert (waits.bound_at_s, waits.node, waits.ended_at_s) == (None, "", None)
    assert (killed.bound_at_s, killed.ended_at_s) == (None, 710)


def test_a_request_of_borg_that_changes_before_the_schedule_counts_and_a_later_one_does_not(tmp_path: Path) -> None:
    trace = borg(
        tmp_path,
        instance(600, 0),
        instance(610, 9, resource_request={"cpus": 0.5, "memory": 0.5}),
        instance(620, 3, machine_id="6", resource_request={"cpus": 0.5, "memory": 0.5}),
        instance(630, 10, resource_request={"cpus": 0.75, "memory": 0.75}),
        instance(640, 6),
    )
    (pod,) = pods(trace)
    assert requests(pod.pod)["cpu"] == "500000m"
    assert (pod.at_s, pod.ended_at_s) == (600, 640)


def test_tasks_of_borg_in_alloc_instances_and_instances_without_a_request_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    trace = borg(
        tmp_path,
        instance(600, 0, collection=31),
        instance(600, 0, index=1, alloc_collection_id="31", alloc_instance_index=0),
        instance(600, 0, index=2, resource_request=None),
        instance(601, 3, index=2, resource_request=None, machine_id="5"),
    )
    (alloc,) = pods(trace)
    assert alloc.owner_kind == "AllocSet"
    assert [each for each in trace.missing if "left out" in each] == [
        "1 task left out: they run in alloc instances, whose requests count.",
        "1 instance left out: no event says what they request.",
    ]


def test_one_instance_of_a_collection_of_borg_fits_on_a_machine_if_it_says_so(tmp_path: Path) -> None:
    trace = borg(tmp_path, *(instance(600, 0, index=i) for i in range(3)))
    figures = simulate(trace).figures()
    assert (figures.placed, figures.never_placed) == (2, 1)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (instance(600, "START"), "line 1: type: expected one of SUBMIT"),
        (instance(600, 11), "line 1: type: expected one of SUBMIT"),
        (instance(600, 0, resource_request={"cpus": -1}), r"line 1: resource_request\.cpus: expected a share"),
        (instance(600, 3, machine_id="m"), "line 1: machine_id: expected a number"),
        ({"time": 1, "type": 0}, "line 1: collection_id: required"),
    ],
)
def test_an_invalid_event_of_borg_is_refused(tmp_path: Path, event: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        borg(tmp_path, event)


def test_a_line_that_is_no_json_is_refused_with_its_place(tmp_path: Path) -> None:
    borg(tmp_path)
    (tmp_path / "instances.json").write_text("{}\n".replace("}", ""))
    with pytest.raises(TraceError, match=r"instances\.json: line 1"):
        import_borg(tmp_path / "machines.csv", tmp_path / "collections.csv", tmp_path / "instances.json")
