"""Clusters for tests of reviews of the whole cluster, from objects as the API server returns them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from herodotus_answers.cluster_questions import Change, ClusterQuestion
from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.config import Configuration, build_profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import SourceManifest, load_cluster
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.progress import ignore_progress
from scheduler.engine.rules import Rules
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.simulation import WhatIfState
from scheduler.offline.evaluate.engine import NoCluster

Json = dict[str, Any]
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def a_node(name: str, cpu: str = "4", **spec: Any) -> Json:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{name[-1]}"}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def a_pod(name: str, node: str = "", owner: str = "ReplicaSet/web", cpu: str = "1", **more: Any) -> Json:
    """A pod on a node, or a pending one. `more` are fields of the spec, and `labels`."""
    kind, _, of = owner.partition("/")
    references = [{"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": of, "controller": True}] if owner else []
    labels = more.pop("labels", {"app": of})
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        "ownerReferences": references,
    }
    status = more.pop("status", READY if node else {"phase": "Pending"})
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], **more}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def a_budget(name: str, app: str, status: Json | None = None, **spec: Any) -> Json:
    """A budget for the pods with the label app. Without a status, its amounts are computed."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        "status": status or {},
    }


STOCK = Configuration()


def a_state(objects: Iterable[Json], version: str = "", config: Configuration = STOCK) -> WhatIfState:
    """Return the state of a cluster whose scheduler is of this version, by default of the default rules."""
    given = list(objects)
    cluster = load_cluster(SourceManifest(f"object {i}", content) for i, content in enumerate(given))
    profile = build_profile(config, 0, IN_TREE, NoCluster(cluster.objects))
    framework = Framework(profile, time.monotonic, (), cluster.nominator)
    framework.prepare(cluster.nodes)
    pending = [
        msgspec.convert(content, Pod)
        for content in given
        if content["kind"] == "Pod" and not content["spec"].get("nodeName")
    ]
    state = WhatIfState(
        cluster.nodes,
        cluster.objects,
        cluster.nominator,
        lambda name: framework if name == "default-scheduler" else None,
        pending,
    )

    def rebuild(rules: Rules) -> Callable[[str], Framework]:
        profile = build_profile(Configuration(), 0, IN_TREE, NoCluster(state.objects), rules)
        return lambda _name: Framework(profile, time.monotonic, (), state.nominator)

    state.rebuild = rebuild
    if version:
        state.rules = Rules.from_settings({}, KubernetesVersion.parse(version))
    return state


def review(objects: Iterable[Json], changes: Sequence[Change], state: WhatIfState | None = None) -> ClusterReviewStatus:
    spec = ClusterQuestion(changes=list(changes))
    return answer_review(state or a_state(objects), spec, ignore_progress, seed=0)


NODES = [a_node("n0"), a_node("n1"), a_node("n2")]


@st.composite
def random_clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    owners = st.sampled_from(["ReplicaSet/web", "StatefulSet/db", "DaemonSet/agent", "Node/n0", ""])
    pods = []
    for i in range(draw(st.integers(2, 12))):
        owner, cpu = draw(owners), draw(st.sampled_from(["250m", "1", "2"]))
        storage = [{"name": "v", "emptyDir": {}}] if draw(st.booleans()) else []
        priority = draw(st.sampled_from([0, 0, 10]))
        of = owner.partition("/")[2] or "bare"
        pods.append(
            a_pod(
                f"{of}-{i}",
                draw(st.sampled_from(["n0", "n1", "n2", ""])),
                owner,
                cpu,
                volumes=storage,
                priority=priority,
            )
        )
    budgets: list[dict[str, Any]] = [{"minAvailable": 2}, {"maxUnavailable": "50%"}, {"maxUnavailable": 0}]
    budget = draw(st.sampled_from(budgets))
    return [
        *NODES,
        *pods,
        a_pod("web-x", "n0"),
        a_pod("db-x", "n1", "StatefulSet/db"),
        a_budget("web", "web", **budget),
    ]


def nodes_by_uid(state: WhatIfState) -> dict[str, str]:
    """The node of each pod that is on a node."""
    nodes = state.nodes
    return {uid: nodes.names[slot] for slot, pods in enumerate(nodes.pods) for uid in pods}
