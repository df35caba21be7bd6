"""Objects of autoscalers for tests of node groups, as the API server returns them."""

from __future__ import annotations

from typing import Any

from herodotus_answers.cluster_questions import ClusterQuestion, NodeGroupsQuestion
from herodotus_answers.node_groups import NodeGroupReview, NodeGroupVerdict
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
EKS = "eks.amazonaws.com/nodegroup"
HOST = "kubernetes.io/hostname"
POOL = "karpenter.sh/nodepool"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"


def grouped(name: str, group: str, cpu: str = "4", zone: str = "a", key: str = EKS, **more: Any) -> Json:
    """A node of a group. `more` are fields of the spec, and `labels`, `annotations` and `allocatable`."""
    labels, annotations = more.pop("labels", {}), more.pop("annotations", None)
    allocatable = more.pop("allocatable", {})
    node = a_node(name, cpu, **more)
    node["metadata"]["labels"] |= {key: group, ZONE: zone} | labels
    node["status"]["allocatable"] |= allocatable
    if annotations:
        node["metadata"]["annotations"] = annotations
    return node


def machine_deployment(name: str, replicas: int = 0, kind: str = "MachineDeployment", **more: Any) -> Json:
    """A MachineDeployment or MachineSet. `more` are `annotations` by the end of their keys, labels, taints and zone."""
    annotations = {
        (f"{SIZE}{key}" if key in ("min-size", "max-size") else f"{CAPACITY}{key}"): value
        for key, value in more.get("annotations", {}).items()
    }
    spec: Json = {"taints": more["taints"]} if "taints" in more else {}
    if "zone" in more:
        spec["failureDomain"] = more["zone"]
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "capi",
            "annotations": annotations,
            "ownerReferences": more.get("owners", []),
        },
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": more.get("labels", {})}, "spec": spec}},
    }


def node_pool(name: str, *requirements: Json, **more: Any) -> Json:
    """A NodePool. `more` are `labels`, `taints` and `startupTaints` of its template, `status`, and other fields."""
    template = {
        "metadata": {"labels": more.pop("labels", {})},
        "spec": {
            "requirements": list(requirements),
            "taints": more.pop("taints", []),
            "startupTaints": more.pop("startupTaints", []),
            "nodeClassRef": {"group": "test", "kind": "NodeClass", "name": "any"},
        },
    }
    status = more.pop("status", {})
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": {"consolidateAfter": "30s"}, **more},
        "status": status,
    }


def node_claim(name: str, pool: str, labels: Json, allocatable: Json, **status: Any) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {POOL: pool} | labels},
        "spec": {"requirements": []},
        "status": {"allocatable": allocatable, **status},
    }


def daemon_set(name: str, cpu: str = "500m", **spec: Any) -> Json:
    container = {"name": "agent", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {}, "template": template},
    }


def isin(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def ask(objects: list[Json] | WhatIfState, **question: Any) -> NodeGroupReview:
    """Return the answer to a question about node groups."""
    state = objects if isinstance(objects, WhatIfState) else a_state(objects)
    spec = ClusterQuestion(node_groups=NodeGroupsQuestion(**question))
    found = answer_review(state, spec, ignore_progress, seed=0)["nodeGroups"]
    assert found is not None
    return found


def verdicts(objects: list[Json], pod: Json, **question: Any) -> dict[str, NodeGroupVerdict]:
    """Return the verdict of each group on a pending pod."""
    meta = pod["metadata"]
    review = ask([*objects, pod], pods=[f"{meta['namespace']}/{meta['name']}"], **question)
    return {verdict["group"]: verdict for verdict in review["pods"][0]["groups"]}


def waiting(cpu: str = "1", **spec: Any) -> Json:
    return a_pod("waits", cpu=cpu, **spec)
