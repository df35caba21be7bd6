"""Describe the devices of a pod's resource claims: those that it got, or how the free ones are spread over nodes.

Owns: the types of both, and the sentence about a shortage. Does not own: the reasons of single nodes
(`herodotus_record.reasons`, `wording`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple, TypedDict

from herodotus_record.model import Decision, NodeTable, Reason
from herodotus_record.units import natural_sort_key

MAX_NODES: Final = 20  # nodes with usable devices that an answer names; the others are counted
CANNOT_ALLOCATE: Final = "cannot-allocate"


class AllocatedDevice(TypedDict):
    """A device that a resource claim of the pod has on the chosen node."""

    claim: Annotated[str, "Name of the claim in the pod."]
    request: Annotated[str, "Name of the claim's request."]
    driver: Annotated[str, "DRA driver of the device."]
    pool: Annotated[str, "Pool of the device."]
    device: Annotated[str, "Name of the device in the pool."]
    adminAccess: Annotated[bool, "Whether the request is for administrative access."]
    consumedCapacity: Annotated[dict[str, str], "Capacity of the device that the request takes, by name."]


class UsableDevices(TypedDict):
    """Number of devices of a node that the request could use."""

    node: Annotated[str, "Name of the node."]
    usable: Annotated[int, "Number of devices that the request could use."]
    devices: Annotated[int, "Number of all devices."]


class DeviceShortage(TypedDict):
    """How the devices that a request could use are spread over nodes."""

    claim: Annotated[str, "Name of the claim in the pod."]
    request: Annotated[str, "Name of the claim's request."]
    needed: Annotated[int, "Number of devices that the request needs on one node."]
    usable: Annotated[int, "Number of devices that it could use, on all nodes together."]
    devices: Annotated[int, "Number of all devices of these nodes."]
    nodes: Annotated[list[UsableDevices], "Nodes with devices that it could use, most devices first."]
    nodesOmitted: Annotated[int, "Number of such nodes that are not listed."]
    fragmented: Annotated[bool, "Whether enough devices are free, but not on one node."]
    text: Annotated[str, "The shortage as a sentence."]


class _NodeDevices(NamedTuple):
    """How many devices a request could use on a node, of how many."""

    node: str
    usable: int
    devices: int


def build_device_shortage(decision: Decision, table: NodeTable) -> DeviceShortage | None:
    """Return how the usable devices are spread over the nodes that lack devices for one request, or None.

    The request is the one that most nodes lack devices for. A node that an earlier filter rejects does not count.
    Devices that several nodes reach count on each of them.
    """
    nodes_by_request: dict[tuple[str, str, str, int], list[_NodeDevices]] = {}
    for node, reason in _list_shortages(decision, table):
        params = reason.params
        if not {"claim", "request", "needed", "usable", "devices"} <= params.keys():
            continue  # one of too many different explanations, of which only the code is kept
        request = params["request"].partition("/")[0]  # nodes may lack devices for different alternatives of it
        key = (params["claim"], request, params.get("extendedResource", ""), int(params["needed"]))
        nodes_by_request.setdefault(key, []).append(_NodeDevices(node, int(params["usable"]), int(params["devices"])))
    if not nodes_by_request or decision.chosen is not None:
        return None
    most_nodes = max(nodes_by_request, key=lambda key: (len(nodes_by_request[key]), key))
    nodes, (claim, request, resource, needed) = nodes_by_request[most_nodes], most_nodes
    usable = sorted((n for n in nodes if n.usable), key=lambda n: (-n.usable, natural_sort_key(n.node)))
    total, most = sum(n.usable for n in nodes), max(n.usable for n in nodes)
    what = resource or f"request {request} of claim {claim}"
    text = f"{what} needs {_count(needed)} on one node; {total} usable on {len(usable)} of {len(nodes)} nodes"
    if usable:
        text += f", at most {most} on one: {', '.join(f'{n.node} {n.usable}' for n in usable[:MAX_NODES])}"
    if len(usable) > MAX_NODES:
        text += f" and {len(usable) - MAX_NODES} more"
    return {
        "claim": claim,
        "request": request,
        "needed": needed,
        "usable": total,
        "devices": sum(n.devices for n in nodes),
        "nodes": [{"node": n.node, "usable": n.usable, "devices": n.devices} for n in usable[:MAX_NODES]],
        "nodesOmitted": max(0, len(usable) - MAX_NODES),
        "fragmented": total >= needed > most,
        "text": text,
    }


def _list_shortages(decision: Decision, table: NodeTable) -> Iterator[tuple[str, Reason]]:
    """Yield each node that lacks devices, with the reason."""
    for column in decision.filters:
        reasons = {
            number: reason
            for number, verdict in enumerate(column.verdicts)
            for reason in verdict.reasons
            if reason.code == CANNOT_ALLOCATE
        }
        if reasons:
            for slot, number in enumerate(column.ids):
                if number in reasons:
                    yield table.names[slot], reasons[number]


def _count(number: int) -> str:
    return "1 device" if number == 1 else f"{number} devices"
