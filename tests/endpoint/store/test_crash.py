"""The service killed with SIGKILL, again and again, while a spool is filled and delivered: nothing lost, nothing twice.

Three kills each in the usual run; `make crash` does 50 (HERODOTUS_CRASHES) on SQLite and on PostgreSQL.
"""

import os
import random
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from herodotus_endpoint.store import Store, sqlite_url
from herodotus_endpoint.store.counters import CounterName
from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Decision
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.shipper import Shipper
from scheduler.recorder.spool import Spool
from tests import postgresql
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table, bound
from tests.processes import Process, eventually, free_port, python

CRASHES = int(os.environ.get("HERODOTUS_CRASHES", "3"))
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
MAX_BACKLOG = 2_000  # published and not acknowledged: hundreds of kills would otherwise fill the spool
BURST = 25  # decisions put into the spool at a time: small batches, so that kills meet many commits

pytestmark = pytest.mark.timeout(300 + 10 * CRASHES)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "herodotus.db")
    elif postgresql.BINARIES:
        with postgresql.Server() as server:
            yield server.database()
    else:
        warnings.warn(f"crashes are not tested on PostgreSQL: {postgresql.MISSING}", stacklevel=1)
        pytest.skip(postgresql.MISSING)


class Acknowledged(httpx.BaseTransport):
    """A transport that notes which decisions were acknowledged."""

    def __init__(self) -> None:
        self.sequences: set[int] = set()
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        frames = list(deltas.decode_all(codec.decompress(request.read(), 1 << 30)))
        response = self._network.handle_request(request)
        if response.status_code == 200:
            self.sequences |= {f.sequence for f in frames if isinstance(f, Decision)}
        return response

    def close(self) -> None:
        self._network.close()


@dataclass
class Scheduler:
    """Writes decisions with outcomes to a spool until it is stopped, while a shipper delivers them."""

    folder: Path
    endpoint: str
    network: Acknowledged = field(default_factory=Acknowledged)
    published: set[int] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.shipper = Shipper(self.folder, ServiceEndpoint(self.endpoint), self.network)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._write),
            threading.Thread(target=self.shipper.run, args=(self._ended, 60.0)),
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Stop writing, and deliver what was written."""
        self.stop.set()
        self._threads[0].join()
        self._ended.set()
        self._threads[1].join()
        self.network.close()

    def _write(self) -> None:
        spool, sequence = Spool(self.folder, INCARNATION), 0
        spool.rotate(codec.encode(TABLE.rows(CLUSTER, INCARNATION)))
        while not self.stop.wait(0.02):
            if len(self.published) - len(self.network.sequences) > MAX_BACKLOG:
                continue
            for _ in range(BURST):
                decision = a_decision(pod=f"p-{sequence + 1}", sequence=sequence + 1)
                outcome = bound(decision, TABLE)
                spool.append(codec.encode(decision) + codec.encode(outcome))
                self.published.add(sequence + 1)
                sequence = outcome.sequence
        spool.close()


def stored(url: str) -> list[int]:
    store = Store(url)
    try:
        return sorted(row.sequence for row in store.listing.decisions([], None, 1_000_000))
    finally:
        store.close()


def test_a_service_killed_under_load_loses_and_duplicates_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.recorder.shipper.BACKOFF_S", (0.05, 0.2))
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng, port = random.Random(seed), free_port()
    command = python("herodotus_endpoint", "--bind", f"127.0.0.1:{port}", "--database-url", url)
    scheduler = Scheduler(tmp_path / "spool", f"http://127.0.0.1:{port}")
    service = None
    try:
        for crash in range(CRASHES):
            before = len(scheduler.network.sequences)
            service = Process("endpoint", command, tmp_path / f"endpoint-{crash}.log")
            eventually(lambda: len(scheduler.network.sequences) > before, "decisions to be acknowledged")  # noqa: B023
            time.sleep(rng.uniform(0, 0.4))
            service.kill_all()
            acknowledged = set(scheduler.network.sequences)
            now = stored(url)
            assert len(now) == len(set(now)), "each is there once"
            assert acknowledged <= set(now), "what was acknowledged is there"
        service = Process("endpoint", command, tmp_path / "endpoint-last.log")
        scheduler.finish()
    finally:
        scheduler.finish()
        if service:
            service.stop()
    assert stored(url) == sorted(scheduler.published), "what was published is there, once"
    store = Store(url)
    (known,) = store.reader.incarnations()
    facts = store.reader.sum_node_history("worker-1")
    states = {row.state for row in store.listing.decisions([], None, 1_000_000)}
    store.close()
    assert (known.highest, known.missing) == (2 * len(scheduler.published), 0)
    assert facts is not None
    assert facts.counters[CounterName("considered")] == len(scheduler.published), "histories count each once"
    assert states == {"Bound"}
