"""Some hours of a cluster's life on a real control plane, compressed in time: pods arrive, and end after their time.

    hours = CompressedHours(api, seed=1, nodes=500, pods=5000, hours=5.0)
    hours.create_cluster()
    hours.run(minutes=40.0)

Nodes of three shapes in three zones, some tainted. Workloads arrive at random times with all their pods: Deployments
with ReplicaSets, by whose selectors kube-scheduler spreads pods, and Jobs. Some pods have spread constraints, affinity,
tolerations or a priority that preempts. A pod that is evicted is made anew, as its controller would.

Owns: the objects and when they change. Does not own: kube-scheduler and what is compared (`trace_parity`).
"""

from __future__ import annotations

import heapq
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import httpx

from bench import manifests
from tests.e2e.cluster import Cluster

Json = dict[str, Any]

NAMESPACES: Final = ("shop", "batch", "ml")
ZONES: Final = ("zone-0", "zone-1", "zone-2")
SHAPES: Final = (
    ({"cpu": "8", "memory": "32Gi"}, 6),
    ({"cpu": "16", "memory": "64Gi"}, 3),
    ({"cpu": "32", "memory": "256Gi"}, 1),
)
TAINT: Final = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
TOLERATION: Final = {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
# Requested by allocatable cpu to which arrivals and ends lead in the course of the hours.
LOAD: Final = 0.95
# Between two changes: an attempt takes some 10 ms, which a compressed run lengthens to 75 ms of recorded time.
GAP_S: Final = 0.05
HOUR_S: Final = 3600.0


class CompressedHours:
    """A random workload of some hours, and the requests that carry it out in less time."""

    def __init__(self, api: Cluster, seed: int, nodes: int, pods: int, hours: float) -> None:
        """Draw the workload without creating it."""
        self._api, self._random, self._hours = api, random.Random(seed), hours
        self._nodes = [self._draw_node(i) for i in range(nodes)]
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._runs_s: dict[str, float] = {}  # by namespace/name, in recorded seconds; absent: the pod does not end
        self._manifests: dict[str, Json] = {}
        self._bound: set[str] = set()
        self._lock = threading.Lock()
        self._began = 0.0
        self._speed = 1.0
        self.errors: list[str] = []
        self._others: list[tuple[str, Json]] = []
        self._arrivals = [*self._draw_arrivals(pods)]

    # --- what there is ----------------------------------------------------------------------------------------------

    def _draw_node(self, i: int) -> Json:
        (amounts,) = self._random.choices([shape for shape, _ in SHAPES], [weight for _, weight in SHAPES])
        node = manifests.node(i, ZONES)
        whole = {**amounts, "pods": "110"}
        node["metadata"]["labels"]["disk"] = self._random.choice(["ssd", "hdd"])
        node["status"] |= {"allocatable": whole, "capacity": whole}
        if i % 12 == 0:
            node["spec"]["taints"] = [TAINT]
        return node

    def _draw_arrivals(self, pods: int) -> Iterator[tuple[float, Json, float | None]]:
        """Yield when each pod arrives, its manifest and how long it runs, in recorded seconds; None without an end."""
        total = sum(int(node["status"]["allocatable"]["cpu"]) for node in self._nodes)
        made, workload = 0, 0
        drawn: list[tuple[int, Json, list[Json], bool]] = []
        while made < pods:
            count = min(pods - made, self._random.choice([1, 1, 2, 3, 5, 8, 12, 20]))
            drawn.append(self._draw_workload(workload, count))
            made, workload = made + count, workload + 1
        cpu = sum(
            int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1])
            for *_, of, _ in drawn
            for each in of
        )
        # requested cpu = arrivals per second x mean run time x mean request
        mean_s = LOAD * total * 1000 / cpu * self._hours * HOUR_S
        for _, owner, of, ends in drawn:
            at_s = self._random.uniform(0, self._hours * HOUR_S)
            if owner["kind"] == "ReplicaSet":
                self._others.append((f"/apis/apps/v1/namespaces/{owner['metadata']['namespace']}/replicasets", owner))
            for pod in of:
                runs_s = min(self._random.lognormvariate(-0.32, 0.8), 6.0) * mean_s if ends else None
                yield at_s, pod, runs_s

    def _draw_workload(self, number: int, count: int) -> tuple[int, Json, list[Json], bool]:
        """Return a workload: its number, its controller, its pods, and whether they end."""
        draw = self._random
        namespace, kind = draw.choice(NAMESPACES), draw.choice(["ReplicaSet", "ReplicaSet", "Job"])
        name, labels = f"w{number}", {"app": f"w{number}", "tier": draw.choice(["front", "back"])}
        template = {"spec": {"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.2"}]}}
        owner: Json = {
            "apiVersion": "apps/v1" if kind == "ReplicaSet" else "batch/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": {"app": name}},
                "template": {**template, "metadata": {"labels": labels}},
            },
        }
        spec: Json = {"schedulerName": "default-scheduler"}
        if number % 5 == 0:
            spec |= manifests.spread(draw.choice(["DoNotSchedule", "ScheduleAnyway"]), {"app": name})
        if number % 7 == 0:
            spec |= manifests.pod_affinity(
                "podAntiAffinity", manifests.HOST, {"app": name}, required=draw.random() < 0.7
            )
        elif number % 7 == 1:
            spec |= manifests.node_affinity(key="disk", values=["ssd"])
        elif number % 7 == 2:
            spec |= manifests.pod_affinity("podAffinity", manifests.ZONE, {"tier": "back"}, required=False)
        if namespace == "ml":
            spec["tolerations"] = [TOLERATION]
        if number % 20 == 3:
            spec["priority"] = 1000
        cpu = draw.choice([500, 1000, 2000, 2000, 4000, 4000, 7000, 12000])
        requests = {"cpu": f"{cpu}m", "memory": f"{cpu * draw.choice([1, 2, 4]) // 1000 or 1}Gi"}
        pods = []
        for i in range(count):
            pod = manifests.pod(f"{name}-{i}", namespace, labels, requests, dict(spec))
            if pod["spec"].pop("priority", None):
                pod["spec"]["priorityClassName"] = manifests.URGENT
            del pod["metadata"]["uid"]
            pods.append(pod)
        return number, owner, pods, kind == "Job" or draw.random() < 0.8

    def create_cluster(self) -> None:
        """Create namespaces, nodes, ReplicaSets and the priority class."""
        for name in NAMESPACES:
            self._api.create("/api/v1/namespaces", manifests.namespace(name, {}))
        self._api.create("/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority_class())
        self._api.create_all("/api/v1/nodes", self._nodes)
        uids = {}
        for path, owner in self._others:
            made = self._api.create(path, owner)
            uids[owner["metadata"]["namespace"], owner["metadata"]["name"]] = made["metadata"]["uid"]
        for _, pod, _ in self._arrivals:
            metadata = pod["metadata"]
            name = metadata["name"].rpartition("-")[0]
            uid = uids.get((metadata["namespace"], name))
            kind, version = ("Job", "batch/v1") if uid is None else ("ReplicaSet", "apps/v1")
            owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}
            metadata["ownerReferences"] = [owner]

    # --- what happens -----------------------------------------------------------------------------------------------

    def run(self, minutes: float) -> None:
        """Let all pods arrive within the minutes, and end after their time, until the minutes are over."""
        self._speed = self._hours * 60.0 / minutes
        self._began = time.monotonic()
        stop = threading.Event()
        watch = threading.Thread(target=self._watch, args=(stop,), daemon=True)
        watch.start()
        try:
            for at_s, pod, runs_s in self._arrivals:
                self._plan(at_s, lambda pod=pod, runs_s=runs_s: self._arrive(pod, runs_s))  # type: ignore[misc]
            self._carry_out(minutes * 60.0)
        finally:
            stop.set()
        watch.join(30.0)

    def _carry_out(self, lasts_s: float) -> None:
        while True:
            with self._lock:
                at_s, action = (self._due[0][0], self._due[0][2]) if self._due else (lasts_s * self._speed, None)
            now_s = time.monotonic() - self._began
            if now_s > lasts_s:
                return
            wait_s = at_s / self._speed - now_s
            if action is None or wait_s > 0:
                time.sleep(min(max(wait_s, 0.001), 0.2))
                continue
            with self._lock:
                _, _, action = heapq.heappop(self._due)
            action()
            time.sleep(GAP_S)

    def _plan(self, at_s: float, action: Callable[[], None]) -> None:
        """Plan an action for a recorded time, in seconds since the start."""
        with self._lock:
            self._number += 1
            heapq.heappush(self._due, (at_s, self._number, action))

    def _arrive(self, pod: Json, runs_s: float | None) -> None:
        metadata = pod["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        with self._lock:
            self._manifests[key] = pod
            if runs_s is not None:
                self._runs_s[key] = runs_s
        self._api.create(manifests_path(metadata["namespace"]), pod)

    def _watch(self, stop: threading.Event) -> None:
        """Plan the end of each pod that is bound, and the successor of each that is evicted."""
        url, version = f"{self._api.url}/api/v1/pods", "0"
        while not stop.is_set():
            parameters = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "60"}
            with (
                suppress(httpx.HTTPError),
                httpx.stream(
                    "GET", url, params=parameters, headers=self._api.headers, verify=False, timeout=70.0
                ) as response,
            ):
                for line in response.iter_lines():
                    event = json.loads(line)
                    version = event["object"]["metadata"].get("resourceVersion", version)
                    self._follow(event["type"], event["object"])
                    if stop.is_set():
                        return

    def _follow(self, change: str, pod: Json) -> None:
        metadata = pod["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        now_s = (time.monotonic() - self._began) * self._speed
        if change == "DELETED":
            conditions = pod["status"].get("conditions") or ()
            if any(each["type"] == "DisruptionTarget" for each in conditions):
                self._plan(now_s, lambda: self._replace(key))
        elif pod["spec"].get("nodeName") and metadata["uid"] not in self._bound:
            self._bound.add(metadata["uid"])
            runs_s = self._runs_s.get(key)
            if runs_s is not None:
                path = f"{manifests_path(metadata['namespace'])}/{metadata['name']}"
                self._plan(now_s + runs_s, lambda: self._api.delete(path))

    def _replace(self, key: str) -> None:
        pod = json.loads(json.dumps(self._manifests[key]))
        pod["metadata"]["name"] += "-r"
        self._arrive(pod, self._runs_s.get(key))


def manifests_path(namespace: str) -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"
