"""Records behind the screens of nodes and surveys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from herodotus_record.model import Owner, Retry
from tests.builders import MONDAY_US, a_table, bound
from tests.cli.scenes import NODES, POINTS, REJECTED, USED, a_pending, a_placed
from tests.endpoint.service import Service, a_service, rows

AS_GOOD = {"TaintToleration": 100, "NodeResourcesFit": 90, "ImageLocality": 94}
HOUR_US = 3_600_000_000
SECOND_US = 1_000_000
NOON_US = MONDAY_US + 3600 * SECOND_US - 40 * SECOND_US  # 40 s before now


@pytest.fixture(scope="module")
def node_records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Store forty pods of three workloads and one that fits nowhere, within the last hour."""
    found = a_service(tmp_path_factory.mktemp("data"))
    table = a_table(NODES, used=USED)
    frames: list[Any] = [rows(table)]
    for i in range(40):
        points = {
            **POINTS,
            "worker-3": POINTS["worker-7"] if i % 7 == 0 else AS_GOOD if i % 3 == 0 else POINTS["worker-3"],
        }
        decision = a_placed(
            pod=f"pod-{i:02}",
            points=points,
            rejected=REJECTED if i % 4 else {node: REJECTED[node] for node in ("worker-9", "worker-10")},
            sequence=2 * i + 1,
            started_us=MONDAY_US - HOUR_US + i * 60_000_000,
            owner=Owner("Deployment", ("checkout", "cart", "api")[i % 3]),
        )
        frames += [decision, bound(decision, table)]
    found.stored(*frames, a_pending())
    yield found
    found.store.close()


@pytest.fixture(scope="module")
def survey_records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
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
