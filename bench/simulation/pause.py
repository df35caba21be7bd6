"""A pause in a scenario: every failure ends, and within PATIENCE_S each pod that fits must be bound.

Owns: the end of all failures, and what must hold after a while without them. Does not own: the invariants at the end of
a run (`bench.reliability.invariants`), when a pause comes (`scenario`).

Unlike the end of a run, a pause changes nothing in the cluster. A pod that waits for an event which the scheduler has
missed gets no other event that could help it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Final

from bench.reliability.invariants import find_feasible_node, find_partial_gangs
from bench.reliability.journal import allocatable_milli
from bench.simulation import standard_library
from bench.simulation.system import SimulatedSystem

PATIENCE_S: Final = 100.0  # a watch pauses up to 60 s after many failures, a pod's backoff is at most 10 s
LOOK_EVERY_S: Final = 2.0
DUMP_S: Final = 10.0  # within which the scheduler compares its cache with the API server
_COMPARED: Final = re.compile(r"Cache comparer finished\" mismatches=(\d+)")
_NODE: Final = re.compile(r"Node name: (\S+)\s+Deleted: false\s+Requested Resources: .*?\s+Allocatable Resources: (.*)")
_CPU: Final = re.compile(r"'cpu': (\d+)")


def pause(system: SimulatedSystem) -> list[str]:
    """End all failures, and return what still does not hold after PATIENCE_S seconds."""
    machine = system.machine
    system.network.mend()
    system.api.put("/faults", {"faults": []})
    for replica in system.replicas:
        replica.host.disk_is_full = False
        replica.host.resume_disk()
    ends = machine.now + PATIENCE_S
    while True:
        problems = list(find_problems(system))
        if not problems or machine.now >= ends:
            return problems
        machine.sleep(LOOK_EVERY_S)


def find_problems(system: SimulatedSystem) -> Iterator[str]:
    """Yield what does not hold now: who leads, the pods that wait although they fit, the leader's view."""
    if system.leader() is None:
        yield "somebody_leads: no scheduler leads"
        return
    state, waits = system.api.state, False
    for pod in state.pending():
        if node := find_feasible_node(state, pod):
            waits = True
            yield f"no_pod_waits_that_fits: {pod['metadata']['name']} waits, and fits on {node}"
    for problem in find_partial_gangs(state):
        waits = True
        yield f"no_gang_waits_in_part: {problem}"
    if not waits:
        yield from find_differences(system)


def find_differences(system: SimulatedSystem) -> Iterator[str]:
    """Yield how the leader's cache and queue differ from the API server, by its own comparison (SIGUSR2).

    Nothing differs if nobody leads, or the leader ends meanwhile.
    """
    leader, machine = system.leader(), system.machine
    if leader is None or signal.SIGUSR2 not in leader.process.signal_handlers:
        return
    process = leader.process
    log, first = process.log, len(process.log)
    standard_library.send_signal(process, signal.SIGUSR2)
    ends = machine.now + DUMP_S
    while not (compared := _COMPARED.search("".join(log[first:]))) and machine.now < ends:
        machine.sleep(0.1)
    text = "".join(log[first:])
    if compared is None:
        if process.running:
            yield f"the_leader_sees_what_is_there: {process.name} does not compare its cache"
    elif int(compared[1]):
        lines = [line.strip() for line in text.splitlines() if '"Cache mismatch"' in line]
        yield f"the_leader_sees_what_is_there: {process.name}: {'; '.join(lines)}"
    nodes = system.api.state.nodes
    for name, amounts in _NODE.findall(text):
        cpu = _CPU.search(amounts)
        if name in nodes and cpu and int(cpu[1]) != allocatable_milli(nodes[name]):
            yield f"the_leader_sees_what_is_there: {name} has {allocatable_milli(nodes[name])}m, not {cpu[1]}m of cpu"
