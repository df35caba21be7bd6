"""Objects of the cluster as one user may read them, for the answers that look at more than records.

Owns: what is read by kind and name, that each object is read once, and the difference between an object that does not
exist and one that cannot be read. Does not own: requests (the caller's `Fetch`), what the objects mean. Pure.

Invariant: an object that cannot be read is never taken for absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

Json = dict[str, Any]
# GETs a path of the API server; returns the HTTP status code, 0 if there was no response, and the document
Fetch = Callable[[str], tuple[int, Json]]
MAX_LISTED: Final = 500  # objects of a list that are read
# What kube-scheduler says of a pod that it preempts: the UID of the preemptor follows.
_PREEMPTED_BY: Final = "Preempted by pod "
_OK, _FORBIDDEN, _NOT_FOUND = 200, 403, 404

Missing = Literal["", "NotFound", "Forbidden", "Unknown"]


class _Resource(NamedTuple):
    """Where the API server serves a kind."""

    root: str
    plural: str
    is_namespaced: bool = True


_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_RESOURCES: Final = {
    "Pod": _Resource("/api/v1", "pods"),
    "Event": _Resource("/api/v1", "events"),
    "Namespace": _Resource("/api/v1", "namespaces", is_namespaced=False),
    "Node": _Resource("/api/v1", "nodes", is_namespaced=False),
    "Service": _Resource("/api/v1", "services"),
    "EndpointSlice": _Resource("/apis/discovery.k8s.io/v1", "endpointslices"),
    "PersistentVolumeClaim": _Resource("/api/v1", "persistentvolumeclaims"),
    "PersistentVolume": _Resource("/api/v1", "persistentvolumes", is_namespaced=False),
    "ConfigMap": _Resource("/api/v1", "configmaps"),
    "Secret": _Resource("/api/v1", "secrets"),
    "ServiceAccount": _Resource("/api/v1", "serviceaccounts"),
    "ResourceQuota": _Resource("/api/v1", "resourcequotas"),
    "LimitRange": _Resource("/api/v1", "limitranges"),
    "ReplicationController": _Resource("/api/v1", "replicationcontrollers"),
    "Deployment": _Resource("/apis/apps/v1", "deployments"),
    "ReplicaSet": _Resource("/apis/apps/v1", "replicasets"),
    "StatefulSet": _Resource("/apis/apps/v1", "statefulsets"),
    "DaemonSet": _Resource("/apis/apps/v1", "daemonsets"),
    "Job": _Resource("/apis/batch/v1", "jobs"),
    "CronJob": _Resource("/apis/batch/v1", "cronjobs"),
    "HorizontalPodAutoscaler": _Resource("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    "VerticalPodAutoscaler": _Resource("/apis/autoscaling.k8s.io/v1", "verticalpodautoscalers"),
    "MutatingWebhookConfiguration": _Resource(_ADMISSION, "mutatingwebhookconfigurations", is_namespaced=False),
    "ValidatingWebhookConfiguration": _Resource(_ADMISSION, "validatingwebhookconfigurations", is_namespaced=False),
    "StorageClass": _Resource("/apis/storage.k8s.io/v1", "storageclasses", is_namespaced=False),
    "CSIDriver": _Resource("/apis/storage.k8s.io/v1", "csidrivers", is_namespaced=False),
    "CSINode": _Resource("/apis/storage.k8s.io/v1", "csinodes", is_namespaced=False),
    "CSIStorageCapacity": _Resource("/apis/storage.k8s.io/v1", "csistoragecapacities"),
    "VolumeAttachment": _Resource("/apis/storage.k8s.io/v1", "volumeattachments", is_namespaced=False),
    "PriorityClass": _Resource("/apis/scheduling.k8s.io/v1", "priorityclasses", is_namespaced=False),
    "PodGroup": _Resource("/apis/scheduling.k8s.io/v1alpha2", "podgroups"),
    "PodDisruptionBudget": _Resource("/apis/policy/v1", "poddisruptionbudgets"),
    "ResourceClaim": _Resource("/apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": _Resource("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    "DeviceClass": _Resource("/apis/resource.k8s.io/v1", "deviceclasses", is_namespaced=False),
    "ResourceSlice": _Resource("/apis/resource.k8s.io/v1", "resourceslices", is_namespaced=False),
    "RuntimeClass": _Resource("/apis/node.k8s.io/v1", "runtimeclasses", is_namespaced=False),
    "Workload": _Resource("/apis/kueue.x-k8s.io/v1beta1", "workloads"),  # later versions have the same conditions
    "NodePool": _Resource("/apis/karpenter.sh/v1", "nodepools", is_namespaced=False),
    "Machine": _Resource("/apis/cluster.x-k8s.io/v1beta1", "machines"),
    "NodeClaim": _Resource("/apis/karpenter.sh/v1", "nodeclaims", is_namespaced=False),
    "Lease": _Resource("/apis/coordination.k8s.io/v1", "leases"),
}


class ObjectLookup(NamedTuple):
    """The result of reading an object: the object, or why there is none."""

    object: Json | None
    missing: Missing

    @property
    def is_absent(self) -> bool:
        """Whether the API server says that there is no such object."""
        return self.missing == "NotFound"


class ObjectList(NamedTuple):
    """The result of listing objects: at most MAX_LISTED items, or why there are none."""

    items: list[Json]
    missing: Missing
    is_complete: bool


class ClusterObjects:
    """The objects of one cluster. Each is read when it is first needed, and then kept.

    `unread` has the kinds that the user may not read, or that could not be read, in the order of the attempts.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._responses: dict[str, tuple[int, Json]] = {}
        self.unread: dict[str, Missing] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> ObjectLookup:
        """Return an object. `namespace` is that of the asker, and of no meaning for kinds without namespaces.

        Raises KeyError for a kind that this module does not know.
        """
        code, document = self._read(f"{_path(kind, namespace)}/{quote(name, safe='')}")
        missing = self._classify(kind, code)
        return ObjectLookup(None if missing else document, missing)

    def list_objects(
        self,
        kind: str,
        namespace: str = "",
        *,
        fields: str = "",
        labels: str = "",
        pages: int = 1,
        is_optional: bool = False,
    ) -> ObjectList:
        """Return objects of a kind, of all namespaces if `namespace` is empty.

        `fields` and `labels` are selectors. At most `pages` pages of MAX_LISTED objects are read. A kind that the
        server does not serve has no objects. A kind that only adds to an answer is optional: `unread` then lacks it.
        Raises KeyError for a kind that this module does not know.
        """
        query = {"fieldSelector": fields, "labelSelector": labels, "limit": str(MAX_LISTED)}
        items: list[Json] = []
        for _ in range(pages):
            selected = urlencode({key: value for key, value in query.items() if value})
            code, document = self._read(f"{_path(kind, namespace)}?{selected}")
            missing = self._classify(kind, code, is_noted=not is_optional)
            if missing:  # a token of an earlier page may have expired: what was read remains
                known = "" if missing == "NotFound" or items else missing
                return ObjectList(items, known, missing == "NotFound" and not items)
            page = (item for item in document.get("items") or () if isinstance(item, dict))
            items += map(_name_preemptor, page) if kind == "Event" else page
            query["continue"] = (document.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                break
        return ObjectList(items, "", not query["continue"])

    def list_pods_of_node(self, node: str, namespace: str) -> ObjectList:
        """Return the pods of a node: of all namespaces, or of `namespace` alone if those may not be listed."""
        listed = self.list_objects("Pod", fields=f"spec.nodeName={node}")
        return self.list_objects("Pod", namespace, fields=f"spec.nodeName={node}") if listed.missing else listed

    def list_names(self, kind: str, namespace: str = "") -> list[str]:
        """Return the names of the objects of a kind, as far as they can be read."""
        return [str(each["metadata"]["name"]) for each in self.list_objects(kind, namespace).items]

    def list_namespaces_of(self, kind: str, name: str, most: int) -> list[str]:
        """Return the first namespaces that have an object of a name; [] if not all can be listed, which is not noted.

        The objects are read whole, and a ConfigMap may have a megabyte.
        """
        query = urlencode({"fieldSelector": f"metadata.name={name}", "limit": str(most)})
        code, document = self._read(f"{_path(kind, '')}?{query}")
        items = document.get("items") or () if code == _OK else ()
        return sorted(str(each["metadata"]["namespace"]) for each in items)

    def is_served(self, kind: str) -> bool:
        """Return whether the API server serves a kind, as far as is known: without it, no object of it can be read."""
        query = urlencode({"limit": "1"})
        return self._read(f"{_path(kind, '')}?{query}")[0] != _NOT_FOUND

    def is_absent(self, kind: str, name: str, namespace: str = "") -> bool:
        """Return whether the API server serves a kind and says that it has no such object."""
        return self.get(kind, name, namespace).is_absent and self.is_served(kind)

    def list_events(self, involved: Json) -> list[Json]:
        """Return the Events about an object, oldest first; [] if none can be read.

        Its kind and name select them. An event with the UID of an earlier object of the same name does not count,
        unless `involved` has no UID.
        """
        meta = involved["metadata"]
        selector = f"involvedObject.name={meta['name']}"
        if involved.get("kind"):
            selector += f",involvedObject.kind={involved['kind']}"
        listed = self.list_objects("Event", meta.get("namespace") or "default", fields=selector).items
        uids = (None, "", meta.get("uid"))
        events = [e for e in listed if not meta.get("uid") or (e.get("involvedObject") or {}).get("uid") in uids]
        return sorted(events, key=read_event_time)

    def _read(self, path: str) -> tuple[int, Json]:
        if path not in self._responses:
            self._responses[path] = self._fetch(path)
        return self._responses[path]

    def _classify(self, kind: str, code: int, *, is_noted: bool = True) -> Missing:
        """Return why a response has no object, "" if it has one, and note a kind that could not be read."""
        if code in (_OK, _NOT_FOUND):
            return "" if code == _OK else "NotFound"
        missing: Missing = "Forbidden" if code == _FORBIDDEN else "Unknown"
        if is_noted:
            self.unread.setdefault(kind, missing)
        return missing


def no_objects() -> ClusterObjects:
    """Return a cluster of which nothing can be read."""
    return ClusterObjects(lambda _path: (0, {}))


def _name_preemptor(event: Json) -> Json:
    """Return an event in whose message a pod that kube-scheduler names by its UID alone has its name, if it is related.

    People know no UIDs, and kubectl describe shows the message without the related object.
    """
    related, message = event.get("related") or {}, str(event.get("message") or "")
    if related.get("kind") != "Pod" or not related.get("uid") or not message.startswith(_PREEMPTED_BY):
        return event
    name = f"{related.get('namespace')}/{related.get('name')}"
    return {**event, "message": message.replace(str(related["uid"]), name, 1)}


def read_event_time(event: Json) -> str:
    """Return the time of an event's last occurrence, as a timestamp; "" if it has none."""
    series = event.get("series") or {}
    times: Iterable[Any] = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    return next((str(time) for time in times if time), "")


def read_first_time(event: Json) -> str:
    """Return the time of an event's first occurrence, as a timestamp; "" if it has none."""
    meta = event.get("metadata") or {}
    times: Iterable[Any] = (event.get("firstTimestamp"), event.get("eventTime"), meta.get("creationTimestamp"))
    return next((str(time) for time in times if time), "")


def count_event(event: Json) -> int:
    """Return how often an event occurred."""
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def _path(kind: str, namespace: str) -> str:
    """Return the path of the list of a kind's objects."""
    resource = _RESOURCES[kind]
    within = f"namespaces/{quote(namespace, safe='')}/" if resource.is_namespaced and namespace else ""
    return f"{resource.root}/{within}{resource.plural}"
