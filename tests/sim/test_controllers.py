"""The simulated controllers: what follows from an object, step by step."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from herodotus_sim import SimulatedCluster
from herodotus_sim.controllers import ControllerManager
from herodotus_sim.kubelets import Kubelets, find_planned_exit, pod_state
from herodotus_sim.strategy import now
from tests.processes import eventually
from tests.sim.client import Object, SimClient

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


class ControlledCluster:
    """A cluster whose controllers run only when a test says so, and a clock of its own."""

    def __init__(self) -> None:
        self.sim = SimulatedCluster()
        self.at = time.time()
        self._manager = ControllerManager(self.sim._routes.verbs, lambda: self.at)

    def settle(self) -> None:
        self._manager.process_all()

    def step(self) -> bool:
        """One reconcile, so that a test sees each state in between."""
        return self._manager.process_next()

    def pods(self, labels: str = "") -> list[Object]:
        return self.sim.list("Pod", "default", labels)

    def run(self, pods: list[Object] | None = None) -> None:
        """Bind pods and make them ready, all that are not where none are named."""
        for pod in self.pods() if pods is None else pods:
            if not pod["spec"].get("nodeName"):
                self.sim.bind("default", pod["metadata"]["name"], "n1")
                self.report(pod, "Running", "True")

    def report(self, pod: Object, phase: str, ready: str) -> None:
        """Write a pod's phase and Ready condition as a kubelet would."""
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": now()}
        status = {"phase": phase, "conditions": [condition]}
        self.sim.patch("Pod", "default", pod["metadata"]["name"], {"status": status})

    def apply(self, kind: str, name: str, patch: Object) -> None:
        self.sim.patch(kind, "default", name, patch)


@pytest.fixture
def cluster() -> ControlledCluster:
    return ControlledCluster()


@pytest.fixture
def api(serve: Callable[..., SimClient]) -> SimClient:
    return serve(run_controllers=True, run_pods=True)


