"""The questions that the decisions service answers, as paths.

Owns: paths and their escaping. Does not own: sending them, or the documents that come back.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~")  # stand for themselves
_API = "/apis/herodotus.dev/v1alpha1"


def pod_explanation(
    namespace: str, pod: str, *, attempt: int | None = None, every_node: bool = False, node: str = ""
) -> str:
    """What happened to a pod, in its last attempt or in a given one."""
    query = {"attempt": attempt, "all": "true" if every_node else None, "node": node or None}
    return f"{_API}/namespaces/{_part(namespace)}/podexplanations/{_part(pod)}{_query(query)}"


def decision(namespace: str, pod: str, *, attempt: int | None = None) -> str:
    """The whole record of an attempt."""
    return f"{_API}/namespaces/{_part(namespace)}/decisions/{_part(pod)}{_query({'attempt': attempt})}"


def pod_history(namespace: str, pod: str) -> str:
    """A pod's attempts, and what changed between them."""
    return f"{_API}/namespaces/{_part(namespace)}/podhistories/{_part(pod)}"


def pod_comparison(namespace: str, pod: str, other: str) -> str:
    """Two pods side by side."""
    return f"{_API}/namespaces/{_part(namespace)}/podcomparisons/{_part(pod)}{_query({'with': other})}"


def node_comparison(namespace: str, pod: str, a: str, b: str, *, attempt: int | None = None) -> str:
    """Two nodes for one pod."""
    query = _query({"a": a, "b": b, "attempt": attempt})
    return f"{_API}/namespaces/{_part(namespace)}/nodecomparisons/{_part(pod)}{query}"


def node_history(node: str, *, since_s: float) -> str:
    """What a node was considered for, and how it fared."""
    return f"{_API}/nodehistories/{_part(node)}{_query({'since': round(since_s)})}"


def pending(namespace: str, *, labels: str = "") -> str:
    """The pods that wait; of every namespace where `namespace` is empty. `labels`: a selector, here and below."""
    return f"{_API}/{_within(namespace)}pendingpods{_query({'labelSelector': labels or None})}"


def workload(namespace: str, kind: str, name: str, *, since_s: float, labels: str = "") -> str:
    """Where a workload's pods went."""
    query = _query({"since": round(since_s), "labelSelector": labels or None})
    return f"{_API}/namespaces/{_part(namespace)}/workloadplacements/{_part(f'{kind}.{name}')}{query}"


def balance(*, since_s: float, weights: str, profile: str, decisions: int | None, labels: str = "") -> str:
    """Which nodes win, and with which weights others would."""
    query = {"since": round(since_s), "weights": weights or None, "profile": profile or None, "limit": decisions}
    return f"{_API}/balances{_query(query | {'labelSelector': labels or None})}"


def agreements(namespace: str, *, since_s: float, scheduler: str, labels: str = "") -> str:
    """How other schedulers' outcomes compare with what was reconstructed; everywhere where `namespace` is empty."""
    query = {"since": round(since_s), "profile": scheduler or None, "labelSelector": labels or None}
    return f"{_API}/{_within(namespace)}agreements{_query(query)}"


class Selected:
    """Which decisions: by their fields, and by their pods' labels. Empty: all."""

    def __init__(self, fields: str = "", labels: str = "") -> None:
        self.query = {"fieldSelector": fields or None, "labelSelector": labels or None}


EVERY = Selected()


def decisions(namespace: str, *, selected: Selected = EVERY, limit: int) -> str:
    """The newest decisions; of every namespace where `namespace` is empty."""
    return f"{_API}/{_within(namespace)}decisions{_query({'limit': limit, **selected.query})}"


def reviews(namespace: str) -> str:
    """Where pods that nobody creates are asked about."""
    return f"{_API}/namespaces/{_part(namespace)}/placementreviews"


def live_object(resource: str, namespace: str, name: str) -> str:
    """An object itself, of the API server. `resource`: its API version and plural, such as `apps/v1/deployments`."""
    version, _, plural = resource.rpartition("/")
    root = "api" if "/" not in version else "apis"
    return f"/{root}/{version}/namespaces/{_part(namespace)}/{plural}/{_part(name)}"


def nodes() -> str:
    """Nodes that have a history."""
    return f"{_API}/nodehistories?limit=500"


def namespaces() -> str:
    """Of the API server and not of the decisions service."""
    return "/api/v1/namespaces"


def watched(namespace: str, version: str, *, selected: Selected = EVERY) -> str:
    """What comes and changes behind a version of `decisions`, as a stream."""
    query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, **selected.query}
    return f"{_API}/{_within(namespace)}decisions{_query(query)}"


def live_pod(namespace: str, pod: str) -> str:
    """The pod itself, of the API server and not of the decisions service."""
    return f"/api/v1/namespaces/{_part(namespace)}/pods/{_part(pod)}"


def unassigned_pods(namespace: str, *, labels: str = "") -> str:
    """Pods without a node, of the API server; of every namespace where `namespace` is empty."""
    of = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "labelSelector": labels or None, "limit": 500}
    return f"/api/v1/{_within(namespace)}pods{_query(of)}"


def nodes_named(names: Sequence[str]) -> str:
    """Nodes of the API server, by the label that has their name; a selector of names cannot hold several."""
    selector = f"kubernetes.io/hostname in ({','.join(names)})"
    return f"/api/v1/nodes{_query({'labelSelector': selector, 'limit': 500})}"


def version() -> str:
    """The version of the decisions service."""
    return f"{_API}/serviceversions"


def pages() -> str:
    """The web pages, which ask everything else relative to this."""
    return f"{_API}/pages/"


def group() -> str:
    """Of the API server: which resources an APIService serves. Every user of a cluster may read it."""
    return _API


def _within(namespace: str) -> str:
    return f"namespaces/{_part(namespace)}/" if namespace else ""


def _part(name: str) -> str:
    if _PLAIN.issuperset(name):
        return name
    from urllib.parse import quote  # here, because hardly a name needs it, and it takes 6 ms

    return quote(name, safe="")


def _query(parameters: Mapping[str, object]) -> str:
    given = "&".join(f"{name}={_part(str(value))}" for name, value in parameters.items() if value is not None)
    return f"?{given}" if given else ""
