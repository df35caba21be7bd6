"""Plays the kubelets of a real control plane: pods on nodes become Running and Ready, deletions end."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from typing import Any

import httpx

from tests.e2e.cluster import Cluster

Json = dict[str, Any]

UNREADY = "unready"  # a label: a pod with it runs and never becomes Ready
_EVERY_S = 0.1


class Kubelets(threading.Thread):
    """A thread that plays the kubelets of all nodes until `stop`."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster, self._stopped = cluster, threading.Event()
        self.failures: list[str] = []

    def run(self) -> None:
        with httpx.Client(
            base_url=self._cluster.url, headers=self._cluster.headers, verify=False, timeout=30
        ) as client:
            while not self._stopped.wait(_EVERY_S):
                try:
                    for pod in client.get("/api/v1/pods").json()["items"]:
                        self._play(client, pod)
                except (httpx.HTTPError, KeyError, ValueError) as e:
                    self.failures.append(f"{type(e).__name__}: {e}")

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=30)

    def _play(self, client: httpx.Client, pod: Json) -> None:
        metadata, path = (
            pod["metadata"],
            f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}",
        )
        if not pod["spec"].get("nodeName"):
            return
        if metadata.get("deletionTimestamp"):
            client.request("DELETE", path, json={"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
        elif pod["status"].get("phase") != "Running":
            now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = "False" if UNREADY in metadata.get("labels", {}) else "True"
            kept = [c for c in pod["status"].get("conditions") or () if c["type"] != "Ready"]
            conditions = [*kept, {"type": "Ready", "status": ready, "lastTransitionTime": now}]
            status = {"phase": "Running", "startTime": now, "conditions": conditions}
            client.patch(
                f"{path}/status",
                json={"metadata": {"uid": metadata["uid"]}, "status": status},
                headers={"Content-Type": "application/merge-patch+json"},
            )
