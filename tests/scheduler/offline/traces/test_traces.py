"""Traces keep their events, refuse what is damaged or undeclared, and openb's columns become events."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.offline.traces.document import (
    Header,
    NodeAdded,
    PodArrived,
    TraceError,
    read_header,
    read_trace,
    write_trace,
)
from scheduler.offline.traces.importing import GPU, OPENB_MISSING, import_openb

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,0,\nb,64000,2048,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "late,4000,512,0,0,,CANARY,Running,20,,\n"
    "early,1000,256,1,460,CANARY,LS,CANARY,5,90,6.0\n"
)
_amounts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 2**53))
_events = st.lists(
    st.builds(NodeAdded, st.floats(0, 1e9), st.text(), _amounts, st.dictionaries(st.text(), st.text()))
    | st.builds(PodArrived, st.floats(0, 1e9), st.text(), _amounts, ended_at_s=st.none() | st.floats(0, 1e9)),
    unique_by=lambda event: (event.at_s, isinstance(event, PodArrived), event.name),
)


@given(_events)
def test_a_trace_has_the_written_events_in_order_of_time_with_nodes_first(
    tmp_path_factory: pytest.TempPathFactory, events: list[NodeAdded | PodArrived]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace"
    assert write_trace(path, events, ["a gap"]) == len(events)
    assert read_header(path) == Header(1, ("a gap",))
    expected = sorted(events, key=lambda event: (event.at_s, isinstance(event, PodArrived), event.name))
    assert list(read_trace(path)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"{}\n", "expected the header of a trace"),
        (b'{"type":"trace","version":2}\n', "version 2"),
        (b'{"type":"trace","version":1}\n{"type":"pod","at_s":1}\n', "line 2"),
        (
            b'{"type":"trace","version":1}\n{"type":"node","at_s":0,"name":"a","allocatable":{},"annotations":{}}\n',
            "annotations",
        ),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(TraceError, match=message):
        list(read_trace(path))


def test_a_truncated_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    write_trace(path, [NodeAdded(0.0, "a", {"cpu": 1})])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TraceError):
        list(read_trace(path))


def test_openb_becomes_events_without_the_columns_that_no_rule_reads(tmp_path: Path) -> None:
    nodes, pods, path = tmp_path / "nodes.csv", tmp_path / "pods.csv.gz", tmp_path / "trace"
    nodes.write_text(NODES)
    pods.write_bytes(gzip.compress(PODS.encode()))
    write_trace(path, import_openb(nodes, pods), OPENB_MISSING)
    assert list(read_trace(path)) == [
        NodeAdded(0, "a", {"cpu": 32000, "memory": 2**30, GPU: 0, "pods": 110}),
        NodeAdded(0, "b", {"cpu": 64000, "memory": 2**31, GPU: 2, "pods": 110}, {"gpu-model": "T4"}),
        PodArrived(5, "early", {"cpu": 1000, "memory": 2**28, GPU: 1}, bound_at_s=6, ended_at_s=90),
        PodArrived(20, "late", {"cpu": 4000, "memory": 2**29}),
    ]
    assert b"CANARY" not in gzip.decompress(path.read_bytes())


@pytest.mark.parametrize("amount", ["-1", "many", "1.5", "inf", "nan", ""])
def test_an_invalid_amount_is_refused_with_its_line_and_column(tmp_path: Path, amount: str) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(f"sn,cpu_milli,memory_mib,gpu,model\na,{amount},1024,0,\n")
    pods.write_text(PODS)
    with pytest.raises(TraceError, match="line 2: cpu_milli"):
        list(import_openb(nodes, pods))
