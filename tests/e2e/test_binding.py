"""The binding cycle in a whole system: victims are deleted, volumes are bound first, and a dry run binds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import Process, eventually

Json = dict[str, Any]

HIGH = "e2e-high"
CLASS = "e2e-wait"
PDBS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture
def high(cluster: Cluster) -> Iterator[None]:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.create(path, {"kind": "PriorityClass", "metadata": {"name": HIGH}, "value": 1000})
    yield
    cluster.delete(f"{path}/{HIGH}")


def test_victims_get_an_event_and_are_deleted_unless_a_budget_forbids_it(
    cluster: Cluster, namespace: str, herodotus: Herodotus, high: None
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    budget = {"metadata": {"name": "keep-a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"on": "a"}}}}
    cluster.create(PDBS.format(namespace), {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget})
    for name in ("a", "b"):
        herodotus.add_nodes(node(name))
        there = pod(f"low-{name}", cpu="3", nodeSelector={"kubernetes.io/hostname": name})
        there["metadata"]["labels"] = {"on": name}
        if name == "b":  # so that it can be looked at when it is told to go
            there["metadata"]["finalizers"] = ["example.com/look"]
        cluster.create(pods, there)
    eventually(lambda: len(cluster.bound(namespace)) == 2, "both to be bound")
    cluster.create(pods, pod("high", cpu="3", priorityClassName=HIGH))
    (event,) = eventually(lambda: cluster.events(namespace, "low-b", "Preempted") or None, "the victim's event")
    victim, preemptor = cluster.get(f"{pods}/low-b"), cluster.get(f"{pods}/high")
    condition = next(c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert victim["metadata"]["deletionTimestamp"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "PreemptionByScheduler",
        "herodotus-scheduler: preempting to accommodate a higher priority pod",
    )
    assert (event["type"], event["action"], event["note"], event["related"]["name"]) == (
        "Normal",
        "Preempting",
        f"Preempted by pod {preemptor['metadata']['uid']} on node b",
        "high",
    )
    assert "high" not in cluster.bound(namespace)
    nominated = eventually(lambda: cluster.get(f"{pods}/high")["status"].get("nominatedNodeName"), "the nomination")
    assert nominated == "b"
    cluster.create(pods, pod("late", cpu="3"))  # finds the room on b kept for the preemptor

    cluster.delete(f"{pods}/low-b")  # what the kubelet does when the pod has ended
    cluster.patch(f"{pods}/low-b", {"metadata": {"finalizers": None}})
    eventually(lambda: "high" in cluster.bound(namespace), "the preemptor to be bound")
    assert {name: p["spec"]["nodeName"] for name, p in cluster.bound(namespace).items()} == {"low-a": "a", "high": "b"}
    eventually(
        lambda: any(d["spec"]["pod"]["name"] == "high" for d in herodotus.decisions(namespace)),
        "the preemptor's record",
    )
    first = eventually(
        lambda: _with_phase(herodotus.explanation(namespace, "high", attempt="1")), "the first attempt's record"
    )
    assert first["preemption"]["nominatedNode"] == "b"
    assert [p["message"] for p in first["outcome"]["phases"]] == [f"{namespace}/low-b evicted"]


@pytest.fixture
def volume_controller(cluster: Cluster, tmp_path: Path) -> Iterator[bool]:
    """Return whether the cluster has a volume controller: kube-controller-manager's, if it is installed."""
    binaries = control_plane.assets() if cluster.kind == "real" else None
    program = binaries / "kube-controller-manager" if binaries is not None else None
    if program is None or not program.exists():
        yield False
        return
    process = Process(
        "kube-controller-manager",
        [
            str(program),
            f"--kubeconfig={cluster.kubeconfig}",
            "--controllers=persistentvolume-binder-controller",
            "--leader-elect=false",
            "--secure-port=0",
        ],
        tmp_path / "controller-manager.log",
    )
    yield True
    process.stop()


