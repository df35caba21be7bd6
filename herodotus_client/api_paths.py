"""Paths of the resources that the decisions service and the API server serve.

Owns: paths and their escaping. Does not own: sending requests, the documents that are returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~")
_API = "/apis/herodotus.dev/v1alpha1"

# A regular expression of the API server's paths that the web pages read: one pod or workload, and lists of pods, nodes
# and workloads. No subresource, such as a pod's log.
PAGES_READ = (
    "/api/v1/(pods|nodes|namespaces/[^/]+/(pods|(pods|replicationcontrollers)/[^/]+))$"
    "|/apis/apps/v1/(namespaces/[^/]+/)?(deployments|statefulsets|daemonsets)$"
    "|/apis/apps/v1/namespaces/[^/]+/(deployments|statefulsets|replicasets)/[^/]+$"
    "|/apis/batch/v1/namespaces/[^/]+/(jobs|cronjobs)/[^/]+$"
)
# Of the paths to which they post: questions that store nothing.
PAGES_POST = f"{_API}/(namespaces/[^/]+/placementreviews|clusterreviews)$"


def pod_explanation(
    namespace: str, pod: str, *, attempt: int | None = None, every_node: bool = False, node: str = ""
) -> str:
    """Return the path of the explanation of a pod's scheduling attempt; `attempt` None means the last one.

    With `every_node` the explanation covers all nodes, and with `node` only that node.
    """
    query = {"attempt": attempt, "all": "true" if every_node else None, "node": node or None}
    return f"{_API}/namespaces/{_escape(namespace)}/podexplanations/{_escape(pod)}{_query_string(query)}"


def decision(namespace: str, pod: str, *, attempt: int | None = None) -> str:
    """Return the path of the full record of a pod's scheduling attempt; `attempt` None means the last one."""
    return f"{_API}/namespaces/{_escape(namespace)}/decisions/{_escape(pod)}{_query_string({'attempt': attempt})}"


def pod_history(namespace: str, pod: str) -> str:
    """Return the path of the list of a pod's scheduling attempts, with what changed between them."""
    return f"{_API}/namespaces/{_escape(namespace)}/podhistories/{_escape(pod)}"


def pod_comparison(
    namespace: str, pod: str, other: str, other_namespace: str = "", attempts: tuple[int, int] | None = None
) -> str:
    """Return the path of the comparison of two pods. Without `other_namespace` both are in one namespace.

    `attempts` are the numbers of an attempt of each; None means their last ones.
    """
    attempt, other_attempt = attempts or (None, None)
    query = _query_string(
        {"with": other, "withNamespace": other_namespace or None, "attempt": attempt, "withAttempt": other_attempt}
    )
    return f"{_API}/namespaces/{_escape(namespace)}/podcomparisons/{_escape(pod)}{query}"


def node_comparison(namespace: str, pod: str, a: str, b: str, *, attempt: int | None = None) -> str:
    """Return the path of the comparison of nodes `a` and `b` for one pod; `attempt` None means the last one."""
    query = _query_string({"a": a, "b": b, "attempt": attempt})
    return f"{_API}/namespaces/{_escape(namespace)}/nodecomparisons/{_escape(pod)}{query}"


def node_history(node: str, *, since_s: float) -> str:
    """Return the path of a node's history over `since_s` seconds: how often it was considered, rejected and chosen."""
    return f"{_API}/nodehistories/{_escape(node)}{_query_string({'since': round(since_s)})}"


def pending_pods(namespace: str, *, labels: str = "") -> str:
    """Return the path of the list of pending pods. If `namespace` is empty, it covers all namespaces.

    `labels` is a label selector.
    """
    return f"{_API}/{_namespace_prefix(namespace)}pendingpods{_query_string({'labelSelector': labels or None})}"


def workload_placement(namespace: str, kind: str, name: str, *, since_s: float, labels: str = "") -> str:
    """Return the path of the answer on where a workload's pods were placed in the last `since_s` seconds.

    `labels` is a label selector.
    """
    query = _query_string({"since": round(since_s), "labelSelector": labels or None})
    return f"{_API}/namespaces/{_escape(namespace)}/workloadplacements/{_escape(f'{kind}.{name}')}{query}"


