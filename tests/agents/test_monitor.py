"""Outcomes of pods become rewards, which survive a restart and are published on the nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herodotus_agents import outcomes
from herodotus_agents.command_line import main
from herodotus_agents.monitor import Monitor
from herodotus_agents.objects import PodView
from herodotus_agents.outcomes import PodOutcome
from herodotus_agents.rewards import Rewards
from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_sim import SimulatedCluster
from tests.agents.builders import a_node, a_pod, points, service
from tests.agents.cluster import node, node_annotations, pod, simulated
from tests.processes import Process, eventually, python

Json = dict[str, Any]


def terminated_state(at: str) -> Json:
    return {"terminated": {"exitCode": 1, "finishedAt": f"2026-03-01T{at}Z"}}


RUNNING: Json = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
WAITING: Json = {"waiting": {"reason": "CrashLoopBackOff"}}


def status(*containers: tuple[Json, Json], phase: str = "Running") -> Json:
    return {
        "phase": phase,
        "containerStatuses": [
            {
                "name": f"c{i}",
                "restartCount": 0,
                "state": now,
                "lastState": before,
                "image": "",
                "imageID": "",
                "ready": True,
            }
            for i, (now, before) in enumerate(containers)
        ],
    }


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (status(phase="Failed"), PodOutcome("Failed", 0.0)),
        (status(phase="Unknown"), PodOutcome("Unknown", 0.0)),
        (status(phase="Pending"), None),
        (status(phase="Succeeded"), None),
        (status((RUNNING, {})), PodOutcome("running", 1.0)),
        (status((terminated_state("12:00:05"), {})), PodOutcome("c0/2026-03-01T12:00:05Z", 0.5)),
        (
            status((terminated_state("12:01:00"), terminated_state("12:00:05"))),
            PodOutcome("c0/2026-03-01T12:01:00Z", 0.0),
        ),
        (
            status((terminated_state("12:10:06"), terminated_state("12:00:05"))),
            PodOutcome("c0/2026-03-01T12:10:06Z", 0.5),
        ),
        (status((WAITING, terminated_state("12:00:05"))), None),
        (status((RUNNING, terminated_state("12:00:05"))), None),
        (status((RUNNING, {}), (terminated_state("12:00:05"), {})), PodOutcome("c1/2026-03-01T12:00:05Z", 0.5)),
    ],
    ids=[
        "failed",
        "unknown",
        "pending",
        "succeeded",
        "runs for the first time",
        "first crash",
        "crash soon after another",
        "crash long after another",
        "waits to be restarted",
        "runs again",
        "the last container decides",
    ],
)
def test_classify(of: Json, expected: PodOutcome | None) -> None:
    assert outcomes.classify(msgspec.convert(a_pod() | {"status": of}, PodView)) == expected


def send_modified(monitor: Monitor, sim: SimulatedCluster, *names: str) -> None:
    """Send these pods to the monitor as MODIFIED events."""
    for name in names:
        monitor.update(WatchEvent("Pod", "MODIFIED", msgspec.convert(sim.get("pods", "default", name), PodView)))


def send_crash(monitor: Monitor, sim: SimulatedCluster, name: str, at: str, before: str = "") -> None:
    sim.patch(
        "pods", "default", name, {"status": status((terminated_state(at), terminated_state(before) if before else {}))}
    )
    send_modified(monitor, sim, name)


def published_rewards(sim: SimulatedCluster, name: str) -> Json:
    return dict(json.loads(node_annotations(sim, name).get("herodotus.dev/rewards", "{}")))


D = {"podtype": "D"}


def test_a_crash_lowers_the_rewards_of_its_type_and_its_node() -> None:
    with simulated(node("n1"), node("n2"), pod("a", "n1", "Running", D)) as (sim, kube):
        rewards = Rewards()
        monitor = Monitor(kube, rewards)
        send_crash(monitor, sim, "a", "12:00:05")
        assert rewards.format_lines() == ["/nodes/n1 0.950000", "/pods/D/all 0.950000", "/pods/D/n1 0.950000"]
        assert published_rewards(sim, "n1") == {"D": 0.95}
        send_crash(monitor, sim, "a", "12:00:20", before="12:00:05")
        assert published_rewards(sim, "n1") == {"D": 0.855}
        assert published_rewards(sim, "n2") == {}


def test_a_state_that_is_seen_twice_counts_once() -> None:
    with simulated(node("n1"), pod("a", "n1", "Failed", D)) as (sim, kube):
        rewards = Rewards()
        for _ in range(3):
            send_modified(Monitor(kube, rewards), sim, "a")
        assert rewards.format_lines()[0] == "/nodes/n1 0.900000"


def test_rewards_survive_a_restart_and_old_outcomes_are_not_counted_again(tmp_path: Path) -> None:
    store = tmp_path / "rewards.json"
    with simulated(node("n1"), pod("a", "n1", "Failed", D), pod("b", "n1", "Failed", D)) as (sim, kube):
        send_modified(Monitor(kube, Rewards(store)), sim, "a")
        again = Rewards(store)
        Monitor(kube, again).update(ListResult("Pod", list(kube.list_objects("/api/v1/pods", PodView))))
        assert again.format_lines() == ["/nodes/n1 0.810000", "/pods/D/all 0.810000", "/pods/D/n1 0.810000"]


def test_the_rewards_of_a_deleted_pod_are_kept_but_not_its_outcomes(tmp_path: Path) -> None:
    store = tmp_path / "rewards.json"
    with simulated(node("n1"), pod("a", "n1", "Failed", D)) as (sim, kube):
        monitor = Monitor(kube, Rewards(store))
        send_modified(monitor, sim, "a")
        monitor.update(WatchEvent("Pod", "DELETED", msgspec.convert(sim.get("pods", "default", "a"), PodView)))
        monitor.update(ListResult("Pod", []))
        rewards = Rewards(store)
        rewards.retain_pods(())
        rewards.save()
        assert json.loads(store.read_bytes())["counted"] == {}
        assert Rewards(store).rewards_below_initial("n1") == {"D": 0.9}


def test_a_pod_type_avoids_the_two_nodes_on_which_it_fails() -> None:
    """The scenario of the demo: a pod type crashes repeatedly on two of three nodes."""
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    with simulated(*nodes, *(pod(f"d-{n}", n, "Running", D) for n in ("n1", "n2", "n3"))) as (sim, kube):
        monitor = Monitor(kube, Rewards())
        sim.patch("pods", "default", "d-n3", {"status": status((RUNNING, {}))})
        send_modified(monitor, sim, "d-n3")
        for name, first in (("d-n1", 5), ("d-n2", 60)):
            send_crash(monitor, sim, name, f"12:{first // 60:02}:{first % 60:02}")
            send_crash(
                monitor, sim, name, f"12:{first // 60 + 1:02}:{first % 60:02}", f"12:{first // 60:02}:{first % 60:02}"
            )
        sent = [a_node(n, sim.get("nodes", "", n)["metadata"].get("annotations") or {}) for n in ("n1", "n2", "n3")]
        assert points(service("reward"), "rl-priority", a_pod(labels=D), sent) == {"n1": 8, "n2": 8, "n3": 10}


def wait_for_reward(sim: SimulatedCluster, reward: float) -> None:
    eventually(lambda: published_rewards(sim, "n1") == {"D": reward}, f"a reward of {reward}")


def test_the_monitor_process_learns_stops_on_sigterm_and_its_rewards_can_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "rewards.json"
    with simulated(node("n1"), pod("a", "n1", "Failed", D)) as (sim, _):
        command = python("herodotus_agents", "monitor", "--server", sim.url, "--store", str(store))
        for expected in (0.9, 0.81):
            monitor = Process("monitor", command, tmp_path / "monitor.log")
            wait_for_reward(sim, expected)
            assert monitor.stop() == 0
            sim.create(pod("b", "n1", "Failed", D)) if expected == 0.9 else None
    assert main(["rewards", str(store)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "/nodes/n1 0.810000"


def test_an_invalid_rewards_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rewards.json").write_text("{")
    assert main(["rewards", str(tmp_path / "rewards.json")]) == 1
    assert "rewards.json: Input data was truncated" in capsys.readouterr().err
