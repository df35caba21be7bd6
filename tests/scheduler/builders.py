"""Builders of pods and nodes, in the manner of kube-scheduler's testing/wrappers.go.

`make_pod("p").request(cpu="500m").toleration("dedicated", "gpu").info()`: each call changes one thing; the result is
decoded from the JSON that an API server would send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod

Json = dict[str, Any]

PROFILE = "herodotus-scheduler"
MIB = 1 << 20
GIB = 1 << 30


class PodBuilder:
    """A pod that waits for the default profile; its UID follows from its name."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        self.json: Json = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}",
                "creationTimestamp": "2026-03-01T11:59:58Z",
            },
            "spec": {"schedulerName": PROFILE},
            "status": {"phase": "Pending"},
        }

    @property
    def spec(self) -> Json:
        spec: Json = self.json["spec"]
        return spec

    # --- metadata ---

    def uid(self, uid: str) -> PodBuilder:
        self.json["metadata"]["uid"] = uid
        return self

    def label(self, key: str, value: str) -> PodBuilder:
        self.json["metadata"].setdefault("labels", {})[key] = value
        return self

    def owner(self, kind: str, name: str) -> PodBuilder:
        self.json["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
        return self

    def terminating(self) -> PodBuilder:
        self.json["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        return self

    # --- containers ---

    def container(
        self,
        requests: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        image: str = "",
        ports: Iterable[Json] = (),
        init: bool = False,
        sidecar: bool = False,
    ) -> PodBuilder:
        """Another container; `sidecar` is a restartable init container."""
        group = self.spec.setdefault("initContainers" if init or sidecar else "containers", [])
        made: Json = {"name": name or f"c{len(group)}", "image": image}
        if requests is not None:
            made["resources"] = {"requests": dict(requests)}
        if ports:
            made["ports"] = list(ports)
        if sidecar:
            made["restartPolicy"] = "Always"
        group.append(made)
        return self

    def request(self, amounts: Mapping[str, Any] | None = None, **more: Any) -> PodBuilder:
        """Another container that requests these amounts."""
        return self.container({**(amounts or {}), **more})

    def image(self, *images: str) -> PodBuilder:
        for image in images:
            self.container(image=image)
        return self

    def host_port(self, port: int, protocol: str = "", ip: str = "", *, sidecar: bool = False) -> PodBuilder:
        """Another container with this host port."""
        entry: Json = {"hostPort": port, "containerPort": port}
        entry |= {k: v for k, v in (("protocol", protocol), ("hostIP", ip)) if v}
        return self.container(ports=[entry], sidecar=sidecar)

    def overhead(self, **amounts: Any) -> PodBuilder:
        self.spec["overhead"] = amounts
        return self

    def pod_level(self, amounts: Mapping[str, Any] | None = None, **more: Any) -> PodBuilder:
        self.spec["resources"] = {"requests": {**(amounts or {}), **more}}
        return self

    def container_status(
        self, name: str, actual: Json, allocated: Json | None = None, *, init: bool = False
    ) -> PodBuilder:
        """Add a container's status from the kubelet, for pods that are resized in place."""
        group = "initContainerStatuses" if init else "containerStatuses"
        entry: Json = {"name": name, "resources": {"requests": actual}}
        if allocated is not None:
            entry["allocatedResources"] = allocated
        self.json["status"].setdefault(group, []).append(entry)
        return self

    # --- where it may run ---

    def node(self, name: str) -> PodBuilder:
        """spec.nodeName: it is bound there."""
        self.spec["nodeName"] = name
        return self

    def node_selector(self, **labels: str) -> PodBuilder:
        self.spec["nodeSelector"] = labels
        return self

    def required_terms(self, *terms: Json) -> PodBuilder:
        """Set the required node affinity to terms that `term` builds."""
        self._node_affinity()["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(terms)}
        return self

    def preferred(self, weight: int, preference: Json) -> PodBuilder:
        terms = self._node_affinity().setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        terms.append({"weight": weight, "preference": preference})
        return self

    def toleration(self, key: str = "", value: str = "", effect: str = "", operator: str = "") -> PodBuilder:
        entry = {"key": key, "value": value, "effect": effect, "operator": operator}
        self.spec.setdefault("tolerations", []).append({k: v for k, v in entry.items() if v})
        return self

    def anti_affinity(self, topology_key: str, **match_labels: str) -> PodBuilder:
        term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": match_labels}}
        affinity = self.spec.setdefault("affinity", {})
        anti_affinity = affinity.setdefault("podAntiAffinity", {})
        anti_affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
        return self

    # --- scheduling ---

    def scheduler(self, name: str) -> PodBuilder:
        self.spec["schedulerName"] = name
        return self

    def priority(self, priority: int) -> PodBuilder:
        self.spec["priority"] = priority
        return self

    def gate(self, *names: str) -> PodBuilder:
        self.spec["schedulingGates"] = [{"name": name} for name in names]
        return self

    def nominated(self, node: str) -> PodBuilder:
        self.json["status"]["nominatedNodeName"] = node
        return self

    def phase(self, phase: str) -> PodBuilder:
        self.json["status"]["phase"] = phase
        return self

    def started(self, at: str) -> PodBuilder:
        self.json["status"]["startTime"] = at
        return self

    def condition(self, type: str, status: str, reason: str = "", message: str = "") -> PodBuilder:
        entry = {"type": type, "status": status, "reason": reason, "message": message}
        self.json["status"].setdefault("conditions", []).append(entry)
        return self

    def with_spec(self, **fields: Any) -> PodBuilder:
        """Fields of the spec as the API writes them."""
        self.spec.update(fields)
        return self

    # --- the result ---

    def obj(self) -> Pod:
        return msgspec.convert(self.json, Pod)

    def info(self) -> PodInfo:
        """Return the pod prepared for a cycle; a pod with a node counts as running."""
        pod = self.obj()
        return PodInfo(pod, running=bool(pod.spec.node_name))

    def _node_affinity(self) -> Json:
        affinity: Json = self.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        return affinity


class NodeBuilder:
    """A node with 4 cpu, 16Gi of memory and room for 110 pods; its UID follows from its name."""

    def __init__(self, name: str) -> None:
        self.json: Json = {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        }

    def uid(self, uid: str) -> NodeBuilder:
        self.json["metadata"]["uid"] = uid
        return self

    def label(self, key: str, value: str) -> NodeBuilder:
        self.json["metadata"].setdefault("labels", {})[key] = value
        return self

    def zone(self, zone: str) -> NodeBuilder:
        return self.label("topology.kubernetes.io/zone", zone)

    def allocatable(self, amounts: Mapping[str, Any] | None = None, **more: Any) -> NodeBuilder:
        """Change these amounts; the others stay."""
        self.json["status"]["allocatable"] |= {**(amounts or {}), **more}
        return self

    def annotation(self, key: str, value: str) -> NodeBuilder:
        self.json["metadata"].setdefault("annotations", {})[key] = value
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> NodeBuilder:
        self.json["spec"].setdefault("taints", []).append({"key": key, "value": value, "effect": effect})
        return self

    def cordoned(self) -> NodeBuilder:
        self.json["spec"]["unschedulable"] = True
        return self

    def image(self, size_bytes: int, *names: str) -> NodeBuilder:
        self.json["status"].setdefault("images", []).append({"names": list(names), "sizeBytes": size_bytes})
        return self

    def obj(self) -> Node:
        return msgspec.convert(self.json, Node)


def make_pod(name: str = "p", namespace: str = "default") -> PodBuilder:
    return PodBuilder(name, namespace)


def make_node(name: str = "n") -> NodeBuilder:
    return NodeBuilder(name)


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def term(*expressions: Json, fields: Iterable[Json] = ()) -> Json:
    """Return a node selector term of expressions on labels and on fields."""
    made: Json = {"matchExpressions": list(expressions)} if expressions else {}
    return made | ({"matchFields": list(fields)} if fields else {})


def named(*nodes: str) -> Json:
    """Return a term with one field requirement for each of these node names, all of which must hold."""
    return term(fields=[expression("metadata.name", "In", node) for node in nodes])


def columns_of(nodes: Iterable[NodeBuilder], pods: Iterable[PodBuilder] = ()) -> NodeColumns:
    """Return columns with these nodes, in order of arrival, and the pods bound to them."""
    columns = NodeColumns()
    for node in nodes:
        columns.set_node(node.obj())
    for pod in pods:
        info = pod.info()
        columns.add_pod(info, info.pod.spec.node_name)
    return columns
