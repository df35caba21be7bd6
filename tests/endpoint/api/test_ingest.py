"""The way in: stored once, whole or not at all, refused with a reason."""

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from herodotus_endpoint.api import ingest
from herodotus_endpoint.pools import refuse_ingest
from herodotus_record import codec
from herodotus_record.model import Code, Gap, HighWater, NodeRows
from tests.builders import CLUSTER, INCARNATION, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import API, Service, a_service, envelope, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
DECISION = a_decision(points={"worker-2": {"ImageLocality": 50}})
RECEIPT = {"accepted": 0, "duplicates": 0, "decisions": 0, "outcomes": 0, "gaps": 0, "nodeRows": 0}


def stored_rows(service: Service) -> dict[str, int]:
    return {k: v for k, v in service.store.reader.measure_sizes().rows.items() if v}


def test_duplicate_frame_is_stored_once(service: Service) -> None:
    frames = [rows(TABLE), DECISION, bound(DECISION, TABLE)]
    first = service.stored(*frames)
    history = service.history("worker-2")
    assert first == RECEIPT | {"accepted": 3, "decisions": 1, "outcomes": 1, "nodeRows": 1}
    assert service.stored(*frames, DECISION) == RECEIPT | {"duplicates": 4}
    assert stored_rows(service) == {"decisions": 1, "outcomes": 1, "rollups": 1}
    assert service.history("worker-2") == history
    assert service.metric("herodotus_ingest_duplicates_total") == 4


def test_duplicates_are_recognized_after_restart_and_pruning(service: Service, tmp_path: Path) -> None:
    service.stored(rows(TABLE), DECISION)
    service.store.close()
    again = a_service(tmp_path)
    assert again.stored(DECISION) == RECEIPT | {"duplicates": 1}
    again.store.close()


@pytest.mark.parametrize("encoding", ["identity", "zstd"])
def test_accepts_a_compressed_batch(service: Service, encoding: str) -> None:
    body = codec.encode(rows(TABLE)) + codec.encode(DECISION)
    body = codec.compress(body) if encoding == "zstd" else body
    answer = service.post(body, headers={"Content-Encoding": encoding})
    assert answer.get_json()["accepted"] == 2


def test_acknowledges_an_empty_batch(service: Service) -> None:
    assert service.stored() == RECEIPT


def nested(kind: int, name: bytes = b"") -> bytes:
    """A frame whose payload is MessagePack maps nested deeper than a decoder follows."""
    return codec.build_frame(kind, name + b"\x81\xa1x" * 100_000 + b"\xc0")


def flipped(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


GOOD = codec.encode(rows(TABLE)) + codec.encode(DECISION)
SECOND = codec.encode(a_decision(pod="other", sequence=2))
TWICE = replace(DECISION, sequence=2, filters=DECISION.filters * 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(GOOD + SECOND[:-3], "frame 3 of the batch: at byte", id="cut off"),
        pytest.param(GOOD + flipped(SECOND), "frame 3 of the batch: the payload's checksum", id="damaged"),
        pytest.param(GOOD + nested(1), "frame 3 of the batch: Decision: maximum recursion depth", id="nested maps"),
        pytest.param(
            GOOD + nested(codec.DELTA, codec.encode(DECISION)[4:12]),
            "frame 3 of the batch: a delta does not fit its base: maximum recursion depth",
            id="a delta of nested maps",
        ),
        pytest.param(GOOD + b"no frame at all", "no frame starts here", id="not a frame"),
        pytest.param(GOOD + codec.encode(TWICE), "filters names a plugin twice", id="a plugin twice"),
        pytest.param(GOOD + codec.encode(replace(DECISION, sequence=1 << 60)), "sequence is", id="sequence"),
        pytest.param(
            GOOD + codec.encode(replace(DECISION, sequence=2, times=replace(DECISION.times, started_us=1 << 60))),
            "started_us is",
            id="a time after 9999",
        ),
        pytest.param(
            GOOD + codec.encode(replace(DECISION, sequence=2, totals=array("q", [1 << 60, 0, 0]))),
            "totals holds a value beyond",
            id="a total that overflows sums",
        ),
        pytest.param(
            GOOD + codec.encode(replace(DECISION, sequence=2, key=replace(DECISION.key, cluster="another"))),
            "belongs to cluster",
            id="another cluster",
        ),
        pytest.param(
            GOOD + codec.encode(replace(DECISION, sequence=2, pod=replace(DECISION.pod, name=""))),
            "pod is empty",
            id="no name",
        ),
    ],
)
def test_malformed_batch_stores_nothing(service: Service, body: bytes, said: str) -> None:
    status = envelope(service.post(body))
    assert status["code"] == 400
    assert said in status["message"]
    assert stored_rows(service) == {}
    assert service.get(f"{API}/incarnations")["items"] == []
    assert service.post(GOOD).get_json() == RECEIPT | {"accepted": 2, "decisions": 1, "nodeRows": 1}