def bind_as_the_controller_does(cluster: Cluster, claims: str, volume: str) -> None:
    """Set the claim's volume once the volume names the claim, where no controller runs."""
    path = f"/api/v1/persistentvolumes/{volume}"
    reference = eventually(lambda: cluster.get(path)["spec"].get("claimRef"), "the volume to be given to the claim")
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}}
    cluster.patch(f"{claims}/{reference['name']}", {"metadata": done, "spec": {"volumeName": volume}})


def test_a_claim_that_waits_for_its_pod_is_bound_on_the_pod_s_node(
    cluster: Cluster, namespace: str, herodotus: Herodotus, volume_controller: bool
) -> None:
    """A local volume is on node b: the pod is bound there, after its claim."""
    for name in ("a", "b"):
        herodotus.add_nodes(node(name))
    classes, volumes = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.create(classes, {"kind": "StorageClass", "metadata": {"name": CLASS}, **mode})
    name = f"local-{namespace}"
    hosts = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]
    cluster.create(
        volumes,
        {
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": CLASS,
                "local": {"path": "/mnt/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": hosts}]}},
            },
        },
    )
    if not volume_controller:
        cluster.patch(f"{volumes}/{name}/status", {"status": {"phase": "Available"}})
    eventually(lambda: cluster.get(f"{volumes}/{name}")["status"].get("phase") == "Available", "an available volume")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    cluster.create(claims, {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec})
    mounts = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("p", volumes=mounts))

    if not volume_controller:
        bind_as_the_controller_does(cluster, claims, name)
    bound = eventually(lambda: cluster.bound(namespace).get("p"), "the pod to be bound", 60)
    assert bound["spec"]["nodeName"] == "b"
    claim, volume = cluster.get(f"{claims}/data"), cluster.get(f"{volumes}/{name}")
    assert (claim["spec"]["volumeName"], volume["spec"]["claimRef"]["uid"]) == (name, claim["metadata"]["uid"])
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    eventually(lambda: herodotus.decisions(namespace) or None, "the record")
    answer = eventually(lambda: _with_end(herodotus.explanation(namespace, "p")), "the record's end")
    assert [(p["phase"], p["status"]) for p in answer["outcome"]["phases"]] == [
        ("PreBind", "Wait"),
        ("PreBind", "Success"),
        ("Bind", "Success"),
    ]
    for path in (f"{claims}/data", f"{volumes}/{name}", f"{classes}/{CLASS}"):
        cluster.delete(path)


def test_a_dry_run_decides_pods_of_the_default_scheduler_and_binds_none(
    cluster: Cluster, namespace: str, herodotus: Herodotus
) -> None:
    herodotus.scheduler.stop()
    cluster.create("/api/v1/nodes", node("a"))
    herodotus.start_scheduler("--dry-run-binding", "--schedulers", "default-scheduler")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create(pods, pod("fits", cpu="3", scheduler="default-scheduler"))
    eventually(lambda: len(herodotus.decisions(namespace)) == 1, "the first decision")
    cluster.create(pods, pod("full", cpu="3", scheduler="default-scheduler"))
    eventually(lambda: len(herodotus.decisions(namespace)) == 2, "both decisions")

    answer = eventually(lambda: _with_end(herodotus.explanation(namespace, "fits")), "the record's end")
    assert (answer["outcome"]["state"], answer["outcome"]["node"]) == ("DryRun", "a")
    assert any("dry run" in mark for mark in answer["notes"])
    assert herodotus.explanation(namespace, "full")["outcome"]["state"] == "Unschedulable"
    assert cluster.bound(namespace) == {}
    assert cluster.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events") == []
    assert cluster.condition(namespace, "full") == {}


def _with_end(answer: Json) -> Json | None:
    return answer if answer["outcome"]["final"] else None


def _with_phase(answer: Json) -> Json | None:
    return answer if answer["outcome"]["phases"] else None
