"""The pods that hold what a pending pod lacks on a node, from the Pod objects that the reader may list.

Owns: which node and reasons are looked at, how much each pod holds, and which of them would be enough. Does not own:
reading the pods, the screen. Pure.

Invariant: a pod is named only if the API server let the reader list it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from herodotus_answers.live.objects import is_of_daemon_set, read_workload
from herodotus_answers.quantities import read_quantity
from herodotus_record.units import format_available, format_requested, natural_sort_key

Json = dict[str, Any]

MAX_NAMED: Final = 5  # holders that a screen lists
_STARTING: Final = ("ContainerCreating", "PodInitializing")  # reasons of containers that may run soon
_RESOURCE, _PORTS, _POD, _DISK, _DEVICES = "resource", "ports", "pod", "claims", "devices"


class HeldObject(NamedTuple):
    """What a pod lacks on a node: a resource, host ports, a place away from another pod, a volume claim, or devices.

    `kind` says which; `names` are the resource, the ports, the pods, the claims, or the resource claims that have the
    devices. Of a resource, in base units: `missing` is the amount that would have had to become free at the decision,
    `requested` is what the pod requests, and `allocatable` what the node has (0: unknown). `others` says in words what
    else stands against the node, and `unknown` names the filters that did not run there. `pods` is the number of pods
    that a group lacks; the object is what the next of them lacks. `priority` is that of the pod, None if unknown.
    """

    node: str
    kind: str
    names: tuple[str, ...]
    missing: int = 0
    requested: int = 0
    allocatable: int = 0
    others: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    pods: int = 1
    priority: int | None = None

    @property
    def has_amounts(self) -> bool:
        """Whether pods hold different amounts of it: of a resource, unless that is a place for a pod."""
        return self.kind == _RESOURCE and self.names != ("pods",)


class Holder(NamedTuple):
    """A pod that holds something on a node, and how much of it: 0 where it is no amount.

    `state` says what is unusual about it: that it is terminating, that its resize is pending, or that it does not run.
    """

    pod: str
    amount: int
    priority: int
    owner: str
    state: str = ""

    @property
    def returns_to_node(self) -> bool:
        """Whether a pod like it takes its place on the same node: one of a DaemonSet, or a static pod."""
        return is_of_daemon_set(self.owner) or self.owner.startswith("Node/")


class Holders(NamedTuple):
    """The pods on a node that use what is missing there; the first `enough` hold the missing amount.

    The largest come first, and last those that would come back to the node, which are never enough.
    `held.missing` is what is missing beside these pods, which may differ from what was missing at the decision. It is 0
    if the node has enough of the resource by now.
    """

    held: HeldObject
    pods: tuple[Holder, ...]
    enough: int


def find_held(answer: Json) -> HeldObject | None:
    """Return what the pod of a PodExplanation lacks on the closest node, or on the node that the answer is about.

    Of a PodGroupPlacement, it is what the next pod of the group lacks. The result is None for a placed pod, and where
    the reason is nothing that other pods hold.
    """
    if answer.get("kind") == "PodGroupPlacement":
        closest = (answer["shortage"] or {}).get("closestNode") or {}
        reasons = closest.get("reasons") or ()  # a service of an earlier version does not send them
        held = next(filter(None, (_parse_reason(closest["node"], each) for each in reasons)), None)
        return held._replace(pods=answer["shortage"]["pods"]) if held else None
    if answer.get("kind") != "PodExplanation" or answer["outcome"]["node"] is not None:
        return None
    for node, reasons in _rejections(answer):
        for reason in reasons:
            held = _parse_reason(node, reason)
            if held is not None:
                return _add_other_obstacles(held, answer, reason)
    return None


def _add_other_obstacles(held: HeldObject, answer: Json, reason: Json) -> HeldObject:
    """Return the held object with what else stands against its node, as far as the answer says."""
    others, unknown = list[str](), list[str]()
    row = next((each for each in answer.get("perNode", ()) if each["node"] == held.node), None)
    if row is not None:
        others = [r["text"] for verdict in row["rejectedBy"] for r in verdict["reasons"] if r != reason]
        ran = {*row["passed"], *row["skipped"], *(verdict["plugin"] for verdict in row["rejectedBy"])}
        unknown = [f["plugin"] for f in answer["filters"] if f["plugin"] not in ran]
    else:
        rows = (each for group in answer["rejections"] for each in group["nodes"] if each["node"] == held.node)
        for each in rows:
            others = [r["text"] for r in each["reasons"] if r != reason] + list(each["alsoRejectedBy"])
        ran_everywhere = answer["nodes"]["evaluated"]
        unknown = [
            f["plugin"]
            for f in answer["filters"]
            if not f["skipped"] and f["passed"] + f["rejected"] != ran_everywhere and f["plugin"] not in others
        ]
    return held._replace(others=tuple(others), unknown=tuple(unknown), priority=answer["pod"].get("priority"))


def make_resource(pod: Json, node: Json, resource: str) -> HeldObject:
    """Return a resource that a pod lacks on a node, from their objects. `missing` is not known."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    allocatable = int(read_quantity(amounts.get(resource, 0)) * (1000 if resource == "cpu" else 1))
    requested = 1 if resource == "pods" else read_request(pod["spec"], resource)
    return HeldObject(str(node["metadata"]["name"]), _RESOURCE, (resource,), 0, requested, allocatable)


