"""A short run of `make failover`: the primary is killed once and cut off once, and replicas fall behind."""

from __future__ import annotations

import json
import subprocess
import warnings

import pytest

from bench import failover
from tests import patroni
from tests.processes import ROOT, python

TIMEOUT_S = 600  # three minutes on two cores


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_nothing_is_lost_or_stored_twice_and_replicas_are_current() -> None:
    if not patroni.is_available():
        warnings.warn(f"failover of PostgreSQL is not tested: {patroni.MISSING}", stacklevel=1)
        pytest.skip(patroni.MISSING)
    command = python("bench.failover", "--kills", "1", "--partitions", "1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert result["acknowledged"] > 100
    assert (result["lost"], result["not stored in the end"], result["twice"]) == (0, 0, 0)
    assert {kind: figures["times"] for kind, figures in result["recovery"].items()} == {"kill": 1, "partition": 1}


def test_staleness_is_the_age_of_the_oldest_missing_decision() -> None:
    acknowledged = [(3, 10.0), (7, 11.0), (9, 12.0)]
    ages = [failover.compute_staleness_s(acknowledged, newest, 15.0) for newest in (0, 3, 6, 7, 9, 11)]
    assert ages == [5.0, 4.0, 4.0, 3.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost": 1},
        {"twice": 1},
        {"not stored in the end": 1},
        {"wrong answers": ["6.00 s behind"]},
        {"refused batches": {503: 2, 500: 1}},
        {"answers": {"primary": 9}},
    ],
)
def test_a_run_fails_if_anything_is_wrong(wrong: dict[str, object]) -> None:
    right = {
        "lost": 0,
        "twice": 0,
        "not stored in the end": 0,
        "wrong answers": [],
        "refused batches": {503: 2},
        "answers": {"replica": 9, "503": 1},
    }
    assert not failover.has_failed(right)
    assert failover.has_failed(right | wrong)
