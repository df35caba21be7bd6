"""Build the answer document `NodeSummaryList`: what each node has, what its pods request, and what keeps pods away.

Owns: the document's shape. Does not own: decisions about nodes (`node`), requests of pods (`holders`). Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, TypedDict

from herodotus_answers.declare import Document, NotRequired, Page
from herodotus_answers.live.node_rules import describe_fault, describe_taint, list_faults, read_zone
from herodotus_answers.live.objects import has_ended
from herodotus_answers.live.pod_facts import clean, read_conditions
from herodotus_answers.live.pods.holders import read_request
from herodotus_answers.node_groups import MAX_REPORTS, EventReport, read_report
from herodotus_answers.quantities import read_quantity
from herodotus_record.model import API_VERSION
from herodotus_record.units import format_available, format_requested, natural_sort_key

Json = dict[str, Any]
_ALWAYS: Final = ("cpu", "memory")
_CORDON: Final = "node.kubernetes.io/unschedulable"
# Reasons of the events that every node has after a start, a cordon or a recovery, which its state shows.
_ROUTINE: Final = frozenset(
    {
        "Starting",
        "RegisteredNode",
        "Synced",
        "NodeReady",
        "NodeSchedulable",
        "NodeNotSchedulable",
        "NodeAllocatableEnforced",
        "NodeHasSufficientMemory",
        "NodeHasNoDiskPressure",
        "NodeHasSufficientPID",
        "NodePasswordValidationComplete",
        "CertificateExpirationOK",
        "InvalidDiskCapacity",
        "PossibleMemoryBackedVolumesOnDisk",
        "CgroupV1",
    }
)


class NodeAmount(TypedDict):
    """Amounts of a resource on a node."""

    resource: Annotated[str, "Name of the resource."]
    allocatable: Annotated[int, "Amount for pods, in base units (millicores, bytes or pieces)."]
    requested: Annotated[int | None, "Sum of the requests of its pods; null if pods cannot be read."]
    text: Annotated[str, "Both as a text, such as 3150m of 8."]


class NodeSummary(Document):
    """A node: its capacity, what its pods request, and what keeps pods away."""

    kind: Literal["NodeSummary"]
    zone: Annotated[str, "Zone of the node; empty if it has none."]
    ready: Annotated[bool, "Whether its condition Ready is true."]
    problem: NotRequired[Annotated[str, "What its kubelet says while it is not ready: PLEG, network, runtime."]]
    faults: NotRequired[
        Annotated[list[str], "Conditions with which agents on it report a faulty part, such as ReadonlyFilesystem."]
    ]
    cordoned: Annotated[bool, "Whether spec.unschedulable is set."]
    taints: Annotated[list[str], "Its taints, except that of a cordon."]
    version: Annotated[str, "Version of its kubelet; empty if that is not known."]
    pods: Annotated[int | None, "Number of its pods that have not ended; null if pods cannot be read."]
    maxPods: Annotated[int, "Number of pods that it may have."]
    amounts: Annotated[list[NodeAmount], "CPU, memory, and extended resources that it has."]
    share: NotRequired[Annotated[float, "Largest share of a resource that is requested, from 0."]]
    events: NotRequired[
        Annotated[
            list[EventReport],
            "Newest events about one node, one of each kind, without those of every start; absent if none.",
        ]
    ]


class NodeSummaryList(Page):
    """All nodes with capacity, requests and taints."""

    kind: Literal["NodeSummaryList"]
    items: Annotated[list[NodeSummary], "The nodes, in natural order of their names."]


def build_node_list(nodes: Iterable[Json], pods: Iterable[Json] | None) -> NodeSummaryList:
    """Return the JSON document of kind NodeSummaryList. `pods` is None if they cannot be read."""
    by_node: dict[str, list[Json]] | None = None if pods is None else defaultdict(list)
    for pod in pods or ():
        if by_node is not None and not has_ended(pod):
            by_node[pod["spec"].get("nodeName") or ""].append(pod)
    summaries = [
        _summarize(node, None if by_node is None else by_node.get(node["metadata"]["name"], ())) for node in nodes
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeSummaryList",
        "metadata": {},
        "items": sorted(summaries, key=lambda node: natural_sort_key(node["metadata"]["name"])),
    }


def list_node_events(events: Sequence[Json]) -> list[EventReport]:
    """Return the newest events about a node, given oldest first, the last of each reporter and reason, newest first.

    Events that every node has after a start, a cordon or a recovery are left out.
    """
    newest: dict[tuple[str, str], EventReport] = {}
    for report in map(read_report, reversed(events)):
        if report["reason"] not in _ROUTINE:
            newest.setdefault((report["component"], report["reason"]), report)
    return list(newest.values())[:MAX_REPORTS]


def _summarize(node: Json, pods: Sequence[Json] | None) -> NodeSummary:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    allocatable = status.get("allocatable") or {}
    condition = read_conditions(node).get("Ready") or {}
    ready = condition.get("status") == "True"
    amounts = [_sum(resource, allocatable[resource], pods) for resource in _list_resources(allocatable)]
    summary: NodeSummary = {
        "apiVersion": API_VERSION,
        "kind": "NodeSummary",
        "metadata": {"name": node["metadata"]["name"]},
        "zone": read_zone(node),
        "ready": ready,
        "cordoned": bool(spec.get("unschedulable")),
        "taints": [describe_taint(taint) for taint in spec.get("taints") or () if taint["key"] != _CORDON],
        "version": (status.get("nodeInfo") or {}).get("kubeletVersion", ""),
        "pods": None if pods is None else len(pods),
        "maxPods": int(read_quantity(allocatable.get("pods", 0))),
        "amounts": amounts,
    }
    problem = clean(condition.get("message") or condition.get("reason"))
    if problem and not ready:
        summary["problem"] = problem
    faults = [describe_fault(each) for each in list_faults(node)]
    if faults:
        summary["faults"] = faults
    shares = [a["requested"] / a["allocatable"] for a in amounts if a["requested"] is not None and a["allocatable"]]
    if shares:
        summary["share"] = round(max(shares), 4)
    return summary


def _list_resources(allocatable: Json) -> list[str]:
    """Return CPU, memory, and the extended resources, whose names have a domain."""
    extended = sorted(name for name, amount in allocatable.items() if "/" in name and read_quantity(amount))
    return [*(name for name in _ALWAYS if name in allocatable), *extended]


def _sum(resource: str, quantity: object, pods: Sequence[Json] | None) -> NodeAmount:
    amount = int(read_quantity(quantity) * (1000 if resource == "cpu" else 1))
    requested = None if pods is None else sum(read_request(pod["spec"], resource) for pod in pods)
    has = format_available(resource, amount)
    text = has if requested is None else f"{format_requested(resource, requested)} of {has}"
    return {"resource": resource, "allocatable": amount, "requested": requested, "text": text}
