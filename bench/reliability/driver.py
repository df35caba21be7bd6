"""One run: operations and disturbances from a seed, then a quiet phase, then the evidence.

Owns: the order of a run. Does not own: the single `operations` and `disturbances`, the invariants. The same seed draws
the same things in the same order; the processes' reactions may differ.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Final, Protocol

from bench.reliability import operations
from bench.reliability.disturbances import DISTURBANCES, STALLS, Disturbance, DisturbanceContext, DisturbingClient
from bench.reliability.invariants import INVARIANTS, Evidence, find_feasible_node
from bench.reliability.journal import ClusterModel, Journal, ObservedChange, is_evicted
from bench.reliability.operations import NAMESPACE, OPERATIONS, PODS, OperationContext, RetryingClient
from bench.reliability.system import UNWRITTEN_S, System, wait_for_leader

Json = dict[str, Any]

QUIET_S: Final = 120.0  # A pod's backoff is at most 10 s; a watch pauses up to 60 s after many failures.
TEND_S: Final = 0.5
ROUND_S: Final = 1.5  # span of a round's pod creations and the start of its disturbance
ROUND_PODS: Final = (20, 60)


class ObservedCluster(Protocol):
    """The history of a cluster, as `Journal` observes it."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """What to hold while the state is read."""

    @property
    def state(self) -> ClusterModel:
        """The cluster as it is."""

    def history(self) -> list[ObservedChange]:
        """Return every change so far."""


class DisturbedServer(Protocol):
    """An API server. `faulty` says that it accepts plans of faults."""

    @property
    def faulty(self) -> bool:
        """Whether the server accepts plans of faults."""


class RecordingSystem(Protocol):
    """What the end of a run needs of the system under test."""

    @property
    def api(self) -> DisturbedServer:
        """The API server."""

    @property
    def crashes(self) -> list[str]:
        """The unexpected ends of processes."""

    def restart_ended(self) -> None:
        """Start ended processes again."""

    def leader(self) -> object | None:
        """Return the replica that schedules, or None."""

    def is_delivered(self) -> bool:
        """Return whether all records are delivered."""

    @property
    def clocks_differ_s(self) -> float:
        """By how much the wall clocks of the schedulers may differ from that of the API server."""

    @property
    def unreported_losses(self) -> int:
        """How many records killed schedulers may have lost without a report."""

    def attempts(self) -> Counter[str]:
        """Return the logged attempts per pod."""

    def attempts_before_kills(self) -> Counter[str]:
        """Return those shortly before a scheduler was killed."""

    def query(self, path: str, **params: str) -> Json:
        """Return a response of the decisions service."""

    def list_decisions(self, namespace: str, **params: str) -> list[Json]:
        """Return the stored decisions of a namespace."""

    def read_record(self, namespace: str, name: str) -> Json:
        """Return the complete record of a decision."""


@dataclass(frozen=True)
class RunSettings:
    """The seed, length, rate and disturbances of a run."""

    seed: int
    operations: int
    per_s: float = 40.0
    disturb_every_s: float = 1.5
    """Mean interval; 0 means no disturbances."""
    rounds: int = 0
    """Rounds instead of operations: each creates pods during a disturbance of `STALLS` and waits for its end."""


@dataclass
class FaultRun:
    """The counts and violations of a run."""

    operations_done: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    pods: int = 0
    bindings: int = 0
    evicted: int = 0
    decisions: int = 0
    incarnations: int = 0
    explained: int = 0
    waits_s: dict[str, list[float]] = field(default_factory=dict)
    """Times without a leader, by how the last leader ended."""
    violations: list[str] = field(default_factory=list)


def run(system: System, settings: RunSettings) -> FaultRun:
    """Create load and disturbances, wait until the system is quiet, check the invariants, and return the result.

    The system keeps running.
    """
    journal = Journal(system.api.url, system.api.headers)
    api = RetryingClient(system.api.url, system.api.headers)
    try:
        result = FaultRun()
        began = time.monotonic()
        operations.prepare(api)
        wait_for_leader(system)
        if settings.rounds:
            _play_rounds(system, settings, journal, api, result)
        else:
            _operate(system, settings, journal, api, result)
        quieten(system, journal, api, settings.seed)
        result.seconds = time.monotonic() - began
        judge(system, journal, result)
        result.waits_s = waits_without_leader(system, journal)
        return result
    finally:
        journal.close()
        api.close()


def _operate(system: System, settings: RunSettings, journal: Journal, api: RetryingClient, result: FaultRun) -> None:
    draw, names = random.Random(settings.seed), count(1)
    world = OperationContext(api, journal.state, draw, lambda prefix: f"{prefix}-{next(names)}")
    scene = DisturbanceContext(api, system, draw)
    disturbances = shuffle_by_weight(draw, [d for d in DISTURBANCES if system.api.faulty or not d.simulated])
    next_tend = next_disturbance = 0.0
    due = time.monotonic()
    for _ in range(settings.operations):
        (operation,) = draw.choices(OPERATIONS, [o.weight for o in OPERATIONS])
        with journal.lock:
            operation.run(world)
        result.operations_done[operation.name] += 1
        now = time.monotonic()
        if now >= next_tend:
            next_tend = now + TEND_S
            system.restart_ended()
            with journal.lock:
                operations.reap(world)
        if settings.disturb_every_s and now >= next_disturbance:
            next_disturbance = now + draw.uniform(0, 2 * settings.disturb_every_s)
            disturbance = next(disturbances)
            disturbance.run(scene)
            result.operations_done[disturbance.name] += 1
        due = max(due + 1 / settings.per_s, time.monotonic() - 1.0)  # A delay must not cause a burst later.
        time.sleep(max(0.0, due - time.monotonic()))


def _play_rounds(
    system: System, settings: RunSettings, journal: Journal, api: RetryingClient, result: FaultRun
) -> None:
    """In each round, create pods for a second or two, start a stall at a random moment, and wait for all results."""
    draw, names = random.Random(settings.seed), count(1)
    disturber = RetryingClient(system.api.url, system.api.headers)
    scene = DisturbanceContext(disturber, system, random.Random(settings.seed + 1))
    try:
        for number, disturbance in enumerate(islice(shuffle_by_weight(draw, list(STALLS)), settings.rounds), 1):
            wait_for_leader(system)
            result.operations_done[disturbance.name] += 1
            began = time.monotonic()
            thread = threading.Timer(draw.uniform(0.0, ROUND_S), disturbance.run, (scene,))
            thread.start()
            for _ in range(draw.randint(*ROUND_PODS)):
                api.create(PODS, operations.small_pod(f"pod-{next(names)}"))
                time.sleep(draw.uniform(0.0, 2 * ROUND_S / ROUND_PODS[1]))
            thread.join()
            missing = _wait_for_results(system, journal)
            print(f"round {number}: {disturbance.name}, {time.monotonic() - began:.1f} s {missing}", flush=True)
            with journal.lock:
                old = [pod["metadata"]["name"] for pod in journal.state.bound()]
            for name in old:
                api.delete(f"{PODS}/{name}")
    finally:
        disturber.close()


def _wait_for_results(system: System, journal: Journal) -> str:
    """Wait at most QUIET_S seconds until every pod is bound, all records are delivered and no decision is open.

    Return a text on what is still missing then, or "".
    """
    deadline = time.monotonic() + QUIET_S
    while True:
        system.restart_ended()
        with journal.lock:
            waiting = [pod["metadata"]["name"] for pod in journal.state.pending()]
        missing = {
            "pods not bound": waiting,
            "records in a spool": [] if system.is_delivered() else ["some"],
            "decisions without a result": open_decisions(system),
        }
        summary = "; ".join(f"{what}: {', '.join(names)}" for what, names in missing.items() if names)
        if not summary or time.monotonic() > deadline:
            return summary
        time.sleep(TEND_S)


def open_decisions(system: RecordingSystem) -> list[str]:
    """Return the names of the stored decisions whose binding has no final outcome yet."""
    decisions = system.list_decisions(NAMESPACE, fieldSelector="status.state=Binding")
    return [decision["metadata"]["name"] for decision in decisions]


def shuffle_by_weight(draw: random.Random, disturbances: list[Disturbance]) -> Iterator[Disturbance]:
    """Yield each disturbance once in random order, so that a short run has all; then random ones without end.

    Those occur in proportion to their weights.
    """
    deck = list(disturbances)
    while True:
        draw.shuffle(deck)
        yield from deck
        deck = [d for d in disturbances for _ in range(d.weight)]


def quieten(system: RecordingSystem, journal: ObservedCluster, api: DisturbingClient, seed: int | str) -> None:
    """Remove all faults, restore all nodes, and wait at most QUIET_S seconds until all work is done.

    That is when no pod that fits is pending, none is tried, no decision is open, and all records are delivered, for so
    long that no count of repeated attempts is unwritten.
    """
    world = OperationContext(api, journal.state, random.Random(seed), lambda prefix: prefix)
    if system.api.faulty:
        api.put("/faults", {"faults": []})
    with journal.lock:
        operations.settle(world)
    deadline, quiet_since, attempts = time.monotonic() + QUIET_S, float("inf"), system.attempts()
    while (now := time.monotonic()) < deadline:
        system.restart_ended()
        with journal.lock:
            operations.reap(world)
            settled = operations.is_settled(journal.state)  # The watch is behind the requests.
        before, attempts = attempts, system.attempts()
        settled = settled and attempts == before
        if settled and system.leader() is not None and system.is_delivered() and not open_decisions(system):
            with journal.lock:
                waiting = any(find_feasible_node(journal.state, pod) for pod in journal.state.pending())
            quiet_since = float("inf") if waiting else min(quiet_since, now)
        else:
            quiet_since = float("inf")
        if now - quiet_since > UNWRITTEN_S:
            return
        time.sleep(TEND_S)


def judge(system: RecordingSystem, journal: ObservedCluster, result: FaultRun) -> None:
    """Check all invariants on what a run leaves behind, and put counts and violations into the result."""
    history, records = journal.history(), dict[str, Json]()

    def read_record(decision: Json) -> Json:
        name = decision["metadata"]["name"]
        if name not in records:
            records[name] = system.read_record(NAMESPACE, name)
        return records[name]

    while True:
        attempts = system.attempts()
        decisions, incarnations = system.list_decisions(NAMESPACE), system.query("/incarnations")["items"]
        if system.attempts() == attempts:
            break
        time.sleep(UNWRITTEN_S)  # a pod was tried meanwhile
    evidence = Evidence(
        history=history,
        decisions=decisions,
        incarnations=incarnations,
        record=read_record,
        attempts=attempts,
        attempts_before_kills=system.attempts_before_kills(),
        crashes=system.crashes,
        clocks_differ_s=system.clocks_differ_s,
        unreported_losses=system.unreported_losses,
    )
    result.pods = len({s.uid for s in history if s.kind == "Pod"})
    result.bindings = len(evidence.bindings)
    result.evicted = len({s.uid for s in history if s.kind == "Pod" and is_evicted(s.object)})
    result.decisions = len(evidence.decisions)
    result.incarnations = len(evidence.incarnations)
    result.explained = sum(i["explainedByGaps"] for i in evidence.incarnations)
    result.violations = [f"{check.__name__}: {v}" for check in INVARIANTS for v in check(evidence)]


def waits_without_leader(system: System, journal: Journal) -> dict[str, list[float]]:
    """Return the seconds from each end of a leader to the next holder of the Lease, by how the leader ended."""
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
