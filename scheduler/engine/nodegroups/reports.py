"""What autoscalers report in their own words: events about pods, conditions, and the status of cluster-autoscaler.

Owns: which events and conditions belong to which pod or group, and reading the ConfigMap cluster-autoscaler-status.
Does not own: verdicts; nothing here changes one, except that the status of a group supplies its sizes.

The ConfigMap is YAML since cluster-autoscaler 1.30; the text of earlier versions is passed on as one condition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from herodotus_answers.cluster_headlines import EVENT, PHASE
from herodotus_answers.node_groups import EventReport, NodeGroupCondition, is_of_autoscaler
from scheduler.engine.objects.autoscaling import (
    MACHINE_DEPLOYMENT_LABEL,
    MACHINE_SET_LABEL,
    NODE_POOL_LABEL,
    STATUS_CONFIG_MAP,
    STATUS_NAMESPACE,
    ConfigMap,
    Event,
    Machine,
    NodeClaim,
    NodePool,
    ReportedCondition,
)
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.kubernetes_yaml import YamlError, load_documents

MAX_REPORTS: Final = 20  # about one pod, the newest; autoscalers repeat themselves
MAX_OF_GROUP: Final = 20  # conditions of the NodeClaims or Machines of one group
MAX_TEXT: Final = 2000  # characters of a status that is no YAML
_LAUNCH_FAILURES: Final = frozenset({"InsufficientCapacityError", "NodeClassNotReady"})  # of Karpenter
_SCALE_UP_FAILURES: Final = frozenset({"FailedToScaleUpGroup", "ScaleUpTimedOut", "FailedToCreateNodeGroup"})
_CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"


def list_reports(objects: ClusterObjects, namespace: str, name: str) -> list[EventReport]:
    """Return the autoscalers' events about a pod, and about NodeClaims for which it was nominated, the newest first."""
    of_pod = [
        event
        for event in objects.in_namespace(Event, namespace)
        if event.involved_object.kind == "Pod"
        and event.involved_object.name == name
        and is_of_autoscaler(event.reason, event.component)
    ]
    claims = {event.node_claim for event in of_pod} - {""}
    of_claims = [event for event in objects.all(Event) if _is_failed_launch(event) and _name_of(event) in claims]
    reports: list[EventReport] = [
        {
            "component": event.component,
            "reason": event.reason,
            "message": event.message,
            "at": event.last_seen,
            "count": max(event.count or 1, event.series.count if event.series else 0),
        }
        for event in (*of_pod, *of_claims)
    ]
    return sorted(reports, key=lambda report: report["at"], reverse=True)[:MAX_REPORTS]


def _is_failed_launch(event: Event) -> bool:
    return event.involved_object.kind == "NodeClaim" and event.reason in _LAUNCH_FAILURES


def _name_of(event: Event) -> str:
    return event.involved_object.name


def list_group_conditions(objects: ClusterObjects) -> dict[str, list[NodeGroupCondition]]:
    """Return the conditions that the objects of each group report, by the group's source.

    They are a NodePool's conditions, conditions of its NodeClaims that are not True, failed launches, and machines that
    failed or have no node yet. Except for the first kind, a group has at most MAX_OF_GROUP of them.
    """
    conditions: dict[str, list[NodeGroupCondition]] = defaultdict(list)
    counts: Counter[str] = Counter()

    def add(source: str, condition: NodeGroupCondition) -> None:
        counts[source] += 1
        if counts[source] <= MAX_OF_GROUP:
            conditions[source].append(condition)

    for pool in objects.all(NodePool):
        source = format_pool_source(pool.metadata.name)
        conditions[source] += [
            _describe(f"NodePool/{pool.metadata.name}", condition) for condition in pool.status.conditions or ()
        ]
    for claim in sorted(objects.all(NodeClaim), key=lambda claim: claim.metadata.name):
        pool_name = (claim.metadata.labels or {}).get(NODE_POOL_LABEL, "")
        by_type = {condition.type: condition for condition in claim.status.conditions or ()}
        for condition in (by_type[name] for name in _STEPS if name in by_type):
            if condition.status != "True":
                add(format_pool_source(pool_name), _describe(f"NodeClaim/{claim.metadata.name}", condition))
    for event in sorted(objects.all(Event), key=lambda event: event.last_seen, reverse=True):
        if _is_failed_launch(event):
            name = _name_of(event)  # a claim that cannot be launched is deleted soon
            add(format_pool_source(name.rpartition("-")[0]), _describe_event(f"NodeClaim/{name}", event))
    for machine in sorted(objects.all(Machine), key=lambda machine: machine.metadata.name):
        if machine.status.node_ref is None or machine.status.phase == "Failed":
            add(_find_machine_source(machine), _describe_machine(machine))
    return conditions


# The steps of a NodeClaim, in their order: where it stands is the first that is not True.
_STEPS: Final = ("Launched", "Registered", "Initialized", "Ready")


def format_pool_source(name: str) -> str:
    """Return the source of a NodePool's group, which is unique among groups."""
    return f"NodePool {name}"