def pod_group_placement(namespace: str, name: str) -> str:
    """Return the path of the answer on how the pods of a PodGroup were placed together."""
    return f"{_API}/namespaces/{_escape(namespace)}/podgroupplacements/{_escape(name)}"


def balance(*, since_s: float, weights: str, profile: str, decisions: int | None, labels: str = "") -> str:
    """Return the path of the answer on how pods spread over nodes in the last `since_s` seconds.

    It says how often each node won, and with other `weights` would have won. `profile` is a scheduler name, `decisions`
    the number of newest placements, `labels` a label selector; empty values and None do not restrict the answer.
    """
    query = {"since": round(since_s), "weights": weights or None, "profile": profile or None, "limit": decisions}
    return f"{_API}/balances{_query_string(query | {'labelSelector': labels or None})}"


def agreements(namespace: str, *, since_s: float, scheduler: str, labels: str = "") -> str:
    """Return the path of the answer on how often the observer agrees with the schedulers that it observes.

    If `namespace` or `scheduler` is empty, all of them count. `labels` is a label selector.
    """
    query = {"since": round(since_s), "profile": scheduler or None, "labelSelector": labels or None}
    return f"{_API}/{_namespace_prefix(namespace)}agreements{_query_string(query)}"


def preemptions(namespace: str, *, since_s: float, victim: str = "") -> str:
    """Return the path of the list of preemptions in the last `since_s` seconds, in which pods of a namespace took part.

    If `namespace` is empty, all namespaces count. With `victim` only preemptions that evicted this pod are listed.
    """
    query = {"since": round(since_s), "victim": victim or None}
    return f"{_API}/{_namespace_prefix(namespace)}preemptions{_query_string(query)}"


class DecisionSelector:
    """Field and label selectors that choose decisions. If both are empty, all decisions are chosen."""

    def __init__(self, fields: str = "", labels: str = "") -> None:
        self.query = {"fieldSelector": fields or None, "labelSelector": labels or None}


ALL_DECISIONS = DecisionSelector()


def decisions(namespace: str, *, selector: DecisionSelector = ALL_DECISIONS, limit: int) -> str:
    """Return the path of the list of the newest `limit` decisions, in all namespaces if `namespace` is empty."""
    return f"{_API}/{_namespace_prefix(namespace)}decisions{_query_string({'limit': limit, **selector.query})}"


def cluster_reviews() -> str:
    """Return the path for questions about the whole cluster."""
    return f"{_API}/clusterreviews"


def placement_reviews(namespace: str) -> str:
    """Return the path to which a question about hypothetical pods (a PlacementReview) is posted."""
    return f"{_API}/namespaces/{_escape(namespace)}/placementreviews"


def cluster_object(resource: str, namespace: str, name: str) -> str:
    """Return the API server's path of an object. `resource` is version and plural, such as `apps/v1/deployments`."""
    version, _, plural = resource.rpartition("/")
    root = "api" if "/" not in version else "apis"
    return namespaced(f"/{root}/{version}", namespace, plural, name)


def cluster_objects_named(resource: str, name: str) -> str:
    """Return the API server's path of the list of objects with this name in all namespaces."""
    version, _, plural = resource.rpartition("/")
    root = "api" if "/" not in version else "apis"
    return f"/{root}/{version}/{plural}?fieldSelector=metadata.name%3D{_escape(name)}"


def namespaced(root: str, namespace: str, plural: str, name: str = "") -> str:
    """Return the API server's path of an object, or of the list of all in the namespace if `name` is empty.

    `root` is the path of the API version, such as `/apis/kueue.x-k8s.io/v1beta1`.
    """
    return f"{root}/namespaces/{_escape(namespace)}/{plural}" + (f"/{_escape(name)}" if name else "")


def node_histories() -> str:
    """Return the path of the list of nodes that any decision considered."""
    return f"{_API}/nodehistories?limit=500"


def namespaces() -> str:
    """Return the API server's path of the list of namespaces."""
    return "/api/v1/namespaces"


