"""A cluster that sends as fast as it can, and one that sends little: the service's process, over TLS."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from bench.fleet import Fleet, Sender, connect
from herodotus_endpoint.settings import MAX_CONCURRENT_INGESTS
from herodotus_record import codec
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.endpoint.service import API, rows
from tests.processes import Process, eventually, python
from tests.scheduler.serving.authorities import Authority

NODES = [f"worker-{number}" for number in range(100)]
DECISIONS = 50  # of a batch
CONNECTIONS = 16  # of the noisy cluster
NOISY, MODEST = CLUSTER[:-1] + "1", CLUSTER[:-1] + "2"
MODEST_BATCHES, EVERY_S = 15, 0.25


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    decisions = [a_decision(nodes=NODES, sequence=n, pod=f"web-{n}") for n in range(1, DECISIONS + 1)]
    frames = [codec.encode(frame) for frame in (rows(a_table(NODES)), *decisions)]
    former = {"cluster": CLUSTER.encode(), "incarnation": INCARNATION.encode()}
    return Fleet(frames, former, [], Authority(tmp_path), [NOISY, MODEST])


@pytest.fixture
def port(tmp_path: Path, fleet: Fleet) -> Iterator[int]:
    certificate, key = fleet.authority.server("localhost")
    flags = ["--tls-cert-file", str(certificate), "--tls-private-key-file", str(key), "--data", str(tmp_path / "data")]
    flags += ["--client-ca-file", str(fleet.authority.file)]
    flags += [f"--ingest-sender=sender-{cluster}={cluster}" for cluster in fleet.clusters]
    command = python("herodotus_endpoint", "--bind", "127.0.0.1:0", *flags)
    service = Process("endpoint", command, tmp_path / "endpoint.log", {"PYTHONUNBUFFERED": "1"})
    try:
        yield int(service.wait_for(r"listening on https://127\.0\.0\.1:(\d+)")[1])
    finally:
        service.stop()


def ask(connection: HTTPSConnection, path: str) -> Any:
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())


def test_modest_cluster_is_stored_in_bounded_time_and_nothing_is_lost(fleet: Fleet, port: int) -> None:
    """It waits for the batches in progress, not for the queue of the noisy cluster."""
    stopped = threading.Event()
    noisy = [Sender(fleet, NOISY, port, 0.0, stopped) for _ in range(CONNECTIONS)]
    modest = Sender(fleet, MODEST, port, EVERY_S, stopped)
    try:
        for sender in noisy:
            sender.start()
        eventually(lambda: all(sender.times for sender in noisy), "a batch of every noisy connection")
        modest.start()
        eventually(lambda: len(modest.times) >= MODEST_BATCHES, "the modest cluster's batches")
    finally:
        stopped.set()
        for sender in (*noisy, modest):
            if sender.ident:
                sender.join(60)
    times = [ms for sender in noisy for ms in sender.times]
    # CONNECTIONS batches of the noisy cluster are always under way, so each waits for that many turns.
    turn_ms = statistics.median(times) / CONNECTIONS
    print(f"turn {turn_ms:.0f} ms; noisy {statistics.median(times):.0f} ms, {len(times)} batches; modest", end=" ")
    print(f"{statistics.median(modest.times):.0f} ms, worst {max(modest.times):.0f} ms")
    assert [sender.failure for sender in (*noisy, modest)] == [""] * (CONNECTIONS + 1)
    assert modest.refused == 0
    assert statistics.median(modest.times) < (MAX_CONCURRENT_INGESTS + 2) * turn_ms
    assert max(modest.times) < statistics.median(times), "no batch waited for the noisy cluster's queue"
    with closing(connect(fleet.authority, port, MODEST)) as connection:
        stored = {c["metadata"]["name"]: c for c in ask(connection, f"{API}/clusters")["items"]}
    for cluster, senders in ((NOISY, noisy), (MODEST, [modest])):
        batches = sum(len(sender.times) for sender in senders)
        assert sum(sender.decisions for sender in senders) == batches * DECISIONS
        assert (stored[cluster]["incarnations"], stored[cluster]["missing"]) == (batches, 0)  # one for each batch
