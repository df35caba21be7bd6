"""A few objects behind the paths of an API server, as `herodotus_local` fetches them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from herodotus_local.errors import ReadError

Json = dict[str, Any]

COLLECTIONS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "ConfigMap": "/api/v1/configmaps",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "MachineDeployment": "/apis/cluster.x-k8s.io/v1beta2/machinedeployments",
    "Machine": "/apis/cluster.x-k8s.io/v1beta2/machines",
    "Event": "/api/v1/events",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2/podgroups",
    "LeaseCandidate": "/apis/coordination.k8s.io/v1beta1/leasecandidates",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
}


class ApiServer:
    """Serves lists, pages of lists and single objects.

    `forbidden` holds plurals that may not be listed, and `absent` plurals of APIs that are not served.
    """

    def __init__(
        self, objects: Sequence[Json], *, forbidden: Sequence[str] = (), absent: Sequence[str] = (), page: int = 0
    ) -> None:
        self.absent = set(absent)
        self.objects, self.forbidden, self.page = list(objects), set(forbidden), page
        self.requests: list[str] = []
        self.version: Json = {"minor": "36", "gitVersion": "v1.36.2"}

    def fetch(self, path: str) -> bytes:
        self.requests.append(path)
        url = urlsplit(path)
        if url.path == "/version":
            return json.dumps(self.version).encode()
        collection, namespace, name = _parse(url.path)
        plural = collection.rpartition("/")[2]
        if plural in self.absent:
            raise ReadError(404, "the server could not find the requested resource")
        if plural in self.forbidden and (not namespace or plural == "events"):
            raise ReadError(403, f"{plural} is forbidden")
        found = [o for o in self.objects if COLLECTIONS.get(o["kind"]) == collection]
        found = [o for o in found if namespace in ("", o["metadata"].get("namespace"))]
        if name:
            named = [o for o in found if o["metadata"]["name"] == name]
            if not named:
                raise ReadError(404, f'{plural} "{name}" not found')
            return json.dumps(named[0]).encode()
        query = parse_qs(url.query)
        if collection == COLLECTIONS["Event"]:
            fields = [each.split("=") for each in query["fieldSelector"][0].replace("involvedObject.", "").split(",")]
            found = [o for o in found if all(o["involvedObject"].get(key) == value for key, value in fields)]
        wanted = query.get("labelSelector", [""])[0]
        if wanted:
            key, _, value = wanted.partition("=")
            found = [o for o in found if o["metadata"].get("labels", {}).get(key) == value]
        start = int(query.get("continue", ["0"])[0])
        end = start + (self.page or len(found))
        more = {"continue": str(end)} if end < len(found) else {}
        return json.dumps({"metadata": more, "items": found[start:end]}).encode()


def _parse(path: str) -> tuple[str, str, str]:
    """Return the path of the collection in all namespaces, the namespace, and the name of one object."""
    parts = path.split("/")
    if "namespaces" not in parts[:-1]:
        return path, "", ""
    at = parts.index("namespaces")
    rest = parts[at + 2 :]
    return "/".join([*parts[:at], rest[0]]), parts[at + 1], rest[1] if len(rest) > 1 else ""


def node(name: str, cpu: str = "4", **spec: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": amounts}}


def pod(name: str, cpu: str = "1", on: str = "", namespace: str = "shop", **spec: Any) -> Json:
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    whole = {
        "containers": [container],
        "schedulerName": "default-scheduler",
        **({"nodeName": on} if on else {}),
        **spec,
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"kind": "Pod", "metadata": metadata, "spec": whole, "status": {"phase": "Running" if on else "Pending"}}
