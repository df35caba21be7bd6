"""Purge, backup and restore: what is deleted and what stays readable, on both databases where possible."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus_endpoint.__main__ import main
from herodotus_endpoint.store import Store, sqlite_url
from herodotus_endpoint.store.purge import PurgeSelection, purge_decisions
from herodotus_record import codec
from herodotus_record.model import Decision, Frame, Owner
from tests import postgresql
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table, bound

TABLE = a_table(["worker-1", "worker-2", "worker-3"])


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        opened = Store(sqlite_url(tmp_path / "herodotus.db"))
        yield opened
        opened.close()
    elif postgresql.BINARIES:
        with postgresql.Server() as server:
            opened = Store(server.database())
            yield opened
            opened.close()
    else:
        pytest.skip(postgresql.MISSING)


def put(store: Store, *frames: Frame) -> None:
    store.writer.store((frame, codec.encode(frame)) for frame in frames)


def filled(store: Store) -> list[Decision]:
    """Return 80 decisions of one template, every fourth with pod UID `again`, and some of another namespace."""
    shop = [a_decision(pod=f"p-{i}", uid="again" if i % 8 == 1 else "", sequence=i) for i in range(1, 161, 2)]
    bank = [a_decision(pod=f"b-{i}", namespace="bank", sequence=i, owner=Owner("Job", "j")) for i in range(201, 211)]
    put(store, TABLE.rows(CLUSTER, INCARNATION), *(f for d in shop for f in (d, bound(d, TABLE))), *bank)
    return [*shop, *bank]


def readable(store: Store) -> list[Decision]:
    rows = store.listing.decisions([], None, 1000)
    found = [store.reader.decision_by_id(row.namespace, row.decision_id) for row in reversed(rows)]
    return [f.decision for f in found if f]


def test_purging_a_pod_keeps_decisions_of_its_chains_readable(store: Store) -> None:
    """Key frames are among the deleted decisions: the first decision is one."""
    sent = filled(store)
    left = [d for d in sent if d.key.pod_uid != "again"]
    assert purge_decisions(store.writer, PurgeSelection(pod_uid="again")) == len(sent) - len(left) == 20
    assert readable(store) == left
    assert store.reader.measure_sizes().rows["outcomes"] == 60
    later = a_decision(pod="later", sequence=301)
    put(store, later)
    assert readable(store) == [*left, later]


def test_purging_a_namespace_removes_the_names_of_its_workloads(store: Store) -> None:
    sent = filled(store)
    before = store.reader.sum_node_history("worker-1")
    assert before is not None
    assert before.workloads["bank/Job/j"] == 10
    assert purge_decisions(store.writer, PurgeSelection(namespace="bank")) == 10
    assert readable(store) == [d for d in sent if d.pod.namespace != "bank"]
    after = store.reader.sum_node_history("worker-1")
    assert after is not None
    assert (after.counters, [w for w in after.workloads if w.startswith("bank/")]) == (before.counters, [])


def test_purging_keeps_other_clusters(store: Store) -> None:
    filled(store)
    assert purge_decisions(store.writer, PurgeSelection(namespace="shop", cluster="another")) == 0


def test_a_copy_of_a_used_database_can_be_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(sqlite_url(tmp_path / "a" / "herodotus.db"))
    sent = filled(store)
    assert main(["backup", str(tmp_path / "copy.db"), "--data", str(tmp_path / "a")]) == 0
    put(store, a_decision(pod="later", sequence=301))
    store.close()
    assert main(["restore", str(tmp_path / "copy.db"), "--data", str(tmp_path / "b")]) == 0
    restored = Store(sqlite_url(tmp_path / "b" / "herodotus.db"))
    assert readable(restored) == sent
    restored.close()
    assert [(tmp_path / n).stat().st_mode & 0o777 for n in ("copy.db", "b/herodotus.db")] == [0o600, 0o600]
    assert main(["restore", str(tmp_path / "copy.db"), "--data", str(tmp_path / "b")]) == 1
    assert "there is a database; move it away first" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "copy.db"), "--data", str(tmp_path / "a")]) == 1
    assert "the file is there already" in capsys.readouterr().err


def test_restore_refuses_a_file_that_is_no_database_of_this_service(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"no database" * 1000)
    assert main(["restore", str(tmp_path / "noise"), "--data", str(tmp_path / "b")]) == 1
    assert not (tmp_path / "b").exists()


def test_restore_reports_a_damaged_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the copy and not the new file."""
    store = Store(sqlite_url(tmp_path / "herodotus.db"))
    filled(store)
    store.close()
    (tmp_path / "cut").write_bytes((tmp_path / "herodotus.db").read_bytes()[:30_000])
    assert main(["restore", str(tmp_path / "cut"), "--data", str(tmp_path / "b")]) == 1
    assert "database disk image is malformed" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_purge_refuses_a_missing_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a mistyped directory the command must not report that nothing of the pod is stored."""
    assert main(["purge", "--namespace", "bank", "--data", str(tmp_path / "typo")]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()


def test_purge_prints_the_number_of_deleted_decisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(sqlite_url(tmp_path / "herodotus.db"))
    filled(store)
    store.close()
    assert main(["purge", "--namespace", "bank", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "10 decisions deleted\n"
