"""Disturbances of the scheduler's environment as a table: name, weight, whether they need the simulated server.

Owns: the plans of faults, and which process is killed when. Does not own: the faults (`herodotus_sim.fault_plan`).
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bench.reliability.operations import UserClient
from bench.reliability.system import LEASE, LeaderEnd, Replica, System
from herodotus_kube.http import micro_time

Json = dict[str, Any]

US: Final = {
    "client": "herodotus-scheduler"
}  # Only the scheduler's requests get faults; the journal must see every change.
LATE_S: Final = 0.8  # maximum delay of a watch
STALL_S: Final = (1.0, 20.0)  # minimum and maximum stall of the storage or of the leader
OUTAGE_S: Final = 2.0  # maximum downtime of the API server

RULES: Final[tuple[Json, ...]] = (
    {"fault": "cut", "methods": ["WATCH"], "share": 0.7, "events": [0, 30]},
    {"fault": "end", "methods": ["WATCH"], "share": 0.5, "events": [0, 30]},
    {"fault": "gone", "methods": ["WATCH"], "share": 0.3},
    {"fault": "gone", "methods": ["WATCH"], "share": 0.3, "as_event": True},
    {"fault": "late", "methods": ["WATCH"], "share": 0.7, "seconds": [0.0, LATE_S]},
    {"fault": "repeat", "methods": ["WATCH"]},
    {"fault": "bookmark", "methods": ["WATCH"]},
    {"fault": "compact", "methods": ["WATCH"], "share": 0.2},
    {"fault": "refuse", "share": 0.1, "code": 429, "retry_after_s": 1},
    {"fault": "refuse", "share": 0.1, "code": 500},
    {"fault": "refuse", "share": 0.1, "code": 503},
    {"fault": "refuse", "methods": ["POST"], "path": "/binding$", "share": 0.3, "code": 504},
    {"fault": "time out", "methods": ["POST"], "path": "/binding$", "share": 0.3},
    {"fault": "time out", "methods": ["POST", "PUT", "PATCH"], "share": 0.1},
    {"fault": "refuse", "methods": ["POST", "PUT", "PATCH"], "share": 0.1, "code": 409},
    {"fault": "slow", "share": 0.2, "seconds": [0.0, 0.7]},
    {"fault": "hang up", "share": 0.1},
    {"fault": "lose answer", "methods": ["POST"], "path": "/binding$", "share": 0.3},
    {"fault": "lose answer", "methods": ["POST", "PUT", "PATCH"], "share": 0.1},
)


class DisturbingClient(UserClient, Protocol):
    """The requests of a disturbance."""

    def put(self, path: str, body: Json) -> None:
        """Send a PUT with an object, such as a plan of faults."""

    def post(self, path: str) -> None:
        """Send a POST without a body."""


@dataclass(frozen=True)
class DisturbanceContext:
    """The client, the system and the random generator that a disturbance uses."""

    api: DisturbingClient
    system: System
    draw: random.Random


@dataclass(frozen=True)
class Disturbance:
    """One kind of disturbance. `weight`: how often per round. `simulated`: it needs the simulated API server."""

    name: str
    weight: int
    run: Callable[[DisturbanceContext], None]
    simulated: bool = False


def inject(scene: DisturbanceContext) -> None:
    """Replace the simulated API server's faults by a few random ones."""
    rules = scene.draw.sample(RULES, scene.draw.randint(1, 4))
    scene.api.put("/faults", {"seed": scene.draw.getrandbits(32), "faults": [{**rule, **US} for rule in rules]})


def calm(scene: DisturbanceContext) -> None:
    """Remove all faults, until the next disturbance that sets some."""
    scene.api.put("/faults", {"faults": []})


def compact(scene: DisturbanceContext) -> None:
    """Discard the history of the API server."""
    scene.api.post("/faults/compact")


def restart_api_server(scene: DisturbanceContext) -> None:
    """Restart the API server: close every connection, serve nothing for a moment, discard the history."""
    scene.api.post(f"/faults/restart?seconds={scene.draw.uniform(0.1, OUTAGE_S):.2f}")


