"""The kubelets of all nodes: bound pods start, end as planned, and restart.

    Pending, bound ──> Running ──(restartPolicy Always, no plan)──> Running
                         │ ends: after RUN_S, or as planned by the annotation EXITS
                         ├─ 0, Never or OnFailure ──> Succeeded
                         ├─ not 0, Never ───────────> Failed
                         └─ else ──> terminated ──> [CrashLoopBackOff ──(10 s, 20 s, … 5 min)──>] Running

No program runs. The annotation EXITS of a pod defines how its containers end on which node, as YAML:

    herodotus.dev/simulated-exits: '{worker-1: {seconds: 5, code: 1}, "*": {seconds: 60, code: 0}}'

Does not own: nodes. Invariant: each transition applies once, and only to the state that it was planned for.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from herodotus_sim.errors import StatusError
from herodotus_sim.kinds import NODE, POD, ApiResource
from herodotus_sim.storage import ObjectStorage, StoredObject, WatchChange
from herodotus_sim.strategy import now
from herodotus_sim.wire import Object

EXITS = "herodotus.dev/simulated-exits"
# Long enough to see a pod Pending on its node, short enough for a test.
START_DELAY_S = 0.5
# How long a pod that must end, such as a job's, runs without a plan, in seconds.
RUN_S = 2.0
# How long a container stays terminated before it restarts, in seconds.
_ENDED_S = 1.0
# The kubelet's initial backoff of a container that ends repeatedly, in seconds.
_BACKOFF_S = 10.0
_LONGEST_BACKOFF_S = 300.0


@dataclass(frozen=True)
class PlannedExit:
    """When the containers of a pod end, in seconds after they start, and with which exit code."""

    seconds: float
    code: int


@dataclass(frozen=True)
class PodTransition:
    """The next change of a pod's status, and the delay before it.

    `state` is the pod's state, as `pod_state` returns it, to which the change applies. `status` computes the new
    status.
    """

    delay_s: float
    state: tuple[str, int]
    status: Callable[[Object], Object]


class Kubelets(threading.Thread):
    """A thread that simulates the kubelets of all nodes; it ends when the storage stops."""

    def __init__(self, store: ObjectStorage, delay_s: float = START_DELAY_S) -> None:
        super().__init__(name="sim-kubelets", daemon=True)
        self._store = store
        self._delay_s = delay_s
        self._due: list[tuple[float, int, str, StoredObject, PodTransition]] = []
        self._planned: dict[str, tuple[str, int]] = {}
        """By UID: the state whose next step is planned."""
        self._serial = itertools.count()
        self._addresses = (f"198.51.100.{i}" for i in itertools.cycle(range(1, 255)))  # TEST-NET-2
        with store.lock:
            store.add_event_handler(self._handle_change)
            for version in store.list_sorted(POD):
                self._plan(version)

    def run(self) -> None:
        """Apply the planned changes of pod statuses when they are due, until the storage stops."""
        while not self._store.stopping:
            with self._store.lock:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is None or wait_s > 0:
                    self._store.stopped.wait(wait_s)
                    continue
                _, _, uid, pod, transition = heapq.heappop(self._due)
                self._apply_transition(uid, pod, transition)

    def _handle_change(self, kind: ApiResource, change: WatchChange) -> None:
        """Plan the next status change of a created or updated pod. Called under the storage's lock."""
        if kind is not POD:
            return
        if change.type == "DELETED":
            self._planned.pop(change.current.obj["metadata"]["uid"], None)
        else:
            self._plan(change.current)

    def _plan(self, pod: StoredObject) -> None:
        transition = self._next_transition(pod.obj)
        uid = pod.obj["metadata"]["uid"]
        if transition is None or self._planned.get(uid) == transition.state:
            return
        self._planned[uid] = transition.state
        heapq.heappush(self._due, (time.monotonic() + transition.delay_s, next(self._serial), uid, pod, transition))
        self._store.stopped.notify_all()

    def _apply_transition(self, uid: str, pod: StoredObject, transition: PodTransition) -> None:
        def changed(current: StoredObject) -> Object:
            if current.obj["metadata"]["uid"] != uid or pod_state(current.obj) != transition.state:
                return current.obj
            return {**current.obj, "status": transition.status(current.obj)}

        try:
            self._store.guaranteed_update(POD, *pod.key, changed)
        except StatusError:
            return  # The pod was deleted meanwhile.

    def _next_transition(self, pod: Object) -> PodTransition | None:
        """Return the next planned status change of a pod, or None if none follows."""
        state = pod_state(pod)
        match state[0]:
            case "startable":
                return PodTransition(self._delay_s, state, self._start_pod)
            case "running":
                planned = find_planned_exit(pod)
                if planned is None:
                    return None
                return PodTransition(planned.seconds, state, lambda current: _ended(current, planned.code))
            case "ended":
                if state[1] == 0:  # The first restart has no backoff.
                    return PodTransition(_ENDED_S, state, _restarted)
                return PodTransition(_ENDED_S, state, _backing_off)
            case "backing off":
                wait_s = min(_BACKOFF_S * 2.0 ** (state[1] - 1), _LONGEST_BACKOFF_S)
                return PodTransition(wait_s, state, _restarted)
        return None

    def _start_pod(self, pod: Object) -> Object:
        node = self._store.find(NODE, "", pod["spec"]["nodeName"])
        host = _host_address(node.obj) if node is not None else "192.0.2.1"
        return _running(pod, host, next(self._addresses))


