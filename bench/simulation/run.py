"""One run: the system, the steps of a scenario, a quiet phase, and the invariants.

Owns: the order of a run, and the checks at every binding. Does not own: the invariants (`bench.reliability`).

Invariant: equal seeds, settings and steps give an equal digest of all requests, records and stored rows.
"""

from __future__ import annotations

import json
import logging
import random
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.reliability import operations
from bench.reliability.driver import TEND_S, FaultRun, judge, quieten
from bench.reliability.invariants import BINDING_INVARIANTS, LAG_S
from bench.reliability.journal import ObservedChange
from bench.reliability.operations import OperationContext
from bench.simulation import machine as machines
from bench.simulation import network as networks
from bench.simulation import standard_library
from bench.simulation.coverage import StateCoverage
from bench.simulation.machine import START_S, MachineError, VirtualMachine, VirtualProcess
from bench.simulation.pause import find_differences, pause
from bench.simulation.scenario import (
    PAUSE,
    CompositeSeed,
    ScenarioStep,
    Settings,
    build_scenario,
    count_first_nodes,
    list_options,
    run_step,
)
from bench.simulation.system import DATABASE, SimulatedSystem

LEADER_S: Final = 60.0  # within which the first leader must schedule
BINDING_LAG_S: Final = 2 * LAG_S  # the decision may be as old as its binding's retries
LONGEST_S: Final = 90.0  # of processor time, after which a run counts as hanging
MOST_ATTEMPTS: Final = 40  # of one pod within TEND_S; more are made without a pause


@dataclass
class SeedResult:
    """The result of a run. `digest` is equal for equal runs."""

    seed: str
    digest: str = ""
    violations: list[str] = field(default_factory=list)
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    steps: int = 0
    requests: int = 0
    pods: int = 0
    bindings: int = 0
    decisions: int = 0
    incarnations: int = 0
    explained: int = 0
    states: dict[str, float] = field(default_factory=dict)
    """When each state was first reached, in seconds since the first step."""


