"""Every suggestion for a pending pod makes it schedulable, carried out with the command as it is printed.

SUGGESTION_NODES, SUGGESTION_PODS (running ones) and SUGGESTION_WORKLOADS (stuck ones) make the run larger, as in
`make suggestions`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from herodotus_local.cluster_reader import ClusterReader
from herodotus_local.service import LocalService
from herodotus_sim import SimulatedCluster
from scheduler.config import Configuration
from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus
from tests.e2e.real_cluster import run_real_cluster
from tests.e2e.suggestions import DAEMON_SET_REASONS, NAMESPACE, OWNERS, STUCK, SuggestionTrial
from tests.processes import eventually

Json = dict[str, Any]

NODES, PODS = int(os.environ.get("SUGGESTION_NODES", "20")), int(os.environ.get("SUGGESTION_PODS", "100"))
WORKLOADS = int(os.environ.get("SUGGESTION_WORKLOADS", "21"))
CONTROLLERS = ("deployment", "replicaset", "statefulset", "job", "daemonset", "garbage-collector")
PATIENCE_S = 60.0
pytestmark = pytest.mark.timeout(max(900, WORKLOADS * 30))


def workloads(kinds: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and reason of the workloads: each reason once, then each with every kind of owner."""
    pairs = [(k, r) for k, r in product(kinds, STUCK) if k != "DaemonSet" or r in DAEMON_SET_REASONS]
    owners = {reason: [kind for kind, its in pairs if its == reason] for reason in STUCK}
    first = [(owners[reason][i % len(owners[reason])], reason) for i, reason in enumerate(STUCK)]
    others = [pair for pair in pairs if pair not in first]
    random.Random(1).shuffle(others)
    for number, (kind, reason) in enumerate([*first, *others][:WORKLOADS]):
        yield f"stuck-{number:03}", kind, reason


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cluster]:
    """Run kube-apiserver, kube-scheduler and the controllers of workloads."""
    with run_real_cluster(tmp_path, CONTROLLERS) as cluster:
        yield cluster


def local_explanations(cluster: Cluster) -> Callable[[Json], Json]:
    """Return a function that explains a pod as local mode does: from the cluster as it is now."""

    def explain(pod: Json) -> Json:
        path = f"/apis/herodotus.dev/v1alpha1/namespaces/{NAMESPACE}/podexplanations/{pod['name']}"
        reader = ClusterReader(cluster.fetch, lambda _kind, _count: None)
        with reader, LocalService(reader, Configuration(), lambda _note: None) as service:
            return service.get(path).document

    return explain


def recorded_explanations(herodotus: Herodotus) -> Callable[[Json], Json]:
    """Return a function that fetches the explanation of a pod's last attempt, once the service has it."""

    def explain(pod: Json) -> Json:
        def find() -> Json | None:
            with suppress(AssertionError):  # an earlier pod may have had the name
                return herodotus.explanation(NAMESPACE, pod["name"], uid=pod["uid"])
            return None

        return eventually(find, f"a record of {pod['name']}")

    return explain


def run(trial: SuggestionTrial, kinds: tuple[str, ...]) -> None:
    trial.populate(random.Random(7), NODES, PODS)
    for name, kind, reason in workloads(kinds):
        trial.try_workload(name, kind, reason)
    print(f"\n{NODES} nodes, {PODS} running pods: {trial.figures}", *trial.figures.failures, sep="\n")
    assert not trial.figures.failures, "\n".join(trial.figures.failures)
    assert trial.figures.with_suggestion >= 0.9 * trial.figures.pods, str(trial.figures)


@pytest.mark.e2e
def test_kube_scheduler_places_the_pod_after_each_suggestion(real: Cluster) -> None:
    run(SuggestionTrial(real, local_explanations(real), "default-scheduler", PATIENCE_S), OWNERS)


def test_our_scheduler_places_the_pod_after_each_suggestion_that_it_recorded(tmp_path: Path) -> None:
    with SimulatedCluster(run_controllers=True) as sim:
        cluster = Cluster("simulated", sim.url, {}, sim.write_kubeconfig(tmp_path / "kubeconfig"))
        herodotus = Herodotus(cluster, tmp_path, podMaxBackoffSeconds=1)
        try:
            kinds = tuple(kind for kind in OWNERS if kind != "DaemonSet")  # the simulated cluster has no controller
            run(SuggestionTrial(cluster, recorded_explanations(herodotus), SCHEDULER, PATIENCE_S), kinds)
        finally:
            herodotus.stop()
            cluster.close()
