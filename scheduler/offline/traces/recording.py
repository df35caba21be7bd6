"""Records a trace while a scheduler or an observer watches the cluster.

    recorder = TraceRecorder(TraceFiles(path, limit_bytes, number), omitted, pseudonyms, clock)
    sink = recorder.tee(loop.inbox.put)

Owns: which changes of objects are events, the queue between watches and file, the files of a recording. Does not own:
the format (`document`), what of an object is kept (`redaction`).

The watches' threads only enqueue. One thread writes, in blocks of a few seconds, so that scheduling never waits for a
disk. If the queue is full, messages are lost and counted in the trace. If a file cannot be written, recording ends.

Invariant: memory is bounded by the objects of the cluster. No event is in a file before those it depends on.
"""

from __future__ import annotations

import os
import queue
import secrets
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from herodotus_kube.watch import ListResult, Sink, WatchEvent
from herodotus_record import klog
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.engine.objects.pod import FINISHED_PHASES
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.types import Node, Object, Pod
from scheduler.engine.objects.watched_kinds import ALL_KINDS
from scheduler.engine.records.omitted_labels import NOTHING_OMITTED, OmittedLabels
from scheduler.offline.traces.document import (
    VERSION,
    Event,
    MessagesLost,
    NodeAdded,
    NodeRemoved,
    ObjectRemoved,
    ObjectSet,
    PodArrived,
    PodBound,
    PodEnded,
    TraceHeader,
    TraceWriter,
)
from scheduler.offline.traces.redaction import (
    OBJECT_KINDS,
    Pseudonyms,
    redact_node,
    redact_object,
    redact_pod,
    was_evicted,
)

MISSING: Final = (
    "Volumes and their claims, and budgets are not recorded.",
    "Changes of pods after their arrival are not recorded.",
)
MAX_WAITING: Final = 20_000  # messages in the queue, or before the nodes: some seconds of a busy cluster
FLUSH_S: Final = 5.0  # what a crash loses
CLOSE_S: Final = 10.0

_KINDS: Final = {kind.name: kind.decode_as for kind in ALL_KINDS if kind.decode_as.__name__ in OBJECT_KINDS}

Message = ListResult[Any] | WatchEvent[Any]


