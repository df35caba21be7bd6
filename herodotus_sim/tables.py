"""Server-side printing: converts objects to the `Table` that kubectl requests, with kube-apiserver's columns.

Does not own: what is listed. Invariant: a row has one cell for each column of its table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from herodotus_sim.kinds import EVENT, NAMESPACE, NODE, POD, SERVICE, ApiResource
from herodotus_sim.selectors import selector_text
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object, SimulatedRequest, encode

_TABLE = re.compile(r"as=Table\b")
_SUPPORTED = re.compile(r"v=v1\b")

Cells = Callable[[Object], list[Any]]


@dataclass(frozen=True)
class TableColumns:
    """The columns of a kind's Table, and the function that computes the cells of an object's row.

    The columns in `wide` are shown only with `-o wide`.
    """

    columns: tuple[str, ...]
    cells: Cells
    wide: frozenset[str] = frozenset()


def requested_row_object(request: SimulatedRequest) -> str | None:
    """Return the parameter `includeObject` of a request for a Table: "None", "Metadata" (the default) or "Object".

    It determines how much of its object a row includes. Return None if the Accept header does not prefer a Table.
    """
    first = request.headers.get("accept", "").partition(",")[0]
    if not (_TABLE.search(first) and _SUPPORTED.search(first)):
        return None
    return request.query.get("includeObject", "Metadata")


def convert_to_table(kind: ApiResource, versions: list[StoredObject], metadata: Object, row_object: str) -> Object:
    """Return objects of one kind as a `Table` with a row for each; `metadata` is the table's metadata.

    `row_object` is as in `requested_row_object`.
    """
    layout = LAYOUTS.get(kind.kind, GENERIC)
    columns = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" and name not in layout.wide else "",
            "description": "",
            "priority": 1 if name in layout.wide else 0,
        }
        for name in layout.columns
    ]
    rows = [{"cells": layout.cells(v.obj), **_row_object(kind, v, row_object)} for v in versions]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**head, "columnDefinitions": columns, "rows": rows}


def row_encoder(kind: ApiResource, row_object: str) -> Callable[[StoredObject], bytes]:
    """Return a function that encodes an object for a watch as a Table with one row, in JSON.

    `row_object` is as in `requested_row_object`.
    """

    def encoded(version: StoredObject) -> bytes:
        metadata = {"resourceVersion": version.obj["metadata"]["resourceVersion"]}
        return encode(convert_to_table(kind, [version], metadata, row_object))

    return encoded


def _row_object(kind: ApiResource, version: StoredObject, row_object: str) -> Object:
    if row_object == "None":
        return {}
    if row_object == "Object":
        return {"object": version.to_object(kind)}
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {"object": {**head, "metadata": version.obj["metadata"]}}


def format_age(timestamp: str | None, until: str | None = None) -> str:
    """Return the time from `timestamp` to `until`, or to now, as kubectl shows it in the AGE column.

    Return `<unknown>` if there is no timestamp.
    """
    if not timestamp:
        return "<unknown>"
    then = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    end = datetime.fromisoformat(until.replace("Z", "+00:00")) if until else datetime.now(timezone.utc)
    seconds = int((end - then).total_seconds())
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def _created(obj: Object) -> str:
    return format_age(obj["metadata"].get("creationTimestamp"))


def _generic(obj: Object) -> list[Any]:
    return [obj["metadata"]["name"], _created(obj)]


def _pod(obj: Object) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    statuses = status.get("containerStatuses") or []
    ready = f"{sum(1 for c in statuses if c.get('ready'))}/{len(spec.get('containers') or [])}"
    gates = spec.get("readinessGates") or []
    true = {c["type"] for c in status.get("conditions") or [] if c.get("status") == "True"}
    passed = f"{sum(1 for g in gates if g.get('conditionType') in true)}/{len(gates)}" if gates else "<none>"
    restarts = sum(c.get("restartCount", 0) for c in statuses)
    address, node = status.get("podIP") or "<none>", spec.get("nodeName") or "<none>"
    nominated = status.get("nominatedNodeName") or "<none>"
    shown = [obj["metadata"]["name"], ready, _pod_status(obj, statuses), str(restarts), _created(obj)]
    return [*shown, address, node, nominated, passed]


def _pod_status(obj: Object, statuses: list[Object]) -> str:
    status = obj.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for container in reversed(statuses):
        state = container.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason") or (state.get("terminated") or {}).get("reason")
        reason = waiting or reason
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else reason


def _node(obj: Object) -> list[Any]:
    meta, status = obj["metadata"], obj.get("status") or {}
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = sorted(label.removeprefix(prefix) for label in meta.get("labels") or {} if label.startswith(prefix))
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    return [
        meta["name"],
        ",".join(words),
        ",".join(roles) or "<none>",
        _created(obj),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _event(obj: Object) -> list[Any]:
    """Return the Table cells of an event in storage form (core/v1)."""
    involved, source, series = obj.get("involvedObject") or {}, obj.get("source") or {}, obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or series.get("lastObservedTime") or first
    count = series.get("count") or obj.get("count") or 1
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    kind = str(involved.get("kind", "")).lower()
    return [
        format_age(last),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{involved.get('name', '')}" if kind else involved.get("name", ""),
        involved.get("fieldPath", ""),
        f"{component}, {host}" if component and host else component,
        str(obj.get("message") or "").strip(),
        format_age(first),
        str(count),
        obj["metadata"]["name"],
    ]


def _service(obj: Object) -> list[Any]:
    spec = obj.get("spec") or {}
    ports = [f"{p.get('port')}{_node_port(p)}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or []]
    external = ",".join(spec.get("externalIPs") or []) or "<none>"
    selector = ",".join(f"{k}={v}" for k, v in sorted((spec.get("selector") or {}).items()))
    shown = [obj["metadata"]["name"], spec.get("type", "ClusterIP"), spec.get("clusterIP") or "<none>", external]
    return [*shown, ",".join(ports) or "<none>", _created(obj), selector or "<none>"]


def _node_port(port: Object) -> str:
    return f":{port['nodePort']}" if port.get("nodePort") else ""


def _namespace(obj: Object) -> list[Any]:
    return [obj["metadata"]["name"], (obj.get("status") or {}).get("phase", ""), _created(obj)]


def _templated(obj: Object) -> list[str]:
    """Return the cells of the wide columns that all workloads have: container names, images and selector."""
    containers = obj["spec"]["template"]["spec"].get("containers") or []
    names, images = (",".join(str(c.get(field, "")) for c in containers) for field in ("name", "image"))
    return [names, images, selector_text(obj["spec"].get("selector") or {}) or "<none>"]


def _deployment(obj: Object) -> list[Any]:
    status = obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{obj['spec']['replicas']}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [obj["metadata"]["name"], ready, *counts, _created(obj), *_templated(obj)]


def _replica_set(obj: Object) -> list[Any]:
    status = obj.get("status") or {}
    counts = [obj["spec"]["replicas"], status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [obj["metadata"]["name"], *counts, _created(obj), *_templated(obj)]


def _stateful_set(obj: Object) -> list[Any]:
    ready = f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec']['replicas']}"
    return [obj["metadata"]["name"], ready, _created(obj), *_templated(obj)[:2]]


def _daemon_set(obj: Object) -> list[Any]:
    status, pod = obj.get("status") or {}, obj["spec"]["template"]["spec"]
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    counts = [status.get(field, 0) for field in (*fields, "updatedNumberScheduled", "numberAvailable")]
    selector = ",".join(f"{key}={value}" for key, value in sorted((pod.get("nodeSelector") or {}).items()))
    return [obj["metadata"]["name"], *counts, selector or "<none>", _created(obj), *_templated(obj)]


def _job(obj: Object) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    true = {c["type"] for c in status.get("conditions") or [] if c.get("status") == "True"}
    final = next((word for word in ("Complete", "Failed", "Suspended") if word in true), "Running")
    completions = spec.get("completions")
    total = f"{completions}" if completions is not None else f"1 of {spec['parallelism']}"
    began, ended = status.get("startTime"), status.get("completionTime")
    duration = format_age(began, ended) if began else ""
    done = f"{status.get('succeeded', 0)}/{total}"
    return [obj["metadata"]["name"], final, done, duration, _created(obj), *_templated(obj)]


GENERIC = TableColumns(("Name", "Age"), _generic)
_NODE_WIDE = ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
_POD_WIDE = ("IP", "Node", "Nominated Node", "Readiness Gates")
_TEMPLATE_WIDE = ("Containers", "Images", "Selector")
_DAEMON_COLUMNS = ("Desired", "Current", "Ready", "Up-to-date", "Available")
_EVENT_COLUMNS = ("Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message")
_EVENT_WIDE = ("First Seen", "Count", "Name")
LAYOUTS: dict[str, TableColumns] = {
    POD.kind: TableColumns(("Name", "Ready", "Status", "Restarts", "Age", *_POD_WIDE), _pod, frozenset(_POD_WIDE)),
    NODE.kind: TableColumns(("Name", "Status", "Roles", "Age", "Version", *_NODE_WIDE), _node, frozenset(_NODE_WIDE)),
    EVENT.kind: TableColumns((*_EVENT_COLUMNS, *_EVENT_WIDE), _event, frozenset({"Subobject", "Source", *_EVENT_WIDE})),
    SERVICE.kind: TableColumns(
        ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"), _service, frozenset({"Selector"})
    ),
    "Deployment": TableColumns(
        ("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE_WIDE), _deployment, frozenset(_TEMPLATE_WIDE)
    ),
    "ReplicaSet": TableColumns(
        ("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE_WIDE), _replica_set, frozenset(_TEMPLATE_WIDE)
    ),
    "StatefulSet": TableColumns(
        ("Name", "Ready", "Age", *_TEMPLATE_WIDE[:2]), _stateful_set, frozenset(_TEMPLATE_WIDE)
    ),
    "DaemonSet": TableColumns(
        ("Name", *_DAEMON_COLUMNS, "Node Selector", "Age", *_TEMPLATE_WIDE), _daemon_set, frozenset(_TEMPLATE_WIDE)
    ),
    "Job": TableColumns(
        ("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE_WIDE), _job, frozenset(_TEMPLATE_WIDE)
    ),
    NAMESPACE.kind: TableColumns(("Name", "Status", "Age"), _namespace),
}
