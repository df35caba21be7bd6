"""The command import-trace: files of another format become a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.commands.main import main
from scheduler.offline.traces.document import read_trace
from scheduler.offline.traces.importing import CSV_MISSING


def test_lists_become_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes, pods, path = tmp_path / "nodes.csv", tmp_path / "pods.csv", tmp_path / "day.trace"
    nodes.write_text("name,cpu\nn1,4\n")
    pods.write_text("name,arrives_s,cpu\np,3,1\n")
    assert main(["import-trace", "csv", str(nodes), str(pods), str(path)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        *(f"note: {sentence}" for sentence in CSV_MISSING),
        f"{path}: 2 events, {path.stat().st_size} bytes",
    ]
    trace = read_trace([path])
    assert [(event.at_s, event.name) for event in trace.events] == [(0, "n1"), (3, "default/p")]
    assert trace.missing == [*CSV_MISSING]


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    for path in (nodes, pods):
        path.write_text("name\n")
    assert main(["import-trace", "csv", str(nodes), str(pods)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {pods}: there is such a file")
    assert pods.read_text() == "name\n"


@pytest.mark.parametrize(
    ("name", "files"),
    [("csv", "NODES PODS"), ("azure-packing", "MACHINES SQLITE"), ("borg", "MACHINES COLLECTIONS INSTANCES")],
)
def test_each_format_says_which_files_it_needs(
    name: str, files: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import-trace", name, "one", str(tmp_path / "new")]) == 1
    assert capsys.readouterr().err == f"error: {name}: expected {files}, found 1 file\n"


def test_several_states_of_a_cluster_become_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {{name: {}, creationTimestamp: '2026-03-01T12:0{}:00Z'}}\n"
    states = [tmp_path / "1.yaml", tmp_path / "2.yaml"]
    states[0].write_text(node.format("a", 0))
    states[1].write_text(node.format("b", 1))
    assert main(["import-trace", "cluster", *map(str, states), str(tmp_path / "trace")]) == 0
    assert "note: A pod arrives when it was created" in capsys.readouterr().err
    assert [(event.at_s, event.name) for event in read_trace([tmp_path / "trace"]).events] == [
        (0, "a"),
        (60, "a"),
        (60, "b"),
    ]


def test_a_trace_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nodes", "pods"):
        (tmp_path / name).write_text("name\n")
    path = tmp_path / "absent" / "day.trace"
    assert main(["import-trace", "csv", str(tmp_path / "nodes"), str(tmp_path / "pods"), str(path)]) == 1
    assert capsys.readouterr().err == f"error: {path}: No such file or directory\n"