class TraceFiles:
    """The files of a trace: PATH, and earlier ones as PATH.1, PATH.2 and so on. Only their owner may read them."""

    def __init__(self, path: Path, limit_bytes: int, number: int) -> None:
        """Prepare without writing. A file ends at `limit_bytes`; `number` files are kept at most."""
        self._path, self.limit_bytes, self._number = path, limit_bytes, number
        self._file: int | None = None
        self.size = 0

    def begin(self) -> None:
        """Begin a new file, after renaming the present one and deleting the oldest. Raise OSError."""
        self.close()
        for i in range(self._number - 1, 0, -1):
            earlier = self._numbered(i - 1)
            if earlier.exists():
                earlier.replace(self._numbered(i))
        self._path.unlink(missing_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self.size = 0

    def _numbered(self, i: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{i}") if i else self._path

    def write(self, block: bytes) -> None:
        """Append a block completely or not at all. Raise OSError."""
        assert self._file is not None
        left = memoryview(block)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(block)

    def close(self) -> None:
        """Close the present file, if there is one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class TraceRecorder:
    """Turns watch messages into events of a trace, in a thread that writes them."""

    def __init__(
        self,
        files: TraceFiles,
        omitted: OmittedLabels = NOTHING_OMITTED,
        pseudonyms: Pseudonyms | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin the first file and start the thread. Raise OSError if it cannot be written.

        Labels that `omitted` names are left out. `clock` and `wall_clock` return seconds. The times of the trace count
        from the last whole second of the wall clock, because kube-scheduler's backoffs end on whole seconds.
        """
        self._files, self._omitted, self._pseudonyms, self._clock = files, omitted, pseudonyms, clock
        started_s = wall_clock()
        self._began = clock() - started_s % 1.0
        self._started = datetime.fromtimestamp(int(started_s), timezone.utc).isoformat().replace("+00:00", "Z")
        self._recording = secrets.token_hex(8)
        self._part = 0
        self._nodes: dict[str, NodeAdded] = {}  # by name, as they are
        self._pods: dict[str, PodArrived] = {}  # by UID, those that have not ended
        # by kind, and by namespace and name; None for a claim that a simulation makes anew
        self._objects: dict[type[Object], dict[tuple[str, str], ObjectSet | None]] = {}
        self._has_nodes = False  # whether the nodes were listed
        self._early: list[Message] = []  # about pods, before that; MAX_WAITING at most
        self._queue: queue.SimpleQueue[tuple[float, Message] | None] = queue.SimpleQueue()
        self._lost = 0
        self._end_block_at = 0.0
        self._smallest_bytes = 0  # of the present file, when it began
        self._writer: TraceWriter
        self._begin_part()
        self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
        self._thread.start()

    def tee(self, sink: Sink) -> Sink:
        """Return a sink that passes each message on, and enqueues those about kinds that a trace has."""

        def take(message: Message) -> None:
            at_s = self._clock() - self._began  # before anything follows from the message
            sink(message)
            if message.kind not in (NODES, PODS, *_KINDS):
                return
            if self._queue.qsize() < MAX_WAITING or isinstance(message, ListResult):  # nothing replaces a list
                self._queue.put((at_s, message))
            else:
                self._lost += 1

        return take

    def close(self) -> None:
        """Write what is in the queue, and end the thread."""
        self._queue.put(None)
        self._thread.join(CLOSE_S)

    # --- the thread that writes ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._record(*taken)
            self._writer.flush()
        except OSError as e:
            klog.error(e, "The trace ends here: it cannot be written")
            while self._queue.get() is not None:
                pass  # so that the queue holds no objects
        finally:
            self._files.close()

    def _take(self) -> tuple[float, Message] | None:
        """Return the next message, and write the block of those before when it is old enough; None at the end."""
        while True:
            left = self._end_block_at - time.monotonic()
            try:
                return self._queue.get(timeout=max(0.0, left))
            except queue.Empty:
                self._end_block()

    def _end_block(self) -> None:
        self._writer.flush()
        self._end_block_at = time.monotonic() + FLUSH_S

    def _record(self, at_s: float, message: Message) -> None:
        at_s = round(at_s, 6)
        if self._lost:
            lost, self._lost = self._lost, 0
            self._writer.add(MessagesLost(at_s, lost))
        if message.kind == NODES:
            self._record_nodes(at_s, message)
        elif message.kind in _KINDS:
            self._record_objects(at_s, _KINDS[message.kind], message)
        elif len(self._early) < MAX_WAITING:
            self._early.append(message)
        else:  # the nodes may not be listed, perhaps never
            self._lost += 1
        if self._has_nodes:
            early, self._early = self._early, []
            for each in early:
                self._record_pods(at_s, each)
        if time.monotonic() >= self._end_block_at:
            self._end_block()
        if self._files.size >= max(self._files.limit_bytes, 2 * self._smallest_bytes):
            self._begin_part()

    def _record_nodes(self, at_s: float, message: Message) -> None:
        match message:
            case ListResult():
                self._has_nodes = True
                for name in self._nodes.keys() - {node.metadata.name for node in message.objects}:
                    self._remove_node(at_s, name)
                for node in message.objects:
                    self._set_node(at_s, node)
            case WatchEvent(type="DELETED"):
                self._remove_node(at_s, message.object.metadata.name)
            case _:
                self._set_node(at_s, message.object)

    def _record_objects(self, at_s: float, kind: type[Object], message: Message) -> None:
        """Record changes of a kind. The objects of its first list are there from the start, as pods refer to them."""
        present = self._objects.get(kind)
        match message:
            case ListResult():
                before = self._objects.setdefault(kind, {})
                for key in before.keys() - {_key(obj) for obj in message.objects}:
                    self._remove_object(at_s, kind, key)
                for obj in message.objects:
                    self._set_object(0.0 if present is None else at_s, obj)
            case WatchEvent(type="DELETED"):
                self._remove_object(at_s, kind, _key(message.object))
            case _:
                self._set_object(at_s, message.object)

    def _set_object(self, at_s: float, obj: Object) -> None:
        """Record an object, unless only its status or what a trace leaves out has changed.

        The allocation of a claim is that at its first sight; later ones are decisions, which a simulation makes. It
        also makes the claims that pods control anew, unless they had devices then.
        """
        objects, redacted = self._objects.setdefault(type(obj), {}), redact_object(obj)
        before = objects.get(_key(obj))
        if isinstance(redacted, ResourceClaim) and _key(obj) in objects:
            return  # its spec never changes
        if isinstance(redacted, ResourceClaim) and _is_made_anew(redacted):
            objects[_key(obj)] = None
        elif before is None or before.object != redacted:
            event = objects[_key(obj)] = ObjectSet(at_s, redacted)
            self._writer.add(event)

    def _remove_object(self, at_s: float, kind: type[Object], key: tuple[str, str]) -> None:
        if self._objects.get(kind, {}).pop(key, None) is not None:
            self._writer.add(ObjectRemoved(at_s, kind.__name__, *key))

    def _record_pods(self, at_s: float, message: Message) -> None:
        match message:
            case ListResult():
                for uid in self._pods.keys() - {pod.metadata.uid for pod in message.objects}:
                    self._end_pod(at_s, uid, None)
                for pod in message.objects:
                    self._set_pod(at_s, pod)
            case WatchEvent(type="DELETED"):
                self._end_pod(at_s, message.object.metadata.uid, message.object)
            case _:
                self._set_pod(at_s, message.object)

    def _set_node(self, at_s: float, node: Node) -> None:
        """Record a node, unless only what a trace leaves out has changed, as with each heartbeat."""
        redacted, before = redact_node(node), self._nodes.get(node.metadata.name)
        if before is None or before.node != redacted:
            event = self._nodes[node.metadata.name] = NodeAdded(at_s, redacted)
            self._writer.add(event)

    def _remove_node(self, at_s: float, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._writer.add(NodeRemoved(at_s, name))

    def _set_pod(self, at_s: float, pod: Pod) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        arrival = self._pods.get(uid)
        if pod.status.phase in FINISHED_PHASES:
            self._end_pod(at_s, uid, pod)
        elif arrival is None:
            # A gated pod arrives when its last gate is gone. A watch may show a pod before its new node: it is recorded
            # with its next change, as the kubelet makes some.
            if node in self._nodes or not (node or pod.spec.scheduling_gates):
                bound = at_s if node else None
                self._add(PodArrived(at_s, self._redact(pod), bound, node, was_on_node=bool(node)))
        elif node and not arrival.node:
            self._pods[uid] = replace(arrival, bound_at_s=at_s, node=node)
            self._writer.add(PodBound(at_s, uid, node))

    def _add(self, arrival: PodArrived) -> None:
        self._pods[arrival.pod.metadata.uid] = arrival
        self._writer.add(arrival)

    def _redact(self, pod: Pod) -> Pod:
        redacted = redact_pod(pod)
        labels = self._omitted.kept(redacted.metadata.labels or {}) or None
        return replace(redacted, metadata=replace(redacted.metadata, labels=labels))

    def _end_pod(self, at_s: float, uid: str, pod: Pod | None) -> None:
        """Record the end of a pod. `pod` is its last state, or None if the watch did not see it."""
        if self._pods.pop(uid, None) is not None:
            self._writer.add(PodEnded(at_s, uid, pod is not None and was_evicted(pod)))

    def _begin_part(self) -> None:
        """Begin a file with the nodes and pods that there are."""
        if self._part:
            self._writer.flush()
        self._files.begin()
        self._part += 1
        header = TraceHeader(VERSION, MISSING, self._started, self._recording, self._part)
        self._writer = TraceWriter(self._files.write, header, self._pseudonyms)
        objects = (each for of in self._objects.values() for each in of.values() if each is not None)
        events: list[Event] = [*self._nodes.values(), *objects, *self._pods.values()]
        for event in events:
            self._writer.add(event)
        self._end_block()
        self._smallest_bytes = self._files.size


def _is_made_anew(claim: ResourceClaim) -> bool:
    """Return whether a simulation makes the claim itself, from a template, when its pod arrives."""
    controller = claim.metadata.controller
    return controller is not None and controller.kind == "Pod" and claim.status.allocation is None


def _key(obj: Object) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
