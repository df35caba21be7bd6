"""`simulate --resume`: an interrupted simulation continues with the runs that have ended, and with no others."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from herodotus_record.version import __version__
from scheduler.offline.simulate.finished_runs import FinishedRuns
from scheduler.offline.traces.document import write_trace
from scheduler.offline.traces.importing import import_csv
from tests.cli.service import Ran, command
from tests.processes import ROOT, eventually
from tests.support.breadth import widen

STOCK = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKED = f"""{STOCK}profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
"""
SEEDS = 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path, pods=12)
    (tmp_path / "stock.yaml").write_text(STOCK)
    (tmp_path / "packed.yaml").write_text(PACKED)
    return tmp_path


def write_files(folder: Path, pods: int) -> None:
    nodes, arrivals = folder / "nodes.csv", folder / "pods.csv"
    nodes.write_text("name,cpu,memory\n" + "".join(f"n{i},4,16Gi\n" for i in range(3)))
    arrivals.write_text("name,arrives_s,runs_s,cpu\n" + "".join(f"p{i},{i},20,1\n" for i in range(pods)))
    write_trace(folder / "day.trace", import_csv(nodes, arrivals))


def words(folder: Path, *more: str) -> list[str]:
    configs = [word for name in ("stock", "packed") for word in ("--config", str(folder / f"{name}.yaml"))]
    return ["simulate", str(folder / "day.trace"), *configs, *more]


def simulate(folder: Path, *more: str) -> Ran:
    return command(*words(folder, "--processes", "1", *more))


@pytest.mark.parametrize("processes", widen(("2", "1"), every=2))
def test_a_killed_simulation_continues_with_the_runs_that_had_ended(folder: Path, processes: str) -> None:
    runs = folder / "runs.jsonl"
    asked = words(folder, "--seeds", str(SEEDS), "--processes", processes, "--resume", str(runs), "-o", "json")
    with subprocess.Popen([sys.executable, "-m", "herodotus_cli", *asked], cwd=ROOT, stdout=subprocess.PIPE) as program:
        try:
            eventually(lambda: runs.exists() and runs.read_bytes().count(b"\n") > 3, "three runs have ended")
        finally:
            program.kill()
    before = runs.read_bytes()
    ended = before[: before.rindex(b"\n") + 1]
    assert 3 < ended.count(b"\n") < 2 * SEEDS
    continued = command(*asked)
    assert continued.code == 0
    assert runs.read_bytes().startswith(ended)
    assert runs.read_bytes().count(b"\n") == 1 + 2 * SEEDS  # none was made again
    assert continued.out == simulate(folder, "--seeds", str(SEEDS), "-o", "json").out


def test_runs_that_the_file_has_are_not_made_again_and_more_seeds_add_theirs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_runs(monkeypatch)
    runs = str(folder / "runs.jsonl")
    first = simulate(folder, "--seeds", "2", "--resume", runs)
    assert made == [(name, seed) for name in ("stock.yaml", "packed.yaml") for seed in (0, 1)]
    made.clear()
    assert simulate(folder, "--seeds", "2", "--resume", runs) == first
    assert made == []
    more = simulate(folder, "--seeds", "3", "--resume", runs, "-o", "json")
    assert made == [("stock.yaml", 2), ("packed.yaml", 2)]
    assert more.out == simulate(folder, "--seeds", "3", "-o", "json").out
    assert oct(Path(runs).stat().st_mode & 0o777) == "0o600"


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets the key of each run that ends from now on."""
    made: list[Any] = []
    keep = FinishedRuns.keep

    def count(runs: FinishedRuns[Any, Any], run: Any, result: Any) -> None:
        made.append(run)
        keep(runs, run, result)

    monkeypatch.setattr(FinishedRuns, "keep", count)
    return made


TUNE = ("--minimize", "nodesInUse", "--trials", "8", "--seeds", "1", "--samples", "3", "--processes", "1", "-o", "json")


