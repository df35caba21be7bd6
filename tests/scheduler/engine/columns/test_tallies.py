"""Running counts: after any sequence of changes as counted anew, and what they ask of single pods."""

from __future__ import annotations

import gc
import weakref
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.columns import NodeColumns, tallies
from scheduler.engine.columns.tallies import CountedPod, PodWeights, Tallies
from scheduler.engine.objects.types import LabelSelector
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod
from tests.support.examples import examples

QUESTIONS = [
    (LabelSelector(match_labels={"app": app} if app else None), namespaces, staying)
    for app in ("x", "y", "")
    for namespaces in (None, frozenset({"default"}))
    for staying in (False, True)
]
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("set"),
            st.integers(0, 5),
            st.sampled_from("xy"),
            st.booleans(),
            st.booleans(),
            st.sampled_from("abc"),
        ),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("ask"), st.integers(0, len(QUESTIONS) - 1)),
        st.tuples(st.just("node"), st.sampled_from("abc"), st.sampled_from(["", "u", "v"]), st.booleans()),
    ),
    max_size=30,
)


def pod(number: int, app: str, terminating: bool, far: bool) -> PodBuilder:
    made = make_pod(f"p{number}", "default" if number % 2 else "other").label("app", app)
    made = made.anti_affinity("zone", app=app) if far else made
    return made.terminating() if terminating else made


def ask(columns: NodeColumns, number: int) -> dict[str, Any]:
    """Each question's counts by slot, and by zone: of all nodes, and of those that are not cordoned."""
    selector, namespaces, staying = QUESTIONS[number]
    tally = columns.pod_rows.tally(selector, namespaces, columns.slots, staying=staying)
    zones = columns.label("zone")
    open_ = columns.cached("open", lambda: columns.live & ~columns.unschedulable)
    return {
        "slots": tally.counts.tolist(),
        "zones": dict(zip(zones.values, tally.by_value(zones).tolist(), strict=True)),
        "open": dict(zip(zones.values, tally.by_value(zones, open_).tolist(), strict=True)),
    }


def answers(columns: NodeColumns) -> dict[Any, Any]:
    by_question: dict[Any, Any] = {i: ask(columns, i) for i in range(len(QUESTIONS))}
    for app in "xy":
        terms = make_pod("q").anti_affinity("zone", app=app).info().terms
        assert terms is not None
        tally = columns.pod_rows.tally_terms(("terms", app), {terms: 3}, columns.slots)
        by_question[app] = tally.counts.tolist()
    return by_question


def said(answers: dict[Any, Any]) -> dict[Any, Any]:
    """Without zones that no node is in: columns that have seen more know more of them."""

    def some(counts: dict[Any, int]) -> dict[Any, int]:
        return {zone: count for zone, count in counts.items() if count}

    return {
        question: {kind: some(found[kind]) if kind != "slots" else found[kind] for kind in found}
        if isinstance(found, dict)
        else found
        for question, found in answers.items()
    }


def node(name: str, zone: str, cordoned: bool) -> NodeBuilder:
    made = make_node(name).label("zone", zone) if zone else make_node(name)
    return made.cordoned() if cordoned else made


@settings(max_examples=examples(200))
@given(steps, st.sampled_from([2, 1024]))
def test_a_tally_is_what_counting_anew_finds(steps: list[Any], journal: int) -> None:
    """Also where the journal is too short for what happened in between, and nodes come later than their pods."""
    with patch.object(tallies, "MAX_JOURNAL_ENTRIES", journal):
        columns, where = columns_of([make_node("a"), make_node("b")]), dict[int, str]()
        answers(columns)
        for step in steps:
            if step[0] == "ask":
                ask(columns, step[1])
                continue
            if step[0] == "node":
                columns.set_node(node(*step[1:]).obj())
                continue
            _, number, *described = step
            if step[0] == "set" and where.get(number) == described[3]:
                columns.replace_pod(pod(number, *described[:3]).info(), described[3])
                continue
            if number in where:
                columns.remove_pod(f"uid-p{number}", where.pop(number))
            if step[0] == "set":
                columns.add_pod(pod(number, *described[:3]).info(), described[3])
                where[number] = described[3]
        fresh = NodeColumns()
        for name, known in zip(columns.names, columns.nodes, strict=True):
            fresh.set_node(known or make_node(name).obj())
        for slot, here in enumerate(columns.pods):
            for info in here.values():
                fresh.add_pod(info, columns.names[slot])
        for name, known in zip(columns.names, columns.nodes, strict=True):
            if known is None:
                fresh.remove_node(name)
        assert said(answers(columns)) == said(answers(fresh))


