"""Shell completion of `kubectl herodotus …`, alone and through a real kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus_cli.commands import ACTION_NAMES, COMMANDS
from herodotus_cli.completion import complete
from herodotus_cli.environment import Environment
from tests.cli.scenes import NOW
from tests.cli.service import API, Out, Service
from tests.support.documents import watched_decision
from tests.support.kubectls import KUBECTLS

ROOT = Path(__file__).parents[2]


def owned(number: int, kind: str, name: str) -> dict[str, object]:
    found = watched_decision(number, "Bound")
    found["spec"]["pod"]["owner"] = {"kind": kind, "name": name}
    return found


@pytest.fixture
def known(service: Service) -> Service:
    items = [owned(8, "ReplicaSet", "web-5484d601e6"), owned(7, "StatefulSet", "db"), watched_decision(6, "Bound")]
    service.answer(f"{API}/namespaces/shop/decisions?limit=500", {"kind": "DecisionList", "items": items})
    nodes = [{"metadata": {"name": f"worker-{i}"}} for i in (1, 2)]
    service.answer(f"{API}/nodehistories?limit=500", {"kind": "NodeHistoryList", "items": nodes})
    return service


def words(service: Service, *typed: str) -> list[str]:
    around = Environment({"HERODOTUS_ENDPOINT": service.url}, Out(False), lambda: NOW, lambda: 80)
    return [line.partition("\t")[0] for line in complete(typed, around).splitlines()]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("",), [*COMMANDS]),
        (("pen",), ["pending"]),
        (("pod", "-n", "shop", "pod-"), ["pod-6", "pod-7", "pod-8"]),
        (("-n", "shop", "pod", "pod/pod-7"), ["pod/pod-7"]),
        (("pod", "x", "--node", "wor"), ["worker-1", "worker-2"]),
        (("node", ""), ["worker-1", "worker-2"]),
        (("workload", "-n", "shop", ""), ["deploy/web", "rs/web-5484d601e6", "sts/db"]),
        (
            ("whatif", "-n", "shop", ""),
            [*ACTION_NAMES, "deploy/web", "pod", "pod-6", "pod-7", "pod-8", "rs/web-5484d601e6", "sts/db"],
        ),
        (("whatif", "dra"), ["drain"]),
        (("whatif", "drain", "wor"), ["worker-1", "worker-2"]),
        (("whatif", "drain", "w", "--then", "co"), ["cordon"]),
        (("capacity", "-n", "shop", "p"), ["pod", "pod-6", "pod-7", "pod-8"]),
        (("report", "po"), ["pod", "podgroup"]),
        (("report", "node", "wor"), ["worker-1", "worker-2"]),
        (("report", "drain", "wor"), ["worker-1", "worker-2"]),
        (("pending", "--sort-by", "n"), ["name", "namespace", "next-try"]),
        (("explain", "HOL"), ["HOLDERS", "HOLDS"]),
        (("explain", "quota-e"), ["quota-exceeded"]),
        (("pod", "shop/pod-"), ["shop/pod-6", "shop/pod-7", "shop/pod-8"]),
        (("balance", "--weights", "ImageLocality=0,nodeA"), ["ImageLocality=0,NodeAffinity="]),
        (("whatif", "-n", "shop", "pod", "pod-7"), ["pod-7"]),
        (("whatif", "pod", "x", "--node", "wor"), ["worker-1", "worker-2"]),
        (("compare", ""), ["pod"]),
        (("compare", "pod", "-n", "shop", "pod-8"), ["pod-8"]),
        (("compare", "pod", "a", "--nodes", "worker-1", "w"), ["worker-1", "worker-2"]),
        (("pod", "x", "-o", "y"), ["yaml"]),
        (("pod", "--att"), ["--attempt", "--attempts"]),
        (("pod", "-n", "elsewhere", ""), []),
    ],
    ids=" ".join,
)  # fmt: skip
def test_completes_words(known: Service, typed: tuple[str, ...], expected: list[str]) -> None:
    assert words(known, *typed) == [*expected, ":4"]


def test_leaves_file_names_to_the_shell(known: Service) -> None:
    assert words(known, "pod", "--kubeconfig", "") == [":0"]


def test_prints_nothing_when_the_service_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    away = Service(url="http://127.0.0.1:1")
    assert words(away, "pod", "-n", "shop", "") == [":4"]
    assert capsys.readouterr() == ("", "")


@pytest.fixture(params=KUBECTLS, ids=lambda k: Path(k).parent.parent.name)
def shell(request: pytest.FixtureRequest, known: Service, tmp_path: Path) -> dict[str, str]:
    """Return an environment with both executables on PATH, as after an installation."""
    for name in ("kubectl-herodotus", "kubectl_complete-herodotus"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / name} "$@"\n')
        script.chmod(0o755)
    kubectl = Path(request.param).parent
    path = os.pathsep.join(map(str, (tmp_path, kubectl, "/usr/bin", "/bin")))
    return {"PATH": path, "HERODOTUS_ENDPOINT": known.url, "HOME": str(tmp_path), "KUBECTL": request.param}


def test_kubectl_completes_live_names(shell: dict[str, str]) -> None:
    command_line = [shell["KUBECTL"], "__complete", "herodotus", "pod", "-n", "shop", "pod-"]
    run = subprocess.run(command_line, env=shell, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["pod-6", "pod-7", "pod-8", ":4"]


def test_kubectl_lists_the_plugin_without_a_warning(shell: dict[str, str], tmp_path: Path) -> None:
    only_ours = shell | {"PATH": str(tmp_path)}
    run = subprocess.run(
        [shell["KUBECTL"], "plugin", "list"], env=only_ours, capture_output=True, text=True, check=True
    )
    assert (str(tmp_path / "kubectl-herodotus") in run.stdout, run.stderr) == (True, "")
