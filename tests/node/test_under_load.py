"""Parts of an installation are replaced, killed and evicted on a real node while pods are created.

Every pod is bound, and its record is stored. `make upgrade` upgrades between two versions, as processes.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

import pytest

from herodotus_record.version import __version__
from tests.node.images import image_name
from tests.node.installation import ANSWER_S, COMPONENTS, NAMESPACE, Installation, Json
from tests.node.load import LoadGenerator
from tests.node.machine import NODE
from tests.processes import eventually

NEXT: Final = f"{__version__}-next"
RENEWAL_S: Final = 2.0  # of the Lease, which is the retry period
TAKEOVER_S: Final = 15.0 + 2 * RENEWAL_S + 1.0  # the Lease's duration, two retry periods, and a cycle on a busy machine
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


def test_every_pod_is_bound_and_recorded_during_an_upgrade_and_a_rollback(
    installation: Installation, generator: LoadGenerator
) -> None:
    """As docs/upgrade.md says. No version is released: the new image is this one under another tag."""
    for component in COMPONENTS:
        installation.machine.tag_image(image_name(component), image_name(component, NEXT))
    with generator.run("upgrade") as load:
        for version in (NEXT, __version__):
            for component in reversed(COMPONENTS):  # the service first
                image = image_name(component, version)
                installation.machine.kubectl(
                    *("-n", NAMESPACE, "set", "image", f"deployment/herodotus-{component}", f"*={image}")
                )
                installation.roll_out(component)
                took_s = generator.measure_binding("upgrade", load)
                print(f"{component} {version}: next binding after {took_s:.1f} s")
                (pod,) = installation.pods(component)
                assert {each["image"] for each in pod["spec"]["containers"]} == {image}
    generator.check_nothing_is_lost("upgrade", load)


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


def test_an_evicted_service_is_replaced_and_keeps_the_records(
    installation: Installation, generator: LoadGenerator
) -> None:
    (pod,) = installation.pods("endpoint")
    with generator.run("evicted-service") as load:
        fill(installation, pod, "tmp", 256)
        wait_for_eviction(installation, pod, "endpoint", 'EmptyDir volume "tmp" exceeds the limit "256Mi"')
    generator.check_nothing_is_lost("evicted-service", load)


def test_the_kubelet_does_not_evict_a_scheduler_of_a_critical_class(installation: Installation) -> None:
    """As installed, the scheduler has the class system-cluster-critical: no limit of its storage ends it."""
    (pod,) = installation.pods("scheduler")
    filler = fill(installation, pod, "spool", 1280)
    spared = f'cannot evict a critical pod" pod="{NAMESPACE}/{pod["metadata"]["name"]}"'
    log = installation.machine.directory / "kubelet.log"
    eventually(lambda: spared in log.read_text(errors="replace"), "the kubelet to look", ANSWER_S, 0.5)
    filler.unlink()
    installation.measure_first_answer("after-exceeding")
    assert [each["metadata"]["uid"] for each in installation.pods("scheduler")] == [pod["metadata"]["uid"]]


def test_an_evicted_scheduler_is_replaced_and_its_undelivered_records_are_known_to_be_missing(
    installation: Installation, generator: LoadGenerator
) -> None:
    """With another priority class. The spool goes with the pod, and the Lease says what was in it."""
    uncritical = {"spec": {"template": {"spec": {"priorityClassName": None}}}}
    installation.machine.cluster.patch(f"{DEPLOYMENTS}/herodotus-scheduler", uncritical)
    installation.roll_out("scheduler")
    (pod,) = installation.pods("scheduler")
    installation.measure_first_answer("before-eviction")
    time.sleep(2 * RENEWAL_S)  # until the Lease says how many records that makes
    incarnation, delivered = installation.high_water()
    assert installation.incarnations()[incarnation]["highestSequence"] == delivered

    installation.scale("endpoint", 0)
    with generator.run("evicted-scheduler") as load:
        generator.measure_binding("evicted-scheduler", load)
    undelivered = 2 * len(generator.wait_until_bound("evicted-scheduler", load))  # a decision and its outcome each
    eventually(lambda: installation.high_water() == (incarnation, delivered + undelivered), "the Lease to say so")
    fill(installation, pod, "spool", 1280)
    wait_for_eviction(installation, pod, "scheduler", 'EmptyDir volume "spool" exceeds the limit "1280Mi"')
    installation.scale("endpoint", 1)
    installation.measure_first_answer("after-eviction")
    assert installation.missing() == {incarnation: undelivered}


DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def fill(installation: Installation, pod: Json, volume: str, mebibytes: int) -> Path:
    """Write a file that exceeds the limit of an emptyDir volume of a pod, and return its path."""
    path = installation.machine.find_volume(pod, volume) / "filler"
    with path.open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, (mebibytes << 20) + 1)
    return path


def wait_for_eviction(installation: Installation, pod: Json, component: str, reason: str) -> None:
    """Wait until the kubelet has evicted a pod of a component, for a reason.

    The event says so. The pod's status does not if its container ends with 0: then the phase is Succeeded.
    """
    name, cluster = pod["metadata"]["name"], installation.machine.cluster
    evictions = eventually(lambda: cluster.events(NAMESPACE, name, "Evicted") or None, f"{name}'s end", ANSWER_S, 0.5)
    assert reason in evictions[0]["note"]
    eventually(lambda: name not in {p["metadata"]["name"] for p in installation.pods(component)}, f"{name}'s end")
    installation.roll_out(component)
