"""A search for plans ends within its limit, or when the user ends it, with what it found by then."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from herodotus_answers.cluster_questions import PlanQuestion
from herodotus_answers.plans import PlanReview, format_plan_headline
from scheduler.engine.plans.answers import answer_plan
from scheduler.engine.progress import ignore_progress
from tests.scheduler.engine.whatif.clusters import a_node, a_pod, a_state

Json = dict[str, Any]
TICK_S = 0.001  # each look at the clock takes as long
FULL = [a_node(f"n{i}") for i in range(12)]
NONE: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "none"}}}
APART: Json = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NONE]}
}  # so that no order is proven
PODS = [a_pod(f"w{i}-{k}", f"n{i}", f"ReplicaSet/w{i}", "200m", affinity=APART) for i in range(12) for k in range(8)]


class Interruption:
    """A report whose call number `after` interrupts the search, as Ctrl-C does."""

    def __init__(self, after: int) -> None:
        self.after, self.calls = after, 0

    def __call__(self, _done: int, _total: int, _smallest: int = 0, /) -> None:
        self.calls += 1
        if self.calls == self.after:
            raise KeyboardInterrupt


def ask(objects: list[Json], report: Any = ignore_progress, **question: Any) -> PlanReview:
    ticks = count()
    asked = PlanQuestion(**question)
    return answer_plan(a_state(objects), asked, report, None, "", lambda: next(ticks) * TICK_S)[0]


@pytest.mark.parametrize(
    "question",
    [
        {"drain": ["n0"], "time_limit_seconds": 0.1},  # runs of eight pods, of which each takes some looks
        {"drain": [f"n{i}" for i in range(6)], "time_limit_seconds": 0.2},
        {"consolidate": True, "time_limit_seconds": 0.5},
        {"pods": ["shop/big"], "kinds": ["move"], "time_limit_seconds": 0.2},
    ],
    ids=["drain", "drains", "consolidate", "fit"],
)
def test_a_search_ends_within_its_limit(question: Json) -> None:
    review = ask([*FULL, *PODS, a_pod("big", "", "ReplicaSet/big", "3")], **question)
    assert review["endedBy"] == "TimeOver"
    assert review["seconds"] < question["time_limit_seconds"] + 10 * TICK_S


def test_a_drain_that_had_time_for_some_runs_says_how_many() -> None:
    drain = ask([*FULL, *PODS], drain=["n0"], time_limit_seconds=0.1)["drain"]
    assert drain is not None
    assert [each["node"] for each in drain["nodes"]] == ["n0"]
    assert 1 <= drain["runs"] < 1000


def test_cordoned_nodes_that_do_not_help_leave_time_for_new_nodes() -> None:
    cordoned = [a_node(f"small{i}", f"{1000 + i}m", unschedulable=True) for i in range(30)]
    full = [a_node("n0"), a_pod("w", "n0", "ReplicaSet/w", "3500m")]
    wanted = [a_pod(f"big{i}", "", f"ReplicaSet/big{i}", "3", preemptionPolicy="Never") for i in range(2)]
    names = [f"shop/big{i}" for i in range(2)]
    review = ask([*cordoned, *full, *wanted], pods=names, kinds=["nodes"], time_limit_seconds=1)
    (nodes,) = review["kinds"]
    assert [step["nodes"] for step in nodes["plans"][0]["steps"]] == [["n0-new-1", "n0-new-2"]]
    assert nodes["bound"]["kind"] == "NotProven"


def test_an_interrupted_search_answers_with_what_it_found() -> None:
    objects = [*FULL, *PODS, a_pod("big", "", "ReplicaSet/big", "3")]
    whole = Interruption(0)
    assert ask(objects, whole, pods=["shop/big"], kinds=["nodes", "move"], time_limit_seconds=60)["endedBy"] == ""
    late = Interruption(whole.calls - 1)
    review = ask(objects, late, pods=["shop/big"], kinds=["nodes", "move"], time_limit_seconds=60)
    assert (review["endedBy"], review["verdict"]) == ("Interrupted", "Planned")
    assert late.calls == late.after
    early = ask(objects, Interruption(1), pods=["shop/big"], kinds=["move"], time_limit_seconds=60)
    assert early["kinds"][0]["bound"]["reason"] == "the search was interrupted"


def test_an_interrupted_consolidation_does_not_say_that_no_node_can_be_emptied() -> None:
    review = ask([*FULL, *PODS], Interruption(3), consolidate=True, time_limit_seconds=60)
    assert format_plan_headline(review).startswith(
        "No node that can be emptied was found until the search was interrupted; no more than "
    )