def decisions_watch(namespace: str, version: str, *, selector: DecisionSelector = ALL_DECISIONS) -> str:
    """Return the path of a watch of decisions that starts after the resource version `version`."""
    query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, **selector.query}
    return f"{_API}/{_namespace_prefix(namespace)}decisions{_query_string(query)}"


def cluster_list(resource: str, *, continued: str = "") -> str:
    """Return the path of a page of 500 objects of the whole cluster; `continued` is the token of the page before.

    `resource` has the form VERSION/PLURAL of the core API, such as v1/pods.
    """
    return f"/api/{resource}{_query_string({'limit': 500, 'continue': continued or None})}"


def cluster_pods(namespace: str) -> str:
    """Return the API server's path of the first 500 pods of a namespace."""
    return f"/api/v1/{_namespace_prefix(namespace)}pods?limit=500"


def cluster_watch(resource: str, version: str) -> str:
    """Return the path of a watch of the same objects, from a resource version on."""
    return (
        f"/api/{resource}{_query_string({'watch': 'true', 'allowWatchBookmarks': 'true', 'resourceVersion': version})}"
    )


def cluster_pod(namespace: str, pod: str) -> str:
    """Return the API server's path of a Pod object."""
    return f"/api/v1/namespaces/{_escape(namespace)}/pods/{_escape(pod)}"


def refused_pods(namespace: str) -> str:
    """Return the path of the first event that a controller could not create a pod; "" means all namespaces."""
    of = {"fieldSelector": "reason=FailedCreate", "limit": 1}
    return f"/api/v1/{_namespace_prefix(namespace)}events{_query_string(of)}"


def unassigned_pods(namespace: str, *, labels: str = "") -> str:
    """Return the API server's path of the list of pending pods without a node.

    If `namespace` is empty, it covers all namespaces. `labels` is a label selector.
    """
    of = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "labelSelector": labels or None, "limit": 500}
    return f"/api/v1/{_namespace_prefix(namespace)}pods{_query_string(of)}"


def pods_on_node(node: str) -> str:
    """Return the API server's path of the list of the pods on a node that have not ended."""
    selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
    return f"/api/v1/pods{_query_string({'fieldSelector': selector, 'limit': 500})}"


def nodes_by_hostname(names: Sequence[str]) -> str:
    """Return the API server's path of the list of the nodes with these names.

    It selects by the hostname label, because a field selector cannot hold several names.
    """
    selector = f"kubernetes.io/hostname in ({','.join(names)})"
    return f"/api/v1/nodes{_query_string({'labelSelector': selector, 'limit': 500})}"


def clusters() -> str:
    """Return the path of the list of clusters whose records the decisions service has."""
    return f"{_API}/clusters"


def select_cluster(path: str, cluster: str) -> str:
    """Return the path with the parameter that makes the answer be about a cluster, given by ID or name.

    If `cluster` is empty, the path is unchanged.
    """
    if not cluster:
        return path
    return f"{path}{'&' if '?' in path else '?'}cluster={_escape(cluster)}"


def select_cluster_of_review(document: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """Return a review with the cluster that it is about, given by ID or name, or unchanged if `cluster` is empty."""
    return {**document, "spec": {**document["spec"], "cluster": cluster}} if cluster else dict(document)


def service_version() -> str:
    """Return the path of the decisions service's version."""
    return f"{_API}/serviceversions"


def web_pages() -> str:
    """Return the path of the decisions service's web pages. Their links are relative to it."""
    return f"{_API}/pages/"


def api_group() -> str:
    """Return the API server's path of the decisions service's API group, which every user may read.

    It exists if the service is registered as an APIService.
    """
    return _API


def _namespace_prefix(namespace: str) -> str:
    return f"namespaces/{_escape(namespace)}/" if namespace else ""


def _escape(name: str) -> str:
    if _UNRESERVED.issuperset(name):
        return name
    from urllib.parse import quote  # here, because few names need it and it takes 6 ms

    return quote(name, safe="")


def _query_string(parameters: Mapping[str, object]) -> str:
    query = "&".join(f"{name}={_escape(str(value))}" for name, value in parameters.items() if value is not None)
    return f"?{query}" if query else ""
