"""Agents, annotators and plugins in a whole system, with a stock kube-scheduler and with ours."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_agents.command_line import main
from scheduler.engine.objects import quantity
from tests.e2e import control_plane
from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.e2e.real_scheduler import KubeScheduler
from tests.processes import ROOT, Process, eventually, python

Json = dict[str, Any]

STOCK = "stock-scheduler"
CALM = {"mean-free-cpu": "3500", "std-free-cpu": "200"}
RISKY = {"mean-free-cpu": "300", "std-free-cpu": "400"}


@pytest.fixture
def agents(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Run the extender service with all agents; yield its URL."""
    command = python(
        *("herodotus_agents", "serve", "--agents", "safe,congestion", "--address", "127.0.0.1", "--port", "0"),
        *("--watch-nodes", "--kubeconfig", str(cluster.kubeconfig)),
    )
    running = Process("agents", command, tmp_path / "agents.log", {"LOG_LEVEL": "DEBUG"})
    yield running.wait_for(r"listening on (http://127\.0\.0\.1:\d+)")[1]
    assert running.stop() == 0


def configuration(url: str, scheduler: str, *, by_name: bool) -> Json:
    prefix = f"{url}/scheduler"
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": scheduler}],
        "extenders": [
            {
                "urlPrefix": prefix,
                "filterVerb": "predicates/safe-overload",
                "prioritizeVerb": "priorities/safe-overload",
                "weight": 1,
                "nodeCacheCapable": by_name,
            },
            {
                "urlPrefix": prefix,
                "prioritizeVerb": "priorities/congestion",
                "weight": 10,
                "nodeCacheCapable": by_name,
            },
        ],
    }


def create_annotated_nodes(cluster: Cluster) -> None:
    """Create four nodes: calm and free, calm and congested, without statistics, and too risky."""
    annotations = {
        "calm": {**CALM, "congestion-factor": "10"},
        "congested": {**CALM, "congestion-factor": "90"},
        "unknown": {"congestion-factor": "20"},
        "risky": RISKY,
    }
    for name, values in annotations.items():
        made = node(name)
        made["metadata"]["annotations"] = values
        cluster.create("/api/v1/nodes", made)


@pytest.mark.parametrize("by_name", [False, True], ids=["whole nodes", "names"])
def test_kube_scheduler_and_ours_decide_alike_with_the_same_agents(
    cluster: Cluster, namespace: str, agents: str, tmp_path: Path, by_name: bool
) -> None:
    """Feasible nodes and totals are equal, and so is the node, because the best one is unique."""
    binaries = control_plane.assets()
    if cluster.kind != "real" or binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip("needs a real kube-scheduler and kube-apiserver")
    create_annotated_nodes(cluster)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    stock = KubeScheduler(
        binaries / "kube-scheduler",
        cluster.kubeconfig,
        configuration(agents, STOCK, by_name=by_name),
        tmp_path / "stock",
    )
    ours = Herodotus(cluster, tmp_path, **configuration(agents, SCHEDULER, by_name=by_name))
    try:
        name = f"{namespace}/theirs"
        cluster.create(pods, pod("theirs", cpu="500m", scheduler=STOCK))
        stock.wait_for(
            lambda: bool(stock.attempts_of(name)) and stock.attempts_of(name)[-1].ended == "bound",
            "kube-scheduler to bind",
        )
        attempt = stock.attempts_of(name)[-1]
        cluster.delete(f"{pods}/theirs")
        eventually(lambda: cluster.find(f"{pods}/theirs") is None, "the pod to go")
        cluster.create(pods, pod("ours", cpu="500m"))
        bound = eventually(lambda: cluster.bound(namespace).get("ours"), "our scheduler to bind")
        eventually(lambda: has_decisions(ours, namespace), "the decision")
        answer = ours.explanation(namespace, "ours", all="true")
    finally:
        stock.stop()
        ours.stop()
    assert bound["spec"]["nodeName"] == attempt.node == "calm"
    assert {row["node"]: row["total"] for row in answer["ranking"]} == attempt.totals
    assert sorted(attempt.totals) == ["calm", "congested", "unknown"]
    (risky,) = (row for row in answer["perNode"] if row["node"] == "risky")
    (described,) = (reason["text"] for by in risky["rejectedBy"] for reason in by["reasons"])
    assert described == "cpu: the risk of being used more than 90 % is 1.00, more than 0.30"
    assert inputs_of(answer, "calm") == {
        "annotations mean-free-cpu, std-free-cpu": {"cpu used": 25.0, "cpu deviation": 5.0, "cpu risk": 0.0},
        "annotation mean-free-memory": dict.fromkeys(("memory used", "memory deviation", "memory risk")),
        "annotation congestion-factor": {"factor": 10.0},
    }
    assert inputs_of(answer, "risky")["annotations mean-free-cpu, std-free-cpu"]["cpu used"] == 100.0


