"""One cluster as the tests use it, simulated or real, with Herodotus beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import yaml

from herodotus_local.errors import ReadError
from tests.processes import ROOT, Process, eventually, free_port, python
from tests.support.pages import read_pages

Json = dict[str, Any]

SCHEDULER = "herodotus-scheduler"

WRONG_CACHE = "A cached result is wrong"  # logged by --verify-cache


class Cluster:
    """An administrator's client for one API server."""

    def __init__(self, kind: str, url: str, headers: dict[str, str], kubeconfig: Path) -> None:
        self.kind = kind
        self.url = url
        self.headers = headers
        self.kubeconfig = kubeconfig
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=60.0)

    def create(self, path: str, body: Json) -> Json:
        response = self._http.post(path, json=body)
        assert response.status_code == 201, response.text
        created: Json = response.json()
        return created

    def create_all(self, path: str, bodies: Iterable[Json]) -> list[Json]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda body: self.create(path, body), bodies))

    def get(self, path: str) -> Json:
        response = self._http.get(path)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    def fetch(self, path: str) -> bytes:
        """Return the body of a GET, as local mode reads the API server. Raises ReadError."""
        response = self._http.get(path)
        if response.status_code != 200:
            raise ReadError(response.status_code, response.text)
        return response.content

    def find(self, path: str) -> Json | None:
        """Return an object, or None if it does not exist."""
        response = self._http.get(path)
        assert response.status_code in (200, 404), response.text
        found: Json = response.json()
        return found if response.status_code == 200 else None

    def status(self, path: str) -> int:
        """Return the HTTP status of a GET."""
        return self._http.get(path).status_code

    def items(self, path: str) -> list[Json]:
        return list(self.get(path)["items"])

    def patch(self, path: str, body: Json) -> None:
        response = self._http.patch(
            path, content=json.dumps(body), headers={"Content-Type": "application/merge-patch+json"}
        )
        assert response.status_code == 200, response.text

    def delete(self, path: str) -> None:
        response = self._http.request("DELETE", path, json={"gracePeriodSeconds": 0})
        assert response.status_code in (200, 202, 404), response.text

    def delete_all(self, path: str) -> None:
        """Delete every object of a collection and its dependents, without grace periods."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        response = self._http.request("DELETE", path, json=options, timeout=60.0)
        assert response.status_code in (200, 202), response.text

    def bound(self, namespace: str) -> dict[str, Json]:
        """Return the pods of a namespace that have a node, by name."""
        pods = self.items(f"/api/v1/namespaces/{namespace}/pods")
        return {p["metadata"]["name"]: p for p in pods if p["spec"].get("nodeName")}

    def condition(self, namespace: str, pod: str) -> Json:
        """Return the pod's PodScheduled condition, or {}."""
        found = self.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"].get("conditions") or []
        return next((c for c in found if c["type"] == "PodScheduled"), {})

    def events(self, namespace: str, pod: str, reason: str) -> list[Json]:
        found = self.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [e for e in found if e["regarding"]["name"] == pod and e["reason"] == reason]

    def close(self) -> None:
        self._http.close()