def find_holders(held: HeldObject, pods: Iterable[Json]) -> Holders:
    """Return which of the pods, all those that are on the node now, hold it."""
    amounts = ((pod, _held(held, pod)) for pod in pods)
    holders = [
        Holder(_full_name(pod), amount, _priority(pod), read_workload(pod), _describe_state(held, pod))
        for pod, amount in amounts
        if amount
    ]
    holders.sort(key=lambda h: (h.returns_to_node, -h.amount, h.priority, natural_sort_key(h.pod)))
    if held.kind != _RESOURCE:
        return Holders(held, tuple(h._replace(amount=0) for h in holders), len(holders))
    if held.allocatable:
        used = sum(h.amount for h in holders)
        held = held._replace(missing=max(used + held.requested - held.allocatable, 0))
    together = 0
    for number, holder in enumerate(holders, 1):
        together += 0 if holder.returns_to_node else holder.amount
        if together >= held.missing:
            return Holders(held, tuple(holders), number)
    return Holders(held, tuple(holders), 0)


def describe_holders(holders: Holders) -> list[str]:
    """Return sentences on what would be enough, what else stands against the node, and which holders are unusual."""
    held = holders.held
    sentences = [_describe_enough(holders)]
    priorities = [holder.priority for holder in holders.pods]
    if held.priority is not None and any((held.priority, *priorities)) and held.priority <= min(priorities):
        sentences.append(f"None of them has a lower priority than this pod ({held.priority}): none is evicted for it.")
    if held.others:
        sentences.append(f"{held.node} also rejects the pod for another reason: {'; '.join(held.others)}.")
    if held.pods > 1:
        sentences.append(f"That is for the next of the {held.pods} pods that the group lacks.")
    if held.unknown:
        verb = "was" if len(held.unknown) == 1 else "were"
        sentences.append(f"{', '.join(held.unknown)} {verb} not evaluated on {held.node}.")
    sentences += [f"{h.pod}: {h.state}." for h in holders.pods[:MAX_NAMED] if h.state]
    return sentences


