"""Clusters of cases: short descriptions -> objects of the Kubernetes API, and the plugin's answers about them.

A case is a YAML file in a folder named by its kind:

    title: what is wrong, in a sentence
    nodes: [{name: n1, cpu: 4, memory: 16Gi, zone: a, labels: {}, taints: [], unschedulable: true, ready: false}]
    pods: [{name: web-0, namespace: shop, cpu: 500m, node: n1, owner: StatefulSet/web, spec: {}}]  # or untried: true
                       # deleted: 5m: since when it is being deleted, with the grace period of its spec
    objects: []        # whole objects of other kinds
    events: [{about: Pod/web-0, namespace: shop, reason: Failed, message: ..., age: 5m}]
    faults: []         # refused requests, as `python -m herodotus_sim --faults` reads them
    before: []         # kubectl commands to run first, without `kubectl`
    local: why the case is asked in local mode alone, such as that no scheduler runs
    questions:
    - ask: pod web-0 -n shop
      says: [patterns that must occur]
      never: [patterns that must not occur]
      exit: 0
    fix: what no longer occurs after the commands below FIX were run

Patterns are regular expressions, without regard to case, on the answer with each run of white space as one space.
`${now-5m}` in a file becomes a time, and `${micro-5m}` one with fractions of a second, as Leases have it.
"""

from __future__ import annotations

import copy
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import yaml

Json = dict[str, Any]
_TIME: Final = re.compile(r"\$\{(now|micro)(?:-(\d+)([smhd]))?\}")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_KEYS: Final = {"title", "nodes", "pods", "objects", "events", "faults", "before", "questions", "fix", "local"}
_APIS: Final = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Node": "v1",
}


def load_case(path: Path) -> Json:
    """Return a case with its objects. Raises ValueError for a key that no case has."""
    case: Json = yaml.safe_load(_TIME.sub(_time, path.read_text("utf-8")))
    unknown = case.keys() - _KEYS
    if unknown:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)}")
    objects: list[Json] = [_node(node) for node in case.get("nodes", ())]
    objects += [_pod(pod) for pod in case.get("pods", ())]
    objects += case.get("objects", ())
    objects += [_event(number, event) for number, event in enumerate(case.get("events", ()))]
    names = {str(o["metadata"].get("namespace") or "default") for o in objects if o["kind"] != "Node"}
    described = {o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"}
    spaces: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in sorted(names - described - {"default"})
    ]
    return {**case, "objects": [*spaces, *objects]}


def _time(match: re.Match[str]) -> str:
    seconds = int(match[2]) * _UNITS[match[3]] if match[2] else 0
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if match[1] == "micro" else "%Y-%m-%dT%H:%M:%SZ"
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).strftime(form)


def _node(short: Json) -> Json:
    name = short["name"]
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if "zone" in short:
        labels["topology.kubernetes.io/zone"] = short["zone"]
    amounts = {
        "cpu": str(short.get("cpu", 4)),
        "memory": short.get("memory", "16Gi"),
        "pods": str(short.get("pods", 110)),
        "ephemeral-storage": "100Gi",
        **{key: str(value) for key, value in short.get("resources", {}).items()},
    }
    ready = "True" if short.get("ready", True) else "Unknown"
    spec: Json = {"taints": short["taints"]} if "taints" in short else {}
    if short.get("unschedulable"):
        spec["unschedulable"] = True
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": _TIME.sub(_time, "${now-20m}")}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **short.get("labels", {})}},
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": {**amounts, **{k: str(v) for k, v in short.get("capacity", {}).items()}},
            "conditions": [condition],
        },
    }


def _pod(short: Json) -> Json:
    container: Json = {"name": short.get("container", "main"), "image": short.get("image", "registry.example/app:1")}
    requests = {key: str(short[key]) for key in ("cpu", "memory") if key in short}
    requests |= {key: str(value) for key, value in short.get("requests", {}).items()}
    if requests:
        limits = {key: value for key, value in requests.items() if "/" in key or key.startswith("hugepages-")}
        container["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
    meta: Json = {"name": short["name"], "namespace": short.get("namespace", "default")}
    meta |= {key: short[key] for key in ("labels", "annotations", "finalizers") if key in short}
    meta["creationTimestamp"] = _TIME.sub(_time, f"${{now-{short.get('age', '30m')}}}")
    if "deleted" in short:
        meta |= _delete(short["deleted"], short.get("spec", {}).get("terminationGracePeriodSeconds", 30))
    if "owner" in short:
        kind, _, name = short["owner"].partition("/")
        owner = {"apiVersion": _APIS[kind], "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
        meta["ownerReferences"] = [owner]
    spec: Json = {"containers": [container], **copy.deepcopy(short.get("spec", {}))}
    status: Json = {"phase": short.get("phase", "Running" if "node" in short else "Pending")}
    if "node" in short:
        spec["nodeName"] = short["node"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _TIME.sub(_time, "${now-20m}")}
        status["conditions"] = [scheduled, {"type": "Ready", "status": "True"}]
    elif not short.get("untried"):
        words = {"reason": "Unschedulable", "message": "no node is suitable"}
        status["conditions"] = [{"type": "PodScheduled", "status": "False", **words}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {**status, **short.get("status", {})},
    }


def _delete(since: str, grace: int) -> Json:
    """Return the metadata of an object that was deleted some time ago, such as `5m`, with a grace period."""
    match = re.fullmatch(r"(\d+)([smhd])", since)
    assert match, since
    left = grace - int(match[1]) * _UNITS[match[2]]
    ends = datetime.now(timezone.utc) + timedelta(seconds=left)
    return {"deletionTimestamp": f"{ends:%Y-%m-%dT%H:%M:%SZ}", "deletionGracePeriodSeconds": grace}


def _event(number: int, short: Json) -> Json:
    kind, _, name = short["about"].partition("/")
    namespace = short.get("namespace", "default")
    at = _TIME.sub(_time, f"${{now-{short.get('age', '5m')}}}")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{number}", "namespace": namespace},
        "involvedObject": {"kind": kind, "name": name, "namespace": namespace, "apiVersion": short.get("api", "v1")},
        "type": short.get("type", "Warning"),
        "reason": short["reason"],
        "message": short["message"],
        "source": {"component": short.get("from", "kubelet")},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": short.get("count", 1),
    }
