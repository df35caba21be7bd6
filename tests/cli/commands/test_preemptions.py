"""Preemptions: the list, and what `pod NAME` says of a pod that was evicted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.service import API, Service, command
from tests.support.documents import EVICTED, VICTIM, preemptions_document

LISTED = f"{API}/namespaces/shop/preemptions?since=86400"


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, f"5s   shop/{VICTIM}  worker-7  Evicted  vip/big-0 (priority 1000, attempt 3)"),
        ({"evicted": False}, f"5s   shop/{VICTIM}  worker-7  Expected  vip/big-0 (priority 1000, attempt 3)"),
        ({"preemptor": None}, f"5s   shop/{VICTIM}  worker-7  Evicted  a pod of another namespace"),
    ],
    ids=["evicted", "reconstructed", "hidden"],
)
def test_each_victim_has_a_row(service: Service, changes: dict[str, Any], row: str) -> None:
    service.answer(LISTED, preemptions_document(EVICTED | changes, complete=False))
    lines = command("preemptions", "-n", "shop", "--endpoint", service.url).out.splitlines()
    assert [" ".join(line.split()) for line in lines[:2]] == [
        "AGE VICTIM NODE STATE PREEMPTED BY",
        " ".join(row.split()),
    ]
    assert "… older preemptions are not listed: --since 1h" in lines
    assert ("Expected: by the observer's evaluation" in " ".join(lines)) is (changes == {"evicted": False})


def test_nothing_preempted_says_so(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.answer(LISTED, preemptions_document())
    service.answer(LISTED.replace("/namespaces/shop", ""), preemptions_document())
    assert command("preemptions", "-n", "shop", "--endpoint", service.url).code == 0
    assert capsys.readouterr().err == "No preemptions in the last 24h in shop namespace; every namespace: -A.\n"
    assert command("preemptions", "-A", "--endpoint", service.url).code == 0
    assert capsys.readouterr().err == "No preemptions in the last 24h.\n"
