"""The observer's manifest, and the chart with agents: each becomes ready, explains a pod and is removed."""

from __future__ import annotations

from tests.node.installation import ChartInstallation, Installation, installed
from tests.node.machine import NODE, Machine
from tests.node.test_installing import list_leftovers
from tests.processes import ROOT

AGENTS = {
    "endpoint": {"persistence": {"keep": False}},
    "agents": {
        "enabled": True,
        "names": ["safe"],
        "extenders": [{"prioritizeVerb": "priorities/safe-balance", "weight": 1}],
    },
}


def test_the_observer_explains_a_pod_of_the_default_scheduler(machine: Machine) -> None:
    with installed(Installation(machine, ("-f", str(ROOT / "deploy/observer.yaml")))) as observer:
        took_s = observer.measure_first_answer("observed", "default-scheduler")
        print(f"observer: first answer after {took_s:.1f} s")
        assert observer.explained_node("observed") == NODE
        machine.kubectl("delete", "pod", "observed", "--force", "--grace-period=0")
    assert list_leftovers(machine) == []


def test_the_chart_with_agents_explains_a_pod(machine: Machine) -> None:
    with installed(ChartInstallation(machine, AGENTS)) as release:
        took_s = release.measure_first_answer("scored")
        print(f"chart: first answer after {took_s:.1f} s")
        assert release.explained_node("scored") == NODE
        (pod,) = release.pods("scheduler")
        assert {c["name"]: c["ready"] for c in pod["status"]["containerStatuses"]} == {
            "scheduler": True,
            "agents": True,
        }
        machine.kubectl("delete", "pod", "scored", "--force", "--grace-period=0")
    assert list_leftovers(machine) == []
