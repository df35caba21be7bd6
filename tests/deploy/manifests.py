"""The plain manifests, and the rights that each request to the API server needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scheduler.engine.objects.autoscaling import AUTOSCALING_KINDS, EVENT_KIND, STATUS_CONFIG_MAP
from scheduler.engine.objects.watched_kinds import ALL_KINDS
from tests.processes import ROOT

DEPLOY = ROOT / "deploy"


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


MANIFEST = read(DEPLOY / "herodotus-scheduler.yml")


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (o for o in MANIFEST if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def container(deployment: str) -> dict[str, Any]:
    (found,) = named("Deployment", deployment)["spec"]["template"]["spec"]["containers"]
    return dict(found)


@dataclass(frozen=True)
class Right:
    """What one request needs. `role` is the one of the scheduler's roles that grants it."""

    verb: str
    resource: str
    group: str = ""
    name: str = ""  # where the role gives it for this object alone
    role: tuple[str, str] = ("ClusterRole", "herodotus-scheduler")


def watched(path: str) -> list[Right]:
    *start, _, resource = path.strip("/").split("/")
    group = start[1] if start[0] == "apis" else ""
    return [Right("list", resource, group), Right("watch", resource, group)]


DRA = "resource.k8s.io"


LEASE: dict[str, Any] = {"group": "coordination.k8s.io", "role": ("Role", "herodotus-scheduler")}


# Every place in the scheduler that asks the API server for something, and what it needs for that.
# None: what every authenticated client may read, what kube-system's own role gives, or what a person asks.
REQUESTS: dict[tuple[str, str, str], list[Right] | None] = {
    ("scheduler/live/cache_debugger.py", "write_dump_and_mismatches", "list_objects"): [
        Right("list", "nodes"),
        Right("list", "pods"),
    ],
    ("scheduler/commands/process.py", "read_version", "get"): None,  # what may not be read is left out
    ("scheduler/commands/process.py", "read", "get"): None,  # likewise
    ("scheduler/reviews/reviewer.py", "_build_trial", "get"): [Right("list", "priorityclasses", "scheduling.k8s.io")],
    ("scheduler/reviews/reviewer.py", "_get", "get"): [
        *(Right("list", kind.plural, kind.api_group) for kind in (*AUTOSCALING_KINDS, EVENT_KIND)),
        Right("get", "configmaps", name=STATUS_CONFIG_MAP),
    ],
    ("scheduler/offline/snapshots/taking.py", "_get", "get"): None,  # likewise with an operator's own rights
    ("herodotus_kube/delegated_auth.py", "_review_token", "review"): [
        Right("create", "tokenreviews", "authentication.k8s.io")
    ],
    ("herodotus_kube/delegated_auth.py", "_review_access", "review"): [
        Right("create", "subjectaccessreviews", "authorization.k8s.io")
    ],
    ("herodotus_kube/published_authorities.py", "read_client_authorities", "get_object"): None,
    ("herodotus_kube/published_authorities.py", "read_front_proxy", "get_object"): None,
    ("herodotus_kube/published_authorities.py", "refresh_service_authority", "get_object"): [
        Right("get", "configmaps", name="herodotus-endpoint-ca", role=("Role", "herodotus-scheduler-ca"))
    ],
    ("herodotus_kube/discovery.py", "fetch_server_version", "get"): None,
    ("herodotus_kube/discovery.py", "fetch_cluster_id", "get_object"): [Right("get", "namespaces", name="kube-system")],
    ("herodotus_kube/discovery.py", "find_absent_groups", "get"): None,
    ("herodotus_kube/watch.py", "_list", "get"): [
        right
        for path in ("/api/v1/nodes", "/api/v1/pods", *(kind.path for kind in ALL_KINDS))
        for right in watched(path)
    ],
    ("herodotus_kube/watch.py", "_watch", "stream"): [],  # the same
    ("scheduler/offline/snapshots/taking.py", "items", "list_objects"): None,  # likewise
    ("scheduler/live/api_writes.py", "_send_binding", "send"): [Right("create", "pods/binding")],
    ("scheduler/live/unknown_bindings.py", "read_result", "get"): [Right("get", "pods")],
    ("scheduler/live/api_writes.py", "evict", "delete"): [Right("delete", "pods")],
    ("scheduler/live/api_writes.py", "bind_volume", "patch"): [Right("patch", "persistentvolumes")],
    ("scheduler/live/api_writes.py", "select_node", "patch"): [Right("patch", "persistentvolumeclaims")],
    ("scheduler/live/api_writes.py", "patch_claim", "patch"): [Right("patch", "resourceclaims", DRA)],
    # The API server checks the subresource binding too when an allocation or a reservation changes.
    ("scheduler/live/api_writes.py", "patch_claim_status", "patch"): [
        Right("patch", "resourceclaims/status", DRA),
        Right("patch", "resourceclaims/binding", DRA),
    ],
    ("scheduler/live/api_writes.py", "read_claim", "get"): [Right("get", "resourceclaims", DRA)],
    ("scheduler/live/api_writes.py", "create_claim", "post"): [Right("create", "resourceclaims", DRA)],
    ("scheduler/live/api_writes.py", "delete_claim", "patch"): [Right("patch", "resourceclaims", DRA)],
    ("scheduler/live/api_writes.py", "delete_claim", "delete"): [Right("delete", "resourceclaims", DRA)],
    ("scheduler/live/api_writes.py", "_patch_status", "patch"): [Right("patch", "pods/status")],
    ("scheduler/live/api_writes.py", "_write_group_condition", "patch"): [
        Right("patch", "podgroups/status", "scheduling.k8s.io")
    ],
    ("scheduler/live/events.py", "_send", "send"): [
        Right("create", "events", "events.k8s.io"),
        Right("patch", "events", "events.k8s.io"),
    ],
    ("herodotus_kube/lease.py", "_try_release", "put"): [
        Right("update", "leases", name="herodotus-scheduler", **LEASE)
    ],
    ("herodotus_kube/lease.py", "_try_acquire_or_renew", "post"): [Right("create", "leases", **LEASE)],
    ("herodotus_kube/lease.py", "_try_acquire_or_renew", "put"): [
        Right("update", "leases", name="herodotus-scheduler", **LEASE)
    ],
    ("herodotus_kube/lease.py", "_get", "get_object"): [Right("get", "leases", name="herodotus-scheduler", **LEASE)],
}
