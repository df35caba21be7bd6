"""Problems of users: the plugin's answer names the cause and its object, and its first fix ends the problem.

Each case is asked on a simulated API server, and its commands are run there with kubectl: in local mode, and where
Herodotus schedules the pods and records its decisions. Then the answers come from the decisions service, and a fix has
to bind the pod.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from herodotus_cli.command_line import run
from herodotus_cli.environment import process_environment
from herodotus_sim.cluster import SimulatedCluster
from herodotus_sim.fault_plan import parse_plan
from tests.cases.cluster import load_case
from tests.cases.fixes import CASES, KUBECTL_FOLDER, list_fix_commands
from tests.cases.recording import record_decisions
from tests.processes import eventually
from tests.support.breadth import widen

Json = dict[str, Any]
CORDON_TAINT = "node.kubernetes.io/unschedulable"


class Cluster:
    """A simulated cluster of a case, and the plugin that answers about it in this process."""

    def __init__(
        self, simulated: SimulatedCluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, options: Sequence[str]
    ) -> None:
        """`options` are the plugin's own beside each question."""
        self._simulated, self._options = simulated, options
        for name in [name for name in os.environ if name.startswith("HERODOTUS")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setenv("HOME", str(kubeconfig.parent))
        monkeypatch.setenv("PATH", f"{KUBECTL_FOLDER}:{os.environ['PATH']}")
        monkeypatch.setenv("NO_COLOR", "1")

    def ask(self, words: str) -> tuple[str, int]:
        """Return what the plugin prints, with what it writes to stderr, and its exit code."""
        printed = StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = run([*shlex.split(words), *self._options], process_environment())
        return printed.getvalue(), code

    @staticmethod
    def apply(command: str) -> None:
        """Run a line of kubectl commands."""
        streams: Json = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        line = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(line, text=True, timeout=120, check=False, **streams)
        assert done.returncode == 0, (command, done.stdout)

    def open_uncordoned_nodes(self) -> None:
        """Remove the taint of nodes that are no longer cordoned, as kube-controller-manager would."""
        for node in self._simulated.list("Node"):
            taints = node["spec"].get("taints") or []
            kept = [taint for taint in taints if taint["key"] != CORDON_TAINT]
            if not node["spec"].get("unschedulable") and kept != taints:
                self._simulated.patch("Node", "", node["metadata"]["name"], {"spec": {"taints": kept or None}})


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Json:
    return load_case(request.param)


@pytest.fixture(params=["local", pytest.param("recorded", marks=pytest.mark.slow)])
def cluster(
    request: pytest.FixtureRequest, case: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """A cluster as the case describes it, about which local mode or the decisions service answers."""
    is_recorded = request.param == "recorded"
    if is_recorded and "local" in case:
        pytest.skip(case["local"])
    if is_recorded and "faults" in case:
        pytest.skip("the refused requests are refused to every client, also to a scheduler")
    faults = parse_plan({"faults": case.get("faults", [])})
    with SimulatedCluster(case["objects"], faults=faults) as simulated, ExitStack() as stack:
        options = () if is_recorded else ("--local",)
        found = Cluster(simulated, simulated.write_kubeconfig(tmp_path / "kubeconfig"), monkeypatch, options)
        for words in case.get("before", ()):
            found.apply(f"kubectl {words}")
        if is_recorded:
            stack.enter_context(record_decisions(simulated, tmp_path))
        yield found


@pytest.mark.parametrize("case", widen(CASES, every=6), ids=[f"{p.parent.name}/{p.stem}" for p in CASES], indirect=True)
def test_case(case: Json, cluster: Cluster) -> None:
    first = ""
    for question in case["questions"]:
        text, code = cluster.ask(question["ask"])
        first = first or text
        flat = " ".join(text.split())
        assert "Traceback" not in text, text
        missing = [p for p in question.get("says", ()) if not re.search(p, flat, re.IGNORECASE)]
        assert not missing, f"{question['ask']}: the answer lacks {missing}:\n{text}"
        false = [p for p in question.get("never", ()) if re.search(p, flat, re.IGNORECASE)]
        assert not false, f"{question['ask']}: the answer has {false}:\n{text}"
        assert code == question.get("exit", 0), text
    if "fix" in case:
        commands = list_fix_commands(first)
        assert commands, f"no command below FIX:\n{first}"
        for command in commands:
            cluster.apply(command)
        cluster.open_uncordoned_nodes()
        eventually(partial(lacks, cluster, case["questions"][0]["ask"], case["fix"]), "the problem to end", 20.0)


def lacks(cluster: Cluster, ask: str, pattern: str) -> bool:
    """Return whether the answer to a question no longer has what the pattern matches."""
    return not re.search(pattern, " ".join(cluster.ask(ask)[0].split()), re.IGNORECASE)


def test_only_the_commands_of_the_first_fix_are_run() -> None:
    answer = "pod\nFIX  uncordon n1\n     kubectl uncordon n1\nor   more\n     kubectl delete node n1\n\nkubectl x\n"
    assert list_fix_commands(answer) == ["kubectl uncordon n1"]


def test_every_kind_of_problem_has_cases() -> None:
    assert len({path.parent.name for path in CASES}) >= 12
