"""The pods that hold what a pending pod lacks on a node, from the Pod objects that the reader may list.

Owns: which node and reasons are looked at, how much each pod holds, and which of them would be enough. Does not own:
reading the pods, the screen. Pure.

Invariant: a pod is named only if the API server let the reader list it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from herodotus_answers.live_objects import read_owner
from herodotus_record.units import natural_sort_key

Json = dict[str, Any]

_MAX_NODES: Final = 3  # of a group of rejected nodes
_RESOURCE, _PORTS, _POD, _DISK = "resource", "ports", "pod", "claims"
_QUANTITY: Final = re.compile(r"([+-]?[\d.]+)(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class HeldObject(NamedTuple):
    """What a pod lacks on a node: a resource, host ports, a place away from another pod, or a volume claim.

    `kind` says which; `names` are the resource, the ports, the pods or the claims. `missing` is the amount of the
    resource that would have to become free, in base units.
    """

    node: str
    kind: str
    names: tuple[str, ...]
    missing: int = 0


class Holder(NamedTuple):
    """A pod that holds something on a node, and how much of it: 0 where it is no amount.

    `note` says that it is terminating, or that its resize is pending; "" for any other pod.
    """

    pod: str
    amount: int
    priority: int
    owner: str
    note: str = ""


class Holders(NamedTuple):
    """The pods that hold an object, largest first; the first `enough` of them together hold what is missing."""

    held: HeldObject
    pods: tuple[Holder, ...]
    enough: int


def list_held(answer: Json) -> list[HeldObject]:
    """Return what the pod of a PodExplanation lacks on the closest node, or on the node that the answer is about.

    Host ports may be held by another pod on each node: those of the first nodes are listed. The result is empty for a
    placed pod, where the reason is nothing that other pods hold, and where the node has other reasons beside it.
    """
    if answer.get("kind") != "PodExplanation" or answer["outcome"]["node"] is not None:
        return []
    held = [(node, [_parse_reason(node, reason) for reason in reasons]) for node, reasons in _rejections(answer)]
    alone = [each[0] for _, each in held if len(each) == 1 and each[0] is not None]
    ports = [each for each in alone if each.kind == _PORTS]
    return ports[:_MAX_NODES] if ports and alone[0].kind == _PORTS else alone[:1]


def find_holders(held: HeldObject, pods: Iterable[Json]) -> Holders:
    """Return which of the pods, those on the node, hold it."""
    amounts = ((pod, _held(held, pod)) for pod in pods)
    holders = [
        Holder(_full_name(pod), amount, _priority(pod), read_owner(pod) or "", _describe_change(pod))
        for pod, amount in amounts
        if amount
    ]
    holders.sort(key=lambda h: (-h.amount, h.priority, natural_sort_key(h.pod)))
    if held.kind != _RESOURCE:
        return Holders(held, tuple(h._replace(amount=0) for h in holders), len(holders))
    together = 0
    for number, holder in enumerate(holders, 1):
        together += holder.amount
        if together >= held.missing:
            return Holders(held, tuple(holders), number)
    return Holders(held, tuple(holders), 0)


def _rejections(answer: Json) -> Iterable[tuple[str, Sequence[Json]]]:
    """Yield the rejected nodes with their reasons: the closest node of each group, or the one node asked about."""
    nodes = answer.get("perNode", [])
    if answer["rejections"] and len(nodes) != 1:
        for group in answer["rejections"]:
            yield from ((row["node"], row["reasons"]) for row in group["nodes"][:_MAX_NODES])
        return
    for row in nodes:
        yield from ((row["node"], verdict["reasons"]) for verdict in row["rejectedBy"])


def _parse_reason(node: str, reason: Json) -> HeldObject | None:
    params = reason["params"]
    match reason["code"]:
        case "insufficient" | "too-many-pods" if reason["requested"] <= reason["allocatable"]:
            return HeldObject(node, _RESOURCE, (reason["resource"],), reason["requested"] - reason["free"])
        case "ports" if params.get("ports"):
            return HeldObject(node, _PORTS, tuple(params["ports"].split(", ")))
        case "pod-anti-affinity" | "existing-anti-affinity" if params.get("pod"):
            return HeldObject(node, _POD, (params["pod"],))
        case "claim-in-use" if params.get("claims"):
            return HeldObject(node, _DISK, tuple(params["claims"].split(", ")))
        case _:
            return None


def _held(held: HeldObject, pod: Json) -> int:
    """Return how much a pod holds, in base units; 1 for something that is no amount, and 0 for nothing."""
    if held.kind == _RESOURCE:
        return 1 if held.names[0] == "pods" else _request(pod["spec"], held.names[0])
    if held.kind == _PORTS:
        return int(any(_conflicts(port, name) for port in _host_ports(pod["spec"]) for name in held.names))
    if held.kind == _POD:
        return int(_full_name(pod) in held.names)
    claims = (v.get("persistentVolumeClaim") for v in pod["spec"].get("volumes") or ())
    return int(any(f"{pod['metadata']['namespace']}/{c['claimName']}" in held.names for c in claims if c))


def _conflicts(port: str, other: str) -> bool:
    """Return whether two host ports, as [ADDRESS:]PORT/PROTOCOL, are the same one of a node: no address means all."""
    (address, _, number), (other_address, _, other_number) = port.rpartition(":"), other.rpartition(":")
    return number == other_number and ("" in (address, other_address) or address == other_address)


def _request(spec: Json, resource: str) -> int:
    """Return the pod's effective request for a resource in base units (cpu in milli)."""
    whole = (spec.get("resources") or {}).get("requests") or {}
    overhead = parse_quantity((spec.get("overhead") or {}).get(resource, 0))
    running, init = Fraction(0), Fraction(0)
    for container in spec.get("containers") or ():
        running += _requested(container, resource)
    sidecars = Fraction(0)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += _requested(container, resource)
            init = max(init, sidecars)
        else:
            init = max(init, sidecars + _requested(container, resource))
    total = parse_quantity(whole[resource]) if resource in whole else max(running + sidecars, init)
    amount = (total + overhead) * (1000 if resource == "cpu" else 1)
    return -(-amount.numerator // amount.denominator)


def _requested(container: Json, resource: str) -> Fraction:
    return parse_quantity(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))


def parse_quantity(text: object) -> Fraction:
    """Return a quantity of the Kubernetes API, such as `500m` or `1Gi`, as a number; 0 if it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return Fraction(0)
    number, exponent, suffix = match.groups()
    if suffix in _BINARY:
        return Fraction(number) * (1 << _BINARY[suffix])
    return Fraction(number) * Fraction(10) ** (int(exponent) if exponent else _DECIMAL[suffix or ""])


def _host_ports(spec: Json) -> Iterable[str]:
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            address = "" if port.get("hostIP", "") in ("", "0.0.0.0") else f"{port['hostIP']}:"
            yield f"{address}{port.get('hostPort')}/{port.get('protocol') or 'TCP'}"


def _describe_change(pod: Json) -> str:
    """Return what is about to change what the pod holds, or "" if nothing is known to."""
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating"
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending" and condition.get("status") == "True":
            return f"resize pending ({condition.get('reason')})"
    return ""


def _full_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _priority(pod: Json) -> int:
    return int(pod["spec"].get("priority") or 0)
