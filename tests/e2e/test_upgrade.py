"""Upgrades and rollbacks of scheduler and service in either order, under load, lose nothing.

The versions are this one and a later one that the tests make (`versions`). A short sequence on the simulated API server
is in every run. `make upgrade` (HERODOTUS_UPGRADES=rounds) runs a longer one, also on a real API server and on
PostgreSQL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql
from tests.e2e.cluster import Cluster
from tests.e2e.rollout import rollout
from tests.e2e.versions import THIS, Version, make_later

ROUNDS = int(os.environ.get("HERODOTUS_UPGRADES", "0"))
SIMULATED = pytest.mark.parametrize("api_server", ["simulated"], indirect=True)
EVERYWHERE = [(kind, database) for kind in ("simulated", "real") for database in ("sqlite", "postgresql")]
ELSEWHEN = pytest.param("simulated", "sqlite", marks=pytest.mark.skip(reason="takes minutes: make upgrade"))
LONG = pytest.mark.parametrize(("api_server", "database_url"), EVERYWHERE if ROUNDS else [ELSEWHEN], indirect=True)
SHARED = [(kind, database) for kind, database in EVERYWHERE if database == "postgresql"]
REPLICAS = pytest.mark.parametrize(("api_server", "database_url"), SHARED if ROUNDS else [ELSEWHEN], indirect=True)

pytestmark = pytest.mark.timeout(300 + 300 * ROUNDS)


@pytest.fixture(scope="session")
def later(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return make_later(tmp_path_factory.mktemp("later"))


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
    elif postgresql.BINARIES:
        with postgresql.Server() as server:
            yield server.database()
    else:
        pytest.skip(postgresql.MISSING)


@SIMULATED
def test_nothing_is_lost(cluster: Cluster, namespace: str, later: Version, tmp_path: Path) -> None:
    """Either part is the newer one for a while, then both change at once."""
    with rollout(cluster, namespace, tmp_path, THIS) as running:
        running.endpoint(later)
        running.scheduler(later)
        running.endpoint(THIS)
        running.scheduler(THIS)
        running.both(later)
        running.check_nothing_is_lost()


@LONG
def test_nothing_is_lost_in_any_order(
    cluster: Cluster, namespace: str, later: Version, tmp_path: Path, database_url: str | None
) -> None:
    """The service changes first, then the scheduler, then both at once, over several rounds."""
    with rollout(cluster, namespace, tmp_path, THIS, database_url) as running:
        for _ in range(ROUNDS):
            running.endpoint(later)
            running.scheduler(later)
            running.scheduler(THIS)
            running.endpoint(THIS)

            running.scheduler(later)
            running.endpoint(later)
            running.endpoint(THIS)
            running.scheduler(THIS)

            running.both(later)
            running.both_back(THIS)
        print(f"\n{cluster.kind}, {'PostgreSQL' if database_url else 'SQLite'}: {running.check_nothing_is_lost()}")


@REPLICAS
def test_nothing_is_lost_while_replicas_of_two_versions_share_a_database(
    cluster: Cluster, namespace: str, later: Version, tmp_path: Path, database_url: str
) -> None:
    """The newer replica extends the schema while the older one continues, as in a rolling update and its rollback."""
    with rollout(cluster, namespace, tmp_path, THIS, database_url) as running:
        for _ in range(ROUNDS):
            with running.replica(later):
                running.scheduler(later)
                running.endpoint(later)
            with running.replica(THIS):
                running.scheduler(THIS)
                running.endpoint(THIS)
        print(f"\n{cluster.kind}, PostgreSQL, replicas: {running.check_nothing_is_lost()}")
