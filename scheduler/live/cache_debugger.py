"""On SIGUSR2, writes the cache and the queue to the log, and how they differ from the API server.

Owns: the dump in kube-scheduler's words, and the comparison with a fresh list. Does not own: cache and queue. Only the
loop's thread reads those, between two cycles, and hands over a copy; the rest runs in a separate thread. A difference
that a second signal does not show again, such as a pod created meanwhile, is no fault.

Source: pkg/scheduler/backend/cache/debugger v1.36. Unlike it, this module also names pods that the API server shows on
another node.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from scheduler.backend.cache import Cache
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Struct
from scheduler.live.loop import Loop
from scheduler.live.scheduler import LoopTask

ANSWER_S: Final = 60.0  # the loop answers between two cycles; one that takes longer is stuck


@dataclass(frozen=True)
class NodeDump:
    """A copy of a node in the cache, with its pods. Amounts of resources are in base units (bytes, millicores)."""

    name: str
    deleted: bool
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    pods: tuple[PodInfo, ...]


@dataclass(frozen=True)
class CacheDump:
    """A copy of the cache and the queue at one moment.

    `waiting` holds the queued pods, and `queues` the number of pods in each queue by name.
    """

    nodes: tuple[NodeDump, ...]
    waiting: tuple[PodInfo, ...]
    queues: Mapping[str, int]

    @classmethod
    def from_loop(cls, loop: Loop) -> CacheDump:
        """Return a copy of the loop's cache and queue. Only the loop's thread may call this."""
        return cls(tuple(_nodes(loop.cache)), tuple(q.pod for q in loop.queue), loop.queue.lengths())


class _Meta(Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Spec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""


class _Item(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class CacheDebugger:
    """A thread that, after each call of `wake`, writes the cache and its differences from the API server to the log."""

    def __init__(self, loop: Loop, api: ApiServer, ours: Collection[str], pod_params: Mapping[str, str]) -> None:
        """Prepare the thread without starting it.

        `ours` are the scheduler names whose pods this process queues. `pod_params` are the selectors of its watch of
        pods.
        """
        self._loop = loop
        self._api = api
        self._ours = ours
        self._pod_params = pod_params
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="cache-debugger", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self, *_: Any) -> None:
        """Request a dump. This takes no lock, because signal handlers call it and may interrupt each other."""
        self._woken.put(None)

    def _run(self) -> None:
        while True:
            self._woken.get()
            while not self._woken.empty():
                self._woken.get()  # one dump answers all requests
            try:
                self.write_dump_and_mismatches()
            except (ApiError, msgspec.MsgspecError) as e:
                klog.error(e, "Cannot compare the cache with the API server")
            except NotInTimeError:
                klog.error(f"no answer in {ANSWER_S:.0f} s", "The scheduling loop does not answer")

    def write_dump_and_mismatches(self) -> None:
        """Write cache and queue, and their differences from a fresh list of the API server, to the log.

        Raise ApiError if the API server cannot be listed, TimeoutError if the loop does not respond.
        """
        answer: Future[CacheDump] = Future()
        self._loop.inbox.put(LoopTask(lambda: answer.set_result(CacheDump.from_loop(self._loop))))
        dump = answer.result(ANSWER_S)
        klog.info(0, "Dump of cached NodeInfo", nodes="\n\n".join(map(_node_text, dump.nodes)))
        summary = "; ".join(f"{queue}:{pods}" for queue, pods in dump.queues.items())
        klog.info(0, "Dump of scheduling queue", summary=summary, pods="".join(map(_pod_text, dump.waiting)))
        nodes = {item.metadata.name for item in self._api.list_objects("/api/v1/nodes", _Item)}
        pods = {
            item.metadata.uid: item.spec.node_name
            for item in self._api.list_objects("/api/v1/pods", _Item, self._pod_params)
            if item.spec.node_name or item.spec.scheduler_name in self._ours
        }
        mismatches = compare(dump, nodes, pods)
        for mismatch in mismatches:
            klog.info(0, "Cache mismatch", **mismatch)
        klog.info(0, "Cache comparer finished", mismatches=len(mismatches))


def compare(dump: CacheDump, nodes: Collection[str], pods: Mapping[str, str]) -> list[dict[str, list[str]]]:
    """Return the differences between the cache and the API server, as log fields with the names or UIDs concerned.

    `nodes` are the node names in the API server. `pods` maps a pod's UID to its node there, or "" if it is pending.
    """
    cached_nodes = {node.name for node in dump.nodes if not node.deleted}
    on = {pod.uid: node.name for node in dump.nodes for pod in node.pods}
    cached_pods = on.keys() | {pod.uid for pod in dump.waiting}
    mismatches = [
        {"missedNodes": sorted(set(nodes) - cached_nodes), "redundantNodes": sorted(cached_nodes - set(nodes))},
        {"missedPods": sorted(pods.keys() - cached_pods), "redundantPods": sorted(cached_pods - pods.keys())},
        {"misplacedPods": sorted(uid for uid, node in pods.items() if node and on.get(uid, node) != node)},
    ]
    return [mismatch for mismatch in mismatches if any(mismatch.values())]


def _nodes(cache: Cache) -> Iterator[NodeDump]:
    columns = cache.columns
    for name, slot in columns.index.items():
        yield NodeDump(
            name,
            columns.nodes[slot] is None,
            *columns.amounts_of(slot),
            tuple(columns.pods[slot].values()),
        )


def _node_text(node: NodeDump) -> str:
    return (
        f"Node name: {node.name}\nDeleted: {str(node.deleted).lower()}\nRequested Resources: {dict(node.requested)}\n"
        f"Allocatable Resources: {dict(node.allocatable)}\nScheduled Pods(number: {len(node.pods)}):\n"
        + "".join(map(_pod_text, node.pods))
    )


def _pod_text(pod: PodInfo) -> str:
    status = pod.pod.status
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, phase: {status.phase},"
        f" nominated node: {status.nominated_node_name}\n"
    )
