"""What goes wrong around the scheduler, as a table: name, how often in a round, whether only the simulated server can.

Owns: the plans of faults, and who is killed when. Does not own: the faults themselves (`herodotus_sim.plan`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from bench.reliability.client import Client
from bench.reliability.system import Ended, Replica, System

Json = dict[str, Any]

US: Final = {"client": "herodotus-scheduler"}  # the run's own requests are spared: it is the witness
LATE_S: Final = 0.8  # the longest that a watch runs behind
OUTAGE_S: Final = 2.0  # the longest restart of the API server

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
    {"fault": "refuse", "methods": ["POST", "PUT", "PATCH"], "share": 0.1, "code": 409},
    {"fault": "slow", "share": 0.2, "seconds": [0.0, 0.7]},
    {"fault": "hang up", "share": 0.1},
    {"fault": "lose answer", "methods": ["POST"], "path": "/binding$", "share": 0.3},
    {"fault": "lose answer", "methods": ["POST", "PUT", "PATCH"], "share": 0.1},
)


@dataclass(frozen=True)
class Scene:
    """What a disturbance may use."""

    api: Client
    system: System
    draw: random.Random


@dataclass(frozen=True)
class Disturbance:
    """One kind. `weight`: how often in a round. `simulated`: the real API server cannot do it on demand."""

    name: str
    weight: int
    run: Callable[[Scene], None]
    simulated: bool = False


def inject(scene: Scene) -> None:
    """Another plan: a few rules at once."""
    rules = scene.draw.sample(RULES, scene.draw.randint(1, 4))
    scene.api.put("/faults", {"seed": scene.draw.getrandbits(32), "faults": [{**rule, **US} for rule in rules]})


def calm(scene: Scene) -> None:
    """No faults for a while."""
    scene.api.put("/faults", {"faults": []})


def compact(scene: Scene) -> None:
    """The history is forgotten."""
    scene.api.post("/faults/compact")


def restart_api_server(scene: Scene) -> None:
    """Everybody is hung up on, for a moment nobody is served, and the history is gone."""
    scene.api.post(f"/faults/restart?seconds={scene.draw.uniform(0.1, OUTAGE_S):.2f}")


def kill_leader(scene: Scene) -> None:
    """SIGKILL in the middle of whatever it does."""
    if leader := _ending(scene, "SIGKILL"):
        leader.kill()


def stop_leader(scene: Scene) -> None:
    """SIGTERM: it gives the Lease back."""
    if leader := _ending(scene, "SIGTERM"):
        code = leader.stop()
        if code != 0 and not leader.lost_lease:
            said = leader.running.output()[-3000:]
            scene.system.crashes.append(f"{leader.logs[-1].name} ended with {code} on SIGTERM:\n{said}")


def kill_standby(scene: Scene) -> None:
    """Whoever waits for the Lease."""
    for replica in scene.system.replicas:
        if replica.running.running and not replica.leads:
            replica.kill()


def kill_endpoint(scene: Scene) -> None:
    """Decisions wait in the spool meanwhile."""
    scene.system.restart_endpoint()


def kill_shipper(scene: Scene) -> None:
    """Another one goes on where the last delivery was acknowledged."""
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


def _ending(scene: Scene, how: str) -> Replica | None:
    leader = scene.system.leader()
    if leader is not None:
        scene.system.ended.append(Ended(time.time(), how, leader.name))
    return leader
