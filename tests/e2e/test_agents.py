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

from herodotus_agents.__main__ import main
from herodotus_agents.objects import in_base_units
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
    """The extender service with all agents; its URL."""
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


def annotated(cluster: Cluster) -> None:
    """Four nodes: one calm and free, one calm and congested, one without statistics, one that is too risky."""
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
def test_a_stock_kube_scheduler_and_ours_decide_alike_by_the_same_agents(
    cluster: Cluster, namespace: str, agents: str, tmp_path: Path, by_name: bool
) -> None:
    """Same feasible sets and totals, and the same node: the best is unique."""
    binaries = control_plane.assets()
    if cluster.kind != "real" or binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip("needs a real kube-scheduler and kube-apiserver")
    annotated(cluster)
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
        stock.wait_for(lambda: bool(stock.of(name)) and stock.of(name)[-1].ended == "bound", "kube-scheduler to bind")
        attempt = stock.of(name)[-1]
        cluster.delete(f"{pods}/theirs")
        eventually(lambda: cluster.find(f"{pods}/theirs") is None, "the pod to go")
        cluster.create(pods, pod("ours", cpu="500m"))
        bound = eventually(lambda: cluster.bound(namespace).get("ours"), "our scheduler to bind")
        eventually(lambda: herodotus_knows(ours, namespace), "the decision")
        answer = ours.explanation(namespace, "ours", all="true")
    finally:
        stock.stop()
        ours.stop()
    assert bound["spec"]["nodeName"] == attempt.node == "calm"
    assert {row["node"]: row["total"] for row in answer["ranking"]} == attempt.totals
    assert sorted(attempt.totals) == ["calm", "congested", "unknown"]
    (risky,) = (row for row in answer["perNode"] if row["node"] == "risky")
    (said,) = (reason["text"] for by in risky["rejectedBy"] for reason in by["reasons"])
    assert said == "cpu: the risk of being used more than 90 % is 1.00, more than 0.30"


def herodotus_knows(herodotus: Herodotus, namespace: str) -> bool:
    return bool(herodotus.decisions(namespace))


def with_plugins(score: str, *filters: str, **args: Any) -> Json:
    """A profile in which this plugin alone scores."""
    enabled = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": score}]}}
    if filters:
        enabled["filter"] = {"enabled": [{"name": name} for name in filters]}
    arguments = [{"name": score, "args": args}] if args else []
    return {"profiles": [{"schedulerName": SCHEDULER, "plugins": enabled, "pluginConfig": arguments}]}


@pytest.fixture
def proxy(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """`kubectl proxy`; its URL."""
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "proxy", "--port=0"]
    running = Process("proxy", command, tmp_path / "proxy.log")
    yield f"http://{running.wait_for(r'Starting to serve on ([0-9.:]+)')[1]}"
    running.stop()


def prices(*where: str, **given: str) -> None:
    flags = [flag for name, value in given.items() for flag in ("--price", f"{name}={value}")]
    assert main(["annotate", "price", *where, *flags]) == 0


def test_the_price_walk_through(cluster: Cluster, namespace: str, proxy: str, tmp_path: Path) -> None:
    """The cheapest node that has room; with new prices, set through kubectl proxy, another one."""
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
        best = running.explanation(namespace, "second", all="true")["ranking"][0]
    finally:
        running.stop()
    assert (first["spec"]["nodeName"], second["spec"]["nodeName"]) == ("n1", "n2")
    assert (best["node"], best["scores"]) == ("n2", {"BestPrice": {"raw": 100_000, "normalized": 100, "weighted": 100}})


def test_a_pod_waits_for_a_calm_node_and_goes_when_the_annotation_says_so(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    made = node("n1")
    made["metadata"]["annotations"] = RISKY
    cluster.create("/api/v1/nodes", made)
    running = Herodotus(cluster, tmp_path, **with_plugins("SafeOverload", "SafeOverload"))
    try:
        cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("p", cpu="500m"))
        said = eventually(lambda: cluster.condition(namespace, "p").get("message"), "the pod to be refused")
        assert "node(s) had a risk of 100 % that cpu is used more than 90 %" in said
        cluster.patch("/api/v1/nodes/n1", {"metadata": {"annotations": CALM}})
        eventually(lambda: "p" in cluster.bound(namespace), "the pod to be bound")
        eventually(lambda: len(running.decisions(namespace)) == 2, "both attempts")
        assert running.explanation(namespace, "p")["attempt"]["number"] == 2
    finally:
        running.stop()


def test_what_is_allocated_is_what_kubectl_describe_says(cluster: Cluster, namespace: str) -> None:
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
    described = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    said = {resource: _described(described, resource) for resource in ("cpu", "memory", "ephemeral-storage")}
    said["pods"] = int(re.search(r"Non-terminated Pods: +\((\d+) in total\)", described)[1])  # type: ignore[index]
    annotations = cluster.get("/api/v1/nodes/n1")["metadata"]["annotations"]
    assert {resource: int(annotations[f"requested-{resource}"]) for resource in said} == said
    free = {"cpu": 4000 - said["cpu"], "memory": (16 << 30) - said["memory"], "pods": 110 - said["pods"]}
    assert {resource: int(annotations[f"free-{resource}"]) for resource in free} == free
    assert (said["cpu"], said["memory"], said["pods"]) == (2250, 64 << 20, 2)


MEASURING = ROOT / "deploy/agents/measuring.yaml"
RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")


def test_annotators_and_monitor_need_no_more_rights_than_the_manifest_gives(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Under RBAC, with the tokens of their own service accounts."""
    if cluster.kind != "real":
        pytest.skip("the simulated API server grants everything")
    objects = [o for o in yaml.safe_load_all(MEASURING.read_text()) if o["kind"] in RIGHTS]
    rights = tmp_path / "rights.yaml"
    rights.write_text(yaml.safe_dump_all(objects))
    subprocess.run(["kubectl", "--kubeconfig", str(cluster.kubeconfig), "apply", "-f", str(rights)], check=True)
    cluster.create("/api/v1/nodes", node("n1"))
    failed = pod("failed", nodeName="n1")
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", failed)
    cluster.patch(f"/api/v1/namespaces/{namespace}/pods/failed/status", {"status": {"phase": "Failed"}})

    annotator, watcher = (_as(cluster, account, tmp_path) for account in ("annotator", "monitor"))
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


def _as(cluster: Cluster, account: str, directory: Path) -> Path:
    """A kubeconfig of a service account."""
    path = f"/api/v1/namespaces/herodotus-agents/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": cluster.create(path, request)["status"]["token"]}
    file = directory / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def _described(text: str, resource: str) -> int:
    """The request of a resource in base units, as `kubectl describe` prints it."""
    found = re.search(rf"^  {resource} +(\S+) \(", text.partition("Allocated resources:")[2], re.MULTILINE)
    assert found is not None, text
    return in_base_units(resource, found[1])
