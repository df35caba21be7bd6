"""Pods are created while parts of an installation fail on a real node: every pod is bound, and no record is missing."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

import pytest

from tests.node.installation import ANSWER_S, COMPONENTS, NAMESPACE, Installation, Json
from tests.node.load import LoadGenerator
from tests.node.machine import NODE
from tests.processes import eventually

TAKEOVER_S: Final = 15.0 + 2 * 2.0 + 1.0  # the Lease's duration, two retry periods, and a cycle on a busy machine
SPOOL_VOLUME: Final = 1280 << 20  # bytes: the sizeLimit of the emptyDir
# Many processes, each smaller than the component's own: the kernel kills the largest of a cgroup.
EXCEED_MEMORY: Final = """
import os, time
for _ in range(256):
    if os.fork() == 0:
        block = bytearray(b"x" * (8 << 20))
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_container_that_exceeds_its_memory_limit_is_killed_and_started_again(
    installation: Installation, generator: LoadGenerator, component: str
) -> None:
    (pod,) = installation.pods(component)
    namespace = f"oom-{component}"
    with generator.run(namespace) as load:
        installation.machine.execute(pod, component, "/opt/herodotus/bin/python", "-c", EXCEED_MEMORY)
        ended = installation.wait_for_restart(pod, component)
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 128 + signal.SIGKILL)
    generator.check_nothing_is_lost(namespace, load)


def test_another_scheduler_takes_over_when_the_leader_is_killed(
    installation: Installation, generator: LoadGenerator
) -> None:
    installation.scale("scheduler", 2)
    leader = installation.lease()["spec"]["holderIdentity"]
    (pod,) = (p for p in installation.pods("scheduler") if leader.startswith(p["metadata"]["name"]))
    with generator.run("failover") as load:
        generator.measure_binding("failover", load)
        os.kill(installation.machine.find_process(pod, "scheduler"), signal.SIGKILL)
        took_s = generator.measure_binding("failover", load)
    print(f"failover: next binding after {took_s:.1f} s")
    assert installation.lease()["spec"]["holderIdentity"] != leader
    assert took_s < TAKEOVER_S
    generator.check_nothing_is_lost("failover", load)
    installation.scale("scheduler", 1)


def test_a_restarted_node_keeps_the_database_and_the_records_in_the_spool(
    installation: Installation, generator: LoadGenerator
) -> None:
    """The claim's volume and an emptyDir on disk outlive a node that is switched off. The pods stay the same."""
    installation.measure_first_answer("before-restart")
    (service,) = installation.pods("endpoint")
    (scheduler,) = installation.pods("scheduler")
    with generator.run("restart") as load:
        generator.measure_binding("restart", load)
        os.kill(installation.machine.find_process(service, "endpoint"), signal.SIGSTOP)  # so that records wait
        generator.measure_binding("restart", load)
        began = time.monotonic()
        installation.machine.restart_node()
        for pod, component in ((service, "endpoint"), (scheduler, "scheduler")):
            installation.wait_for_restart(pod, component)
        print(f"node: ready again after {time.monotonic() - began:.1f} s")
    generator.check_nothing_is_lost("restart", load)
    assert installation.explained_node("before-restart") == NODE


def test_an_evicted_scheduler_is_replaced_and_its_undelivered_records_are_known_to_be_missing(
    installation: Installation, generator: LoadGenerator
) -> None:
    """The kubelet evicts a pod whose emptyDir exceeds its limit, and the spool goes with the pod."""
    (pod,) = installation.pods("scheduler")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    incarnation, delivered = installation.high_water()
    eventually(lambda: installation.highest_sequence(incarnation) == delivered, "all records to be delivered")
    installation.scale("endpoint", 0)
    with generator.run("eviction") as load:
        generator.measure_binding("eviction", load)
    undelivered = 2 * len(generator.wait_until_bound("eviction", load))  # a decision and its outcome each
    eventually(lambda: installation.high_water() == (incarnation, delivered + undelivered), "the Lease to say so")

    with (installation.machine.find_volume(pod, "spool") / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, SPOOL_VOLUME + 1)
    evicted = eventually(lambda: find_eviction(installation.machine.cluster.get(path)), "eviction", ANSWER_S, 0.5)
    assert 'emptyDir volume "spool" exceeds the limit "1280Mi"' in evicted
    installation.scale("endpoint", 1)
    installation.roll_out("scheduler")
    installation.measure_first_answer("after-eviction")
    assert installation.missing() == {incarnation: undelivered}


def find_eviction(pod: Json) -> str | None:
    """Return why the kubelet evicted a pod, or None if it did not, or not yet."""
    return str(pod["status"]["message"]) if pod["status"].get("reason") == "Evicted" else None
