"""The service killed with SIGKILL, again and again, while a spool is filled and delivered: nothing lost, nothing twice.

Three kills each in the usual run; `make crash` does 50 (HERODOTUS_CRASHES) on SQLite and on PostgreSQL.
"""

import os
import random
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus_answers.node import CounterName
from herodotus_endpoint.store import Store, sqlite_url
from tests import postgresql
from tests.deliveries import SendingScheduler
from tests.processes import Process, eventually, free_port, python

CRASHES = int(os.environ.get("HERODOTUS_CRASHES", "3"))

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
    scheduler = SendingScheduler(tmp_path / "spool", f"http://127.0.0.1:{port}")
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
