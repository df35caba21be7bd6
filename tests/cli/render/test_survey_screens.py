"""The screens about many pods, from records that the decisions service aggregated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from herodotus_cli.render import balance, disagreements, pending, plain_text, terminal, workload
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_record.agreements import ComparedOutcome, CoveredTime, build_agreements
from herodotus_record.model import Agreement, Cause, Owner, Retry
from herodotus_record.wording import CAUSES
from tests.builders import MONDAY_US, a_table, bound
from tests.cli.scenes import NODES, POINTS, REJECTED, USED, a_pending, a_placed
from tests.endpoint.service import API, Service, a_service, rows
from tests.support.screens import VIEWS, expect

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 13, 0, 0, tzinfo=timezone.utc)  # the service's clock
SECOND_US = 1_000_000
NOON_US = MONDAY_US + 3600 * SECOND_US - 40 * SECOND_US  # 40 s before now
SCREENS = {
    "pending": (f"{API}/pendingpods", pending.build_screen),
    "workload": (f"{API}/namespaces/shop/workloadplacements/deployment.checkout", workload.build_screen),
    "balance": (f"{API}/balances", balance.build_screen),
    "balance-weights": (f"{API}/balances?weights=NodeResourcesFit=0,ImageLocality=9", balance.build_screen),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Store thirty pods of three Deployments, and two pending pods, one of them overdue."""
    found = a_service(tmp_path_factory.mktemp("data"))
    table = a_table(NODES, used=USED)
    frames: list[Any] = [rows(table)]
    for i in range(30):
        better = {"TaintToleration": 100, "NodeResourcesFit": 90, "ImageLocality": 91 + i % 3}
        points = {**POINTS, f"worker-{3 + 2 * (i % 2)}": better} if i % 4 else POINTS
        name = ("checkout", "cart", "api")[i % 3]
        owner = Owner("ReplicaSet", f"{name}-7d9f8c6b5d")
        decision = a_placed(
            pod=f"{name}-7d9f8c6b5d-{i:02}",
            points=points,
            rejected=REJECTED,
            sequence=2 * i + 1,
            started_us=NOON_US - (30 - i) * 60 * SECOND_US,
            owner=owner,
        )
        frames += [decision, bound(decision, table)]
    for i, (name, ago) in enumerate((("payments-0", 0), ("payments-1", 900))):
        waits = a_pending()
        at = NOON_US - ago * SECOND_US
        frames.append(
            replace(
                waits,
                id=f"01900000-0000-7000-8000-{500 + i:012x}",
                sequence=500 + i,
                pod=replace(waits.pod, name=name, uid=f"uid-{name}"),
                key=replace(waits.key, pod_uid=f"uid-{name}"),
                times=replace(waits.times, started_us=at),
                retry=Retry("unschedulable", at + 4 * SECOND_US, at + 330 * SECOND_US),
            )
        )
    found.stored(*frames)
    yield found
    found.store.close()


def an_outcome(
    i: int, agreement: Agreement, cause: Cause | None = None, scheduler: str = "default-scheduler"
) -> ComparedOutcome:
    ours = "On worker-3, by default-scheduler. The evaluation puts worker-7 21 points ahead (NodeResourcesFit +14)"
    return ComparedOutcome(
        namespace="shop",
        pod=f"checkout-7d9f8c6b5d-{i:02}",
        scheduler=scheduler,
        agreement=agreement.value,
        cause=cause.value if cause else None,
        node="worker-3",
        started_us=NOON_US - i * 60 * SECOND_US,
        decision_id=f"id-{i}",
        headline=f"{ours}: {CAUSES[cause]}." if cause and i % 2 else None,
    )


@pytest.mark.parametrize("view", ["piped", "80", "200"])
def test_disagreements_are_as_recorded(view: str) -> None:
    outcomes = [an_outcome(i, Agreement.AGREE) for i in range(190)]
    outcomes += [an_outcome(i, Agreement.IN_WINDOW, scheduler="batch") for i in range(3)]
    told = [an_outcome(i, Agreement.DISAGREE, cause) for i, cause in enumerate((Cause.SAMPLING, Cause.STALE_VIEW) * 12)]
    document = build_agreements(
        [*outcomes, *told, an_outcome(99, Agreement.UNKNOWN, Cause.NOT_WATCHED)],
        told,
        CoveredTime(NOON_US - 86_400 * SECOND_US, NOON_US, complete=True),
        omitted=2,
    )
    seen = ViewOptions(NOW, VIEWS[view].width)
    blocks = disagreements.build_screen(document, seen)
    text = plain_text.draw(blocks, seen) if seen.piped else terminal.draw(blocks, seen, color=False)
    expect(f"disagreements.{view}", text)
    assert view != "80" or max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("view", ["piped", "80", "200"])
@pytest.mark.parametrize("name", SCREENS)
def test_screen_is_as_recorded(service: Service, name: str, view: str) -> None:
    path, screen = SCREENS[name]
    path, _, query = path.partition("?weights=")
    seen = ViewOptions(NOW, VIEWS[view].width)
    blocks = screen(service.get(path, **({"weights": query} if query else {})), seen)
    text = plain_text.draw(blocks, seen) if seen.piped else terminal.draw(blocks, seen, color=False)
    expect(f"{name}.{view}", text)
    assert view != "80" or max(map(len, text.splitlines())) <= 80


def test_terminal_screens_are_limited(service: Service) -> None:
    document = service.get(f"{API}/balances")
    document["nodes"] = document["nodes"] * 500
    document["moves"] = [{"namespace": "n", "pod": "p", "from": "a", "to": "b", "drawnAmong": None}] * 20
    lines = terminal.draw(
        balance.build_screen(document, ViewOptions(NOW, 80)), ViewOptions(NOW, 80), color=False
    ).splitlines()
    assert len(lines) < 60
    waiting = service.get(f"{API}/pendingpods")
    waiting["pods"] = waiting["pods"] * 500
    waiting["count"] = 1000
    assert (
        len(
            terminal.draw(
                pending.build_screen(waiting, ViewOptions(NOW, 80)), ViewOptions(NOW, 80), color=False
            ).splitlines()
        )
        < 60
    )
