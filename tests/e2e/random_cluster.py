"""Seeded random clusters: nodes, the pods on them, workloads, budgets, classes, and scheduler configurations.

Owns: everything that exists before the first decision. Does not own: pods (`random_pods`), storage (`random_volumes`).
Invariant: one seed, one cluster.
"""

from __future__ import annotations

import random
from typing import Any

from tests.e2e import random_pods as pods
from tests.e2e import random_rare as rare
from tests.e2e import random_volumes as volumes

Json = dict[str, Any]

SCHEDULERS = ("parity-default", "parity-packed", "parity-odd", "parity-bare")


class RandomCluster:
    """The initial objects of a seed, and the pods that are created later."""

    def __init__(self, seed: int, nodes: int | None = None, *, compares: bool = False) -> None:
        """Draw the cluster; `nodes` overrides the number that the seed gives.

        With `compares`, taints have numbers and tolerations compare them (TaintTolerationComparisonOperators).
        """
        self._compares = compares
        self._rng = random.Random(seed)
        self.size = nodes or self._rng.randrange(10, 61)
        self.graceful = self._rng.random() < 0.3
        self.node_names = [f"n-{i:03}" for i in range(self.size)]
        self._often = self._rng.uniform(0.4, 1.0)
        self._crowded = self._rng.random() < 0.5  # much runs already, and what comes is more important
        self._claims = volumes.claim_names()
        self._rare = random.Random(f"rare {seed}")  # drawn apart: the rest of a seed's cluster stays what it was

    def first(self) -> list[tuple[str, Json]]:
        """Return (collection path, object) in the order of creation, without nodes and pods."""
        made: list[tuple[str, Json]] = []
        body: Json
        for name, value in pods.PRIORITIES.items():
            policy = "Never" if name == "parity-never" else "PreemptLowerPriority"
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            made.append(("/apis/scheduling.k8s.io/v1/priorityclasses", body))
        for name, overhead in pods.RUNTIME_CLASSES.items():
            body = {"metadata": {"name": name}, "handler": "x"}
            if overhead:
                body |= {"overhead": {"podFixed": overhead}, "scheduling": {"nodeSelector": {"gpu": "true"}}}
            made.append(("/apis/node.k8s.io/v1/runtimeclasses", body))
        storage = volumes.storage(self._rng, self.node_names)
        for _, body in storage:
            terms = body.get("spec", {}).get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms")
            if terms and self._rare.random() < 0.3:
                rare.name_nodes(self._rare, terms, self.node_names)
        return made + storage + self._workloads()

    def nodes(self) -> list[Json]:
        """Return the nodes. In one of four clusters one node has amounts that fit no int64."""
        made = [self._node(name) for name in self.node_names]
        if self._rare.random() < 0.25:
            rare.claim_absurd_amounts(self._rare, self._rare.choice(made)["status"])
        if self._compares:
            for node in made:
                rare.number_taints(self._rare, node["spec"])
        return made

    def running(self) -> list[Json]:
        """Return the pods that have a node from the start."""
        taken: set[tuple[str, int]] = set()
        few, many = (5, 9) if self._crowded else (1, 5)
        count = int(self.size * self._rng.uniform(few, many)) if self.size <= 100 else 2 * self.size
        made = []
        for i in range(count):
            pod = pods.random_pod(self._rng, f"old-{i:04}", self._claims, often=0.5 * self._often)
            pod["spec"]["nodeName"] = self._rng.choice(self.node_names)
            _give_way(pod["spec"], taken)
            pod["spec"]["terminationGracePeriodSeconds"] = 30 if self.graceful else 0
            made.append(pod)
        return made

    def incoming(self, number: int) -> Json:
        """Return the next pod to be decided."""
        pod = pods.random_pod(self._rng, f"new-{number:04}", self._claims, often=self._often)
        if self._crowded and self._rng.random() < 0.6:
            pod["spec"]["priorityClassName"] = self._rng.choice(("parity-high", "parity-high", "parity-mid"))
        pod["spec"]["schedulerName"] = self._rng.choice((SCHEDULERS[0], *SCHEDULERS))
        if self._rare.random() < 0.06:
            rare.prefer_what_is_no_label(self._rare, pod["spec"])
        if self._rare.random() < 0.06:
            rare.request_absurd_amounts(self._rare, pod["spec"])
        if self._compares:
            rare.compare_numbers(self._rare, pod["spec"])
        return pod

    def _node(self, name: str) -> Json:
        rng = self._rng
        labels = {pods.HOST: name}
        if rng.random() < 0.9:
            labels[pods.ZONE] = rng.choice(pods.ZONES)
        if rng.random() < 0.15:
            labels["failure-domain.beta.kubernetes.io/zone"] = rng.choice(pods.ZONES)
        for key, share, values in (
            (pods.REGION, 0.7, ("r1", "r2")),
            ("disk", 0.8, pods.DISKS),
            ("gpu", 0.3, ("true",)),
            ("rank", 0.7, ("1", "3", "7", "x")),
            ("rack", 0.7, ("k1", "k2", "k3", "k4", "k5")),
        ):
            if rng.random() < share:
                labels[key] = rng.choice(values)
        amounts: Json = {
            "cpu": rng.choice(("2", "4", "3920m", "8", "16", "32")),
            "memory": rng.choice(("4Gi", "8Gi", "15500Mi", "16e9", "64Gi", "32000000Ki")),
            "pods": rng.choice(("4", "8", "16", "110")),
        }
        for key, share, sizes in (
            ("ephemeral-storage", 0.7, ("20Gi", "100Gi")),
            (pods.GPU, 0.4, ("1", "2", "4")),
            (pods.HUGE, 0.3, ("128Mi", "1Gi")),
        ):
            if rng.random() < share:
                amounts[key] = rng.choice(sizes)
        taints = {}
        for taint in rng.sample(pods.TAINTS, rng.choice((0, 0, 0, 1, 1, 2))):
            taints[taint["key"], taint["effect"]] = taint
        spec: Json = {"taints": list(taints.values()), "unschedulable": rng.random() < 0.05}
        status: Json = {"allocatable": amounts, "capacity": amounts, "images": self._images()}
        if rng.random() < 0.5:
            status["declaredFeatures"] = ["GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits"]
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def _images(self) -> list[Json]:
        made = []
        for name in self._rng.sample(tuple(pods.IMAGES), self._rng.randrange(len(pods.IMAGES))):
            tagged = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
            made.append({"names": [tagged, f"{name.removesuffix(':9')}@sha256:1"], "sizeBytes": pods.IMAGES[name]})
        return made

    def _workloads(self) -> list[tuple[str, Json]]:
        made: list[tuple[str, Json]] = []
        for namespace in pods.NAMESPACES:
            for app in pods.APPS:
                labels = {"app": app} | ({"tier": "front"} if self._rng.random() < 0.3 else {})
                name = f"owner-{app}"
                metadata = {"name": name, "namespace": namespace}
                template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
                set_spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
                for share, path, spec in (
                    (0.4, f"/api/v1/namespaces/{namespace}/services", {"selector": labels, "ports": [{"port": 80}]}),
                    (0.6, f"/apis/apps/v1/namespaces/{namespace}/replicasets", set_spec),
                    (0.5, f"/apis/apps/v1/namespaces/{namespace}/statefulsets", set_spec | {"serviceName": "s"}),
                    (0.4, f"/api/v1/namespaces/{namespace}/replicationcontrollers", set_spec | {"selector": labels}),
                    (0.4, f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", self._budget(labels)),
                ):
                    if self._rng.random() < share:
                        made.append((path, {"metadata": metadata, "spec": spec}))
            for tier in pods.TIERS:  # over those above: a pod may be under two budgets
                if self._rng.random() < 0.3:
                    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
                    metadata = {"name": f"tier-{tier}", "namespace": namespace}
                    made.append((path, {"metadata": metadata, "spec": self._budget({"tier": tier})}))
        return made

    def _budget(self, labels: dict[str, str]) -> Json:
        return {"maxUnavailable": 1, "selector": {"matchLabels": labels} if self._rng.random() < 0.9 else {}}

    def configuration(self) -> Json:
        """Return four profiles: defaults, packing, arguments of every kind, and few plugins."""
        rng = self._rng
        shape = [{"utilization": 0, "score": rng.randrange(4)}, {"utilization": 70, "score": 10}]
        resources = [{"name": "cpu", "weight": rng.choice((1, 3))}, {"name": pods.GPU, "weight": 5}]
        packing: Json = rng.choice(
            (
                {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}]},
                {"type": "RequestedToCapacityRatio", "resources": resources}
                | {"requestedToCapacityRatio": {"shape": [*shape, {"utilization": 100, "score": 4}]}},
                {"type": "LeastAllocated", "resources": resources},
            )
        )
        added: Json = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 30, "preference": {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}}
            ]
        }
        if rng.random() < 0.6:
            expressions = [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]
            added["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [{"matchExpressions": expressions}]
            }
        spread = [{"maxSkew": 2, "topologyKey": pods.ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]
        if rng.random() < 0.4:
            spread.append({"maxSkew": 5, "topologyKey": pods.HOST, "whenUnsatisfiable": "DoNotSchedule"})
        everywhere = {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [
                {"schedulerName": SCHEDULERS[0], "pluginConfig": [everywhere]},
                {
                    "schedulerName": SCHEDULERS[1],
                    "pluginConfig": [
                        everywhere,
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": packing}},
                        {
                            "name": "NodeResourcesBalancedAllocation",
                            "args": {"resources": [{"name": "cpu", "weight": 1}, {"name": pods.GPU, "weight": 1}]},
                        },
                    ],
                },
                {
                    "schedulerName": SCHEDULERS[2],
                    "plugins": {"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 7}]}},
                    "pluginConfig": [
                        everywhere,
                        {"name": "NodeAffinity", "args": {"addedAffinity": added}},
                        {
                            "name": "PodTopologySpread",
                            "args": {"defaultingType": "List", "defaultConstraints": spread},
                        },
                        {
                            "name": "InterPodAffinity",
                            "args": {
                                "hardPodAffinityWeight": rng.choice((0, 5, 100)),
                                "ignorePreferredTermsOfExistingPods": rng.random() < 0.5,
                            },
                        },
                        {"name": "NodeResourcesFit", "args": {"ignoredResources": [pods.IGNORED]}},
                    ],
                },
                {
                    "schedulerName": SCHEDULERS[3],
                    "plugins": {
                        "preScore": {"disabled": [{"name": "InterPodAffinity"}]},
                        "score": {
                            "disabled": [{"name": "TaintToleration"}, {"name": "InterPodAffinity"}],
                            "enabled": [{"name": "TaintToleration", "weight": 11}],
                        },
                    },
                    "pluginConfig": [everywhere],
                },
            ],
        }


def _give_way(spec: Json, taken: set[tuple[str, int]]) -> None:
    """Remove host ports that another pod of the node has: kube-scheduler frees a port when either pod ends."""
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        wanted = {(spec["nodeName"], port["hostPort"]) for port in container.get("ports", ())}
        if wanted & taken:
            del container["ports"]
        taken |= wanted
