"""Carries out the first fix of a case (tests/cases) on a control plane, and judges what became of the problem.

Owns: what a control plane needs beside a case's objects (the owners and classes of its pods), the order in which
objects are created, and the verdict. Does not own: the clusters, and which cases are tried.

Invariant: controllers start after a case's objects exist, with the owners' real UIDs in the pods. So they find their
pods, and undo a change that belongs to the owner.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from herodotus_sim.kinds import resource_for_type
from tests.cases.fixes import KUBECTL_FOLDER, list_fix_commands
from tests.e2e.cluster import Cluster
from tests.processes import ROOT, eventually

Json = dict[str, Any]
BOUND, CAUSE_GONE, NO_COMMAND = "bound", "cause gone", "no command"
_RANKS: Final = {
    kind: rank
    for rank, kinds in enumerate(
        (
            ("Namespace",),
            ("Node", "PriorityClass", "StorageClass", "RuntimeClass"),
            ("",),  # every other kind
            ("CronJob", "Deployment", "StatefulSet", "DaemonSet"),
            ("ReplicaSet", "Job"),
            ("Pod",),
            ("Event",),
        )
    )
    for kind in kinds
}
_SYSTEM_CLASSES: Final = {2_000_000_000: "system-cluster-critical", 2_000_001_000: "system-node-critical"}
_SERVERS_OWN: Final = ("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation")
_OWNER: Final = "case.herodotus.dev/owner"  # a label of the pods of an owner that the case does not describe


@dataclass(frozen=True)
class FirstFix:
    """What became of a case's first fix: BOUND, CAUSE_GONE, NO_COMMAND, or what went wrong."""

    case: str
    commands: Sequence[str]
    result: str

    @property
    def works(self) -> bool:
        return self.result in (BOUND, CAUSE_GONE)

    def __str__(self) -> str:
        return f"{self.case}: {self.result}" + "".join(f"\n    {command}" for command in self.commands)


def _is_checked(answer: str) -> bool:
    """Return whether the engine has checked an answer's first fix."""
    fix = answer.partition("\nFIX")[2].partition("kubectl ")[0]
    return "(not checked)" not in fix


class UnsupportedCaseError(Exception):
    """The error for a case that the control plane cannot hold, with the reason."""


def complete(objects: Sequence[Json]) -> list[Json]:
    """Return the objects in the order of their creation, with the owners and classes that they refer to."""
    completed = [copy.deepcopy(o) for o in objects]
    for o in completed:
        if resource_for_type(o["apiVersion"], o["kind"]).namespaced:
            o["metadata"].setdefault("namespace", "default")
    names = {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in completed}
    pods = [o for o in completed if o["kind"] == "Pod"]
    completed += _missing_owners(pods, completed, names)
    completed += _missing_priority_classes(pods, names)
    return sorted(completed, key=lambda o: _RANKS.get(o["kind"], _RANKS[""]))


def _missing_owners(pods: Sequence[Json], objects: Sequence[Json], names: set[Any]) -> Iterator[Json]:
    """Yield the owners of pods that are not among the objects, with the template of a pod that waits, if any does."""
    owned: dict[tuple[str, str, str], list[Json]] = {}
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences", ()):
            key = (owner["kind"], pod["metadata"]["namespace"], owner["name"])
            if owner["kind"] != "Node" and key not in names:
                owned.setdefault(key, []).append(pod)
    for (kind, namespace, name), members in owned.items():
        pod = min(members, key=lambda p: "nodeName" in p["spec"])
        deployment = _find_deployment(kind, pod, objects)
        labels = {**pod["metadata"].get("labels", {}), _OWNER: name}
        spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "priority")}
        if deployment is not None and "nodeName" not in pod["spec"]:
            spec = copy.deepcopy(deployment["spec"]["template"]["spec"])
        yield _owner(kind, namespace, name, labels, spec, len(members), deployment)


def _owner(kind: str, namespace: str, name: str, labels: Json, spec: Json, count: int, deployment: Json | None) -> Json:
    template = {"metadata": {"labels": labels}, "spec": spec}
    metadata: Json = {"name": name, "namespace": namespace, "labels": labels}
    if kind == "Job":
        spec = {"parallelism": count, "completions": count, "template": template}
        spec["template"]["spec"] = {"restartPolicy": "Never", **template["spec"]}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
    whole: Json = {"selector": {"matchLabels": labels}, "template": template}
    if kind != "DaemonSet":
        whole["replicas"] = count
    if kind == "StatefulSet":
        whole |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    if deployment is not None:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]}
        metadata["ownerReferences"] = [{**reference, "uid": "", "controller": True}]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


