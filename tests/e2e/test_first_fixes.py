"""The first fix of a case (tests/cases), if it is a command, ends the problem, and no controller undoes it.

Each is carried out on the simulated control plane, with Herodotus' scheduler and the simulated controllers; some of
every kind on a real one, with kube-scheduler and kube-controller-manager. FIRST_FIXES=all tries every case on both, as
`make suggestions` does; FIRST_FIXES=KIND/CASE,… tries these.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_sim.cluster import SimulatedCluster
from tests.cases.cluster import load_case
from tests.cases.fixes import CASES
from tests.e2e.cluster import Cluster
from tests.e2e.first_fixes import (
    NO_COMMAND,
    FirstFix,
    FirstFixTrial,
    UnsupportedCaseError,
    clear,
    complete,
    create_all,
    create_over_http,
)
from tests.e2e.real_cluster import run_controllers, run_real_cluster
from tests.processes import Process, python

Json = dict[str, Any]
CHOSEN = os.environ.get("FIRST_FIXES", "")
# Of the cases whose first fix is a command: one for each kind of change, owner and cause.
EACH_KIND = (
    "cause/affinity-not-in-zone",
    "cause/exists-taint-two-pools",
    "cause/four-causes",
    "cause/limits-only",
    "cause/node-port-same-deployment",
    "cause/pod-level-request",
    "cause/required-or-terms",
    "cause/runtime-overhead",
    "cause/selector-and-taint-on-same-node",
    "claims/no-default-class",
    "claims/node-full-in-zone-of-volume",
    "fix/selector-misspelled",
    "fix/toleration-of-owner",
    "fix/too-large-request",
    "fix/uncordon",
    "holders/cpu-of-daemon-sets",
    "holders/host-port",
    "holders/many-small",
    "lifecycle/job-finalizer-left",
    "lifecycle/node-labels-changed",
    "lifecycle/node-shutdown",
    "lifecycle/resize-infeasible",
    "lifecycle/terminating-with-finalizer",
    "never-created/pod-security-restricted",
    "never-created/progress-deadline",
    "never-created/replica-failure-without-events",
    "never-created/service-account-missing-of-cron-job",
    "never-created/suspended-job",
    "preemption/equal-priority",
    "preemption/lower-priorities-not-enough",
    "preemption/victim-in-grace-period",
    "spread/affinity-in-another-namespace",
    "spread/anti-affinity-by-zone",
    "spread/honor-policy-taint-selected",
    "spread/min-domains",
    "spread/more-replicas-than-nodes",
    "spread/old-revision-counts",
    "spread/some-nodes-without-zone",
    "spread/tainted-zone",
    "spread/two-constraints",
)
CONTROLLERS = (
    *("deployment", "replicaset", "statefulset", "job", "daemonset", "garbage-collector", "persistentvolume-binder"),
)
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
    "leaderElection": {"leaderElect": False},
    "podMaxBackoffSeconds": 1,
}
PATIENCE_S = 60.0
SHARE = 0.95
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


def chosen() -> list[tuple[str, Json]]:
    """Return the names and contents of the cases to try, whose first question is about one object.

    Cases that a refused request makes are not tried.
    """
    cases = {f"{path.parent.name}/{path.stem}": path for path in CASES}
    names = list(cases) if CHOSEN == "all" else CHOSEN.split(",") if CHOSEN else EACH_KIND
    loaded = [(name, load_case(cases[name])) for name in names]
    return [(name, case) for name, case in loaded if not case.get("faults") and names_object(case)]


def names_object(case: Json) -> bool:
    """Return whether the case's first question is about one object, such as `pod web -n shop`."""
    words = shlex.split(case["questions"][0]["ask"])
    return len(words) > 1 and not words[1].startswith("-")


def judge(results: list[FirstFix], skipped: list[str]) -> None:
    """Print every result and the figures; fail if too few fixes work."""
    tried = [result for result in results if result.result != NO_COMMAND]
    failed = [str(result) for result in tried if not result.works]
    figures = Counter(result.result.partition(":")[0] for result in tried)
    print(f"\n{len(tried)} first fixes carried out: {dict(figures)}", *failed, *skipped, sep="\n")
    assert len(tried) - len(failed) >= SHARE * len(tried), "\n".join(failed)


def is_there(simulated: SimulatedCluster, obj: Json) -> bool:
    """Return whether an object is a namespace that every cluster has."""
    names = {namespace["metadata"]["name"] for namespace in simulated.list("Namespace")}
    return obj["kind"] == "Namespace" and obj["metadata"]["name"] in names


def try_simulated(name: str, case: Json, folder: Path) -> FirstFix:
    simulated = SimulatedCluster(run_controllers=True)
    create_all([obj for obj in complete(case["objects"]) if not is_there(simulated, obj)], simulated.create)
    with simulated:
        cluster = Cluster("simulated", simulated.url, {}, simulated.write_kubeconfig(folder / "kubeconfig"))
        config = folder / "scheduler.yaml"
        config.write_text(yaml.safe_dump(CONFIGURATION))
        flags = ("--replace-default-scheduler", "--no-record", "--secure-port", "0", "--v", "3")
        read = ("--kubeconfig", str(cluster.kubeconfig), "--config", str(config))
        command = python("scheduler", "run", *flags, *read)
        scheduler = Process("scheduler", command, folder / "scheduler.log")
        try:
            trial = FirstFixTrial(cluster, name, case, PATIENCE_S)
            trial.prepare()
            return trial.run()
        finally:
            scheduler.kill()
            cluster.close()


def test_first_fixes_end_problems_of_the_simulated_cluster(tmp_path: Path) -> None:
    results, skipped = [], []
    for number, (name, case) in enumerate(chosen()):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            results.append(try_simulated(name, case, folder))
            print(results[-1], flush=True)
        except UnsupportedCaseError as e:
            skipped.append(f"NOT TRIED: {name}: {e}")
            print(skipped[-1], flush=True)
    judge(results, skipped)


def try_real(cluster: Cluster, name: str, case: Json, folder: Path) -> FirstFix:
    created: list[Json] = []

    def create(body: Json) -> Json:
        created.append(body)
        return create_over_http(cluster, body)

    try:
        create_all(complete(case["objects"]), create)
        trial = FirstFixTrial(cluster, name, case, PATIENCE_S)
        trial.prepare()
        with run_controllers(folder, cluster, CONTROLLERS):
            return trial.run()
    finally:
        clear(cluster, created)


@pytest.mark.e2e
def test_first_fixes_end_problems_of_a_real_control_plane(tmp_path: Path) -> None:
    results, skipped = [], []
    with run_real_cluster(tmp_path, ()) as cluster:
        for name, case in chosen():
            try:
                results.append(try_real(cluster, name, case, tmp_path))
                print(results[-1], flush=True)
            except UnsupportedCaseError as e:
                skipped.append(f"NOT TRIED: {name}: {e}")
                print(skipped[-1], flush=True)
    judge(results, skipped)
