"""Find why the resources of a pod's containers are not those that its spec has: deferred and infeasible resizes.

Owns: these causes and their remedies. Does not own: what else the kubelet reports (`kubelet_causes`). Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from herodotus_answers.pod_facts import (
    Container,
    clean,
    format_since,
    kubectl,
    list_containers,
    make_cause,
    make_remedy,
    quote_patch,
    read_conditions,
)

if TYPE_CHECKING:
    from herodotus_answers.live import LiveCause, Remedy

Json = dict[str, Any]


def find_resize_causes(pod: Json, now: datetime) -> list[LiveCause]:
    """Return why the resources of a pod's containers are not those that its spec has; [] if they are."""
    conditions = read_conditions(pod)
    pending, running = conditions.get("PodResizePending") or {}, conditions.get("PodResizeInProgress") or {}
    condition = pending if pending.get("status") == "True" else running
    if condition.get("status") != "True":
        return []
    code = {"Deferred": "resize-deferred", "Infeasible": "resize-infeasible"}.get(
        str(condition.get("reason")), "resize-in-progress"
    )
    wanted, given = _compare_resources(pod)
    amounts = f"wants {wanted}, has {given}" if wanted else "wants other resources than it has"
    word = {"resize-deferred": "deferred", "resize-infeasible": "infeasible"}.get(code, "in progress")
    message = clean(condition.get("message"))
    since = format_since(condition.get("lastTransitionTime"), now)
    text = f"its resize is {word}{since}: it {amounts}" + (f" ({message})" if message else "")
    remedies = [_give_up_resize(pod)] if wanted and code != "resize-in-progress" else []
    source = f"status.conditions[{condition['type']}]"
    return [make_cause(code, text, source, at=condition.get("lastTransitionTime"), remedies=remedies)]


def _compare_resources(pod: Json) -> tuple[str, str]:
    """Return the requests that the spec has and those that the kubelet granted, where they differ; "" if unknown."""
    wanted, given = [], []
    for container in list_containers(pod):
        asked = (container.spec.get("resources") or {}).get("requests") or {}
        granted = _read_granted(container).get("requests") or {}
        for resource, amount in asked.items():
            if resource in granted and str(granted[resource]) != str(amount):
                wanted.append(f"{amount} {resource} ({container.label})")
                given.append(f"{granted[resource]}")
    return ", ".join(wanted), ", ".join(given)


def _read_granted(container: Container) -> Json:
    """Return the resources that the kubelet has granted a container."""
    actual = dict(container.status.get("resources") or {})
    allocated = container.status.get("allocatedResources")
    return {**actual, "requests": allocated} if allocated else actual


def _give_up_resize(pod: Json) -> Remedy:
    """Return the remedy that sets the resources back to those that the kubelet has granted."""
    containers = []
    for container in list_containers(pod):
        granted, asked = _read_granted(container), container.spec.get("resources") or {}
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
