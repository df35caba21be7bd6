"""A cluster in memory that has the objects of random clusters, without a control plane.

Each workload gets its pods when it is created, and each pod one of its best nodes, as the engine decides it. So a
random cluster is as full and as fragmented as a real one of the same seed, though not with the same placements.

Owns: the objects as manifests, what controllers and kube-scheduler make of them, and the search for plans there. Does
not own: the random clusters (`plans`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_answers.cluster_questions import PlanQuestion
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.plans.time_limit import TimeLimit
from scheduler.engine.plans.world import Draws, World
from scheduler.engine.progress import ignore_progress
from tests.e2e.cluster import Cluster
from tests.e2e.plans import PlanFigures, PlanTrial
from tests.scheduler.engine.whatif.clusters import READY, a_state

Json = dict[str, Any]

_KINDS: Final = {
    "deployments": "Deployment",
    "deviceclasses": "DeviceClass",
    "namespaces": "Namespace",
    "nodes": "Node",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "podgroups": "PodGroup",
    "pods": "Pod",
    "priorityclasses": "PriorityClass",
    "replicasets": "ReplicaSet",
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "resourceslices": "ResourceSlice",
    "statefulsets": "StatefulSet",
}
SEARCH_S: Final = 20.0
_CLAIM_API: Final = "resource.k8s.io/v1"
_READ: Final = frozenset(_KINDS.values()) - {"Deployment", "Namespace", "PriorityClass", "StatefulSet"}


class ModelCluster(Cluster):
    """Answers the requests that create and read a random cluster."""

    def __init__(self, seed: int) -> None:
        self.kind, self.kubeconfig = "model", Path("/nonexistent")
        self._rng = random.Random(f"placements of {seed}")
        self._objects: dict[str, dict[str, Json]] = {}  # by kind and name
        self._created = 0

    # --- requests ---------------------------------------------------------------------------------------------------

    def create(self, path: str, body: Json) -> Json:
        kind, namespace = _KINDS[path.rpartition("/")[2]], path.partition("/namespaces/")[2].partition("/")[0]
        self._add(kind, _read_version(path), namespace, body)
        if kind in ("Deployment", "StatefulSet"):
            self._create_pods(kind, namespace, body)
            self._schedule()
        return body

    def create_all(self, path: str, bodies: Iterable[Json]) -> list[Json]:
        return [self.create(path, body) for body in bodies]

    def get(self, path: str) -> Json:
        last = path.rpartition("/")[2]
        if last in _KINDS:
            return {"items": list(self._objects.get(_KINDS[last], {}).values())}
        return self._find(path)

    def patch(self, path: str, body: Json) -> None:
        found = self._find(path.removesuffix("/status"))
        for key, value in body.items():
            found[key] = found.get(key, {}) | value

    def list_objects(self) -> list[Json]:
        """Return copies of all objects that scheduling reads."""
        return deepcopy([each for kind in _READ for each in self._objects.get(kind, {}).values()])

    def close(self) -> None:
        self._objects.clear()

    def _find(self, path: str) -> Json:
        _, collection, name = path.rsplit("/", 2)
        return self._objects[_KINDS[collection]][name]

    # --- controllers ------------------------------------------------------------------------------------------------

    def _add(self, kind: str, version: str, namespace: str, body: Json) -> None:
        body.update({"apiVersion": version, "kind": kind})
        metadata = body.setdefault("metadata", {})
        metadata |= {"uid": f"{kind}/{metadata['name']}"} | ({"namespace": namespace} if namespace else {})
        self._objects.setdefault(kind, {})[metadata["name"]] = body

    def _create_pods(self, kind: str, namespace: str, workload: Json) -> None:
        name, of = workload["metadata"]["name"], workload["metadata"]["name"]
        if kind == "Deployment":
            of = f"{name}-5d4f"
            owner: Json = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": name,
                "uid": f"{kind}/{name}",
                "controller": True,
            }
            replica_set = {"metadata": {"name": of, "ownerReferences": [owner]}, "spec": deepcopy(workload["spec"])}
            self._add("ReplicaSet", "apps/v1", namespace, replica_set)
            kind = "ReplicaSet"
        for _ in range(workload["spec"].get("replicas", 1)):
            self._create_pod(kind, namespace, of, workload["spec"]["template"])

    def _create_pod(self, kind: str, namespace: str, owner: str, template: Json) -> None:
        self._created += 1
        spec = deepcopy(template["spec"]) | {"schedulerName": "default-scheduler"}
        priority = self._objects.get("PriorityClass", {}).get(spec.get("priorityClassName", ""))
        if priority is not None:
            spec |= {"priority": priority["value"], "preemptionPolicy": priority["preemptionPolicy"]}
        reference: Json = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"{kind}/{owner}"}
        references = [reference | {"controller": True}]
        metadata = {"name": f"{owner}-{self._created}", "labels": template["metadata"]["labels"]}
        metadata |= {"ownerReferences": references, "creationTimestamp": f"2026-01-01T00:00:{self._created % 60:02}Z"}
        pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self._add("Pod", "v1", namespace, pod)
        statuses = []
        for claim in spec.get("resourceClaims", ()):
            if source := claim.get("resourceClaimTemplateName"):
                made = f"{metadata['name']}-{claim['name']}"
                by = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": pod["metadata"]["uid"]}
                owned = {"name": made, "ownerReferences": [by | {"controller": True}]}
                owned["finalizers"] = ["resource.kubernetes.io/delete-protection"]
                spec_of_claim = deepcopy(self._objects["ResourceClaimTemplate"][source]["spec"]["spec"])
                self._add("ResourceClaim", _CLAIM_API, namespace, {"metadata": owned, "spec": spec_of_claim})
                statuses.append({"name": claim["name"], "resourceClaimName": made})
        pod["status"]["resourceClaimStatuses"] = statuses

    # --- kube-scheduler ---------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Place the waiting pods that fit, the most important first; the victims of one that preempts wait again."""
        while victims := self._place_until_preemption():
            for name in victims:
                self._evict(name)

    def _place_until_preemption(self) -> list[str]:
        """Place waiting pods until one preempts, and return the names of its victims."""
        state = a_state(self.list_objects())
        world = World(state, TimeLimit(1e9, lambda: 0.0, ignore_progress))
        victims: list[str] = []
        for pods in _group(sorted(state.list_waiting(), key=lambda pod: -pod.priority)):
            mark, placed = world.mark(), dict[str, str]()
            for pod in pods:
                draws = world.find_draws(pod)
                if draws.preempts and pod.pod_group is None:
                    victims = _list_victims(draws)
                elif draws.slots and draws.result is not None:
                    placed[pod.name] = world.nodes.names[self._rng.choice(draws.slots)]
                    world.place(pod, placed[pod.name], draws.result.state)
            if len(placed) < self._read_quorum(pods[0]):
                world.undo(mark)
                continue
            for name, node in placed.items():
                bound = self._objects["Pod"][name]
                bound["spec"]["nodeName"] = node
                bound["status"] |= READY
            if victims:
                break
        for claim in state.objects.all(ResourceClaim):
            self._objects["ResourceClaim"][claim.metadata.name]["status"] = msgspec.to_builtins(claim.status)
        return victims

    def _read_quorum(self, pod: PodInfo) -> int:
        if pod.pod_group is None:
            return 0
        found = self._objects["PodGroup"][pod.pod_group.name]
        bound: int = sum(
            bool(each["spec"].get("nodeName"))
            and each["spec"].get("schedulingGroup", {}).get("podGroupName") == pod.pod_group.name
            for each in self._objects["Pod"].values()
        )
        return int(found["spec"]["schedulingPolicy"]["gang"]["minCount"]) - bound

    def _evict(self, name: str) -> None:
        """Replace a pod by one that waits."""
        pod = self._objects["Pod"].pop(name)
        for status in pod["status"]["resourceClaimStatuses"]:
            self._objects["ResourceClaim"].pop(status["resourceClaimName"])
        for claim in self._objects.get("ResourceClaim", {}).values():
            users = claim.get("status", {}).get("reservedFor") or ()
            others = [each for each in users if each["name"] != name]
            if len(others) < len(users):
                claim["status"] = claim["status"] | {"reservedFor": others} if others else {}
        owner = pod["metadata"]["ownerReferences"][0]
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": spec}
        self._create_pod(owner["kind"], pod["metadata"]["namespace"], owner["name"], template)


