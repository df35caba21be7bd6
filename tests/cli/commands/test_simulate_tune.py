"""`kubectl herodotus simulate tune`: a configuration for an objective, and its gain on arrivals that it did not see."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_answers.tuning import SimulationTuning, TunedSetting, TuningGain, TuningPart, format_headline
from herodotus_cli.render import plain_text, terminal, tuning
from herodotus_cli.transport import local
from herodotus_record.model import API_VERSION
from scheduler.offline.simulate import tuning as tune_module
from scheduler.offline.simulate.metrics import SimulationFigures
from scheduler.offline.simulate.score_settings import ScoreSettings
from scheduler.offline.simulate.tuning import Measure, Task, TuningResult
from scheduler.offline.traces.document import write_trace
from scheduler.offline.traces.importing import CSV_MISSING, import_csv
from tests.answer_schemas import validate
from tests.cli.service import Ran, command
from tests.support.screens import VIEWS, expect

Json = dict[str, Any]
SHUFFLES = 40
FEW = ("--trials", "8", "--seeds", "1", "--samples", "3")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of pods that need few of six nodes, which the default profile spreads over all."""
    folder = tmp_path_factory.mktemp("trace")
    nodes, pods, path = folder / "nodes.csv", folder / "pods.csv", folder / "day.trace"
    nodes.write_text("\n".join(["name,cpu,memory", *(f"n{i},4,16Gi" for i in range(6))]) + "\n")
    lines = [f"p{i},{i},{9 + i % 3},{1 + i % 2},{1 + i % 3}Gi" for i in range(40)]
    pods.write_text("\n".join(["name,arrives_s,runs_s,cpu,memory", *lines]) + "\n")
    write_trace(path, import_csv(nodes, pods), CSV_MISSING)
    return path


def tune(trace: Path, *words: str) -> Ran:
    return command("simulate", "tune", str(trace), *words)


def tuned(trace: Path, *words: str) -> Json:
    ran = tune(trace, *words, "-o", "json")
    assert ran.code == 0
    document: Json = json.loads(ran.out)
    validate(document)
    return document


def test_the_configuration_is_one_for_simulate_and_has_the_gain_on_the_unseen_half(trace: Path) -> None:
    answer = tuned(trace, "--minimize", "nodesInUse", *FEW)
    assert (answer["hasGain"], answer["limits"], answer["brokenLimits"]) == (True, ["neverPlaced<=0"], [])
    assert (answer["training"]["arrivals"], answer["check"]["arrivals"]) == (20, 20)
    assert answer["training"]["lastArrivalS"] < answer["check"]["firstArrivalS"]
    assert answer["gain"]["low"] > 0
    assert answer["gain"]["value"] == answer["check"]["present"] - answer["check"]["tuned"]
    file = trace.parent / "tuned.yaml"
    file.write_text(answer["tunedConfiguration"])
    ran = command("simulate", str(trace), "--config", str(file), "-o", "json")
    default = command("simulate", str(trace), "-o", "json")
    after, before = (json.loads(each.out)["variants"][0]["runs"][0]["nodesInUse"] for each in (ran, default))
    assert after < before
    changed = {each["setting"]: each["tuned"] for each in answer["changes"]}
    assert all(str(value) in answer["tunedConfiguration"] for value in changed.values() if value)


def test_the_screen_ends_with_the_configuration_and_what_was_tried(trace: Path) -> None:
    ran = tune(trace, "--minimize", "nodesInUse", *FEW)
    assert ran.code == 0
    assert yaml.safe_load(ran.out[ran.out.index("apiVersion:") : ran.out.index("note:")])["profiles"]
    assert "What is found keeps neverPlaced<=0." in ran.out


def test_equal_seeds_give_equal_bytes_however_many_processes_there_are(trace: Path) -> None:
    words = ("--minimize", "cpu.fragmentation", *FEW, "--seed", "3", "-o", "json")
    one, three = (tune(trace, *words, "--processes", number) for number in ("1", "3"))
    assert one.code == three.code == 0
    assert one.out == three.out


def test_an_objective_that_no_configuration_changes_has_no_gain(trace: Path) -> None:
    answer = tuned(trace, "--maximize", "arrived", *FEW)
    assert (answer["hasGain"], answer["check"], answer["gain"], answer["changes"]) == (False, None, None, [])
    assert answer["tunedConfiguration"] == ""
    assert answer["headline"] == "No configuration that was tried is better for arrived: keep the present one."


