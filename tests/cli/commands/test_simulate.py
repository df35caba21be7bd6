"""`kubectl herodotus simulate`: a trace becomes figures of several configurations, as a screen and as a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from pyarrow import parquet as pq

from herodotus_answers.simulation import (
    SimulatedDifference,
    SimulatedMoment,
    SimulatedResource,
    SimulatedRun,
    build_simulation,
)
from herodotus_cli import progress
from herodotus_cli.render import plain_text, simulation, terminal
from herodotus_endpoint import extras
from scheduler.engine.objects.types import Pod
from scheduler.offline.simulate.metrics import ResourceShare, SimulationFigures
from scheduler.offline.simulate.moments import Moment
from scheduler.offline.traces.document import PodArrived, read_trace, write_trace
from scheduler.offline.traces.importing import CSV_MISSING, import_csv
from tests.answer_schemas import validate
from tests.cli.service import Ran, command
from tests.support.screens import VIEWS, expect

Json = dict[str, Any]

STOCK = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKED = f"""{STOCK}profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
"""
OWN_PLUGIN = f"{STOCK}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: 'no_such_module:Plugin'}}]}}}}}}]\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    nodes, pods, path = tmp_path / "nodes.csv", tmp_path / "pods.csv", tmp_path / "day.trace"
    nodes.write_text("name,cpu,memory\nn1,4,16Gi\nn2,4,16Gi\n")
    lines = [f"p{i},{i},{20 if i % 2 else ''},1" for i in range(8)]
    pods.write_text("\n".join(["name,arrives_s,runs_s,cpu", *lines]) + "\n")
    write_trace(path, import_csv(nodes, pods), CSV_MISSING)
    for name, text in {"packed": PACKED, "stock": STOCK, "own": OWN_PLUGIN}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return path


def simulate(trace: Path, *words: str) -> Ran:
    return command("simulate", str(trace), *words)


def simulated(trace: Path, *words: str) -> Json:
    ran = simulate(trace, *words, "-o", "json")
    assert ran.code == 0
    document: Json = json.loads(ran.out)
    validate(document)
    return document


def test_two_configurations_are_compared_side_by_side(trace: Path) -> None:
    configs = [word for name in ("stock", "packed") for word in ("--config", str(trace.parent / f"{name}.yaml"))]
    ran = simulate(trace, *configs, "--seeds", "2")
    assert ran.code == 0
    lines = ran.out.splitlines()
    rows = {line.split("  ")[0]: line.split()[-3:] for line in lines}
    assert rows["FIGURE"] == ["stock.yaml", "packed.yaml", "DIFFERENCE"]
    assert rows["pods placed"] == ["8.0", "8.0", "0.0"]
    assert lines[-1] == "note: The nodes on which pods ran are unknown."
    first, second = simulated(trace, *configs, "--seeds", "2", "--seed", "5")["variants"]
    assert [run["seed"] for run in first["runs"]] == [5, 6]
    assert [run["otherNode"] for run in first["runs"]] == [0, 0]
    before, after = (variant["runs"][0] for variant in (first, second))
    assert before["nodesInUse"] > after["nodesInUse"]
    assert after["otherNode"] > 0
    assert before["resources"]["cpu"]["peak"] == 1


def _configs(trace: Path) -> list[str]:
    return [word for name in ("stock", "packed") for word in ("--config", str(trace.parent / f"{name}.yaml"))]


def test_the_first_pods_on_other_nodes_are_named_in_the_order_of_their_placement(trace: Path) -> None:
    answer = simulated(trace, *_configs(trace))
    differences = answer["differences"]
    assert len(differences) == answer["variants"][1]["runs"][0]["otherNode"]
    assert [each["atS"] for each in differences] == sorted(each["atS"] for each in differences)
    assert all(len({*each["nodes"]}) == 2 for each in differences)
    screen = simulate(trace, *_configs(trace)).out
    assert f"{differences[0]['pod']} " in screen
    assert simulated(trace)["differences"] == []
    assert "POD ON ANOTHER NODE" not in simulate(trace).out


def test_a_pod_on_another_node_is_explained_with_the_points_of_both_variants(trace: Path) -> None:
    (first, *_) = simulated(trace, *_configs(trace))["differences"]
    words = [*_configs(trace), "--pod", first["pod"]]
    answer = simulated(trace, *words)
    assert answer == simulated(trace, *words)
    assert answer["kind"] == "PodComparison"
    assert [pod["variant"] for pod in answer["pods"]] == ["stock.yaml", "packed.yaml"]
    assert [pod["node"] for pod in answer["pods"]] == first["nodes"]
    points = {row["node"]: [of["scores"]["NodeResourcesFit"] for of in row["pods"]] for row in answer["nodes"]}
    on_first, on_second = (points[node] for node in first["nodes"])
    assert on_first[0] > on_second[0]
    assert on_first[1] < on_second[1]
    without_namespace = simulated(trace, *words[:-1], first["pod"].removeprefix("default/"))
    assert without_namespace == answer


def test_a_pod_that_one_variant_leaves_waiting_names_the_filter(trace: Path) -> None:
    pods = trace.parent / "pods.csv"
    pods.write_text("name,arrives_s,runs_s,cpu\n" + "".join(f"p{i},{i},,1\n" for i in range(4)) + "big,9,,4\n")
    write_trace(trace, import_csv(trace.parent / "nodes.csv", pods))
    ran = simulate(trace, *_configs(trace), "--pod", "big")
    assert "big with stock.yaml fits nowhere, big with packed.yaml is on " in ran.out
    assert "NodeResourcesFit: cpu: requests 4; free 2 of 4" in ran.out
    assert [each["nodes"][0] for each in simulated(trace, *_configs(trace))["differences"]][-1] is None


def test_each_configuration_is_tried_by_the_rules_of_each_version(trace: Path) -> None:
    words = ["--config", str(trace.parent / "packed.yaml"), "--config", str(trace.parent / "stock.yaml")]
    answer = simulated(trace, *words, "--kubernetes-version", "v1.31", "--kubernetes-version", "v1.36")
    assert [(each["name"], each["kubernetesVersion"][:5]) for each in answer["variants"]] == [
        ("packed.yaml v1.31", "v1.31"),
        ("packed.yaml v1.36", "v1.36"),
        ("stock.yaml v1.31", "v1.31"),
        ("stock.yaml v1.36", "v1.36"),
    ]


def test_files_of_one_name_are_told_apart_by_their_folder(trace: Path) -> None:
    other = trace.parent / "other" / "stock.yaml"
    other.parent.mkdir()
    other.write_text(PACKED)
    answer = simulated(trace, "--config", str(other), "--config", str(trace.parent / "stock.yaml"))
    assert [each["name"] for each in answer["variants"]] == [str(other), str(trace.parent / "stock.yaml")]


def test_options_before_the_command_choose_the_only_variant(trace: Path) -> None:
    packed = str(trace.parent / "packed.yaml")
    ran = command("--config", packed, "--kubernetes-version", "v1.34", "simulate", str(trace), "-o", "json")
    (variant,) = json.loads(ran.out)["variants"]
    assert (variant["configuration"], variant["name"]) == (packed, "packed.yaml v1.34")


def test_nodes_are_left_out_by_a_pattern(trace: Path) -> None:
    answer = simulated(trace, "--remove-nodes", "*2")
    (run,) = answer["variants"][0]["runs"]
    assert (run["arrived"], run["mostNodesInUse"], answer["removedNodes"]) == (8, 1, "*2")


def test_prices_give_the_cost_of_nodes(trace: Path) -> None:
    prices = trace.parent / "prices.csv"
    prices.write_text("name,per_hour\nn1,3600\nn*,7200\n")
    (run,) = simulated(trace, "--prices", str(prices))["variants"][0]["runs"]
    assert run["cost"] == 7 * 3
    assert 0 < run["costInUse"] <= run["cost"]
    assert "cost of nodes with pods" in simulate(trace, "--prices", str(prices)).out
    assert "cost of nodes with pods" not in simulate(trace).out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--remove-nodes", "*"], 1, "no pod arrives, or there is no node"),
        (["--config", "{folder}/nodes.csv"], 1, "nodes.csv: "),
        (["--config", "{folder}/own.yaml"], 1, "plugin no_such_module:Plugin cannot be loaded"),
        (["--kubernetes-version", "v1.99"], 1, "--kubernetes-version: no rules of Kubernetes v1.99.0"),
        (["-o", "name"], 1, "-o name: a Simulation is about no single object"),
        (["--pod", "p1", "--parquet", "new"], 2, "--parquet and --resume write figures of runs: leave out --pod"),
        (["--pod", "p1", "--resume", "new"], 2, "--parquet and --resume write figures of runs: leave out --pod"),
        (["--seeds", "0"], 2, "not a whole number from 1 to 100"),
        (["--prices", "{folder}/nodes.csv"], 1, "expected two columns"),
        (["--pod", "p0"], 1, "compared between 2 variants, and there are 1"),
        (["--kubernetes-version", "v1.31", "--kubernetes-version", "v1.36", "--pod", "a/b"], 1, "pod a/b: no pod of"),
        (["--config", "/absent.yaml"], 1, "error: /absent.yaml: "),
    ],
)
def test_what_cannot_be_simulated_is_an_error(
    trace: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    ran = simulate(trace, *(word.format(folder=trace.parent) for word in words))
    assert (ran.code, ran.out) == (code, "")
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_trace_is_one_line(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace.parent / "nodes.csv"
    assert simulate(file).code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file}: ")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_progress_is_the_share_of_all_runs(trace: Path, monkeypatch: pytest.MonkeyPatch, processes: str) -> None:
    shares: list[int] = []
    monkeypatch.setattr(progress.ProgressLine, "report_decided", lambda _, done, total: shares.append(done))
    assert simulate(trace, "--seeds", "4", "--processes", processes).code == 0
    assert shares == sorted(shares)
    assert len(shares) >= 4
    assert shares[-1] == 100
    if processes == "1":  # otherwise one run may be half done when another ends
        assert {25, 50, 75} <= {*shares}


def test_runs_in_parallel_give_the_same_bytes_as_one_after_the_other(trace: Path) -> None:
    configs = [word for name in ("stock", "packed") for word in ("--config", str(trace.parent / f"{name}.yaml"))]
    one, three = (
        simulate(trace, *configs, "--seeds", "3", "--processes", number, "-o", "json") for number in ("1", "3")
    )
    assert one.code == three.code == 0
    assert one.out == three.out


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_error_of_a_run_is_one_line(trace: Path, capsys: pytest.CaptureFixture[str], processes: str) -> None:
    spec = {"schedulingGroup": {"podGroupName": "gang"}}
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}, Pod)
    grouped = trace.parent / "grouped.trace"
    write_trace(grouped, [*read_trace([trace]).events, PodArrived(1.0, pod)])
    assert simulate(grouped, "--seeds", "2", "--processes", processes).code == 1
    assert capsys.readouterr().err == (
        "error: pod ns/p: its PodGroup gang needs the feature gate GenericWorkload in the configuration\n"
    )


def test_figures_are_rows_of_a_parquet_file(trace: Path) -> None:
    file = trace.parent / "figures.parquet"
    configs = [word for name in ("stock", "packed") for word in ("--config", str(trace.parent / f"{name}.yaml"))]
    answer = simulated(trace, *configs, "--seeds", "2", "--parquet", str(file))
    rows = pq.read_table(file).to_pylist()
    for variant in answer["variants"]:
        for run in variant["runs"]:
            of_run = {
                (row["at_s"], row["figure"]): row["value"]
                for row in rows
                if (row["variant"], row["seed"]) == (variant["name"], run["seed"])
            }
            moments = run["moments"]
            expected = {
                **{(None, name): value for name, value in run.items() if isinstance(value, int | float)},
                **{
                    (None, f"{resource}.{name}"): value
                    for resource, figures in run["resources"].items()
                    for name, value in figures.items()
                },
                **{(each["atS"], "nodesInUse"): each["nodesInUse"] for each in moments},
                **{(each["atS"], "cpu.requested"): each["requested"]["cpu"] for each in moments},
            }
            del expected[None, "seed"]
            assert {key: of_run.get(key) for key in expected} == expected
            assert len(of_run) == len(set(of_run)) >= len(expected)
    first = rows[0]
    assert (first["configuration"], first["kubernetes_version"][:3]) == (str(trace.parent / "stock.yaml"), "v1.")
    assert oct(file.stat().st_mode & 0o777) == "0o600"


def test_a_table_is_never_overwritten_nor_left_unfinished(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace.parent / "nodes.csv"
    assert simulate(trace, "--parquet", str(file)).code == 1
    assert capsys.readouterr().err == f"error: cannot write {file}: it is there already\n"
    assert simulate(trace, "--parquet", str(trace.parent / "new"), "--remove-nodes", "*").code == 1
    assert sorted(each.suffix for each in trace.parent.iterdir()) == [".csv", ".csv", ".trace", *[".yaml"] * 3]


def test_a_table_without_arrow_names_the_command_that_adds_it(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert simulate(trace, "--parquet", str(trace.parent / "new")).code == 1
    assert capsys.readouterr().err.startswith("error: --parquet needs the packages of the extra parquet: ")


def test_document_declares_every_figure() -> None:
    pairs = ((SimulationFigures, SimulatedRun), (ResourceShare, SimulatedResource), (Moment, SimulatedMoment))
    for struct, declared in pairs:
        fields = {*struct.__struct_encode_fields__}
        assert fields == get_type_hints(declared).keys() - {"seed", "otherNode"}


def _moment(i: int, placed: int) -> SimulatedMoment:
    requested = min(8000, 30 * i * (placed - 170))
    return {
        "atS": 90.0 + 180 * i,
        "nodes": 10,
        "nodesInUse": 7,
        "waiting": 12 - i if i < 12 else 0,
        "removableNodes": 2,
        "requested": {"cpu": requested, "nvidia.com/gpu": 0},
        "allocatable": {"cpu": 10_000, "nvidia.com/gpu": 8},
        "fragmentation": {"cpu": (20 - i) / 40, "nvidia.com/gpu": 0.0},
        "skew": {},
    }


def _run(seed: int, placed: int, nodes: float) -> SimulatedRun:
    return {
        "seed": seed,
        "otherNode": 0 if nodes > 6 else 7 + seed,
        "arrived": 200,
        "placed": placed,
        "neverPlaced": 200 - placed,
        "attempts": 260 - seed,
        "preempted": 2,
        "waitedP50S": 0.0,
        "waitedP99S": 840.25 - placed,
        "mostWaiting": 12,
        "nodesInUse": nodes,
        "mostNodesInUse": 10,
        "cost": 70.5,
        "costInUse": 5 * nodes,
        "removableNodes": 2.25,
        "skew": {"topology.kubernetes.io/zone": 0.5},
        "moments": [_moment(i, placed) for i in range(20)],
        "resources": {
            "cpu": {"mean": 0.5, "peak": 0.75 + seed / 100, "largestFree": nodes / 10, "fragmentation": 0.125},
            "nvidia.com/gpu": {"mean": 0.25, "peak": 1.0, "largestFree": 0.5, "fragmentation": 0.25},
        },
    }


@pytest.mark.parametrize("view", VIEWS)
def test_screen(view: str) -> None:
    runs = [[_run(seed, 180, 7.5) for seed in (0, 1)], [_run(seed, 190 + seed, 5.25) for seed in (0, 1)]]
    differences: list[SimulatedDifference] = [
        {"pod": f"shop/web-{i}", "atS": 12.5 * i, "nodes": ["worker-1", "worker-2"]} for i in range(6)
    ]
    differences.append({"pod": "shop/train", "atS": 90.0, "nodes": [None, "worker-3"]})
    answer = build_simulation(
        "day.trace",
        ["Labels, taints, selectors and affinity are unknown.", "Control\x1b[2J characters are escaped."],
        "gpu-*",
        [
            {"name": name, "configuration": name, "kubernetesVersion": "v1.36.2", "runs": of}
            for name, of in zip(("stock.yaml", "packed.yaml"), runs, strict=True)
        ],
        differences,
    )
    options = VIEWS[view]
    blocks = simulation.build_screen({**answer}, options)
    text = plain_text.draw(blocks, options) if options.piped else terminal.draw(blocks, options, color=False)
    expect(f"simulation.{view}", text)