def _list_victims(draws: Draws) -> list[str]:
    assert draws.result is not None
    preemption = draws.result.trace.preemption
    assert preemption is not None
    victims = next(each.victims for each in preemption.candidates if each.node == preemption.nominated_node)
    return [name.rpartition("/")[2] for name in victims]


def _group(pods: Iterable[PodInfo]) -> Iterator[list[PodInfo]]:
    """Yield the pods of each group together, and each other pod alone."""
    groups: dict[object, list[PodInfo]] = {}
    for pod in pods:
        groups.setdefault(pod.pod_group or pod.uid, []).append(pod)
    yield from groups.values()


def _read_version(path: str) -> str:
    """Return the API version in a path."""
    parts = path.strip("/").split("/")
    return "/".join(parts[1:3]) if parts[0] == "apis" else parts[1]


class ModelTrial(PlanTrial):
    """One random cluster in memory. Searches take processor time, so other work changes no result."""

    _random_s = 10.0
    _cluster: ModelCluster

    def __init__(self, seed: int, figures: PlanFigures) -> None:
        super().__init__(ModelCluster(seed), seed, figures)

    def ask(self, spec: Json) -> Json:
        """Return the answer to a question for plans."""
        self.figures.questions += 1
        question = msgspec.convert(spec["plan"] | {"timeLimitSeconds": SEARCH_S}, PlanQuestion)
        answer = answer_plan(a_state(self._list_objects()), question, ignore_progress, None, "", time.process_time)
        return {"plan": answer[0]}

    def _wait_until_settled(self) -> None:
        """Do nothing: each pod is placed when it is created."""

    def _list_objects(self) -> list[Json]:
        return self._cluster.list_objects()
