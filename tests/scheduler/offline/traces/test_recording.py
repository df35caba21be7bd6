"""A recorded trace has the arrivals, bindings and ends that the watches showed, and nothing else of the objects."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.resource_api import (
    IMPLICIT_PREFIX,
    ClaimStatus,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from scheduler.engine.objects.types import Namespace, Node, Object, Pod
from scheduler.engine.objects.watched_kinds import ALL_KINDS
from scheduler.engine.objects.workloads import ReplicaSet, Service
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.omitted_labels import OmittedLabels
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces import TraceError, recording
from scheduler.offline.traces.document import (
    Event,
    NodeAdded,
    NodeRemoved,
    ObjectRemoved,
    ObjectSet,
    PodArrived,
    TraceContent,
    read_trace,
)
from scheduler.offline.traces.recording import MISSING, Message, TraceFiles, TraceRecorder
from scheduler.offline.traces.redaction import Pseudonyms
from tests.processes import eventually

CANARY = "CANARY"
NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "uid": CANARY, "annotations": {CANARY: CANARY}, "labels": {"disk": "ssd"}},
    "spec": {"podCIDR": CANARY, "taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "nodeInfo": {"osImage": CANARY}},
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u0",
        "resourceVersion": CANARY,
        "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": CANARY, CANARY: CANARY},
        "labels": {"app": "web", "team": "private"},
        "ownerReferences": [
            {"kind": "StatefulSet", "name": "web", "uid": CANARY, "controller": True},
            {"kind": "Other", "name": CANARY},
        ],
    },
    "spec": {
        "serviceAccountName": CANARY,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}],
        "volumes": [
            {"name": CANARY, "persistentVolumeClaim": {"claimName": CANARY}},
            {"name": CANARY, "secret": {"secretName": CANARY}},
        ],
        "containers": [
            {
                "name": "main",
                "image": "registry.example/web:1",
                "command": [CANARY],
                "args": [CANARY],
                "env": [{"name": CANARY, "value": CANARY}],
                "volumeMounts": [{"name": CANARY, "mountPath": CANARY}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    },
    "status": {"message": CANARY, "conditions": [{"type": "PodScheduled", "status": "False", "message": CANARY}]},
}


DRIVER = "gpu.example.com"
REQUESTS = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]
CONFIG = [{"opaque": {"driver": DRIVER, "parameters": {CANARY: CANARY}}}]
NOISE = {"annotations": {CANARY: CANARY}, "labels": {CANARY: CANARY}, "uid": CANARY, "managedFields": [CANARY]}
RESULT = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
SHARED: dict[str, Any] = {
    "metadata": {"name": "shared", "namespace": "shop", **NOISE, "uid": "c0"},
    "spec": {"devices": {"requests": REQUESTS, "config": CONFIG}},
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}],
                "config": CONFIG,
            },
            "allocationTimestamp": CANARY,
        },
        "reservedFor": [{"resource": "pods", "name": "web-0", "uid": "u0"}],
        "devices": [{"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": [{"type": CANARY}]}],
    },
}


SLICE = {
    "driver": DRIVER,
    "nodeName": "n1",
    "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
    "devices": [{"name": "gpu-0"}],
}


GANG = {
    "schedulingPolicy": {"gang": {"minCount": 2}},
    "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
    "disruptionMode": "PodGroup",
    "priority": 7,
}


def _object(name: str, spec: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", **NOISE}, "spec": spec or {}, **fields}


OBJECTS: list[tuple[type[Object], dict[str, Any]]] = [
    (Namespace, {"metadata": {"name": "shop", "labels": {"team": "a"}, "uid": CANARY}}),
    (Service, _object("web", {"selector": {"app": "web"}, "clusterIP": CANARY})),
    (ReplicaSet, _object("web", {"selector": {"matchLabels": {"app": "web"}}, "template": CANARY})),
    (ResourceClaim, SHARED),
    (ResourceClaimTemplate, _object("gpu", {"metadata": NOISE, "spec": SHARED["spec"]})),
    (DeviceClass, _object("gpu", {"config": CONFIG})),
    (ResourceSlice, _object("n1-gpu", SLICE)),
    (PodGroup, _object("gang", GANG, status={"conditions": [{"type": CANARY}]})),
]
COLLECTIONS = {kind.decode_as: kind.name for kind in ALL_KINDS}


def held(uid: str) -> ClaimStatus:
    """Return the status of a claim that the pod `uid` holds."""
    status = {**SHARED["status"], "reservedFor": [{"resource": "pods", "name": "web-0", "uid": uid}]}
    return msgspec.convert(status, ClaimStatus)


def a_claim(name: str, controller: str = "") -> ResourceClaim:
    """Return a claim without devices, perhaps one with a controller of this kind."""
    owners = [{"kind": controller, "name": CANARY, "uid": "u1", "controller": True}] if controller else None
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
    return msgspec.convert({"metadata": metadata, "spec": SHARED["spec"]}, ResourceClaim)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def node(name: str = "n1", **metadata: Any) -> Node:
    # an extender's manifest is the whole object
    whole = msgspec.convert({**NODE, "metadata": {**NODE["metadata"], "name": name, **metadata}}, Node)
    return replace(whole, manifest=b'{"kind": "CANARY"}')


def pod(uid: str = "u0", on: str = "", phase: str = "Pending", **changes: Any) -> Pod:
    spec, status = {**POD["spec"], "nodeName": on, **changes}, {**POD["status"], "phase": phase}
    whole = msgspec.convert({**POD, "metadata": {**POD["metadata"], "uid": uid}, "spec": spec, "status": status}, Pod)
    return replace(whole, manifest=b'{"kind": "CANARY"}')


class Recording:
    """A recorder on a clock that the test sets, and the messages that the scheduler got."""

    def __init__(
        self, path: Path, limit_bytes: int = 1 << 30, number: int = 9, started_s: float = 1e9, **settings: Any
    ) -> None:
        self.path, self.clock, self.passed = path, Clock(), list[Message]()
        files = TraceFiles(path, limit_bytes, number)
        self.recorder = TraceRecorder(files, clock=self.clock, wall_clock=lambda: started_s, **settings)
        self._sink = self.recorder.tee(self.passed.append)

    def __call__(self, at_s: float, *messages: Message) -> None:
        self.clock.now = 100.0 + at_s
        for message in messages:
            self._sink(message)

    def changed(self, at_s: float, *objects: Node | Pod) -> None:
        self(at_s, *(WatchEvent(NODES if isinstance(each, Node) else PODS, "MODIFIED", each) for each in objects))

    def deleted(self, at_s: float, obj: Node | Pod) -> None:
        self(at_s, WatchEvent(NODES if isinstance(obj, Node) else PODS, "DELETED", obj))

    def read(self) -> TraceContent:
        self.recorder.close()
        return read_trace([self.path])


def content(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def pods(trace: TraceContent) -> list[PodArrived]:
    return [event for event in trace.events if isinstance(event, PodArrived)]


def test_arrivals_bindings_and_ends_are_those_of_the_watches(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, [node("n1"), node("n2")]), ListResult(PODS, [pod("before", on="n1", phase="Running")]))
    record.changed(1, pod("a"))
    record.changed(2, pod("a"), node("n1"))  # nothing new
    record.changed(3, pod("a", on="n2"))
    record.changed(4, pod("gated", schedulingGates=[{"name": "g"}]), pod("waits"))
    record.changed(5, pod("gated"))
    record.changed(6, pod("a", on="n2", phase="Succeeded"), node("n2", labels={"disk": "hdd"}))
    record.deleted(7, pod("a", on="n2", phase="Succeeded"))  # has ended before
    record.deleted(8, node("n1"))
    record.deleted(9, pod("before", on="n1"))
    assert len(record.passed) == 14
    trace = record.read()
    assert trace.missing == list(MISSING)
    assert [
        (each.pod.metadata.uid, each.at_s, each.bound_at_s, each.node, each.ended_at_s, each.was_on_node)
        for each in pods(trace)
    ] == [
        ("before", 0, 0, "n1", 9, True),
        ("a", 1, 3, "n2", 6, False),
        ("waits", 4, None, "", None, False),
        ("gated", 5, None, "", None, False),
    ]
    nodes = [event for event in trace.events if not isinstance(event, PodArrived)]
    assert [(type(each), each.at_s, each.name) for each in nodes] == [
        (NodeAdded, 0, "n1"),
        (NodeAdded, 0, "n2"),
        (NodeAdded, 6, "n2"),
        (NodeRemoved, 8, "n1"),
    ]


def test_times_count_from_a_whole_second_on_which_backoffs_end(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace", started_s=1_800_000_000.25)
    record(1.5, ListResult(NODES, [node()]))
    trace = record.read()
    assert (trace.started, trace.events[0].at_s) == ("2027-01-15T08:00:00Z", 1.75)


def test_a_trace_has_nothing_that_scheduling_does_not_read(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace", omitted=OmittedLabels(("team",)))
    record(0, ListResult(NODES, [node()]), ListResult(PODS, [pod("a"), pod("b", on="n1")]))
    record.changed(1, pod("a", on="n1"), pod("c"))
    record.deleted(2, pod("b", on="n1"))
    (first, _, _) = pods(record.read())
    text = content(tmp_path / "trace")
    assert CANARY not in text
    assert "private" not in text
    assert "StatefulSet" in text
    assert first.pod.metadata.labels == {"app": "web"}
    assert first.pod.spec.node_selector == {"disk": "ssd"}
    assert os.stat(tmp_path / "trace").st_mode & 0o777 == 0o600


def changed(obj: Object, **metadata: Any) -> Object:
    return replace(obj, metadata=replace(obj.metadata, **metadata), manifest=b'{"kind": "CANARY"}')


def test_other_objects_have_their_names_and_what_scheduling_reads(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, [node()]), ListResult(PODS, []))
    decoded = [msgspec.convert(each, kind) for kind, each in OBJECTS]
    for kind, _ in OBJECTS:
        record(1, ListResult(COLLECTIONS[kind], [each for each in decoded if isinstance(each, kind)]))
    for each in decoded:  # only what a trace leaves out has changed
        noise = {"resource_version": "9", "creation_timestamp": "2026-01-01T00:00:00Z"}
        record(2, WatchEvent(COLLECTIONS[type(each)], "MODIFIED", changed(each, **noise)))
    made, waits, of_job = a_claim("made", "Pod"), a_claim("waits"), a_claim("of-job", "TrainJob")
    record(3, *(WatchEvent("resourceclaims", "ADDED", each) for each in (waits, made, of_job)))
    record(4, WatchEvent("resourceclaims", "MODIFIED", replace(waits, status=held("u1"))))  # a decision
    record(5, WatchEvent("replicasets", "DELETED", decoded[2]), WatchEvent("resourceclaims", "DELETED", made))
    trace = record.read()
    events = [event for event in trace.events if isinstance(event, (ObjectSet, ObjectRemoved))]
    listed = [(0.0, type(each).__name__, each.metadata.name) for each in decoded]
    assert [(event.at_s, event.kind, event.name.rpartition("/")[2]) for event in events] == [
        *listed,
        (3, "ResourceClaim", "waits"),
        (3, "ResourceClaim", "of-job"),
        (5, "ReplicaSet", "web"),
    ]
    assert CANARY not in content(tmp_path / "trace")
    set_ = [each for each in events if isinstance(each, ObjectSet)]
    shared = next(each.object for each in set_ if each.name == "ResourceClaim/shop/shared")
    waiting = next(each.object for each in set_ if each.name == "ResourceClaim/shop/waits")
    assert isinstance(shared, ResourceClaim)
    assert isinstance(waiting, ResourceClaim)
    assert (shared.status.reserved_for, waiting.status) == (held("u0").reserved_for, ClaimStatus())


def _figures(trace: TraceContent, **gates: bool) -> tuple[Any, ...]:
    metrics = RunMetrics(["cpu"], max(event.at_s for event in trace.events))
    config = Configuration(profiles=(ProfileConfig(scheduler_name="default-scheduler"),), feature_gates=gates)
    TraceSimulation(config, IN_TREE, 0).run(trace.events, metrics, lambda _: None)
    return metrics.figures(), sorted(metrics.node_of.values())


def test_pseudonyms_hide_every_name_and_keep_every_match(tmp_path: Path) -> None:
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        },
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n3"]}]},
                ]
            }
        },
    }
    traces = []
    for pseudonyms in (None, Pseudonyms()):
        record = Recording(tmp_path / f"trace-{pseudonyms is not None}", pseudonyms=pseudonyms)
        names = ("n1", "n2", "n3")
        labelled = [node(name, labels={"disk": "ssd", "kubernetes.io/hostname": name}) for name in names]
        record(0, ListResult(NODES, labelled), ListResult(PODS, []))
        for i in range(3):
            record.changed(1 + i, pod(f"u{i}", affinity=affinity))
        record.changed(9, pod("u0", on="n1", affinity=affinity))
        traces.append(record.read())
    text = content(tmp_path / "trace-True")
    for word in ("web", "shop", "app", "private", "ssd", "disk", "dedicated", '"db"', "n1", "n3", "registry", "u0"):
        assert word in content(tmp_path / "trace-False")
        assert word not in text
    plain, hidden = map(_figures, traces)
    assert plain[0] == hidden[0]
    assert plain[0].placed == 2  # n3 is excluded by name, and each node takes one pod
    bound = [each for each in pods(traces[1]) if each.node]
    assert bound[0].node in {event.name for event in traces[1].events if isinstance(event, NodeAdded)}


def test_pseudonyms_keep_claims_with_their_devices(tmp_path: Path) -> None:
    traces = []
    for pseudonyms in (None, Pseudonyms()):
        record = Recording(tmp_path / f"trace-{pseudonyms is not None}", pseudonyms=pseudonyms)
        record(0, ListResult(NODES, [node()]), ListResult(PODS, []))
        for kind, each in OBJECTS:
            if kind is not ResourceClaim:
                record(0, ListResult(COLLECTIONS[kind], [msgspec.convert(each, kind)]))
        for i in range(2):
            record.changed(1 + i, pod(f"u{i}", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "gpu"}]))
        traces.append(record.read())
    for word in ("shop", "web", "n1", "gpu-0", '"gpu"'):
        assert word in content(tmp_path / "trace-False")
        assert word not in content(tmp_path / "trace-True")
    plain, hidden = (_figures(trace)[0] for trace in traces)
    assert plain == hidden
    assert (plain.placed, plain.never_placed) == (1, 1)


def test_pseudonyms_keep_groups_with_their_pods(tmp_path: Path) -> None:
    placed = []
    for pseudonyms in (None, Pseudonyms()):
        record = Recording(tmp_path / f"trace-{pseudonyms is not None}", pseudonyms=pseudonyms)
        record(0, ListResult(NODES, [node()]), ListResult(PODS, []))
        record(0, ListResult("podgroups", [msgspec.convert(_object("gang", {**GANG, "priority": None}), PodGroup)]))
        for i in range(2):
            record.changed(1 + i, pod(f"u{i}", schedulingGroup={"podGroupName": "gang"}))
        figures, _ = _figures(record.read(), GenericWorkload=True, GangScheduling=True)
        placed.append(figures.placed)
    assert placed == [2, 2]
    assert "gang" not in content(tmp_path / "trace-True").replace('"gang":', "")


def test_pseudonyms_hide_the_class_that_a_resource_names() -> None:
    requests = {"cpu": "1", "example.com/gpu": "1", f"{IMPLICIT_PREFIX}gold": "1"}
    hidden = Pseudonyms().replace_object({"metadata": {"name": "gold"}, "resources": {"requests": requests}})
    name = hidden["metadata"]["name"]
    assert hidden["resources"]["requests"] == {"cpu": "1", "example.com/gpu": "1", f"{IMPLICIT_PREFIX}{name}": "1"}


def _fill(record: Recording, number: int) -> None:
    record(0, ListResult(NODES, [node()]), ListResult(PODS, [pod("first", on="n1")]))
    for i in range(number):
        record.changed(i + 1, pod(f"pod-{i}"))
        record.changed(i + 1.5, pod(f"pod-{i}", on="n1"))
        if i >= 5:
            record.deleted(i + 1.75, pod(f"pod-{i - 5}", on="n1"))


def test_files_are_rotated_and_each_can_be_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Recording(tmp_path / "whole")
    _fill(whole, 300)
    expected = whole.read()
    monkeypatch.setattr(recording, "FLUSH_S", 0.0)
    record = Recording(tmp_path / "trace", limit_bytes=6_000, number=100)
    _fill(record, 300)
    record.recorder.close()
    files = sorted(tmp_path.glob("trace*"))
    assert len(files) > 3
    assert all(file.stat().st_size < 8_000 for file in files)
    assert read_trace(files) == expected
    alone = read_trace([tmp_path / "trace"])
    last = {each.pod.metadata.uid: each for each in pods(expected)}
    assert {each.pod.metadata.uid for each in pods(alone)} < last.keys()
    assert all(last[each.pod.metadata.uid] == each for each in pods(alone))
    assert "first" in {each.pod.metadata.uid for each in pods(alone)}
    assert alone.events[0] == expected.events[0]
    with pytest.raises(TraceError, match="not consecutive parts"):
        read_trace([files[0], tmp_path / "trace.2"])
    with pytest.raises(TraceError, match="not consecutive parts"):
        read_trace([files[0], tmp_path / "whole"])


def test_the_oldest_files_are_deleted_and_an_earlier_recording_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "FLUSH_S", 0.0)
    (tmp_path / "trace").write_bytes(b"earlier")
    record = Recording(tmp_path / "trace", number=3)
    assert (tmp_path / "trace.1").read_bytes() == b"earlier"
    record.recorder.close()
    record = Recording(tmp_path / "trace", limit_bytes=6_000, number=3)
    _fill(record, 300)
    record.recorder.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["trace", "trace.1", "trace.2"]


def test_pods_of_one_moment_stay_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, []))
    record.changed(1, pod("c"), pod("a"), pod("b"))
    assert [each.pod.metadata.uid for each in pods(record.read())] == ["c", "a", "b"]


def test_a_list_after_an_interruption_ends_what_is_gone(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, [node("n1"), node("n2")]), ListResult(PODS, [pod("a"), pod("b")]))
    record(5, ListResult(NODES, [node("n1")]), ListResult(PODS, [pod("b", on="n1"), pod("c", on="n1")]))
    trace = record.read()
    assert [(each.pod.metadata.uid, each.node, each.ended_at_s, each.was_on_node) for each in pods(trace)] == [
        ("a", "", 5, False),
        ("b", "n1", None, False),
        ("c", "n1", None, True),
    ]
    assert [event.at_s for event in trace.events if isinstance(event, NodeRemoved)] == [5]


def test_pods_that_come_before_their_node_are_recorded_after_it(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(PODS, [pod("a", on="n1")]))
    record(1, ListResult(NODES, [node("n1")]))
    record.changed(2, pod("static", on="n2"), node("n2"))
    record.changed(3, pod("static", on="n2", phase="Running"))
    trace = record.read()
    assert [(event.name, event.at_s) for event in trace.events] == [
        ("n1", 1),
        ("shop/web-0", 1),
        ("n2", 2),
        ("shop/web-0", 3),
    ]


def test_pods_that_wait_for_the_list_of_nodes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_WAITING", 10)
    record = Recording(tmp_path / "trace")
    for i in range(100):
        record.changed(i, pod(f"u{i}"))
    record(100, ListResult(NODES, []))
    trace = record.read()
    recorded = len(pods(trace))
    assert recorded <= 20, "ten that wait for the nodes, and at most ten in the queue"
    assert trace.missing[-1].startswith(f"{100 - recorded} changes of nodes and pods are unknown")


def test_an_evicted_pod_is_not_made_anew_by_the_simulation(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, [node()]), ListResult(PODS, []))
    low: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": "4"}}}], "priority": 0}
    record.changed(1, pod("low", **low))
    record.changed(1, pod("low", on="n1", **low))
    record.changed(2, pod("high", **{**low, "priority": 10}))
    evicted = pod("low", on="n1", **low)
    conditions = [*(evicted.status.conditions or ())]
    target = replace(conditions[0], type="DisruptionTarget", status="True")
    record.deleted(3, replace(evicted, status=replace(evicted.status, conditions=[*conditions, target])))
    record.changed(3, pod("again", **low))
    record.changed(4, pod("high", on="n1", **{**low, "priority": 10}))
    trace = record.read()
    assert [each.was_evicted for each in pods(trace)] == [True, False, False]
    figures, _ = _figures(trace)
    assert (figures.arrived, figures.preempted, figures.placed, figures.never_placed) == (3, 1, 2, 1)


def test_pods_that_were_on_a_node_stay_there_unless_it_is_left_out(tmp_path: Path) -> None:
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, [node("n1"), node("n2")]), ListResult(PODS, [pod("a", on="n2")]))
    record.changed(1, pod("b"))
    trace = record.read()
    figures, nodes = _figures(trace)
    assert (figures.arrived, nodes) == (1, ["n1"])  # the emptier node
    others: list[Event] = [each for each in trace.events if each.name != "n2"]
    figures, nodes = _figures(TraceContent(others, []))
    assert (figures.arrived, figures.placed) == (2, 2)


@contextmanager
def _held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Let the writing thread wait at its first message until the yielded function is called."""
    goes_on = threading.Event()
    record = TraceRecorder._record

    def wait(self: TraceRecorder, at_s: float, message: Message) -> None:
        goes_on.wait(30)
        record(self, at_s, message)

    monkeypatch.setattr(TraceRecorder, "_record", wait)
    yield goes_on.set
    goes_on.set()


