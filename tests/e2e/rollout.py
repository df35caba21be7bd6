"""Herodotus on a cluster while its parts are replaced by those of another version, and pods come all the while.

Owns: the load, one change of version after the other, and what must be true afterwards. Does not own: which versions
(`versions`), in which order (`test_upgrade`).
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
import pytest

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, Json, attempts, node, placements, pod
from tests.e2e.versions import Version
from tests.processes import eventually, python

NODES: Final = 100  # of 110 pods each: room for the load of nine minutes, five rounds
EVERY_S: Final = 0.05  # a pod
TOO_BIG_EVERY: Final = 20  # pods: such a one is decided too, fits nowhere, and is tried again by each new scheduler
AWAY: Final = 10  # pods that are bound while the service is away, so that their records wait in the spool
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{SCHEDULER}"
WHOLE: Final = ("key", "pod", "snapshot", "evaluation", "filters", "scores", "totals", "rank")  # of a full record
API: Final = "/apis/herodotus.dev/v1alpha1"


def too_big(number: int) -> bool:
    """Whether the pod of this number asks for more than any node has."""
    return number % TOO_BIG_EVERY == TOO_BIG_EVERY - 1


class Load(threading.Thread):
    """Creates pods p0, p1, … one after the other until it is told to stop."""

    def __init__(self, create: Callable[[int], Any]) -> None:
        super().__init__()
        self._create = create
        self._stop_asked = threading.Event()
        self.created = 0

    def run(self) -> None:
        while not self._stop_asked.wait(EVERY_S):
            self._create(self.created)
            self.created += 1

    def finish(self) -> None:
        """No more pods."""
        self._stop_asked.set()
        if self.is_alive():
            self.join()


@contextmanager
def rollout(
    cluster: Cluster, namespace: str, directory: Path, version: Version, database_url: str | None = None
) -> Iterator[Rollout]:
    """Both parts are of `version`, and pods come."""
    running = Rollout(cluster, namespace, directory, version, database_url)
    try:
        running.begin()
        yield running
    finally:
        running.end()


class Rollout:
    """Herodotus, and how its parts are replaced."""

    def __init__(
        self, cluster: Cluster, namespace: str, directory: Path, version: Version, database_url: str | None = None
    ) -> None:
        self._cluster, self._namespace, self._directory = cluster, namespace, directory
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._schedulers = 1
        self._running = {"endpoint": version, "scheduler": version}
        cluster.create_all("/api/v1/nodes", (node(f"n{i}", cpu="64") for i in range(NODES)))
        self.herodotus = Herodotus(cluster, directory, tree=version.tree, database_url=database_url)
        self._spool = self.herodotus.spool
        self._told: dict[str, Json] = {}
        self.load = Load(lambda n: cluster.create(self._pods, pod(f"p{n}", cpu="1000" if too_big(n) else "10m")))

    def begin(self) -> None:
        """From here on pods come."""
        self.load.start()
        self._both_work()

    def end(self) -> None:
        """End everything that was started."""
        self.load.finish()
        self.herodotus.stop()

    def endpoint(self, version: Version) -> None:
        """The service is replaced; records wait in the spool meanwhile."""
        assert self.herodotus.endpoint.stop() == 0
        self._start_endpoint(version)
        self._both_work()

    def scheduler(self, version: Version) -> None:
        """As a Deployment rolls: the new one waits for the Lease, then the old one ends. Each has its own spool."""
        before = self.herodotus.scheduler
        self._start_scheduler(version, self._directory / f"spool-{self._schedulers}")
        self.herodotus.scheduler.wait_for("Attempting to acquire leader lease")
        assert before.stop() == 0
        self._both_work()

    def both(self, version: Version) -> None:
        """At once, on one spool: what the old scheduler could not deliver any more the new one's shipper reads."""
        self._neither()
        self._start_scheduler(version, self._spool)
        self._start_endpoint(version)
        self._both_work()

    def both_back(self, version: Version) -> None:
        """At once, on one spool: what the newer scheduler left there its own `ship` delivers to the older service."""
        left_by = self._running["scheduler"]
        self._neither()
        self._start_endpoint(version)
        ship = python("scheduler", "ship", "--spool", str(self._spool), "--endpoint", self.herodotus.endpoint_url)
        done = subprocess.run(
            ship, cwd=left_by.tree, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        assert not any(self._spool.glob("*/*.seg")), "nothing waits"
        self._start_scheduler(version, self._spool)
        self._both_work()

    @contextmanager
    def replica(self, version: Version) -> Iterator[None]:
        """Meanwhile one more service, of that version, is on the same database; it tells what the other one stores."""
        self.herodotus.tree = version.tree
        replica, url = self.herodotus.start_replica()
        try:
            self._both_work()
            yield
            self._both_work()
            for name in self._told:
                assert self._record(url, name) == self._told[name], f"{name} as the replica tells it"
        finally:
            assert replica.stop() == 0

    def refused(self, version: Version, reason: str) -> None:
        """That version of the service does not use this database, and says why; the one before goes on with it."""
        now = self._running["endpoint"]
        assert self.herodotus.endpoint.stop() == 0
        self.herodotus.tree = version.tree
        with pytest.raises(AssertionError, match=reason):
            self.herodotus.start_endpoint()
        self._start_endpoint(now)
        self._both_work()

    def nothing_is_lost(self) -> str:
        """No more pods come. Each is decided, and what is stored is what was; says how much.

        Every pod with room is bound, once, by one decision of one attempt. Every other one is decided too, and placed
        nowhere. No sequence has a hole. What was told while versions changed is told in full, and as it was.
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
        assert {n: self._record(self.herodotus.endpoint_url, n) for n in self._told} == self._told
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
        """Node, state and attempt of each decision that chose a node, by the pod's UID."""
        return {
            uid: [(d["status"]["node"], d["status"]["state"], d["spec"]["key"]["attempt"]) for d in chosen]
            for uid, chosen in placements(self._decisions()).items()
        }

    def _decisions(self) -> list[Json]:
        return self.herodotus.decisions(self._namespace)

    def _neither(self) -> None:
        """Service and scheduler are gone, and records wait in the spool."""
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
        self.herodotus.start_scheduler("--spool", str(spool), name=f"scheduler-{self._schedulers}")
        self._running["scheduler"] = version

    def _both_work(self) -> None:
        """A pod that comes from now on is decided by the scheduler of its version and told by the service of its.

        What is told of it is kept: it must be so at the end too.
        """
        number = self.load.created + 1  # the one after that which may be under way
        url, name = self.herodotus.endpoint_url, f"p{number + too_big(number)}"
        decision = eventually(lambda: self._decision(url, name), f"the decision about {name}")
        endpoint = httpx.get(f"{url}/version").json()["version"]
        running = {k: v.number for k, v in self._running.items()}
        got = {"endpoint": endpoint, "scheduler": decision["spec"]["scheduler"]["version"]}
        assert got == running, f"{got}, not {running}"
        self._told[name] = _whole(decision)
        assert self._told[name]["snapshot"]["evaluated"] == NODES

    def _decision(self, url: str, name: str) -> Json | None:
        found = httpx.get(f"{url}{API}/namespaces/{self._namespace}/decisions/{name}")
        return dict(found.json()) if found.status_code == 200 else None

    def _record(self, url: str, name: str) -> Json | None:
        decision = self._decision(url, name)
        return _whole(decision) if decision else None


def _whole(decision: Json) -> Json:
    """What every version tells of a record, and no later event adds to."""
    return {part: decision["spec"][part] for part in WHOLE}
