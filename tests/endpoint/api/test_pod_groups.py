"""Answers about pod groups: which decisions belong to the last cycle, and which pods block it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from herodotus_answers.brief import shorten
from herodotus_record.model import (
    POD_GROUP_PHASE,
    Candidate,
    Code,
    Decision,
    Outcome,
    PodGroupCycle,
    Preemption,
    Reason,
    Suggestion,
)
from tests.builders import INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import API, Service, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
PATH = f"{API}/namespaces/shop/podgroupplacements/train"
UNDONE = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"


def member(number: int, sequence: int, cycle: PodGroupCycle | None, **given: Any) -> Decision:
    """Return the decision on the pod `train-NUMBER`."""
    d = a_decision(pod=f"train-{number}", sequence=sequence, started_us=MONDAY_US + sequence * 1_000_000, **given)
    return replace(d, pod=replace(d.pod, pod_group="train"), group_cycle=cycle)


def undone(decision: Decision, sequence: int, message: str = UNDONE) -> Outcome:
    """Return the outcome of a pod whose group was not placed."""
    outcome = bound(decision, TABLE, sequence=sequence, status=Code.UNSCHEDULABLE)
    return replace(outcome, phase=POD_GROUP_PHASE, message=message)


def cycle(position: int, pods: int = 3, number: int = 1, scheduled: int = 0, min_count: int = 3) -> PodGroupCycle:
    return PodGroupCycle(number, position, pods, scheduled, min_count)


def test_a_group_that_does_not_fit_names_who_fits_who_blocks_and_what_is_missing(service: Service) -> None:
    fits, more = member(1, 1, cycle(1)), member(2, 2, cycle(2))
    lower = Suggestion("worker-3", (Reason("set-request", {"resource": "cpu", "from": "500m", "to": "300m"}),))
    blocked = replace(member(3, 3, cycle(3), rejected=FULL), suggestions=(lower,))
    service.stored(rows(TABLE), fits, more, blocked, undone(fits, 4), undone(more, 5))
    answer = service.get(PATH)
    assert (answer["state"], answer["minCount"]) == ("Unschedulable", 3)
    assert [answer[k] for k in ("members", "placed", "provisional", "blocked", "missing", "notRecorded")] == [
        3,
        0,
        2,
        1,
        1,
        0,
    ]
    assert answer["headline"] == (
        "The group does not fit: 2 of 3 pods fit (minCount 3). train-3 found no node: nodes have too little cpu."
    )
    assert [(p["pod"], p["position"], p["state"], p["node"]) for p in answer["pods"]] == [
        ("train-1", 1, "Unschedulable", "worker-1"),
        ("train-2", 2, "Unschedulable", "worker-1"),
        ("train-3", 3, "Unschedulable", None),
    ]
    (node,) = answer["nodes"]
    assert (node["node"], node["pods"], node["last"], node["full"]) == ("worker-1", 2, "train-2", True)
    brief = shorten(answer)
    assert (brief["about"], brief["code"], brief["params"]) == ("PodGroup", "insufficient", {"resource": "cpu"})
    assert (brief["fix"] is not None, brief["decision"], brief["truncated"]) == (True, blocked.id, False)
    assert shorten(service.explain("train-1"))["code"] == "group-unschedulable"
    (reason,) = answer["reasons"]
    assert (reason["first"], reason["position"], reason["pods"]) == ("train-3", 3, 1)
    assert reason["suggestions"][0]["text"] == "lower the cpu request from 500m to 300m"
    assert answer["shortage"]["pods"] == 1
    assert answer["shortage"]["enoughMinCount"] == 2
    assert answer["shortage"]["requests"] == {"cpu": "500m"}
    assert answer["message"] == UNDONE


def test_pods_of_an_undone_group_are_pending_in_one_group(service: Service) -> None:
    fits, blocked = member(1, 1, cycle(1, 2)), member(2, 2, cycle(2, 2), rejected=FULL)
    alone = a_decision(pod="web", sequence=4, rejected=FULL)
    service.stored(rows(TABLE), fits, blocked, undone(fits, 3), alone)
    answer = service.get(f"{API}/namespaces/shop/pendingpods")
    assert [(g["podGroup"], g["count"], g["reason"]) for g in answer["groups"]] == [
        ("shop/train", 2, "nodes have too little cpu"),
        (None, 1, "nodes have too little cpu"),
    ]
    assert {p["pod"]: p["reason"] for p in answer["pods"]}["train-1"] == "fits, but other pods of its group do not"


def test_only_the_last_cycle_and_the_pods_placed_before_it_count(service: Service) -> None:
    """`train-9` was placed by a cycle of which nothing remains but its record: the last cycle counts one pod."""
    gone, earlier = member(9, 1, cycle(1, 1)), member(1, 3, cycle(1, 1, number=2))
    last = member(2, 5, cycle(1, 1, number=3, scheduled=1, min_count=2))
    service.stored(
        rows(TABLE),
        *(gone, bound(gone, TABLE, sequence=2), earlier, bound(earlier, TABLE, sequence=4)),
        *(last, bound(last, TABLE, sequence=6)),
    )
    answer = service.get(PATH)
    assert [(p["pod"], p["position"]) for p in answer["pods"]] == [("train-1", None), ("train-2", 1)]
    assert (answer["state"], answer["headline"]) == ("Scheduled", "Both pods placed on 1 node (minCount 2).")
    assert answer["shortage"] is None


def test_a_cycle_that_still_goes_on_shows_no_member_as_placed(service: Service) -> None:
    fits, blocked = member(1, 1, cycle(1, 2, min_count=2)), member(2, 2, cycle(2, 2, min_count=2), rejected=FULL)
    service.stored(rows(TABLE), fits, blocked)
    waiting = service.get(PATH)
    assert (waiting["state"], waiting["placed"], waiting["provisional"]) == ("Unschedulable", 0, 1)
    service.stored(member(1, 3, cycle(1, 2, number=2, min_count=2)))
    assert service.get(PATH)["headline"] == waiting["headline"]


def test_a_group_with_more_pods_than_it_needs_is_partly_placed(service: Service) -> None:
    placed, extra = member(1, 1, cycle(1, 2, min_count=1)), member(2, 2, cycle(2, 2, min_count=1), rejected=FULL)
    service.stored(rows(TABLE), placed, extra, bound(placed, TABLE, sequence=3))
    answer = service.get(PATH)
    assert (answer["state"], answer["missing"]) == ("PartlyScheduled", 0)
    assert answer["headline"] == "1 of 2 pods placed (minCount 1); 1 found no node: nodes have too little cpu."


@pytest.mark.parametrize("is_last", [True, False])
def test_a_member_that_was_preempted_is_not_placed(service: Service, is_last: bool) -> None:
    """Whether the last cycle placed it, or an earlier one."""
    placed = member(1, 1, cycle(1, 2, min_count=2)), member(2, 2, cycle(2, 2, min_count=2))
    bindings = [bound(each, TABLE, sequence=10 + i) for i, each in enumerate(placed)]
    urgent = a_decision(pod="urgent", sequence=20, started_us=MONDAY_US + 60_000_000, rejected=FULL)
    urgent = replace(urgent, preemption=Preemption("worker-1", (Candidate("worker-1", ("shop/train-2",), 0),), True))
    service.stored(rows(TABLE), *placed, *bindings, urgent)
    if not is_last:
        later = member(3, 30, cycle(1, 1, number=2, scheduled=2, min_count=2))
        service.stored(later, bound(later, TABLE, sequence=31))
    answer = service.get(PATH)
    others = 0 if is_last else 1
    assert (answer["state"], answer["placed"], answer["preempted"]) == ("PartlyScheduled", 1 + others, 1)
    assert answer["headline"] == (f"{1 + others} of {2 + others} pods placed (minCount 2); 1 preempted by shop/urgent.")
    (evicted,) = [pod for pod in answer["pods"] if pod["pod"] == "train-2"]
    assert (evicted["state"], evicted["reason"]) == ("Preempted", "preempted by shop/urgent")
    assert [node["pods"] for node in answer["nodes"]] == [1 + others]
    assert shorten(answer)["code"] != "placed"


def test_no_change_of_a_pod_is_advised_whose_group_has_too_few_pods(service: Service) -> None:
    lower = Suggestion("worker-3", (Reason("set-request", {"resource": "cpu", "from": "500m", "to": "300m"}),))
    alone = replace(member(1, 1, cycle(1, 1, min_count=4), rejected=FULL), suggestions=(lower,))
    service.stored(rows(TABLE), alone)
    assert service.get(PATH)["reasons"][0]["suggestions"] == []
    assert service.explain("train-1")["suggestions"] == []


def test_a_group_that_preempts_waits(service: Service) -> None:
    fits = member(1, 1, cycle(1, 2, min_count=2))
    message = "pod group is unschedulable, pod group is waiting for preemption to complete"
    preempts = member(2, 2, cycle(2, 2, min_count=2), rejected=FULL)
    service.stored(rows(TABLE), fits, preempts, undone(fits, 3, message))
    assert service.get(PATH)["state"] == "WaitingForPreemption"


def test_pods_that_were_decided_alone_are_listed_without_a_cycle(service: Service) -> None:
    service.stored(rows(TABLE), member(1, 1, None, rejected=FULL), member(2, 2, None, rejected=FULL))
    answer = service.get(PATH)
    assert (answer["cycle"], answer["minCount"], answer["blocked"]) == (None, None, 2)


@pytest.mark.parametrize("name", ["trian", "tra"])
def test_an_unknown_group_gives_similar_names(service: Service, name: str) -> None:
    service.stored(rows(TABLE), member(1, 1, cycle(1, 1)))
    status = service.error(PATH.replace("train", name))
    assert (status["code"], status["details"]["similar"]) == (404, ["train"])
