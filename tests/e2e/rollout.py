"""Herodotus on a cluster while its parts are replaced by those of another version, and pods come all the while.

Owns: the load, one change of version after the other, and what must be true afterwards. Does not own: which versions
(`versions`), in which order (`test_upgrade`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, attempts, node, placements, pod
from tests.e2e.versions import Version
from tests.processes import eventually

NODES: Final = 100  # of 110 pods each: room for the load of nine minutes, five rounds
EVERY_S: Final = 0.05  # a pod
AWAY: Final = 10  # pods that are bound while the service is away, so that their records wait in the spool
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{SCHEDULER}"
API: Final = "/apis/herodotus.dev/v1alpha1"


class Load(threading.Thread):
    """Creates pods p0, p1, … one after the other until it is told to stop."""

    def __init__(self, create: Callable[[str], Any]) -> None:
        super().__init__()
        self._create = create
        self._stop_asked = threading.Event()
        self.created = 0

    def run(self) -> None:
        while not self._stop_asked.wait(EVERY_S):
            self._create(f"p{self.created}")
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
        self.load = Load(lambda name: cluster.create(self._pods, pod(name, cpu="10m")))

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
        assert self.herodotus.endpoint.stop() == 0
        bound = len(self._cluster.bound(self._namespace))
        eventually(lambda: len(self._cluster.bound(self._namespace)) >= bound + AWAY, "pods to be bound meanwhile")
        before = self.herodotus.scheduler
        os.kill(before.pid, signal.SIGTERM)
        eventually(lambda: not self._cluster.get(LEASE)["spec"]["holderIdentity"], "the Lease to be given back")
        before.kill_all()  # its shipper would wait some seconds for the service
        assert any(self._spool.glob("*/*.seg")), "records wait"
        self._start_scheduler(version, self._spool)
        self._start_endpoint(version)
        self._both_work()

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
        """No more pods come. Every one is bound, each with one decision, and no sequence has a hole; what there was."""
        self.load.finish()
        created = self.load.created
        eventually(lambda: len(self._cluster.bound(self._namespace)) == created, "every pod to be bound")
        nodes = {p["metadata"]["uid"]: p["spec"]["nodeName"] for p in self._cluster.bound(self._namespace).values()}
        eventually(lambda: self._placed() == {uid: [(node, "Bound")] for uid, node in nodes.items()}, "each decision")
        assert set(attempts(self.herodotus.decisions(self._namespace)).values()) == {1}
        known = self.herodotus.incarnations()
        assert {(i["missing"], i["explainedByGaps"]) for i in known} == {(0, 0)}
        assert not list(self._directory.rglob("refused.frames"))
        return f"{created} pods, {len(known)} schedulers, {sum(i['highestSequence'] for i in known)} records"

    def _placed(self) -> dict[str, list[tuple[str, str]]]:
        """The node and the state of each decision that chose one, by the pod's UID."""
        found = placements(self.herodotus.decisions(self._namespace))
        return {uid: [(d["status"]["node"], d["status"]["state"]) for d in chosen] for uid, chosen in found.items()}

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
        """A pod that comes from now on is decided by the scheduler of its version and told by the service of its."""
        name = f"p{self.load.created + 1}"  # the one after that which may be under way
        with httpx.Client(base_url=self.herodotus.endpoint_url) as http:

            def decided() -> str | None:
                found = http.get(f"{API}/namespaces/{self._namespace}/decisions/{name}")
                return str(found.json()["spec"]["scheduler"]["version"]) if found.status_code == 200 else None

            scheduler = eventually(decided, f"the decision about {name}")
            endpoint = http.get("/version").json()["version"]
        running = {k: v.number for k, v in self._running.items()}
        assert (got := {"endpoint": endpoint, "scheduler": scheduler}) == running, f"{got}, not {running}"
