"""PodTopologySpread: upstream's vectors, every rule once, and a model that walks over nodes and pods."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_record.model import Code, Reason
from scheduler.engine.columns import NodeColumns, RowCopy
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Object
from scheduler.engine.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.engine.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, expression, make_node, make_pod
from tests.support.examples import examples

Json = dict[str, Any]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
FOO = {"matchLabels": {"foo": ""}}
PASSES, MISSING, SKEWED = "", "spread-label", "spread"


def plugin(objects: Iterable[Object] = (), **args: Any) -> PodTopologySpread:
    known = ClusterObjects()
    for obj in objects:
        known.set(obj)
    return PodTopologySpread(msgspec.convert(args, PodTopologySpreadArgs), NoCluster(known))


def spread(key: str, action: str = HARD, skew: int = 1, selector: Json | None = FOO, **more: Any) -> Json:
    made = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, **more}
    return made | ({"labelSelector": selector} if selector is not None else {})


def newcomer(*constraints: Json) -> PodBuilder:
    return make_pod("new").label("foo", "").with_spec(topologySpreadConstraints=list(constraints))


def node(name: str, zone: str | None = None, host: bool = True) -> NodeBuilder:
    made = make_node(name)
    if host:
        made.label(HOST, name)
    return made if zone is None else made.zone(zone)


def pods(**count: int) -> list[PodBuilder]:
    """So many pods labelled foo on each node."""
    return [make_pod(f"{on}-{i}").label("foo", "").node(on) for on, n in count.items() for i in range(n)]


# --- hard constraints -------------------------------------------------------------------------------------------------


def verdicts(pod: PodBuilder, columns: NodeColumns, by: PodTopologySpread | None = None) -> dict[str, str]:
    """Return the reason code of each node, or "" if it passes."""
    by, state, info = by or plugin(), CycleState(), pod.info()
    if by.pre_filter(state, info, columns).verdict.code is Code.SKIP:
        return {"skipped": ""}
    return filter_verdicts(by, state, info, columns)


def filter_verdicts(by: PodTopologySpread, state: CycleState, pod: PodInfo, columns: NodeColumns) -> dict[str, str]:
    column = by.filter(state, pod, columns)
    given = {columns.names[slot]: column.verdict_at(slot) for slot in np.flatnonzero(columns.live).tolist()}
    assert all(v.code.is_rejection for v in given.values() if v.reasons)
    return {name: v.reasons[0].code if v.reasons else PASSES for name, v in given.items()}


ZONES = [node("a", "z1"), node("b", "z1"), node("x", "z2"), node("y", "z2")]

CASES: dict[str, tuple[PodBuilder, list[NodeBuilder], list[PodBuilder], dict[str, str]]] = {
    "the fuller zone is closed": (
        newcomer(spread(ZONE)),
        ZONES,
        pods(a=1),
        {"a": SKEWED, "b": SKEWED, "x": PASSES, "y": PASSES},
    ),
    "a larger skew is allowed": (
        newcomer(spread(ZONE, skew=2)),
        ZONES,
        pods(a=1),
        {"a": PASSES, "b": PASSES, "x": PASSES, "y": PASSES},
    ),
    "a pod that is not one of those to spread adds nothing": (
        make_pod("new").with_spec(topologySpreadConstraints=[spread(ZONE)]),
        ZONES,
        pods(a=1),
        {"a": PASSES, "b": PASSES, "x": PASSES, "y": PASSES},
    ),
    "every constraint must hold": (
        newcomer(spread(ZONE), spread(HOST)),
        ZONES,
        pods(a=1, x=1),
        {"a": SKEWED, "b": PASSES, "x": SKEWED, "y": PASSES},
    ),
    "a node without the key": (
        newcomer(spread(ZONE)),
        [node("a", "z1"), node("bare")],
        pods(bare=3),
        {"a": PASSES, "bare": MISSING},
    ),
    "a node without one of two keys counts for neither": (
        newcomer(spread(ZONE), spread(HOST)),
        [node("a", "z1"), node("b", "z1", host=False), node("x", "z2")],
        pods(b=5),
        {"a": PASSES, "b": MISSING, "x": PASSES},
    ),
    "too few domains: as if one were empty": (
        newcomer(spread(ZONE, minDomains=3)),
        ZONES,
        pods(a=1, x=1),
        {"a": SKEWED, "b": SKEWED, "x": SKEWED, "y": SKEWED},
    ),
    "enough domains": (
        newcomer(spread(ZONE, minDomains=2)),
        ZONES,
        pods(a=1, x=1),
        {"a": PASSES, "b": PASSES, "x": PASSES, "y": PASSES},
    ),
    "no selector matches nothing": (
        newcomer(spread(ZONE, selector=None)),
        ZONES,
        pods(a=9),
        {"a": PASSES, "b": PASSES, "x": PASSES, "y": PASSES},
    ),
    "the empty selector counts nothing": (
        newcomer(spread(ZONE, selector={})),
        ZONES,
        pods(a=9),
        {"a": PASSES, "b": PASSES, "x": PASSES, "y": PASSES},
    ),
    "terminating pods and those of other namespaces do not count": (
        newcomer(spread(ZONE)),
        ZONES,
        [make_pod("p1").label("foo", "").node("a").terminating(), make_pod("p2", "other").label("foo", "").node("a")],
        {"a": PASSES, "b": PASSES, "x": PASSES, "y": PASSES},
    ),
    "matchLabelKeys keep revisions apart": (
        newcomer(spread(ZONE, matchLabelKeys=["rev", "absent"])).label("rev", "2"),
        ZONES,
        [*pods(a=3), make_pod("p").label("foo", "").label("rev", "2").node("x")],
        {"a": PASSES, "b": PASSES, "x": SKEWED, "y": SKEWED},
    ),
    "nodes that the pod does not select are no domain": (
        newcomer(spread(ZONE)).node_selector(disk="ssd"),
        [node("a", "z1").label("disk", "ssd"), node("x", "z2")],
        pods(a=1),
        {"a": PASSES, "x": PASSES},
    ),
    "unless the policy ignores affinity": (
        newcomer(spread(ZONE, nodeAffinityPolicy="Ignore")).node_selector(disk="ssd"),
        [node("a", "z1").label("disk", "ssd"), node("x", "z2")],
        pods(a=1),
        {"a": SKEWED, "x": PASSES},
    ),
    "tainted nodes are domains": (
        newcomer(spread(ZONE)),
        [node("a", "z1"), node("x", "z2").taint("dedicated")],
        pods(a=1),
        {"a": SKEWED, "x": PASSES},
    ),
    "unless the policy honours taints": (
        newcomer(spread(ZONE, nodeTaintsPolicy="Honor")),
        [node("a", "z1"), node("x", "z2").taint("dedicated"), node("y", "z3").taint("soft", effect="PreferNoSchedule")],
        pods(a=1, y=1),
        {"a": PASSES, "x": PASSES, "y": PASSES},
    ),
    "no domain at all": (
        newcomer(spread(ZONE)).node_selector(disk="ssd"),
        [node("a", "z1")],
        [],
        {"a": PASSES},
    ),
    "only soft constraints": (newcomer(spread(ZONE, SOFT)), ZONES, pods(a=9), {"skipped": ""}),
}


@pytest.mark.parametrize("case", CASES)
def test_hard_constraints(case: str) -> None:
    pod, nodes, running, expected = CASES[case]
    assert verdicts(pod, columns_of(nodes, running)) == expected


def test_the_reason_has_the_numbers() -> None:
    columns, by, state = columns_of(ZONES, pods(a=2, x=1)), plugin(), CycleState()
    pod = newcomer(spread(ZONE)).info()
    by.pre_filter(state, pod, columns)
    (reason,) = by.filter(state, pod, columns).verdict_at(columns.index["b"]).reasons
    assert reason == Reason("spread", {"key": ZONE, "pods": "3", "fewest": "1", "maxSkew": "1"})


def test_invalid_selector_is_an_error_with_its_path() -> None:
    pod = newcomer(spread(ZONE, selector={"matchExpressions": [expression("foo", "Near")]}))
    message = 'obtaining pod\'s hard topology spread constraints: "Near" is not a valid label selector operator'
    with pytest.raises(ValueError, match=message):
        plugin().pre_filter(CycleState(), pod.info(), columns_of(ZONES))


def test_a_trial_changes_a_copy_of_the_note_only() -> None:
    """Pods tried on one node, in columns that hold nothing else, change the answer for that copy alone."""
    columns, by, state = columns_of(ZONES, pods(a=1)), plugin(), CycleState()
    pod = newcomer(spread(ZONE)).info()
    by.pre_filter(state, pod, columns)
    slot, trial = columns.index["a"], state.clone()
    alone = RowCopy(columns, [slot])
    (running,) = columns.pods[slot].values()
    alone.remove_pod(running.uid, "a")
    by.remove_pod(trial, pod, running, alone, 0)

    assert filter_verdicts(by, trial, pod, alone) == {"a": PASSES}
    assert filter_verdicts(by, state, pod, columns)["a"] == SKEWED
    by.add_pod(trial, pod, running, alone, 0)
    assert filter_verdicts(by, trial, pod, alone) == {"a": SKEWED}


# --- soft constraints -------------------------------------------------------------------------------------------------

BAR = {"matchLabels": {"bar": ""}}
FOUR = [node("a"), node("b"), node("c"), node("d")]
MIXED = [
    make_pod("p1").label("foo", "").node("a"),
    make_pod("p2").label("foo", "").label("bar", "").node("b"),
    make_pod("p3").label("foo", "").node("y"),
    make_pod("p4").label("bar", "").node("y"),
]

# kube-scheduler's own vectors: constraints, nodes, pods, feasible -> raw, normalised
VECTORS: dict[str, tuple[list[Json], list[NodeBuilder], list[PodBuilder], str, list[int], list[int]]] = {
    "hostname": ([spread(HOST, SOFT)], FOUR, pods(a=2, b=1, d=3), "abcd", [4, 2, 0, 5], [20, 60, 100, 0]),
    "hostname, maxSkew 2": (
        [spread(HOST, SOFT, 2)], FOUR, pods(a=2, b=1, d=3), "abcd", [5, 3, 1, 6], [33, 66, 100, 16]),
    "hostname, maxSkew 3": (
        [spread(HOST, SOFT, 3)], FOUR, pods(a=4, b=3, c=2, d=1), "abcd", [9, 7, 6, 4], [44, 66, 77, 100]),
    "an infeasible node": ([spread(HOST, SOFT)], FOUR, pods(a=4, b=2, c=1, d=3), "abc", [6, 3, 2], [33, 83, 100]),
    "a feasible node without the label": (
        [spread(HOST, SOFT)], [node("a"), node("b", host=False), node("c"), node("d")], pods(a=4, b=2, c=1, d=3),
        "abc", [6, 0, 1], [16, 0, 100]),
    "zone": ([spread(ZONE, SOFT)], ZONES, pods(a=4, b=2, x=1, y=3), "abx", [8, 8, 6], [75, 75, 100]),
    "zone and hostname": (
        [spread(ZONE, SOFT), spread(HOST, SOFT)], ZONES, pods(a=2, b=1, x=2, y=4), "ax", [7, 11], [100, 63]),
    "each its selector": (
        [spread(ZONE, SOFT), spread(HOST, SOFT, selector=BAR)], ZONES, MIXED, "abxy", [3, 5, 1, 3], [60, 20, 100, 60]),
    "no selector": ([spread(HOST, SOFT, selector=None)], FOUR, pods(a=9), "abcd", [0] * 4, [100] * 4),
}  # fmt: skip


def scores(
    pod: PodBuilder, columns: NodeColumns, feasible: Iterable[str], by: PodTopologySpread | None = None
) -> tuple[list[int], list[int]] | None:
    """Raw and normalised points in the order of `feasible`; None where the plugin skips."""
    by, state, info, order = by or plugin(), CycleState(), pod.info(), [columns.index[n] for n in feasible]
    mask = np.isin(np.arange(columns.slots), order)
    if by.pre_score(state, info, columns, mask).code is Code.SKIP:
        return None
    raw = np.where(mask, by.score(state, info, columns, mask), 0)
    return raw[order].tolist(), by.normalize(state, info, raw, mask)[order].tolist()


@pytest.mark.parametrize("case", VECTORS)
def test_upstream_vectors(case: str) -> None:
    constraints, nodes, running, feasible, raw, normalized = VECTORS[case]
    assert scores(newcomer(*constraints), columns_of(nodes, running), feasible) == (raw, normalized)


# --- default constraints ----------------------------------------------------------------------------------------------


def made(kind: type[Object], selector: Any, namespace: str = "default") -> Object:
    metadata = {"name": "web", "namespace": namespace}
    return msgspec.convert({"metadata": metadata, "spec": {"selector": selector}}, kind)


def owned(kind: str, api_version: str) -> PodBuilder:
    pod = make_pod("new").label("foo", "").owner(kind, "web")
    pod.json["metadata"]["ownerReferences"][0]["apiVersion"] = api_version
    return pod


SERVICE = made(Service, {"foo": ""})
DEFAULTED: dict[str, tuple[PodBuilder, list[Object], bool]] = {
    "a bare pod": (make_pod("new").label("foo", ""), [], False),
    "a Service that selects it": (make_pod("new").label("foo", ""), [SERVICE], True),
    "a Service that does not": (make_pod("new"), [SERVICE], False),
    "a Service of another namespace": (make_pod("new").label("foo", ""), [made(Service, {"foo": ""}, "other")], False),
    "a Service without a selector": (make_pod("new").label("foo", ""), [made(Service, None)], False),
    "its ReplicaSet": (owned("ReplicaSet", "apps/v1"), [made(ReplicaSet, FOO)], True),
    "a ReplicaSet of another group": (owned("ReplicaSet", "example.com/v1"), [made(ReplicaSet, FOO)], False),
    "its StatefulSet": (
        owned("StatefulSet", "apps/v1"), [made(StatefulSet, {"matchExpressions": [expression("foo", "Exists")]})],
        True),
    "its ReplicationController": (
        owned("ReplicationController", "v1"), [made(ReplicationController, {"foo": ""})], True),
    "a Job": (owned("Job", "batch/v1"), [made(ReplicaSet, FOO)], False),
}  # fmt: skip


@pytest.mark.parametrize("case", DEFAULTED)
def test_system_defaults_spread_what_belongs_together(case: str) -> None:
    pod, objects, belongs = DEFAULTED[case]
    found = scores(pod, columns_of(FOUR, pods(a=4, b=3, c=2, d=1)), "abcd", plugin(objects))
    assert found == (([9, 7, 6, 4], [44, 66, 77, 100]) if belongs else None)


def test_constraints_of_the_pod_replace_the_defaults() -> None:
    """Even hard ones replace soft defaults."""
    pod = newcomer(spread(HOST, HARD))
    assert scores(pod, columns_of(FOUR, pods(a=1)), "abcd", plugin([SERVICE])) is None


def test_a_list_of_defaults_has_both_kinds_and_wants_every_key() -> None:
    listed = [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action, "nodeTaintsPolicy": "Honor"}
        for action in (HARD, SOFT)
    ]
    by = plugin([SERVICE], defaultingType="List", defaultConstraints=listed)
    pod, columns = make_pod("new").label("foo", ""), columns_of([*ZONES, node("bare")], pods(a=1))
    assert verdicts(pod, columns, by) == {"a": SKEWED, "b": SKEWED, "x": PASSES, "y": PASSES, "bare": MISSING}
    assert scores(pod, columns, ["a", "x", "bare"], by) == ([1, 0, 0], [0, 100, 0])


PROBLEMS: dict[str, tuple[Json, list[tuple[str, object]]]] = {
    "defaults": ({}, []),
    "a list": ({"defaultingType": "List", "defaultConstraints": [spread(ZONE, selector=None)]}, []),
    "an empty list": ({"defaultingType": "List"}, []),
    "neither": ({"defaultingType": "Other"}, [("defaultingType", "Other")]),
    "constraints of the system": (
        {"defaultConstraints": [spread(ZONE, selector=None)]}, [("defaultingType", "System")]),
    "no skew": (
        {"defaultingType": "List", "defaultConstraints": [spread(ZONE, skew=0, selector=None)]},
        [("defaultConstraints[0].maxSkew", 0)]),
    "no key, no action": (
        {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1}]},
        [("defaultConstraints[0].topologyKey", ""), ("defaultConstraints[0].whenUnsatisfiable", "")]),
    "an unknown action": (
        {"defaultingType": "List", "defaultConstraints": [spread(ZONE, "Maybe", selector=None)]},
        [("defaultConstraints[0].whenUnsatisfiable", "Maybe")]),
    "twice": (
        {"defaultingType": "List",
         "defaultConstraints": [spread(ZONE, selector=None), spread(ZONE, skew=2, selector=None)]},
        [("defaultConstraints[1]", f"{{{ZONE}, {HARD}}}")]),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBLEMS)
def test_arguments(case: str) -> None:
    args, expected = PROBLEMS[case]
    found = msgspec.convert(args, PodTopologySpreadArgs).problems()
    assert [(problem.path, problem.value) for problem in found] == expected


def test_default_constraints_take_no_selector() -> None:
    args = {"defaultingType": "List", "defaultConstraints": [spread(ZONE)]}
    (problem,) = msgspec.convert(args, PodTopologySpreadArgs).problems()
    words = "constraint must not define a selector, as they deduced for each pod"
    assert str(problem) == f"defaultConstraints[0].labelSelector: Forbidden: {words}"


# --- against a model that walks ---------------------------------------------------------------------------------------

labels = st.dictionaries(st.sampled_from(["foo", "bar"]), st.sampled_from(["", "x"]), max_size=2)
selectors = st.one_of(
    st.none(),
    st.builds(lambda matching: {"matchLabels": matching}, labels),
    st.sampled_from(
        [
            {"matchExpressions": [expression("foo", "NotIn", "x")]},
            {"matchExpressions": [expression("bar", "DoesNotExist"), expression("foo", "Exists")]},
            {"matchExpressions": [expression("foo", "In", "x", "y")]},
        ]
    ),
)
constraints = st.builds(
    lambda key, action, skew, selector, more: spread(key, action, skew, selector, **more),
    st.sampled_from([HOST, ZONE]),
    st.sampled_from([HARD, SOFT]),
    st.integers(1, 3),
    selectors,
    st.fixed_dictionaries(
        {},
        optional={
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.just(["foo"]),
        },
    ),
)
Cluster = tuple[list[NodeBuilder], list[PodBuilder]]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = []
    for i in range(draw(st.integers(1, 5))):
        made = node(f"n{i}", draw(st.sampled_from([None, "", "z1", "z2"])), host=draw(st.integers(0, 5)) > 0)
        if draw(st.booleans()):
            made.label("disk", "ssd")
        if draw(st.integers(0, 2)) == 0:
            made.taint("dedicated")
        nodes.append(made)
    running = []
    for i, (on, its) in enumerate(draw(st.lists(st.tuples(st.integers(0, len(nodes) - 1), labels), max_size=12))):
        pod = make_pod(f"p{i}", draw(st.sampled_from(["default", "default", "other"]))).node(f"n{on}")
        pod.json["metadata"]["labels"] = its
        running.append(pod.terminating() if draw(st.integers(0, 5)) == 0 else pod)
    return nodes, running


@st.composite
def newcomers(draw: st.DrawFn) -> PodBuilder:
    pod = make_pod("new").with_spec(topologySpreadConstraints=draw(st.lists(constraints, max_size=3)))
    pod.json["metadata"]["labels"] = draw(labels)
    return pod.node_selector(disk="ssd") if draw(st.booleans()) else pod


def matches(selector: Json | None, its: Json) -> bool:
    if selector is None:
        return False
    for e in selector.get("matchExpressions", ()):
        value, values = its.get(e["key"]), e.get("values", ())
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[e["operator"]]:
            return False
    return all(its.get(k) == v for k, v in selector.get("matchLabels", {}).items())


class Model:
    """The reference, node by node and pod by pod."""

    def __init__(self, cluster: Cluster, pod: PodBuilder, action: str) -> None:
        self.nodes = {n.json["metadata"]["name"]: n.json for n in cluster[0]}
        self.pods = [p.json for p in cluster[1]]
        self.pod = pod.json
        self.constraints = [
            c for c in self.pod["spec"]["topologySpreadConstraints"] if c["whenUnsatisfiable"] == action
        ]

    def labels(self, name: str) -> Json:
        return dict(self.nodes[name]["metadata"].get("labels", {}))

    def has_all(self, name: str) -> bool:
        return all(c["topologyKey"] in self.labels(name) for c in self.constraints)

    def selector(self, c: Json) -> Json | None:
        selector: Json | None = c.get("labelSelector")
        mine = self.pod["metadata"]["labels"]
        same = [expression(k, "In", mine[k]) for k in c.get("matchLabelKeys", ()) if k in mine]
        if selector is None or not same:
            return selector
        return {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *same]}

    def included(self, c: Json, name: str) -> bool:
        wants = self.pod["spec"].get("nodeSelector", {})
        fits = all(self.labels(name).get(k) == v for k, v in wants.items())
        if c.get("nodeAffinityPolicy", "Honor") == "Honor" and not fits:
            return False
        return c.get("nodeTaintsPolicy", "Ignore") == "Ignore" or not self.nodes[name]["spec"].get("taints")

    def count(self, c: Json, name: str) -> int:
        selector = self.selector(c)
        if selector is None or not (selector.get("matchLabels") or selector.get("matchExpressions")):
            return 0
        return sum(
            p["spec"]["nodeName"] == name
            and p["metadata"]["namespace"] == "default"
            and "deletionTimestamp" not in p["metadata"]
            and matches(selector, p["metadata"]["labels"])
            for p in self.pods
        )

    def verdict(self, name: str) -> str:
        for c in self.constraints:
            key = c["topologyKey"]
            if key not in self.labels(name):
                return MISSING
            counts: dict[str, int] = {}
            for other in self.nodes:
                if self.has_all(other) and self.included(c, other):
                    value = self.labels(other)[key]
                    counts[value] = counts.get(value, 0) + self.count(c, other)
            least = min(counts.values(), default=2**31 - 1)
            if len(counts) < c.get("minDomains", 1):
                least = 0
            mine = int(matches(self.selector(c), self.pod["metadata"]["labels"]))
            if counts.get(self.labels(name)[key], 0) + mine - least > c["maxSkew"]:
                return SKEWED
        return PASSES

    def raw(self, name: str, feasible: Sequence[str]) -> int | None:
        """None where the node is ignored."""
        if not self.has_all(name):
            return None
        left, total = [n for n in feasible if self.has_all(n)], 0.0
        for c in self.constraints:
            key = c["topologyKey"]
            value = self.labels(name)[key]
            domains = left if key == HOST else {self.labels(n)[key] for n in left}
            pods = self.count(c, name)
            if key != HOST:
                counted = [n for n in self.nodes if self.has_all(n) and self.included(c, n)]
                pods = sum(self.count(c, n) for n in counted if self.labels(n)[key] == value)
            total += pods * math.log(len(domains) + 2) + (c["maxSkew"] - 1)
        return math.floor(total + 0.5)

    def scores(self, feasible: Sequence[str]) -> tuple[list[int], list[int]] | None:
        if not self.constraints:
            return None
        raw = [self.raw(n, feasible) for n in feasible]
        counted = [r for r in raw if r is not None]
        most, least = max(counted, default=0), min(counted, default=0)
        even = [100 if most == 0 else 100 * (most + least - r) // most if r is not None else 0 for r in raw]
        return [r or 0 for r in raw], [0 if r is None else e for r, e in zip(raw, even, strict=True)]


@settings(max_examples=examples(300), deadline=None)
@given(clusters(), newcomers())
def test_filter_equals_a_walk_over_nodes_and_pods(cluster: Cluster, pod: PodBuilder) -> None:
    model = Model(cluster, pod, HARD)
    expected = {name: model.verdict(name) for name in model.nodes} if model.constraints else {"skipped": ""}
    assert verdicts(pod, columns_of(*cluster)) == expected


@settings(max_examples=examples(300), deadline=None)
@given(clusters(), newcomers(), st.data())
def test_scores_equal_a_walk_over_nodes_and_pods(cluster: Cluster, pod: PodBuilder, data: st.DataObject) -> None:
    model = Model(cluster, pod, SOFT)
    feasible = data.draw(st.lists(st.sampled_from(sorted(model.nodes)), min_size=1, unique=True))
    assert scores(pod, columns_of(*cluster), feasible) == model.scores(feasible)


@settings(max_examples=examples(200), deadline=None)
@given(clusters(), newcomers(), st.data())
def test_a_pod_tried_on_or_off_a_node_equals_counting_anew(
    cluster: Cluster, pod: PodBuilder, data: st.DataObject
) -> None:
    """For pods that count (upstream counts terminating ones only here) and selectors that are not empty."""
    for c in pod.spec["topologySpreadConstraints"]:
        c["labelSelector"] = c.get("labelSelector") or None
        if c["labelSelector"] == {"matchLabels": {}}:
            c["labelSelector"] = FOO
    nodes, running = cluster[0], [p for p in cluster[1] if "deletionTimestamp" not in p.json["metadata"]]
    removed = data.draw(st.lists(st.sampled_from(running), unique_by=id)) if running else []
    by, state, info = plugin(), CycleState(), pod.info()
    before = columns_of(nodes, running)
    after = columns_of(nodes, [p for p in running if p not in removed])
    if by.pre_filter(state, info, before).verdict.code is Code.SKIP:
        return
    trial = state.clone()
    for p in removed:
        by.remove_pod(trial, info, p.info(), after, after.index[p.spec["nodeName"]])
    assert filter_verdicts(by, trial, info, after) == verdicts(pod, after)
    for p in removed:
        by.add_pod(trial, info, p.info(), before, before.index[p.spec["nodeName"]])
    assert filter_verdicts(by, trial, info, before) == filter_verdicts(by, state, info, before)


def test_a_rejection_tells_the_domains_and_the_nodes_of_the_emptiest() -> None:
    nodes = columns_of([*ZONES, node("t", "z3").taint("dedicated")], pods(a=1, x=1))
    state, new, filters = CycleState(), newcomer(spread(ZONE, minDomains=4)).info(), plugin()
    filters.pre_filter(state, new, nodes)
    explained = filters.explain_rejections(state, new, nodes, filters.filter(state, new, nodes))
    params = explained.verdict_at(nodes.index["a"]).reasons[0].params
    assert dict(params) == {
        "key": ZONE,
        "pods": "2",
        "fewest": "0",
        "maxSkew": "1",
        "domains": "z3=0, z1=1, z2=1",
        "emptiest": "t",
        "matches": "true",
        "nodeTaintsPolicy": "Ignore",
        "minDomains": "4",
    }