def kill_leader(scene: DisturbanceContext) -> None:
    """Send SIGKILL to the leader at a random moment."""
    if leader := _ending(scene, "SIGKILL"):
        leader.kill()


def stop_leader(scene: DisturbanceContext) -> None:
    """Send SIGTERM to the leader, which releases the Lease."""
    if leader := _ending(scene, "SIGTERM"):
        code = leader.stop()
        if code != 0 and not leader.lost_lease:
            log_tail = leader.running.output()[-3000:]
            scene.system.crashes.append(f"{leader.name} ended with {code} on SIGTERM:\n{log_tail}")


def kill_standby(scene: DisturbanceContext) -> None:
    """Send SIGKILL to a replica that waits for the Lease."""
    for replica in scene.system.replicas:
        if replica.running.running and not replica.leads:
            replica.kill()


def kill_endpoint(scene: DisturbanceContext) -> None:
    """Kill the decisions service, so that decisions wait in the spool."""
    scene.system.restart_endpoint()


def kill_shipper(scene: DisturbanceContext) -> None:
    """Kill the shipper; the next one continues after the last acknowledged delivery."""
    scene.system.kill_shipper()


DISTURBANCES: Final = (
    Disturbance("inject faults", 4, inject, simulated=True),
    Disturbance("calm", 2, calm, simulated=True),
    Disturbance("compact", 1, compact, simulated=True),
    Disturbance("restart the API server", 1, restart_api_server, simulated=True),
    Disturbance("kill the leader", 2, kill_leader),
    Disturbance("stop the leader", 2, stop_leader),
    Disturbance("kill the standby", 1, kill_standby),
    Disturbance("kill the endpoint", 1, kill_endpoint),
    Disturbance("kill the shipper", 1, kill_shipper),
)


def stall_storage(scene: DisturbanceContext) -> None:
    """Stall the storage: the API server receives requests and executes them only later."""
    scene.system.api.stall(_stall_s(scene))


def take_lease(scene: DisturbanceContext) -> None:
    """Write another holder into the Lease, which expires after a second, so that the leader ends."""
    taken = {"holderIdentity": "another", "leaseDurationSeconds": 1, "renewTime": micro_time()}
    scene.api.patch(LEASE, {"spec": taken})


def stall_storage_and_take_lease(scene: DisturbanceContext) -> None:
    """Stall the storage, and write another holder into the Lease as soon as it recovers."""
    stall_storage(scene)
    take_lease(scene)


def freeze_leader(scene: DisturbanceContext) -> None:
    """Stop the leader for some seconds with SIGSTOP. Then it sends requests although another replica may lead."""
    if leader := scene.system.leader():
        leader.freeze(_stall_s(scene))


def stall_storage_and_kill_leader(scene: DisturbanceContext) -> None:
    """Kill the leader while the storage stalls, so that no process receives the results of its requests."""
    stall = threading.Thread(target=stall_storage, args=(scene,))
    stall.start()
    time.sleep(scene.draw.uniform(0.0, 1.0))
    if leader := scene.system.leader():
        leader.kill()
    stall.join()


# Each round has one. They leave bindings with an unknown result, and would make a run of `operations` long.
STALLS: Final = (
    Disturbance("stall the storage", 6, stall_storage),
    Disturbance("stall the storage and take the Lease", 1, stall_storage_and_take_lease),
    Disturbance("take the Lease", 1, take_lease),
    Disturbance("freeze the leader", 1, freeze_leader),
    Disturbance("stall the storage and kill the leader", 1, stall_storage_and_kill_leader),
)


def _stall_s(scene: DisturbanceContext) -> float:
    return draw_log_uniform(scene.draw, *STALL_S)


def draw_log_uniform(draw: random.Random, shortest_s: float, longest_s: float) -> float:
    """Return a duration in seconds: as many between 1 and 2 s as between 10 and 20 s."""
    return math.exp(draw.uniform(math.log(shortest_s), math.log(longest_s)))


def _ending(scene: DisturbanceContext, how: str) -> Replica | None:
    leader = scene.system.leader()
    if leader is not None:
        scene.system.ended.append(LeaderEnd(time.time(), how, leader.name))
    return leader
