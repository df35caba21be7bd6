"""Plans, carried out on a real control plane with the commands that they print.

Owns: random fragmented clusters, the question, the steps, and what must be true afterwards. Does not own: the processes
(`real_cluster`, `kubelets`).
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.drains import HOST, NAMESPACE, PATIENCE_S, PODS, ZONE, DrainFigures, DrainTrial
from tests.e2e.plan_devices import CARD, CARDS_OF_A_NODE, LINK, LINKS, ClaimedDevices
from tests.e2e.pod_group_parity import DRA
from tests.processes import eventually
from tests.scheduler.engine.plans.fragmented import search_at_random
from tests.scheduler.engine.whatif.clusters import a_state

Json = dict[str, Any]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
TARGET = "big"
MOST_CHANGES = 4
STEP_S = 60.0
BIND_S = 60.0
MAX_QUESTIONS = 100  # for nodes whose given order of drains fails
QUESTION_S = 5
KINDS = ("move", "move", "scale-down", "nodes")  # by the remainder of the seed
NODE_COUNTS = (10, 10, 12, 15, 20, 30, 45, 60)
GPU, GPUS_OF_A_NODE = "example.com/gpu", 4
DEVICE_KINDS = {
    f"{DRA}/deviceclasses": "resource.k8s.io/v1 DeviceClass",
    f"{DRA}/resourceslices": "resource.k8s.io/v1 ResourceSlice",
    f"{DRA}/namespaces/{NAMESPACE}/resourceclaims": "resource.k8s.io/v1 ResourceClaim",
    f"{DRA}/namespaces/{NAMESPACE}/resourceclaimtemplates": "resource.k8s.io/v1 ResourceClaimTemplate",
}
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


@dataclass
class PlanFigures(DrainFigures):
    """What was planned and carried out, and what went otherwise."""

    plans: int = 0
    none: int = 0
    overlooked: int = 0  # of them: random changes make the pods fit
    proven: int = 0
    steps: int = 0
    moves: int = 0
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        longest = max(self.seconds, default=0)
        return (
            f"{self.questions} questions: {self.plans} plans ({self.moves} changes, {self.proven} proven minimal),"
            f" {self.steps} steps carried out, {self.none} without a plan,"
            f" {self.overlooked} of which random changes solve, longest search {longest:.1f} s;"
            f" {len(self.failures)} failures"
        )


class PlanTrial(DrainTrial):
    """One random cluster in which a pod does not fit, and the plan for it."""

    figures: PlanFigures
    _random_s = 20.0  # processor time for changes at random

    def __init__(self, cluster: Cluster, seed: int, figures: PlanFigures) -> None:
        super().__init__(cluster, seed, figures)
        self._kind = KINDS[seed % len(KINDS)]
        self._unmet: set[str] = set()  # budgets with too few healthy pods before the first step
        self._devices = ClaimedDevices(cluster, self._rng, NAMESPACE)
        self._quorum = 0  # of the pod group of the target pods, 0 if they belong to none
        self._needed = 0  # target pods that are bound after the plan

    def populate(self) -> None:
        """Create a cluster whose nodes are all rather full, and one to three pods, of which one at least fits nowhere.

        The pods request more CPU, GPUs or cards than any node has free, or they form a group of which one more pod
        fits than nodes have room. Some are bound to the zone of a volume.
        """
        rng, cluster = self._rng, self._cluster
        self._fill_nodes(rng.choice(NODE_COUNTS), 0.68, 0.85)
        if self._kind == "nodes":
            cluster.patch("/api/v1/nodes/node-00", {"spec": {"unschedulable": True}})
        cpus, gpus = self._measure_free()
        cards = self._devices.count_free_cards(_list_nodes_with_cards(len(cpus)))
        chance, replicas = rng.random(), 1
        if chance < 0.2:
            spec = _make_spec(rng, TARGET, 100, plain=True)
            _request(spec, GPU, str(min(GPUS_OF_A_NODE, max(gpus.values()) + 1)))
        elif chance < 0.45:
            spec = _make_spec(rng, TARGET, 100, plain=True)
            shared = rng.random() < 0.3
            self._devices.claim(TARGET, spec, CARD, min(CARDS_OF_A_NODE, max(cards.values()) + 1), shared=shared)
            replicas = 2 if shared else 1
        elif chance < 0.7:
            replicas = rng.randint(2, 3)
            largest = sorted(cpus.values(), reverse=True)
            spec = _make_spec(rng, TARGET, min(3900, largest[replicas - 1] + rng.choice((50, 100))), plain=True)
            self._quorum = rng.choice((replicas, replicas, 2))
            self._devices.group(TARGET, spec, self._quorum)
        else:
            wanted = min(3900, max(cpus.values()) + rng.choice((50, 100, 300)))
            spec = _make_spec(rng, TARGET, wanted, plain=True)
        spec["priorityClassName"] = "patient"
        chance = rng.random()
        if chance < 0.25:
            spec["nodeSelector"] = {"disk": "ssd"}
        elif chance < 0.4:
            self._mount(TARGET, spec)
        elif chance < 0.6 and not self._quorum:
            replicas = 2
        cluster.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", _make_deployment(TARGET, spec, replicas))
        self._wait_until_settled()

    def _mount(self, name: str, spec: Json) -> None:
        """Give pods of `spec` a claim of this name, whose volume is in one zone."""
        zone = f"zone-{self._rng.randrange(3)}"
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
        common: Json = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = {
            **common,
            "capacity": {"storage": "1Gi"},
            "nfs": {"server": "192.0.2.1", "path": "/"},
            "claimRef": {"namespace": NAMESPACE, "name": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        claim = {**common, "volumeName": f"pv-{name}", "resources": {"requests": {"storage": "1Gi"}}}
        self._cluster.create(VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": volume})
        self._cluster.create(CLAIMS, {"metadata": {"name": name, "annotations": BOUND}, "spec": claim})
        self._cluster.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]

    def _fill_nodes(self, nodes: int, least: float, most: float) -> None:
        """Create nodes, and workloads with budgets that request a share of their CPU between these."""
        rng, cluster = self._rng, self._cluster
        cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, value in (("low", -10), ("patient", 100)):
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
            cluster.create(CLASSES, body)
        cluster.create_all("/api/v1/nodes", _make_nodes(rng, nodes))
        self._devices.publish(_list_nodes_with_cards(nodes))
        left = int(nodes * 4000 * rng.uniform(least, most))
        number = 0
        while left > 0:
            cpu, replicas = rng.choice((250, 500, 700, 1000, 1500)), rng.randint(1, 5)
            left -= cpu * replicas
            for path, body in self._make_workload(f"w{number}", cpu, replicas, nodes):
                cluster.create(path, body)
            number += 1
        self._wait_until_settled()

    def _make_workload(self, name: str, cpu: int, replicas: int, _nodes: int) -> Iterator[tuple[str, Json]]:
        """Yield a workload with its path, and perhaps a budget; `_nodes` is the number of nodes."""
        rng, spec = self._rng, _make_spec(self._rng, name, cpu)
        if rng.random() < 0.25:
            spec["priorityClassName"] = "low"
        if rng.random() < 0.15:
            _request(spec, GPU, str(rng.randint(1, 2)))
        if rng.random() < 0.1:
            self._mount(name, spec)
        self._claim_devices(name, spec, replicas)
        apps, whole = f"/apis/apps/v1/namespaces/{NAMESPACE}", _make_deployment(name, spec, replicas)
        if rng.random() < 0.15:
            whole["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
            yield f"{apps}/statefulsets", whole
        else:
            yield f"{apps}/deployments", whole
        if rng.random() < 0.35:
            amount: Json = rng.choice(({"maxUnavailable": 1}, {"maxUnavailable": 0}, {"minAvailable": "50%"}))
            body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, **amount}}
            yield BUDGETS, body

    def _claim_devices(self, name: str, spec: Json, replicas: int) -> None:
        """Give some workloads claims of their pods or a shared claim, and make some a pod group."""
        rng, chance = self._rng, self._rng.random()
        if chance < 0.2:
            self._devices.claim(name, spec, CARD, rng.randint(1, 2))
        elif chance < 0.28:
            self._devices.claim(name, spec, CARD, 1, shared=True)
        elif chance < 0.33 and replicas <= LINKS // 2:
            self._devices.claim(name, spec, LINK, 1)
        elif chance < 0.4 and replicas > 1:
            spec["priorityClassName"] = "patient"  # a gang that preempts without reaching its quorum evicts for ever
            self._devices.group(name, spec, replicas)

    def _measure_free(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the free millicores of each node, and the free GPUs of each node that has some."""
        nodes = {
            node["metadata"]["name"]: node["status"]["allocatable"] for node in self._cluster.items("/api/v1/nodes")
        }
        cpus = {name: _milli(amounts["cpu"]) for name, amounts in nodes.items()}
        gpus = {name: int(amounts[GPU]) for name, amounts in nodes.items() if GPU in amounts}
        for pod in self._cluster.items(PODS):
            node = pod["spec"].get("nodeName")
            for container in pod["spec"]["containers"]:
                if node:
                    cpus[node] -= _milli(container["resources"]["requests"]["cpu"])
                    if node in gpus:
                        gpus[node] -= int(container["resources"]["requests"].get(GPU, 0))
        return cpus, gpus

    def search(self) -> list[tuple[Json, Json]]:
        """Return the plans of this seed's kind, each with its kind. Without one, try changes at random."""
        targets = [pod for pod in self._cluster.items(PODS) if self._is_target(pod)]
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in targets)
        if bound == len(targets):
            return []
        self._needed = self._quorum if bound < self._quorum else len(targets)
        question: Json = {"namespace": NAMESPACE, "maxChanges": MOST_CHANGES}
        question |= {"podGroup": TARGET} if self._quorum else {"workload": f"Deployment/{TARGET}"}
        question |= {"kinds": [self._kind], "timeLimitSeconds": 60}
        review = self.ask({"plan": question})["plan"]
        self.figures.seconds.append(review["seconds"])
        plans = [(kind, plan) for kind in review["kinds"] for plan in kind["plans"]]
        if plans:
            kind, plan = plans[0]
            self.figures.plans += 1
            self.figures.proven += kind["bound"]["kind"] != "NotProven"
            self.figures.moves += plan["changes"]
        else:
            self.figures.none += 1
            self.figures.overlooked += self._search_at_random()
        return plans

    def carry_out(self) -> None:
        """Ask for plans, carry out one of this seed's kind, and check that the pods are bound."""
        self._unmet = self._list_unmet_budgets()
        plans = self.search()
        if not plans:
            return
        _, plan = plans[self._rng.randrange(len(plans))]
        for number, step in enumerate(plan["steps"], 1):
            self.figures.steps += 1
            if not self._carry_out_step(number, step):
                return
        self._check_end(plan)

    def _search_at_random(self) -> bool:
        """Return whether random changes are found after which the pods fit, at least in one order and by one draw."""
        if self._kind == "nodes":  # every node and number of copies was tried
            return False
        state = a_state(self._list_objects())
        targets = [pod for pod in state.list_waiting() if pod.labels.get("app") == TARGET]
        ending = self._kind == "scale-down"
        changes = search_at_random(state, targets[: self._needed], MOST_CHANGES, self._random_s, ending=ending)
        print(f"seed {self._seed}: no plan of the kind {self._kind}; at random: {changes}")
        return changes is not None

    def _list_objects(self) -> list[Json]:
        """Return what scheduling reads of this cluster, as manifests."""
        kinds = {"/api/v1/nodes": "v1 Node", PODS: "v1 Pod", BUDGETS: "policy/v1 PodDisruptionBudget"}
        kinds |= {VOLUMES: "v1 PersistentVolume", CLAIMS: "v1 PersistentVolumeClaim"} | DEVICE_KINDS
        objects: list[Json] = []
        for path, kind in kinds.items():
            version, _, name = kind.partition(" ")
            objects += [{"apiVersion": version, "kind": name} | each for each in self._cluster.items(path)]
        return objects

    def _carry_out_step(self, number: int, step: Json) -> bool:
        """Run the command of a step, and wait for what the plan says; return False after a failure."""
        before = {pod["metadata"]["uid"]: pod for pod in self._cluster.items(PODS)}
        if step["kind"] == "AddNodes":
            self._add(step)
        elif not self._run_command(step["command"]):
            return False
        if step["kind"] not in ("Move", "ScaleDown"):
            return True
        leaving = next(uid for uid, pod in before.items() if pod["metadata"]["name"] == step["pod"])
        replaced = step["kind"] == "Move"
        deadline = time.monotonic() + STEP_S
        while time.monotonic() < deadline:
            pods = self._cluster.items(PODS)
            new = [pod for pod in pods if pod["metadata"]["uid"] not in before and not self._is_target(pod)]
            ready = [pod for pod in new if pod["status"].get("phase") == "Running"]
            if all(pod["metadata"]["uid"] != leaving for pod in pods) and (not replaced or ready):
                for pod in ready:
                    if pod["spec"]["nodeName"] not in step["landsOn"]:
                        self._fail(f"step {number}: {pod['metadata']['name']} is on {pod['spec']['nodeName']}, {step}")
                        return False
                if not replaced and new:
                    self._fail(f"step {number}: the pod that was given up was replaced, {step}")
                    return False
                self._check_budgets(number)
                return True
            time.sleep(0.1)
        names = [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in new]
        self._fail(f"step {number}: after {STEP_S} s the new pods are {names}, {step}")
        return False

    def _run_command(self, command: str) -> bool:
        """Run a command of a plan; the disruption controller may need a moment until it allows an eviction."""
        environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        for _ in range(20):
            done = subprocess.run(
                ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            if not done.returncode:
                return True
            if "disruption budget" not in done.stderr:
                break
            time.sleep(1)
        self._fail(f"{command}: {done.stderr.strip()}")
        return False

    def _check_budgets(self, number: int) -> None:
        """Check that no budget is violated that held when the cluster had settled."""
        for budget in self._cluster.items(BUDGETS):
            status, name = budget.get("status") or {}, budget["metadata"]["name"]
            if name not in self._unmet and status.get("currentHealthy", 0) < status.get("desiredHealthy", 0):
                # the controller may not have counted the new pod yet
                path = f"{BUDGETS}/{name}"
                try:
                    eventually(lambda path=path: self._is_healthy(path), "the budget", 10.0)  # type: ignore[misc]
                except AssertionError:
                    self._fail(f"step {number}: budget {name} is violated: {status}")

    def _list_unmet_budgets(self) -> set[str]:
        names = (budget["metadata"]["name"] for budget in self._cluster.items(BUDGETS))
        return {name for name in names if not self._is_healthy(f"{BUDGETS}/{name}")}

    def _is_healthy(self, path: str) -> bool:
        status = self._cluster.get(path).get("status") or {}
        return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0))

    def _add(self, step: Json) -> None:
        like = self._cluster.get(f"/api/v1/nodes/{step['node']}")
        for name in step["nodes"]:
            labels = like["metadata"]["labels"] | {HOST: name}
            status = {key: like["status"][key] for key in ("allocatable", "capacity")}
            self._cluster.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
            self._devices.copy(step["node"], name)

    def _check_end(self, plan: Json) -> None:
        """Check that the targets, or the quorum of their group, get promised nodes and that no node stays cordoned."""

        def find() -> dict[str, str]:
            pods = [pod for pod in self._cluster.items(PODS) if self._is_target(pod)]
            return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

        try:
            eventually(lambda: sum(map(bool, find().values())) >= self._needed, "the pods to be bound", BIND_S)
        except AssertionError:
            self._fail(f"not every pod is bound, {find()}, after {plan['steps']}")
            return
        bound = find()
        for target in plan["targets"]:
            if bound[target["name"]] not in ("", *target["landsOn"]):
                self._fail(f"{target['name']} is on {bound[target['name']]}, not on {target['landsOn']}")
        cordoned = [
            node["metadata"]["name"]
            for node in self._cluster.items("/api/v1/nodes")
            if node["spec"].get("unschedulable") and self._kind != "nodes"
        ]
        self._check("nodes that stay cordoned", [], cordoned)

    def _is_target(self, pod: Json) -> bool:
        return bool(pod["metadata"]["labels"].get("app") == TARGET)


