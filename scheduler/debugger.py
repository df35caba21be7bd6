"""On SIGUSR2: what the scheduler believes of the cluster, into the log, and where the API server says otherwise.

Owns: the dump of cache and queue in kube-scheduler's words, the comparison with a fresh list. Does not own: cache and
queue; the loop's thread alone reads them, between two cycles, and hands over a copy. The rest runs in a thread of its
own. Differences of a moment (a pod created meanwhile) are no fault: one that a second signal shows again is.

Source: pkg/scheduler/backend/cache/debugger v1.36. Ours also names pods that the API server shows on another node.
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

from scheduler import klog
from scheduler.cache import Cache
from scheduler.kube.http import ApiError, ApiServer
from scheduler.kube.watch import PAGE
from scheduler.loop import Asked, Loop
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Struct

ANSWER_S: Final = 60.0  # the loop answers between two cycles; one that does not is stuck, and says so by silence


@dataclass(frozen=True)
class NodeDump:
    """A node as the cache counts it, in base units."""

    name: str
    deleted: bool
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    pods: tuple[PodInfo, ...]


@dataclass(frozen=True)
class Dump:
    """What the loop holds at one moment. `waiting`: pods in the queue; `queues`: how many where."""

    nodes: tuple[NodeDump, ...]
    waiting: tuple[PodInfo, ...]
    queues: Mapping[str, int]

    @classmethod
    def of(cls, loop: Loop) -> Dump:
        """Called by the loop's thread."""
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


class _ListMeta(Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[_Item, ...] = ()


class CacheDebugger:
    """Waits for `wake`, in a thread of its own."""

    def __init__(self, loop: Loop, api: ApiServer, ours: Collection[str], pod_params: Mapping[str, str]) -> None:
        """`ours`: the scheduler names whose pods we queue. `pod_params`: the selectors with which pods are watched."""
        self._loop = loop
        self._api = api
        self._ours = ours
        self._pod_params = pod_params
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="cache-debugger", daemon=True)

    def start(self) -> None:
        """Wait from now on."""
        self._thread.start()

    def wake(self, *_: Any) -> None:
        """Dump and compare, soon; a signal handler, which may interrupt itself: it must not wait for a lock."""
        self._woken.put(None)

    def _run(self) -> None:
        while True:
            self._woken.get()
            while not self._woken.empty():
                self._woken.get()  # one dump answers all who asked
            try:
                self.dump_and_compare()
            except (ApiError, msgspec.MsgspecError) as e:
                klog.error(e, "Cannot compare the cache with the API server")
            except NotInTimeError:
                klog.error(f"no answer in {ANSWER_S:.0f} s", "The scheduling loop does not answer")

    def dump_and_compare(self) -> None:
        """Write both to the log. ApiError when the API server cannot be listed."""
        answer: Future[Dump] = Future()
        self._loop.inbox.put(Asked(lambda: answer.set_result(Dump.of(self._loop))))
        dump = answer.result(ANSWER_S)
        klog.info(0, "Dump of cached NodeInfo", nodes="\n\n".join(map(_node_text, dump.nodes)))
        summary = "; ".join(f"{queue}:{pods}" for queue, pods in dump.queues.items())
        klog.info(0, "Dump of scheduling queue", summary=summary, pods="".join(map(_pod_text, dump.waiting)))
        nodes = {item.metadata.name for item in self._list("/api/v1/nodes", {})}
        pods = {
            item.metadata.uid: item.spec.node_name
            for item in self._list("/api/v1/pods", self._pod_params)
            if item.spec.node_name or item.spec.scheduler_name in self._ours
        }
        mismatches = compare(dump, nodes, pods)
        for mismatch in mismatches:
            klog.info(0, "Cache mismatch", **mismatch)
        klog.info(0, "Cache comparer finished", mismatches=len(mismatches))

    def _list(self, path: str, params: Mapping[str, str]) -> Iterator[_Item]:
        more = ""
        while True:
            asked = {**params, "limit": str(PAGE)} | ({"continue": more} if more else {})
            page = msgspec.json.decode(self._api.get(path, asked), type=_Page)
            yield from page.items
            more = page.metadata.continue_
            if not more:
                return


def compare(dump: Dump, nodes: Collection[str], pods: Mapping[str, str]) -> list[dict[str, list[str]]]:
    """What differs. `pods`: UID -> node as the API server says, "" for one that waits."""
    cached_nodes = {node.name for node in dump.nodes if not node.deleted}
    on = {pod.uid: node.name for node in dump.nodes for pod in node.pods}
    cached_pods = on.keys() | {pod.uid for pod in dump.waiting}
    found = [
        {"missedNodes": sorted(set(nodes) - cached_nodes), "redundantNodes": sorted(cached_nodes - set(nodes))},
        {"missedPods": sorted(pods.keys() - cached_pods), "redundantPods": sorted(cached_pods - pods.keys())},
        {"misplacedPods": sorted(uid for uid, node in pods.items() if node and on.get(uid, node) != node)},
    ]
    return [mismatch for mismatch in found if any(mismatch.values())]


def _nodes(cache: Cache) -> Iterator[NodeDump]:
    columns = cache.columns
    amounts = [(r, columns.allocatable(r), columns.requested(r)) for r in columns.resources]
    for name, slot in columns.index.items():
        yield NodeDump(
            name,
            columns.nodes[slot] is None,
            {resource: int(a[slot]) for resource, a, _ in amounts if a[slot]},
            {resource: int(q[slot]) for resource, _, q in amounts if q[slot]},
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
