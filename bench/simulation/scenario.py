"""A scenario: what users, nodes and the environment do in a run, as a list of steps that a seed determines.

Owns: when which operation and disturbance comes, and the operations that only a simulation has. Does not own: the
operations and the other disturbances, which are those of the real-time runs (`bench.reliability`), failures.

Each step has a random generator of its own, so that the other steps stay what they are if one is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bench.reliability.disturbances import DISTURBANCES, STALLS, Disturbance
from bench.reliability.driver import shuffle_by_weight
from bench.reliability.journal import GANG_SIZE
from bench.reliability.operations import NAMESPACE, OPERATIONS, PODS, ClusterOperation, OperationContext, pod
from bench.simulation.failures import (
    FAILURES,
    Scene,
    fail_for_a_while,
    kill_everything,
    set_failpoint,
    terminate_twice,
)
from bench.simulation.system import SimulatedSystem

GROUPS: Final = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"

PAUSE: Final = "pause"  # a step: everything works again, and what waited must move
PAUSES: Final = (0, 3)  # fewest and most of them
FIRST_NODES: Final = (3, 8)  # fewest and most of them; a small cluster is full with few pods, which takes less time
FIRST_PODS: Final = (0, 10)  # fewest and most operations that create pods at the start
FEWEST_PODS: Final = 10  # with which a bound pod may be deleted
FACTORS: Final = (0.0, 0.3, 1.0, 1.0, 3.0)  # of the weight of an operation in one scenario
RATES: Final = (0.5, 1.0, 1.0, 2.0)  # of the operations per second
INTERVALS: Final = (0.3, 1.0, 1.0, 3.0)  # of the mean interval between two disturbances
DISTURBANCE_SHARE: Final = 0.4  # of the kinds of disturbances that one scenario has


@dataclass(frozen=True)
class Settings:
    """The length of a scenario in virtual seconds, and how much happens in it.

    `disturb_every_s` is the mean interval between two disturbances; 0 means none.
    """

    seconds: float = 30.0
    per_s: float = 2.0
    disturb_every_s: float = 3.0
    replicas: int = 2


@dataclass(frozen=True)
class ScenarioStep:
    """An operation, a disturbance or a pause by its name. `number` and `seed` determine what it draws."""

    at_s: float
    name: str
    number: int
    seed: str

    def __str__(self) -> str:
        return f"{self.at_s:8.3f} s  {self.name} ({self.number} of {self.seed})"


def create_group(world: OperationContext) -> None:
    """Create a gang of pods that must be placed together. One in four gangs has a pod that no node has room for."""
    name, size = world.fresh("gang"), world.draw.randint(2, 5)
    world.api.create(GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": size}}}})
    too_big = world.draw.random() < 0.25
    for number in range(size):
        member = pod(f"{name}-{number}", world.draw, schedulingGroup={"podGroupName": name})
        if too_big and number == size - 1:
            member["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
        member["metadata"]["labels"][GANG_SIZE] = str(size)
        world.api.create(PODS, member)


# They extend the tables of the real-time runs: a simulation can cut and fill what those cannot without privileges.
SIMULATED: Final[tuple[tuple[str, int, Callable[[Scene], None]], ...]] = (
    ("failpoint", 8, set_failpoint),
    ("kill everything", 1, kill_everything),
    ("terminate, then kill the leader", 1, terminate_twice),
    *((name, 1, partial(fail_for_a_while, failure=failure)) for name, failure in FAILURES),
)
ALL_OPERATIONS: Final = (*OPERATIONS, ClusterOperation("create a gang", 6, create_group))
ALL_DISTURBANCES: Final = (
    *DISTURBANCES,
    *STALLS,
    *(Disturbance(name, weight, run, simulated=True) for name, weight, run in SIMULATED),  # type: ignore[arg-type]
)
_OPERATIONS: Final = {operation.name: operation.run for operation in ALL_OPERATIONS}
_DISTURBANCES: Final = {each.name: each.run for each in ALL_DISTURBANCES}


@dataclass(frozen=True)
class CompositeSeed:
    """A seed that continues others: `1+7@20.5+9@40` has the steps of 1 until 20.5 s, then those of 7, then those of 9.

    What the scheduling of threads and the network draw changes at these times too, so that a run of it begins exactly
    as a run of its first seed does.
    """

    parts: tuple[tuple[str, float], ...]  # a seed, and the time at which its steps begin

    @property
    def first(self) -> str:
        """The seed with which a run begins."""
        return self.parts[0][0]

    @classmethod
    def parse(cls, seed: str) -> CompositeSeed:
        """Return the parts of a seed, which has one unless it was made by `extend`."""
        first, *others = seed.split("+")
        later = (other.rpartition("@") for other in others)
        return cls(((first, 0.0), *((name, float(at)) for name, _, at in later)))

    def extend(self, seed: str, at_s: float) -> str:
        """Return the seed that is as this one until `at_s`, and as another one from then on."""
        parts = [part for part in self.parts[1:] if part[1] < at_s]
        return "+".join([self.first, *(f"{name}@{at:g}" for name, at in [*parts, (seed, round(at_s, 3))])])


def build_scenario(seed: str, settings: Settings) -> list[ScenarioStep]:
    """Return the steps of a seed in order of their times."""
    steps: list[ScenarioStep] = []
    for part, begins_s in CompositeSeed.parse(seed).parts:
        before = [step for step in steps if step.at_s < begins_s]
        steps = before + [step for step in _build_part(part, settings) if step.at_s >= begins_s]
    return [replace(step, number=number) for number, step in enumerate(steps)]


def _build_part(seed: str, settings: Settings) -> list[ScenarioStep]:
    """Return the steps of a seed that continues no other.

    Each has other operations and disturbances, in other proportions. Otherwise all runs would resemble the average:
    Groce et al., "Swarm Testing", 2012.
    """
    draw = random.Random(f"scenario of {seed}")
    steps: list[tuple[float, str]] = []
    weights = [operation.weight * draw.choice(FACTORS) for operation in ALL_OPERATIONS]
    weights[0] += 1
    steps += [(draw.uniform(0.0, 2.0), OPERATIONS[0].name) for _ in range(draw.randint(*FIRST_PODS))]
    at, per_s = 0.0, settings.per_s * draw.choice(RATES)
    while (at := at + draw.expovariate(per_s)) < settings.seconds:
        (operation,) = draw.choices(ALL_OPERATIONS, weights)
        steps.append((at, operation.name))
    count = max(1, round(len(ALL_DISTURBANCES) * DISTURBANCE_SHARE))
    at, disturbances = 0.0, shuffle_by_weight(draw, draw.sample(ALL_DISTURBANCES, count))
    mean_s = settings.disturb_every_s * draw.choice(INTERVALS)
    while mean_s and (at := at + draw.uniform(0, 2 * mean_s)) < settings.seconds:
        steps.append((at, next(disturbances).name))
    steps += [(draw.uniform(0.0, settings.seconds), PAUSE) for _ in range(draw.randint(*PAUSES))]
    return [ScenarioStep(at_s, name, number, seed) for number, (at_s, name) in enumerate(sorted(steps))]


def count_first_nodes(seed: str) -> int:
    """Return the number of nodes at the start of a scenario."""
    return random.Random(f"nodes of {CompositeSeed.parse(seed).first}").randint(*FIRST_NODES)


def list_options(seed: str) -> list[str]:
    """Return the options of the schedulers in a scenario: half of them have the gates of pod groups."""
    gated = random.Random(f"gates of {CompositeSeed.parse(seed).first}").random() < 0.5
    return ["--feature-gates", "GenericWorkload=true,GangScheduling=true"] if gated else []


def run_step(step: ScenarioStep, system: SimulatedSystem) -> None:
    """Run one step in the current thread, which may wait."""
    draw = random.Random(f"step {step.at_s:.6f} of {step.seed}")
    operation = _OPERATIONS.get(step.name)
    if operation is None:
        _DISTURBANCES[step.name](Scene(system.api, system, draw))  # type: ignore[arg-type]
        return
    names = iter(range(1, 100))
    world = OperationContext(
        system.api, system.api.state, draw, lambda prefix: f"{prefix}-{step.number}-{next(names)}", FEWEST_PODS
    )
    operation(world)
