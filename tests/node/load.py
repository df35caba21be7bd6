"""Pods that are created while something happens to an installation, and what must hold for them afterwards.

They are placed on Node objects without a kubelet, so that no container is started for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.e2e.cluster import Cluster, Json, node, placements, pod
from tests.e2e.rollout import Load
from tests.node.installation import ANSWER_S, Installation
from tests.processes import eventually

NODES: Final = 40  # of 110 pods each: room for the load of seven minutes
EVERY_S: Final = 0.1
TAINT: Final[Json] = {"key": "load", "effect": "NoSchedule"}  # for every other pod


class LoadGenerator:
    """Creates pods in a namespace of each test, and checks their placements and records."""

    def __init__(self, installation: Installation) -> None:
        """Create the nodes; `remove` deletes them and all pods."""
        self._installation = installation
        self._cluster: Cluster = installation.machine.cluster
        self._namespaces: list[str] = []
        self._nodes = [f"load-{i}" for i in range(NODES)]
        nodes = (node(name, cpu="64", labels={"load": "true"}, taints=[TAINT]) for name in self._nodes)
        self._cluster.create_all("/api/v1/nodes", nodes)

    @contextmanager
    def run(self, namespace: str) -> Iterator[Load]:
        """Create pods p0, p1, … in a new namespace while the block runs."""
        self._cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._namespaces.append(namespace)
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        eventually(lambda: self._cluster.find(account), "the default service account")

        def create(number: int) -> Json:
            placement: Json = {"nodeSelector": {"load": "true"}, "tolerations": [{"operator": "Exists"}]}
            return self._cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod(f"p{number}", "10m", **placement))

        load = Load(create, EVERY_S)
        load.start()
        try:
            yield load
            assert load.is_alive(), "pods were created throughout"
        finally:
            load.finish()

    def measure_binding(self, namespace: str, load: Load) -> float:
        """Return after how many seconds a pod is bound that is created from now on."""
        began, name = time.monotonic(), f"p{load.created + 1}"  # the one before may be under way
        eventually(lambda: name in self._cluster.bound(namespace), f"{name} to be bound", ANSWER_S, 0.1)
        return time.monotonic() - began

    def wait_until_bound(self, namespace: str, load: Load) -> dict[str, Json]:
        """Wait until all pods that were created are bound, and return them."""

        def bound() -> dict[str, Json] | None:
            found = self._cluster.bound(namespace)
            return found if len(found) == load.created else None

        return eventually(bound, f"{load.created} pods to be bound", ANSWER_S, 0.5)

    def check_nothing_is_lost(self, namespace: str, load: Load) -> None:
        """Check that every pod is bound, has one Bound decision, for that node, and that no record is missing."""
        pods = self.wait_until_bound(namespace, load)
        expected = {p["metadata"]["uid"]: [p["spec"]["nodeName"]] for p in pods.values()}

        def recorded() -> dict[str, list[str]]:
            chosen = placements(self._installation.decisions(namespace))
            return {u: [d["status"]["node"] for d in ds if d["status"]["state"] == "Bound"] for u, ds in chosen.items()}

        eventually(lambda: recorded() == expected, f"the records of {len(pods)} pods", ANSWER_S, 0.5)
        assert self._installation.missing() == {}
        print(f"{namespace}: {len(pods)} pods bound and recorded, no record missing")

    def remove(self) -> None:
        """Delete the pods and the nodes."""
        for namespace in self._namespaces:
            self._cluster.delete_all(f"/api/v1/namespaces/{namespace}/pods")
            self._cluster.delete(f"/api/v1/namespaces/{namespace}")
        for name in self._nodes:
            self._cluster.delete(f"/api/v1/nodes/{name}")
