"""Shell completion of `kubectl herodotus …`, alone and through a real kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from herodotus_cli.commands import COMMANDS, load_command
from herodotus_cli.commands.completion import SCRIPTS
from herodotus_cli.commands.whatif import whatif
from herodotus_cli.completion import complete
from herodotus_cli.environment import Environment
from herodotus_cli.options import CommandWithGoals
from herodotus_cli.parameter_types import Duration
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
            [*whatif.list_goals(), "deploy/web", "pod", "pod-6", "pod-7", "pod-8", "rs/web-5484d601e6", "sts/db"],
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
        (("whatif", "taint", "wor"), ["worker-1", "worker-2"]),
        (("whatif", "scale", "-n", "shop", "sts"), ["sts/db="]),
        (("plan", "--kinds", "move,no"), ["move,nodes"]),
        (("whatif", "upgrade", "--to", "v1.36"), ["v1.36"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_completes_words(known: Service, typed: tuple[str, ...], expected: list[str]) -> None:
    assert words(known, *typed) == [*expected, ":4"]


@pytest.mark.parametrize("typed", [("pod", "--kubeconfig", ""), ("whatif", "-f", ""), ("whatif", "create", "-f", "")])
def test_leaves_file_names_to_the_shell(known: Service, typed: tuple[str, ...]) -> None:
    assert words(known, *typed) == [":0"]


# Values that nothing completes, by option or metavar, and why.
NOT_COMPLETED = {
    "--as": "users of the API server are listed nowhere",
    "--as-group": "groups of the API server are listed nowhere",
    "--endpoint": "any URL",
    "--service": "any Service; the default is the one of an installation",
    "-l": "an expression of labels",
    "--minimize": "a wrong figure is answered with all of them; the plugin has no scheduler to ask for them",
    "--maximize": "as --minimize",
    "--subject-to": "an expression of figures",
    "--remove-nodes": "a pattern for the nodes of a trace, which may be large",
    "--pod of simulate": "a pod of a trace, which may be large",
    "[LINK]": "a link that was copied from a page",
}


def test_every_value_that_can_be_known_is_completed() -> None:
    found = set[str]()
    for name, command in list_commands():
        for parameter in command.params:
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            if not is_flag and not is_completed(parameter):
                label = parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.metavar)
                more = f"{label} of {name.split()[0]}"
                found.add(more if more in NOT_COMPLETED else label)
    assert found == NOT_COMPLETED.keys()


def list_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the commands by name, and those that take the place of another one, such as `whatif drain`."""
    for name in COMMANDS:
        command = load_command(name)
        yield name, command
        goals = command.list_goals() if isinstance(command, CommandWithGoals) else {}
        yield from ((f"{name} {goal}", each) for goal, each in goals.items())


def is_completed(parameter: click.Parameter) -> bool:
    """Return whether values of a parameter are completed, or are numbers or durations."""
    if isinstance(parameter.type, (click.types.IntParamType, Duration)):
        return True
    has_own = parameter._custom_shell_complete is not None
    return has_own or type(parameter.type).shell_complete is not click.ParamType.shell_complete


KUBECTL = """\
import json, sys
path = sys.argv[sys.argv.index("--raw") + 1]
try:
    print(json.dumps({"items": json.loads(OBJECTS)[path]}))
except KeyError:
    sys.exit('Error from server (NotFound): services "herodotus-endpoint" not found')
"""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("node", "n"), ["n1", "n2"]),
        (("pod", "-n", "shop", ""), ["web-5484d601e6-x"]),
        (("workload", "-n", "shop", ""), ["deploy/web", "rs/web-5484d601e6"]),
        (("nodegroups", "--label-key", "p"), ["pool"]),
        (("whatif", "add-nodes", "--zone", ""), ["a", "b"]),
        (("capacity", "-n", "shop", "--scheduler", ""), ["batch"]),
        (("pod", "--context", ""), ["east", "west"]),
    ],
    ids=" ".join,
)
def test_completes_names_of_a_cluster_without_a_service(
    typed: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    zones = {"n1": "a", "n2": "b"}
    labels = {name: {"topology.kubernetes.io/zone": zone, "pool": "x"} for name, zone in zones.items()}
    owner = {"kind": "ReplicaSet", "name": "web-5484d601e6", "controller": True}
    meta = {"name": "web-5484d601e6-x", "namespace": "shop", "ownerReferences": [owner]}
    objects = {
        "/api/v1/nodes?limit=500": [{"metadata": {"name": name, "labels": labels[name]}} for name in zones],
        "/api/v1/namespaces/shop/pods?limit=500": [{"metadata": meta, "spec": {"schedulerName": "batch"}}],
    }
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!{sys.executable}\nOBJECTS = {json.dumps(objects)!r}\n{KUBECTL}")
    kubectl.chmod(0o755)
    (tmp_path / "config").write_text("contexts: [{name: east, context: {}}, {name: west, context: {}}]")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
    around = Environment(environ, Out(False), lambda: NOW, lambda: 80)
    assert complete(typed, around).splitlines() == [*expected, ":4"]


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


@pytest.mark.parametrize("is_installed", [False, True], ids=["without bash-completion", "with it"])
def test_the_script_for_bash_says_what_kubectls_completion_lacks(is_installed: bool, tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\n")
    kubectl.chmod(0o755)
    script = SCRIPTS["bash"].replace("/usr/share/bash-completion", str(tmp_path))
    if is_installed:
        (tmp_path / "bash_completion").write_text("_get_comp_words_by_ref() { :; }\n")
    found = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("bash-completion" in found.stderr) is not is_installed
