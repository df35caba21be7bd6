"""Recalled columns: whatever happened in between, they are what plugins would say now; and little is asked for them."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from herodotus_record.model import SUCCESS, Code, DecisionPath, Evaluation, Reason, Verdict
from scheduler.config import Configuration, build_profile
from scheduler.engine.cache_verification import find_differences
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.equivalence_cache import ENTRY_OVERHEAD_SLOTS, MAX_CACHED_SLOTS, EquivalenceCache
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.framework.per_node import NodeInfo, PerNodePlugin, adapt_filter, adapt_score
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, SKIP, SKIPPED, PreFilterResult, Verdicts, unschedulable
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Namespace
from scheduler.engine.objects.workloads import PodDisruptionBudget, Service
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import PreFilters, framework, run, text
from tests.scheduler.engine.framework.plugins import Scores as PlainScores
from tests.support.examples import examples

ZONE = "topology.kubernetes.io/zone"


HOST = "kubernetes.io/hostname"


@dataclass
class Mood:
    """What plugins of somebody else go by, which the framework cannot know of."""

    closed: str = ""  # a node
    skips: bool = False
    points: int = 0
    fails: bool = False


class Moody:
    """A plugin that declares nothing: whatever it says may be otherwise the next time."""

    name = "Moody"

    def __init__(self, mood: Mood) -> None:
        self.mood = mood

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        return SKIPPED if self.mood.skips else PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.reject(np.array([name == self.mood.closed for name in nodes.names]), TWO)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        return SKIP if self.mood.skips else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        if self.mood.fails:
            raise ValueError("in no mood")
        return np.arange(nodes.slots) % 3 * self.mood.points * feasible

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        return raw + self.mood.points


class Crowded:
    """Follows from other nodes' objects: rejects cordoned nodes, where more than two are."""

    name = "Crowded"
    depends_on = DependsOn.NODES

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.reject(nodes.unschedulable & (nodes.unschedulable.sum() > 2), TWO)


class Plain(PerNodePlugin):
    """One node at a time: gives points for pods."""

    name = "Plain"

    def __init__(self) -> None:
        """Without arguments."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Verdict | None:
        return TWO if len(node.pods) > 4 else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return 10 * len(node.pods)


def new_framework(objects: ClusterObjects, nominator: Nominator, mood: Mood) -> Framework:
    """kube-scheduler's plugins, and others."""
    profile, moody, plain = build_profile(Configuration(), 0, IN_TREE, NoCluster(objects)), Moody(mood), Plain()
    profile = replace(
        profile,
        weights=profile.weights | {"Moody": 1, "Plain": 2},
        pre_filter=(*profile.pre_filter[:3], moody, *profile.pre_filter[3:]),
        filter=(*profile.filter[:2], moody, adapt_filter(plain), *profile.filter[2:], Crowded()),
        pre_score=(*profile.pre_score, moody),
        score=(moody, *profile.score, adapt_score(plain)),
    )
    return Framework(profile, time.monotonic, nominator=nominator)


def spread(*constraints: tuple[str, str]) -> dict[str, Any]:
    """Constraints by topology key and what happens where they do not hold."""
    selector = {"matchLabels": {"app": "web"}}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}
            for key, when in constraints
        ]
    }


def affinity(kind: str, key: str, weight: int = 0, **more: Any) -> dict[str, Any]:
    """One term of pod affinity or anti-affinity; preferred where it has a weight."""
    wanted = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **more}
    if not weight:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [wanted]}}}
    preferred = [{"weight": weight, "podAffinityTerm": wanted}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SPECS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "soft", "operator": "Exists"}]},
    spread((ZONE, HARD)),
    spread((HOST, HARD)),
    spread((ZONE, SOFT)),
    spread((ZONE, HARD), (HOST, SOFT)),
    spread((HOST, SOFT), (ZONE, SOFT)) | {"nodeSelector": {"disk": "ssd"}},
    affinity("podAffinity", ZONE),
    affinity("podAffinity", ZONE, 10),
    affinity("podAffinity", HOST, 7),
    affinity("podAntiAffinity", HOST),
    affinity("podAntiAffinity", ZONE),
    affinity("podAntiAffinity", HOST, 20),
    affinity("podAntiAffinity", HOST, namespaceSelector={"matchLabels": {"team": "a"}}),
    {"priority": 10},
    {"priority": 10} | affinity("podAntiAffinity", ZONE),
]
PORT = len(SPECS)  # a template that wants a host port, and an image that some nodes have
CLAIM = PORT + 1  # and one with a claim that is not there: its spec is else that of the first


