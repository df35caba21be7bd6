"""Stored databases of earlier versions are migrated without loss.

stored/NUMBER.sql is a dump of a small database whose schema is that revision: three decisions, an outcome, a gap.
"""

import re
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from herodotus_endpoint.store import ClusterTotals, Pruner, RetentionLimits, Store, database_from_url, sqlite_url
from herodotus_endpoint.store.counters import CounterName
from herodotus_endpoint.store.delta_chains import PARTITION_US, OpenChains
from herodotus_endpoint.store.schema_migration import MIGRATIONS
from herodotus_endpoint.store.table_rows import build_decision_row
from herodotus_record import codec
from tests import postgresql
from tests.builders import CLUSTER, CORDONED, INCARNATION, a_decision, a_table, bound
from tests.support.clock import Clock

STORED = Path(__file__).parent / "stored"
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
REJECTED = {"worker-3": {"NodeName": CORDONED}}


def sent(sequence: int) -> object:
    points = {"worker-2": {"ImageLocality": sequence}}
    return a_decision(pod=f"p-{sequence}", sequence=sequence, points=points, rejected=REJECTED)


@pytest.mark.parametrize("dump", sorted(STORED.glob("*.sql")), ids=lambda dump: dump.stem)
def test_an_old_database_is_migrated_read_and_written(dump: Path, tmp_path: Path) -> None:
    file = tmp_path / "herodotus.db"
    connection = sqlite3.connect(file)
    connection.executescript(dump.read_text())
    connection.close()
    store = Store(sqlite_url(file))
    try:
        found = [store.reader.decision_of_pod("shop", f"p-{i}") for i in (1, 2, 3)]
        assert [f.decision for f in found if f] == [sent(1), sent(2), sent(3)]
        assert [[o.sequence for o in f.outcomes] for f in found if f] == [[4], [], []]
        further = a_decision(pod="p-8", sequence=8)
        outcome = replace(bound(further, TABLE), sequence=9)
        again = a_decision(pod="p-2", sequence=2)
        receipt = store.writer.store((f, codec.encode(f)) for f in (again, further, outcome))
        assert (receipt.accepted, receipt.duplicates) == (2, 1)
        (known,) = store.reader.incarnations()
        assert (known.incarnation, known.highest, known.missing, known.explained) == (INCARNATION, 9, 0, 2)
        facts = store.reader.sum_node_history("worker-1")
        assert facts is not None
        assert facts.counters[CounterName("considered")] == 4, (
            "three of before, in a bucket of the old form, and a new one"
        )
        assert store.reader.sum_cluster_totals() == ClusterTotals(placements=4, nodes=3)
        assert Counter(row.state for row in store.listing.decisions([], None, 9)) == {"Bound": 2, "Binding": 2}
    finally:
        store.close()


def test_partitions_from_before_tiers_existed_are_used(server: postgresql.Server | None) -> None:
    """Their records are read and summarised, and new records are stored beside them."""
    if server is None:
        pytest.skip(postgresql.MISSING)
    url, clock = server.database(), Clock()
    engine = database_from_url(url).writing_engine()
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    decision, number = a_decision(), int(clock() * 1e6) // PARTITION_US
    bounds = f"FROM ({number * PARTITION_US}) TO ({(number + 1) * PARTITION_US})"
    row = build_decision_row(1, decision, "worker-1", int(clock() * 1e6))
    for column in (
        "labels",
        "message_names_nobody",
        "checksum",
        "pod_group",
        "group_cycle",
        "group_position",
        "victims",
        "repeats",
    ):
        del row[column]  # which came with 0011, 0014, 0013, 0016, 0018 and 0019
    row |= {
        "base": 1,
        "frame": OpenChains().pack(1, decision, codec.find_feasible(decision), codec.encode(decision), 0)[1],
    }
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        for table in ("decisions", "outcomes"):
            connection.exec_driver_sql(f"CREATE TABLE {table}_p{number} PARTITION OF {table} FOR VALUES {bounds}")
        names = ", ".join(f'"{name}"' for name in row)
        values = ", ".join(f":{name}" for name in row)
        connection.execute(sa.text(f"INSERT INTO decisions ({names}) VALUES ({values})"), row)
    engine.dispose()
    store = Store(url, clock, clock)
    try:
        later = a_decision(pod="later", sequence=2)
        store.writer.store((f, codec.encode(f)) for f in (TABLE.rows(CLUSTER, INCARNATION), later))
        assert [row.pod for row in store.listing.decisions([], None, 9)] == ["later", decision.pod.name]
        clock.now_s += 8 * 86_400
        assert Pruner(store, RetentionLimits()).prune().summarised == 2
        found = store.reader.decision_of_pod("shop", decision.pod.name)
        assert found is not None
        assert (found.decision.id, found.decision.summary is None) == (decision.id, False)
    finally:
        store.close()


def test_a_revision_that_removes_a_column_updates_usable_from() -> None:
    """Services read the table from 0010 on. A revision that only adds does not update it."""
    revisions = [p for p in sorted((MIGRATIONS / "versions").glob("0*.py")) if p.stem[:4] > "0010"]
    takes = re.compile(r"op\.(?:drop|alter|rename)_|DROP |RENAME |add_column\([^\n]*nullable=False(?!.*server_default)")
    silent = [p.name for p in revisions if takes.search(p.read_text()) and "usable_from" not in p.read_text()]
    assert not silent