def template(image: str = "registry.example/app:1", app: str = "web", **spec: Any) -> Object:
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def a_workload(kind: str, name: str = "web", **spec: Any) -> Object:
    given = {"selector": {"matchLabels": {"app": name}}, "template": template(app=name), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": given}


INDEX = "batch.kubernetes.io/job-completion-index"


def a_job(name: str = "j", **spec: Any) -> Object:
    containers = [{"name": "main", "image": "registry.example/app:1"}]
    given = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": given}


def condition(obj: Object, type_: str) -> tuple[str, str]:
    found = next(c for c in obj["status"]["conditions"] if c["type"] == type_)
    return found["status"], found["reason"]


# --- deployments ------------------------------------------------------------------------------------------------------


def test_a_deployment_gets_a_replica_set_and_pods_with_owners_and_hashes(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=3))
    cluster.settle()
    (replica_set,) = cluster.sim.list("ReplicaSet")
    deployment = cluster.sim.get("Deployment", "default", "web")
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{digest}"
    assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": digest}}
    names = [pod["metadata"]["name"] for pod in cluster.pods()]
    assert [name.rpartition("-")[0] for name in names] == [f"web-{digest}"] * 3
    for pod in cluster.pods():
        (owner,) = pod["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{digest}",
            "uid": replica_set["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
    (owner,) = replica_set["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", deployment["metadata"]["uid"], True)
    assert deployment["status"]["unavailableReplicas"] == 3
    assert condition(deployment, "Available") == ("False", "MinimumReplicasUnavailable")
    cluster.run()
    cluster.settle()
    deployment = cluster.sim.get("Deployment", "default", "web")
    counts = {k: v for k, v in deployment["status"].items() if k != "conditions"}
    assert counts == {
        "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1
    }  # fmt: skip
    assert condition(deployment, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(deployment, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_a_settled_cluster_has_no_writes(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=2))
    cluster.sim.create(a_workload("StatefulSet", "db", replicas=1))
    cluster.sim.create(a_job())
    cluster.settle()
    before = cluster.sim.store.version
    for kind, name in (("Deployment", "web"), ("StatefulSet", "db"), ("Job", "j")):
        cluster.apply(kind, name, {"metadata": {"annotations": {"touched": "yes"}}})
    cluster.settle()
    (replica_set,) = cluster.sim.list("ReplicaSet")
    assert replica_set["metadata"]["annotations"]["touched"] == "yes"  # copied, as kube-controller-manager does
    assert cluster.sim.store.version == before + 4


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas"), [("25%", "25%", 8), (1, 0, 3), (0, 1, 3), ("0%", "0%", 4), ("100%", 0, 3)]
)
def test_a_rolling_update_respects_its_limits_at_every_step(
    cluster: ControlledCluster, surge: Any, unavailable: Any, replicas: int
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster.sim.create(a_workload("Deployment", replicas=replicas, strategy=strategy))
    cluster.settle()
    cluster.run()
    cluster.settle()
    most = replicas + {"25%": 2, 1: 1, 0: 0, "0%": 0, "100%": 3}[surge]
    least = replicas - {"25%": 2, 0: 0, 1: 1, "0%": 1}[unavailable]
    cluster.apply("Deployment", "web", {"spec": {"template": template("registry.example/app:2")}})

    def ready_pods() -> int:
        return sum(p["status"].get("phase") == "Running" for p in cluster.pods())

    rounds = 0
    while [p["spec"]["containers"][0]["image"] for p in cluster.pods()] != ["registry.example/app:2"] * replicas:
        while cluster.step():
            assert len(cluster.pods()) <= most
            assert ready_pods() >= least
        waiting = [p for p in cluster.pods() if not p["spec"].get("nodeName")]
        cluster.run(waiting[:1])
        rounds += 1
        assert rounds < 40, "the rollout does not advance"
    cluster.run()
    cluster.settle()
    assert sorted(s["spec"]["replicas"] for s in cluster.sim.list("ReplicaSet")) == [0, replicas]
    deployment = cluster.sim.get("Deployment", "default", "web")
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert condition(deployment, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_an_update_that_never_becomes_ready_stops_at_the_limit_and_times_out(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=4, progressDeadlineSeconds=60))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.apply("Deployment", "web", {"spec": {"template": template("registry.example/broken:1")}})
    cluster.settle()
    cluster.at += 70
    cluster.settle()
    deployment = cluster.sim.get("Deployment", "default", "web")
    images = Counter(p["spec"]["containers"][0]["image"] for p in cluster.pods())
    assert images == {"registry.example/app:1": 3, "registry.example/broken:1": 2}
    assert condition(deployment, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert condition(deployment, "Available") == ("True", "MinimumReplicasAvailable")
    cluster.apply("Deployment", "web", {"spec": {"template": template("registry.example/app:1")}})  # as rollout undo
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert {p["spec"]["containers"][0]["image"] for p in cluster.pods()} == {"registry.example/app:1"}
    deployment = cluster.sim.get("Deployment", "default", "web")
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_recreate_ends_all_old_pods_before_it_starts_new_ones(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=2, strategy={"type": "Recreate"}))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.apply("Deployment", "web", {"spec": {"template": template("registry.example/app:2")}})
    while cluster.step():
        assert len({p["spec"]["containers"][0]["image"] for p in cluster.pods()}) <= 1
    assert [p["spec"]["containers"][0]["image"] for p in cluster.pods()] == ["registry.example/app:2"] * 2


def test_scaling_during_a_rollout_is_proportional(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=8))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.apply("Deployment", "web", {"spec": {"template": template("registry.example/app:2")}})
    cluster.settle()
    assert sorted(s["spec"]["replicas"] for s in cluster.sim.list("ReplicaSet")) == [4, 6]
    cluster.apply("Deployment", "web", {"spec": {"replicas": 16}})
    cluster.settle()
    assert sorted(s["spec"]["replicas"] for s in cluster.sim.list("ReplicaSet")) == [8, 12]


def test_old_replica_sets_are_kept_up_to_the_limit(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=1, revisionHistoryLimit=2))
    for version in range(1, 6):
        cluster.apply("Deployment", "web", {"spec": {"template": template(f"registry.example/app:{version}")}})
        cluster.settle()
        cluster.run()
        cluster.settle()
    revisions = [s["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for s in cluster.sim.list("rs")]
    assert sorted(revisions) == ["3", "4", "5"]


def test_a_paused_deployment_scales_and_does_not_roll_out(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=1))
    cluster.settle()
    patch = {"spec": {"paused": True, "replicas": 2, "template": template("registry.example/app:2")}}
    cluster.apply("Deployment", "web", patch)
    cluster.settle()
    assert [p["spec"]["containers"][0]["image"] for p in cluster.pods()] == ["registry.example/app:1"] * 2
    cluster.apply("Deployment", "web", {"spec": {"paused": None}})
    cluster.settle()
    assert len(cluster.sim.list("ReplicaSet")) == 2


# --- replica sets -----------------------------------------------------------------------------------------------------


def test_a_replica_set_deletes_the_least_costly_pods_first(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("ReplicaSet", replicas=4))
    cluster.settle()
    first, second, *_ = cluster.pods()
    cluster.run([first, second])
    cluster.settle()
    cluster.apply("ReplicaSet", "web", {"spec": {"replicas": 2}})
    cluster.settle()
    assert {p["metadata"]["name"] for p in cluster.pods()} == {first["metadata"]["name"], second["metadata"]["name"]}


def test_ended_and_relabeled_pods_are_replaced_and_orphans_adopted(cluster: ControlledCluster) -> None:
    loose = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose", "labels": {"app": "web"}}}
    cluster.sim.create({**loose, "spec": template()["spec"]})
    cluster.sim.create(a_workload("ReplicaSet", replicas=2))
    cluster.settle()
    assert len(cluster.pods()) == 2
    (owner,) = cluster.sim.get("Pod", "default", "loose")["metadata"]["ownerReferences"]
    assert owner["name"] == "web"
    cluster.apply("Pod", "loose", {"metadata": {"labels": {"app": "other"}}})
    other = next(p for p in cluster.pods("app=web"))
    cluster.report(other, "Failed", "False")
    cluster.settle()
    assert "ownerReferences" not in cluster.sim.get("Pod", "default", "loose")["metadata"]
    assert len(cluster.pods("app=web")) == 3  # two that run, and the one that failed


def test_a_pod_is_available_after_the_seconds_it_must_be_ready(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("Deployment", replicas=1, minReadySeconds=30))
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert "availableReplicas" not in cluster.sim.get("Deployment", "default", "web")["status"]
    cluster.at += 31
    cluster.settle()
    assert cluster.sim.get("Deployment", "default", "web")["status"]["availableReplicas"] == 1


# --- stateful sets ----------------------------------------------------------------------------------------------------


def test_a_stateful_set_creates_and_deletes_in_order(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("StatefulSet", replicas=3, serviceName="web"))
    for count in (1, 2, 3):
        cluster.settle()
        assert [p["metadata"]["name"] for p in cluster.pods()] == [f"web-{i}" for i in range(count)]
        cluster.run()
    cluster.settle()
    pod = cluster.sim.get("Pod", "default", "web-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "web")
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-1"
    cluster.apply("StatefulSet", "web", {"spec": {"replicas": 1}})
    cluster.settle()
    assert [p["metadata"]["name"] for p in cluster.pods()] == ["web-0"]


def test_a_stateful_set_replaces_from_the_highest_ordinal_down_to_the_partition(cluster: ControlledCluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.sim.create(a_workload("StatefulSet", replicas=3, podManagementPolicy="Parallel", updateStrategy=strategy))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.apply("StatefulSet", "web", {"spec": {"template": template("registry.example/app:2")}})
    order = []
    for _ in range(3):
        cluster.settle()
        order += [p["metadata"]["name"] for p in cluster.pods() if not p["spec"].get("nodeName")]
        cluster.run()
    assert order == ["web-2", "web-1"]
    cluster.sim.delete("Pod", "default", "web-0")
    cluster.settle()
    images = [p["spec"]["containers"][0]["image"].rpartition(":")[2] for p in cluster.pods()]
    assert images == ["1", "2", "2"]  # below the partition the old revision is kept
    status = cluster.sim.get("StatefulSet", "default", "web")["status"]
    assert status["currentRevision"] != status["updateRevision"]
    assert (status["replicas"], status["updatedReplicas"]) == (3, 2)


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_runs_its_completions_in_parallel(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_job(completions=3, parallelism=2))
    cluster.settle()
    assert len(cluster.pods()) == 2
    for _ in range(3):
        running = [p for p in cluster.pods() if p["status"]["phase"] == "Pending"]
        cluster.report(running[0], "Succeeded", "False")
        cluster.settle()
    job = cluster.sim.get("Job", "default", "j")
    assert (job["status"]["succeeded"], "active" in job["status"]) == (3, False)
    assert condition(job, "Complete") == ("True", "CompletionsReached")
    assert "completionTime" in job["status"]
    assert len(cluster.pods()) == 3


def test_each_index_of_an_indexed_job_has_one_pod_that_succeeds(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_job(completions=4, parallelism=3, completionMode="Indexed"))
    ended = []
    for phase in ("Succeeded", "Failed", "Succeeded", "Succeeded", "Succeeded"):
        cluster.settle()
        waiting = [each for each in cluster.pods() if each["status"]["phase"] == "Pending"]
        assert len({each["metadata"]["annotations"][INDEX] for each in waiting}) == len(waiting) <= 3
        cluster.report(waiting[-1], phase, "False")
        ended.append((waiting[-1]["metadata"]["labels"][INDEX], phase))
        cluster.at += 11
    cluster.settle()
    status = cluster.sim.get("Job", "default", "j")["status"]
    assert (status["succeeded"], status["failed"], status["completedIndexes"]) == (4, 1, "0-3")
    assert sorted(index for index, phase in ended if phase == "Succeeded") == ["0", "1", "2", "3"]
    pod = cluster.pods()[0]
    index = pod["metadata"]["labels"][INDEX]
    assert pod["spec"]["hostname"] == f"j-{index}"
    assert pod["metadata"]["name"].startswith(f"j-{index}-")
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert (variable["name"], variable["valueFrom"]["fieldRef"]["fieldPath"]) == (
        "JOB_COMPLETION_INDEX",
        f"metadata.labels['{INDEX}']",
    )


def test_a_failed_pod_is_replaced_after_a_backoff_until_the_limit(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_job(backoffLimit=1))
    cluster.settle()
    cluster.report(cluster.pods()[0], "Failed", "False")
    cluster.settle()
    assert len(cluster.pods()) == 1
    cluster.at += 11
    cluster.settle()
    (again,) = [p for p in cluster.pods() if p["status"]["phase"] == "Pending"]
    cluster.report(again, "Failed", "False")
    cluster.settle()
    job = cluster.sim.get("Job", "default", "j")
    assert (job["status"]["failed"], condition(job, "Failed")) == (2, ("True", "BackoffLimitExceeded"))


def test_a_job_fails_at_its_deadline_and_is_deleted_after_its_ttl(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_job(activeDeadlineSeconds=20, ttlSecondsAfterFinished=5))
    cluster.settle()
    cluster.at += 21
    cluster.settle()
    assert condition(cluster.sim.get("Job", "default", "j"), "Failed") == ("True", "DeadlineExceeded")
    assert cluster.pods() == []
    cluster.at += 10
    cluster.settle()
    assert cluster.sim.list("Job") == []


def test_a_suspended_job_has_no_pods(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_job(suspend=True))
    cluster.settle()
    assert (cluster.pods(), condition(cluster.sim.get("Job", "default", "j"), "Suspended")[0]) == ([], "True")
    cluster.apply("Job", "j", {"spec": {"suspend": False}})
    cluster.settle()
    assert len(cluster.pods()) == 1


# --- deletion ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "left"),
    [(None, ([], [])), ("Background", ([], [])), ("Foreground", ([], [])), ("Orphan", (["web"], ["web", "web"]))],
)
def test_deletion_follows_its_propagation_policy(
    api: SimClient, policy: str | None, left: tuple[list[str], list[str]]
) -> None:
    assert api("POST", f"{APPS}/deployments", a_workload("Deployment", replicas=2))[0] == 201
    eventually(lambda: len(api.sim.list("Pod")) == 2, "two pods")
    status, _ = api("DELETE", f"{APPS}/deployments/web", policy and {"propagationPolicy": policy})
    assert status == 200
    eventually(lambda: not api.sim.list("Deployment"), "the deployment to go")

    def names() -> tuple[list[str], list[str]]:
        replica_sets, pods = ([o["metadata"]["labels"]["app"] for o in api.sim.list(kind)] for kind in ("rs", "po"))
        return replica_sets, pods

    eventually(lambda: names() == left, "what the policy leaves")
    if policy == "Orphan":
        (replica_set,) = api.sim.list("rs")
        assert "ownerReferences" not in replica_set["metadata"]
        assert api("POST", f"{APPS}/deployments", a_workload("Deployment", replicas=2))[0] == 201
        eventually(lambda: api.sim.list("rs")[0]["metadata"].get("ownerReferences"), "the new one to adopt it")
        assert len(api.sim.list("rs")) == 1


def test_an_invalid_propagation_policy_is_rejected(api: SimClient) -> None:
    api("POST", f"{APPS}/deployments", a_workload("Deployment", replicas=0))
    status, answer = api("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": "Sideways"})
    assert (status, "Unsupported value" in answer["message"]) == (422, True)


def test_an_object_created_after_the_deletion_of_its_owner_is_deleted(cluster: ControlledCluster) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "1", "controller": True}
    other = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "2"}
    for name, owners in (("orphan", [owner]), ("kept", [owner, other])):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners}}
        cluster.sim.create({**pod, "spec": template()["spec"]})
    cluster.settle()
    (kept,) = cluster.pods()
    assert (kept["metadata"]["name"], kept["metadata"]["ownerReferences"]) == ("kept", [other])


