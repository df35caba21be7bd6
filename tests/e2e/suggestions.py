"""Carries out the command of every suggestion, and lets a scheduler judge it.

Owns: clusters with running pods of mixed features, workloads that are stuck for one reason each, and the trial of a
workload. Does not own: the processes, where the suggestions come from.

Invariant: at any time one stuck workload exists, and it is created anew for each suggestion. So whatever a command
changes is judged alone, on the cluster to which the suggestion refers.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster
from tests.processes import eventually

Json = dict[str, Any]

NAMESPACE = "suggestions"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "example.com/gpu"
OWNERS = ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job", "DaemonSet")
_PATHS = {
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    **{kind: f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s" for kind in OWNERS if kind not in ("Pod", "Job")},
}
_NODES = "/api/v1/nodes"
KUBECTL = Path(sys.executable).parent


def make_nodes(rng: random.Random, count: int) -> Iterator[Json]:
    """Yield nodes of several sizes, zones and disks; a tenth each is tainted, cordoned or has GPUs."""
    for i in range(count):
        name = f"node-{i:03}"
        labels = {HOST: name, ZONE: f"zone-{i % 3}", "disk": ("ssd", "hdd")[i % 2], "pool": "general"}
        amounts = {"cpu": rng.choice(("4", "8", "16")), "memory": rng.choice(("16Gi", "32Gi")), "pods": "110"}
        spec: Json = {}
        if i % 10 == 3:
            labels["pool"], spec["taints"] = "dedicated", [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
        elif i % 10 == 5:
            labels["pool"], spec["unschedulable"] = "closed", True
        elif i % 10 == 7:
            labels["pool"], amounts[GPU] = "gpu", "4"
        status = {"allocatable": amounts, "capacity": amounts}
        yield {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def make_running_pods(rng: random.Random, nodes: list[Json], count: int) -> Iterator[Json]:
    """Yield pods with a node that take host ports, CPU, memory and GPUs, spread, and exclude others."""
    free = {n["metadata"]["name"]: int(n["status"]["allocatable"]["cpu"]) * 1000 for n in nodes}
    ports: set[tuple[str, int]] = set()
    for i in range(count):
        name = nodes[i % len(nodes)]["metadata"]["name"]
        cpu = min(rng.choice((100, 200, 400, 800)), max(10, (free[name] - 500) // 2))
        free[name] -= cpu
        container: Json = {"name": "app", "image": "registry.example/app:1"}
        container["resources"] = {"requests": {"cpu": f"{cpu}m", "memory": rng.choice(("64Mi", "256Mi", "1Gi"))}}
        spec: Json = {"containers": [container], "nodeName": name, "terminationGracePeriodSeconds": 0}
        labels = {"app": rng.choice(("web", "db", "cache"))}
        if (name, 8080) not in ports:
            ports.add((name, 8080))
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        elif rng.random() < 0.2:
            labels["app"] = "hermit"
            term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"nobody-{i % 7}"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        metadata = {"name": f"running-{i:04}", "labels": labels}
        yield {"metadata": metadata, "spec": spec}


def _container(**more: Any) -> Json:
    return {"name": "app", "image": "registry.example/app:1"} | more


def _requests(**amounts: str) -> Json:
    return {"requests": {name.replace("gpu", GPU): amount for name, amount in amounts.items()}}


def _required(*expressions: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _pod_terms(kind: str, **labels: str) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


EXISTS = {"key": "app", "operator": "Exists"}
SIDE = {"name": "side", "image": "registry.example/side:1", "resources": {"requests": {"cpu": "50m"}}}
# The reason for which a workload is stuck -> the spec of its pods.
STUCK: dict[str, Callable[[], Json]] = {
    "too much cpu": lambda: {"containers": [SIDE, _container(resources=_requests(cpu="24"))]},
    "too much memory": lambda: {"containers": [_container(resources=_requests(memory="60Gi", cpu="10m"))]},
    "too much in an init container": lambda: {
        "initContainers": [{"name": "load", "image": "x", "resources": _requests(cpu="20")}],
        "containers": [_container(resources=_requests(cpu="10m"))],
    },
    "more of two resources": lambda: {"containers": [_container(resources=_requests(cpu="17", memory="40Gi"))]},
    "too many gpus": lambda: {
        "containers": [_container(resources=_requests(gpu="6") | {"limits": {GPU: "6"}})],
    },
    "no such label": lambda: {"containers": [_container()], "nodeSelector": {"disk": "nvme"}},
    "labels that no node has together": lambda: {
        "containers": [_container()],
        "nodeSelector": {"pool": "gpu", "disk": "ssd", ZONE: "zone-9"},
    },
    "a label of tainted nodes": lambda: {"containers": [_container()], "nodeSelector": {"pool": "dedicated"}},
    "a label of cordoned nodes": lambda: {"containers": [_container()], "nodeSelector": {"pool": "closed"}},
    "affinity to no node": lambda: {
        "containers": [_container()],
        "affinity": _required(
            {"key": "disk", "operator": "In", "values": ["nvme"]}, {"key": "pool", "operator": "Exists"}
        ),
    },
    "affinity that excludes every node": lambda: {
        "containers": [_container()],
        "affinity": _required({"key": "disk", "operator": "NotIn", "values": ["ssd", "hdd"]}),
    },
    "host port taken": lambda: {"containers": [_container(ports=[{"containerPort": 80, "hostPort": 8080}])]},
    "too uneven": lambda: {
        "containers": [_container()],
        "nodeSelector": {"pool": "general"},
        "topologySpreadConstraints": [
            {
                "topologyKey": "pool",
                "maxSkew": 1,
                "minDomains": 2,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            }
        ],
    },
    "no label to spread over": lambda: {
        "containers": [_container()],
        "topologySpreadConstraints": [
            {
                "topologyKey": "rack",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    },
    "no pod to be near": lambda: {
        "containers": [_container()],
        "affinity": _pod_terms("podAffinity", app="nowhere"),
    },
    "pods to avoid everywhere": lambda: {
        "containers": [_container()],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
                ]
            }
        },
    },
    "one of two terms to avoid": lambda: {
        "containers": [_container()],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}},
                    {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [EXISTS]}},
                ]
            }
        },
    },
    "the name of a node that is gone": lambda: {"containers": [_container()], "nodeSelector": {HOST: "node-gone"}},
    "two terms for no node": lambda: {
        "containers": [_container()],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]},
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]},
                    ]
                }
            }
        },
    },
    "tainted nodes and too much cpu": lambda: {
        "containers": [_container(resources=_requests(cpu="24"))],
        "nodeSelector": {"pool": "dedicated"},
    },
    "cordoned nodes and a host port": lambda: {
        "containers": [_container(ports=[{"containerPort": 80, "hostPort": 8080}])],
        "nodeSelector": {"pool": "closed"},
    },
}

# Other reasons leave a DaemonSet without pods: its controller creates one for each node that its pods may select.
DAEMON_SET_REASONS = (
    *("too much cpu", "too much memory", "too much in an init container", "more of two resources"),
    "host port taken",
)


def make_workload(name: str, kind: str, reason: str, scheduler: str) -> Json:
    """Return the manifest of a workload whose pods are stuck for a reason."""
    labels = {"stuck": name}
    spec = STUCK[reason]() | {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    metadata = {"name": name, "namespace": NAMESPACE}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata | {"labels": labels}, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}
    whole: Json = {"selector": {"matchLabels": labels}, "template": template}
    whole |= {"serviceName": name} if kind == "StatefulSet" else {}
    whole |= {"replicas": 2, "strategy": {"type": "RollingUpdate"}} if kind == "Deployment" else {}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


@dataclass
class SuggestionFigures:
    """What came of the stuck pods: how many had a suggestion with a command, and what became of the commands."""

    pods: int = 0
    with_suggestion: int = 0
    unchecked: int = 0
    carried_out: int = 0
    failures: list[str] = field(default_factory=list)
    without: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        share = round(100 * self.with_suggestion / max(self.pods, 1))
        return (
            f"{self.pods} pending pods, {self.with_suggestion} of them ({share}%) with a suggestion;"
            f" {self.carried_out} suggestions carried out, {self.carried_out - len(self.failures)} pods placed;"
            f" {self.unchecked} suggestions unchecked; without a suggestion: {dict(self.without)};"
            f" changes: {dict(self.kinds)}"
        )


class SuggestionTrial:
    """Tries the suggestions for stuck workloads on one cluster."""

    def __init__(self, cluster: Cluster, explain: Callable[[Json], Json], scheduler: str, patience_s: float) -> None:
        """Store the settings; `explain` returns the PodExplanation of the pod with this metadata."""
        self._has_undone = False  # a change, which the scheduler may not have seen
        self._cluster, self._explain = cluster, explain
        self._scheduler, self._patience_s = scheduler, patience_s
        self.figures = SuggestionFigures()
        self._running: list[Json] = []

    def populate(self, rng: random.Random, nodes: int, pods: int) -> None:
        """Create the namespace, the nodes and the running pods."""
        self._cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        made = list(make_nodes(rng, nodes))
        self._cluster.create_all(_NODES, made)
        self._running = list(make_running_pods(rng, made, pods))
        self._cluster.create_all(_PATHS["Pod"], self._running)

    def try_workload(self, name: str, kind: str, reason: str) -> None:
        """Create the workload, and carry out each of its suggestions on a workload that is created anew."""
        suggestions = self._begin(name, kind, reason)
        self.figures.pods += 1
        commands = [s for s in suggestions if s["command"]]
        self.figures.with_suggestion += bool(commands)
        self.figures.unchecked += sum(not s["checked"] for s in commands)
        if not commands:
            self.figures.without[f"{kind}: {reason}"] += 1
        for number, suggestion in enumerate(commands):
            if number:
                again = [s for s in self._begin(name, kind, reason) if s["command"]]
                suggestion = again[min(number, len(again) - 1)]
            self._carry_out(name, f"{kind}: {reason}", suggestion)
            self._end(name, kind, suggestion)
        if not commands:
            self._end(name, kind, {})

    def _begin(self, name: str, kind: str, reason: str) -> list[Json]:
        """Create the workload until the scheduler rejects a pod of it, and return the suggestions for that pod.

        The first pod may be decided on an earlier state, because schedulers watch pods and nodes apart: the pod may
        arrive before the change of a node with which the last suggestion was undone. So it is created anew.
        """
        what = f"{kind} {name} ({reason}) to be pending"
        for _ in range(5):
            self._cluster.create(_PATHS[kind], make_workload(name, kind, reason, self._scheduler))
            tried = eventually(lambda: self._find_tried(name), what, self._patience_s, every_s=0.1)
            if not tried["spec"].get("nodeName") and not self._has_undone:
                suggestions: list[Json] = self._explain(tried["metadata"])["suggestions"]
                return suggestions
            self._has_undone = False
            self._end(name, kind, {})
        raise AssertionError(f"{what}: it is placed")

    def _find_tried(self, name: str) -> Json | None:
        for pod in self._pods(name):
            if pod["spec"].get("nodeName"):
                return pod
            for condition in pod["status"].get("conditions") or ():
                if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                    return pod
        return None

    def _carry_out(self, name: str, what: str, suggestion: Json) -> None:
        self.figures.carried_out += 1
        self.figures.kinds.update(change["kind"] for change in (suggestion, *suggestion["also"]))
        before = {pod["metadata"]["uid"] for pod in self._pods(name) if pod["spec"].get("nodeName")}
        environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        environment["PATH"] = f"{KUBECTL}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            ["/bin/bash", "-e", "-o", "pipefail", "-c", suggestion["command"]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            self.figures.failures.append(f"{what}: {suggestion['command']}: {done.stderr.strip()}")
            return
        try:
            eventually(lambda: self._is_placed(name, before), "the pod to be placed", self._patience_s, every_s=0.1)
        except AssertionError:
            conditions = [json.dumps(pod["status"].get("conditions")) for pod in self._pods(name)]
            self.figures.failures.append(f"{what}: not placed after {suggestion['command']}: {conditions}")

    def _is_placed(self, name: str, before: set[str]) -> bool:
        return any(pod["spec"].get("nodeName") and pod["metadata"]["uid"] not in before for pod in self._pods(name))

    def _end(self, name: str, kind: str, suggestion: Json) -> None:
        """Delete the workload and undo what was changed on a node."""
        path = f"{_PATHS[kind]}/{name}"
        self._cluster.delete(path)
        self._cluster.delete_all(f"{_PATHS['Pod']}?labelSelector=stuck%3D{name}")

        def is_gone() -> bool:  # a Job goes after its pods
            return not self._pods(name) and self._cluster.find(path) is None

        eventually(is_gone, f"{name} to be gone", self._patience_s)
        for change in (suggestion, *suggestion.get("also", ())) if suggestion else ():
            self._has_undone = True
            node = f"{_NODES}/{suggestion['node']}"
            if change["kind"] == "uncordon":
                self._cluster.patch(node, {"spec": {"unschedulable": True}})
            elif change["kind"] == "set-priority-class":  # running pods were preempted
                names = {pod["metadata"]["name"] for pod in self._cluster.items(_PATHS["Pod"])}
                evicted = [pod for pod in self._running if pod["metadata"]["name"] not in names]
                self._cluster.create_all(_PATHS["Pod"], evicted)
            elif change["kind"] == "label-node":
                key = change["field"].removeprefix("metadata.labels[").removesuffix("]")
                self._cluster.patch(node, {"metadata": {"labels": {key: change["from"]}}})

    def _pods(self, name: str) -> list[Json]:
        return self._cluster.items(f"{_PATHS['Pod']}?labelSelector=stuck%3D{name}")