def template(number: int, name: str, namespace: str = "default", app: str = "web") -> PodBuilder:
    made = make_pod(name, namespace).label("app", app)
    if number == PORT:
        return made.request(cpu="100m").image("big").host_port(80)
    if number == CLAIM:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        return made.request(cpu="500m", memory="1Gi").with_spec(volumes=volumes)
    return made.request(cpu="1500m" if number % 2 else "500m", memory="1Gi").with_spec(**SPECS[number])


def said(result: CycleResult) -> dict[str, Any]:
    """Everything that a cycle came to, in a form in which two may be compared."""
    trace = result.trace
    slots = range(trace.slots)
    return {
        "outcome": (result.path, result.chosen, result.message, sorted(result.rejectors)),
        "evaluation": trace.evaluation.tolist(),
        "codes": trace.codes.tolist(),
        "first": trace.first.tolist(),
        "preFilters": trace.pre_filters,
        "filters": {r.plugin: (r.skipped, [r.verdicts.verdict_at(slot) for slot in slots]) for r in trace.filters},
        "raw": {r.plugin: None if r.raw is None else r.raw.tolist() for r in trace.scores},
        "normalized": {r.plugin: None if r.normalized is None else r.normalized.tolist() for r in trace.scores},
        "totals": None if trace.totals is None else trace.totals.tolist(),
        "preemption": (trace.post_filters, trace.preemption, trace.nomination, [p.uid for p in trace.victims]),
        "notes": trace.notes,
    }


