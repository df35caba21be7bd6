"""Which pods that do not exist yet a ResourceQuota or LimitRange of their namespace would refuse.

A what-if places pods by the scheduler's rules. Whether the API server would create them is another question, which
these sentences answer as far as amounts, required requests and the scopes of a quota decide it.

Owns: the arithmetic and the sentences. Does not own: reading the objects. Pure.

Source: the admission plugins ResourceQuota and LimitRanger of Kubernetes v1.36. A quota whose scope is not known here
is left out, so the absence of a sentence promises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from herodotus_answers.live.workloads.quota_scopes import list_selectors
from herodotus_answers.quantities import format_requested_amount, read_quantity

Json = Mapping[str, Any]

_REQUIRED: Final = ("cpu", "memory")  # amounts that every container has to state where a quota counts them
_LIMITS, _REQUESTS = "limits.", "requests."


class AdmissionRefusal(NamedTuple):
    """A quota or LimitRange that refuses new pods: a sentence without a full stop, and how many pods it lets pass."""

    text: str
    allowed: int


def list_refusals(spec: Json, count: int, quotas: Iterable[Json], ranges: Sequence[Json]) -> list[AdmissionRefusal]:
    """Return each quota that refuses some of `count` new pods, and each LimitRange that refuses all of them.

    `spec` is the spec of the pods.
    """
    containers = [_apply_defaults(container, ranges) for container in spec.get("containers") or ()]
    inits = [_apply_defaults(container, ranges) for container in spec.get("initContainers") or ()]
    refusals = [AdmissionRefusal(text, 0) for each in ranges for text in _check_range(each, [*inits, *containers])]
    for quota in quotas:
        if _is_in_scope(quota, spec, [*inits, *containers]):
            refusals += _check_quota(quota, containers, inits, count)
    return refusals


def _apply_defaults(container: Json, ranges: Sequence[Json]) -> Json:
    """Return a container with the requests and limits that it will have, by the defaults of its namespace."""
    resources = container.get("resources") or {}
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for resource, amount in limits.items():
        requests.setdefault(resource, amount)
    for item in _list_items(ranges, "Container"):
        defaults, most, least = (item.get(key) or {} for key in ("default", "max", "min"))
        for resource, amount in {**most, **defaults}.items():
            limits.setdefault(resource, amount)
        for resource, amount in {**least, **most, **defaults, **(item.get("defaultRequest") or {})}.items():
            requests.setdefault(resource, amount)
    return {"name": container.get("name"), "requests": requests, "limits": limits, "isSidecar": _is_sidecar(container)}


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _list_items(ranges: Iterable[Json], kind: str) -> Iterator[Json]:
    for each in ranges:
        yield from (item for item in (each.get("spec") or {}).get("limits") or () if item.get("type") == kind)


def _check_range(limit_range: Json, containers: Sequence[Json]) -> list[str]:
    """Return a sentence on the first bound of a LimitRange that a container breaks, or []."""
    name = limit_range["metadata"]["name"]
    for item in _list_items([limit_range], "Container"):
        for container in containers:
            for resource, most in (item.get("max") or {}).items():
                for verb, amounts in (("requests", container["requests"]), ("limits", container["limits"])):
                    if read_quantity(amounts.get(resource, 0)) > read_quantity(most):
                        has = f"container {container['name']} {verb} {amounts[resource]} {resource}, at most {most}"
                        return [f"LimitRange {name} refuses such pods: {has}"]
            for resource, least in (item.get("min") or {}).items():
                amount = container["requests"].get(resource, 0)
                if read_quantity(amount) < read_quantity(least):
                    has = f"container {container['name']} requests {amount} {resource}, at least {least}"
                    return [f"LimitRange {name} refuses such pods: {has}"]
    return []


def _is_in_scope(quota: Json, spec: Json, containers: Sequence[Json]) -> bool:
    """Return whether a quota counts the pods; False if that is not known."""
    has_amounts = any(container[kind] for container in containers for kind in ("requests", "limits"))
    in_scope = {
        "Terminating": spec.get("activeDeadlineSeconds") is not None,
        "NotTerminating": spec.get("activeDeadlineSeconds") is None,
        "BestEffort": not has_amounts,
        "NotBestEffort": has_amounts,
    }
    priority_class = spec.get("priorityClassName") or ""
    for selector in list_selectors(quota):
        if selector.get("scopeName") == "PriorityClass":
            values = selector.get("values") or ()
            matches = {
                "In": priority_class in values,
                "NotIn": priority_class not in values,
                "Exists": bool(priority_class),
                "DoesNotExist": not priority_class,
            }
            is_match = matches.get(str(selector.get("operator")), False)
        else:
            is_match = in_scope.get(str(selector.get("scopeName")), False)
        if not is_match:
            return False
    return True


def _check_quota(quota: Json, containers: Sequence[Json], inits: Sequence[Json], count: int) -> list[AdmissionRefusal]:
    """Return the refusal for the resource of a quota that refuses the most pods, or []."""
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    hard, used = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}, status.get("used") or {}
    rooms: list[tuple[int, str]] = []
    for counted, limit in hard.items():
        kind, resource = _parse_counted(counted)
        if not kind:
            continue
        lacking = [each["name"] for each in (*inits, *containers) if resource not in each[kind]]
        if lacking and resource in _REQUIRED:
            why = f"container {lacking[0]} has no {kind}.{resource}"
            return [AdmissionRefusal(f"ResourceQuota {name} refuses such pods: {why}", 0)]
        each = Fraction(1) if resource == "pods" else _sum_amounts(containers, inits, kind, resource)
        if not each:
            continue
        free = max(Fraction(0), read_quantity(limit) - read_quantity(used.get(counted, 0)))
        amounts = f"{counted} {used.get(counted, 0)} of {limit} used"
        asks = "" if resource == "pods" else f", each pod has {format_requested_amount(resource, each)}"
        rooms.append((int(free / each), amounts + asks))
    room, why = min(rooms, default=(count, ""))
    if room >= count:
        return []
    return [AdmissionRefusal(f"ResourceQuota {name} allows {room} of {count} new pods: {why}", room)]


def _parse_counted(counted: str) -> tuple[str, str]:
    """Return what a quota's resource counts, as `requests` or `limits` and the resource; ("", "") if it is no pods'."""
    if counted in ("pods", "count/pods"):
        return "requests", "pods"
    if counted in (*_REQUIRED, "ephemeral-storage"):
        return "requests", counted
    for prefix in (_LIMITS, _REQUESTS):
        resource = counted.removeprefix(prefix)
        if resource != counted and resource != "storage":
            return prefix[:-1], resource
    return "", ""


def _sum_amounts(containers: Sequence[Json], inits: Sequence[Json], kind: str, resource: str) -> Fraction:
    """Return what a pod has of a resource: its containers together, or more for an init container."""
    sidecars, most = Fraction(0), Fraction(0)
    for init in inits:
        amount = read_quantity(init[kind].get(resource, 0))
        sidecars += amount if init["isSidecar"] else 0
        most = max(most, sidecars if init["isSidecar"] else sidecars + amount)
    running = sum((read_quantity(container[kind].get(resource, 0)) for container in containers), sidecars)
    return max(running, most)
