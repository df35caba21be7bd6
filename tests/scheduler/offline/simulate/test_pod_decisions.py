"""Two simulations of one pod: which of its decisions are compared, with the nodes as they were at the attempt."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from herodotus_answers.comparison import PodComparison
from herodotus_answers.simulation_questions import SimulationQuestion
from scheduler.config import Configuration
from scheduler.config.load import parse_config
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.comparison import Variant
from scheduler.offline.simulate.pod_decisions import compare_decisions
from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces.document import Event, NodeAdded, ObjectSet, PodArrived, write_trace
from tests.scheduler.builders import PROFILE, PodBuilder, make_node, make_pod
from tests.support.pod_group_loop import GATES, a_group

STOCK = Variant("stock", "", Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),)))
PACKED = Variant(
    "packed",
    "",
    parse_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: {PROFILE}, pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy:"
        " {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]\n"
    ),
)


def joins(name: str, cpu: str = "4", at_s: float = 0.0) -> NodeAdded:
    return NodeAdded(at_s, make_node(name).allocatable(cpu=cpu).obj())


def arrives(at_s: float, pod: PodBuilder, runs_s: float | None = None) -> PodArrived:
    return PodArrived(at_s, pod.obj(), ended_at_s=None if runs_s is None else at_s + runs_s)


def compare(folder: Path, pod: str, *events: Event, variants: tuple[Variant, ...] = (STOCK, PACKED)) -> PodComparison:
    path = folder / "trace"
    write_trace(path, events)
    question = SimulationQuestion(traces=(str(path),), pod=f"default/{pod}")
    return compare_decisions(question, variants, IN_TREE, lambda done, total: None)


def attempts(document: PodComparison) -> list[tuple[int, str | None]]:
    return [(pod["attempt"]["number"], pod["node"]) for pod in document["pods"]]


def test_attempts_that_repeat_a_result_are_passed_over_and_the_first_that_differ_are_compared(tmp_path: Path) -> None:
    document = compare(
        tmp_path,
        "late",
        joins("a"),
        joins("b"),
        arrives(1, make_pod("first").request(cpu="1"), 1000),
        arrives(2, make_pod("second").request(cpu="1"), 300),
        arrives(3, make_pod("late").request(cpu="4")),
    )
    without_node, placed = document["pods"]
    assert attempts(document) == [(1, None), (1, placed["node"])]
    (row,) = [row for row in document["nodes"] if row["node"] == placed["node"]]
    assert row["pods"][0]["why"] == "cpu: requests 4; free 3 of 4"  # then, before the others ended
    assert (without_node["state"], placed["state"]) == ("Unschedulable", "Bound")


def test_where_the_variants_agree_their_last_attempts_are_compared(tmp_path: Path) -> None:
    document = compare(
        tmp_path,
        "waits",
        joins("a"),
        arrives(1, make_pod("first").request(cpu="4"), 9),
        arrives(2, make_pod("waits").request(cpu="4")),
    )
    (number, node), packed = attempts(document)
    assert (number > 1, node) == (True, "a")
    assert packed == (number, node)
    assert [pod["attempt"]["startedAt"][:19] for pod in document["pods"]] == ["1970-01-01T00:00:10"] * 2


def test_a_pod_that_was_on_its_node_from_the_first_has_no_decision(tmp_path: Path) -> None:
    there = PodArrived(0.0, make_pod("there").request(cpu="1").obj(), 0.0, "a", was_on_node=True)
    with pytest.raises(SimulationError, match="on its node from the first"):
        compare(tmp_path, "there", joins("a"), there)


def test_a_pod_whose_group_is_not_placed_did_not_get_the_node_of_its_attempt(tmp_path: Path) -> None:
    variants = tuple(
        Variant(name, "", replace(STOCK.config, feature_gates={**GATES, "GangScheduling": name == "gangs"}))
        for name in ("gangs", "alone")
    )
    member = make_pod("member").request(cpu="1").with_spec(schedulingGroup={"podGroupName": "g"})
    large = make_pod("large").request(cpu="8").with_spec(schedulingGroup={"podGroupName": "g"})
    events: list[Event] = [ObjectSet(0.0, a_group("g", 2)), joins("a"), arrives(1, member), arrives(1, large)]
    document = compare(tmp_path, "member", *events, variants=variants)
    assert attempts(document)[1] == (1, "a")
    assert [pod["state"] for pod in document["pods"]] == ["Unschedulable", "Bound"]


@pytest.mark.parametrize("variants", [(STOCK,), (STOCK, PACKED, STOCK)])
def test_two_variants_are_needed(tmp_path: Path, variants: tuple[Variant, ...]) -> None:
    with pytest.raises(SimulationError, match=f"there are {len(variants)}"):
        compare(tmp_path, "p", joins("a"), arrives(1, make_pod("p").request(cpu="1")), variants=variants)
