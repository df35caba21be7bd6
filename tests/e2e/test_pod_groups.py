"""Pod groups on a real API server: as kube-scheduler decides them, and never in part after a failed quorum.

GROUP_SEEDS (`1-25`) and GROUP_KILLS make the runs longer. GROUP_GATES chooses the feature gates: `members` (quorum
only), `whole` (topology constraints and preemption for the group as well), by default both.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_record.model import Decision
from scheduler.config import parse_config
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces.document import read_trace
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.pod_group_parity import (
    GATES,
    GROUP_PRIORITY,
    GROUPS,
    OURS,
    SERVED,
    THEIRS,
    WHOLE_GATES,
    GroupParity,
    Json,
    configuration,
    create_priority_classes,
)
from tests.e2e.real_cluster import run_api_server
from tests.e2e.real_scheduler import GateSettings, KubeScheduler, format_gates
from tests.processes import Process, eventually, free_port, python
from tests.scheduler import spools

GROUPS_PER_SEED = 4
KILLS = int(os.environ.get("GROUP_KILLS", "3"))
MODES = {"members": GATES, "whole": WHOLE_GATES}


def seeds() -> list[int]:
    """Return the seeds of `1-25`, by default two."""
    first, _, last = os.environ.get("GROUP_SEEDS", "1-2").partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a control plane that serves pod groups, for this module."""
    binaries = control_plane.assets()
    if binaries is None:
        pytest.skip("NOT TESTED ON A REAL API SERVER: no etcd and kube-apiserver")
    directory = tmp_path_factory.mktemp("groups")
    gates = f"--feature-gates={format_gates(WHOLE_GATES)}"
    with run_api_server(binaries, directory, gates, SERVED) as cluster:
        create_priority_classes(cluster)
        yield cluster


def start_ours(real: Cluster, directory: Path, gates: dict[str, bool], number: int = 0) -> Process:
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "herodotus.yaml"
    config.write_text(yaml.safe_dump({**configuration(OURS), "leaderElection": {"leaderElect": False}}))
    command = [
        *python("scheduler", "run"),
        *("--kubeconfig", str(real.kubeconfig), "--config", str(config), "--feature-gates", format_gates(gates)),
        *(
            "--spool",
            str(directory / "spool"),
            "--secure-port",
            str(free_port()),
            "--bind-address",
            "127.0.0.1",
            "-v=3",
        ),
    ]
    return Process("scheduler", command, directory / f"herodotus-{number}.log")


@pytest.fixture(scope="module", params=os.environ.get("GROUP_GATES", "members,whole").split(","))
def both(real: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """Run both schedulers with the gates of a mode; return the mode."""
    gates = MODES[request.param]
    binaries, directory = control_plane.assets(), tmp_path_factory.mktemp("schedulers")
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip("NOT COMPARED WITH A REAL kube-scheduler: no kube-scheduler beside etcd and kube-apiserver")
    theirs = KubeScheduler(
        binaries / "kube-scheduler", real.kubeconfig, configuration(THEIRS), directory, GateSettings(gates)
    )
    ours = start_ours(real, directory, gates)
    yield request.param
    print(ours.output()[-500:])
    ours.stop()
    theirs.stop()


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds())
def test_groups_are_placed_as_by_kube_scheduler(real: Cluster, both: str, seed: int) -> None:
    parity = GroupParity(real, seed, whole=both == "whole")
    try:
        results = [parity.compare(number) for number in range(GROUPS_PER_SEED)]
    finally:
        parity.close()
    print([(ours.condition[:2], len(ours.members), ours.domain, len(ours.evicted)) for ours, _ in results])
    differing = [(number, ours, theirs) for number, (ours, theirs) in enumerate(results) if not ours.agrees(theirs)]
    for number, ours, theirs in differing:
        print(f"group {number} of seed {seed}:\n  {ours}\n  {theirs}")
    assert not differing


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_a_trace_of_an_observer_has_the_groups_of_kube_scheduler(real: Cluster, both: str, tmp_path: Path) -> None:
    """A simulation of the trace places the pods of the gang on the same nodes, one on each."""
    config, trace = tmp_path / "config.yaml", tmp_path / "trace"
    document = {**configuration(THEIRS), "featureGates": MODES[both]}
    config.write_text(yaml.safe_dump(document))
    flags = ("--kubeconfig", str(real.kubeconfig), "--config", str(config), "--trace", str(trace))
    ports = ("--spool", str(tmp_path / "spool"), "--secure-port", "0")
    observer = Process("observer", python("scheduler", "observe", *flags, *ports, "-v=3"), tmp_path / "observer.log")
    namespace = f"traced-{both}"
    real.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    for i in range(3):
        body: Json = {"metadata": {"name": f"{namespace}-{i}", "labels": {"traced": both}}}
        real.create("/api/v1/nodes", {**body, "status": {"allocatable": amounts, "capacity": amounts}})
    try:
        observer.wait_for("Everything was listed")
        group_spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        real.create(GROUPS.format(namespace), {"metadata": {"name": "g"}, "spec": group_spec})
        for i in range(3):
            container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "5"}}}
            spec: Json = {"containers": [container], "schedulerName": THEIRS, "nodeSelector": {"traced": both}}
            spec["schedulingGroup"] = {"podGroupName": "g"}
            real.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": f"m{i}"}, "spec": spec})
        eventually(lambda: len(real.bound(namespace)) == 3, "the gang to be bound")
        nodes = {pod["spec"]["nodeName"] for pod in real.bound(namespace).values()}
        spool = tmp_path / "spool"
        eventually(lambda: {each.pod.name for each in spools.of(Decision, spool)} >= {"m0", "m1", "m2"}, "the records")
    finally:
        assert observer.stop() == 0
    events = read_trace([trace]).events
    metrics = RunMetrics.from_events(events)
    TraceSimulation(parse_config(yaml.safe_dump(document)), IN_TREE, 0).run(events, metrics, lambda _: None)
    assert {node for name, node in metrics.node_of.items() if name.startswith(f"{namespace}/")} == nodes
    assert len(nodes) == 3


