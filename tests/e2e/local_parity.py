"""Compares local mode's answer about a pod with what kube-scheduler logged when it decided the pod.

Owns: asking local mode over the real API server. Does not own: which pods are compared, and kube-scheduler's log.
"""

from __future__ import annotations

import re
from typing import Any

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.service import LocalService
from scheduler.config import parse_config
from tests.e2e.cluster import Cluster

Json = dict[str, Any]


def explain_locally(cluster: Cluster, configuration: str, namespace: str, pod: str) -> Json:
    """Return local mode's explanation of a pod on the cluster as it is now, with every node."""
    with (
        ClusterReader(cluster.fetch, lambda _plural, _count: None) as reader,
        LocalService(reader, parse_config(configuration), lambda _note: None) as service,
    ):
        answer = service.get(f"/apis/herodotus.dev/v1alpha1/namespaces/{namespace}/podexplanations/{pod}?all=true")
    assert answer.code == 200, answer.document
    return answer.document


def totals(answer: Json) -> dict[str, int]:
    """Return each feasible node's total score."""
    return {row["node"]: row["total"] for row in answer["ranking"] if row["total"] is not None}


def weighted_scores(answer: Json) -> dict[str, dict[str, int]]:
    """Return each plugin's weighted scores by node."""
    found: dict[str, dict[str, int]] = {}
    for row in answer["ranking"]:
        for plugin, score in row["scores"].items():
            found.setdefault(plugin, {})[row["node"]] = score["weighted"]
    return found


def without_node_numbers(message: str) -> str:
    """Return a message without an invalid score, which is of any node."""
    return re.sub(r"(returns an invalid score) -?\d+", r"\1 N", message)