class SeedRun:
    """A run of one scenario."""

    def __init__(
        self, seed: str, settings: Settings, directory: Path, template: Path, start_s: float = START_S
    ) -> None:
        """Prepare a run with its files in `directory`, which begins at `start_s` of the wall clock."""
        self._seed, self._settings, self._directory = seed, settings, directory
        first = CompositeSeed.parse(seed).first
        self.machine = activate(first, start_s)
        self.coverage = StateCoverage(self.machine)
        options = list_options(seed)
        self.system = SimulatedSystem(self.machine, first, directory, template, settings.replicas, options)
        networks.connect(self.system.network)
        self.system.api.on_binding = self._check_binding
        self._users = VirtualProcess(self.machine, "users")
        self._violations: list[str] = []
        self._result = FaultRun()
        self._under_way = 0
        self._is_over = False

    def play(self, steps: Sequence[ScenarioStep] | None = None) -> SeedResult:
        """Run the steps, by default those of the seed, and return the result."""
        began = time.process_time()
        scenario = build_scenario(self._seed, self._settings) if steps is None else steps
        self._users.start("script", lambda: self._play(scenario))
        self._users.start("kubelets", self._tend)
        ends, leadership = began + LONGEST_S, self.system.leadership

        def is_over() -> bool:
            if self._is_over or self._violations or leadership.violations or self.machine.failures:
                return True
            return self.machine.steps % 4096 == 0 and time.process_time() > ends

        try:
            self.machine.run(is_over)
            self._violations += leadership.violations
            if not self._is_over and not self._violations and not self.machine.failures:
                self._violations.append(f"no_run_hangs: no end after {LONGEST_S:.0f} s of processor time")
        except MachineError as e:
            self._violations.append(f"the simulation stopped: {e}")
        return self._summarize(time.process_time() - began)

    def _summarize(self, cpu_s: float) -> SeedResult:
        result, system = self._result, self.system
        system.digest.update(json.dumps([self.machine.now, self.machine.steps, self._violations]).encode())
        return SeedResult(
            self._seed,
            system.digest.hexdigest(),
            [*self._violations, *result.violations, *self.machine.failures],
            self.machine.now,
            cpu_s,
            self.machine.steps,
            system.network.requests,
            result.pods,
            result.bindings,
            result.decisions,
            result.incarnations,
            result.explained,
            self.coverage.states,
        )

    def _play(self, scenario: Sequence[ScenarioStep]) -> None:
        """Play the whole run. Runs in a thread of the users."""
        machine, system = self.machine, self.system
        operations.prepare(system.api, count_first_nodes(self._seed))
        for replica in system.replicas:
            replica.start()
        ends = machine.now + LEADER_S
        while system.leader() is None:
            machine.sleep(TEND_S)
            if machine.now > ends:
                self._violations.append(f"no leader within {LEADER_S:.0f} s")
                return
        began = self.coverage.began_s = machine.now
        seed = CompositeSeed.parse(self._seed).first
        for step in scenario:
            machine.sleep(max(0.0, began + step.at_s - machine.now))
            if step.seed != seed:
                seed = step.seed
                machine.reseed(f"{seed} after {step.at_s}")
                system.network.reseed(f"{seed} after {step.at_s}")
            if step.name == PAUSE:
                paused = machine.now
                self._pause()
                began += machine.now - paused
                self.coverage.began_s = began
                continue
            self._under_way += 1
            self._users.start(step.name, lambda step=step: self._run_step(step))  # type: ignore[misc]
        self._pause()
        quieten(system, system.api, system.api, self._seed)
        judge(system, system.api, self._result)
        self._violations += find_differences(system)
        self._hash_records()
        self._is_over = True

    def _pause(self) -> None:
        """Wait until no step is under way, and check that what can go on goes on."""
        while self._under_way:
            self.machine.sleep(TEND_S)
        self._violations += pause(self.system)

    def _run_step(self, step: ScenarioStep) -> None:
        self.coverage.begin(step.name)
        try:
            run_step(step, self.system)
        finally:
            self.coverage.end(step.name)
            self._under_way -= 1

    def _tend(self) -> None:
        """Act as kubelets and controllers do, as long as the run lasts."""
        draw = random.Random(f"kubelets of {self._seed}")
        world = OperationContext(self.system.api, self.system.api.state, draw, lambda prefix: prefix)
        while True:
            self.machine.sleep(TEND_S)
            self.system.restart_ended()
            operations.reap(world)
            for pod, attempts in self.system.attempts_since_last_call().items():
                if attempts > MOST_ATTEMPTS:
                    self._violations.append(f"no_pod_is_tried_without_a_pause: {pod}, {attempts} times in {TEND_S} s")

    def _check_binding(self, binding: ObservedChange) -> None:
        past = self.system.api.past
        for check in BINDING_INVARIANTS:
            self._violations += [
                f"{check.__name__}: {violation}" for violation in check(binding, past, binding.at - BINDING_LAG_S)
            ]

    def _hash_records(self) -> None:
        """Add every row of the decisions service's database to the digest."""
        with closing(sqlite3.connect(self._directory / DATABASE)) as connection:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
                for row in connection.execute(f"SELECT * FROM {table}"):
                    self.system.digest.update(repr(row).encode())


def activate(seed: str, start_s: float = START_S) -> VirtualMachine:
    """Let this process use a new virtual machine, and numbers that the seed determines; return the machine."""
    logging.disable(logging.CRITICAL)
    random.seed(f"programs of {seed}")
    machine = VirtualMachine(seed, start_s)
    machines.activate(machine)
    return machine


def deactivate() -> None:
    """Let this process use real time again after a run, whose threads never run again."""
    machines.activate(None)
    networks.connect(None)
    standard_library.children.clear()