def test_the_watches_never_wait_and_lost_messages_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_WAITING", 10)
    with _held(monkeypatch) as go_on:
        record = Recording(tmp_path / "trace")
        record(0, ListResult(NODES, []))
        for i in range(100):
            record.changed(i, pod(f"u{i}"))
        assert len(record.passed) == 101
        go_on()
        trace = record.read()
    recorded = len(pods(trace))
    assert recorded in (9, 10)
    assert trace.missing[-1] == f"{100 - recorded} changes of nodes and pods are unknown: they came too fast."


def test_a_full_disk_ends_the_trace_and_not_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "FLUSH_S", 0.0)
    record = Recording(tmp_path / "trace")
    record(0, ListResult(NODES, []))
    record.changed(0, pod("a"), pod("b"))
    eventually(lambda: len(pods(read_trace([tmp_path / "trace"]))) == 2, "both to be written")
    real = os.write

    def fail(descriptor: int, data: Any) -> int:
        if len(data) > 20:
            return real(descriptor, bytes(data)[:20])  # a part, as the last bytes of a disk
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    for i in range(50):
        record.changed(2, pod(f"c{i}"))
    assert len(record.passed) == 53
    trace = record.read()
    assert [each.pod.metadata.uid for each in pods(trace)] == ["a", "b"]
