"""Answers from a replica of PostgreSQL, how far they may be behind, and a primary that changes or hangs."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from herodotus_endpoint.app import create_app
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store, StoreError, StoreUnavailableError, sqlite_url
from herodotus_endpoint.store.replicas import BEAT_INTERVAL_S, MAX_STALENESS_S, Heartbeats
from tests import postgresql
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table, bound
from tests.endpoint.service import API, Service
from tests.processes import eventually, free_port
from tests.support.clock import Clock

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
FIRST = a_decision(pod="first", sequence=1)
SECOND = a_decision(pod="second", sequence=3)
LIMIT_S = 4.0  # of a transaction, instead of TRANSACTION_TIMEOUT_S; an ordinary one may take a second on a busy machine

needs_postgresql = pytest.mark.skipif(not postgresql.BINARIES, reason=postgresql.MISSING)


class Pair:
    """A primary and a standby."""

    def __init__(self, primary: postgresql.Server, standby: postgresql.Server, database: str) -> None:
        self.primary, self.standby = primary, standby
        self._database = database

    def url(self, *servers: postgresql.Server) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        return f"postgresql://test@{hosts},127.0.0.1:{free_port()}/{self._database}"  # no server is at the last one


@pytest.fixture
def pair() -> Iterator[Pair]:
    with postgresql.Server() as primary:
        database = primary.database().rpartition("/")[2]
        with postgresql.Server(primary=primary) as standby:
            yield Pair(primary, standby, database)


@contextmanager
def a_service(url: str, read_url: str = "") -> Iterator[Service]:
    clock, metrics = Clock(), EndpointMetrics()
    store = Store(url, clock, clock, read_url)
    try:
        yield Service(store, create_app(store, ServiceSettings(clock=clock), metrics).test_client(), clock, metrics)
    finally:
        store.close()


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def staleness_s(service: Service) -> float:
    """Return what an answer states about its staleness; infinity if the primary answered."""
    answer = service.client.get(f"{API}/decisions")
    assert answer.status_code == 200, answer.text
    return float(answer.headers.get("Herodotus-Staleness", "inf"))


def pods(service: Service) -> set[str]:
    return {item["spec"]["pod"]["name"] for item in service.get(f"{API}/decisions")["items"]}


def startup_process(server: postgresql.Server) -> list[int]:
    """Return the process of a standby that applies changes."""
    return [p for p in server.pids() if b"startup" in Path(f"/proc/{p}/cmdline").read_bytes()]


def test_a_heartbeat_bounds_the_staleness() -> None:
    now_s = 100.0
    beats = Heartbeats(lambda: now_s)
    assert beats.staleness_s(7) == math.inf
    beats.add(5, 91.0)
    beats.add(8, 99.0)
    assert [beats.staleness_s(beat) for beat in (4, 5, 7, 8, 20)] == [math.inf, 9.0, 9.0, 1.0, 1.0]


def test_heartbeats_that_a_failover_lost_bound_nothing() -> None:
    beats = Heartbeats(lambda: 100.0)
    beats.add(8, 91.0)
    beats.add(7, 99.0)
    assert [beats.staleness_s(beat) for beat in (6, 7, 8)] == [math.inf, 1.0, 1.0]


def test_sqlite_has_no_replicas(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="replicas can only be read of a PostgreSQL database"):
        Store(sqlite_url(tmp_path / "herodotus.db"), read_url="postgresql://h/d")


@needs_postgresql
def test_a_replica_answers_until_it_is_too_far_behind(pair: Pair) -> None:
    """The replica stops applying changes, and later continues; the primary answers meanwhile."""
    with a_service(pair.url(pair.standby, pair.primary), pair.url(pair.standby)) as service:
        service.stored(TABLE.rows(CLUSTER, INCARNATION), FIRST, bound(FIRST, TABLE))
        eventually(lambda: staleness_s(service) <= MAX_STALENESS_S, "an answer from the replica")
        eventually(lambda: pods(service) == {"first"}, "the first decision on the replica")
        assert service.metric("herodotus_replica_reads_total", server="replica")
        (process,) = startup_process(pair.standby)
        with stopped([process]):
            service.stored(SECOND, bound(SECOND, TABLE))
            stated_s = staleness_s(service)
            assert pods(service) == {"first"}, "the replica has not applied the second"
            assert stated_s <= MAX_STALENESS_S
            watched = service.client.get(f"{API}/decisions", query_string={"watch": "1", "timeoutSeconds": "1"})
            assert b'"second"' in watched.data, "watches read the primary"
            eventually(lambda: staleness_s(service) == math.inf, "an answer from the primary")
            assert pods(service) == {"first", "second"}
            assert service.metric("herodotus_replica_reads_total", server="primary")
        eventually(lambda: staleness_s(service) <= MAX_STALENESS_S, "an answer from the replica that caught up")
        assert pods(service) == {"first", "second"}


@needs_postgresql
def test_the_primary_answers_while_no_replica_is_reachable() -> None:
    nowhere = f"postgresql://test@127.0.0.1:{free_port()}/d"
    with postgresql.Server() as server, a_service(server.database(), nowhere) as service:
        service.stored(TABLE.rows(CLUSTER, INCARNATION), FIRST, bound(FIRST, TABLE))
        assert staleness_s(service) == math.inf
        assert pods(service) == {"first"}


@needs_postgresql
def test_a_replica_is_used_once_its_user_may_read_it(pair: Pair) -> None:
    read_url = pair.url(pair.standby).replace("test@", "limited@")
    with a_service(pair.url(pair.primary), read_url) as service:
        with service.store.writer.transaction() as connection:
            connection.exec_driver_sql("CREATE ROLE limited LOGIN")
        assert service.store.replicas is not None
        replica, _ = service.store.replicas._replicas
        eventually(lambda: measure(service, replica) == "42501", "the role on the replica, which may read nothing")
        time.sleep(2 * BEAT_INTERVAL_S)  # for the thread that measures
        assert staleness_s(service) == math.inf
        with service.store.writer.transaction() as connection:
            connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO limited")
        eventually(lambda: staleness_s(service) <= MAX_STALENESS_S, "an answer from the replica")


def measure(service: Service, replica: Any) -> str:
    """Measure a replica, and return the SQLSTATE of the error, or an empty string."""
    assert service.store.replicas is not None
    try:
        service.store.replicas.measure(replica)
    except sa.exc.ProgrammingError as e:
        return str(getattr(e.orig, "sqlstate", ""))
    except StoreUnavailableError:
        pass
    return ""


@needs_postgresql
def test_a_promoted_replica_is_written_to(pair: Pair) -> None:
    with a_service(pair.url(pair.primary, pair.standby)) as service:
        service.stored(TABLE.rows(CLUSTER, INCARNATION), FIRST, bound(FIRST, TABLE))
        with a_service(pair.url(pair.primary), pair.url(pair.standby)) as replicated:
            eventually(lambda: staleness_s(replicated) <= MAX_STALENESS_S, "replication")
        pair.primary.stop()
        refused = service.send(SECOND, bound(SECOND, TABLE))
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        pair.standby.promote()
        eventually(lambda: service.send(SECOND, bound(SECOND, TABLE)).status_code == 200, "the new primary")
        assert service.send(SECOND, bound(SECOND, TABLE)).get_json()["duplicates"] == 2
        assert pods(service) == {"first", "second"}


@needs_postgresql
def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel keeps the connection alive, so only the service's own limit ends the wait."""
    monkeypatch.setattr("herodotus_endpoint.store.postgresql.TRANSACTION_TIMEOUT_S", LIMIT_S)
    with postgresql.Server() as server, a_service(server.database()) as service:
        service.stored(TABLE.rows(CLUSTER, INCARNATION), FIRST, bound(FIRST, TABLE))
        with pytest.raises(StoreUnavailableError):
            hang_in_transaction(service, server.pids())
        service.stored(SECOND, bound(SECOND, TABLE))


def hang_in_transaction(service: Service, pids: list[int]) -> None:
    """Stop the server's processes while a transaction is open, and execute a statement."""
    with service.store.writer.transaction() as connection:
        connection.exec_driver_sql("SELECT 1")
        with stopped(pids):
            connection.exec_driver_sql("SELECT 1")
