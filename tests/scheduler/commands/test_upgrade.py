"""An observer beside a kube-scheduler that is upgraded: it decides by the rules of the version that runs."""

from __future__ import annotations

import threading
from functools import partial
from itertools import count
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


def is_recorded(spool: Path, pod: str) -> bool:
    return pod in read_decisions(spool)


def bind_until_recorded(sim: SimulatedCluster, spool: Path, name: str) -> str:
    """Bind pods whose names begin so until one is recorded, and return its name.

    An observer records no decision for a pod that is bound in its first list.
    """
    for number in count():
        pod = f"{name}-{number}"
        bind(sim, pod)
        try:
            eventually(partial(is_recorded, spool, pod), "the record", 3.0)
        except AssertionError:
            continue
        return pod
    raise AssertionError


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
            first = bind_until_recorded(sim, spool, "before")
            run_scheduler(sim, f"registry.k8s.io/kube-scheduler:{after}")
            eventually(
                lambda: len(rounds) == 1 and len(list(list_incarnations(spool))) == 2, "the observer to begin anew"
            )
            second = bind_until_recorded(sim, spool, "after")
        finally:
            stop.set()
            thread.join()
    decisions = read_decisions(spool)
    found = {name: decisions[name] for name in (first, second)}
    assert {name: (each.scheduler.rules, each.scheduler.rules_source) for name, each in found.items()} == {
        first: (before, "scheduler-image"),
        second: (after, "scheduler-image"),
    }
    arrivals = [each for each in read_trace([tmp_path / "trace"]).events if isinstance(each, PodArrived)]
    placed = [each.name for each in arrivals if each.node == "n" and not each.was_on_node]
    assert [name for name in placed if name in (f"default/{first}", f"default/{second}")] == [
        f"default/{first}",
        f"default/{second}",
    ]
    assert list_absent_kinds(found[first]) == []
    assert list_absent_kinds(found[second]) == watched
