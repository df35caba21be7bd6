"""Requests of the demo to the simulated cluster: create objects, list pods and decisions.

Owns: requests to the simulated API server, waiting for the pods of a workload. Does not own: processes, output,
controllers (`herodotus_sim`).

Invariant: decisions are read like the plugin reads them, through the API server's service proxy.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

SERVICE: Final = ("herodotus", "herodotus-endpoint")
DECISIONS: Final = "/apis/herodotus.dev/v1alpha1/decisions"
FINAL: Final = ("Bound", "Unschedulable", "Failed", "Error")  # final states of a decision
_PAGE: Final = 500
_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.02
_WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet")
_COLLECTIONS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Endpoints": "/api/v1/namespaces/{}/endpoints",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
}

Json = dict[str, Any]


class ClusterError(Exception):
    """The API server did not answer or rejected a request; the message is one line."""


class DemoCluster:
    """A client for one API server without authentication."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def create(self, obj: Json) -> Json:
        """Create an object and return it as stored. Raises ClusterError."""
        return self._send("POST", _path(obj), obj)

    def list_objects(self, kind: str, namespace: str = "") -> list[Json]:
        """Return the objects of a kind in a namespace, or in all namespaces if it is empty."""
        path = _COLLECTIONS[kind].format(namespace) if namespace else _COLLECTIONS[kind].replace("namespaces/{}/", "")
        items: list[Json] = self._send("GET", path)["items"]
        return items

    def publish(self, port: int) -> None:
        """Create the Endpoints of the decisions service, which listens on `port`."""
        namespace, name = SERVICE
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "plain-http", "port": port}]}
        metadata = {"name": name, "namespace": namespace}
        self.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})

    def decisions(self) -> Iterator[Json]:
        """Yield every stored decision, newest first."""
        namespace, name = SERVICE
        proxied = f"/api/v1/namespaces/{namespace}/services/http:{name}:plain-http/proxy{DECISIONS}"
        continue_token = ""
        while True:
            query = urllib.parse.urlencode({"limit": _PAGE} | ({"continue": continue_token} if continue_token else {}))
            page = self._send("GET", f"{proxied}?{query}")
            yield from page["items"]
            continue_token = page["metadata"].get("continue", "")
            if not continue_token:
                return

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with self._open(request, timeout=_TIMEOUT_S) as response:
                document: Json = json.load(response)
                return document
        except urllib.error.HTTPError as e:
            raise ClusterError(f"{method} {path}: {e.code} {e.read().decode('utf-8', 'replace')}") from None
        except (OSError, ValueError) as e:
            raise ClusterError(f"{method} {path}: {e}") from None


def create_all(cluster: DemoCluster, file: Path) -> list[Json]:
    """Create the objects in a YAML file, and return its pods and the pods of its workloads, as stored.

    After each workload the function waits for its pods, so that pods are created in the order of the file. Raises
    ClusterError.
    """
    pods: list[Json] = []
    for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        created = cluster.create(obj)
        if created["kind"] == "Pod":
            pods.append(created)
        elif created["kind"] in _WORKLOADS:
            pods += _wait_for_pods(cluster, created)
    return pods


def _wait_for_pods(cluster: DemoCluster, workload: Json) -> list[Json]:
    """Wait until the controllers have created the pods of a workload, and return these pods.

    If a quota refuses some of them, the others are returned. Raises ClusterError after _TIMEOUT_S seconds.
    """
    selector, namespace = workload["spec"]["selector"]["matchLabels"], workload["metadata"]["namespace"]
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        found = [p for p in cluster.list_objects("Pod", namespace) if _selects(selector, p)]
        if found and (len(found) == _count_wanted(cluster, workload) or _is_refused(cluster, namespace, selector)):
            return found
        time.sleep(_POLL_S)
    raise ClusterError(f"{workload['kind']} {workload['metadata']['name']} has no pods after {_TIMEOUT_S:g} s")


def _count_wanted(cluster: DemoCluster, workload: Json) -> int | None:
    if workload["kind"] != "DaemonSet":
        replicas: int = workload["spec"]["replicas"]
        return replicas
    sets = cluster.list_objects("DaemonSet", workload["metadata"]["namespace"])
    uid = workload["metadata"]["uid"]
    return next((s.get("status", {}).get("desiredNumberScheduled") for s in sets if s["metadata"]["uid"] == uid), None)


def _is_refused(cluster: DemoCluster, namespace: str, selector: Json) -> bool:
    """Return whether a ReplicaSet that has the labels in `selector` reports that it could not create a pod."""
    sets = [s for s in cluster.list_objects("ReplicaSet", namespace) if _selects(selector, s)]
    conditions = [c for s in sets for c in s.get("status", {}).get("conditions") or ()]
    return any(c["type"] == "ReplicaFailure" and c["status"] == "True" for c in conditions)


def _selects(selector: Json, pod: Json) -> bool:
    return selector.items() <= (pod["metadata"].get("labels") or {}).items()


def _path(obj: Json) -> str:
    return _COLLECTIONS[obj["kind"]].format(obj["metadata"].get("namespace", "default"))
