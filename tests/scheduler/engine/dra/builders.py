"""Manifests of a cluster with devices, as cases of `evaluate`."""

from __future__ import annotations

from typing import Any

from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.engine import EvaluatedPod

Json = dict[str, Any]
API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def node(name: str, **allocatable: str) -> Json:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Json:
    spec["selectors"] = [{"cel": {"expression": e}} for e in expressions]
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def slice_on(node_name: str, *devices: Json, **spec: Any) -> Json:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node_name, "devices": list(devices), **spec}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node_name}-gpu"}, "spec": spec}


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def exactly(name: str, count: int = 1, *expressions: str, **more: Any) -> Json:
    selectors = [{"cel": {"expression": e}} for e in expressions]
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": count, "selectors": selectors, **more}}


def claim(name: str, *requests: Json, constraints: Any = (), status: Json | None = None, **metadata: Any) -> Json:
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    made = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default", **metadata}}
    return {**made, "spec": spec, **({"status": status} if status else {})}


def allocated(name: str, pool: str, *devices: str) -> Json:
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": each} for each in devices]
    reserved = [{"resource": "pods", "name": f"{name}-pod", "uid": f"{name}-uid"}]
    return claim(name, exactly("r"), status={"allocation": {"devices": {"results": results}}, "reservedFor": reserved})


def pod(*claims: str, **spec: Any) -> Json:
    resource_claims = [{"name": name, "resourceClaimName": name} for name in claims]
    containers = [{"name": "main", "image": "busybox"}]
    metadata = {"name": "incoming", "namespace": "default", "uid": "incoming-uid"}
    return {"metadata": metadata, "spec": {"containers": containers, "resourceClaims": resource_claims, **spec}}


def decide(incoming: Json, *objects: Json) -> EvaluatedPod:
    return evaluate({"id": "case", "pod": incoming, "objects": list(objects)})


def verdict(evaluated: EvaluatedPod, node_name: str, plugin: str = "DynamicResources") -> Any:
    run = next(run for run in evaluated.result.trace.filters if run.plugin == plugin)
    return run.verdicts.verdict_at(evaluated.nodes.index[node_name])
