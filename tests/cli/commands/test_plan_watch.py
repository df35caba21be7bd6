"""`plan --watch` follows a plan that is carried out on a simulated API server, and says when the cluster leaves it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus_sim import SimulatedCluster
from tests.cli.service import command
from tests.processes import ROOT, eventually
from tests.scheduler.engine.whatif.clusters import READY, a_node, a_pod

Json = dict[str, Any]


class WatchedPlan:
    """A plan that is followed by the plugin in a process, and the cluster on which a test carries it out.

    Two nodes with 4 CPUs have a pod with 2 CPUs each, so that a pod with 3 waits. The plan: cordon n0, move w0 to n1,
    uncordon n0.
    """

    def __init__(self, folder: Path, sim: SimulatedCluster, *words: str) -> None:
        self.sim, self._lines = sim, folder / "lines"
        kubeconfig = sim.write_kubeconfig(folder / "kubeconfig")
        environ = {
            "KUBECONFIG": str(kubeconfig),
            "KUBECTL_PATH": str(Path(sys.executable).with_name("kubectl")),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
        }
        if "drain" not in words:
            words = ("pod", "big", "-n", "shop", "--kinds", "move", *words)
        words = ("plan", *words, "--local", "--watch")
        with self._lines.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "herodotus_cli", *words], stdout=out, stderr=out, env=environ, cwd=ROOT
            )

    @property
    def text(self) -> str:
        """What was printed so far."""
        return self._lines.read_text()

    def wait_for(self, text: str) -> None:
        """Wait until a text was printed."""
        eventually(lambda: text in self.text or self.process.poll() is not None, text, 30.0)
        assert text in self.text, self.text

    def cordon(self, node: str, *, on: bool = True) -> None:
        self.sim.patch("Node", "", node, {"spec": {"unschedulable": on}})

    def replace(self, name: str, node: str) -> None:
        """Delete w0, and create and bind its new pod as a controller and a scheduler do."""
        self.sim.delete("Pod", "shop", "w0")
        self.create(name, node, "ReplicaSet/web", "2")

    def create(self, name: str, node: str, owner: str, cpu: str) -> None:
        self.sim.create(a_pod(name, "", owner, cpu))
        self.sim.bind("shop", name, node)

    def report_ready(self, name: str) -> None:
        self.sim.patch("Pod", "shop", name, {"status": READY})

    def wait_for_exit(self) -> int:
        return self.process.wait(30)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., WatchedPlan]]:
    started: list[WatchedPlan] = []
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    pods = [a_pod("w0", "n0", cpu="2"), a_pod("w1", "n1", cpu="2"), a_pod("big", "", "ReplicaSet/big", "3")]
    sim = SimulatedCluster([namespace, a_node("n0"), a_node("n1"), *pods]).start()

    def start(*words: str) -> WatchedPlan:
        started.append(WatchedPlan(tmp_path, sim, *words))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
    sim.stop()


def test_each_step_is_ticked_until_the_pod_is_bound(watch: Callable[..., WatchedPlan]) -> None:
    plan = watch()
    plan.wait_for("PLACED  shop/big on n0")
    plan.cordon("n0")
    plan.wait_for("✓  1/3    n0 cordoned")
    plan.replace("w2", "n1")
    plan.wait_for("·  2/3    shop/w2 is bound to n1")
    assert "✓  2/3" not in plan.text
    plan.report_ready("w2")
    plan.wait_for("✓  2/3    shop/w2 is Ready on n1")
    plan.cordon("n0", on=False)
    plan.wait_for("✓  3/3    n0 uncordoned")
    plan.sim.bind("shop", "big", "n0")
    assert plan.wait_for_exit() == 0
    assert [line.split("  ", 1)[1] for line in plan.text.splitlines()[-2:]] == [
        "✓         shop/big is bound to n0",
        "✓         the plan was carried out",
    ]


def test_the_plan_that_is_followed_is_named_unless_it_is_the_first(watch: Callable[..., WatchedPlan]) -> None:
    plan = watch("--kinds", "request,nodes")
    plan.wait_for("waits for the first step")
    assert plan.text.index("REQUEST") < plan.text.index("NODES"), "the lower request comes first"
    assert "!         follows the plan nodes/1: --watch cannot follow request/1\n" in plan.text


def test_a_pod_on_another_node_leaves_the_plan_at_once(watch: Callable[..., WatchedPlan]) -> None:
    plan = watch()
    plan.wait_for("PLACED")
    plan.cordon("n0")
    plan.wait_for("✓  1/3")
    plan.replace("w2", "n0")
    assert plan.wait_for_exit() == 1
    assert plan.text.splitlines()[-1].endswith(
        "✗  2/3    the cluster left the plan: shop/w2 in place of w0 was bound to n0, not to n1: shop/big has no room"
        " any more: n0 has 2 of 3 cpu"
    )


def test_a_foreign_pod_that_takes_the_place_leaves_the_plan(watch: Callable[..., WatchedPlan]) -> None:
    plan = watch()
    plan.wait_for("waits for the first step")
    plan.create("small", "n0", "", "500m")
    plan.wait_for("!         shop/small, which the plan did not count on, was bound to n0")
    plan.create("intruder", "n0", "", "600m")
    assert plan.wait_for_exit() == 1
    assert plan.text.splitlines()[-1].endswith(
        "✗  1/3    the cluster left the plan: shop/big has no room any more: n0 has 2900m of 3 cpu"
    )


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda plan: plan.sim.delete("Pod", "shop", "w0"), "shop/w0 of step 2 was deleted before step 1 was over"),
        (lambda plan: plan.sim.delete("Pod", "shop", "big"), "shop/big was deleted"),
        (lambda plan: plan.sim.bind("shop", "big", "n1"), "shop/big was bound to n1, not to n0"),
        (
            lambda plan: plan.cordon("n1"),
            "the new pod of shop/w0 cannot land: n1 is cordoned or gone",
        ),
    ],
    ids=["order", "deleted", "bound-elsewhere", "cordon"],
)
def test_what_contradicts_the_plan_ends_it_as_lines_of_json(
    watch: Callable[..., WatchedPlan], act: Callable[[WatchedPlan], None], why: str
) -> None:
    plan = watch("-o", "json")
    eventually(lambda: "waits for the first step" in plan.text, "the first event", 30.0)
    act(plan)
    assert plan.wait_for_exit() == 1
    last = json.loads(plan.text.splitlines()[-1])
    assert (last["kind"], last["state"], last["step"], last["steps"]) == ("PlanEvent", "Deviated", 1, 3)
    assert last["message"].startswith(f"the cluster left the plan: {why}")


def test_drains_are_ticked_until_the_new_pods_are_ready(watch: Callable[..., WatchedPlan]) -> None:
    plan = watch("drain", "n0")
    plan.wait_for("waits for the first step: drain n0")
    plan.cordon("n0")
    plan.replace("w2", "n1")
    plan.report_ready("w2")
    assert plan.wait_for_exit() == 0
    assert [line.split("  ", 1)[1] for line in plan.text.splitlines()[-2:]] == [
        "✓  1/1    n0 is empty; new pods are Ready: 1 on n1",
        "✓         the plan was carried out",
    ]


def test_ctrl_c_ends_it_without_a_message(watch: Callable[..., WatchedPlan]) -> None:
    plan = watch()
    plan.wait_for("PLACED")
    plan.cordon("n0")
    plan.wait_for("✓  1/3")
    before = plan.text
    plan.process.send_signal(signal.SIGINT)
    assert plan.wait_for_exit() == 130
    assert plan.text.rstrip("\n") == before.rstrip("\n")  # the shell's prompt gets a line of its own


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pod", "big", "--watch", "--cluster-file", "x"), "--watch needs the API server"),
        (("pod", "big", "--watch", "--endpoint", "http://x"), "--watch needs the API server"),
        (("-f", "x", "--watch"), "--watch follows plans for pods that exist"),
        (("pod", "big", "--watch", "-o", "name"), "--watch prints lines or json or yaml, not name"),
        (("pod", "big", "--follow", "move"), "--follow goes with --watch"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text(json.dumps(a_pod("new")))
    named = [str(tmp_path / "x") if word == "x" else word for word in words]
    assert command("plan", *named, "-n", "shop").code == 2
    assert message in capsys.readouterr().err