def pod_state(pod: Object) -> tuple[str, int]:
    """Return the state of a pod's containers, and how often they were restarted.

    The state is startable, running, ended, backing off or, in all other cases, "". All containers of a pod change
    together.
    """
    status = pod.get("status") or {}
    phase, containers = status.get("phase"), status.get("containerStatuses") or []
    restarts = max((c.get("restartCount", 0) for c in containers), default=0)
    if not pod["spec"].get("nodeName") or phase not in ("Pending", "Running"):
        return "", restarts
    if phase == "Pending":
        return "startable", restarts
    states = [c.get("state") or {} for c in containers]
    if any("terminated" in s for s in states):
        return "ended", restarts
    if any((s.get("waiting") or {}).get("reason") == "CrashLoopBackOff" for s in states):
        return "backing off", restarts
    return ("running" if any("running" in s for s in states) else ""), restarts


def find_planned_exit(pod: Object) -> PlannedExit | None:
    """Return when and how a running pod ends, or None if it runs forever.

    The pod's annotation EXITS decides. Without it, a pod ends successfully after RUN_S, unless it always restarts.
    """
    text = (pod["metadata"].get("annotations") or {}).get(EXITS)
    if text is not None:
        try:
            plan = yaml.safe_load(text)
            entry = plan.get(pod["spec"]["nodeName"], plan.get("*"))
            return None if entry is None else PlannedExit(max(0.0, float(entry["seconds"])), int(entry["code"]))
        except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
            print(f"herodotus_sim: annotation {EXITS} of pod {pod['metadata']['name']}: {error!r}", file=sys.stderr)
    return None if pod["spec"].get("restartPolicy", "Always") == "Always" else PlannedExit(RUN_S, 0)


def _host_address(node: Object) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    internal = (a["address"] for a in addresses if a.get("type") == "InternalIP")
    return next(internal, "192.0.2.1")  # TEST-NET-1


def _running(pod: Object, host: str, address: str) -> Object:
    started = now()
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
    status = _with_readiness(pod["status"], True, "PodReadyToStartContainers", "Initialized")
    return {
        **status,
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "containerStatuses": containers,
    }


def _ended(pod: Object, code: int) -> Object:
    """Return the status of a pod whose containers just ended with this exit code.

    The phase becomes final unless the restart policy demands a restart.
    """
    policy = pod["spec"].get("restartPolicy", "Always")
    reason = "Completed" if code == 0 else "Error"
    containers = []
    for container in pod["status"].get("containerStatuses") or []:
        begun = (container["state"].get("running") or {}).get("startedAt")
        ended = {"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now()}
        containers.append({**container, "ready": False, "started": False, "state": {"terminated": ended}})
    status: Object = {**_with_readiness(pod["status"], False), "containerStatuses": containers}
    final = policy == "Never" or (policy == "OnFailure" and code == 0)
    return {**status, "phase": "Succeeded" if code == 0 else "Failed"} if final else status


def _backing_off(pod: Object) -> Object:
    waiting = {"reason": "CrashLoopBackOff", "message": f"back-off restarting failed container in {_name(pod)}"}
    return _with_state(pod, {"waiting": waiting})


def _restarted(pod: Object) -> Object:
    status = _with_state(pod, {"running": {"startedAt": now()}}, ready=True)
    containers = [{**c, "restartCount": c.get("restartCount", 0) + 1} for c in status["containerStatuses"]]
    return {**_with_readiness(status, True), "containerStatuses": containers}


def _with_state(pod: Object, state: Object, *, ready: bool = False) -> Object:
    """Return the pod's status with all containers in a new state.

    Where a container was terminated, that termination moves to its `lastState`.
    """
    containers = []
    for container in pod["status"].get("containerStatuses") or []:
        ended = container["state"].get("terminated")
        last = {"lastState": {"terminated": ended}} if ended else {}
        containers.append({**container, **last, "state": state, "ready": ready, "started": ready})
    return {**pod["status"], "containerStatuses": containers}


def _with_readiness(status: Object, ready: bool, *others: str) -> Object:
    """Return the status with the conditions Ready and ContainersReady set to `ready`, and the `others` to True."""
    stamp, true = now(), "True" if ready else "False"
    wanted: dict[str, Any] = {**dict.fromkeys(others, "True"), "Ready": true, "ContainersReady": true}
    conditions = [c for c in status.get("conditions") or [] if c.get("type") not in wanted]
    for type_, value in wanted.items():
        new = {"type": type_, "status": value, "lastProbeTime": None, "lastTransitionTime": stamp}
        if value == "False":
            new |= {"reason": "ContainersNotReady", "message": "containers are not ready"}
        conditions.append(new)
    return {**status, "conditions": conditions}


def _name(pod: Object) -> str:
    return f"pod {pod['metadata']['name']}"
