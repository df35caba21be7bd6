"""Traces keep their events, refuse what is damaged or undeclared, and lists of nodes and pods become events."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.engine.objects.types import Node, Pod
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import (
    Event,
    NodeAdded,
    NodeRemoved,
    PodArrived,
    read_trace,
    sort_events,
    write_trace,
)
from scheduler.offline.traces.importing import GPU_MILLI, MODEL_LABEL, OPENB_MISSING, import_csv, import_openb
from scheduler.offline.traces.redaction import redact_node, redact_pod
from tests.scheduler.builders import expression, make_node, make_pod, term

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,0,\nb,64000,2048,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "late,4000,512,0,0,,CANARY,Running,20,,\n"
    "early,1000,256,1,460,T4|A10,LS,CANARY,5,90,6.0\n"
)
_names = st.text(min_size=1, max_size=8)
_times = st.floats(0, 1e9)
_nodes = st.builds(
    NodeAdded,
    _times,
    st.builds(lambda name, cpu: make_node(name).allocatable(cpu=cpu).obj(), _names, st.integers(0, 2**31)),
)
_pods = st.builds(
    PodArrived,
    _times,
    st.builds(lambda name, cpu: make_pod(name).request(cpu=str(cpu)).obj(), _names, st.integers(0, 2**31)),
    ended_at_s=st.none() | _times,
)
_events = st.lists(
    _nodes | _pods | st.builds(NodeRemoved, _times, _names),
    unique_by=lambda event: (type(event), event.at_s, event.name),
)


def _redacted(event: Event) -> Event:
    match event:
        case NodeAdded():
            return NodeAdded(event.at_s, redact_node(event.node))
        case PodArrived():
            return replace(event, pod=redact_pod(event.pod))
    return event


@given(_events)
def test_a_trace_has_the_written_events_in_order_of_time(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace"
    assert write_trace(path, events, ["a gap"]) == len(events)
    trace = read_trace([path])
    assert trace.missing == ["a gap"]
    assert trace.events == sort_events(sorted(map(_redacted, events), key=lambda event: event.name))
    content = path.read_bytes()
    write_trace(path, events, ["a gap"])
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"{}\n", "expected the header of a trace"),
        (b'{"type":"trace","version":3}\n', "version 3"),
        (b'{"type":"trace","version":1}\n{"type":"pod","at_s":1}\n', "line 2"),
        (b'{"type":"trace","version":1}\n{"type":"pod","at_s":1,"template":7,"name":"p","uid":"u"}\n', "template 7"),
        (b'{"type":"trace","version":1}\n{"type":"node-removed","at_s":0,"name":"a","why":""}\n', "why"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(TraceError, match=message):
        read_trace([path])


def test_a_truncated_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    write_trace(path, [NodeRemoved(0.0, "a")])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TraceError):
        read_trace([path])


def test_a_trace_has_nothing_of_an_object_that_scheduling_does_not_read(tmp_path: Path) -> None:
    container = {
        "name": "main",
        "env": [{"name": "CANARY", "value": "CANARY"}],
        "args": ["CANARY"],
        "resources": {"requests": {"cpu": "1"}},
    }
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": {"CANARY": "CANARY"}},
        "spec": {"containers": [container], "nodeSelector": {"zone": "a"}, "serviceAccountName": "CANARY"},
        "status": {"message": "CANARY"},
    }
    node = {"metadata": {"name": "n", "annotations": {"CANARY": "CANARY"}, "labels": {"zone": "a"}}}
    path = tmp_path / "trace"
    write_trace(path, [NodeAdded(0.0, msgspec.convert(node, Node)), PodArrived(1.0, msgspec.convert(pod, Pod))])
    content = gzip.decompress(path.read_bytes())
    assert b"CANARY" not in content
    _, arrived = read_trace([path]).events
    assert isinstance(arrived, PodArrived)
    metadata = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
    assert arrived.pod == msgspec.convert({**pod, "metadata": metadata, "status": {"phase": "Pending"}}, Pod)


def test_openb_becomes_events_without_the_columns_that_no_rule_reads(tmp_path: Path) -> None:
    nodes, pods, path = tmp_path / "nodes.csv", tmp_path / "pods.csv.gz", tmp_path / "trace"
    nodes.write_text(NODES)
    pods.write_bytes(gzip.compress(PODS.encode()))
    write_trace(path, import_openb(nodes, pods), OPENB_MISSING)
    a, b, early, late = read_trace([path]).events
    assert isinstance(a, NodeAdded)
    assert isinstance(b, NodeAdded)
    assert isinstance(early, PodArrived)
    assert isinstance(late, PodArrived)
    assert a.node.status.allocatable == {"cpu": "32000m", "memory": "1024Mi", "pods": 110}
    assert b.node.status.allocatable == {"cpu": "64000m", "memory": "2048Mi", GPU_MILLI: "2000", "pods": 110}
    assert (b.node.metadata.labels or {})[MODEL_LABEL] == "T4"
    assert (early.name, early.at_s, early.bound_at_s, early.ended_at_s, early.runs_s) == ("default/early", 5, 6, 90, 84)
    assert (late.name, late.at_s, late.bound_at_s, late.runs_s) == ("default/late", 20, None, None)
    (container,) = early.pod.spec.containers or []
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "1000m", "memory": "256Mi", GPU_MILLI: "460"}
    models = make_pod().required_terms(term(expression(MODEL_LABEL, "In", "T4", "A10"))).obj()
    assert early.pod.spec.affinity == models.spec.affinity
    assert late.pod.spec.affinity is None
    assert b"CANARY" not in gzip.decompress(path.read_bytes())


def test_a_list_of_openb_without_times_arrives_at_once(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nwhole,4000,512,2,1000\n")
    *_, pod = import_openb(nodes, pods)
    assert isinstance(pod, PodArrived)
    assert (pod.at_s, pod.ended_at_s) == (0, None)
    (container,) = pod.pod.spec.containers or []
    assert container.resources is not None
    assert (container.resources.requests or {})[GPU_MILLI] == "2000"


@pytest.mark.parametrize("amount", ["-1", "many", "1.5", "inf", "nan", ""])
def test_an_invalid_number_is_refused_with_its_line_and_column(tmp_path: Path, amount: str) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(f"sn,cpu_milli,memory_mib,gpu,model\na,{amount},1024,0,\n")
    pods.write_text(PODS)
    with pytest.raises(TraceError, match="line 2: cpu_milli"):
        list(import_openb(nodes, pods))


def test_lists_in_our_own_columns_become_events(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("name,cpu,memory,pods\nn,4,16Gi,10\n")
    pods.write_text(
        "name,namespace,owner,priority,arrives_s,runs_s,cpu,example.com/x\nweb,shop,ReplicaSet/web,10,1.5,30,500m,2\n"
    )
    node, pod = import_csv(nodes, pods)
    assert isinstance(node, NodeAdded)
    assert isinstance(pod, PodArrived)
    assert node.node.status.allocatable == {"pods": "10", "cpu": "4", "memory": "16Gi"}
    assert (pod.name, pod.at_s, pod.runs_s, pod.pod.spec.priority) == ("shop/web", 1.5, 30, 10)
    assert [(o.kind, o.name, o.controller) for o in pod.pod.metadata.owner_references or ()] == [
        ("ReplicaSet", "web", True)
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,-1,,1", "arrives_s: expected seconds"),
        ("a,inf,,1", "arrives_s: expected seconds"),
        ("a,1,x,1", "runs_s: expected seconds"),
        ("a,1,,lots", "cpu: expected an amount"),
        (",1,,1", "name: required"),
    ],
)
def test_an_invalid_row_in_our_own_columns_is_refused(tmp_path: Path, row: str, message: str) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("name,cpu\nn,4\n")
    pods.write_text(f"name,arrives_s,runs_s,cpu\n{row}\n")
    with pytest.raises(TraceError, match=f"line 2: {message}"):
        list(import_csv(nodes, pods))
