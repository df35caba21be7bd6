"""How many more pods of one kind fit: each is placed by the engine, until one does not fit.

As the cluster-capacity tool does, but with the scheduler's own plugins and configuration. A pod that fits only where
others are evicted does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Final

import msgspec
import numpy as np

from herodotus_answers.cluster_questions import CapacityQuestion
from herodotus_answers.cluster_review import Capacity, NodeCapacity, ScatteredResource
from herodotus_record import reasons
from herodotus_record.templates import parse_pod_template
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns
from scheduler.engine.cycle import CycleResult
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.pods import PriorityClass, build_pods
from scheduler.engine.whatif.simulation import Simulation, format_no_profile

ZONE: Final = "topology.kubernetes.io/zone"
MAX_PODS: Final = 100_000


def measure_capacity(
    simulation: Simulation,
    question: CapacityQuestion,
    scheduler: str,
    classes: dict[str, PriorityClass] | None,
    old: Set[str],
) -> Capacity:
    """Return how many pods like that of the question's object fit in addition to the present pods.

    Pods are placed one after the other, or group by group, until one does not fit or the question's limit is reached;
    they stay in the simulation. `scheduler` is used if the object names no scheduler. `old` names the nodes that were
    there before the question's changes. Raises PodTemplateError or ManifestError for an invalid object.
    """
    template = parse_pod_template(question.object)
    namespace = template.namespace or question.namespace
    pods = build_pods(template, namespace, template.scheduler or scheduler, 1, classes)
    ensure(pods.controller, simulation.objects)
    pod = pods.pods[0].pod
    size = question.group_size or 1
    most = question.limit // size
    limits: dict[str, str] = {}
    message = ""
    groups = 0
    before = _count_pods(simulation.nodes)
    while groups < most:
        numbers = range(groups * size, (groups + 1) * size)
        result = simulation.place_group([_number(pod, template.name, number) for number in numbers])
        if result is None or result.chosen is None:
            message = format_no_profile(pod) if result is None else result.message
            limits = {} if result is None else _list_rejections(result, simulation.nodes)
            break
        groups += 1
    here = _count_pods(simulation.nodes)
    here.subtract(before)
    here = +here
    nodes: list[NodeCapacity] = [
        {"node": name, "fits": here[name], "limitedBy": limits.get(name, "")} for name in {*here, *limits}
    ]
    for node in nodes:
        if node["node"] not in old:
            node["isNew"] = True
    return {
        "fits": here.total(),
        "limited": groups == most,
        "message": message,
        "nodes": sorted(nodes, key=_rank),
        "zones": _count_zones(simulation, here),
        "groups": groups if question.group_size else None,
        "groupSize": question.group_size,
        "scattered": _list_scattered(PodInfo(pod), simulation.nodes) if message else [],
    }


def list_nodes(simulation: Simulation) -> Set[str]:
    """Return the names of the nodes that there are."""
    nodes = simulation.nodes
    return {nodes.names[slot] for slot in np.flatnonzero(nodes.live[: nodes.slots]).tolist()}


def _list_scattered(pod: PodInfo, nodes: NodeColumns) -> list[ScatteredResource]:
    """Return the resources of which a pod's request is free on all nodes together and on none of them."""
    wanted = {resource: amount for resource, amount in pod.requests.items() if amount > 0}
    scattered: list[ScatteredResource] = []
    for resource in sorted(wanted.keys() - set(nodes.list_unknown_resources(wanted))):
        free = np.maximum(nodes.allocatable(resource) - nodes.requested(resource), 0)[nodes.live]
        total, most = int(free.sum()), int(free.max(initial=0))
        if most < wanted[resource] <= total:
            scattered.append({"resource": resource, "requested": wanted[resource], "free": total, "most": most})
    return scattered


def _rank(node: NodeCapacity) -> tuple[bool, int, object]:
    """Return a sort key: new nodes come first, then those with the most pods."""
    return "isNew" not in node, -node["fits"], natural_sort_key(node["node"])


def _number(pod: Pod, name: str, number: int) -> PodInfo:
    """Return a copy of a pod with the name `name`-`number` and a UID of its own."""
    metadata = msgspec.structs.replace(pod.metadata, name=f"{name}-{number}", uid=f"capacity/{number}")
    return PodInfo(msgspec.structs.replace(pod, metadata=metadata))


def _count_pods(nodes: NodeColumns) -> Counter[str]:
    """Return the number of pods on each node by name."""
    return Counter({nodes.names[slot]: len(pods) for slot, pods in enumerate(nodes.pods) if pods})


def _count_zones(simulation: Simulation, here: Counter[str]) -> dict[str, int]:
    """Return the numbers of pods in `here` (by node) by zone, 0 for a zone without pods; "" stands for no zone."""
    zones: Counter[str] = Counter()
    nodes = simulation.nodes
    for slot in np.flatnonzero(nodes.live[: nodes.slots]).tolist():
        node = simulation.node(nodes.names[slot])
        zones[((node and node.metadata.labels) or {}).get(ZONE, "")] += here[nodes.names[slot]]
    return dict(sorted(zones.items()))


def _list_rejections(result: CycleResult, nodes: NodeColumns) -> dict[str, str]:
    """Return, by node name, the reasons of the first filter that rejects the pod there; "" if none does."""
    trace, rejections = result.trace, {}
    for slot in np.flatnonzero(nodes.live[: nodes.slots]).tolist():
        first = int(trace.first[slot])
        verdict = trace.filters[first].verdicts.verdict_at(slot) if first >= 0 else None
        rejections[nodes.names[slot]] = ", ".join(map(reasons.format_reason, verdict.reasons)) if verdict else ""
    return rejections