@pytest.mark.wide
def test_a_shuffled_objective_of_real_runs_has_no_gain(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shuffled: a run's figures are those of another configuration's run on the same arrivals with the same seed.

    So they differ between configurations as real ones do, and no configuration is better.
    """
    results: list[TuningResult] = []

    def tune_shuffled(settings: ScoreSettings, measure: Measure, *asked: Any) -> TuningResult:
        texts: dict[str, None] = {}  # the configurations that the search tries

        def measure_real(tasks: Sequence[Task]) -> Sequence[SimulationFigures]:
            texts.update(dict.fromkeys(task.text for task in tasks))
            return measure(tasks)

        assert search(settings, measure_real, *asked).has_gain

        def measure_others(shuffle: int, tasks: Sequence[Task]) -> Sequence[SimulationFigures]:
            draws = (random.Random(f"{shuffle} {task}") for task in tasks)
            return measure([task._replace(text=draw.choice([*texts])) for task, draw in zip(tasks, draws, strict=True)])

        results.extend(search(settings, partial(measure_others, i), *asked) for i in range(SHUFFLES))
        return next(result for result in results if result.gain and not result.has_gain)

    search = tune_module.tune
    monkeypatch.setattr(tune_module, "tune", tune_shuffled)
    answer = tuned(
        trace, "--minimize", "nodesInUse", "--trials", "16", "--seeds", "2", "--samples", "10", "--processes", "1"
    )
    assert sum(result.trained[1] < result.trained[0] for result in results) > SHUFFLES / 2  # to the search, by chance
    assert sum(result.gain is not None and result.gain["value"] > 0 for result in results) > SHUFFLES / 5
    assert sum(result.has_gain for result in results) <= 1  # of 40, 2.5 %
    assert (answer["hasGain"], answer["changes"], answer["tunedConfiguration"]) == (False, [], "")
    assert answer["headline"].endswith(": keep the present configuration.")


def test_the_present_configuration_is_the_file_and_stays_as_it_is(trace: Path) -> None:
    file = trace.parent / "present.yaml"
    present = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podMaxBackoffSeconds": 20,
        "profiles": [{"schedulerName": "batch"}],
    }
    file.write_text(yaml.safe_dump(present))
    answer = tuned(trace, "--minimize", "nodesInUse", *FEW, "--config", str(file), "--kubernetes-version", "v1.34")
    assert (answer["configuration"], answer["kubernetesVersion"][:5]) == (str(file), "v1.34")
    document = yaml.safe_load(answer["tunedConfiguration"])
    assert (document["podMaxBackoffSeconds"], document["profiles"][0]["schedulerName"]) == (20, "batch")


def test_the_present_configuration_is_read_once(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it can be a pipe: `--config <(…)`."""
    file, read = trace.parent / "once.yaml", Path.read_bytes
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    opened: list[Path] = []

    def count(path: Path) -> bytes:
        opened.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", count)
    assert tune(trace, "--maximize", "arrived", *FEW, "--config", str(file)).code == 0
    assert opened.count(file) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "state one objective"),
        (["--minimize", "nodesInUse", "--maximize", "placed"], 2, "state one objective"),
        (["--minimize", "nodes"], 1, "'nodes' is not a figure: use one of arrived"),
        (["--minimize", "cost"], 1, "cost needs prices of nodes"),
        (["--minimize", "tpu.mean"], 1, "no pod of the trace requests tpu: use cpu, memory"),
        (["--minimize", "nodesInUse", "--subject-to", "waitedP99S<60"], 1, "'waitedP99S<60' is not a limit"),
        (["--minimize", "nodesInUse", "--config", "/absent.yaml"], 1, "/absent.yaml: "),
        (["--minimize", "nodesInUse", "--config", "{folder}/nodes.csv"], 1, "{folder}/nodes.csv: "),
        (["--minimize", "nodesInUse", "--remove-nodes", "*"], 1, "no pod arrives, or there is no node"),
        (["--minimize", "nodesInUse", "--trials", "1"], 2, "not a whole number from 2"),
    ],
)
def test_what_cannot_be_tuned_is_an_error(
    trace: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    ran = tune(trace, *(word.format(folder=trace.parent) for word in words), "--seeds", "1")
    assert (ran.code, ran.out) == (code, "")
    assert message.format(folder=trace.parent) in capsys.readouterr().err


def test_without_the_optimizer_the_command_that_adds_it_is_named(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(local, "find_spec", lambda name: None if name == "optuna" else find(name))
    assert tune(trace, "--minimize", "nodesInUse").code == 1
    err = capsys.readouterr().err
    assert err.startswith("error: simulate tune needs the extra tune: ")
    assert "--with tune" in err


FOUND = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled:
      - name: ImageLocality
"""


def build_answer(low: float, broken: list[str]) -> SimulationTuning:
    has_gain = low > 0 and not broken
    check: TuningPart = {
        "firstArrivalS": 50.0,
        "lastArrivalS": 99.0,
        "arrivals": 120,
        "present": 11.78125,
        "tuned": 5.4375,
    }
    gain: TuningGain = {"value": 6.34375, "low": low, "high": 12.6875 - low, "share": 6.34375 / 11.78125, "samples": 10}
    changes: list[TunedSetting] = [
        {"setting": "ImageLocality.weight", "present": 1, "tuned": 0},
        {"setting": "NodeResourcesFit.type", "present": "LeastAllocated", "tuned": "MostAllocated"},
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "SimulationTuning",
        "metadata": {},
        "headline": format_headline("nodesInUse", check, gain, broken),
        "trace": "day.trace",
        "missing": ["Labels are unknown.", "Control\x1b[2J characters are escaped."],
        "removedNodes": "",
        "configuration": "",
        "kubernetesVersion": "v1.36.2",
        "figure": "nodesInUse",
        "direction": "minimize",
        "limits": ["waitedP99S<=60", "neverPlaced<=0"],
        "brokenLimits": broken,
        "seed": 0,
        "seeds": 2,
        "tried": 71,
        "isComplete": has_gain,
        "training": {"firstArrivalS": 0.0, "lastArrivalS": 49.0, "arrivals": 120, "present": 10.875, "tuned": 3.40625},
        "check": check,
        "gain": gain,
        "hasGain": has_gain,
        "changes": changes if has_gain else [],
        "tunedConfiguration": FOUND if has_gain else "",
    }


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("name", "low", "broken"),
    [("gain", 5.5, []), ("no-gain", -0.25, []), ("broken-limit", 5.5, ["waitedP99S<=60"])],
)
def test_screen(view: str, name: str, low: float, broken: list[str]) -> None:
    options = VIEWS[view]
    blocks = tuning.build_screen({**build_answer(low, broken)}, options)
    text = plain_text.draw(blocks, options) if options.piped else terminal.draw(blocks, options, color=False)
    expect(f"tuning-{name}.{view}", text)