def _find_deployment(kind: str, pod: Json, objects: Sequence[Json]) -> Json | None:
    """Return the Deployment of a ReplicaSet that the case does not describe, by its pod's labels."""
    labels = pod["metadata"].get("labels", {}).items()
    for o in objects if kind == "ReplicaSet" else ():
        is_near = o["kind"] == "Deployment" and o["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if is_near and o["spec"]["selector"]["matchLabels"].items() <= labels:
            return o
    return None


def _class_of(priority: int | None) -> str:
    """Return a name for the class of a priority, or "" for none."""
    return f"priority-{priority}".replace("--", "-minus-") if priority else ""


def _missing_priority_classes(pods: Sequence[Json], names: set[Any]) -> Iterator[Json]:
    """Yield a class for each priority of pods, and let the pods name it: the API server accepts no bare number."""
    made: dict[str, Json] = {}
    for pod in pods:
        value = pod["spec"].get("priority")
        name = pod["spec"].get("priorityClassName") or _SYSTEM_CLASSES.get(value) or _class_of(value)
        if name:
            pod["spec"]["priorityClassName"] = name
        if value is not None and name and ("PriorityClass", None, name) not in names and not name.startswith("system-"):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            made[name] = {**body, "value": value}
    yield from made.values()


def create_all(objects: Sequence[Json], create: Callable[[Json], Json]) -> list[Json]:
    """Create a completed case with `create`, which returns what is stored; return the stored objects."""
    stored: dict[tuple[str, str, str], Json] = {}
    for o in objects:
        body = copy.deepcopy(o)
        namespace = body["metadata"].get("namespace", "")
        for owner in body["metadata"].get("ownerReferences", ()):
            found = stored.get((owner["kind"], "" if owner["kind"] == "Node" else namespace, owner["name"]))
            if found is not None:
                owner["uid"] = found["metadata"]["uid"]
                selector = found.get("spec", {}).get("selector", {}) if body["kind"] == "Pod" else {}
                body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), **selector.get("matchLabels", {})}
        stored[o["kind"], namespace, o["metadata"]["name"]] = create(body)
    return list(stored.values())


def path_of(body: Json, *, is_collection: bool = False) -> str:
    """Return the API's path of an object, or of the collection that it is created in."""
    kind = resource_for_type(body["apiVersion"], body["kind"])
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    space = f"/namespaces/{body['metadata'].get('namespace', 'default')}" if kind.namespaced else ""
    return f"{root}{space}/{kind.plural}" + ("" if is_collection else f"/{body['metadata']['name']}")