# --- the API ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
def test_scale_is_a_subresource(serve: Callable[..., SimClient], plural: str) -> None:
    api = serve()
    kind = {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}[plural]
    api("POST", f"{APPS}/{plural}", a_workload(kind, replicas=2))
    path = f"{APPS}/{plural}/web/scale"
    status, scale = api("GET", path)
    assert (status, scale["kind"], scale["apiVersion"], scale["spec"], scale["status"]) == (
        200, "Scale", "autoscaling/v1", {"replicas": 2}, {"replicas": 0, "selector": "app=web"}
    )  # fmt: skip
    scale["spec"]["replicas"] = 5
    assert api("PUT", path, scale)[1]["spec"] == {"replicas": 5}
    assert api("PUT", path, scale)[0] == 409  # from an old version
    type_ = "application/merge-patch+json"
    assert api("PATCH", path, {"spec": {"replicas": 3}}, type_)[1]["spec"] == {"replicas": 3}
    assert api("PATCH", path, {"spec": {"replicas": -1}}, type_)[0] == 422
    stored = api.sim.get(kind, "default", "web")
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (3, 3)


# --- DaemonSets, quotas ----------------------------------------------------------------------------------------------


def add_node(cluster: ControlledCluster, name: str, taints: tuple[str, ...] = (), **labels: str) -> None:
    spec = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}} if taints else {}
    cluster.sim.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, **spec})