def node(name: str, cpu: str = "4", **changes: Any) -> Json:
    """Return a node manifest; `changes` may hold labels, taints and unschedulable."""
    spec: Json = {k: changes[k] for k in ("taints", "unschedulable") if k in changes}
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **changes.get("labels", {})}},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, cpu: str = "100m", scheduler: str = SCHEDULER, **spec: Any) -> Json:
    """Return a pod manifest with one container."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "e2e"}},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


class Herodotus:
    """The scheduler and the decisions service as processes that tests kill and start again."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        profile: str = SCHEDULER,
        *,
        tree: Path = ROOT,
        database_url: str | None = None,
        flags: tuple[str, ...] = (),
        **configuration: Any,
    ) -> None:
        """Start both, the scheduler with more `flags`.

        `configuration` extends the KubeSchedulerConfiguration, `tree` is the source tree to run.
        """
        self.cluster = cluster
        self.tree = tree
        self.spool = directory / "spool"
        self._directory = directory
        self._started: list[Process] = []
        self._port = free_port()
        self.endpoint_url = f"http://127.0.0.1:{self._port}"
        self._store = ("--database-url", database_url) if database_url else ("--data", str(directory / "data"))
        self._config = directory / "config.yaml"
        self._config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    # shorter than 15 s, for a scheduler that is started after a SIGKILL; a stall must not lose it
                    "leaderElection": {
                        "leaseDuration": "6s",
                        "renewDeadline": "5s",
                        "retryPeriod": "300ms",
                        "resourceName": profile,
                    },
                    "profiles": [{"schedulerName": profile}],
                    **configuration,
                }
            )
        )
        self.endpoint = self._launch_endpoint(self._port, "endpoint")
        self.scheduler = self.start_scheduler(*flags)
        eventually(self._endpoint_ready, "the endpoint to be ready")

    def start_endpoint(self) -> Process:
        self.endpoint = self._launch_endpoint(self._port, "endpoint")
        eventually(self._endpoint_ready, "the endpoint to be ready")
        return self.endpoint

    def start_replica(self) -> tuple[Process, str]:
        """Start one more decisions service on the same database; return it and its URL."""
        port = free_port()
        replica = self._launch_endpoint(port, f"replica-{port}")
        replica.wait_for("listening on")
        return replica, f"http://127.0.0.1:{port}"

    def start_scheduler(self, *flags: str, name: str = "scheduler") -> Process:
        """Start a scheduler with more flags; its log is called `name`."""
        self.scheduler = Process(
            name,
            python(
                *("scheduler", "run", "--kubeconfig", str(self.cluster.kubeconfig), "--config", str(self._config)),
                *("--endpoint", self.endpoint_url, "--spool", str(self.spool), "--v", "3"),
                *("--secure-port", "0", "--verify-cache", "1", *flags),
            ),
            self._directory / f"{name}.log",
            cwd=self.tree,
        )
        self._started.append(self.scheduler)
        return self.scheduler

    def add_nodes(self, *nodes: Json) -> None:
        """Create nodes and wait until the scheduler's node watch has delivered them."""
        self.cluster.create_all("/api/v1/nodes", nodes)
        for body in nodes:
            self.scheduler.wait_for(f'"Add event for node" node="{body["metadata"]["name"]}"')

    def decisions(self, namespace: str) -> list[Json]:
        """Return every stored decision of a namespace."""
        with httpx.Client(base_url=self.endpoint_url, timeout=60.0) as http:
            return read_pages(http, f"/namespaces/{namespace}/decisions")

    def explanation(self, namespace: str, name: str, **params: str) -> Json:
        path = f"/apis/herodotus.dev/v1alpha1/namespaces/{namespace}/podexplanations/{name}"
        response = httpx.get(f"{self.endpoint_url}{path}", params=params)
        assert response.status_code == 200, response.text
        answer: Json = response.json()
        return answer

    def incarnations(self) -> list[Json]:
        found: Json = httpx.get(f"{self.endpoint_url}/apis/herodotus.dev/v1alpha1/incarnations").json()
        return list(found["items"])

    def stop(self) -> None:
        """Kill all processes; `test_leader` and `test_demo` cover graceful ends. No cached result may be wrong."""
        for process in self._started:
            process.kill_all()
        wrong = [line for process in self._started for line in process.output().splitlines() if WRONG_CACHE in line]
        assert wrong == []

    def _launch_endpoint(self, port: int, name: str) -> Process:
        """Start a decisions service; its log is called `name`."""
        command = python("herodotus_endpoint", "--bind", f"127.0.0.1:{port}", *self._store)
        started = Process(name, command, self._directory / f"{name}.log", cwd=self.tree)
        self._started.append(started)
        return started

    def _endpoint_ready(self) -> bool:
        if not self.endpoint.running:
            raise AssertionError(f"the endpoint ended:\n{self.endpoint.output()[-2000:]}")
        try:
            return httpx.get(f"{self.endpoint_url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False


def placements(decisions: Iterable[Json]) -> dict[str, list[Json]]:
    """Return the decisions that chose a node, by pod UID."""
    found: dict[str, list[Json]] = {}
    for d in decisions:
        if d["status"]["node"]:
            found.setdefault(d["spec"]["pod"]["uid"], []).append(d)
    return found


def attempts(decisions: Iterable[Json]) -> Counter[tuple[str, ...]]:
    """Return how often each decision is stored, by its name."""
    return Counter((d["metadata"]["name"],) for d in decisions)
