"""What-ifs for the cluster, compared with what a real control plane then does.

Owns: random clusters, the questions, the real drain, and the comparison. Does not own: the processes
(`real_cluster`, `kubelets`).

Which pod of several that a budget protects is evicted first, in which order replacements are scheduled, and which of
equally good nodes is drawn, is chance in a real cluster. So evictions are compared by workload where a budget blocks.
Each real placement is decided again by the engine on the cluster as it was at that moment, in the observed order: the
real node must be among the best nodes, and if one node alone is best, it must be the real one.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.evaluation import ClusterEvaluation
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.plugins import IN_TREE
from tests.e2e.cluster import Cluster
from tests.e2e.kubelets import UNREADY
from tests.processes import eventually

Json = dict[str, Any]

NAMESPACE = "shop"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_ATTEMPT = re.compile(r'"Attempting to schedule pod" pod="([^"]+)"')
DRAIN_S = 26  # kubectl repeats a refused eviction every 5 s
PATIENCE_S = 90.0
PROGRAMS = Path(sys.executable).parent


def make_nodes(rng: random.Random, count: int) -> Iterator[Json]:
    """Yield nodes of two sizes in three zones; some are tainted."""
    for i in range(count):
        name = f"node-{i:02}"
        amounts = {"cpu": rng.choice(("4", "8")), "memory": "16Gi", "pods": "110"}
        tainted = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}] if i % 7 == 6 else []
        labels = {HOST: name, ZONE: f"zone-{i % 3}", "disk": rng.choice(("ssd", "hdd"))}
        status = {"allocatable": amounts, "capacity": amounts}
        yield {"metadata": {"name": name, "labels": labels}, "spec": {"taints": tainted}, "status": status}


def make_workloads(rng: random.Random, pods: int) -> Iterator[tuple[str, Json]]:
    """Yield workloads with about so many pods, and budgets for some of them, with the path of each."""
    left, number = pods, 0
    while left > 0:
        kind = rng.choice(("Deployment",) * 5 + ("StatefulSet", "Job", "Pod", "DaemonSet"))
        name, replicas = f"{kind.lower()}-{number}", min(left, rng.randint(1, 7))
        number += 1
        left -= replicas
        yield _make_workload(rng, kind, name, replicas)
        if kind in ("Deployment", "StatefulSet") and rng.random() < 0.5:
            yield _make_budget(rng, name, replicas)


def _make_workload(rng: random.Random, kind: str, name: str, replicas: int) -> tuple[str, Json]:
    labels = {"app": name}
    if kind == "Deployment" and rng.random() < 0.12:
        labels[UNREADY] = "yes"
    requests = {"cpu": rng.choice(("50m", "200m", "500m", "1", "2")), "memory": rng.choice(("64Mi", "512Mi"))}
    container = {"name": "app", "image": "registry.example/app:1", "resources": {"requests": requests}}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 1}
    if rng.random() < 0.15:
        spec["volumes"] = [{"name": "cache", "emptyDir": {}}]
    if rng.random() < 0.2:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": name}}}]
    if rng.random() < 0.25:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    elif rng.random() < 0.3:
        constraint = {"maxSkew": 1, "topologyKey": rng.choice((HOST, ZONE)), "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [constraint | {"labelSelector": {"matchLabels": {"app": name}}}]
    metadata = {"name": name, "namespace": NAMESPACE}
    if kind == "Pod":
        return PODS, {"metadata": metadata | {"labels": labels}, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    if kind == "Job":
        spec["restartPolicy"] = "Never"
        job = {"template": template, "parallelism": replicas, "completions": replicas, "backoffLimit": 100}
        return f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {"metadata": metadata, "spec": job}
    whole: Json = {"selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        whole |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    if kind != "DaemonSet":
        whole["replicas"] = replicas
    return f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s", {"metadata": metadata, "spec": whole}


def _make_budget(rng: random.Random, name: str, replicas: int) -> tuple[str, Json]:
    amount: Json = rng.choice(
        (
            {"maxUnavailable": 1},
            {"maxUnavailable": "34%"},
            {"minAvailable": "50%"},
            {"minAvailable": max(0, replicas - 1)},
            {"minAvailable": replicas},
            {"maxUnavailable": 0},
        )
    )
    policy = rng.choice(({}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}))
    spec = {"selector": {"matchLabels": {"app": name}}, **amount, **policy}
    path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    return path, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


@dataclass
class DrainFigures:
    """What was compared, and what differed."""

    questions: int = 0
    displaced: int = 0
    blocked: int = 0
    placements: int = 0
    unique: int = 0  # of the placements: one node alone was best
    pending: int = 0
    drains: int = 0
    drains_in_another_order: int = 0  # other replacements than the expected ones found no node
    capacity: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.questions} questions: {self.displaced} pods displaced, {self.blocked} blocked, {self.pending} left"
            f" pending (in {self.drains_in_another_order} of {self.drains} drains others than expected),"
            f" {self.placements} placements decided again ({self.unique} with one best node),"
            f" {self.capacity} pods fitted by capacity; {len(self.failures)} differences"
        )


class Watch(threading.Thread):
    """Records the events of a collection from a resource version on, until `stop`."""

    def __init__(self, cluster: Cluster, path: str, kind: type[Node] | type[Pod]) -> None:
        super().__init__(daemon=True)
        self.kind, self.events = kind, list[tuple[int, str, Json]]()
        version = cluster.get(path)["metadata"]["resourceVersion"]
        self._url = f"{cluster.url}{path}?watch=true&resourceVersion={version}&timeoutSeconds=300"
        self._client = httpx.Client(headers=cluster.headers, verify=False, timeout=httpx.Timeout(30, read=None))
        self._opened = threading.Event()
        self.start()
        assert self._opened.wait(PATIENCE_S), f"no watch of {path}"

    def run(self) -> None:
        try:
            with self._client.stream("GET", self._url) as response:
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
                self._opened.set()
                for line in response.iter_lines():
                    event = json.loads(line)
                    version = int(event["object"]["metadata"]["resourceVersion"])
                    self.events.append((version, event["type"], event["object"]))
        except httpx.HTTPError:  # shut down by `stop`
            return
        finally:
            self._client.close()

    def stop(self) -> None:
        """Shut down the connection and wait for the thread.

        Closing it from here would give its file descriptor to the next connection while the thread still reads from it.
        """
        self._socket.shutdown(socket.SHUT_RDWR)
        self.join(PATIENCE_S)


class DrainTrial:
    """Asks about one random cluster, and then does what was asked about."""

    def __init__(self, cluster: Cluster, seed: int, figures: DrainFigures) -> None:
        self._cluster, self._rng, self._seed, self.figures = cluster, random.Random(seed), seed, figures

    def populate(self) -> None:
        """Create the cluster and wait until every pod runs or was found to fit nowhere."""
        rng = self._rng
        nodes = rng.randint(10, 25)
        self._cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._cluster.create_all("/api/v1/nodes", make_nodes(rng, nodes))
        for path, manifest in make_workloads(rng, rng.randint(50, 110)):
            self._cluster.create(path, manifest)
        self._wait_until_settled()

    def _wait_until_settled(self) -> None:
        """Wait until no pod changes for two seconds, and none is neither running nor unschedulable."""
        seen: list[Any] = [None, 0]

        def settled() -> bool:
            pods = self._cluster.items(PODS)
            state = sorted((p["metadata"]["uid"], p["spec"].get("nodeName"), _phase(p)) for p in pods)
            seen[1] = seen[1] + 1 if state == seen[0] else 0
            seen[0] = state
            done = all(_phase(pod) in ("Running", "Unschedulable") for pod in pods)
            return bool(pods) and done and seen[1] >= 8

        eventually(settled, f"seed {self._seed}: the cluster to settle", PATIENCE_S, every_s=0.25)

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask(self, spec: Json) -> Json:
        """Return local mode's answer to a question about the whole cluster."""
        self.figures.questions += 1
        with (
            ClusterReader(self._cluster.fetch, lambda _kind, _count: None) as reader,
            LocalService(reader, Configuration(), lambda _note: None) as service,
        ):
            document = {"kind": "ClusterReview", "spec": spec}
            answer = service.post("/apis/herodotus.dev/v1alpha1/clusterreviews", document)
        assert answer.code == 201, answer.document
        status: Json = answer.document["status"]
        return status

    # --- drain ------------------------------------------------------------------------------------------------------

    def drain(self, nodes: list[str], *, force: bool, delete_empty_dir_data: bool) -> None:
        """Ask what a drain would do, drain, and compare."""
        change = {"kind": "Drain", "nodes": nodes, "force": force, "deleteEmptyDirData": delete_empty_dir_data}
        expected = self.ask({"changes": [change]})
        before = {p["metadata"]["name"]: p for p in self._cluster.items(PODS)}
        evaluation, watches = self._begin_watching()
        said = self._kubectl_drain(nodes, force, delete_empty_dir_data)
        self._wait_until_settled()
        after = {p["metadata"]["name"]: p for p in self._cluster.items(PODS)}
        waiting = self._compare_drain(expected, before, after, nodes, said)
        self._replay(evaluation, watches, waiting)

    def _begin_watching(self) -> tuple[ClusterEvaluation, list[Watch]]:
        """Return the cluster as it is now, and watches that record what happens from now on."""
        with ClusterReader(self._cluster.fetch, lambda _kind, _count: None) as reader:
            evaluation = ClusterEvaluation(reader.read("", lambda _pods: True), Configuration(), IN_TREE)
        return evaluation, [Watch(self._cluster, "/api/v1/nodes", Node), Watch(self._cluster, "/api/v1/pods", Pod)]

    def _kubectl_drain(self, nodes: list[str], force: bool, delete_empty_dir_data: bool) -> str:
        flags = ["--force"] * force + ["--delete-emptydir-data"] * delete_empty_dir_data
        command = ["kubectl", "drain", *nodes, "--ignore-daemonsets", *flags, f"--timeout={DRAIN_S}s"]
        environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        return done.stdout + done.stderr

    def _compare_drain(
        self, expected: Json, before: dict[str, Json], after: dict[str, Json], nodes: list[str], said: str
    ) -> list[Json]:
        """Compare what left and what stayed, and return the replacements that found no node.

        Which replacements find no node can depend on the order in which the controllers create them. Another result
        than the expected one is therefore counted, and `_replay` checks that each of the pods fits nowhere.
        """
        drained = {n for n, p in before.items() if p["spec"].get("nodeName") in nodes}
        stayed = {n for n in drained if n in after and after[n]["metadata"]["uid"] == before[n]["metadata"]["uid"]}
        left_alone = {pod["name"] for pod in expected["ignored"]}
        blocked = {pod["name"] for pod in expected["blocked"]}
        gone = {p["name"] for p in (*expected["placements"], *expected["deleted"]) if _left(p) in nodes}
        self.figures.displaced += len(drained - stayed)
        self.figures.blocked += len(stayed - left_alone)
        by_budget = any(pod["cause"] == "Budget" for pod in expected["blocked"])
        ours: Any = Counter(_owner(before[n]) for n in blocked) if by_budget else blocked
        theirs: Any = Counter(_owner(before[n]) for n in stayed - left_alone) if by_budget else stayed - left_alone
        self._check("blocked", ours, theirs)
        self._check("displaced", len(gone), len(drained - stayed))
        if not by_budget:
            self._check("displaced pods", gone, drained - stayed)
        for pod in expected["blocked"]:
            words = pod["message"].partition(". The disruption")[0]
            if pod["cause"] != "NodeNotDrained" and words not in said:
                self._fail(f"kubectl does not say {words!r} about {pod['name']}: {said[-600:]}")
        pending = Counter(_owner(before[p["name"]]) for p in expected["placements"] if not p["node"])
        waiting = [p for n, p in after.items() if _phase(p) == "Unschedulable" and _is_new(p, before.get(n))]
        waits = Counter(map(_owner, waiting))
        self.figures.pending += waits.total()
        self.figures.drains += 1
        self.figures.drains_in_another_order += waits != pending
        return waiting

    def _check(self, what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            self._fail(f"{what}: expected {ours}, the real cluster has {theirs}")

    def _fail(self, text: str) -> None:
        self.figures.failures.append(f"seed {self._seed}: {text}")

    def _replay(self, evaluation: ClusterEvaluation, watches: list[Watch], waiting: Iterable[Json] = ()) -> None:
        """Decide each real placement again, on the cluster as it was then, and the `waiting` pods at the end."""
        for watch in watches:
            watch.stop()
        events = sorted(
            (version, number, kind, type_, content)
            for number, watch in enumerate(watches)
            for version, type_, content in watch.events
            for kind in [watch.kind.__name__]
            if kind == "Node" or content["metadata"]["namespace"] == NAMESPACE
        )
        replay = _Replay(
            evaluation, self._read_attempts(), [e[4] for e in events if e[2] == "Pod" and e[3] != "DELETED"]
        )
        for _, _, kind, type_, content in events:
            if kind == "Pod" and replay.is_placement(type_, content):
                self.figures.placements += 1
                best, found = replay.decide(content)
                node = content["spec"]["nodeName"]
                self.figures.unique += len(best) == 1
                if node not in best:
                    self._fail(f"{content['metadata']['name']} is on {node}; best are {sorted(best)}; {found}")
            replay.apply(kind, type_, content)
        for content in waiting:
            best, _ = replay.decide(content)
            if best:
                self._fail(f"{content['metadata']['name']} is pending, and fits on {sorted(best)}")

    def _read_attempts(self) -> dict[str, int]:
        """Return the place of each pod's last attempt in kube-scheduler's log. Bindings may end in another order."""
        log = (self._cluster.kubeconfig.parent / "scheduler.log").read_text(errors="replace")
        return {name: number for number, name in enumerate(_ATTEMPT.findall(log))}

    # --- capacity and new nodes -------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Ask how many pods fit, create more than that, and compare."""
        requests = {"cpu": self._rng.choice(("300m", "700m", "1500m")), "memory": "128Mi"}
        container = {"name": "app", "image": "registry.example/app:1", "resources": {"requests": requests}}
        spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
        if self._rng.random() < 0.5:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fill", "namespace": NAMESPACE}, "spec": spec}
        expected = self.ask({"capacity": {"object": pod}})["capacity"]
        labels = {"filling": "yes"}
        for number in range(expected["fits"] + 3):
            metadata = {"name": f"fill-{number}", "labels": labels}
            self._cluster.create(PODS, {"metadata": metadata, "spec": spec | {"priority": None}})
        self._wait_until_settled()
        placed = [p for p in self._cluster.items(f"{PODS}?labelSelector=filling") if p["spec"].get("nodeName")]
        self.figures.capacity += len(placed)
        self._check("capacity", expected["fits"], len(placed))
        ours = {node["node"]: node["fits"] for node in expected["nodes"] if node["fits"]}
        self._check("capacity by node", ours, dict(Counter(p["spec"]["nodeName"] for p in placed)))

    def add_nodes(self, like: str, count: int) -> None:
        """Ask which pending pods new nodes take, create the nodes, and compare."""
        expected = self.ask({"changes": [{"kind": "AddNodes", "like": like, "count": count}]})
        pods = {p["metadata"]["name"]: p for p in self._cluster.items(PODS)}
        before = {name for name, pod in pods.items() if pod["spec"].get("nodeName")}
        evaluation, watches = self._begin_watching()
        node = self._cluster.get(f"/api/v1/nodes/{like}")
        for number in range(1, count + 1):
            name = f"{like}-new-{number}"
            labels = node["metadata"]["labels"] | {HOST: name}
            taints = [t for t in node["spec"].get("taints") or () if not t["key"].startswith("node.kubernetes.io/")]
            status = {key: node["status"][key] for key in ("allocatable", "capacity")}
            self._cluster.create(
                "/api/v1/nodes",
                {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status},
            )
        self._wait_until_settled()
        now = {p["metadata"]["name"]: p for p in self._cluster.items(PODS) if p["spec"].get("nodeName")}
        self._replay(evaluation, watches)
        placed = {name for name in now.keys() - before if _owner(now[name]).partition("/")[0] != "DaemonSet"}
        ours = {p["name"] for p in expected["pending"]}
        if ours < placed or placed < ours:  # otherwise the order of tries decided which of them found room
            self._check("pods that new nodes take", ours, placed)
        made = [p for p in self._cluster.items(PODS) if p["metadata"]["name"] not in pods]
        daemons = sorted(_owner(p) for p in made if _owner(p).startswith("DaemonSet/"))
        self._check("pods of DaemonSets", sorted(p["owner"] for p in expected["placements"]), daemons)


class _Replay:
    """The cluster as the events so far make it."""

    def __init__(self, evaluation: ClusterEvaluation, attempts: dict[str, int], pods: Iterable[Json]) -> None:
        """Take the cluster at the beginning, the order of attempts by pod name, and all states of pods that follow."""
        self._evaluation, self._attempts = evaluation, attempts
        self._placed = {p["metadata"]["uid"]: p for p in pods if p["spec"].get("nodeName")}
        self._where = {
            uid: evaluation.nodes.names[slot] for slot, pods in enumerate(evaluation.nodes.pods) for uid in pods
        }
        self._seen = set(self._where)  # every pod that was ever on a node
        self._fresh: set[str] = set()  # those that were placed since the beginning

    def is_placement(self, type_: str, content: Json) -> bool:
        return (
            type_ != "DELETED"
            and bool(content["spec"].get("nodeName"))
            and content["metadata"]["uid"] not in self._where
        )

    def decide(self, content: Json) -> tuple[set[str], str]:
        """Return the best nodes for the pod, and the result's message or path."""
        pod = msgspec.convert(content, Pod)
        info = PodInfo(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))
        nodes = self._evaluation.nodes
        with self._as_at_the_attempt(pod):
            result = schedule(
                self._evaluation.framework("default-scheduler", has_claims=False), info, Snapshot.from_columns(nodes), 0
            )
        if result.chosen is None:
            return set(), result.message
        if result.trace.totals is None:
            return {nodes.names[result.chosen]}, result.path.name
        feasible = np.flatnonzero(result.trace.feasible)
        totals = result.trace.totals[feasible]
        return {nodes.names[slot] for slot in feasible[totals == totals.max()].tolist()}, result.path.name

    @contextmanager
    def _as_at_the_attempt(self, pod: Pod) -> Iterator[None]:
        """Put the pods that were tried earlier and are bound later on their nodes, and take away those tried later."""
        nodes, at = self._evaluation.nodes, self._attempts.get(f"{NAMESPACE}/{pod.metadata.name}", 0)
        began = {uid: self._attempts.get(f"{NAMESPACE}/{p['metadata']['name']}", -1) for uid, p in self._placed.items()}
        early = [uid for uid, attempt in began.items() if 0 <= attempt < at and uid not in self._seen]
        late = [uid for uid, attempt in began.items() if attempt > at and uid in self._where and uid in self._fresh]
        for uid in early:
            found = self._placed[uid]
            nodes.add_pod(PodInfo(msgspec.convert(found, Pod), running=True), found["spec"]["nodeName"])
        taken = [(nodes.pods[nodes.index[self._where[uid]]][uid], self._where[uid]) for uid in late]
        for info, node in taken:
            nodes.remove_pod(info.uid, node)
        yield
        for uid in early:
            nodes.remove_pod(uid, self._placed[uid]["spec"]["nodeName"])
        for info, node in taken:
            nodes.add_pod(info, node)

    def apply(self, kind: str, type_: str, content: Json) -> None:
        nodes = self._evaluation.nodes
        if kind == "Node":
            if type_ != "DELETED":
                nodes.set_node(msgspec.convert(content, Node))
            return
        uid, node = content["metadata"]["uid"], content["spec"].get("nodeName")
        if uid in self._where:
            nodes.remove_pod(uid, self._where.pop(uid))
        if node and type_ != "DELETED":
            nodes.add_pod(PodInfo(msgspec.convert(content, Pod), running=True), node)
            self._where[uid] = node
            self._fresh |= {uid} - self._seen
            self._seen.add(uid)


def _phase(pod: Json) -> str:
    """Return Running, Unschedulable, Terminating or the pod's phase."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    conditions = pod["status"].get("conditions") or ()
    if any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions):
        return "Unschedulable"
    return str(pod["status"].get("phase"))


def _is_new(pod: Json, before: Json | None) -> bool:
    return before is None or before["metadata"]["uid"] != pod["metadata"]["uid"]


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or [{"kind": "Pod", "name": pod["metadata"]["name"]}]
    return f"{owners[0]['kind']}/{owners[0]['name']}"


def _left(pod: Json) -> str:
    return str(pod.get("fromNode") or pod.get("node") or "")
