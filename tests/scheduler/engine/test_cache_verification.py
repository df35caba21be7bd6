"""`--verify-cache`: a wrong dependency declaration is found, named, and decides nothing."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.cache_verification import CacheDifference, CacheVerifier
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState, OutsideReading
from scheduler.engine.framework.verdicts import SKIP, PreFilterResult, Verdicts, unschedulable
from scheduler.engine.objects.pod import PodInfo
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import framework

FULL = unschedulable(Reason("text", {"text": "node(s) had a pod"}))


class _OnePodPerNode:
    """A filter that reads pods of nodes and declares that it depends on Node objects only."""

    name = "OnePodPerNode"
    depends_on = DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.reject(nodes.requested("pods") > 0, FULL)


class _FewestPods:
    """A score plugin that reads pods of nodes and declares that it depends on Node objects only."""

    name = "FewestPods"
    depends_on = DependsOn.NODES

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        return 100 - 10 * nodes.requested("pods")


class _SkipsEmptyCluster:
    """A PreFilter plugin that counts pods and declares that its result depends on the pod's spec only."""

    name = "SkipsEmptyCluster"
    depends_on = DependsOn.ANYTHING

    def depends_only_on_spec(self, _pod: PodInfo) -> bool:
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        return PreFilterResult() if nodes.requested("pods").any() else PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.reject(np.ones(nodes.slots, np.bool_), FULL)


class _RejectsCordoned:
    """A filter that reads a declared node column."""

    name = "RejectsCordoned"
    depends_on = DependsOn.NODE

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.reject(nodes.unschedulable, FULL)


@dataclass(frozen=True)
class _Measured(OutsideReading):
    value: int


class _Measures:
    """A plugin whose measurement changes with every reading, and which reads once in an attempt."""

    name = "Measures"
    depends_on = DependsOn.ANYTHING
    source = itertools.count()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        measured = state.find(_Measured)
        if measured is None:
            measured = _Measured(next(self.source))
            state.write(measured)
        return np.full(nodes.slots, measured.value)


class _Reports:
    """Collects the differences of each verification."""

    def __init__(self) -> None:
        self.differences: list[list[CacheDifference]] = []

    def __call__(self, _pod: PodInfo, differences: Sequence[CacheDifference]) -> None:
        self.differences.append(list(differences))


def three_nodes() -> NodeColumns:
    return columns_of([make_node(f"n{i}").allocatable(cpu="4", pods="9") for i in range(3)])


def decide_twice(plugins: dict[str, Any], every: int = 1) -> tuple[CycleResult, _Reports, Framework]:
    """Decide a pod, put it on node n1, and decide an equal pod; return the second result after verification."""
    made, nodes, reports = framework(**plugins), three_nodes(), _Reports()
    verifier = CacheVerifier(every, {made.profile.scheduler_name: lambda: framework(**plugins).profile}, reports)
    for name in ("first", "second"):
        pod, snapshot = make_pod(name).info(), Snapshot.from_columns(nodes)
        result = verifier.schedule(made, pod, snapshot, 1, 0)
        if name == "first":
            nodes.add_pod(pod, "n1")
    return result, reports, made


@pytest.mark.parametrize(
    ("plugins", "difference"),
    [
        ({"filter": (_OnePodPerNode(),)}, CacheDifference("OnePodPerNode", "Filter", ("n1",))),
        ({"score": (_FewestPods(),)}, CacheDifference("FewestPods", "Score", ("n1",))),
        (
            {"pre_filter": (_SkipsEmptyCluster(),)},
            CacheDifference("SkipsEmptyCluster", "Filter", ("n0", "n1", "n2")),
        ),
    ],
    ids=["filter", "score", "pre-filter"],
)
def test_names_the_plugin_with_a_wrong_declaration(plugins: dict[str, Any], difference: CacheDifference) -> None:
    _, reports, _ = decide_twice(plugins)
    assert reports.differences == [[], [difference]]


def test_a_measurement_that_changed_since_the_decision_is_no_difference() -> None:
    _, reports, _ = decide_twice({"score": (_Measures(),)})
    assert reports.differences == [[], []]


def test_the_decision_without_caches_counts() -> None:
    result, _, made = decide_twice({"filter": (_OnePodPerNode(),)})
    assert result.trace.filters[0].verdicts.verdict_at(1) == FULL
    result, _, made = decide_twice({"pre_filter": (_SkipsEmptyCluster(),)})
    assert result.chosen is None
    nodes = three_nodes()
    nodes.add_pod(make_pod("other").info(), "n0")
    assert schedule(made, make_pod("third").info(), Snapshot.from_columns(nodes), 1).chosen is None, "cache cleared"


def test_verifies_every_nth_decision() -> None:
    result, reports, _ = decide_twice({"filter": (_OnePodPerNode(),)}, every=2)
    assert len(reports.differences) == 1
    result, reports, _ = decide_twice({"filter": (_OnePodPerNode(),)}, every=3)
    assert reports.differences == []
    assert result.trace.filters[0].verdicts.verdict_at(1) == SUCCESS, "the wrong result of the cache"


class _RowFilter:
    """A filter with a right declaration."""

    name = "RowFilter"
    depends_on = DependsOn.ROW

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        verdict: Verdict = FULL
        return Verdicts.reject(nodes.requested("pods") > 0, verdict)


def test_a_right_declaration_has_no_difference() -> None:
    result, reports, _ = decide_twice({"filter": (_RowFilter(),), "score": ()})
    assert reports.differences == [[], []]
    assert result.trace.filters[0].verdicts.verdict_at(1) == FULL


def test_a_column_that_was_not_kept_current_is_named_and_decides_nothing() -> None:
    made, nodes, reports = framework(filter=(_RejectsCordoned(),)), three_nodes(), _Reports()
    nodes.unschedulable[:] = True
    verifier = CacheVerifier(1, {made.profile.scheduler_name: lambda: made.profile}, reports)
    pod, snapshot = make_pod("p").info(), Snapshot.from_columns(nodes)
    result = verifier.schedule(made, pod, snapshot, 1, 0)
    assert reports.differences[0][0] == CacheDifference("unschedulable", "NodeColumns", ("n0", "n1", "n2"))
    assert result.chosen is not None
