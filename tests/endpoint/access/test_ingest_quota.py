"""One cluster's flood of records does not keep the records of another out."""

from __future__ import annotations

from pathlib import Path

import pytest

from herodotus_endpoint.access.ingest_limits import BURST_S, IngestQuota
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.endpoint.reviewer import Reviewer, bearer
from tests.endpoint.service import a_service, envelope, rows
from tests.support.clock import Clock

TABLE = a_table(["worker-1", "worker-2", "worker-3"])


def test_each_cluster_has_its_own_quota() -> None:
    clock = Clock(0.0)
    quota = IngestQuota(100.0, clock)
    assert quota.take("noisy", int(100 * BURST_S)) == 0.0
    assert quota.take("noisy", 1) > 0.0
    assert quota.take("quiet", 1) == 0.0
    clock.now_s += 1.0
    assert quota.take("noisy", 400) == 0.0, "a batch above what is left is accepted, and waited for"
    assert quota.take("noisy", 1) == pytest.approx(3.0)
    clock.now_s += 3.0
    assert quota.take("noisy", 1) > 0.0
    clock.now_s += 0.1
    assert quota.take("noisy", 1) == 0.0


def test_what_a_cluster_did_not_use_is_limited() -> None:
    clock = Clock(0.0)
    quota = IngestQuota(100.0, clock)
    clock.now_s += 1_000.0
    assert quota.take("noisy", int(100 * BURST_S)) == 0.0
    assert quota.take("noisy", 1) > 0.0


def test_a_batch_that_is_refused_for_another_reason_counts_once() -> None:
    quota = IngestQuota(100.0, Clock(0.0))
    for _ in range(5):
        assert quota.take("noisy", int(100 * BURST_S)) == 0.0
        quota.refund("noisy", int(100 * BURST_S))
    assert quota.take("noisy", int(100 * BURST_S)) == 0.0
    assert quota.take("noisy", 1) > 0.0


def test_without_a_quota_everything_is_accepted() -> None:
    quota = IngestQuota(0.0)
    assert not any(quota.take("noisy", 1 << 30) for _ in range(3))


def test_a_noisy_neighbour_is_refused_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr("herodotus_endpoint.api.ingest.IngestQuota", lambda rate: IngestQuota(rate, clock))
    reviewer = Reviewer({"noisy": ("noisy", "herodotus-endpoint"), "quiet": ("quiet", "herodotus-endpoint")})
    senders = reviewer.senders({"noisy": CLUSTER, "quiet": "another"})
    service = a_service(tmp_path, senders=senders, ingest_quota=400.0)
    again = INCARNATION.replace("aa", "ab")

    def send(who: str, sequence: int) -> int:
        cluster, incarnation = (CLUSTER, INCARNATION) if who == "noisy" else ("another", again)
        d = a_decision(sequence=sequence, cluster=cluster, incarnation=incarnation)
        return service.send(rows(TABLE, cluster=cluster, incarnation=incarnation), d, headers=bearer(who)).status_code

    codes = [send("noisy", n) for n in range(1, 9)]
    refused = codes.count(429)
    assert codes == [200] * (8 - refused) + [429] * refused
    assert 0 < refused < 8
    assert [send("quiet", n) for n in range(1, 3)] == [200, 200]
    assert service.metric("herodotus_ingest_refused_total", cause="quota") == refused
    clock.now_s += 3600.0
    assert send("noisy", 8) == 200
    error = [service.send(rows(TABLE), headers=bearer("noisy")) for _ in range(9)][-1]
    assert envelope(error)["code"] == 429
    assert 1 <= int(error.headers["Retry-After"]) <= BURST_S
    clock.now_s += int(error.headers["Retry-After"])
    assert send("noisy", 9) == 200, "after the time that it was told"
    service.store.close()
