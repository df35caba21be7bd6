"""A cluster of mixed nodes and pods, full enough that some pods are pending and some are preempted.

Owns: its objects, by seed. Does not own: scheduling them, and questions about them (`questions`).
Invariant: a seed and a size give the same cluster.
"""

from __future__ import annotations

import random
from typing import Any

from tests.e2e.cluster import SCHEDULER, node, pod

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PRIORITY = "questions-high"
MOST_CPU = 16
DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
SPOT = {"key": "spot", "effect": "NoSchedule"}
SETS = 10  # workloads that half of the pods belong to


def nodes(rng: random.Random, count: int) -> list[Json]:
    """Return nodes of three zones and sizes; some are tainted, some cordoned, half of them have a fast disk."""
    made = []
    for i in range(count):
        labels = {ZONE: f"zone-{i % 3}", "disk": "ssd" if i % 2 else "hdd"}
        changes: Json = {"labels": labels}
        if i % 10 == 3:
            changes["taints"] = [DEDICATED, SPOT][: 1 + i % 20 // 10]
        if i % 20 == 7:
            changes["unschedulable"] = True
        made.append(node(f"n-{i}", cpu=str(rng.choice((4, 8, 8, MOST_CPU))), **changes))
    return made


def priority_class() -> Json:
    """Return the priority class of pods that may preempt."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": PRIORITY}, "value": 1000}


def pods(rng: random.Random, count: int) -> tuple[list[Json], list[Json]]:
    """Return ordinary pods, more than fit, and then pods that preempt or remain pending."""
    last = count // 10
    return [_pod(rng, i) for i in range(count - last)], [_late(rng, i) for i in range(last)]


def _pod(rng: random.Random, i: int) -> Json:
    spec: Json = {}
    labels = {"app": f"app-{i % 7}"}
    match i % 8:
        case 1:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}]
        case 2:
            spec["nodeSelector"] = {"disk": "ssd"}
        case 3:
            labels["spread"] = f"s-{i % 5}"
            spec["topologySpreadConstraints"] = [spread(ZONE, labels["spread"], "ScheduleAnyway")]
        case 4:
            labels["alone"] = f"a-{i % 40}"
            spec["affinity"] = {"podAntiAffinity": near("alone", labels["alone"], HOST)}
    cpu = rng.choice(("500m", "750m", "1", "1500m", "2"))
    return _made(f"p-{i}", i, labels, spec, cpu, _container_ports(8080) if i % 50 == 5 else None)


def _late(rng: random.Random, i: int) -> Json:
    """Return a pod of one of eight kinds, most of which remain pending."""
    spec: Json = {}
    labels = {"app": f"late-{i % 8}"}
    cpu, ports = "250m", None
    match i % 8:
        case 0:
            spec["priorityClassName"], cpu = PRIORITY, "3"
        case 1:
            cpu = str(MOST_CPU - 1)
        case 2:
            spec["nodeSelector"] = {"disk": "nvme"}
        case 3:
            spec["nodeSelector"] = {HOST: "n-3"}  # tainted
        case 4:
            spec["nodeSelector"] = {HOST: "n-7"}  # cordoned
        case 5:
            spec["nodeSelector"], ports = {HOST: "n-5"}, _container_ports(9090)
        case 6:
            labels["alone"] = "a-late"
            spec["nodeSelector"] = {HOST: "n-6"}
            spec["affinity"] = {"podAntiAffinity": near("alone", "a-late", HOST)}
        case 7:
            cpu = str(rng.choice((5, 7, 12)))
    return _made(f"late-{i}", i, labels, spec, cpu, ports)


def _made(name: str, i: int, labels: Json, spec: Json, cpu: str, ports: list[Json] | None) -> Json:
    made = pod(name, cpu=cpu, terminationGracePeriodSeconds=0, **spec)
    made["metadata"]["labels"] = labels
    if ports:
        made["spec"]["containers"][0]["ports"] = ports
    if i % 2:
        made["metadata"]["ownerReferences"] = [owner(i // 2 % SETS)]
    return made


def owner(number: int) -> Json:
    """Return the owner reference to the workload of that number, which need not exist without controllers."""
    name = f"set-{number}"
    uid = f"00000000-0000-4000-8000-{number:012}"
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": True}


def probe(rng: random.Random, name: str, scheduler: str = SCHEDULER) -> Json:
    """Return a small pod that fits on many nodes and that several plugins score differently."""
    image = f"registry.k8s.io/probe:{rng.randrange(3)}"
    made = pod(name, cpu="10m", scheduler=scheduler, terminationGracePeriodSeconds=0)
    made["metadata"]["labels"] = {"app": f"app-{rng.randrange(7)}", "spread": f"s-{rng.randrange(5)}"}
    made["spec"]["containers"][0]["image"] = image
    made["spec"]["topologySpreadConstraints"] = [spread(HOST, made["metadata"]["labels"]["spread"], "ScheduleAnyway")]
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    made["spec"]["affinity"] = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}]}
    }
    return made


def spread(key: str, value: str, when: str) -> Json:
    """Return a topology spread constraint over pods with the label `spread`."""
    selector = {"matchLabels": {"spread": value}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}


def near(key: str, value: str, topology: str) -> Json:
    """Return required (anti-)affinity terms for pods with a label."""
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {key: value}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _container_ports(port: int) -> list[Json]:
    return [{"containerPort": port, "hostPort": port}]