def pinned_nodes(cluster: ControlledCluster) -> list[str]:
    terms = (
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for pod in cluster.pods()
    )
    return sorted(term[0]["matchFields"][0]["values"][0] for term in terms)


def test_a_daemon_set_has_a_pod_for_each_node_that_its_pods_tolerate(cluster: ControlledCluster) -> None:
    add_node(cluster, "n1", disk="ssd")
    add_node(cluster, "n2", disk="hdd")
    add_node(cluster, "n3", taints=("gpu",), disk="ssd")
    add_node(cluster, "n4", taints=("node.kubernetes.io/unschedulable",), disk="ssd")
    cluster.sim.create(a_workload("DaemonSet", template=template(nodeSelector={"disk": "ssd"})))
    cluster.settle()
    assert pinned_nodes(cluster) == ["n1", "n4"]
    add_node(cluster, "n5", disk="ssd")
    cluster.sim.delete("Node", "", "n1")
    cluster.settle()
    assert pinned_nodes(cluster) == ["n4", "n5"]
    cluster.run()
    cluster.settle()
    status = cluster.sim.get("DaemonSet", "default", "web")["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberUnavailable"]) == (2, 2, 0)


def test_a_daemon_set_replaces_its_outdated_pods_one_after_the_other(cluster: ControlledCluster) -> None:
    for name in ("n1", "n2", "n3"):
        add_node(cluster, name)
    cluster.sim.create(a_workload("DaemonSet"))
    cluster.settle()
    cluster.run()
    cluster.settle()
    first = {pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.apply("DaemonSet", "web", {"spec": {"template": template(image="registry.example/app:2")}})
    for replaced in (1, 2, 3):
        cluster.settle()
        new = [pod for pod in cluster.pods() if pod["metadata"]["uid"] not in first]
        assert (len(cluster.pods()), len(new)) == (3, replaced)
        assert cluster.sim.get("DaemonSet", "default", "web")["status"]["updatedNumberScheduled"] == replaced
        cluster.run(new)
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {"registry.example/app:2"}


def test_a_daemon_set_replaces_outdated_pods_that_wait_at_once(cluster: ControlledCluster) -> None:
    for name in ("n1", "n2", "n3"):
        add_node(cluster, name)
    cluster.sim.create(a_workload("DaemonSet"))
    cluster.settle()
    cluster.apply("DaemonSet", "web", {"spec": {"template": template(image="registry.example/app:2")}})
    cluster.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {"registry.example/app:2"}


def test_a_daemon_set_that_updates_on_deletion_keeps_its_pods(cluster: ControlledCluster) -> None:
    add_node(cluster, "n1")
    cluster.sim.create(a_workload("DaemonSet", updateStrategy={"type": "OnDelete"}))
    cluster.settle()
    (pod,) = cluster.pods()
    cluster.apply("DaemonSet", "web", {"spec": {"template": template(image="registry.example/app:2")}})
    cluster.settle()
    assert [p["metadata"]["uid"] for p in cluster.pods()] == [pod["metadata"]["uid"]]
    assert cluster.sim.get("DaemonSet", "default", "web")["status"]["updatedNumberScheduled"] == 0


def test_a_cordoned_node_is_tainted_until_it_is_uncordoned(cluster: ControlledCluster) -> None:
    add_node(cluster, "n1", taints=("gpu",))
    gpu = {"key": "gpu", "effect": "NoSchedule"}
    cluster.apply("Node", "n1", {"spec": {"unschedulable": True}})
    cluster.settle()
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert cluster.sim.get("Node", "", "n1")["spec"]["taints"] == [gpu, cordoned]
    cluster.apply("Node", "n1", {"spec": {"unschedulable": None}})
    cluster.settle()
    assert cluster.sim.get("Node", "", "n1")["spec"]["taints"] == [gpu]


def a_quota(**hard: str) -> Object:
    limits = {name.replace("_", "."): amount for name, amount in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": limits}}


def test_a_quota_refuses_the_pods_that_exceed_it_until_it_is_raised(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_quota(requests_cpu="1", requests_memory="2Gi"))
    asked = template()
    asked["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "400m", "memory": "512Mi"}}
    cluster.sim.create(a_workload("ReplicaSet", replicas=3, template=asked))
    cluster.settle()
    assert len(cluster.pods()) == 2
    replica_set = cluster.sim.get("ReplicaSet", "default", "web")
    assert replica_set["status"]["replicas"] == 2
    assert condition(replica_set, "ReplicaFailure") == ("True", "FailedCreate")
    messages = [e["message"] for e in cluster.sim.list("Event") if e["reason"] == "FailedCreate"]
    assert 1 <= len(messages) <= 2  # at once, and after the status was written
    (message,) = {text.partition("is forbidden")[2] for text in messages}
    assert message == (
        ": exceeded quota: q, requested: requests.cpu=400m, used: requests.cpu=800m, limited: requests.cpu=1"
    )
    used = {"requests.cpu": "800m", "requests.memory": "1Gi"}
    assert cluster.sim.get("ResourceQuota", "default", "q")["status"]["used"] == used
    cluster.apply("ResourceQuota", "q", {"spec": {"hard": {"requests.cpu": "2"}}})
    cluster.at += 60
    cluster.settle()
    assert len(cluster.pods()) == 3
    assert not cluster.sim.get("ReplicaSet", "default", "web")["status"].get("conditions")


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 2}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "50%"}, 2),
        ({"minAvailable": "100%"}, 0),
    ],
)
def test_a_budget_allows_what_leaves_enough_healthy_pods(
    cluster: ControlledCluster, spec: Object, allowed: int
) -> None:
    cluster.sim.create({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    })  # fmt: skip
    cluster.sim.create(a_workload("ReplicaSet", replicas=3))
    cluster.settle()
    cluster.run()
    cluster.settle()
    status = cluster.sim.get("PodDisruptionBudget", "default", "b")["status"]
    assert (status["currentHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (3, 3, allowed)
    cluster.report(cluster.pods()[0], "Running", "False")
    cluster.settle()
    left = cluster.sim.get("PodDisruptionBudget", "default", "b")["status"]["disruptionsAllowed"]
    assert left == max(allowed - 1, 0)


def test_a_quota_refuses_pods_without_an_amount_that_it_limits(api: SimClient) -> None:
    api("POST", "/api/v1/namespaces/default/resourcequotas", a_quota(limits_memory="2Gi", pods="5"))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    status, answer = api("POST", "/api/v1/namespaces/default/pods", pod)
    assert (status, "failed quota: q: must specify limits.memory" in answer["message"]) == (403, True)


@pytest.mark.parametrize(
    ("obj", "code", "message"),
    [
        pytest.param(
            {**a_workload("ReplicationController"), "apiVersion": "v1"},
            403, "has no controller for replicationcontrollers", id="no controller",
        ),
        pytest.param(
            a_workload("DaemonSet", template=template(affinity={"nodeAffinity": {}})), 403, "affinity", id="daemons",
        ),
        pytest.param(
            a_workload("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}}]),
            403, "has no volumes for spec.volumeClaimTemplates", id="claims",
        ),
        pytest.param(
            a_job(completionMode="Indexed", completions=2, backoffLimitPerIndex=1),
            403,
            "backoffLimitPerIndex",
            id="job with a limit for each index",
        ),
        pytest.param(
            a_workload("Deployment", selector={"matchLabels": {"app": "other"}}),
            422, "`selector` does not match template `labels`", id="selector",
        ),
        pytest.param(a_workload("Deployment", replicas=-1), 422, "greater than or equal to 0", id="replicas"),
        pytest.param(
            a_job(template={"spec": {"containers": [{"name": "c"}]}}), 422, 'supported values: "OnFailure"', id="policy"
        ),
    ],
)  # fmt: skip
def test_unsupported_workloads_are_rejected(api: SimClient, obj: Object, code: int, message: str) -> None:
    paths = {"Job": JOBS, "DaemonSet": f"{APPS}/daemonsets", "StatefulSet": f"{APPS}/statefulsets"}
    paths["ReplicationController"] = "/api/v1/namespaces/default/replicationcontrollers"
    status, answer = api("POST", paths.get(obj["kind"], f"{APPS}/deployments"), obj)
    assert (status, message in answer["message"]) == (code, True), answer


@pytest.mark.parametrize("controllers", [False, True])
def test_without_controllers_a_workload_is_created_with_a_warning(
    serve: Callable[..., SimClient], controllers: bool
) -> None:
    api = serve(run_controllers=controllers)
    body = json.dumps(a_workload("Deployment", replicas=0)).encode()
    status, headers, _ = api.raw("POST", f"{APPS}/deployments", body, Content_Type="application/json")
    assert (status, "warning" in headers) == (201, not controllers)


def test_immutable_fields_cannot_be_changed(api: SimClient) -> None:
    api("POST", f"{APPS}/deployments", a_workload("Deployment", replicas=0))
    selector = {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template(app="x")}}
    status, answer = api("PATCH", f"{APPS}/deployments/web", selector, "application/merge-patch+json")
    assert (status, "field is immutable" in answer["message"]) == (422, True)


# --- kubelets ---------------------------------------------------------------------------------------------------------


def test_a_job_s_pod_runs_and_succeeds(api: SimClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus_sim.kubelets.RUN_S", 0.1)
    assert api("POST", JOBS, a_job())[0] == 201
    (pod,) = eventually(lambda: api.sim.list("Pod") or None, "the job's pod")
    api.sim.bind("default", pod["metadata"]["name"], "n1")
    eventually(lambda: api.sim.get("Job", "default", "j")["status"].get("succeeded"), "the job to succeed")
    pod = api.sim.get("Pod", "default", pod["metadata"]["name"])
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (pod["status"]["phase"], ended["exitCode"], ended["reason"]) == ("Succeeded", 0, "Completed")


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("START_DELAY_S", 0.01), ("_ENDED_S", 0.05), ("_BACKOFF_S", 0.1)):
        monkeypatch.setattr(f"herodotus_sim.kubelets.{name}", value)
    return


@pytest.mark.usefixtures("fast")
def test_a_pod_crashes_on_the_node_that_its_plan_names(serve: Callable[..., SimClient]) -> None:
    api = serve(run_pods=True)
    plan = "{bad: {seconds: 0.05, code: 2}}"
    for name, node in (("fails", "bad"), ("runs", "good")):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template()["spec"]}
        pod["metadata"]["annotations"] = {"herodotus.dev/simulated-exits": plan}
        api.sim.create(pod)
        api.sim.bind("default", name, node)

    def container(name: str) -> Object:
        return dict((api.sim.get("Pod", "default", name)["status"].get("containerStatuses") or [{}])[0])

    eventually(lambda: container("fails").get("restartCount", 0) >= 2, "two restarts")
    assert container("fails")["lastState"]["terminated"]["exitCode"] == 2
    eventually(lambda: "waiting" in container("fails")["state"], "a back-off", every_s=0.005)
    assert api.sim.get("Pod", "default", "fails")["status"]["phase"] == "Running"
    assert (container("runs")["restartCount"], list(container("runs")["state"])) == (0, ["running"])


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("{n1: {seconds: 3, code: 1}}", "Always", (3.0, 1)),
        ("{'*': {seconds: 3, code: 1}}", "Always", (3.0, 1)),
        ("{n2: {seconds: 3, code: 1}}", "Never", None),
        ("[", "Always", None),
        ("{n1: {seconds: soon, code: 1}}", "Always", None),
        (None, "Always", None),
        (None, "Never", (2.0, 0)),
    ],
)
def test_planned_exits(text: str | None, policy: str, expected: tuple[float, int] | None) -> None:
    annotations = {} if text is None else {"herodotus.dev/simulated-exits": text}
    pod = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"nodeName": "n1", "restartPolicy": policy}}
    found = find_planned_exit(pod)
    assert (found and (found.seconds, found.code)) == expected


def test_a_transition_of_a_deleted_pod_changes_nothing() -> None:
    sim = SimulatedCluster()
    kubelets = Kubelets(sim.store)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template()["spec"]}
    sim.create(pod)
    sim.bind("default", "p", "n1")
    assert pod_state(sim.get("Pod", "default", "p")) == ("startable", 0)
    sim.delete("Pod", "default", "p")
    sim.create(pod)
    kubelets._apply_transition(*kubelets._due[0][2:])
    assert sim.get("Pod", "default", "p")["status"]["phase"] == "Pending"


def test_errors_of_one_object_do_not_stop_the_others(cluster: ControlledCluster) -> None:
    cluster.sim.create(a_workload("ReplicaSet", "broken", replicas=1))
    cluster.apply("ReplicaSet", "broken", {"spec": {"template": {"spec": {"priorityClassName": "none"}}}})
    cluster.sim.create(a_workload("ReplicaSet", "web", replicas=1))
    cluster.settle()
    assert len(cluster.pods("app=web")) == 1
    events = [e["message"] for e in cluster.sim.list("Event") if e["reason"] == "FailedCreate"]
    assert len(events) == 2  # at once, and after the failure is in the status
    assert events[0].endswith("no PriorityClass with name none was found")


# FIX now
