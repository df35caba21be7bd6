"""The two halves of a trace, one for a search and one for the check of what it finds, and random samples of one.

Owns: where a trace is divided, how its arrivals are drawn. Does not own: the state between the halves (`simulation`).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from scheduler.config import Configuration, Registry
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.moments import NODE_CONTROLLERS
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces.document import Event, ObjectSet, PodArrived, sort_events

_Unit = tuple[str, str, str]  # namespace, and a controller or PodGroup, or the UID of a single pod


def find_median_arrival(events: Sequence[Event]) -> float:
    """Return the time before which half of the decided pods arrive. Raises SimulationError if no pod does."""
    times = sorted(event.at_s for event in events if isinstance(event, PodArrived) and not event.was_on_node)
    if not times or times[len(times) // 2] == times[0]:
        raise SimulationError("the trace has no two halves: all its pods arrive at once")
    return times[len(times) // 2]


def split_trace(
    events: Sequence[Event], at_s: float, config: Configuration, registry: Registry, seed: int
) -> tuple[list[Event], list[Event]]:
    """Return the events before a time, and those from then on.

    The second part begins with the nodes and pods that a simulation of the first one with `config` has at that time.
    Its pods stay where they are, as if the configuration had changed then. Raises SimulationError and ConfigError.
    """
    before = [event for event in events if event.at_s < at_s]
    simulation = TraceSimulation(config, registry, seed)
    simulation.run(before, RunMetrics.from_events(before), lambda _: None, until_s=at_s)
    return before, [*simulation.list_present(at_s), *(event for event in events if event.at_s >= at_s)]


def draw_sample(events: Sequence[Event], seed: int) -> list[Event]:
    """Return events in which the controllers of decided pods are drawn at random with replacement.

    As many are drawn as there are, and each comes with all its pods; a pod without a controller is drawn alone, and a
    pod group as a whole, which has a PodGroup of its own each time. Pods of DaemonSets and static pods stay as they
    are, because each belongs to a node. So do nodes.
    """
    pods: dict[_Unit, list[PodArrived]] = defaultdict(list)
    drawn: list[Event] = []
    for event in events:
        if isinstance(event, PodArrived) and not event.was_on_node and event.owner_kind not in NODE_CONTROLLERS:
            pods[_name_unit(event)].append(event)
        else:
            drawn.append(event)
    units, draw, draws = [*pods.items()], random.Random(seed), Counter[_Unit]()
    for number in range(len(units)):
        unit, members = draw.choice(units)
        draws[unit] += 1
        suffix = f"-{number}" if draws[unit] > 1 else ""  # the first keeps the group: it may have pods on nodes
        drawn += [_copy(event, number, suffix) for event in members]
        namespace, kind, name = unit
        if suffix and kind == PodGroup.__name__:
            groups = (
                each for each in events if isinstance(each, ObjectSet) and each.name == f"{kind}/{namespace}/{name}"
            )
            drawn += [_copy_group(each, suffix) for each in groups]
    return sort_events(drawn)


def _name_unit(event: PodArrived) -> _Unit:
    metadata, group = event.pod.metadata, event.pod.spec.scheduling_group
    if group is not None:
        return metadata.namespace, PodGroup.__name__, group.pod_group_name or ""
    owner = event.pod.metadata.controller
    return metadata.namespace, str(owner) if owner else "", "" if owner else metadata.uid


def _copy(event: PodArrived, number: int, group_suffix: str) -> PodArrived:
    metadata, spec = event.pod.metadata, event.pod.spec
    own = replace(metadata, name=f"{metadata.name}-{number}", uid=f"{metadata.uid}/{number}")
    if spec.scheduling_group is not None:
        name = f"{spec.scheduling_group.pod_group_name}{group_suffix}"
        spec = replace(spec, scheduling_group=replace(spec.scheduling_group, pod_group_name=name))
    return replace(event, pod=replace(event.pod, metadata=own, spec=spec))


def _copy_group(event: ObjectSet, suffix: str) -> ObjectSet:
    metadata = event.object.metadata
    return replace(event, object=replace(event.object, metadata=replace(metadata, name=f"{metadata.name}{suffix}")))
