"""Failures that can begin at any step of a process: of a host, its network or a process.

Owns: each failure, its end, and the failpoint that lets one happen at a step of a process. Does not own: when a failure
comes (`scenario`), the disturbances of the real-time runs, which choose their own moment
(`bench.reliability.disturbances`).

A failure begins at once and returns the function that ends it, so that it can begin at any step of any process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench.reliability.disturbances import draw_log_uniform
from bench.simulation.machine import Failpoint, VirtualProcess
from bench.simulation.system import API_HOST, CLOCK_JUMP_S, SERVICE_HOST, SimulatedReplica, SimulatedSystem

DURATION_S: Final = (0.3, 15.0)  # of a failure that ends
FAILPOINT_S: Final = 15.0  # after which a failpoint is given up
SECOND_S: Final = 3.0  # within which a second failure may follow the first one
LOST_SHARES: Final = (0.2, 0.5, 1.0, 1.0)  # of the messages that a bad link loses
COMPACTION_SHARE: Final = 0.5  # of the failures during which the API server discards its history
PASSES: Final = (1, 1, 1, 2, 3, 5, 10)

# The steps at which a failpoint waits, by the beginnings of the names of points (`VirtualMachine.reach`).
STEPS: Final = (
    "send POST pods/binding",
    "send POST pods/binding",
    "handled POST pods/binding",
    "answer",
    "send PATCH",
    "send PATCH resourceclaims",
    "handled PATCH",
    "handled PATCH resourceclaims",
    "handled DELETE",
    "send PUT leases",
    "handled PUT leases",
    "answer 200 to GET leases",
    "no answer",
    "event of WATCH pods",
    "event of WATCH nodes",
    "event of",
    "handled POST ingest",
    "send POST ingest",
    "write",
    "written",
    "overwrite",
)


@dataclass(frozen=True)
class Scene:
    """What a disturbance may use, as `bench.reliability.disturbances.DisturbanceContext`."""

    api: Any
    system: SimulatedSystem
    draw: random.Random


End = Callable[[], None]
Failure = Callable[[Scene, SimulatedReplica], End]


def _nothing() -> None:
    """End a failure that does not end."""


def kill(scene: Scene, replica: SimulatedReplica) -> End:
    """Send SIGKILL to a scheduler."""
    replica.kill()
    return _nothing


def terminate(scene: Scene, replica: SimulatedReplica) -> End:
    """Send SIGTERM to a scheduler."""
    if replica.process.running:
        replica.request_end()
    return _nothing


def kill_children(scene: Scene, replica: SimulatedReplica) -> End:
    """Send SIGKILL to the shipper of a scheduler."""
    replica.kill_children()
    return _nothing


def freeze(scene: Scene, replica: SimulatedReplica) -> End:
    """Stop a scheduler, as SIGSTOP or a paused virtual machine does, so that it comes back with an old view."""
    process = replica.process
    process.freeze()
    return process.thaw


def stall_disk(scene: Scene, replica: SimulatedReplica) -> End:
    """Let all writes to a host's disk wait."""
    replica.host.disk_is_stalled = True
    return replica.host.resume_disk


def fill_disk(scene: Scene, replica: SimulatedReplica) -> End:
    """Let a host's disk be full."""
    host = replica.host
    host.disk_is_full, host.freed_bytes = True, 0
    return partial(setattr, host, "disk_is_full", False)


def cut_api_server(scene: Scene, replica: SimulatedReplica) -> End:
    """Lose some or all messages between a replica and the API server, in one direction or both."""
    return _cut(scene, replica, API_HOST)


def cut_service(scene: Scene, replica: SimulatedReplica) -> End:
    """Lose some or all messages between a replica or its shipper and the decisions service."""
    return _cut(scene, replica, SERVICE_HOST)


def _cut(scene: Scene, replica: SimulatedReplica, host: str) -> End:
    network = scene.system.network
    way, share = scene.draw.choice(("request", "response", "both")), scene.draw.choice(LOST_SHARES)
    network.cut(replica.name, host, way, share)
    return partial(network.mend, replica.name, host)


def stall_api_server(scene: Scene, replica: SimulatedReplica) -> End:
    """Let the API server receive requests and handle them only later."""
    process = scene.system.api.process
    process.freeze()
    return process.thaw


def kill_service(scene: Scene, replica: SimulatedReplica) -> End:
    """Send SIGKILL to the decisions service."""
    scene.system.restart_endpoint()
    return _nothing


def set_clock(scene: Scene, replica: SimulatedReplica) -> End:
    """Set a host's wall clock, forwards or backwards, and leave it so."""
    replica.host.clock_offset_s = scene.draw.uniform(-CLOCK_JUMP_S, CLOCK_JUMP_S)
    return _nothing


FAILURES: Final[tuple[tuple[str, Failure], ...]] = (
    ("kill a replica", kill),
    ("terminate a replica", terminate),
    ("kill a shipper", kill_children),
    ("freeze a replica", freeze),
    ("stall a disk", stall_disk),
    ("fill a disk", fill_disk),
    ("cut off the API server", cut_api_server),
    ("cut off the decisions service", cut_service),
    ("stall the API server", stall_api_server),
    ("kill the decisions service", kill_service),
    ("set a clock", set_clock),
)


# What may follow a failure within SECOND_S: mostly the end of the replica that was just hit by it.
SECOND: Final[tuple[Failure, ...]] = (kill, kill, terminate, freeze, cut_api_server)


def fail_for_a_while(scene: Scene, failure: Failure) -> None:
    """Let something of a random replica fail, and end that after a while."""
    _end_later(scene, [failure(scene, scene.draw.choice(scene.system.replicas))])


def set_failpoint(scene: Scene) -> None:
    """Let something fail exactly when a replica reaches a certain step, and sometimes a second thing soon after."""
    draw, machine = scene.draw, scene.system.machine
    replica = scene.system.leader() or draw.choice(scene.system.replicas)
    step, first, second = draw.choice(STEPS), draw.choice(FAILURES)[1], draw.choice(SECOND)
    ends: list[End] = []

    def is_wanted(process: VirtualProcess, point: str) -> bool:
        return process.name.startswith(replica.name) and point.startswith(step)

    failpoint = Failpoint(is_wanted, draw.choice(PASSES), lambda process: ends.append(first(scene, replica)))
    machine.failpoints.append(failpoint)
    machine.wait(failpoint.triggered, FAILPOINT_S)
    if not failpoint.is_triggered:
        machine.failpoints.remove(failpoint)
        return
    if draw.random() < 0.5:
        machine.sleep(draw.uniform(0.0, SECOND_S))
        ends.append(second(scene, replica))
    _end_later(scene, ends)


def _end_later(scene: Scene, ends: Sequence[End]) -> None:
    """End failures after a while. Meanwhile the API server may discard its history, so that watches list again."""
    machine, length_s = scene.system.machine, draw_log_uniform(scene.draw, *DURATION_S)
    if scene.draw.random() < COMPACTION_SHARE:
        machine.sleep(length_s * scene.draw.random())
        scene.api.post("/faults/compact")
    machine.sleep(length_s * scene.draw.random())
    for end in ends:
        end()


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
