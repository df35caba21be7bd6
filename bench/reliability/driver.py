"""A run: operations and disturbances drawn from a seed, then quiet, then the evidence.

Owns: the order of events of a run. Does not own: what they are (`operations`, `disturbances`), what must hold.
The same seed draws the same things in the same order; what the processes make of them is theirs.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from bench.reliability import operations
from bench.reliability.client import Client
from bench.reliability.disturbances import DISTURBANCES, Disturbance, Scene
from bench.reliability.invariants import INVARIANTS, Evidence, place_for
from bench.reliability.journal import Journal
from bench.reliability.operations import NAMESPACE, OPERATIONS, World
from bench.reliability.state import evicted
from bench.reliability.system import System, wait_for_leader

QUIET_S: Final = 120.0  # a pod backs off 10 s at most; a watch pauses up to 60 s after many failures
TEND_S: Final = 0.5


@dataclass(frozen=True)
class Settings:
    """How long, how fast, how rough."""

    seed: int
    operations: int
    per_s: float = 40.0
    disturb_every_s: float = 1.5
    """On average; 0 disturbs nothing."""


@dataclass
class Result:
    """What a run did, and what it found."""

    did: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    pods: int = 0
    bindings: int = 0
    evicted: int = 0
    decisions: int = 0
    incarnations: int = 0
    explained: int = 0
    waits_s: dict[str, list[float]] = field(default_factory=dict)
    """Without a leader, by how the last one was ended."""
    violations: list[str] = field(default_factory=list)


def run(system: System, settings: Settings) -> Result:
    """Everything, in order. The system is left running."""
    journal = Journal(system.api.url, system.api.headers)
    api = Client(system.api.url, system.api.headers)
    try:
        result = Result()
        began = time.monotonic()
        operations.prepare(api)
        wait_for_leader(system)
        _operate(system, settings, journal, api, result)
        _quieten(system, journal, api, settings)
        result.seconds = time.monotonic() - began
        _judge(system, journal, result)
        return result
    finally:
        journal.close()
        api.close()


def _operate(system: System, settings: Settings, journal: Journal, api: Client, result: Result) -> None:
    draw, names = random.Random(settings.seed), count(1)
    world = World(api, journal.state, draw, lambda prefix: f"{prefix}-{next(names)}")
    scene = Scene(api, system, draw)
    disturbances = dealt(draw, [d for d in DISTURBANCES if system.api.faulty or not d.simulated])
    next_tend = next_disturbance = 0.0
    due = time.monotonic()
    for _ in range(settings.operations):
        (operation,) = draw.choices(OPERATIONS, [o.weight for o in OPERATIONS])
        with journal.lock:
            operation.run(world)
        result.did[operation.name] += 1
        now = time.monotonic()
        if now >= next_tend:
            next_tend = now + TEND_S
            system.tend()
            with journal.lock:
                operations.reap(world)
        if settings.disturb_every_s and now >= next_disturbance:
            next_disturbance = now + draw.uniform(0, 2 * settings.disturb_every_s)
            disturbance = next(disturbances)
            disturbance.run(scene)
            result.did[disturbance.name] += 1
        due = max(due + 1 / settings.per_s, time.monotonic() - 1.0)  # a slow moment is not made up for in a burst
        time.sleep(max(0.0, due - time.monotonic()))


def dealt(draw: random.Random, disturbances: list[Disturbance]) -> Iterator[Disturbance]:
    """Like cards: one of each first, so that a short run has them all; then each as often as its weight says."""
    deck = list(disturbances)
    while True:
        draw.shuffle(deck)
        yield from deck
        deck = [d for d in disturbances for _ in range(d.weight)]


def _quieten(system: System, journal: Journal, api: Client, settings: Settings) -> None:
    """No more faults, room for most, and time until nothing more can happen."""
    world = World(api, journal.state, random.Random(settings.seed), lambda prefix: prefix)
    if system.api.faulty:
        api.put("/faults", {"faults": []})
    with journal.lock:
        operations.settle(world)
    deadline = time.monotonic() + QUIET_S
    while time.monotonic() < deadline:
        system.tend()
        with journal.lock:
            operations.reap(world)
            known = operations.settled(journal.state)  # by the watch, which is behind what was asked for
            waiting = any(place_for(journal.state, pod) for pod in journal.state.pending())
        if known and not waiting and system.leader() is not None and system.delivered():
            return
        time.sleep(TEND_S)


def _judge(system: System, journal: Journal, result: Result) -> None:
    history = journal.history()
    evidence = Evidence(
        history=history,
        decisions=system.listed(f"/namespaces/{NAMESPACE}/decisions"),
        incarnations=system.query("/incarnations")["items"],
        record=lambda decision: system.query(f"/namespaces/{NAMESPACE}/decisions/{decision['metadata']['name']}"),
        attempts=system.attempts(),
        kills=sum(replica.kills for replica in system.replicas),
        crashes=system.crashes,
    )
    result.pods = len({s.uid for s in history if s.kind == "Pod"})
    result.bindings = len(evidence.bindings)
    result.evicted = len({s.uid for s in history if s.kind == "Pod" and evicted(s.object)})
    result.decisions = len(evidence.decisions)
    result.incarnations = len(evidence.incarnations)
    result.explained = sum(i["explainedByGaps"] for i in evidence.incarnations)
    result.waits_s = waits_without_leader(system, journal)
    result.violations = [f"{check.__name__}: {v}" for check in INVARIANTS for v in check(evidence)]


def waits_without_leader(system: System, journal: Journal) -> dict[str, list[float]]:
    """From each end of a leader until the Lease had another holder."""
    leases = [s for s in journal.history() if s.kind == "Lease" and s.object["spec"].get("holderIdentity")]
    waits: dict[str, list[float]] = {}
    for ended in system.ended:
        before = next((s for s in reversed(leases) if s.at <= ended.at), None)
        if before is None:
            continue
        was = before.object["spec"]["holderIdentity"]
        taken = next((s for s in leases if s.at > ended.at and s.object["spec"]["holderIdentity"] != was), None)
        if taken is not None:
            waits.setdefault(ended.how, []).append(taken.at - ended.at)
    return waits
