"""An observer beside a kube-scheduler that is upgraded: it decides by the rules of the version that runs."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_record.model import Decision
from herodotus_sim import SimulatedCluster
from scheduler.commands import main, observe
from scheduler.commands.trace import record_trace
from scheduler.commands.version_watch import VersionWatch
from scheduler.config import Configuration, ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.traces.document import PodArrived, read_trace
from scheduler.recorder.spool_reader import list_incarnations
from tests.processes import eventually
from tests.scheduler.spools import read_decisions

Json = dict[str, Any]

CONFIG = Configuration(profiles=(ProfileConfig(scheduler_name="default-scheduler"),))


def create(sim: SimulatedCluster, path: str, manifest: Json) -> None:
    answer = httpx.post(f"{sim.url}{path}", json=manifest)
    assert answer.status_code == 201, answer.text


def run_scheduler(sim: SimulatedCluster, image: str) -> None:
    """Replace the pod of kube-scheduler by one with another image."""
    path = "/api/v1/namespaces/kube-system/pods"
    httpx.delete(f"{sim.url}{path}/kube-scheduler?gracePeriodSeconds=0")
    metadata = {"name": "kube-scheduler", "labels": {"component": "kube-scheduler"}}
    container = {"name": "kube-scheduler", "image": image}
    create(sim, path, {"metadata": metadata, "spec": {"nodeName": "n", "containers": [container]}})


def bind(sim: SimulatedCluster, name: str) -> None:
    """Create a pod and bind it to the only node, as the observed scheduler would."""
    path = "/api/v1/namespaces/default/pods"
    create(sim, path, {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "a"}]}})
    create(sim, f"{path}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}})


def list_absent_kinds(decision: Decision) -> list[str]:
    """Return the kinds of which the record says that the observer watches them and the API server lacks them."""
    return [note.params["kind"] for note in decision.notes if note.code == "absent-kind"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("before", "after", "watched"),
    [("v1.34.2", "v1.35.1", []), ("v1.36.2", "v1.37.1", ["devicetaintrules"])],
    ids=["v1.35", "v1.37"],
)
def test_an_upgrade_changes_the_rules_and_the_watched_kinds(
    before: str, after: str, watched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulated API server lacks DeviceTaintRules, which only an observer of v1.37 watches."""
    monkeypatch.setattr(observe, "VersionWatch", partial(VersionWatch, every_s=0.2))
    stop, spool = threading.Event(), tmp_path / "spool"
    with SimulatedCluster() as sim:
        create(
            sim,
            "/api/v1/nodes",
            {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
        )
        run_scheduler(sim, f"registry.k8s.io/kube-scheduler:{before}")
        words = ["observe", "--master", sim.url, "--spool", str(spool), "--secure-port", "0", "--window", "0"]
        words += ["--trace", str(tmp_path / "trace")]
        arguments = main._parser().parse_args(words)
        arguments.registry = IN_TREE
        rounds: list[int] = []

        def run() -> None:
            with record_trace(arguments) as tee:
                while not stop.is_set():
                    observe._observe_until_upgrade(arguments, CONFIG, stop, tee)
                    rounds.append(1)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            eventually(lambda: spool.exists() and any(True for _ in list_incarnations(spool)), "the first observer")
            bind(sim, "before")
            eventually(lambda: "before" in read_decisions(spool), "the record before the upgrade")
            run_scheduler(sim, f"registry.k8s.io/kube-scheduler:{after}")
            eventually(
                lambda: len(rounds) == 1 and len(list(list_incarnations(spool))) == 2, "the observer to begin anew"
            )
            bind(sim, "after")
            eventually(lambda: "after" in read_decisions(spool), "the record after the upgrade")
        finally:
            stop.set()
            thread.join()
    found = read_decisions(spool)
    assert {name: (each.scheduler.rules, each.scheduler.rules_source) for name, each in found.items()} == {
        "before": (before, "scheduler-image"),
        "after": (after, "scheduler-image"),
    }
    arrivals = [each for each in read_trace([tmp_path / "trace"]).events if isinstance(each, PodArrived)]
    assert [(each.name, each.node) for each in arrivals if not each.was_on_node] == [
        ("default/before", "n"),
        ("default/after", "n"),
    ]
    assert list_absent_kinds(found["before"]) == []
    assert list_absent_kinds(found["after"]) == watched
