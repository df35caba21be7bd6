"""A copy of some nodes, on which pods are tried on and off, shows what columns with just those pods show."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.engine.columns import NodeColumns, RowCopy
from scheduler.engine.objects.pod import HostPort, PodInfo
from tests.scheduler.builders import columns_of, make_node, make_pod

NAMES = [f"n{i}" for i in range(5)]
RESOURCES = ("cpu", "memory", "pods", "example.com/gpu")
PORT = HostPort("0.0.0.0", "TCP", 80)
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}


def pod(number: int) -> PodInfo:
    """Return one of several pods, some alike and some in conflict."""
    made = make_pod(f"p{number}").request(cpu=f"{100 * (number % 3)}m", memory="1Gi").label("app", "web")
    if number % 4 == 0:
        made.host_port(80)
    if number % 5 == 0:
        made.with_spec(volumes=[CLAIM])
    if number % 7 == 0:
        made.request({"example.com/gpu": "1"})
    return made.info()


def said(columns: NodeColumns) -> dict[str, Any]:
    """Everything about pods, by node."""
    where = [(slot, name) for slot, name in enumerate(columns.names) if name]
    return {
        "requested": {r: {name: int(columns.requested(r)[slot]) for slot, name in where} for r in RESOURCES},
        "scoring": {r: {name: int(columns.scoring_requested(r)[slot]) for slot, name in where} for r in RESOURCES},
        "ports": sorted(columns.names[slot] for slot in columns.slots_with_port(PORT)),
        "claims": columns.volumes.in_use("default/shared"),
        "pods": {name: sorted(columns.pods[slot]) for slot, name in where},
        "rows": columns.pod_rows.per_slot(columns.pod_rows.matching(None, None), columns.slots).tolist(),
    }


@pytest.mark.parametrize("asked_after", [0, 3, 8], ids=["from the start on", "in between", "at the end"])
@pytest.mark.parametrize("seed", range(4))
def test_a_copy_shows_the_pods_that_were_tried_on(seed: int, asked_after: int) -> None:
    """Whenever pods, ports and volumes are first asked for."""
    chance = random.Random(seed)
    there = {number: (name, pod(number)) for number, name in enumerate(NAMES * 4)}
    whole = columns_of(map(make_node, NAMES))
    for name, one in there.values():
        whole.add_pod(one, name)
    before = said(whole)
    copy = RowCopy(whole, [whole.index[name] for name in NAMES[1:]])
    there = {number: (name, one) for number, (name, one) in there.items() if name != NAMES[0]}
    for step in range(9):
        if chance.random() < 0.5:
            gone = chance.sample(sorted(there), len(there) // 2)
            copy.remove_pods([(copy.index[name], one) for name, one in map(there.pop, gone)])
        else:
            come = {100 * (step + 1) + i: chance.choice(NAMES[1:]) for i in range(chance.randrange(6))}
            there |= {number: (name, pod(number)) for number, name in come.items()}
            copy.add_pods([(copy.index[name], there[number][1]) for number, name in come.items()])
        if step >= asked_after:
            expected = columns_of(map(make_node, NAMES[1:]))
            for name, one in there.values():
                expected.add_pod(one, name)
            assert said(copy) == said(expected)
    assert said(whole) == before


def test_rows_that_were_tried_on_count_as_changed() -> None:
    whole = columns_of(map(make_node, NAMES))
    copy = RowCopy(whole, [0, 1, 2])
    generation = copy.generation
    copy.add_pods([(2, pod(1)), (0, pod(2)), (2, pod(3))])
    assert copy.changed_since(generation).tolist() == [0, 2]
    assert copy.changed_since(copy.generation).tolist() == []
    assert copy.since.tolist() == [generation + 2, whole.since[1], generation + 3]
