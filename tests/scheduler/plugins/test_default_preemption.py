"""DefaultPreemption: what it says where a filter goes wrong while nodes are tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from herodotus_record.model import SUCCESS, Path, Verdict
from scheduler.columns import NodeColumns
from scheduler.evaluate import NoCluster
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Verdicts, error
from scheduler.objects.pod import PodInfo
from scheduler.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.framework.plugins import framework, run, text


class WhenEmpty:
    """Full as long as pods are on a node; without them, what the test wants of each node, else Success."""

    name = "WhenEmpty"

    def __init__(self, says: Mapping[str, Verdict]) -> None:
        self._says = says

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        table = [SUCCESS, text("full"), *self._says.values()]
        own = {name: number for number, name in enumerate(self._says, 2)}
        numbers = [1 if pods else own.get(name, 0) for name, pods in zip(nodes.names, nodes.pods, strict=True)]
        return Verdicts(tuple(table), np.array(numbers, np.uint8))


A, B = error("no disk"), error("no route")
FULL = "0/2 nodes are available: 2 full."


@pytest.mark.parametrize(
    ("says", "message"),
    [
        pytest.param(
            {"a": A, "b": text("too small")},
            f'{FULL} preemption: running "WhenEmpty" filter plugin: no disk',
            id="one error: nothing is said of the other node",
        ),
        pytest.param(
            {"a": A, "b": A},
            f'{FULL} preemption: running "WhenEmpty" filter plugin: no disk',
            id="the same error twice",
        ),
        pytest.param({"a": A}, FULL, id="an error where another node can be made room on"),
        pytest.param(
            {"a": text("too small"), "b": text("too small")},
            f"{FULL} preemption: 0/2 nodes are available: 2 too small.",
            id="no error",
        ),
    ],
)
def test_an_error_counts_where_no_node_can_be_made_room_on(says: Mapping[str, Any], message: str) -> None:
    preemption = DefaultPreemption(DefaultPreemptionArgs(), NoCluster())
    columns = columns_of([make_node("a"), make_node("b")], [make_pod("in-a").node("a"), make_pod("in-b").node("b")])
    result = run(
        framework(filter=(WhenEmpty(says),), post_filter=(preemption,)), columns, make_pod().priority(1).info()
    )
    assert (result.path, result.message) == (Path.NONE, message)


def test_different_errors_are_all_told() -> None:
    preemption = DefaultPreemption(DefaultPreemptionArgs(), NoCluster())
    columns = columns_of([make_node("a"), make_node("b")], [make_pod("in-a").node("a"), make_pod("in-b").node("b")])
    made = framework(filter=(WhenEmpty({"a": A, "b": B}),), post_filter=(preemption,))
    said = run(made, columns, make_pod().priority(1).info()).message.removeprefix(f"{FULL} preemption: ")
    assert sorted(said[1:-1].split(", ")) == [
        'running "WhenEmpty" filter plugin: no disk',
        'running "WhenEmpty" filter plugin: no route',
    ]