def create_over_http(cluster: Cluster, body: Json) -> Json:
    """Create an object as a client does, and write its status through the subresource; return what is stored.

    The scheduler itself says that a pod does not fit. Raises UnsupportedCaseError where the API server refuses.
    """
    if cluster.find(path_of(body)) is not None:  # a namespace of an earlier case
        return cluster.get(path_of(body))
    new = {k: v for k, v in body.items() if k != "status"}
    new["metadata"] = {k: v for k, v in body["metadata"].items() if k not in _SERVERS_OWN}
    if body["kind"] == "Pod":  # kube-apiserver computes it from the class
        new["spec"] = {k: v for k, v in body["spec"].items() if k != "priority"}
        _create_runtime_class(cluster, body["spec"])
    try:
        stored = cluster.create(path_of(body, is_collection=True), new)
        status = dict(body.get("status") or {})
        if body["kind"] == "Pod" and not body["spec"].get("nodeName"):
            conditions = [c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"]
            status = {k: v for k, v in {**status, "conditions": conditions}.items() if v and v != "Pending"}
        elif body["kind"] == "Pod" and any(c["type"].startswith("PodResize") for c in status.get("conditions", ())):
            given = {each["name"]: each for each in status.get("containerStatuses", ())}
            status["containerStatuses"] = [_running(c) | given.get(c["name"], {}) for c in body["spec"]["containers"]]
        if status:
            cluster.patch(f"{path_of(body)}/status", {"status": status})
    except AssertionError as e:
        raise UnsupportedCaseError(f"{body['kind']} {body['metadata']['name']}: {e}") from None
    return stored


def _running(container: Json) -> Json:
    """Return the status that a kubelet writes for a container, with the resources by which it supports a resize."""
    state = {"ready": True, "restartCount": 0, "image": container["image"], "imageID": ""}
    return {"name": container["name"], **state, "state": {"running": {}}, "resources": container.get("resources", {})}


def _create_runtime_class(cluster: Cluster, spec: Json) -> None:
    """Create the RuntimeClass of a pod with an overhead: the API server accepts the pod only with that class."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    if "overhead" in spec and cluster.find(f"{path}/{spec['runtimeClassName']}") is None:
        name = spec["runtimeClassName"]
        body = {"metadata": {"name": name}, "handler": name, "overhead": {"podFixed": spec["overhead"]}}
        cluster.create(path, body)


class FirstFixTrial:
    """Asks about one case on a cluster, carries out the first fix, and judges the state afterwards."""

    def __init__(self, cluster: Cluster, name: str, case: Json, patience_s: float) -> None:
        """Store the settings; `name` is the case's, for reports."""
        self._cluster, self._name, self._case, self._patience_s = cluster, name, case, patience_s
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HERODOTUS")}
        self._environ = kept | {
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(cluster.kubeconfig.parent),
            "PATH": f"{KUBECTL_FOLDER}:{os.environ['PATH']}",
            "NO_COLOR": "1",
        }
        words = shlex.split(case["questions"][0]["ask"])
        self._namespace = words[words.index("-n") + 1] if "-n" in words else "default"
        self._kind, self._object = words[0], words[1]

    def prepare(self) -> None:
        """Run the case's own commands."""
        for words in self._case.get("before", ()):
            done = self._execute(["bash", "-e", "-o", "pipefail", "-c", f"kubectl {words}"])
            if done.returncode:
                raise UnsupportedCaseError(f"kubectl {words}: {done.stderr}")

    def run(self) -> FirstFix:
        """Return what became of the first fix."""
        pod = self._find_pod()
        if pod is not None and not pod["spec"].get("nodeName"):
            self._wait_until_tried()
        answer = self._ask()
        commands = list_fix_commands(answer)
        if not commands:
            return FirstFix(self._name, (), NO_COMMAND)
        before = {p["metadata"]["uid"] for p in self._relatives(pod) if p["spec"].get("nodeName")}
        for command in commands:
            with self._ending_deleted_pods():
                done = self._execute(["bash", "-e", "-o", "pipefail", "-c", command])
            if "the server could not find the requested resource" in done.stderr and self._cluster.kind == "simulated":
                raise UnsupportedCaseError(command)
            if done.returncode:
                return FirstFix(self._name, commands, f"refused: {done.stderr.strip()[-300:]}")
        return FirstFix(self._name, commands, self._judge(pod, before, commands, is_checked=_is_checked(answer)))

    def _judge(self, pod: Json | None, before: set[str], commands: Sequence[str], *, is_checked: bool) -> str:
        """Return the result: a checked fix promises that the pod fits, any other one only that its cause ends."""
        was_waiting = pod is not None and not pod["spec"].get("nodeName")

        def bound() -> bool:
            self._end_deleted_pods()
            return any(p["spec"].get("nodeName") and p["metadata"]["uid"] not in before for p in self._relatives(pod))

        def cause_gone() -> bool:
            return list_fix_commands(self._ask()) != commands

        try:
            eventually(bound, "a pod to be bound", self._patience_s if was_waiting else 3.0, every_s=0.2)
        except AssertionError:
            answer = self._ask()
            if list_fix_commands(answer) == commands:
                return f"not ended: {self._waiting(pod)}"
            if is_checked and re.search(r"no node fits", answer, re.IGNORECASE):
                return f"still fits nowhere: {self._waiting(pod)}"
            return CAUSE_GONE
        eventually(lambda: True, "controllers to act", 1.0)
        if not bound():
            return "undone: the pod that was bound is gone"
        if not was_waiting and not cause_gone():
            return "the answer has the same fix again"
        return BOUND

    @contextmanager
    def _ending_deleted_pods(self) -> Iterator[None]:
        """Context manager in which pods that are being deleted end, as `kubectl delete` waits for that."""
        done = threading.Event()

        def run() -> None:
            while not done.wait(0.2):
                self._end_deleted_pods()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _end_deleted_pods(self) -> None:
        """End the pods that are being deleted, as their kubelets do, which a real control plane lacks."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        for pod in self._cluster.items(path) if self._cluster.kind == "real" else ():
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
                self._cluster.delete(f"{path}/{metadata['name']}")

    def _waiting(self, pod: Json | None) -> str:
        """Describe the pods that wait, for a failure."""
        conditions = [
            f"{p['metadata']['name']}: {json.dumps(p['status'].get('conditions'))[:300]}"
            for p in self._relatives(pod)
            if not p["spec"].get("nodeName")
        ]
        return "; ".join(conditions) or "no pod waits"

    def _find_pod(self) -> Json | None:
        if self._kind != "pod":
            return None
        return self._cluster.find(f"/api/v1/namespaces/{self._namespace}/pods/{self._object}")

    def _wait_until_tried(self) -> None:
        def is_tried() -> bool:
            pod = self._find_pod()
            if pod is None or pod["spec"].get("schedulingGates"):
                return True
            return bool(pod["spec"].get("nodeName")) or any(
                c["type"] == "PodScheduled" and c["status"] == "False" for c in pod["status"].get("conditions") or ()
            )

        try:
            eventually(is_tried, f"{self._object} to be tried", self._patience_s, every_s=0.2)
        except AssertionError as e:
            raise UnsupportedCaseError(str(e)) from e

    def _relatives(self, pod: Json | None) -> list[Json]:
        """Return the pods that the question is about: the pod or its namesake, and the pods of the same workload."""
        pods = self._cluster.items(f"/api/v1/namespaces/{self._namespace}/pods")
        alive = [p for p in pods if not p["metadata"].get("deletionTimestamp")]
        root = self._root(pod) if pod is not None else self._object.rpartition("/")[2]
        return [p for p in alive if p["metadata"]["name"] == self._object or (root and self._root(p) == root)]

    def _root(self, pod: Json) -> str:
        """Return the name of the workload that a pod belongs to, or ""."""
        owners = pod["metadata"].get("ownerReferences") or [{"kind": "", "name": ""}]
        kind, name = owners[0]["kind"], str(owners[0]["name"])
        if kind == "ReplicaSet":
            path = f"/apis/apps/v1/namespaces/{self._namespace}/replicasets/{name}"
            above = ((self._cluster.find(path) or {"metadata": {}})["metadata"].get("ownerReferences")) or owners
            return str(above[0]["name"])
        return name

    def _ask(self) -> str:
        words = shlex.split(self._case["questions"][0]["ask"])
        done = self._execute([sys.executable, str(ROOT / "kubectl-herodotus"), *words])
        return done.stderr + done.stdout

    def _execute(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=180,
            check=False,
        )


def clear(cluster: Cluster, stored: Sequence[Json]) -> None:
    """Delete what a case left: its objects but namespaces, and what controllers created for them."""
    namespaces = {o["metadata"]["namespace"] for o in stored if o["metadata"].get("namespace")}
    for namespace in namespaces:
        for collection in (
            *("apis/apps/v1/%s/deployments", "apis/apps/v1/%s/replicasets", "apis/apps/v1/%s/statefulsets"),
            *("apis/apps/v1/%s/daemonsets", "apis/batch/v1/%s/jobs", "api/v1/%s/pods", "api/v1/%s/events"),
        ):
            path = "/" + collection % f"namespaces/{namespace}"
            for o in cluster.items(path) if not path.endswith("events") else ():
                if o["metadata"].get("finalizers"):
                    cluster.patch(f"{path}/{o['metadata']['name']}", {"metadata": {"finalizers": None}})
                cluster.delete(f"{path}/{o['metadata']['name']}")
            cluster.delete_all(path)
    for o in reversed(stored):
        if o["kind"] in ("Namespace", "Event", "Pod") or o["metadata"].get("name") == "default":
            continue
        found = cluster.find(path_of(o))
        if found is not None:
            if found["metadata"].get("finalizers"):
                cluster.patch(path_of(o), {"metadata": {"finalizers": None}})
            cluster.delete(path_of(o))
