"""The screens of `podgroup`, with a group of 512 pods that lacks room for the last twelve, and with one that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from herodotus_cli.render import pod_group, terminal
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_record.model import POD_GROUP_PHASE, Code, PodGroupCycle, Reason, Suggestion
from tests.builders import INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.cli.scenes import Scene
from tests.endpoint.service import API, Service, a_service, rows
from tests.support.screens import VIEWS, drawn, expect

NOW = datetime(2026, 3, 1, 12, 20, 0, tzinfo=timezone.utc)
FITTING, MEMBERS, PER_NODE = 500, 512, 8
NODES = [f"gpu-{i}" for i in range(1, 65)]
TABLE = a_table(NODES, used=dict.fromkeys(NODES, 7800))
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
UNDONE = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"


def frames(group: str, first: int, fitting: int, members: int) -> Iterator[Any]:
    """Yield the records of a group of which the first `fitting` pods fit, eight to a node."""
    lower = Suggestion("gpu-9", (Reason("set-request", {"resource": "cpu", "from": "500m", "to": "200m"}),))
    for i in range(members):
        fits = i < fitting
        points = {NODES[i // PER_NODE]: {"NodeResourcesFit": 9}} if fits else {}
        d = a_decision(
            pod=f"{group}-{i}",
            namespace="ml",
            nodes=NODES,
            sequence=first + i,
            rejected={} if fits else FULL,
            points=points,
            started_us=MONDAY_US + 1_188_000_000 + i * 2_000,
        )
        cycle = PodGroupCycle(1, i + 1, members, 0, members)
        d = replace(d, pod=replace(d.pod, pod_group=group), group_cycle=cycle, suggestions=() if fits else (lower,))
        yield d
        if fits and fitting < members:
            outcome = bound(d, TABLE, sequence=first + members + i, status=Code.UNSCHEDULABLE)
            yield replace(outcome, phase=POD_GROUP_PHASE, message=UNDONE)
        elif fits:
            yield bound(d, TABLE, sequence=first + members + i)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    opened = a_service(tmp_path_factory.mktemp("data"))
    placed = frames("eval", 2000, 16, 16)
    opened.stored(rows(TABLE), *frames("train", 1, FITTING, MEMBERS), *placed)
    yield opened
    opened.store.close()


@pytest.mark.parametrize("view", ["80", "200"])
@pytest.mark.parametrize("group", ["train", "eval"])
def test_screen_is_as_recorded(service: Service, group: str, view: str) -> None:
    answer = service.get(f"{API}/namespaces/ml/podgroupplacements/{group}")
    seen = ViewOptions(NOW, VIEWS[view].width)
    text = terminal.draw(pod_group.build_screen(answer, seen), seen, color=False)
    expect(f"podgroup-{group}.{view}", text)
    assert len(text.splitlines()) <= 24
    assert view != "80" or max(map(len, text.splitlines())) <= 80


def test_every_pod_is_listed_when_piped(service: Service) -> None:
    answer = service.get(f"{API}/namespaces/ml/podgroupplacements/train")
    scene = Scene(answer, pod_group.build_screen)
    assert sum("train-" in line for line in drawn(scene, ViewOptions(NOW)).splitlines()) >= MEMBERS