class Herd(RuleBasedStateMachine):
    """Nodes, pods, nominations and other objects come, change and go; pods of some templates are scheduled.

    Whatever happened before: what is recalled is what a framework says that never saw anything, of columns that never
    changed.
    """

    names = st.sampled_from([f"n{i}" for i in range(12)])
    templates = st.integers(0, CLAIM)
    namespaces = st.sampled_from(["default", "other"])
    apps = st.sampled_from(["web", "web", "db"])

    def __init__(self) -> None:
        super().__init__()
        self.columns, self.objects, self.nominator, self.mood = NodeColumns(), ClusterObjects(), Nominator(), Mood()
        self.framework = new_framework(self.objects, self.nominator, self.mood)
        self.placed: dict[str, str] = {}
        self.count = 0
        self.label_namespace("other", "a")
        for i in range(9):
            self.columns.set_node(self.node(f"n{i}", "4", i % 3, (False, False, i % 2 == 0, False)).obj())

    @staticmethod
    def node(name: str, cpu: str, zone: int, flags: tuple[bool, bool, bool, bool]) -> NodeBuilder:
        tainted, cordoned, ssd, closed = flags
        made = make_node(name).label(HOST, name).allocatable(cpu=cpu, memory="16Gi", pods="6")
        made = made.zone(f"z{zone}") if zone else made
        made = made.taint("soft", effect="PreferNoSchedule") if tainted else made
        made = made.taint("closed") if closed else made
        made = made.cordoned() if cordoned else made
        return made.label("disk", "ssd").image(500 << 20, "big:latest") if ssd else made

    @rule(name=names, cpu=st.sampled_from(["1", "4"]), zone=st.integers(0, 3), flags=st.tuples(*[st.booleans()] * 4))
    def set_node(self, name: str, cpu: str, zone: int, flags: tuple[bool, bool, bool, bool]) -> None:
        self.columns.set_node(self.node(name, cpu, zone, flags).obj())

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.columns.remove_node(name)

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.placed:
            uid = data.draw(st.sampled_from(sorted(self.placed)))
            self.columns.remove_pod(uid, self.placed.pop(uid))

    @rule(data=st.data(), number=templates, app=apps, terminating=st.booleans(), started=st.booleans())
    def change_pod(self, data: st.DataObject, number: int, app: str, terminating: bool, started: bool) -> None:
        if self.placed:
            uid = data.draw(st.sampled_from(sorted(self.placed)))
            made = template(number, uid.removeprefix("uid-"), app=app)
            made = made.terminating() if terminating else made
            made = made.condition("Ready", "True") if started else made
            self.columns.replace_pod(made.info(), self.placed[uid])

    @rule(name=names, number=templates, namespace=namespaces, app=apps)
    def someone_else_binds(self, name: str, number: int, namespace: str, app: str) -> None:
        self.add(template(number, self.name(), namespace, app).info(), name)

    @rule(name=names, number=templates)
    def nominate(self, name: str, number: int) -> None:
        self.nominator.update_from_status(template(number, f"rival-{number}").nominated(name).info())

    @rule(number=templates)
    def rival_gone(self, number: int) -> None:
        self.nominator.remove(f"uid-rival-{number}")

    @rule(name=namespaces, team=st.sampled_from("ab"))
    def label_namespace(self, name: str, team: str) -> None:
        self.objects.set(msgspec.convert({"metadata": {"name": name, "labels": {"team": team}}}, Namespace))

    @rule(allowed=st.integers(0, 2))
    def set_budget(self, allowed: int) -> None:
        budget = {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.objects.set(msgspec.convert(budget, PodDisruptionBudget))

    @rule(serves=st.booleans())
    def set_service(self, serves: bool) -> None:
        selector = {"app": "web"} if serves else {"app": "nobody"}
        service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selector}}
        self.objects.set(msgspec.convert(service, Service))

    @rule(closed=names, skips=st.booleans(), points=st.integers(0, 30), fails=st.sampled_from([False, False, True]))
    def change_mood(self, closed: str, skips: bool, points: int, fails: bool) -> None:
        vars(self.mood).update(closed=closed, skips=skips, points=points, fails=fails)

    @rule(number=templates, namespace=namespaces, app=apps, assumed=st.booleans(), times=st.integers(1, 3))
    def schedule(self, number: int, namespace: str, app: str, assumed: bool, times: int) -> None:
        for _ in range(times):
            pod = template(number, self.name(), namespace, app).info()
            recalled = schedule(self.framework, pod, Snapshot.from_columns(self.columns), seed=7)
            anew = new_framework(self.objects, self.nominator, self.mood)
            assert recalled.path is not DecisionPath.ERROR or recalled.message.endswith("in no mood")
            assert said(recalled) == said(schedule(anew, pod, Snapshot.from_columns(self.columns.rebuilt()), seed=7))
            again = new_framework(self.objects, self.nominator, self.mood)
            assert find_differences(again, pod, self.columns.rebuilt(), recalled) == []
            if assumed and recalled.chosen is not None:
                self.add(pod, self.columns.names[recalled.chosen])

    def name(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def add(self, pod: PodInfo, node: str) -> None:
        self.columns.add_pod(pod, node)
        self.placed[pod.uid] = node


TestRecalledIsFresh = Herd.TestCase
TestRecalledIsFresh.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)


class Rows:
    """Counts pods of each row; keeps how many rows it was asked about."""

    name = "Rows"
    depends_on = DependsOn.ROW

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


def test_only_changed_rows_are_evaluated() -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,), score=(plugin,)), nodes(100)
    run(made, columns)
    columns.add_pod(make_pod("a").info(), "n007")
    columns.add_pod(make_pod("b").info(), "n031")
    result = run(made, columns)
    assert plugin.asked == [100, 100, 2, 2]
    assert result.trace.totals is not None
    assert np.flatnonzero(result.trace.totals).tolist() == [7, 31]


def test_unchanged_nodes_are_not_evaluated_again() -> None:
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
def test_another_spec_is_evaluated_on_every_node(another: PodBuilder) -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,)), nodes(50)
    run(made, columns, make_pod("p").info())
    run(made, columns, another.info())
    assert plugin.asked == [50, 50]


