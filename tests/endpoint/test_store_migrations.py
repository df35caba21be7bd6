"""Databases of earlier versions, as they were stored then, are brought up to date with nothing lost.

stored/NUMBER.sql is a dump of a small database whose schema is that revision: three decisions, an outcome, a gap.
"""

import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from herodotus_endpoint.store import Share, Store, sqlite_url
from herodotus_record import codec
from tests.builders import CORDONED, INCARNATION, a_decision, a_table, bound

STORED = Path(__file__).parent / "stored"
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
REJECTED = {"worker-3": {"NodeName": CORDONED}}


def sent(sequence: int) -> object:
    points = {"worker-2": {"ImageLocality": sequence}}
    return a_decision(pod=f"p-{sequence}", sequence=sequence, points=points, rejected=REJECTED)


@pytest.mark.parametrize("dump", sorted(STORED.glob("*.sql")), ids=lambda dump: dump.stem)
def test_an_old_database_answers_and_goes_on(dump: Path, tmp_path: Path) -> None:
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
        facts = store.reader.node_facts("worker-1")
        assert facts is not None
        assert facts.counters[("considered", "", "")] == 4, (
            "three of before, in a bucket of the old form, and a new one"
        )
        assert store.reader.share() == Share(placements=4, nodes=3)
        assert Counter(row.state for row in store.reader.decisions(limit=9)) == {"Bound": 2, "Binding": 2}
    finally:
        store.close()