class Calls:
    """A question about pods whose namespace is even, and what it took to answer it."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.counts = 0

    def matches(self, info: CountedPod) -> bool:
        self.pods.append(info.namespace)
        return int(info.namespace) % 2 == 0

    def count(self) -> Any:
        self.counts += 1
        return np.zeros(2, np.int64)

    @property
    def weights(self) -> PodWeights:
        return PodWeights(lambda pod, _parts: self.matches(pod), lambda _part: self.count())


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_each_pod_is_weighed_once(calls: Calls) -> None:
    running = Tallies()
    assert running.get("even", 2, calls.weights).counts.tolist() == [0, 0]
    for i in range(4):
        running.record(i % 2, make_pod(namespace=str(i)).info(), +1)
    for _ in range(2):
        assert running.get("even", 2, calls.weights).counts.tolist() == [2, 0]
    running.record(0, make_pod(namespace="2").info(), -1)
    assert running.get("even", 3, calls.weights).counts.tolist() == [1, 0, 0]
    assert (calls.pods, calls.counts) == (["0", "1", "2", "3", "2"], 1)


def test_tally_that_is_too_old_is_counted_again(calls: Calls) -> None:
    running = Tallies()
    running.get("even", 2, calls.weights)
    for i in range(3 * tallies.MAX_JOURNAL_ENTRIES):
        running.record(0, make_pod(namespace=str(i)).info(), +1)
    running.get("even", 2, calls.weights)
    assert (calls.pods, calls.counts) == ([], 2)


def test_questions_and_journal_are_bounded(calls: Calls) -> None:
    running = Tallies()
    for i in range(3 * tallies.MAX_TALLIES):
        running.get(i, 2, calls.weights)
        running.record(0, make_pod(namespace=str(i)).info(), +1)
    running.get(0, 2, calls.weights)
    assert calls.counts == 3 * tallies.MAX_TALLIES + 1  # the first question was forgotten
    for i in range(10 * tallies.MAX_JOURNAL_ENTRIES):
        running.record(0, make_pod(namespace=str(i)).info(), +1)
    assert len(running._journal) <= 2 * tallies.MAX_JOURNAL_ENTRIES


def test_journal_keeps_no_large_pod_and_the_sums_are_right_without_it() -> None:
    """A pod of a megabyte would otherwise outlive its deletion by thousands of other pods."""
    columns = columns_of([make_node("a"), make_node("b")])
    selector = LabelSelector(match_labels={"app": "x"})

    def count() -> list[int]:
        return list(columns.pod_rows.tally(selector, None, columns.slots).counts.tolist())

    assert count() == [0, 0]
    requests = {f"example.com/r{i}": "0" for i in range(5_000)}
    pods = [make_pod(f"p{i}").label("app", "x").request(requests) for i in range(2)]
    for i in range(5_000):
        pods[1].label(f"key-{i}", "x")
    infos = [pod.info() for pod in pods]
    held = [weakref.ref(info) for info in infos]
    for info in infos:
        columns.add_pod(info, "b")
        assert count() == [0, infos.index(info) + 1]
    for info in infos:
        columns.remove_pod(info.uid, "b")
    assert count() == [0, 0]
    del infos, info
    gc.collect()
    assert [ref() for ref in held] == [None, None]


def test_labels_in_the_journal_are_bounded(calls: Calls) -> None:
    running, some = Tallies(), {f"key-{i}": "x" for i in range(tallies.MAX_JOURNAL_LABELS // 4)}
    for i in range(50):
        made = make_pod(namespace=str(i))
        made.json["metadata"]["labels"] = some
        running.get("even", 2, calls.weights)
        running.record(0, made.info(), +1)
        assert sum(len(pod.labels) for _, pod, _ in running._journal) <= tallies.MAX_JOURNAL_LABELS
    assert calls.counts == 1


def test_counts_in_progress_survive_pods_with_many_affinity_terms(calls: Calls) -> None:
    running, made = Tallies(), make_pod(namespace="2")
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{i}"}}} for i in range(2_000)]
    made.spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    info = made.info()
    assert info.is_large
    assert running.get("even", 2, calls.weights).counts.tolist() == [0, 0]
    running.record(0, info, +1)
    assert running.get("even", 2, calls.weights).counts.tolist() == [1, 0]
    assert calls.counts == 1
    assert [pod.terms for _, pod, _ in running._journal] == [info.terms]
    assert all(pod.terms.size == 0 for _, pod, _ in running._journal if pod.terms is not None)