@pytest.mark.e2e
@pytest.mark.timeout(1800)
def test_no_part_of_a_group_is_bound_after_a_failed_quorum_whenever_the_scheduler_is_killed(
    real: Cluster, tmp_path: Path
) -> None:
    """Groups that fit and groups that do not, while the scheduler is killed at random times."""
    namespace, rng = f"kills-{uuid.uuid4().hex[:6]}", random.Random(1)
    real.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    for i in range(4):
        body: Json = {"metadata": {"name": f"kills-{i}", "labels": {"kills": "yes", "rack": "ab"[i // 2]}}}
        real.create("/api/v1/nodes", {**body, "status": {"allocatable": amounts, "capacity": amounts}})

    def create(group: str, size: int, cpu: str, **fields: Any) -> None:
        group_spec = {"schedulingPolicy": {"gang": {"minCount": size}}, **fields}
        real.create(GROUPS.format(namespace), {"metadata": {"name": group}, "spec": group_spec})
        for i in range(size):
            container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
            spec: Json = {"containers": [container], "schedulerName": OURS, "nodeSelector": {"kills": "yes"}}
            spec |= {"schedulingGroup": {"podGroupName": group}, "terminationGracePeriodSeconds": 0}
            real.create(pods, {"metadata": {"name": f"{group}-{i}", "labels": {"group": group}}, "spec": spec})

    rack = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    create("never-all", 5, "7")  # four of five fit
    create("never-rack", 3, "7", **rack)  # two of three fit into a rack
    create("never-evict", 5, "7", priorityClassName=GROUP_PRIORITY)  # four of five fit if all others are evicted
    counts, left = Counter[str](), ""

    def bound_members(group: str) -> int:
        return sum(name.startswith(f"{group}-") for name in real.bound(namespace))

    def is_complete(group: str) -> bool:
        return bound_members(group) == 6

    def is_begun(group: str) -> bool:
        return bound_members(group) > 0

    def drop(group: str) -> None:
        for i in range(6):
            with suppress(AssertionError):
                real.delete(f"{pods}/{group}-{i}")

    for kill in range(KILLS):
        process = start_ours(real, tmp_path, WHOLE_GATES, kill)
        eventually(lambda log=process.log: "Scheduling" in log.read_text(), "the scheduler to start", 60)  # type: ignore[misc]
        if left:  # it was bound in part
            eventually(partial(is_complete, left), f"{left} to be completed", 60)
            drop(left)
        group = f"fits-{kill}"
        create(group, 6, "100m", **(rack if kill % 2 else {}))
        if rng.random() < 0.5:
            eventually(partial(is_begun, group), "a pod to be bound", 60, every_s=0.002)
        else:
            time.sleep(rng.uniform(0.0, 0.15))
        process.kill()
        assert not [name for name in real.bound(namespace) if name.startswith("never-")], f"after kill {kill}"
        count = bound_members(group)
        counts["in full" if count == 6 else "in part" if count else "not"] += 1
        left = group if 0 < count < 6 else ""
        if not left:
            drop(group)
    print(f"{KILLS} kills; groups bound before one: {dict(counts)}")
    process = start_ours(real, tmp_path, WHOLE_GATES, KILLS)
    try:
        create("after", 6, "100m")
        eventually(lambda: sum(n.startswith("after-") for n in real.bound(namespace)) == 6, "the last group", 60)
        assert not [name for name in real.bound(namespace) if name.startswith("never-")]
    finally:
        process.stop()