def inputs_of(answer: Json, node: str) -> dict[str, Json]:
    """Return the recorded inputs of a node's scores, by source."""
    (row,) = (row for row in answer["perNode"] if row["node"] == node)
    return {source["source"]: told["values"] for source, told in zip(answer["inputs"], row["inputs"], strict=True)}


def has_decisions(herodotus: Herodotus, namespace: str) -> bool:
    return bool(herodotus.decisions(namespace))


def with_plugins(score: str, *filters: str, **args: Any) -> Json:
    """Return a profile in which only this plugin scores."""
    enabled = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": score}]}}
    if filters:
        enabled["filter"] = {"enabled": [{"name": name} for name in filters]}
    arguments = [{"name": score, "args": args}] if args else []
    return {"profiles": [{"schedulerName": SCHEDULER, "plugins": enabled, "pluginConfig": arguments}]}


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Run `kubectl proxy`; yield its URL."""
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "proxy", "--port=0"]
    running = Process("proxy", command, tmp_path / "proxy.log")
    yield f"http://{running.wait_for(r'Starting to serve on ([0-9.:]+)')[1]}"
    running.stop()


def prices(*where: str, **given: str) -> None:
    flags = [flag for name, value in given.items() for flag in ("--price", f"{name}={value}")]
    assert main(["annotate", "price", *where, *flags]) == 0


def test_the_cheapest_node_with_room_wins(cluster: Cluster, namespace: str, proxy: str, tmp_path: Path) -> None:
    """The cheapest node with room wins; new prices, set through kubectl proxy, change the winner."""
    cluster.create_all("/api/v1/nodes", [node("n1"), node("n2"), node("n3", cpu="100m")])
    prices("--kubeconfig", str(cluster.kubeconfig), n1="0.05", n2="1.60", n3="0.01")
    running = Herodotus(cluster, tmp_path, **with_plugins("BestPrice"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    try:
        cluster.create(pods, pod("first", cpu="500m"))
        first = eventually(lambda: cluster.bound(namespace).get("first"), "the first pod to be bound")
        prices("--server", proxy, n1="0.80", n2="0.10")
        cluster.create(pods, pod("second", cpu="500m"))
        second = eventually(lambda: cluster.bound(namespace).get("second"), "the second pod to be bound")
        eventually(lambda: len(running.decisions(namespace)) == 2, "both decisions")
        answer = running.explanation(namespace, "second", all="true")
        best = answer["ranking"][0]
    finally:
        running.stop()
    assert (first["spec"]["nodeName"], second["spec"]["nodeName"]) == ("n1", "n2")
    assert inputs_of(answer, "n2") == {"annotation hightower.com/cost": {"price": 0.1}}
    assert (best["node"], best["scores"]) == ("n2", {"BestPrice": {"raw": 100_000, "normalized": 100, "weighted": 100}})


def test_a_pod_waits_until_the_annotation_reports_a_calm_node(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    made = node("n1")
    made["metadata"]["annotations"] = RISKY
    cluster.create("/api/v1/nodes", made)
    running = Herodotus(cluster, tmp_path, **with_plugins("SafeOverload", "SafeOverload"))
    try:
        cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("p", cpu="500m"))
        described = eventually(lambda: cluster.condition(namespace, "p").get("message"), "the pod to be refused")
        assert "node(s) had a risk of 100 % that cpu is used more than 90 %" in described
        cluster.patch("/api/v1/nodes/n1", {"metadata": {"annotations": CALM}})
        eventually(lambda: "p" in cluster.bound(namespace), "the pod to be bound")
        eventually(lambda: len(running.decisions(namespace)) == 2, "both attempts")
        assert running.explanation(namespace, "p")["attempt"]["number"] == 2
    finally:
        running.stop()


def test_allocated_amounts_equal_those_of_kubectl_describe(cluster: Cluster, namespace: str) -> None:
    cluster.create("/api/v1/nodes", node("n1"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    init = {"name": "init", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "2"}}}
    sidecar = {**init, "name": "side", "restartPolicy": "Always", "resources": {"requests": {"memory": "64Mi"}}}
    cluster.create(pods, pod("plain", cpu="250m", nodeName="n1"))
    cluster.create(pods, pod("init", cpu="500m", nodeName="n1", initContainers=[sidecar, init]))
    cluster.create(pods, pod("ended", cpu="1", nodeName="n1"))
    cluster.patch(f"{pods}/ended/status", {"status": {"phase": "Succeeded"}})
    assert main(["annotate", "allocation", "--once", "--kubeconfig", str(cluster.kubeconfig)]) == 0

    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "describe", "node", "n1"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    described = {resource: _described(text, resource) for resource in ("cpu", "memory", "ephemeral-storage")}
    match = re.search(r"Non-terminated Pods: +\((\d+) in total\)", text)
    assert match, text
    described["pods"] = int(match[1])
    annotations = cluster.get("/api/v1/nodes/n1")["metadata"]["annotations"]
    assert {resource: int(annotations[f"requested-{resource}"]) for resource in described} == described
    free = {"cpu": 4000 - described["cpu"], "memory": (16 << 30) - described["memory"], "pods": 110 - described["pods"]}
    assert {resource: int(annotations[f"free-{resource}"]) for resource in free} == free
    assert (described["cpu"], described["memory"], described["pods"]) == (2250, 64 << 20, 2)


AGENTS = ROOT / "deploy/agents"
COMBINATIONS = ("safe", "congestion", "pigeon", "reward", "foo", "safe-congestion", "safe-pigeon")


def test_the_api_server_accepts_every_manifest_without_a_warning(cluster: Cluster) -> None:
    """This includes pod security admission: the namespace is restricted. The test pods are only a dry run."""
    if cluster.kind != "real":
        pytest.skip("the simulated API server knows no admission")
    for flags in (*(("-k", str(AGENTS / name)) for name in COMBINATIONS), ("-f", str(AGENTS / "measuring.yaml"))):
        assert _applied(cluster, *flags)
    assert _applied(cluster, "--dry-run=server", "-f", str(AGENTS / "test"))
    deployments = cluster.items("/apis/apps/v1/namespaces/herodotus-agents/deployments")
    names = {deployment["metadata"]["name"] for deployment in deployments}
    annotators = {f"herodotus-annotate-{what}" for what in ("usage", "allocation", "congestion")}
    assert names == {"my-scheduler", "herodotus-monitor", *annotators}


def _applied(cluster: Cluster, *flags: str) -> list[str]:
    """Run `kubectl apply` and return a line for each object; fail on any warning."""
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "apply", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_annotators_and_monitor_need_no_more_rights_than_the_manifest_gives(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """RBAC is on; each process uses the token of its service account."""
    if cluster.kind != "real":
        pytest.skip("the simulated API server grants everything")
    _applied(cluster, "-f", str(AGENTS / "measuring.yaml"))
    cluster.create("/api/v1/nodes", node("n1"))
    failed = pod("failed", nodeName="n1")
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", failed)
    cluster.patch(f"/api/v1/namespaces/{namespace}/pods/failed/status", {"status": {"phase": "Failed"}})

    annotator, watcher = (
        _kubeconfig_of(cluster, account, tmp_path) for account in ("herodotus-annotator", "herodotus-monitor")
    )
    assert main(["annotate", "allocation", "--once", "--kubeconfig", str(annotator)]) == 0
    prices("--kubeconfig", str(annotator), n1="0.05")
    monitor = Process("monitor", python("herodotus_agents", "monitor", "--kubeconfig", str(watcher)), tmp_path / "log")
    try:
        wanted = {"requested-pods", "hightower.com/cost", "herodotus.dev/rewards"}
        eventually(lambda: wanted <= (cluster.get("/api/v1/nodes/n1")["metadata"]["annotations"]).keys(), "all three")
    finally:
        assert monitor.stop() == 0
    rewards = json.loads(cluster.get("/api/v1/nodes/n1")["metadata"]["annotations"]["herodotus.dev/rewards"])
    assert rewards == {"e2e": 0.9}


def _kubeconfig_of(cluster: Cluster, account: str, directory: Path) -> Path:
    """Return a kubeconfig of a service account."""
    path = f"/api/v1/namespaces/herodotus-agents/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": cluster.create(path, request)["status"]["token"]}
    file = directory / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def _described(text: str, resource: str) -> int:
    """Return the request of a resource in base units, as `kubectl describe` prints it."""
    found = re.search(rf"^  {resource} +(\S+) \(", text.partition("Allocated resources:")[2], re.MULTILINE)
    assert found is not None, text
    return quantity.scaled_value(found[1], quantity.MILLI if resource == "cpu" else quantity.WHOLE)


def test_a_pod_type_avoids_nodes_on_which_it_failed_also_after_a_restart(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Demo of kubeRL: a pod type that failed on two nodes is placed on the third; the record has the reward."""
    cluster.create_all("/api/v1/nodes", [node(name) for name in ("bad-1", "bad-2", "good")])
    pods, kind = f"/api/v1/namespaces/{namespace}/pods", {"labels": {"podtype": "D"}}

    def fails(name: str, on: str) -> None:
        made = pod(name, nodeName=on)
        made["metadata"] |= kind
        cluster.create(pods, made)
        cluster.patch(f"{pods}/{name}/status", {"status": {"phase": "Failed"}})

    def monitored(life: str, **wanted: float) -> None:
        command = python("herodotus_agents", "monitor", "--kubeconfig", str(cluster.kubeconfig))
        monitor = Process("monitor", [*command, "--store", str(tmp_path / "rewards")], tmp_path / f"{life}.log")
        try:
            eventually(lambda: all(_rewards(cluster, on) == {"D": r} for on, r in wanted.items()), "rewards")
        finally:
            assert monitor.stop() == 0

    fails("one", "bad-1")
    fails("two", "bad-2")
    monitored("first", **{"bad-1": 0.9, "bad-2": 0.9})
    fails("three", "bad-1")
    monitored("second", **{"bad-1": 0.81, "bad-2": 0.9})  # from 0.9 on, and what was counted is not counted again
    running = Herodotus(cluster, tmp_path, **with_plugins("Reward"))
    try:
        made = pod("next", cpu="500m")
        made["metadata"] |= kind
        cluster.create(pods, made)
        bound = eventually(lambda: cluster.bound(namespace).get("next"), "the pod to be bound")
        eventually(lambda: len(running.decisions(namespace)) == 1, "the decision")
        answer = running.explanation(namespace, "next", all="true")
    finally:
        running.stop()
    assert bound["spec"]["nodeName"] == "good"
    source = "annotation herodotus.dev/rewards, pod type D"
    assert {name: inputs_of(answer, name)[source] for name in ("bad-1", "bad-2", "good")} == {
        "bad-1": {"reward": 0.81},
        "bad-2": {"reward": 0.9},
        "good": {"reward": 1.0},
    }


def _rewards(cluster: Cluster, name: str) -> Any:
    annotations = cluster.get(f"/api/v1/nodes/{name}")["metadata"].get("annotations") or {}
    return json.loads(annotations.get("herodotus.dev/rewards", "{}"))
