"""Replaces Herodotus' processes by those of another version while pods are being created.

Owns: the load, each change of version, and the checks afterwards. Does not own: the versions (`versions`), their order
(`test_upgrade`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, Json, attempts, node, placements, pod
from tests.e2e.versions import Version
from tests.processes import eventually, python

NODES: Final = 100  # of 110 pods each: room for the load of nine minutes, five rounds
EVERY_S: Final = 0.05  # a pod
TOO_BIG_EVERY: Final = 20  # pods: such a one is decided too, fits nowhere, and is tried again by each new scheduler
AWAY: Final = 10  # pods that are bound while the service is away, so that their records wait in the spool
# Of the decisions, one in this many is compared with one without caches. That takes 0.2 s with 3,000 pods on a busy
# machine, and there is a pod every 0.05 s.
VERIFIED: Final = ("--verify-cache", "100")
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{SCHEDULER}"
WHOLE: Final = ("key", "pod", "snapshot", "evaluation", "filters", "scores", "totals", "rank")  # of a full record
API: Final = "/apis/herodotus.dev/v1alpha1"


def too_big(number: int) -> bool:
    """Return whether the pod of this number requests more than any node has."""
    return number % TOO_BIG_EVERY == TOO_BIG_EVERY - 1


class Load(threading.Thread):
    """A thread that creates pods p0, p1, … one after the other until `finish`."""

    def __init__(self, create: Callable[[int], Any], every_s: float = EVERY_S) -> None:
        super().__init__()
        self._create, self._every_s = create, every_s
        self._stop_requested = threading.Event()
        self.created = 0

    def run(self) -> None:
        while not self._stop_requested.wait(self._every_s):
            self._create(self.created)
            self.created += 1

    def finish(self) -> None:
        """Stop creating pods."""
        self._stop_requested.set()
        if self.is_alive():
            self.join()


@contextmanager
def rollout(
    cluster: Cluster, namespace: str, directory: Path, version: Version, database_url: str | None = None
) -> Iterator[Rollout]:
    """Run both processes of `version` under load while the block runs."""
    running = Rollout(cluster, namespace, directory, version, database_url)
    try:
        running.begin()
        yield running
    finally:
        running.end()


class Rollout:
    """A running Herodotus whose processes are replaced."""

    def __init__(
        self, cluster: Cluster, namespace: str, directory: Path, version: Version, database_url: str | None = None
    ) -> None:
        self._cluster, self._namespace, self._directory = cluster, namespace, directory
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._schedulers = 1
        self._running = {"endpoint": version, "scheduler": version}
        cluster.create_all("/api/v1/nodes", (node(f"n{i}", cpu="64") for i in range(NODES)))
        self.herodotus = Herodotus(cluster, directory, tree=version.tree, database_url=database_url, flags=VERIFIED)
        self._spool = self.herodotus.spool
        self._earlier_records: dict[str, Json] = {}
        self.load = Load(lambda n: cluster.create(self._pods, pod(f"p{n}", cpu="1000" if too_big(n) else "10m")))

    def begin(self) -> None:
        """Start to create pods; wait until both processes work."""
        self.load.start()
        self._check_both_work()

    def end(self) -> None:
        """Stop the load and every process."""
        self.load.finish()
        self.herodotus.stop()

    def endpoint(self, version: Version) -> None:
        """Replace the decisions service; records wait in the spool meanwhile."""
        assert self.herodotus.endpoint.stop() == 0
        self._start_endpoint(version)
        self._check_both_work()

    def scheduler(self, version: Version) -> None:
        """Roll the scheduler: the new one, with its own spool, waits for the Lease, then the old one ends."""
        before = self.herodotus.scheduler
        self._start_scheduler(version, self._directory / f"spool-{self._schedulers}")
        self.herodotus.scheduler.wait_for("Attempting to acquire leader lease")
        assert before.stop() == 0
        self._check_both_work()

    def both(self, version: Version) -> None:
        """Replace both at once on one spool: the new scheduler's shipper delivers what the old one left."""
        self._stop_both()
        self._start_scheduler(version, self._spool)
        self._start_endpoint(version)
        self._check_both_work()

    def both_back(self, version: Version) -> None:
        """Replace both at once by an older version; the newer one's `ship` delivers its spool to the service."""
        left_by = self._running["scheduler"]
        self._stop_both()
        self._start_endpoint(version)
        ship = python("scheduler", "ship", "--spool", str(self._spool), "--endpoint", self.herodotus.endpoint_url)
        done = subprocess.run(
            ship, cwd=left_by.tree, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        assert not any(self._spool.glob("*/*.seg")), "nothing waits"
        self._start_scheduler(version, self._spool)
        self._check_both_work()

    @contextmanager
    def replica(self, version: Version) -> Iterator[None]:
        """Run one more decisions service of that version on the same database; both must return the same records."""
        self.herodotus.tree = version.tree
        replica, url = self.herodotus.start_replica()
        try:
            self._check_both_work()
            yield
            self._check_both_work()
            for name in self._earlier_records:
                self._check_unchanged(url, name)
        finally:
            assert replica.stop() == 0

    def check_nothing_is_lost(self) -> str:
        """Stop the load, check every pod's decisions, and return a summary.

        Every pod with room is bound once, by one decision of one attempt. Every other pod has a decision without a
        node. No sequence number is missing. Records that were read while versions changed are unchanged.
        """
        self.load.finish()
        created = self.load.created
        fit = {f"p{n}" for n in range(created) if not too_big(n)}
        bound = eventually(lambda: self._all_bound(fit), "every pod with room to be bound")
        placed = {p["metadata"]["uid"]: [(p["spec"]["nodeName"], "Bound", 1)] for p in bound.values()}
        eventually(lambda: self._placed() == placed, "each decision that chose a node")
        every = {f"p{n}" for n in range(created)}
        eventually(lambda: {d["spec"]["pod"]["name"] for d in self._decisions()} == every, "each pod's decision")
        assert set(attempts(self._decisions()).values()) == {1}
        for name in self._earlier_records:
            self._check_unchanged(self.herodotus.endpoint_url, name)
        known = self.herodotus.incarnations()
        assert {(i["missing"], i["explainedByGaps"]) for i in known} == {(0, 0)}
        assert not list(self._directory.rglob("refused.frames"))
        records = sum(i["highestSequence"] for i in known)
        return f"{created} pods, {created - len(fit)} without room, {len(known)} schedulers, {records} records"

    def _all_bound(self, fit: set[str]) -> dict[str, Json] | None:
        bound = self._cluster.bound(self._namespace)
        assert bound.keys() <= fit
        return bound if len(bound) == len(fit) else None

    def _placed(self) -> dict[str, list[tuple[str, str, int]]]:
        """Return node, state and attempt of each decision that chose a node, by pod UID."""
        return {
            uid: [(d["status"]["node"], d["status"]["state"], d["spec"]["key"]["attempt"]) for d in chosen]
            for uid, chosen in placements(self._decisions()).items()
        }

    def _decisions(self) -> list[Json]:
        return self.herodotus.decisions(self._namespace)

    def _stop_both(self) -> None:
        """Stop the service and then the scheduler, so that records wait in the spool."""
        assert self.herodotus.endpoint.stop() == 0
        bound = len(self._cluster.bound(self._namespace))
        eventually(lambda: len(self._cluster.bound(self._namespace)) >= bound + AWAY, "pods to be bound meanwhile")
        before = self.herodotus.scheduler
        os.kill(before.pid, signal.SIGTERM)
        eventually(lambda: not self._cluster.get(LEASE)["spec"]["holderIdentity"], "the Lease to be given back")
        before.kill_all()  # its shipper would wait some seconds for the service
        assert any(self._spool.glob("*/*.seg")), "records wait"

    def _start_endpoint(self, version: Version) -> None:
        self.herodotus.tree = version.tree
        self.herodotus.start_endpoint()
        self._running["endpoint"] = version

    def _start_scheduler(self, version: Version, spool: Path) -> None:
        self._schedulers += 1
        self._spool = spool
        self.herodotus.tree = version.tree
        self.herodotus.start_scheduler(*VERIFIED, "--spool", str(spool), name=f"scheduler-{self._schedulers}")
        self._running["scheduler"] = version

    def _check_both_work(self) -> None:
        """Check that a new pod is decided by the current scheduler version and returned by the current service version.

        Keep its record, which must be the same at the end.
        """
        number = self.load.created + 1  # the one after that which may be under way
        url, name = self.herodotus.endpoint_url, f"p{number + too_big(number)}"
        decision = eventually(lambda: self._decision(url, name), f"the decision about {name}")
        endpoint = httpx.get(f"{url}/version").json()["version"]
        running = {k: v.number for k, v in self._running.items()}
        got = {"endpoint": endpoint, "scheduler": decision["spec"]["scheduler"]["version"]}
        assert got == running, f"{got}, not {running}"
        self._earlier_records[name] = _whole(decision)
        assert self._earlier_records[name]["snapshot"]["evaluated"] == NODES

    def _decision(self, url: str, name: str) -> Json | None:
        found = httpx.get(f"{url}{API}/namespaces/{self._namespace}/decisions/{name}")
        return dict(found.json()) if found.status_code == 200 else None

    def _check_unchanged(self, url: str, name: str) -> None:
        """Check that a service returns the same record of a pod as before."""
        assert self._record(url, name) == self._earlier_records[name], f"{name} as {url} returns it"

    def _record(self, url: str, name: str) -> Json | None:
        decision = self._decision(url, name)
        return _whole(decision) if decision else None


def _whole(decision: Json) -> Json:
    """Return the parts of a record that every version returns and that no later event changes."""
    return {part: decision["spec"][part] for part in WHOLE}