class Alike:
    """Follows from amounts alone; keeps how many rows it was asked about."""

    name = "Alike"
    depends_on = DependsOn.AMOUNTS

    def __init__(self) -> None:
        self.asked: list[int] = []

    def score(self, state: Any, pod: PodInfo, nodes: NodeColumns, feasible: Any) -> Scores:
        self.asked.append(nodes.slots)
        return nodes.requested("cpu") // 100 + nodes.allocatable("cpu") // 1000


def test_equal_rows_are_evaluated_once() -> None:
    plugin = Alike()
    made, columns = framework(score=(plugin,)), nodes(100)
    run(made, columns)
    for i, node in enumerate(["n007", "n031", "n007", "n031"]):
        columns.add_pod(make_pod(f"p{i}").request(cpu="500m").info(), node)
        result = run(made, columns)
    assert plugin.asked == [100, 1, 1]
    assert result.trace.totals is not None
    assert [int(result.trace.totals[columns.index[n]]) for n in ("n006", "n007", "n031")] == [4, 14, 14]


def test_a_new_node_in_a_slot_differs_from_an_empty_slot() -> None:
    plugin = Alike()
    made, columns = framework(score=(plugin,)), nodes(100)
    columns.add_pod(make_pod("p").info(), "ghost")
    columns.add_pod(make_pod("q").info(), "n007")
    run(made, columns)
    columns.set_node(make_node("ghost").obj())
    result = run(made, columns)
    assert plugin.asked == [101, 1]
    assert result.trace.evaluation[columns.index["ghost"]] == Evaluation.EVALUATED


class Settled:
    """Says Skip where the pod has no priority; keeps how often it was asked, and notes that it was."""

    name = "Settled"

    def __init__(self, *, settles: bool) -> None:
        self.settles = settles
        self.asked = 0

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return self.settles

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        self.asked += 1
        state.write(Noted(pod.priority))
        return PreFilterResult() if pod.priority else SKIPPED

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        assert state.read(Noted).priority == pod.priority
        return PASS


@dataclass(frozen=True)
class Noted:
    priority: int


@pytest.mark.parametrize(
    ("settles", "asked"), [pytest.param(True, 2, id="once a spec"), pytest.param(False, 6, id="every time")]
)
def test_spec_only_plugins_run_once(settles: bool, asked: int) -> None:
    plugin = Settled(settles=settles)
    made, columns = framework(pre_filter=(plugin,)), nodes(3)
    results = [run(made, columns, make_pod("p").priority(i % 2).info()) for i in range(6)]
    assert plugin.asked == asked
    assert [result.trace.filters[0].skipped for result in results] == [True, False] * 3
    assert [result.state.read(Noted).priority for result in results] == [0, 1] * 3


def test_inputs_are_absent_if_the_phase_ended_before_the_plugin() -> None:
    refuses, settled = PreFilters("Refuses", text("no", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)), Settled(settles=True)
    result = run(framework(pre_filter=(refuses, settled)), nodes(3))
    assert result.state.find(Noted) is None


def test_an_invalid_score_is_one_the_next_time_too() -> None:
    made, columns = framework(score=(PlainScores("Wild", {"n001": 101}),)), nodes(3)
    assert [run(made, columns).path for _ in range(3)] == [DecisionPath.ERROR] * 3


def test_a_plugin_that_follows_rows_is_right_after_another_one_failed() -> None:
    """What a phase that did not get to its end had brought up to date does not count as told."""
    rows, fails = Rows(), PlainScores("Fails", {})
    made, columns = framework(score=(rows, fails)), nodes(100)
    run(made, columns)
    columns.add_pod(make_pod("a").info(), "n007")
    fails._points = ValueError("for once")
    assert run(made, columns).path is DecisionPath.ERROR
    fails._points = {}
    totals = run(made, columns).trace.totals
    assert totals is not None
    assert np.flatnonzero(totals).tolist() == [7]