def test_frame_that_would_take_too_much_memory_is_refused_and_others_are_stored(service: Service) -> None:
    strings = b"\x82\xadrestricted_by\x90\xaatext_notes\xdd" + (60_000_000).to_bytes(4, "big") + b"\xa0" * 60_000_000
    sent = codec.compress(GOOD + codec.build_frame(1, strings))
    assert len(sent) < 3_000
    status = envelope(service.post(sent, headers={"Content-Encoding": "zstd"}))
    assert status["code"] == 400
    assert "frame 3 of the batch: decoding it would take more than the limit of 67108864 bytes" in status["message"]
    assert stored_rows(service) == {}
    assert service.post(GOOD).get_json() == RECEIPT | {"accepted": 2, "decisions": 1, "nodeRows": 1}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "application/json"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "zstd"}, 400),
    ],
    ids=["content type", "unknown encoding", "not zstd"],
)
def test_rejects_other_content_types(service: Service, headers: dict[str, str], code: int) -> None:
    assert envelope(service.post(GOOD, headers=headers))["code"] == code


@pytest.mark.parametrize("limit", ["MAX_BODY_BYTES", "MAX_UNPACKED_BYTES", "MAX_FRAMES"])
def test_batch_over_a_limit_is_413(service: Service, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(ingest, limit, 1)
    assert envelope(service.post(codec.compress(GOOD), headers={"Content-Encoding": "zstd"}))["code"] == 413
    assert stored_rows(service) == {}


@pytest.mark.parametrize(
    ("peer", "code"),
    [
        ("127.0.0.1", 200),
        ("127.8.9.1", 200),
        ("::1", 200),
        ("::ffff:127.0.0.1", 200),
        ("10.0.0.7", 403),
        ("::ffff:10.0.0.7", 403),
        ("", 403),
        ("localhost", 403),
    ],
)
def test_unauthenticated_ingest_requires_loopback(service: Service, peer: str, code: int) -> None:
    answer = service.send(environ_overrides={"REMOTE_ADDR": peer})
    assert answer.status_code == code
    if code == 403:
        assert "--insecure" in envelope(answer)["message"]


def test_insecure_accepts_ingest_from_any_client(tmp_path: Path) -> None:
    service = a_service(tmp_path, insecure=True)
    assert service.send(environ_overrides={"REMOTE_ADDR": "10.0.0.7"}).status_code == 200
    service.store.close()


def test_a_listener_for_queries_refuses_ingest_and_nothing_else(service: Service) -> None:
    application = service.client.application
    client = Client(refuse_ingest(application.wsgi_app), application.response_class)
    refused = client.post("/ingest/v1/frames", data=b"")
    assert (refused.status_code, "--ingest-bind" in envelope(refused)["message"]) == (403, True)
    assert client.get("/readyz").status_code == 200


def test_missing_node_rows_request_a_complete_table(service: Service) -> None:
    """Whatever was lost, a complete table is a new start."""
    delta = changed(slot=1, name="worker-9", generation=9, base=8)
    newer = replace(DECISION, generation=9)
    for frames in ([DECISION], [rows(TABLE), newer], [rows(TABLE), delta], [delta]):
        status = envelope(service.send(*frames))
        assert (status["code"], status["reason"]) == (409, "NodeRowsMissing")
        assert stored_rows(service) == {}
    whole = replace(TABLE, generation=9)
    assert service.stored(rows(whole), newer)["accepted"] == 2
    assert service.stored(changed(slot=1, name="worker-9", generation=10, base=9))["nodeRows"] == 1


def changed(*, slot: int, name: str, generation: int, base: int) -> NodeRows:
    return NodeRows(
        cluster=CLUSTER,
        incarnation=INCARNATION,
        base=base,
        generation=generation,
        resources=("cpu",),
        slot=array("q", [slot]),
        since=array("q", [generation]),
        name=(name,),
        uid=(f"uid-{name}" if name else "",),
        allocatable=(array("q", [4000]),),
        requested=(array("q", [100]),),
    )


def test_reused_slot_does_not_mix_nodes(service: Service) -> None:
    """worker-2 leaves, worker-9 takes its slot; a decision of before arrives last."""
    names = ("worker-1", "worker-9", "worker-3")
    before = a_decision(pod="before", points={"worker-2": {"ImageLocality": 50}}, sequence=1)
    late = a_decision(pod="late", points={"worker-2": {"ImageLocality": 70}}, sequence=2)
    after = a_decision(pod="after", nodes=names, points={"worker-9": {"ImageLocality": 90}}, sequence=3, generation=9)
    service.stored(
        rows(TABLE),
        before,
        changed(slot=1, name="", generation=8, base=7),
        changed(slot=1, name="worker-9", generation=9, base=8),
        after,
    )
    service.stored(late)
    assert service.explain("after")["outcome"]["node"] == "worker-9"
    assert service.explain("late")["outcome"]["node"] == "worker-2"
    two, nine, one = (service.history(n) for n in ("worker-2", "worker-9", "worker-1"))
    assert [h["considered"] for h in (two, nine, one)] == [2, 1, 3]
    assert [h["scores"]["accumulated"] for h in (two, nine, one)] == [120, 90, 0]
    assert [[r["pod"] for r in h["recent"]] for h in (two, nine)] == [["late", "before"], ["after"]]


def test_counts_missing_sequences_except_those_in_gaps(service: Service) -> None:
    service.stored(rows(TABLE), DECISION, replace(DECISION, sequence=5), replace(DECISION, sequence=9))

    def known() -> dict[str, Any]:
        (item,) = service.get(f"{API}/incarnations")["items"]
        return {k: item[k] for k in ("highestSequence", "missing", "explainedByGaps", "missingRanges")}

    assert known() == {
        "highestSequence": 9,
        "missing": 6,
        "explainedByGaps": 0,
        "missingRanges": [{"first": 2, "last": 4, "explained": False}, {"first": 6, "last": 8, "explained": False}],
    }
    service.stored(Gap(INCARNATION, 10, 3, 6, "spool full", MONDAY_US), replace(DECISION, sequence=8))
    assert known() == {
        "highestSequence": 10,
        "missing": 2,
        "explainedByGaps": 3,
        "missingRanges": [
            {"first": 2, "last": 2, "explained": False},
            {"first": 3, "last": 4, "explained": True},
            {"first": 6, "last": 6, "explained": True},
            {"first": 7, "last": 7, "explained": False},
        ],
    }
    assert service.metric("herodotus_missing_sequences") == 2
    assert service.metric("herodotus_lost_sequences") == 3
    assert service.stored(replace(DECISION, sequence=4))["accepted"] == 1, "what comes after all is taken"
    assert known()["explainedByGaps"] == 2


def test_high_water_mark_of_the_successor_reveals_a_lost_tail(service: Service) -> None:
    """The earlier incarnation's spool is gone with its disk: only its high-water mark, in the Lease, is left."""
    service.stored(rows(TABLE), DECISION, replace(DECISION, sequence=2))
    said = HighWater("successor", 1, INCARNATION, 5, MONDAY_US)
    assert service.stored(said) == RECEIPT | {"accepted": 1}
    assert service.stored(said) == RECEIPT | {"duplicates": 1}

    def known() -> dict[str, tuple[int, int, int, list[Any], str | None]]:
        items = service.get(f"{API}/incarnations")["items"]
        fields = ("highestSequence", "missing", "explainedByGaps", "missingRanges", "cluster")
        return {i["metadata"]["name"]: tuple(i[f] for f in fields) for i in items}

    assert known() == {
        INCARNATION: (5, 3, 0, [{"first": 3, "last": 5, "explained": False}], CLUSTER),
        "successor": (1, 0, 0, [], CLUSTER),
    }
    assert service.metric("herodotus_missing_sequences") == 3
    assert service.stored(replace(DECISION, sequence=4))["accepted"] == 1, "its spool was only late"
    assert known()[INCARNATION][1] == 2


def test_successor_reveals_an_incarnation_without_records(service: Service) -> None:
    service.stored(HighWater("successor", 1, "never-heard-of", 2, MONDAY_US))
    names = [(i["metadata"]["name"], i["missing"]) for i in service.get(f"{API}/incarnations")["items"]]
    assert names == [("successor", 0), ("never-heard-of", 2)], "newest first"


def test_high_water_mark_below_stored_sequences_changes_nothing(service: Service) -> None:
    service.stored(rows(TABLE), DECISION, replace(DECISION, sequence=2))
    service.stored(HighWater("successor", 1, INCARNATION, 1, MONDAY_US))
    assert service.metric("herodotus_missing_sequences") == 0


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (HighWater("me", 1, "me", 5, MONDAY_US), "tells its own high-water mark"),
        (HighWater("me", 1, "", 5, MONDAY_US), "of is empty"),
        (HighWater("me", 1, "other", 1 << 60, MONDAY_US), "reached is"),
    ],
    ids=["its own", "nobody's", "too far"],
)
def test_rejects_an_impossible_high_water_mark(service: Service, frame: HighWater, said: str) -> None:
    status = envelope(service.send(frame))
    assert (status["code"], said in status["message"]) == (400, True)


def test_accepts_an_outcome_before_its_decision(service: Service) -> None:
    service.stored(rows(TABLE), bound(DECISION, TABLE, status=Code.ERROR))
    service.stored(DECISION)
    assert service.explain()["outcome"]["state"] == "Failed"
    assert service.get(f"{API}/decisions")["items"][0]["status"]["state"] == "Failed"


def test_full_database_is_507_and_stores_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, by SQLite's own limit on the file's size."""
    service.stored(rows(TABLE))
    with service.store.writer.transaction() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    big = [replace(DECISION, sequence=i, message="x" * 900) for i in range(1, 400)]
    answer = service.send(*big)
    assert envelope(answer)["message"] == "the database is full; the service's log has the details"
    assert (answer.status_code, answer.headers["Retry-After"]) == (507, "1")
    assert stored_rows(service) == {}
    with service.store.writer.transaction() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    assert service.stored(*big)["accepted"] == 399