@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="the extra tune is not installed")
def test_an_interrupted_search_continues_with_the_runs_that_had_ended(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, asked = folder / "runs.jsonl", ("simulate", "tune", str(folder / "day.trace"), *TUNE)
    made = count_runs(monkeypatch)
    whole = command(*asked, "--resume", str(runs))
    assert (whole.code, len(made)) == (0, len({*made}))
    lines = runs.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + len(made)
    runs.write_bytes(b"".join(lines[:6]) + lines[6][:40])  # killed while it wrote the sixth run
    ended, made[:] = made[:5], []
    assert command(*asked, "--resume", str(runs)) == whole
    assert not {*ended} & {*made}
    assert runs.read_bytes().splitlines(keepends=True) == lines
    assert command(*asked) == whole
    made.clear()
    command(
        "simulate", "tune", str(folder / "day.trace"), "--maximize", "removableNodes", *TUNE[2:], "--resume", str(runs)
    )
    assert not {*made} & {*ended}  # runs serve any objective
    assert command(*asked, "--seed", "1", "--resume", str(runs)).code == 1
    assert "its runs are of another question: --seed is 1, and was 0" in capsys.readouterr().err
    assert simulate(folder, "--resume", str(runs)).code == 1
    assert "its runs are of another question: simulate tune made them" in capsys.readouterr().err


@pytest.mark.parametrize("left", [0, 1, 40])
def test_an_incomplete_line_is_cut_off(folder: Path, left: int) -> None:
    runs = folder / "runs.jsonl"
    whole = simulate(folder, "--resume", str(runs), "-o", "json").out
    lines = runs.read_bytes().splitlines(keepends=True)
    runs.write_bytes(lines[0] + lines[1] + lines[2][:left])
    assert simulate(folder, "--resume", str(runs), "-o", "json").out == whole
    assert runs.read_bytes().splitlines(keepends=True) == lines
    runs.write_bytes(lines[0][:left])
    assert simulate(folder, "--resume", str(runs), "-o", "json").out == whole
    assert runs.read_bytes().splitlines(keepends=True) == lines


def change_price(folder: Path) -> list[str]:
    (folder / "prices.csv").write_text("name,per_hour\n*,1\n")
    return ["--prices", str(folder / "prices.csv")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: write_files(folder, pods=11), "the trace is another one"),
        (lambda folder: (folder / "stock.yaml").write_text(PACKED), "the configuration of stock.yaml has changed"),
        (lambda _: ["--remove-nodes", "n2"], "--remove-nodes is 'n2', and was ''"),
        (change_price, "the prices are others"),
        (
            lambda _: ["--kubernetes-version", "v1.34"],
            "the variants are stock.yaml v1.34, packed.yaml v1.34, and were packed.yaml, stock.yaml",
        ),
        (lambda folder: ["--config", str(folder / "third.yaml")], "the variants are "),
    ],
)
def test_runs_of_another_question_are_refused_and_stay_as_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], reason: str
) -> None:
    runs = folder / "runs.jsonl"
    (folder / "third.yaml").write_text(PACKED)
    assert simulate(folder, "--resume", str(runs)).code == 0
    before = runs.read_bytes()
    more = change(folder)
    ran = simulate(folder, "--resume", str(runs), *(more if isinstance(more, list) else ()))
    assert (ran.code, ran.out, runs.read_bytes()) == (1, "", before)
    assert f"error: {runs}: its runs are of another question: {reason}" in capsys.readouterr().err


def test_runs_of_another_version_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = folder / "runs.jsonl"
    simulate(folder, "--resume", str(runs))
    runs.write_text(runs.read_text().replace(f'"{__version__}"', '"0.0.9"'))
    assert simulate(folder, "--resume", str(runs)).code == 1
    assert f"Herodotus 0.0.9 made them, and this is {__version__}" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["name,cpu\n", "name", '{"seed":1}\n', "\n"])
def test_a_file_with_anything_else_is_never_changed(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    other = folder / "other"
    other.write_text(content)
    assert simulate(folder, "--resume", str(other)).code == 1
    assert other.read_text() == content
    assert capsys.readouterr().err == f"error: {other}: not a file of runs, which --resume begins: name a new one\n"


def test_a_damaged_line_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = folder / "runs.jsonl"
    simulate(folder, "--resume", str(runs))
    lines = runs.read_text().splitlines(keepends=True)
    runs.write_text(lines[0] + "{}\n" + lines[2])
    assert simulate(folder, "--resume", str(runs)).code == 1
    assert f"error: {runs}: line 2: " in capsys.readouterr().err
    assert simulate(folder, "--resume", str(folder)).code == 1
    assert capsys.readouterr().err == f"error: {folder}: Is a directory\n"


def test_a_full_disk_is_one_line_and_the_runs_before_it_stay(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = folder / "runs.jsonl"
    simulate(folder, "--resume", str(runs))
    before = runs.read_bytes()
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", lambda _: fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        assert simulate(folder, "--seeds", "2", "--resume", str(runs)).code == 1
    assert capsys.readouterr().err == f"error: {runs}: No space left on device\n"
    assert runs.read_bytes().startswith(before)
    assert simulate(folder, "--seeds", "2", "--resume", str(runs)).code == 0


def fail(error: Exception) -> None:
    raise error
