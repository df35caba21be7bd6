"""Pods, events and clusters for the tests of states."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs, urlsplit

from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.codes import CAUSES, STATES
from herodotus_answers.live.declarations import LiveState
from herodotus_answers.live.pods.pod_state import find_state

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
OWNED = {"ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": True}]}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def at(minutes: float) -> str:
    """Return the time that many minutes before NOW."""
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def a_pod(*, node: str = "n1", phase: str = "Pending", metadata: Json | None = None, **parts: Any) -> Json:
    """Return a Pod object; `parts` are fields of its spec, and of its status those with the prefix `status_`."""
    status = {key.removeprefix("status_"): value for key, value in parts.items() if key.startswith("status_")}
    spec = {key: value for key, value in parts.items() if not key.startswith("status_")}
    spec.setdefault("containers", [{"name": "main", "image": "app:1"}])
    status.setdefault("conditions", [SCHEDULED] if node else [])
    meta = {"name": "web-0", "namespace": "shop", "uid": "u1", "creationTimestamp": at(30)} | (metadata or {})
    named = {"nodeName": node} if node else {}
    return {"kind": "Pod", "metadata": meta, "spec": spec | named, "status": status | {"phase": phase}}


def waits(reason: str, message: str = "", **more: Any) -> list[Json]:
    state = {"waiting": {"reason": reason, "message": message}}
    return [{"name": "main", "ready": False, "restartCount": 4, "state": state, **more}]


def runs(**more: Any) -> list[Json]:
    state = {"running": {"startedAt": at(20)}}
    return [{"name": "main", "ready": False, "started": True, "restartCount": 0, "state": state, **more}]


def an_event(reason: str, message: str, component: str = "kubelet", **more: Any) -> Json:
    about = {"kind": "Pod", "name": "web-0", "namespace": "shop", **more.pop("about", {})}
    meta = {"name": f"e{hash(message)}", "namespace": "shop"}
    return {
        "kind": "Event",
        "metadata": meta,
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "count": 5,
        "lastTimestamp": at(1),
        "reportingComponent": component,
        **more,
    }


def a_node(name: str = "n1", ready: str = "True", **spec: Any) -> Json:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": at(5), "message": "Kubelet stopped posting."}
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {"conditions": [condition]}}


def a_lease(name: str, renewed_minutes: float) -> Json:
    spec = {"holderIdentity": "cp-0", "leaseDurationSeconds": 15, "renewTime": at(renewed_minutes)}
    return {"kind": "Lease", "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


def a_cluster(*objects: Json, forbidden: Iterable[str] = ()) -> ClusterObjects:
    """Return a cluster with a ready node n1 and these objects. The paths that end as in `forbidden` are refused."""
    every = [*objects]
    if not any(each["kind"] == "Node" for each in every):
        every.append(a_node())

    def fetch(path: str) -> tuple[int, Json]:
        parts = urlsplit(path)
        *_, plural, name = ["", *parts.path.split("/")]
        kinds = {f"{each['kind'].lower()}s": each["kind"] for each in every} | {"storageclasses": "StorageClass"}
        if any(parts.path.endswith(each) or f"/{each}/" in parts.path for each in forbidden):
            return 403, {}
        selectors = parse_qs(parts.query).get("fieldSelector", [""])[0].split(",")
        if parts.query:
            items = [each for each in every if each["kind"] == kinds.get(name) and _matches(each, selectors)]
            return 200, {"items": items}
        found = [e for e in every if e["kind"] == kinds.get(plural) and e["metadata"]["name"] == name]
        return (200, found[0]) if found else (404, {})

    return ClusterObjects(fetch)


def _matches(obj: Json, selectors: list[str]) -> bool:
    for selector in filter(None, selectors):
        path, _, wanted = selector.partition("=")
        value: Any = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        if value != wanted:
            return False
    return True


def find(pod: Json, *objects: Json, forbidden: Iterable[str] = ()) -> LiveState:
    """Return the state of a pod, and check that all its codes are published."""
    state = find_state(pod, a_cluster(pod, *objects, forbidden=forbidden), NOW)
    assert state["code"] in STATES
    assert {cause["code"] for cause in state["causes"]} <= CAUSES.keys()
    assert all(
        f"-n {pod['metadata']['namespace']}" in c for c in list_commands(state) if not c.startswith("kubectl cordon")
    )
    return state


def list_commands(state: LiveState) -> list[str]:
    return [r["command"] for cause in state["causes"] for r in cause["remedies"] if r["command"]]


SECRET_VOLUME = [{"name": "tls", "secret": {"secretName": "web-tls"}}]
OPTIONAL_VOLUME = [{"name": "tls", "secret": {"secretName": "web-tls", "optional": True}}]
CLAIM_VOLUME = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
PROBED = [{"name": "main", "image": "app:1", "readinessProbe": {"httpGet": {"path": "/ok", "port": 80}}}]
MOUNT = an_event("FailedMount", "secret not found")
SANDBOX = an_event("FailedCreatePodSandBox", "add cmd: no address left")
OOM: Json = {"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at(2)}}}
WITH_INIT = [{"name": "migrate", "image": "app:1"}]
INIT_WAITS = [{"name": "migrate", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
INIT_RUNS = [{"name": "migrate", "restartCount": 0, "state": {"running": {"startedAt": at(9)}}}]
RESIZE = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "not enough cpu"}
RESIZED = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
READY = {"type": "Ready", "status": "True"}
UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
