"""The commands import-trace and simulate: two lists become a trace, and its replays become a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.commands.main import main

PACKED = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    nodes, pods, path = tmp_path / "nodes.csv", tmp_path / "pods.csv", tmp_path / "day.trace"
    nodes.write_text("name,cpu,memory\nn1,4,16Gi\nn2,4,16Gi\n")
    lines = [f"p{i},{i},{20 if i % 2 else ''},1" for i in range(8)]
    pods.write_text("\n".join(["name,arrives_s,runs_s,cpu", *lines]) + "\n")
    assert main(["import-trace", "csv", str(nodes), str(pods), str(path)]) == 0
    return path


def test_two_configurations_are_compared_side_by_side(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed, stock = tmp_path / "packed.yaml", tmp_path / "stock.yaml"
    packed.write_text(PACKED)
    stock.write_text(PACKED.partition("profiles")[0])
    arguments = ["simulate", str(trace), "--config", str(stock), "--config", str(packed), "--seeds", "2"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split()[-2:] for line in text.splitlines()}
    assert rows["pods placed"] == ["8", "8"]
    assert rows["cpu requested, most, %"] == ["100.00", "100.00"]
    assert "note: Labels, taints, selectors and affinity are unknown." in text
    assert main([*arguments, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    first, second = answer["variants"]
    assert [run["seed"] for run in first["runs"]] == [0, 1]
    assert [run["otherNode"] for run in first["runs"]] == [0, 0]
    assert first["runs"][0]["nodesInUse"] > second["runs"][0]["nodesInUse"]
    assert first["runs"][0]["resources"]["cpu"]["peak"] == 1


def test_nodes_are_left_out_by_a_pattern(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(trace), "--remove-nodes", "*2", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["variants"][0]["runs"]
    assert (run["placed"], run["neverPlaced"]) == (8, 0) or run["neverPlaced"] > 0
    assert run["mostNodesInUse"] == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--remove-nodes", "*"], "no pod arrives, or there is no node"),
        (["--seeds", "0"], "--seeds: expected 1 to 100, got 0"),
        (["--config", "/absent.yaml"], "/absent.yaml"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(
    trace: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    capsys.readouterr()
    assert main(["simulate", str(trace), *more]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_file_that_is_no_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("{}")
    assert main(["simulate", str(tmp_path / "x")]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'x'}: ")
