"""Recalled columns: whatever happened in between, they are what plugins would say now; and little is asked for them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns, Snapshot
from scheduler.config import Configuration, build_profile
from scheduler.cycle import CycleResult, schedule
from scheduler.evaluate import NoCluster
from scheduler.framework.interface import Scores
from scheduler.framework.plugin import Follows
from scheduler.framework.recall import Recollection
from scheduler.framework.runtime import Framework
from scheduler.framework.verdicts import PASS, Verdicts, unschedulable
from scheduler.objects.pod import PodInfo
from scheduler.plugins import IN_TREE
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.framework.plugins import framework, run

ZONE = "topology.kubernetes.io/zone"


def new_framework() -> Framework:
    return Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)


def spread(when: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]


def web(name: str, **spec: Any) -> PodBuilder:
    return make_pod(name).label("app", "web").request(cpu="500m", memory="1Gi").with_spec(**spec)


def templates(name: str) -> list[PodBuilder]:
    return [
        web(name),
        make_pod(name).request(cpu="2").node_selector(disk="ssd"),
        make_pod(name).request(cpu="100m").image("big"),
        make_pod(name).request(cpu="100m").toleration("soft", operator="Exists").host_port(80),
        make_pod(name)
        .label("app", "web")
        .request(cpu="1")
        .with_spec(topologySpreadConstraints=spread("DoNotSchedule")),
        make_pod(name)
        .label("app", "web")
        .request(cpu="1")
        .with_spec(topologySpreadConstraints=spread("ScheduleAnyway")),
        make_pod(name).label("app", "web").request(cpu="1").anti_affinity("kubernetes.io/hostname", app="web"),
    ]


def said(result: CycleResult) -> dict[str, Any]:
    """Everything that a cycle came to, in a form in which two may be compared."""
    trace = result.trace
    slots = range(trace.slots)
    return {
        "outcome": (result.path, result.chosen, result.message, sorted(result.rejectors)),
        "codes": trace.codes.tolist(),
        "first": trace.first.tolist(),
        "filters": {r.plugin: (r.skipped, [r.verdicts.at(slot) for slot in slots]) for r in trace.filters},
        "raw": {r.plugin: None if r.raw is None else r.raw.tolist() for r in trace.scores},
        "normalized": {r.plugin: None if r.normalized is None else r.normalized.tolist() for r in trace.scores},
        "totals": None if trace.totals is None else trace.totals.tolist(),
    }


class Herd(RuleBasedStateMachine):
    """Nodes and pods come, change and go; pods of a few templates are scheduled, some of them assumed."""

    names = st.sampled_from([f"n{i}" for i in range(12)])

    def __init__(self) -> None:
        super().__init__()
        self.columns = NodeColumns()
        self.framework = new_framework()
        self.placed: dict[str, str] = {}
        self.count = 0
        for i in range(9):
            self.columns.set_node(self.node(f"n{i}", "4", False, False, i % 2 == 0).obj())

    @staticmethod
    def node(name: str, cpu: str, tainted: bool, cordoned: bool, ssd: bool) -> NodeBuilder:
        made = make_node(name).zone(f"z{int(name[1:]) % 3}").label("kubernetes.io/hostname", name)
        made = made.allocatable(cpu=cpu, memory="16Gi", pods="6")
        made = made.taint("soft", effect="PreferNoSchedule") if tainted else made
        made = made.cordoned() if cordoned else made
        return made.label("disk", "ssd").image(500 << 20, "big:latest") if ssd else made

    @rule(name=names, cpu=st.sampled_from(["1", "4"]), flags=st.tuples(st.booleans(), st.booleans(), st.booleans()))
    def set_node(self, name: str, cpu: str, flags: tuple[bool, bool, bool]) -> None:
        self.columns.set_node(self.node(name, cpu, *flags).obj())

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.columns.remove_node(name)

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.placed:
            uid = data.draw(st.sampled_from(sorted(self.placed)))
            self.columns.remove_pod(uid, self.placed.pop(uid))

    @rule(name=names, template=st.integers(0, 6))
    def someone_else_binds(self, name: str, template: int) -> None:
        self.add(templates(self.uid())[template].info(), name)

    @rule(template=st.integers(0, 6), assumed=st.booleans(), times=st.integers(1, 3))
    def schedule(self, template: int, assumed: bool, times: int) -> None:
        for _ in range(times):
            pod = templates(self.uid())[template].info()
            snapshot = Snapshot.of(self.columns)
            recalled, fresh = (schedule(f, pod, snapshot, seed=7) for f in (self.framework, new_framework()))
            assert said(recalled) == said(fresh)
            if assumed and recalled.chosen is not None:
                self.add(pod, self.columns.names[recalled.chosen])

    def uid(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def add(self, pod: PodInfo, node: str) -> None:
        self.columns.add_pod(pod, node)
        self.placed[pod.uid] = node


TestRecalledIsFresh = Herd.TestCase
TestRecalledIsFresh.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class Rows:
    """Counts pods of each row; keeps how many rows it was asked about."""

    name = "Rows"
    follows = Follows.ROW

    def __init__(self) -> None:
        self.asked: list[int] = []

    def filter(self, state: Any, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        self.asked.append(nodes.slots)
        return Verdicts.reject(nodes.requested("pods") > 1, TWO)

    def score(self, state: Any, pod: PodInfo, nodes: NodeColumns, feasible: Any) -> Scores:
        self.asked.append(nodes.slots)
        return 10 * nodes.requested("pods")


TWO = unschedulable(Reason("text", {"text": "two are enough"}))


def nodes(count: int) -> NodeColumns:
    return columns_of([make_node(f"n{i:03}").allocatable(cpu="4", pods="9") for i in range(count)])


def test_only_rows_that_changed_are_asked_about() -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,), score=(plugin,)), nodes(100)
    run(made, columns)
    columns.add_pod(make_pod("a").info(), "n007")
    columns.add_pod(make_pod("b").info(), "n031")
    result = run(made, columns)
    assert plugin.asked == [100, 100, 2, 2]
    assert result.trace.totals is not None
    assert np.flatnonzero(result.trace.totals).tolist() == [7, 31]


def test_nothing_changed_nothing_is_asked() -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,), score=(plugin,)), nodes(100)
    first, second = run(made, columns), run(made, columns)
    assert plugin.asked == [100, 100]
    assert said(first) == said(second)


@pytest.mark.parametrize(
    "another",
    [
        pytest.param(make_pod("q").request(cpu="1"), id="another request"),
        pytest.param(make_pod("q").toleration("k"), id="another toleration"),
        pytest.param(make_pod("q").image("nginx"), id="another image"),
    ],
)
def test_another_spec_is_asked_about_every_node(another: PodBuilder) -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,)), nodes(50)
    run(made, columns, make_pod("p").info())
    run(made, columns, another.info())
    assert plugin.asked == [50, 50]


def test_names_labels_and_private_volumes_make_no_other_spec() -> None:
    token = [{"name": "kube-api-access-x7k2p", "projected": {}}]
    other = [{"name": "kube-api-access-9b2ff", "projected": {}}]
    p, q = make_pod("p").with_spec(volumes=token), make_pod("q").label("index", "1").with_spec(volumes=other)
    assert p.info().spec_digest == q.info().spec_digest


def test_a_column_is_never_changed_in_place() -> None:
    """The trace of an earlier cycle keeps what it saw."""
    plugin = Rows()
    made, columns = framework(filter=(plugin,), score=(plugin,)), nodes(100)
    columns.add_pod(make_pod("a").info(), "n007")
    before = run(made, columns)
    kept = said(before)
    columns.add_pod(make_pod("b").info(), "n007")
    run(made, columns)
    assert said(before) == kept


def test_many_changes_are_asked_as_a_whole() -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,)), nodes(40)
    run(made, columns)
    for i in range(20):
        columns.add_pod(make_pod(f"p{i}").info(), f"n{i:03}")
    run(made, columns)
    assert plugin.asked == [40, 40]


def test_what_is_kept_is_bounded() -> None:
    columns, recollection = nodes(10), Recollection(kept_slots=30)
    first = recollection.of(make_pod("p").info(), columns)
    for i in range(1, 4):
        recollection.of(make_pod("p").request(cpu=str(i)).info(), columns)
    assert recollection.of(make_pod("p").info(), columns) is not first


@pytest.mark.parametrize(
    ("before", "part", "after"),
    [
        pytest.param(PASS, PASS, [SUCCESS] * 4, id="nothing to nothing"),
        pytest.param(PASS, Verdicts.reject(np.array([True, False]), TWO), [SUCCESS, TWO, SUCCESS, SUCCESS], id="one"),
        pytest.param(Verdicts.reject(np.ones(4, np.bool_), TWO), PASS, [TWO, SUCCESS, SUCCESS, TWO], id="back"),
    ],
)
def test_patching(before: Verdicts, part: Verdicts, after: list[Verdict]) -> None:
    patched = before.patched(np.array([1, 2]), part, 4)
    assert [patched.at(slot) for slot in range(4)] == after
