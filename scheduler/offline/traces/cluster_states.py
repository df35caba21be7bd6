"""Imports states of a cluster, as `snapshot` or `kubectl get -o yaml` writes them, as a trace.

Owns: what follows from one state and from the difference of two. Does not own: reading files (`evaluate.files`), what a
trace has of an object (`redaction`).

A state has the pods that are there, with the times at which they were created and bound. What is gone in the next state
has ended in between; when, no state says, so it ends at the moment of that state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from herodotus_record.units import format_timestamp
from scheduler.engine.manifests.cluster import ManifestError, decode_object
from scheduler.engine.objects.pod import FINISHED_PHASES
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.whatif.owners import NODE
from scheduler.offline.evaluate.files import parse_items, read_documents
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, PodArrived, TraceContent, sort_events
from scheduler.offline.traces.redaction import redact_node, was_evicted

Json = Mapping[str, Any]

_MICROSECONDS: Final = 1_000_000
_MISSING: Final = (
    "Pods that had ended before the first state, or that came and went between two states, are unknown.",
    "What is gone in a state ended at its moment, and so did a pod that has finished without a time.",
    "A pod arrives when it was created, even if it had scheduling gates then.",
    "Volumes, claims, budgets and services are not in the trace.",
)


class _State(NamedTuple):
    """A state of a cluster. `taken_us` is its moment, in microseconds since 1970."""

    path: Path
    taken_us: int
    nodes: dict[str, tuple[Node, int]]  # by name: with the time at which it was created
    pods: dict[str, _SeenPod]  # by UID


class _SeenPod(NamedTuple):
    """A pod of a state, with times in microseconds since 1970; None if the state does not say them."""

    pod: Pod
    created_us: int
    bound_us: int | None
    ended_us: int | None


def import_cluster_states(*paths: Path) -> TraceContent:
    """Return the events that states of one cluster show, whose files are in order of time.

    Each path is a file or directory as `evaluate --cluster` reads it. Raise TraceError for an invalid file or order.
    """
    states = [_read_state(path) for path in paths]
    for earlier, later in pairwise(states):
        if later.taken_us <= earlier.taken_us:
            moments = [format_timestamp(state.taken_us) for state in (earlier, later)]
            raise TraceError(
                f"{later.path}: its moment, {moments[1]}, is not after {moments[0]}, that of {earlier.path}: name the"
                " states in order of time"
            )
    created = [pod.created_us for state in states for pod in state.pods.values()]
    start_us = min(created, default=states[0].taken_us)
    events = [*_list_nodes(states, start_us), *_list_pods(states, start_us)]
    return TraceContent(sort_events(events), [*_MISSING])


def _read_state(path: Path) -> _State:
    nodes, pods, moments = dict[str, tuple[Node, int]](), list[tuple[Pod, Json]](), list[int]()
    taken_us = 0
    try:
        for where, document in read_documents(str(path)):
            metadata = document.get("metadata") if isinstance(document, Mapping) else None
            if isinstance(metadata, Mapping) and "takenAt" in metadata:
                taken_us = max(taken_us, _parse_time(where, metadata, "takenAt"))
            for place, content in parse_items(where, document):
                obj = decode_object(place, content, set())
                if not isinstance(content, Mapping) or not isinstance(obj, (Node, Pod)):
                    continue
                times = [*_list_times(place, content)]
                moments += times
                if isinstance(obj, Node):
                    nodes[obj.metadata.name] = obj, _parse_time(place, content.get("metadata"), "creationTimestamp")
                else:
                    pods.append((obj, content))
    except ManifestError as e:
        raise TraceError(str(e)) from e
    if not nodes:
        raise TraceError(f"{path}: no Node in the cluster")
    taken_us = taken_us or max(moments, default=0)
    return _State(path, taken_us, nodes, dict(_see_pod(path, pod, content, taken_us) for pod, content in pods))


def _list_times(where: str, content: Json) -> Iterator[int]:
    """Yield the times of an object that are not after the moment at which it was read."""
    yield _parse_time(where, content.get("metadata"), "creationTimestamp")
    for condition in _conditions(content):
        for name in ("lastHeartbeatTime", "lastTransitionTime"):
            yield _parse_time(where, condition, name)


def _conditions(content: Json) -> Iterable[Json]:
    status = content.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return [each for each in conditions if isinstance(each, Mapping)] if isinstance(conditions, list) else []


def _parse_time(where: str, fields: object, name: str) -> int:
    """Return a time in microseconds since 1970, 0 if there is none."""
    text = fields.get(name) if isinstance(fields, Mapping) else None
    try:
        return parse_microseconds(None if text is None else str(text))
    except ValueError:
        raise TraceError(f"{where}: {name}: expected a time, found {text!r}") from None


def _see_pod(path: Path, pod: Pod, content: Json, taken_us: int) -> tuple[str, _SeenPod]:
    """Return the UID of a pod and what its state says of it."""
    where = f"{path}: pod {pod.metadata.namespace}/{pod.metadata.name}"
    created_us = _parse_time(where, content.get("metadata"), "creationTimestamp")
    bound_us = ended_us = None
    for condition in _conditions(content):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            bound_us = _parse_time(where, condition, "lastTransitionTime") or None
    if pod.status.phase in FINISHED_PHASES:
        ended_us = max(_list_ends(where, content), default=0) or taken_us
    uid = pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"
    named = replace(pod, metadata=replace(pod.metadata, uid=uid))
    return uid, _SeenPod(named, created_us, bound_us if pod.spec.node_name else None, ended_us)


def _list_ends(where: str, content: Json) -> Iterator[int]:
    """Yield the times at which the containers of a pod ended."""
    for container in content["status"].get("containerStatuses") or ():
        state = container.get("state") if isinstance(container, Mapping) else None
        yield _parse_time(where, state.get("terminated") if isinstance(state, Mapping) else None, "finishedAt")


def _list_nodes(states: Iterable[_State], start_us: int) -> Iterator[Event]:
    """Yield the nodes as they join, change and leave. Those that are older than the first pod join at once."""
    present: dict[str, Node] = {}
    for i, state in enumerate(states):
        at_s = (state.taken_us - start_us) / _MICROSECONDS
        for name in present.keys() - state.nodes.keys():
            yield NodeRemoved(at_s, name)
            del present[name]
        for name, (node, created_us) in state.nodes.items():
            redacted, before = redact_node(node), present.get(name)
            if redacted != before:
                joined_s = max(0.0, (created_us - start_us) / _MICROSECONDS)
                yield NodeAdded(joined_s if before is None and (created_us or not i) else at_s, node)
                present[name] = redacted


def _list_pods(states: Iterable[_State], start_us: int) -> Iterator[PodArrived]:
    """Yield each pod as the last state that has it shows it, with its end if a later state lacks it."""
    present: dict[str, tuple[_SeenPod, int | None]] = {}  # with its end
    for state in states:
        gone = {uid for uid, (_, ended_us) in present.items() if ended_us is None} - state.pods.keys()
        present |= {uid: (present[uid][0], state.taken_us) for uid in gone}
        present |= {uid: (seen, seen.ended_us) for uid, seen in state.pods.items()}

    def since_start(at_us: int | None) -> float | None:
        return None if at_us is None else max(0.0, (at_us - start_us) / _MICROSECONDS)

    for seen, ended_us in present.values():
        if seen.pod.spec.scheduling_gates and not seen.pod.spec.node_name:
            continue
        owner = seen.pod.metadata.controller
        yield PodArrived(
            since_start(seen.created_us) or 0.0,
            seen.pod,
            since_start(seen.bound_us),
            seen.pod.spec.node_name,
            since_start(ended_us),
            was_on_node=owner is not None and owner.kind == NODE,  # a static pod, which no scheduler bound
            was_evicted=was_evicted(seen.pod),
        )