def list_autoscaler_events(objects: ClusterObjects) -> list[NodeGroupCondition]:
    """Return the failures to scale up in events about cluster-autoscaler's status, the newest MAX_OF_GROUP first."""
    events = [
        event
        for event in objects.in_namespace(Event, STATUS_NAMESPACE)
        if event.involved_object.name == STATUS_CONFIG_MAP and event.reason in _SCALE_UP_FAILURES
    ]
    events.sort(key=lambda event: event.last_seen, reverse=True)
    return [_describe_event(_CLUSTER_AUTOSCALER, event) for event in events[:MAX_OF_GROUP]]


def _describe(name: str, condition: ReportedCondition) -> NodeGroupCondition:
    return {
        "object": name,
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "since": condition.last_transition_time,
    }


def _describe_event(name: str, event: Event) -> NodeGroupCondition:
    return {
        "object": name,
        "type": EVENT,
        "status": "",
        "reason": event.reason,
        "message": event.message,
        "since": event.last_seen,
    }


def _find_machine_source(machine: Machine) -> str:
    """Return the source of a machine's group: its MachineDeployment, or its MachineSet if it has none."""
    labels, namespace = machine.metadata.labels or {}, machine.metadata.namespace
    deployment = labels.get(MACHINE_DEPLOYMENT_LABEL)
    if deployment:
        return f"MachineDeployment {namespace}/{deployment}"
    return f"MachineSet {namespace}/{labels.get(MACHINE_SET_LABEL, '')}"


def _describe_machine(machine: Machine) -> NodeGroupCondition:
    """Return the phase of a machine as a condition, with the reason of its failure or of a condition that is False."""
    status = machine.status
    failed = next((each for each in status.conditions or () if each.status == "False"), None)
    return {
        "object": f"Machine/{machine.metadata.name}",
        "type": PHASE,
        "status": status.phase or "Pending",
        "reason": status.failure_reason or (failed.reason if failed else ""),
        "message": status.failure_message or (failed.message if failed else ""),
        "since": (failed.last_transition_time if failed else "") or machine.metadata.creation_timestamp or "",
    }


@dataclass
class ReportedGroup:
    """What cluster-autoscaler reports about one group; `name` is the cloud provider's."""

    name: str
    min_size: int | None = None
    max_size: int | None = None
    target: int | None = None
    conditions: list[NodeGroupCondition] = field(default_factory=list)


@dataclass
class AutoscalerStatus:
    """The status of cluster-autoscaler: conditions of the whole, and of each group by name."""

    conditions: list[NodeGroupCondition] = field(default_factory=list)
    groups: dict[str, ReportedGroup] = field(default_factory=dict)

    @classmethod
    def read(cls, objects: ClusterObjects) -> AutoscalerStatus:
        """Return the status in cluster-autoscaler's ConfigMap, or an empty status if there is none."""
        config_map = objects.get(ConfigMap, STATUS_CONFIG_MAP, STATUS_NAMESPACE)
        text = config_map.data.status if config_map is not None and config_map.data is not None else ""
        return cls.parse(text) if text else cls()

    @classmethod
    def parse(cls, text: str) -> AutoscalerStatus:
        """Return the status in the text of the ConfigMap. Text that is not in the known form becomes one condition."""
        try:
            documents = list(load_documents(text))
        except YamlError:
            documents = []
        status = documents[0] if documents and isinstance(documents[0], Mapping) else None
        if status is None or not ("clusterWide" in status or "nodeGroups" in status):
            first = text.strip()[:MAX_TEXT]
            told: NodeGroupCondition = {
                "object": _CLUSTER_AUTOSCALER,
                "type": "Status",
                "status": "",
                "reason": "",
                "message": first,
                "since": "",
            }
            return cls([told])
        parsed = cls(list(_list_conditions(_CLUSTER_AUTOSCALER, status.get("clusterWide"))))
        for group in status.get("nodeGroups") or ():
            if isinstance(group, Mapping) and group.get("name"):
                reported = _read_group(group)
                parsed.groups[reported.name] = reported
        return parsed


def _read_group(group: Mapping[str, Any]) -> ReportedGroup:
    name, health = str(group["name"]), group.get("health")
    sizes = health if isinstance(health, Mapping) else {}
    return ReportedGroup(
        name=name,
        min_size=_read_number(sizes.get("minSize")),
        max_size=_read_number(sizes.get("maxSize")),
        target=_read_number(sizes.get("cloudProviderTarget")),
        conditions=list(_list_conditions(f"node group {name}", group)),
    )


def _read_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _list_conditions(name: str, status: object) -> Iterator[NodeGroupCondition]:
    """Yield the conditions in a part of the status, such as health, scaleUp and scaleDown, for the object `name`."""
    parts: Iterable[tuple[str, Any]] = status.items() if isinstance(status, Mapping) else ()
    for key, part in parts:
        if isinstance(part, Mapping) and "status" in part:
            backoff = part.get("backoffInfo")
            backoff = backoff if isinstance(backoff, Mapping) else {}
            yield {
                "object": name,
                "type": key[:1].upper() + key[1:],
                "status": str(part["status"]),
                "reason": str(backoff.get("errorCode") or ""),
                "message": str(backoff.get("errorMessage") or ""),
                "since": str(part.get("lastTransitionTime") or ""),
            }
