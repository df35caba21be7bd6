"""Owns: making bound pods run, for a demo that looks alive.

    Pending, bound ──(a moment)──> Running

Does not own: anything about nodes. Invariant: only pods that are bound and Pending are touched, once each.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque

from herodotus_sim.defaults import now
from herodotus_sim.errors import ApiError
from herodotus_sim.kinds import NODE, POD
from herodotus_sim.store import Store, Version
from herodotus_sim.wire import Object

# Long enough to see a pod Pending on its node, short enough not to wait for it.
START_DELAY_S = 0.5


class Kubelets(threading.Thread):
    """One thread for the kubelets of all nodes. It ends when the store stops."""

    def __init__(self, store: Store, delay_s: float = START_DELAY_S) -> None:
        super().__init__(name="sim-kubelets", daemon=True)
        self._store = store
        self._delay_s = delay_s
        self._due: deque[tuple[float, Version]] = deque()
        self._addresses = (f"198.51.100.{i}" for i in itertools.cycle(range(1, 255)))  # TEST-NET-2

    def run(self) -> None:
        """Follow the pods like a watch."""
        collection = self._store.collection(POD)
        with self._store.lock:
            self._notice(collection.ordered())
            sequence = collection.dropped + len(collection.history)
        while not self._store.stopping:
            with collection.changed:
                start = max(0, sequence - collection.dropped)
                changes = collection.history[start:]
                sequence = collection.dropped + len(collection.history)
                if not changes and not self._store.stopping:
                    wait_s = self._due[0][0] - time.monotonic() if self._due else None
                    if wait_s is None or wait_s > 0:
                        collection.changed.wait(wait_s)
            self._notice([c.current for c in changes if c.type != "DELETED"])
            while self._due and self._due[0][0] <= time.monotonic():
                self._run_pod(self._due.popleft()[1])

    def _notice(self, pods: list[Version]) -> None:
        due = time.monotonic() + self._delay_s
        self._due.extend((due, pod) for pod in pods if _startable(pod))

    def _run_pod(self, pod: Version) -> None:
        node = self._store.find(NODE, "", pod.obj["spec"]["nodeName"])
        host = _host_address(node.obj) if node is not None else "192.0.2.1"
        address = next(self._addresses)

        def running(current: Version) -> Object:
            if not _startable(current) or current.obj["metadata"]["uid"] != pod.obj["metadata"]["uid"]:
                return current.obj
            return {**current.obj, "status": _running(current.obj, host, address)}

        try:
            self._store.modify(POD, *pod.key, running)
        except ApiError:
            return  # deleted meanwhile


def _startable(pod: Version) -> bool:
    bound = pod.obj["spec"].get("nodeName")
    return bool(bound) and pod.obj["status"].get("phase") == "Pending"


def _host_address(node: Object) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    internal = (a["address"] for a in addresses if a.get("type") == "InternalIP")
    return next(internal, "192.0.2.1")  # TEST-NET-1


def _running(pod: Object, host: str, address: str) -> Object:
    started = now()
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ready = [{"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": started} for t in types]
    others = [c for c in pod["status"].get("conditions") or [] if c.get("type") not in types]
    containers = [
        {
            "name": c["name"],
            "image": c.get("image", ""),
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for c in pod["spec"]["containers"]
    ]
    return {
        **pod["status"],
        "phase": "Running",
        "conditions": [*others, *ready],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "containerStatuses": containers,
    }
