"""What the descheduler would do, compared with what it then does on a real API server.

Owns: random clusters and policies, the real run, and the comparison. Does not own: the processes (`real_cluster`).

The descheduler takes nodes, pods and owners in the random order of Go's maps. So its evictions must be, pod by pod and
plugin by plugin, those of one of the runs that the engine makes with random orders, and contain what all of these runs
have in common. There are no controllers: an evicted pod stays with its deletion timestamp, as in its grace period.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from scheduler.engine.descheduler.answers import Descheduler
from scheduler.engine.descheduler.policy import parse_policy
from scheduler.engine.manifests.cluster import SourceManifest, load_cluster
from scheduler.engine.whatif.simulation import WhatIfState
from tests.e2e.cluster import Cluster

Json = dict[str, Any]
Evicted = frozenset[tuple[str, str]]  # pod as NAMESPACE/NAME, and plugin

NAMESPACES = ("shop", "data")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KINDS = {  # of what the descheduler reads, with the paths
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
}
RUNS = 3000  # with random orders, until one is that of the descheduler
_EVICTED = re.compile(r'"Evicted pod" pod="([^"]+)" .*strategy="([^"]+)"')
_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
_LIMITED = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal")


def make_nodes(rng: random.Random) -> Iterator[Json]:
    """Yield nodes in two or three zones; some are cordoned, tainted or not ready."""
    for i in range(rng.randint(3, 6)):
        name = f"node-{i}"
        amounts = {
            "cpu": rng.choice(("2", "4")),
            "memory": rng.choice(("4Gi", "8Gi")),
            "pods": rng.choice(("110", "8")),
        }
        labels = {HOST: name, "disk": rng.choice(("ssd", "hdd"))}
        if rng.random() < 0.9:
            labels[ZONE] = f"zone-{i % rng.choice((2, 3))}"
        taints = []
        if rng.random() < 0.4:
            effect = rng.choice(("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"))
            taints.append({"key": "dedicated", "value": rng.choice(("ml", "db")), "effect": effect})
        spec: Json = {"taints": taints}
        if rng.random() < 0.12:
            spec["unschedulable"] = True
        ready = rng.random() > 0.08
        if not ready:
            taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"})
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions}
        yield {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def make_pods(rng: random.Random, nodes: list[str]) -> Iterator[Json]:
    """Yield pods of some owners, bound to random nodes, of which a few are preferred."""
    for number in range(rng.randint(2, 6)):
        kind = rng.choice(("ReplicaSet",) * 6 + ("StatefulSet", "DaemonSet", "Job", ""))
        spec = _make_spec(rng, f"app-{number}")
        replicas, namespace = rng.randint(1, 5), rng.choice(NAMESPACES)
        favourites = rng.sample(nodes, min(len(nodes), rng.choice((1, 2, 6))))
        annotations = {}
        if rng.random() < 0.06:
            annotations["descheduler.alpha.kubernetes.io/evict"] = "true"
        if rng.random() < 0.15:
            annotations["descheduler.alpha.kubernetes.io/prefer-no-eviction"] = ""
        for index in range(replicas):
            name = f"app-{number}-{index}"
            metadata: Json = {"name": name, "namespace": namespace, "labels": {"app": f"app-{number}", "tier": "web"}}
            metadata["annotations"] = annotations
            if kind:
                owner = {"apiVersion": "apps/v1", "kind": kind, "name": f"app-{number}", "uid": f"uid-{number}"}
                metadata["ownerReferences"] = [owner | {"controller": True}]
            yield {"metadata": metadata, "spec": {**spec, "nodeName": rng.choice(favourites)}}


def _make_spec(rng: random.Random, app: str) -> Json:
    amounts = {"cpu": rng.choice(("100m", "300m", "500m", "1")), "memory": rng.choice(("128Mi", "512Mi", "1Gi"))}
    resources: Json = rng.choice(
        ({"requests": amounts}, {"requests": amounts}, {"requests": amounts, "limits": amounts}, {})
    )
    image = rng.choice(("registry.example/app:1", "registry.example/app:2"))
    spec: Json = {"containers": [{"name": "app", "image": image, "resources": resources}]}
    same = {"matchLabels": {"app": app}}
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if rng.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.15:
        spec["volumes"] = [{"name": "cache", "emptyDir": {}}]
    if rng.random() < 0.2:
        spec["priorityClassName"] = rng.choice(("high", "system-cluster-critical"))
    affinity: Json = {}
    if rng.random() < 0.35:
        term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        if rng.random() < 0.5:
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        else:
            preferred = [{"weight": rng.choice((1, 50)), "preference": term}]
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if rng.random() < 0.3:
        terms = [
            {
                "topologyKey": rng.choice((HOST, ZONE)),
                "labelSelector": rng.choice((same, {"matchLabels": {"tier": "web"}})),
            }
        ]
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if affinity:
        spec["affinity"] = affinity
    if rng.random() < 0.5:
        spread: Json = {
            "maxSkew": rng.choice((1, 1, 2)),
            "topologyKey": rng.choice((HOST, ZONE)),
            "labelSelector": same,
        }
        spread["whenUnsatisfiable"] = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
        if rng.random() < 0.3:
            spread["nodeTaintsPolicy"] = "Honor"
        spec["topologySpreadConstraints"] = [spread]
    return spec


def make_policy(rng: random.Random) -> Json:
    """Return a policy with one or two profiles and random plugins, arguments and limits."""
    policy: Json = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    policy["profiles"] = [_make_profile(rng, f"profile-{i}") for i in range(rng.choice((1, 1, 2)))]
    for limit in _LIMITED:
        if rng.random() < 0.12:
            policy[limit] = rng.randint(1, 3)
    if rng.random() < 0.1:
        policy["nodeSelector"] = "disk in (ssd,hdd),!gone"
    return policy


def _make_profile(rng: random.Random, name: str) -> Json:
    evictor: Json = {"nodeFit": rng.random() < 0.5}
    if rng.random() < 0.2:
        evictor["evictLocalStoragePods"] = True
    if rng.random() < 0.15:
        evictor["priorityThreshold"] = rng.choice(({"value": 1000}, {"name": "high"}, {"value": 1001}))
    if rng.random() < 0.1:
        evictor["evictSystemCriticalPods"] = True
    if rng.random() < 0.1:
        evictor["minReplicas"] = rng.randint(2, 4)
    if rng.random() < 0.1:
        evictor["labelSelector"] = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["app-0"]}]}
    if rng.random() < 0.1:
        evictor["namespaceLabelSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    if rng.random() < 0.1:
        evictor["ignorePodsWithoutPDB"] = True
    if rng.random() < 0.1:
        evictor["noEvictionPolicy"] = "Mandatory"
    if rng.random() < 0.1:
        evictor["minPodAge"] = rng.choice(("1h", "1ms"))
    config: Json = {"DefaultEvictor": evictor}
    deschedule, balance = _make_deschedule(rng), _make_balance(rng)
    enabled = {}
    for point, plugins in (("deschedule", deschedule), ("balance", balance)):
        chosen = [plugin for plugin in plugins if rng.random() < 0.6]
        rng.shuffle(chosen)
        enabled[point] = {"enabled": chosen}
        config |= {plugin: plugins[plugin] for plugin in chosen}
    listed = [{"name": plugin, "args": args} for plugin, args in config.items()]
    return {"name": name, "pluginConfig": listed, "plugins": enabled}


def _make_deschedule(rng: random.Random) -> Json:
    hard, soft = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))
    scope: Json = rng.choice(({}, {}, {"namespaces": {"include": ["shop"]}}, {"namespaces": {"exclude": ["shop"]}}))
    taints: Json = rng.choice(
        (
            {},
            {"includePreferNoSchedule": True},
            {"excludedTaints": ["dedicated=ml"]},
            {"includedTaints": ["dedicated=db"]},
        )
    )
    kinds = rng.choice(([hard], [soft], [hard, soft]))
    return {
        "RemovePodsViolatingNodeTaints": scope | taints,
        "RemovePodsViolatingNodeAffinity": scope | {"nodeAffinityType": kinds},
        "RemovePodsViolatingInterPodAntiAffinity": scope,
    }


def _make_balance(rng: random.Random) -> Json:
    low, high = rng.choice((20, 35, 50)), rng.choice((50, 60, 75))
    resources = rng.choice((["cpu"], ["cpu", "memory"], ["pods"], ["cpu", "memory", "pods"]))
    utilization: Json = {
        "thresholds": dict.fromkeys(resources, low),
        "targetThresholds": dict.fromkeys(resources, high),
    }
    if rng.random() < 0.4:
        utilization = {"useDeviationThresholds": True}
        utilization |= {"thresholds": dict.fromkeys(resources, 5), "targetThresholds": dict.fromkeys(resources, 10)}
    if rng.random() < 0.2:
        utilization["evictionLimits"] = {"node": 1}
    high_utilization: Json = {"thresholds": dict.fromkeys(resources, rng.choice((20, 40, 60)))}
    if rng.random() < 0.3:
        high_utilization["evictionModes"] = ["OnlyThresholdingResources"]
    if rng.random() < 0.2:
        utilization["evictableNamespaces"] = high_utilization["evictableNamespaces"] = {"exclude": ["data"]}
    spread: Json = {}
    if rng.random() < 0.5:
        spread["constraints"] = ["DoNotSchedule", "ScheduleAnyway"]
    if rng.random() < 0.3:
        spread["topologyBalanceNodeFit"] = False
    plugins: Json = {
        "RemoveDuplicates": rng.choice(({}, {"excludeOwnerKinds": ["StatefulSet"]})),
        "RemovePodsViolatingTopologySpreadConstraint": spread,
    }
    if rng.random() < 0.5:
        return plugins | {"LowNodeUtilization": utilization}
    return plugins | {"HighNodeUtilization": high_utilization}


@dataclass
class DescheduleFigures:
    """What was compared, and what differed."""

    clusters: int = 0
    evictions: Counter[str] = field(default_factory=Counter)  # by plugin
    refused: int = 0
    certain: int = 0  # clusters in which all runs evict the same pods
    idle: int = 0  # clusters without an eviction
    tried: list[int] = field(default_factory=list)  # runs until one was that of the descheduler
    repeated: int = 0  # clusters whose first run differed, and the second did not
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        plugins = ", ".join(f"{count} {plugin}" for plugin, count in sorted(self.evictions.items()))
        return (
            f"{self.clusters} clusters ({self.certain} with one outcome, {self.idle} without evictions):"
            f" {self.evictions.total()} evictions ({plugins}), {self.refused} refused;"
            f" at most {max(self.tried, default=0)} random orders; {self.repeated} clusters repeated;"
            f" {len(self.failures)} differences"
        )


class DescheduleTrial:
    """One random cluster and policy: the engine's runs, and the descheduler's."""

    def __init__(self, cluster: Cluster, binary: Path, directory: Path, seed: int, figures: DescheduleFigures) -> None:
        self._cluster, self._binary, self._directory = cluster, binary, directory
        self._seed, self._figures = seed, figures

    def populate(self) -> None:
        """Create nodes, pods that run there, and budgets with the status that their controller would write."""
        self._rng = random.Random(self._seed)
        self.policy = make_policy(self._rng)
        nodes = list(make_nodes(self._rng))
        self._cluster.create_all("/api/v1/nodes", nodes)
        pods = list(make_pods(self._rng, [node["metadata"]["name"] for node in nodes]))
        self._rng.shuffle(pods)
        self._cluster.create_all(
            "/api/v1/namespaces/shop/pods", [p for p in pods if p["metadata"]["namespace"] == "shop"]
        )
        self._cluster.create_all(
            "/api/v1/namespaces/data/pods", [p for p in pods if p["metadata"]["namespace"] == "data"]
        )
        started = {"startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))}
        for pod in pods:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
            self._cluster.patch(path, {"status": _READY | started})
        groups = Counter((pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]) for pod in pods)
        for (namespace, app), count in groups.items():
            if self._rng.random() < 0.3:
                self._create_budget(namespace, app, count)

    def _create_budget(self, namespace: str, app: str, count: int) -> None:
        allowed = self._rng.randint(0, count)
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": count - allowed}
        created = self._cluster.create(path, {"metadata": {"name": app}, "spec": spec})
        status = {"disruptionsAllowed": allowed, "currentHealthy": count, "desiredHealthy": count - allowed}
        status |= {"expectedPods": count, "observedGeneration": created["metadata"]["generation"]}
        self._cluster.patch(f"{path}/{app}/status", {"status": status})

    def compare(self) -> None:
        """Compare what the engine and the descheduler evict.

        A plugin may see pods as its predecessor found them, because the descheduler's watch is behind its own evictions
        for a few milliseconds. So a cluster with a difference is built and compared again, once.
        """
        self.populate()
        difference = self._compare()
        if difference:
            self.clear()
            self.populate()
            difference = self._compare()
            self._figures.repeated += not difference
        if difference:
            self._figures.failures.append(f"seed {self._seed}: {difference}")
        self.clear()

    def _compare(self) -> str:
        """Let the engine run with random orders, then the descheduler once; return how they differ, or ""."""
        descheduler = self._build()
        answer = self._ask()
        first = frozenset((_full_name(e), e["plugin"]) for e in answer["evictions"] if e["outcome"] != "Refused")
        outcomes = Counter([_evict(descheduler, None), *(_evict(descheduler, random.Random(n)) for n in range(200))])
        real = self._run()
        figures = self._figures
        figures.clusters += 1
        figures.certain += len(outcomes) == 1
        figures.idle += not real
        figures.evictions.update(plugin for _, plugin in real)
        figures.refused += sum(each["outcome"] == "Refused" for each in answer["evictions"])
        if first not in outcomes:
            return f"local mode evicts {sorted(first)}"
        number = 200
        while real not in outcomes and number < RUNS:
            outcomes[_evict(descheduler, random.Random(number))] += 1
            number += 1
        figures.tried.append(number)
        if real not in outcomes:
            always = frozenset[tuple[str, str]].intersection(*outcomes)
            sometimes = frozenset[tuple[str, str]].union(*outcomes)
            return (
                f"evicted {sorted(real)}; {len(outcomes)} outcomes; always {sorted(always)};"
                f" only real {sorted(real - sometimes)}; only engine {sorted(always - real)}; {json.dumps(self.policy)}"
            )
        return ""

    def _build(self) -> Descheduler:
        objects = [each | {"kind": kind} for kind, path in KINDS.items() for each in self._cluster.items(path)]
        for each in objects:
            each["apiVersion"] = "policy/v1" if each["kind"] == "PodDisruptionBudget" else "v1"
        cluster = load_cluster(SourceManifest(f"object {i}", content) for i, content in enumerate(objects))
        state = WhatIfState(cluster.nodes, cluster.objects, cluster.nominator, lambda _name: None)
        with ClusterReader(self._cluster.fetch, lambda _kind, _count: None) as reader:
            classes = {each.metadata.name: each for each in reader.read("", lambda _pods: False).priority_classes or ()}
        return Descheduler(state, parse_policy(self.policy), classes, lambda: None, time.time())

    def _ask(self) -> Json:
        """Return local mode's answer."""
        with (
            ClusterReader(self._cluster.fetch, lambda _kind, _count: None) as reader,
            LocalService(reader, Configuration(), lambda _note: None) as service,
        ):
            document = {"kind": "ClusterReview", "spec": {"deschedule": {"policy": self.policy}}}
            answer = service.post("/apis/herodotus.dev/v1alpha1/clusterreviews", document)
        assert answer.code == 201, answer.document
        review: Json = answer.document["status"]["deschedule"]
        return review

    def _run(self) -> Evicted:
        """Run the descheduler once, and return what it evicted.

        Of a pod that it evicts twice, because it has not yet seen that the pod is being deleted, the first time counts.
        """
        policy = self._directory / f"policy-{self._seed}.yaml"
        policy.write_text(yaml.safe_dump(self.policy))
        command = [str(self._binary), f"--kubeconfig={self._cluster.kubeconfig}", f"--policy-config-file={policy}"]
        command += ["--descheduling-interval=0", "--v=1", "--secure-port=0", "--disable-metrics"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return frozenset(dict(reversed(_EVICTED.findall(done.stderr))).items())

    def clear(self) -> None:
        """Delete the pods, budgets and nodes."""
        for namespace in NAMESPACES:
            self._cluster.delete_all(f"/api/v1/namespaces/{namespace}/pods")
            self._cluster.delete_all(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
        self._cluster.delete_all("/api/v1/nodes")


def _evict(descheduler: Descheduler, rng: random.Random | None) -> Evicted:
    evictions = descheduler.run(rng).run.evictions
    return frozenset((each.pod.full_name, each.plugin) for each in evictions if not each.refusal)


def _full_name(eviction: Json) -> str:
    return f"{eviction['namespace']}/{eviction['name']}"
