"""The table of supported resources: their verbs, subresources, field selectors and update rules.

Does not own: what the verbs do. Invariant: a resource that is absent from the table is answered with 404, a verb that
is absent from its row with 405. The two rows of Event share one storage, in core/v1 form.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
NO_COLLECTION = tuple(verb for verb in ALL if verb != "deletecollection")
CREATE = ("create",)
STATUS = {"status": ("get", "patch", "update")}

_EVENT_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_INVOLVED = tuple((f"involvedObject.{f}", f"involvedObject.{f}") for f in _EVENT_REFERENCE)
_REGARDING = tuple((f"regarding.{f}", f"involvedObject.{f}") for f in _EVENT_REFERENCE)


@dataclass(frozen=True)
class ApiResource:
    """One row of the table of supported resources: a kind in one API group and version, and what it supports."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL
    subresources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Name and verbs of each subresource."""
    fields: tuple[tuple[str, str], ...] = ()
    """Field selectors besides metadata.name and metadata.namespace: label, and path in the stored object."""
    categories: tuple[str, ...] = ()
    create_on_update: bool = False
    unconditional_update: bool = True
    """Whether a PUT without resourceVersion is accepted."""

    @property
    def api_version(self) -> str:
        """Return the `apiVersion` of objects of this resource."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return the resource name for error messages: the plural name, followed by the group if there is one."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Return the singular resource name, such as `pod`."""
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        """Return whether clients can write the status only through the status subresource."""
        return any(name == "status" for name, _ in self.subresources)

    @property
    def type_meta(self) -> dict[str, str]:
        """Return the fields `kind` and `apiVersion` of objects of this resource."""
        return {"kind": self.kind, "apiVersion": self.api_version}


def _same(*paths: str) -> tuple[tuple[str, str], ...]:
    return tuple((p, p) for p in paths)


def _subs(**verbs: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(verbs.items())


_STATUS = tuple(STATUS.items())
_SCALED = _subs(scale=STATUS["status"], **STATUS)
_PROXY = ("create", "delete", "get", "patch", "update")
_POD_FIELDS = _same(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (*_INVOLVED, *_same("reason", "reportingComponent", "type"), ("source", "source.component"))

# Fields whose absence means false.
BOOLEAN_FIELDS = frozenset({"spec.hostNetwork", "spec.unschedulable"})

_APPS = "apps"
_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_DRA = "resource.k8s.io"
_EVENTS = "events.k8s.io"

KINDS: tuple[ApiResource, ...] = (
    ApiResource("Binding", "bindings", verbs=CREATE),
    ApiResource("ConfigMap", "configmaps", short_names=("cm",)),
    ApiResource("Endpoints", "endpoints", short_names=("ep",), create_on_update=True),
    ApiResource("Event", "events", short_names=("ev",), fields=_EVENT_FIELDS, create_on_update=True),
    ApiResource("LimitRange", "limitranges", short_names=("limits",)),
    ApiResource("Namespace", "namespaces", namespaced=False, short_names=("ns",), verbs=NO_COLLECTION,
                subresources=_STATUS, fields=_same("status.phase")),
    ApiResource("Node", "nodes", namespaced=False, short_names=("no",), subresources=_STATUS,
                fields=_same("spec.unschedulable")),
    ApiResource("PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",), subresources=_STATUS),
    ApiResource("PersistentVolumeClaim", "persistentvolumeclaims", short_names=("pvc",), subresources=_STATUS),
    ApiResource("Pod", "pods", short_names=("po",), categories=("all",), fields=_POD_FIELDS,
                subresources=_subs(binding=CREATE, eviction=CREATE, **STATUS)),
    ApiResource("ResourceQuota", "resourcequotas", short_names=("quota",), subresources=_STATUS),
    ApiResource("ReplicationController", "replicationcontrollers", short_names=("rc",), categories=("all",),
                subresources=_STATUS),
    ApiResource("Secret", "secrets", fields=_same("type")),
    ApiResource("Service", "services", short_names=("svc",), categories=("all",),
                subresources=_subs(proxy=_PROXY, **STATUS), fields=_same("spec.clusterIP", "spec.type")),
    ApiResource("ServiceAccount", "serviceaccounts", short_names=("sa",)),
    ApiResource("ControllerRevision", "controllerrevisions", _APPS),
    ApiResource("DaemonSet", "daemonsets", _APPS, short_names=("ds",), categories=("all",), subresources=_STATUS),
    ApiResource("Deployment", "deployments", _APPS, short_names=("deploy",), categories=("all",), subresources=_SCALED),
    ApiResource("ReplicaSet", "replicasets", _APPS, short_names=("rs",), categories=("all",), subresources=_SCALED),
    ApiResource("StatefulSet", "statefulsets", _APPS, short_names=("sts",), categories=("all",), subresources=_SCALED),
    ApiResource("SelfSubjectReview", "selfsubjectreviews", "authentication.k8s.io", namespaced=False, verbs=CREATE),
    ApiResource("SelfSubjectAccessReview", "selfsubjectaccessreviews", "authorization.k8s.io", namespaced=False,
                verbs=CREATE),
    ApiResource("HorizontalPodAutoscaler", "horizontalpodautoscalers", "autoscaling", "v2", short_names=("hpa",),
                categories=("all",), subresources=_STATUS),
    ApiResource("CronJob", "cronjobs", "batch", short_names=("cj",), categories=("all",), subresources=_STATUS),
    ApiResource("Job", "jobs", "batch", categories=("all",), subresources=_STATUS),
    ApiResource("Lease", "leases", "coordination.k8s.io", create_on_update=True, unconditional_update=False),
    ApiResource("EndpointSlice", "endpointslices", "discovery.k8s.io"),
    ApiResource("Event", "events", _EVENTS, short_names=("ev",), fields=(*_EVENT_FIELDS, *_REGARDING,
                ("reportingController", "reportingComponent")), create_on_update=True),
    ApiResource("NetworkPolicy", "networkpolicies", "networking.k8s.io", short_names=("netpol",)),
    ApiResource("RuntimeClass", "runtimeclasses", "node.k8s.io", namespaced=False),
    ApiResource("PodDisruptionBudget", "poddisruptionbudgets", "policy", short_names=("pdb",), subresources=_STATUS,
                unconditional_update=False),
    ApiResource("ClusterRole", "clusterroles", _RBAC, namespaced=False, create_on_update=True),
    ApiResource("ClusterRoleBinding", "clusterrolebindings", _RBAC, namespaced=False, create_on_update=True),
    ApiResource("Role", "roles", _RBAC, create_on_update=True),
    ApiResource("RoleBinding", "rolebindings", _RBAC, create_on_update=True),
    ApiResource("NodeClaim", "nodeclaims", "karpenter.sh", namespaced=False, subresources=_STATUS),
    ApiResource("NodePool", "nodepools", "karpenter.sh", namespaced=False, subresources=_STATUS),
    ApiResource("PriorityClass", "priorityclasses", "scheduling.k8s.io", namespaced=False, short_names=("pc",)),
    ApiResource("PodGroup", "podgroups", "scheduling.k8s.io", "v1alpha2", subresources=_STATUS),
    ApiResource("Workload", "workloads", "scheduling.k8s.io", "v1alpha2"),
    ApiResource("DeviceClass", "deviceclasses", _DRA, namespaced=False),
    ApiResource("ResourceClaim", "resourceclaims", _DRA, subresources=_STATUS),
    ApiResource("ResourceClaimTemplate", "resourceclaimtemplates", _DRA),
    ApiResource("ResourceSlice", "resourceslices", _DRA, namespaced=False,
                fields=_same("spec.nodeName", "spec.driver")),
    ApiResource("CSIDriver", "csidrivers", _STORAGE, namespaced=False),
    ApiResource("CSINode", "csinodes", _STORAGE, namespaced=False),
    ApiResource("CSIStorageCapacity", "csistoragecapacities", _STORAGE),
    ApiResource("StorageClass", "storageclasses", _STORAGE, namespaced=False, short_names=("sc",)),
    ApiResource("VolumeAttachment", "volumeattachments", _STORAGE, namespaced=False, subresources=_STATUS),
)  # fmt: skip

BY_RESOURCE: dict[tuple[str, str, str], ApiResource] = {(k.group, k.version, k.plural): k for k in KINDS}
BY_TYPE: dict[tuple[str, str], ApiResource] = {(k.api_version, k.kind): k for k in KINDS}

POD = BY_TYPE["v1", "Pod"]
NODE = BY_TYPE["v1", "Node"]
NAMESPACE = BY_TYPE["v1", "Namespace"]
EVENT = BY_TYPE["v1", "Event"]
EVENT_V1 = BY_TYPE["events.k8s.io/v1", "Event"]
LEASE = BY_TYPE["coordination.k8s.io/v1", "Lease"]
RESOURCE_QUOTA = BY_TYPE["v1", "ResourceQuota"]
PRIORITY_CLASS = BY_TYPE["scheduling.k8s.io/v1", "PriorityClass"]
POD_DISRUPTION_BUDGET = BY_TYPE["policy/v1", "PodDisruptionBudget"]
SERVICE = BY_TYPE["v1", "Service"]
ENDPOINTS = BY_TYPE["v1", "Endpoints"]
CONTROLLER_REVISION = BY_TYPE["apps/v1", "ControllerRevision"]
ENDPOINT_SLICE = BY_TYPE["discovery.k8s.io/v1", "EndpointSlice"]


def resource_for_type(api_version: str, kind: str) -> ApiResource:
    """Return the supported resource with this apiVersion and kind; raise KeyError with a message if there is none."""
    try:
        return BY_TYPE[api_version, kind]
    except KeyError:
        raise KeyError(f"{api_version} {kind} is not in the table of supported kinds") from None


def resource_for_name(name: str) -> ApiResource:
    """Return the supported resource with this kind, plural, singular or short name; `Event` is the core/v1 one.

    Raises KeyError with a message if there is none.
    """
    for row in KINDS:
        if name in (row.kind, row.plural, row.singular, *row.short_names):
            return row
    raise KeyError(f"{name} is not in the table of supported kinds")
