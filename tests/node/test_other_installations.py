"""The observer's manifest, and the chart with agents: each becomes ready, explains a pod and is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.cluster import node, pod
from tests.node.installation import ChartInstallation, Installation, installed, list_leftovers
from tests.node.machine import NODE, Machine
from tests.processes import ROOT, eventually

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


def test_the_chart_with_agents_explains_a_pod_by_their_scores(machine: Machine) -> None:
    with installed(ChartInstallation(machine, AGENTS)) as release, second_node(machine):
        took_s = release.measure_first_answer("scored")
        print(f"chart: first answer after {took_s:.1f} s")
        assert release.explained_node("scored") == NODE
        (scheduler,) = release.pods("scheduler")
        assert {c["name"]: c["ready"] for c in scheduler["status"]["containerStatuses"]} == {
            "scheduler": True,
            "agents": True,
        }
        machine.cluster.create(PODS, pod("compared", tolerations=[{"operator": "Exists"}]))
        eventually(lambda: release.explained_node("compared"), "the record of a pod that fits on both nodes")
        record = release.query("namespaces/default/decisions/compared")["spec"]
        (scores,) = (each for each in record["scores"] if each["plugin"].startswith("http://"))
        assert (scores["weight"], scores["normalized"].keys()) == (1, {NODE, "spare"})
        machine.kubectl("delete", "pod", "scored", "compared", "--force", "--grace-period=0")
    assert list_leftovers(machine) == []


PODS = "/api/v1/namespaces/default/pods"


@contextmanager
def second_node(machine: Machine) -> Iterator[None]:
    """Have one more Node object, without a kubelet: a pod that fits on one node alone is not scored."""
    machine.cluster.create("/api/v1/nodes", node("spare", cpu="64"))
    try:
        yield
    finally:
        machine.cluster.delete("/api/v1/nodes/spare")