@pytest.mark.parametrize("seed", range(5))
def test_the_best_are_those_with_the_highest_total(seed: int) -> None:
    """However totals went up and down, and whoever became feasible or ceased to be."""
    made, columns = framework(filter=(Rows(),), score=(Rows(),)), nodes(60)
    chance = random.Random(seed)
    placed: list[tuple[str, str]] = []
    for i in range(120):
        if placed and chance.random() < 0.4:
            columns.remove_pod(*placed.pop(chance.randrange(len(placed))))
        else:
            pod, node = make_pod(f"p{i}").info(), f"n{chance.randrange(60):03}"
            columns.add_pod(pod, node)
            placed.append((pod.uid, node))
        result = run(made, columns, seed=i)
        assert result.trace.totals is not None
        best = np.where(result.trace.feasible, result.trace.totals, -1)
        assert result.chosen is not None
        assert best[result.chosen] == best.max()
        assert result.chosen == run(framework(filter=(Rows(),), score=(Rows(),)), columns, seed=i).chosen


def test_names_labels_and_private_volumes_make_no_other_spec() -> None:
    token = [{"name": "kube-api-access-x7k2p", "projected": {}}]
    other = [{"name": "kube-api-access-9b2ff", "projected": {}}]
    p, q = make_pod("p").with_spec(volumes=token), make_pod("q").label("index", "1").with_spec(volumes=other)
    assert p.info().spec_digest == q.info().spec_digest


def test_claim_changes_the_spec_regardless_of_its_name() -> None:
    def claiming(name: str) -> PodInfo:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        return make_pod("p").with_spec(volumes=[volume]).info()

    assert claiming("a").spec_digest == claiming("b").spec_digest != make_pod("p").info().spec_digest


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


def test_many_changes_recompute_everything() -> None:
    plugin = Rows()
    made, columns = framework(filter=(plugin,)), nodes(40)
    run(made, columns)
    for i in range(20):
        columns.add_pod(make_pod(f"p{i}").info(), f"n{i:03}")
    run(made, columns)
    assert plugin.asked == [40, 40]


def test_cache_is_bounded() -> None:
    columns, cache = nodes(10), EquivalenceCache(max_slots=3 * (10 + ENTRY_OVERHEAD_SLOTS))
    first = cache.get(make_pod("p").info(), columns)
    for i in range(1, 4):
        cache.get(make_pod("p").request(cpu=str(i)).info(), columns)
    assert cache.get(make_pod("p").info(), columns) is not first


def test_on_few_nodes_specs_are_bounded_too() -> None:
    columns, cache = nodes(1), EquivalenceCache()
    first = cache.get(make_pod("p").info(), columns)
    for i in range(MAX_CACHED_SLOTS // ENTRY_OVERHEAD_SLOTS):
        cache.get(make_pod("p").request(cpu=str(i + 1)).info(), columns)
    assert cache.get(make_pod("p").info(), columns) is not first


class Narrow:
    """Points in the narrowest type that holds them: a hundred for each pod on the node."""

    name = "Narrow"
    depends_on = DependsOn.ROW

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        points = nodes.requested("pods") * 100
        return points.astype(np.min_scalar_type(int(points.max())))

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        return np.zeros_like(raw)


def test_points_of_a_narrow_type_may_become_large() -> None:
    made, columns = framework(score=(Narrow(),)), nodes(100)
    run(made, columns)
    for i in range(3):
        columns.add_pod(make_pod(f"p{i}").info(), "n007")
    (points,) = (r.raw for r in run(made, columns).trace.scores)
    assert points is not None
    assert points[columns.index["n007"]] == 300


@pytest.mark.parametrize(
    ("before", "part", "after"),
    [
        pytest.param(PASS, PASS, [SUCCESS] * 4, id="nothing to nothing"),
        pytest.param(PASS, Verdicts.reject(np.array([True, False]), TWO), [SUCCESS, TWO, SUCCESS, SUCCESS], id="one"),
        pytest.param(Verdicts.reject(np.ones(4, np.bool_), TWO), PASS, [TWO, SUCCESS, SUCCESS, TWO], id="back"),
    ],
)
def test_patching(before: Verdicts, part: Verdicts, after: list[Verdict]) -> None:
    patched = before.with_rows(np.array([1, 2]), part, 4)
    assert [patched.verdict_at(slot) for slot in range(4)] == after
