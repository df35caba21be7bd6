"""The simulated cluster as the demo uses it: objects in, pods and decisions out.

Owns: requests to the simulated API server; what Kubernetes' controllers would do to the workloads of pods.yaml. Does
not own: processes, what is printed.

Invariant: decisions are read where the plugin reads them: behind the API server's service proxy.
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

SERVICE: Final = ("herodotus", "herodotus-endpoint")
DECISIONS: Final = "/apis/herodotus.dev/v1alpha1/decisions"
FINAL: Final = ("Bound", "Unschedulable", "Failed", "Error")  # states of a decision that nothing more follows on
_PAGE: Final = 500
_TIMEOUT_S: Final = 10.0
_COLLECTIONS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Endpoints": "/api/v1/namespaces/{}/endpoints",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
}

Json = dict[str, Any]


class ClusterError(Exception):
    """The API server did not answer, or refused: one line."""


class Cluster:
    """Requests to one API server without authentication."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def create(self, obj: Json) -> Json:
        """Create an object."""
        return self._send("POST", _path(obj), obj)

    def pods(self) -> list[Json]:
        """Every pod."""
        items: list[Json] = self._send("GET", "/api/v1/pods")["items"]
        return items

    def publish(self, port: int) -> None:
        """Say where behind its Service the decisions service listens."""
        namespace, name = SERVICE
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "plain-http", "port": port}]}
        metadata = {"name": name, "namespace": namespace}
        self.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})

    def decisions(self) -> Iterator[Json]:
        """Every stored decision, newest first."""
        namespace, name = SERVICE
        proxied = f"/api/v1/namespaces/{namespace}/services/http:{name}:plain-http/proxy{DECISIONS}"
        more = ""
        while True:
            query = urllib.parse.urlencode({"limit": _PAGE} | ({"continue": more} if more else {}))
            page = self._send("GET", f"{proxied}?{query}")
            yield from page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with self._open(request, timeout=_TIMEOUT_S) as answer:
                document: Json = json.load(answer)
                return document
        except urllib.error.HTTPError as e:
            raise ClusterError(f"{method} {path}: {e.code} {e.read().decode('utf-8', 'replace')}") from None
        except (OSError, ValueError) as e:
            raise ClusterError(f"{method} {path}: {e}") from None


def create_all(cluster: Cluster, file: Path) -> list[Json]:
    """Create the file's objects and the pods of its workloads; the pods as the server has them."""
    pods: list[Json] = []
    for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        created = cluster.create(obj)
        if created["kind"] == "Pod":
            pods.append(created)
        elif created["kind"] == "Deployment":
            pods += _pods_of(cluster, cluster.create(_replica_set(created)))
        elif created["kind"] == "StatefulSet":
            pods += _pods_of(cluster, created)
    return pods


def _replica_set(deployment: Json) -> Json:
    """What the deployment controller creates."""
    template = deployment["spec"]["template"]
    revision = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    labels = template["metadata"]["labels"] | {"pod-template-hash": revision}
    metadata = {
        "name": f"{deployment['metadata']['name']}-{revision}",
        "namespace": deployment["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [_owned_by(deployment)],
    }
    spec = {
        "replicas": deployment["spec"]["replicas"],
        "selector": {"matchLabels": labels},
        "template": template | {"metadata": template["metadata"] | {"labels": labels}},
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def _pods_of(cluster: Cluster, workload: Json) -> list[Json]:
    """What the controllers of replica sets and stateful sets create."""
    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    template = workload["spec"]["template"]
    numbered = workload["kind"] == "StatefulSet"
    pods = []
    for i in range(workload["spec"]["replicas"]):
        metadata = {
            **template["metadata"],
            **({"name": f"{name}-{i}"} if numbered else {"generateName": f"{name}-"}),
            "namespace": namespace,
            "ownerReferences": [_owned_by(workload)],
        }
        pods.append(cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}))
    return pods


def _owned_by(owner: Json) -> Json:
    named = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {"apiVersion": owner["apiVersion"], **named, "controller": True, "blockOwnerDeletion": True}


def _path(obj: Json) -> str:
    return _COLLECTIONS[obj["kind"]].format(obj["metadata"].get("namespace", "default"))