@dataclass
class DrainOrderFigures(PlanFigures):
    """What became of orders of drains."""

    orders: int = 0
    drained: int = 0
    naive: int = 0
    naive_failed: int = 0

    def __str__(self) -> str:
        return (
            f"{self.questions} questions: {self.orders} orders carried out ({self.drained} drains), where the given one"
            f" fails in a simulation; {self.naive_failed} of {self.naive} given orders failed; {self.none} clusters"
            f" without such nodes; {len(self.failures)} failures"
        )


class DrainOrderTrial(PlanTrial):
    """One random cluster, and nodes whose drains fail in the given order and hold in another one."""

    figures: DrainOrderFigures

    def populate(self) -> None:
        """Create a cluster that is half full, with pods that are bound to two nodes."""
        self._fill_nodes(self._rng.randint(4, 7), 0.48, 0.56)

    def _make_workload(self, name: str, cpu: int, replicas: int, nodes: int) -> Iterator[tuple[str, Json]]:
        """Yield a workload that often fits on two or three nodes only, where another drain must make room."""
        rng, spec = self._rng, _make_spec(self._rng, name, cpu, plain=True)
        if rng.random() < 0.6:
            values = [f"node-{i:02}" for i in rng.sample(range(nodes), rng.choice((2, 2, 3)))]
            terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": values}]}]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        replicas = min(replicas, 2)
        yield f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", _make_deployment(name, spec, replicas)
        if rng.random() < 0.3:
            body = {"selector": {"matchLabels": {"app": name}}, "minAvailable": replicas - 1}
            yield BUDGETS, {"metadata": {"name": name}, "spec": body}

    def carry_out_order(self, *, naive: bool) -> None:
        """Find such nodes, and drain them in the planned order, or with `naive` in the given one."""
        self._unmet = self._list_unmet_budgets()
        names = sorted(node["metadata"]["name"] for node in self._cluster.items("/api/v1/nodes"))
        given, rolling, holds = list[str](), False, False
        for _ in range(MAX_QUESTIONS):
            if holds:  # the reverse of an order that holds fails more often than a random one
                given = given[::-1]
            else:
                given, rolling = self._rng.sample(names, self._rng.randint(2, 4)), self._rng.random() < 0.7
            question = {"drain": given, "rolling": rolling, "timeLimitSeconds": QUESTION_S}
            drain = self.ask({"plan": question})["plan"]["drain"]
            if drain["given"] and drain["nodes"]:
                break
            holds = bool(drain["nodes"]) and not holds
        else:
            self.figures.none += 1
            return
        if naive:
            flags = "--ignore-daemonsets --timeout=20s"
            failure = self._drain_each([f"kubectl drain {n} {flags}" for n in given], given, drain, naive=True)
            self.figures.naive += 1
            self.figures.naive_failed += bool(failure)
            return
        self.figures.orders += 1
        order = [each["node"] for each in drain["nodes"]]
        failure = self._drain_each([each["command"] for each in drain["nodes"]], order, drain, naive=False)
        if failure:
            self._fail(f"{order} instead of {given}, rolling {drain['rolling']}: {failure}")

    def _list_waiting(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self._cluster.items(PODS) if not pod["spec"].get("nodeName")}

    def _drain_each(self, commands: list[str], order: list[str], drain: Json, *, naive: bool) -> str:
        """Run the drains and return what went wrong first: a refused eviction, a pod that stays Pending, or ""."""
        environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}

        def run(command: str) -> str:
            done = subprocess.run(
                ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            return done.stderr if done.returncode else ""

        before = self._list_waiting()
        if drain["cordon"] and not naive:
            assert not run(drain["cordon"])
        for number, (command, node) in enumerate(zip(commands, order, strict=True), 1):
            failure = run(command)
            if failure:
                return f"{command}: {failure[-300:]}"
            self._wait_until_settled()
            waiting = self._list_waiting() - before
            if waiting:
                return f"{command}: {sorted(waiting)} stay Pending"
            if not naive:
                self._check_budgets(number)
            self.figures.drained += not naive
            if drain["rolling"]:
                assert not run(f"kubectl uncordon {node}")
        return ""


def _list_nodes_with_cards(count: int) -> list[str]:
    return [f"node-{i:02}" for i in range(2, count, 3)]


def _make_nodes(rng: random.Random, count: int) -> Iterator[Json]:
    for i in range(count):
        name = f"node-{i:02}"
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        if i % 3 == 1:
            amounts[GPU] = str(GPUS_OF_A_NODE)
        labels = {HOST: name, ZONE: f"zone-{i % 3}", "disk": rng.choice(("ssd", "ssd", "hdd"))}
        yield {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts, "capacity": amounts}}


def _make_spec(rng: random.Random, name: str, cpu: int, *, plain: bool = False) -> Json:
    container = {"name": "app", "image": "registry.example/app:1", "resources": {"requests": {"cpu": f"{cpu}m"}}}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 1}
    matching = {"labelSelector": {"matchLabels": {"app": name}}}
    kind = rng.random()
    if not plain and kind < 0.2:
        terms = [{"topologyKey": HOST, **matching}]
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    elif not plain and kind < 0.4:
        key = rng.choice((HOST, ZONE))
        constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **matching}
        spec["topologySpreadConstraints"] = [constraint]
    elif not plain and kind < 0.45:
        terms = [{"topologyKey": ZONE, **matching}]
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return spec


def _request(spec: Json, resource: str, amount: str) -> None:
    resources = spec["containers"][0]["resources"]
    resources["requests"][resource] = amount
    resources["limits"] = {resource: amount}


def _make_deployment(name: str, spec: Json, replicas: int) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole}


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


__all__ = ["PATIENCE_S", "DrainOrderFigures", "DrainOrderTrial", "PlanFigures", "PlanTrial"]
