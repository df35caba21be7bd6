"""A scenario: what users, nodes and the environment do in a run, as a list of steps that a seed determines.

Owns: when which operation and disturbance comes, and the disturbances that only a simulation has. Does not own: the
operations and the other disturbances, which are those of the real-time runs (`bench.reliability`).

Each step has a random generator of its own, so that the other steps stay what they are if one is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from bench.reliability.disturbances import DISTURBANCES, STALLS, Disturbance
from bench.reliability.driver import shuffle_by_weight
from bench.reliability.operations import OPERATIONS, OperationContext
from bench.simulation.system import API_HOST, SERVICE_HOST, SimulatedSystem

Json = dict[str, Any]

CUT_S: Final = (0.5, 15.0)  # shortest and longest partition
FULL_S: Final = (0.5, 10.0)  # shortest and longest time without disk space


@dataclass(frozen=True)
class Settings:
    """The length of a scenario in virtual seconds, and how much happens in it.

    `disturb_every_s` is the mean interval between two disturbances; 0 means none.
    """

    seconds: float = 60.0
    per_s: float = 2.0
    disturb_every_s: float = 3.0
    replicas: int = 2


@dataclass(frozen=True)
class ScenarioStep:
    """An operation or a disturbance by its name. `number` seeds what it draws."""

    at_s: float
    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.at_s:8.3f} s  {self.name} ({self.number})"


@dataclass(frozen=True)
class Scene:
    """What a disturbance may use, as `bench.reliability.disturbances.DisturbanceContext`."""

    api: Any
    system: SimulatedSystem
    draw: random.Random


def cut_api_server(scene: Scene) -> None:
    """Cut a replica off from the API server for a while, in one direction or both."""
    _cut(scene, scene.draw.choice(scene.system.replicas).name, API_HOST)


def cut_service(scene: Scene) -> None:
    """Cut a replica and its shipper off from the decisions service for a while."""
    _cut(scene, scene.draw.choice(scene.system.replicas).name, SERVICE_HOST)


def _cut(scene: Scene, client: str, host: str) -> None:
    network = scene.system.network
    network.cut(client, host, scene.draw.choice(("request", "response", "both")))
    scene.system.machine.sleep(scene.draw.uniform(*CUT_S))
    network.mend(client, host)


def fill_disk(scene: Scene) -> None:
    """Let a replica's disk be full for a while."""
    process = scene.draw.choice(scene.system.replicas).process
    process.disk_is_full = True
    scene.system.machine.sleep(scene.draw.uniform(*FULL_S))
    process.disk_is_full = False


def kill_everything(scene: Scene) -> None:
    """Kill all replicas and the decisions service at one moment, as a power failure does."""
    for replica in scene.system.replicas:
        replica.kill()
    scene.system.restart_endpoint()


def terminate_twice(scene: Scene) -> None:
    """Send SIGTERM to the leader, and SIGKILL before it has ended."""
    leader = scene.system.leader()
    if leader is not None:
        leader.request_end()
        scene.system.machine.sleep(scene.draw.uniform(0.0, 0.5))
        leader.kill()


def freeze_standby(scene: Scene) -> None:
    """Stop a replica that waits for the Lease for a while, so that it comes back with an old view."""
    for replica in scene.system.replicas:
        if replica.process.running and not replica.leads:
            replica.freeze(scene.draw.uniform(1.0, 15.0))
            return


# They extend the table of the real-time runs: a simulation can cut and fill what those cannot without privileges.
SIMULATED: Final[tuple[tuple[str, int, Callable[[Scene], None]], ...]] = (
    ("cut off the API server", 2, cut_api_server),
    ("cut off the decisions service", 2, cut_service),
    ("kill everything", 1, kill_everything),
    ("terminate, then kill the leader", 1, terminate_twice),
    ("freeze the standby", 1, freeze_standby),
)
ALL_DISTURBANCES: Final = (
    *DISTURBANCES,
    *STALLS,
    *(Disturbance(name, weight, run, simulated=True) for name, weight, run in SIMULATED),  # type: ignore[arg-type]
)
_OPERATIONS: Final = {operation.name: operation.run for operation in OPERATIONS}
_DISTURBANCES: Final = {each.name: each.run for each in ALL_DISTURBANCES}


def build_scenario(seed: str, settings: Settings) -> list[ScenarioStep]:
    """Return the steps of a seed in order of their times."""
    draw = random.Random(f"scenario of {seed}")
    steps: list[tuple[float, str]] = []
    at = 0.0
    weights = [operation.weight for operation in OPERATIONS]
    while (at := at + draw.expovariate(settings.per_s)) < settings.seconds:
        (operation,) = draw.choices(OPERATIONS, weights)
        steps.append((at, operation.name))
    at, disturbances = 0.0, shuffle_by_weight(draw, list(ALL_DISTURBANCES))
    while settings.disturb_every_s and (at := at + draw.uniform(0, 2 * settings.disturb_every_s)) < settings.seconds:
        steps.append((at, next(disturbances).name))
    return [ScenarioStep(at_s, name, number) for number, (at_s, name) in enumerate(sorted(steps))]


def run_step(step: ScenarioStep, seed: str, system: SimulatedSystem) -> None:
    """Run one step in the current thread, which may wait."""
    draw = random.Random(f"step {step.number} of {seed}")
    operation = _OPERATIONS.get(step.name)
    if operation is None:
        _DISTURBANCES[step.name](Scene(system.api, system, draw))  # type: ignore[arg-type]
        return
    names = iter(range(1, 100))
    world = OperationContext(system.api, system.api.state, draw, lambda prefix: f"{prefix}-{step.number}-{next(names)}")
    operation(world)
