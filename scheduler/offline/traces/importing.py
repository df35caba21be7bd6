"""Imports a list of nodes and a list of pods as a trace.

Two formats: our own columns, and openb, the trace of GPU clusters that Alibaba published in 2023. Openb's pods request
shares of GPUs, or whole ones, perhaps of some models. They become a resource of which each GPU has 1000, and a node
affinity. `OPENB_MISSING` states for the trace's header what is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scheduler.engine.objects import quantity
from scheduler.engine.objects.types import OwnerReference
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import NodeAdded, PodArrived
from scheduler.offline.traces.rows import (
    MAX_PODS,
    Requests,
    Row,
    build_node,
    build_node_affinity,
    build_pod,
    parse_number,
    parse_seconds,
    read_rows,
    require_text,
)

MILLI_PER_GPU: Final = 1000
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"  # as in the cluster of the trace
MODEL_LABEL: Final = "alibabacloud.com/gpu-card-model"
OPENB_MISSING: Final = (
    "Shares of GPUs are summed up over a node: only the plugin GpuShares keeps them on single GPUs.",
    "The nodes on which pods ran are unknown.",
    "The owners of pods are unknown.",
)
CSV_MISSING: Final = ("Labels, taints, selectors and affinity are unknown.", "The nodes on which pods ran are unknown.")
_NODE_COLUMNS: Final = frozenset({"name"})
_POD_COLUMNS: Final = frozenset({"name", "namespace", "owner", "priority", "arrives_s", "runs_s"})


def import_openb(nodes: Path, pods: Path) -> Iterator[NodeAdded | PodArrived]:
    """Yield the events of an openb node list and pod list. Raise TraceError for an unreadable file or invalid row.

    The pods of a list without times, which some of the sampled ones are, arrive at once and do not end.
    """
    for where, row in read_rows(nodes):
        name, labels = require_text(where, row, "sn"), {MODEL_LABEL: row["model"]} if row.get("model") else {}
        gpu_milli = MILLI_PER_GPU * parse_number(where, row, "gpu")
        allocatable = _amounts(where, row, gpu_milli) | {"pods": MAX_PODS}
        yield NodeAdded(0.0, build_node(name, allocatable, labels))
    for where, row in read_rows(pods):
        bound, ended = row.get("scheduled_time"), row.get("deletion_time")
        gpus = parse_number(where, row, "num_gpu")
        gpu_milli = gpus * parse_number(where, row, "gpu_milli") if gpus else 0
        pod = build_pod(require_text(where, row, "name"), _amounts(where, row, gpu_milli))
        if models := row.get("gpu_spec"):
            affinity = build_node_affinity(MODEL_LABEL, "In", models.split("|"))
            pod = replace(pod, spec=replace(pod.spec, affinity=affinity))
        yield PodArrived(
            float(parse_number(where, row, "creation_time")) if "creation_time" in row else 0.0,
            pod,
            bound_at_s=float(parse_number(where, row, "scheduled_time")) if bound else None,
            ended_at_s=float(parse_number(where, row, "deletion_time")) if ended else None,
        )


def import_csv(nodes: Path, pods: Path) -> Iterator[NodeAdded | PodArrived]:
    """Yield the events of lists in our own columns. Raise TraceError for an unreadable file or invalid row.

    Nodes: `name`, and a column for each resource. Pods: `name`, `arrives_s`, `runs_s` (empty: it does not end), perhaps
    `namespace`, `owner` (KIND/NAME) and `priority`, and a column for each resource. Amounts are Kubernetes quantities.
    """
    for where, row in read_rows(nodes):
        name = require_text(where, row, "name")
        allocatable: Requests = {"pods": MAX_PODS} | _quantities(where, row, _NODE_COLUMNS)
        yield NodeAdded(0.0, build_node(name, allocatable))
    for where, row in read_rows(pods):
        pod = build_pod(
            require_text(where, row, "name"), _quantities(where, row, _POD_COLUMNS), row.get("namespace") or "default"
        )
        kind, _, owner = (row.get("owner") or "").partition("/")
        owners = [OwnerReference(kind=kind, name=owner, controller=True)] if owner else None
        priority = parse_number(where, row, "priority") if row.get("priority") else None
        at_s = parse_seconds(where, row, "arrives_s")
        yield PodArrived(
            at_s,
            replace(
                pod, metadata=replace(pod.metadata, owner_references=owners), spec=replace(pod.spec, priority=priority)
            ),
            ended_at_s=at_s + parse_seconds(where, row, "runs_s") if row.get("runs_s") else None,
        )


def _quantities(where: str, row: Row, known: frozenset[str]) -> Requests:
    """Return the amounts of a row by resource: its columns besides those in `known`, without empty ones."""
    amounts: Requests = {}
    for name, text in row.items():
        if not name or name in known or not text:
            continue
        try:
            quantity.parse(text)
        except ValueError:
            raise TraceError(f"{where}: {name}: expected an amount such as 500m or 2Gi, found {text!r}") from None
        amounts[name] = text
    return amounts


def _amounts(where: str, row: Row, gpu_milli: int) -> Requests:
    """Return cpu, memory and GPUs of a row as quantities, without those that are zero."""
    cpu, memory = (parse_number(where, row, column) for column in ("cpu_milli", "memory_mib"))
    amounts = {"cpu": (cpu, f"{cpu}m"), "memory": (memory, f"{memory}Mi"), GPU_MILLI: (gpu_milli, str(gpu_milli))}
    return {name: amount for name, (number, amount) in amounts.items() if number}