def _describe_enough(holders: Holders) -> str:
    """Return which holders would have to go; that the pod then fits is said only if nothing else stands against it."""
    held, is_all = holders.held, not (holders.held.others or holders.held.unknown or holders.held.pods > 1)
    if held.kind != _RESOURCE:
        what = "this pod" if len(holders.pods) == 1 else "these pods"
        if held.kind == _POD:
            return "Other pods may keep this pod away from the node too: one is named."
        if held.kind == _DEVICES:
            return f"The devices of {', '.join(held.names)} become free when {what} end{'s' * (what == 'this pod')}."
        fits = f"fits {held.node}" if is_all else f"could use {', '.join(held.names)} on {held.node}"
        return f"The pod {fits} without {what}."
    if not held.missing:
        return f"{held.node} has enough {held.names[0]} for the pod by now."
    missing = format_requested(held.names[0], held.missing)
    pods = "1 pod" if held.missing == 1 else f"{held.missing} pods"
    wanted = f"{missing} {held.names[0]}" if held.names[0] != "pods" else f"room for {pods}"
    if not holders.enough:
        what = (
            "Those that do not come back to the node" if any(h.returns_to_node for h in holders.pods) else "All of them"
        )
        return f"{what} together hold less than the missing {wanted}."
    missed = f"{pods} would have to leave" if held.names[0] == "pods" else f"{wanted} would have to become free"
    would = "would be enough" if is_all else f"would free enough {held.names[0]}"
    alone = [h for h in holders.pods if h.amount >= held.missing and not h.returns_to_node]
    if alone:
        smallest = min(alone, key=lambda h: (h.priority, h.amount))
        return f"{missed}: {smallest.pod} alone {would}."
    first = holders.pods[: holders.enough]
    names = ", ".join(h.pod for h in first) if len(first) <= MAX_NAMED else f"the {len(first)} largest"
    return f"{missed}: {names} together {would}."


def _describe_state(held: HeldObject, pod: Json) -> str:
    """Return what is unusual about a holder: it terminates, is being resized, or has a container that does not run."""
    states, meta = [], pod["metadata"]
    if meta.get("deletionTimestamp"):
        finalizers = ", ".join(meta.get("finalizers") or ())
        waits = f" and its finalizers ({finalizers}) are removed" if finalizers else ""
        states.append(
            f"terminating since {meta['deletionTimestamp']}, gone once the kubelet of {held.node} has ended it{waits}"
        )
    resize = _find_resize(pod)
    if resize:
        states.append(f"its resize is {resize}{_describe_resized_amounts(held, pod)}")
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        reason = ((each.get("state") or {}).get("waiting") or {}).get("reason")
        if reason and reason not in _STARTING:
            restarts = int(each.get("restartCount") or 0)
            often = f" ({restarts} restarts)" if restarts > 1 else ""
            states.append(f"does not run, and holds it all the same: container {each['name']}, {reason}{often}")
    return "; ".join(states)


