"""Find why the resources of a pod's containers are not those that its spec has: deferred and infeasible resizes.

Owns: these causes and their remedies, also for a pod that waits for what another one's resize holds. Does not own: what
else the kubelet reports (`kubelet_causes`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.pod_facts import (
    Container,
    clean,
    format_since,
    kubectl,
    list_containers,
    make_cause,
    make_remedy,
    name_source,
    quote_patch,
    read_conditions,
)
from herodotus_answers.quantities import read_quantity
from herodotus_record.units import format_available, format_requested

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
# Reasons of a resize's condition: the code of the cause, and the word for its state.
_STATES: Final = {
    "Deferred": ("resize-deferred", "deferred"),
    "Infeasible": ("resize-infeasible", "infeasible"),
    "Error": ("resize-failed", "not possible so far"),
}
# Of the kubelet's refusal to lower a limit: the bytes in use.
_IN_USE: Final = re.compile(r"memory limit \(\d+\) below current usage \((\d+)\)")
_MAX_NODES: Final = 3  # whose pods are read


def read_actual(container: Container) -> Json:
    """Return the resources with which a container runs."""
    return dict(container.status.get("resources") or {})


def read_granted(container: Container) -> Json:
    """Return the resources that the kubelet has granted a container."""
    allocated = container.status.get("allocatedResources")
    return {**read_actual(container), "requests": allocated} if allocated else read_actual(container)


def find_resize_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return why the resources of a pod's containers are not those that its spec has; [] if they are."""
    conditions = read_conditions(pod)
    pending, running = conditions.get("PodResizePending") or {}, conditions.get("PodResizeInProgress") or {}
    condition = pending if pending.get("status") == "True" else running
    if condition.get("status") != "True":
        return []
    code, word = _STATES.get(str(condition.get("reason")), ("resize-in-progress", "in progress"))
    is_pending = condition is pending
    wanted, given = _compare_resources(pod, read_granted if is_pending else read_actual)
    amounts = f"wants {wanted}, has {given}" if wanted else "wants other resources than it has"
    message = clean(condition.get("message"))
    since = format_since(condition.get("lastTransitionTime"), now)
    text = f"its resize is {word}{since}: it {amounts}" + (f" ({message})" if message else "")
    remedies = [_give_up_resize(pod)] if wanted and is_pending else []
    if code == "resize-infeasible":
        advice = f"state the resources in {name_source(pod, objects)}: pods that are made anew have them from the start"
        remedies.append(make_remedy(advice))
    if code == "resize-failed":
        remedies = [make_remedy(f"{_advise_on_failure(pod, message)}: its kubelet tries again by itself")]
    source = f"status.conditions[{condition['type']}]"
    return [make_cause(code, text, source, at=condition.get("lastTransitionTime"), remedies=remedies)]


def _advise_on_failure(pod: Json, message: str) -> str:
    """Return what lets the kubelet carry out a resize that it has granted and that failed."""
    node = pod["spec"].get("nodeName")
    if used := [int(amount) for amount in _IN_USE.findall(message)]:
        amount = format_requested("memory", max(used))
        return f"ask for a memory limit of more than the {amount} in use, or let the program use less"
    return f"mend what the message names on {node}, or change the resources to what it allows"


def find_resizes_against(answer: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield a cause for each pod without whose deferred resize the pod of a PodExplanation would fit.

    The scheduler counts what a resize asks for, so that a node has less than nothing free of it. Only the pods of such
    nodes are read, and only of nodes that reject the pod for nothing else.
    """
    rows = [row for group in answer.get("rejections") or () for row in group["nodes"] if not row["alsoRejectedBy"]]
    rows = [row for row in rows if any(reason.get("free", 0) < 0 for reason in row["reasons"])]
    for row in rows[:_MAX_NODES]:
        for other in objects.list_pods_of_node(row["node"], answer["metadata"]["namespace"]).items:
            pending = read_conditions(other).get("PodResizePending") or {}
            is_deferred = pending.get("status") == "True" and pending.get("reason") == "Deferred"
            if not is_deferred or not all(_fits_without_resize(reason, other) for reason in row["reasons"]):
                continue
            wanted, given = _compare_resources(other)
            name = f"{other['metadata']['namespace']}/{other['metadata']['name']}"
            text = f"pod {name} on {row['node']} holds what its deferred resize asks for: it wants {wanted}, has"
            free = ", ".join(
                f"{format_available(r['resource'], r['free'] + _sum_increase(other, r['resource']))} {r['resource']}"
                for r in row["reasons"]
            )
            text += f" {given}. Without the resize {row['node']} has {free} free, which is enough"
            back = _give_up_resize(other)
            remedy = make_remedy(f"give up the resize of {name} until {row['node']} has room for it", back["command"])
            at, source = pending.get("lastTransitionTime"), f"Pod/{other['metadata']['name']} status.conditions"
            yield make_cause("resize-held", text, source, of=f"Pod/{name}", at=at, remedies=[remedy])


def _fits_without_resize(reason: Json, pod: Json) -> bool:
    """Return whether a node would have enough of the resource of a reason if a pod on it had not asked for more."""
    is_amount = reason["code"] == "insufficient" and "free" in reason
    return is_amount and reason["free"] + _sum_increase(pod, reason["resource"]) >= reason["requested"]


def _sum_increase(pod: Json, resource: str) -> int:
    """Return how much more of a resource a pod's containers ask for than the kubelet has granted, in base units."""
    more = Fraction(0)
    for container in list_containers(pod):
        asked = ((container.spec.get("resources") or {}).get("requests") or {}).get(resource)
        granted = (read_granted(container).get("requests") or {}).get(resource)
        if asked is not None and granted is not None:
            more += read_quantity(asked) - read_quantity(granted)
    return int(more * (1000 if resource == "cpu" else 1))


def _compare_resources(pod: Json, read: Callable[[Container], Json] = read_granted) -> tuple[str, str]:
    """Return the requests that the spec has and those that `read` finds, where they differ; "" if unknown."""
    wanted, given = [], []
    for container in list_containers(pod):
        asked = (container.spec.get("resources") or {}).get("requests") or {}
        granted = read(container).get("requests") or {}
        for resource, amount in asked.items():
            if resource in granted and str(granted[resource]) != str(amount):
                wanted.append(f"{amount} {resource} ({container.label})")
                given.append(f"{granted[resource]}")
    return ", ".join(wanted), ", ".join(given)


def _give_up_resize(pod: Json) -> Remedy:
    """Return the remedy that sets the resources back to those that the kubelet has granted."""
    containers = []
    for container in list_containers(pod):
        granted, asked = read_granted(container), container.spec.get("resources") or {}
        back = {
            part: {r: str(granted[part][r]) for r in asked.get(part) or {} if r in granted[part]}
            for part in ("requests", "limits")
            if granted.get(part)
        }
        if any(back.values()) and not container.is_init:
            containers.append({"name": container.name, "resources": {k: v for k, v in back.items() if v}})
    patch = quote_patch({"spec": {"containers": containers}})
    command = kubectl(pod, f"patch pod {pod['metadata']['name']}", "--subresource=resize", "-p", patch)
    return make_remedy("give up the resize, so that the node's capacity counts again as it is used", command)
