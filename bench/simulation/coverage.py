"""The coverage of a run: which states it reached, so that a search can continue where a run reached new ones.

Owns: what counts as a state. Does not own: which seed runs next (`search`).

A state is a point that a program reached (`VirtualMachine.reach`), with either the point before it in the same process,
or a disturbance that was under way. There are some thousands, so that a search sees new ones for a long time.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from bench.simulation.machine import VirtualMachine, VirtualProcess

_NUMBERS: Final = re.compile(r"-\d+")  # of replicas and their processes


class StateCoverage:
    """The states that a run has reached, each with the time of the first time in seconds since `began_s`."""

    def __init__(self, machine: VirtualMachine) -> None:
        self.states: dict[str, float] = {}
        self.began_s = 0.0
        self._machine = machine
        self._before: dict[VirtualProcess, str] = {}
        self._under_way: Counter[str] = Counter()
        self._programs: dict[str, str] = {}  # the program of a process, by the process's name
        machine.on_point = self._note

    def begin(self, step: str) -> None:
        """Note that a step of the scenario begins."""
        self._under_way[step] += 1

    def end(self, step: str) -> None:
        """Note that a step of the scenario has ended."""
        self._under_way[step] -= 1
        if not self._under_way[step]:
            del self._under_way[step]

    def _note(self, process: VirtualProcess, point: str) -> None:
        program = self._programs.get(process.name)
        if program is None:
            program = self._programs[process.name] = _NUMBERS.sub("", process.name)
        at = self._machine.now - self.began_s
        self.states.setdefault(f"{program}: {self._before.get(process, 'start')} > {point}", at)
        for step in self._under_way:
            self.states.setdefault(f"{program}: {point} during {step}", at)
        self._before[process] = point