def _find_resize(pod: Json) -> str:
    """Return the state of the pod's in-place resize in words, "" if there is none."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending" and condition.get("status") != "False":
            return f"pending ({condition.get('reason') or 'waiting'})"
        if condition.get("type") == "PodResizeInProgress" and condition.get("status") != "False":
            return "in progress"
    return {"Proposed": "pending", "Deferred": "pending (Deferred)", "Infeasible": "pending (Infeasible)"}.get(
        str(status.get("resize") or ""), "in progress" if status.get("resize") == "InProgress" else ""
    )


def _describe_resized_amounts(held: HeldObject, pod: Json) -> str:
    if held.kind != _RESOURCE or held.names[0] == "pods":
        return ""
    resource, scale = held.names[0], 1000 if held.names[0] == "cpu" else 1
    allocated = sum(
        (read_quantity(each["allocatedResources"][resource]) for each in _list_statuses(pod, resource)), Fraction(0)
    )
    if not allocated:
        return ""
    wants = format_requested(resource, read_request(pod["spec"], resource))
    return f": it has {format_available(resource, int(allocated * scale))} {resource} and asks for {wants}"


def _list_statuses(pod: Json, resource: str) -> list[Json]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return [each for each in statuses if resource in (each.get("allocatedResources") or {})]


def _rejections(answer: Json) -> Iterable[tuple[str, Sequence[Json]]]:
    """Yield the rejected nodes with their reasons: that of the first suggestion, then the closest node of each group.

    If the answer is about one node, only that is yielded.
    """
    nodes = answer.get("perNode", [])
    if answer["rejections"] and len(nodes) != 1:
        suggested = next((suggestion["node"] for suggestion in answer.get("suggestions") or ()), None)
        rows = [row for group in answer["rejections"] for row in group["nodes"] if row["node"] == suggested]
        yield from ((row["node"], row["reasons"]) for row in rows)
        for group in answer["rejections"]:
            yield from ((row["node"], row["reasons"]) for row in group["nodes"][:1])
        return
    for row in nodes:
        yield from ((row["node"], verdict["reasons"]) for verdict in row["rejectedBy"])


def _parse_reason(node: str, reason: Json) -> HeldObject | None:
    params = reason["params"]
    match reason["code"]:
        case "insufficient" | "too-many-pods" if reason["requested"] <= reason["allocatable"]:
            requested, allocatable = reason["requested"], reason["allocatable"]
            return HeldObject(
                node, _RESOURCE, (reason["resource"],), requested - reason["free"], requested, allocatable
            )
        case "ports" if params.get("ports"):
            return HeldObject(node, _PORTS, tuple(params["ports"].split(", ")))
        case "pod-anti-affinity" | "existing-anti-affinity" if params.get("pod"):
            return HeldObject(node, _POD, (params["pod"],))
        case "claim-in-use" if params.get("claims"):
            return HeldObject(params.get("podNode") or node, _DISK, tuple(params["claims"].split(", ")))
        case "cannot-allocate" if params.get("holders"):
            return HeldObject(node, _DEVICES, tuple(params["holders"].split(", ")))
        case _:
            return None


def _held(held: HeldObject, pod: Json) -> int:
    """Return how much a pod holds, in base units; 1 for something that is no amount, and 0 for nothing."""
    if held.kind == _RESOURCE:
        return 1 if held.names[0] == "pods" else read_request(pod["spec"], held.names[0])
    if held.kind == _PORTS:
        return int(any(_conflicts(port, name) for port in list_host_ports(pod["spec"]) for name in held.names))
    if held.kind == _POD:
        return int(_full_name(pod) in held.names)
    if held.kind == _DEVICES:
        return int(any(f"{pod['metadata']['namespace']}/{name}" in held.names for name in _list_device_claims(pod)))
    claims = (v.get("persistentVolumeClaim") for v in pod["spec"].get("volumes") or ())
    return int(any(f"{pod['metadata']['namespace']}/{c['claimName']}" in held.names for c in claims if c))


def _list_device_claims(pod: Json) -> Iterable[str]:
    """Yield the names of the pod's resource claims: those that it names, and those that were made for it."""
    status = pod.get("status") or {}
    own = (pod["spec"].get("resourceClaims") or (), status.get("resourceClaimStatuses") or ())
    extended = status.get("extendedResourceClaimStatus") or {}
    for each in (*own[0], *own[1], extended):
        if each.get("resourceClaimName"):
            yield str(each["resourceClaimName"])


def read_request(spec: Json, resource: str) -> int:
    """Return the pod's effective request for a resource in base units (cpu in milli)."""
    whole = (spec.get("resources") or {}).get("requests") or {}
    overhead = read_quantity((spec.get("overhead") or {}).get(resource, 0))
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
    total = read_quantity(whole[resource]) if resource in whole else max(running + sidecars, init)
    amount = (total + overhead) * (1000 if resource == "cpu" else 1)
    return -(-amount.numerator // amount.denominator)


def _requested(container: Json, resource: str) -> Fraction:
    return read_quantity(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))


def list_host_ports(spec: Json) -> Iterable[str]:
    """Yield the host ports of a pod, such as `80/TCP` or `10.0.0.1:80/TCP`."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = "" if port.get("hostIP", "") in ("", "0.0.0.0") else f"{port['hostIP']}:"
                yield f"{address}{port['hostPort']}/{port.get('protocol') or 'TCP'}"


def _conflicts(port: str, other: str) -> bool:
    """Return whether two host ports exclude each other: without an address, a port is taken on all addresses."""
    (address, _, number), (other_address, _, other_number) = port.rpartition(":"), other.rpartition(":")
    return number == other_number and (not address or not other_address or address == other_address)


def _full_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _priority(pod: Json) -> int:
    return int(pod["spec"].get("priority") or 0)
