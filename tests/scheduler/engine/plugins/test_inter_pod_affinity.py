"""InterPodAffinity: every rule once, upstream's normalisation, and a model that walks over nodes and pods."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_record.model import Code, Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import invalid
from scheduler.engine.objects.types import Namespace
from scheduler.engine.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, expression, make_node, make_pod
from tests.support.examples import examples

Json = dict[str, Any]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}
PASSES, NEAR, FAR, OTHERS = "", "pod-affinity", "pod-anti-affinity", "existing-anti-affinity"
NAMESPACES: dict[str, Json] = {"default": {}, "red": {"team": "red"}, "blue": {"team": "blue"}}


def plugin(**args: Any) -> InterPodAffinity:
    known = ClusterObjects()
    for name, its in NAMESPACES.items():
        known.set(msgspec.convert({"metadata": {"name": name, "labels": its}}, Namespace))
    return InterPodAffinity(msgspec.convert(args, InterPodAffinityArgs), NoCluster(known))


def term(key: str = ZONE, selector: Json | None = WEB, **more: Any) -> Json:
    return {"topologyKey": key, **more} | ({"labelSelector": selector} if selector is not None else {})


def asks(
    pod: PodBuilder,
    near: Iterable[Json] = (),
    far: Iterable[Json] = (),
    rather_near: Iterable[tuple[int, Json]] = (),
    rather_far: Iterable[tuple[int, Json]] = (),
) -> PodBuilder:
    """Return the pod with these affinity terms."""
    for kind, required, preferred in (("podAffinity", near, rather_near), ("podAntiAffinity", far, rather_far)):
        weighted = [{"weight": weight, "podAffinityTerm": wanted} for weight, wanted in preferred]
        made = {k: v for k, v in ((REQUIRED, list(required)), (PREFERRED, weighted)) if v}
        if made:
            pod.spec.setdefault("affinity", {})[kind] = made
    return pod


def web(name: str, on: str, namespace: str = "default") -> PodBuilder:
    return make_pod(name, namespace).label("app", "web").node(on)


def node(name: str, zone: str | None = None) -> NodeBuilder:
    made = make_node(name).label(HOST, name)
    return made if zone is None else made.zone(zone)


NODES = [node("a", "z1"), node("b", "z1"), node("x", "z2"), node("bare")]
new = make_pod


def verdicts(pod: PodBuilder, columns: NodeColumns) -> dict[str, str]:
    by, state, info = plugin(), CycleState(), pod.info()
    if by.pre_filter(state, info, columns).verdict.code is Code.SKIP:
        return {"skipped": ""}
    return said(by, state, info, columns)


def said(by: InterPodAffinity, state: CycleState, pod: PodInfo, columns: NodeColumns) -> dict[str, str]:
    column = by.filter(state, pod, columns)
    given = {columns.names[slot]: column.verdict_at(slot) for slot in np.flatnonzero(columns.live).tolist()}
    for v in given.values():
        assert not v.reasons or (v.code is Code.UNSCHEDULABLE) == (v.reasons[0].code != NEAR)
    return {name: v.reasons[0].code if v.reasons else PASSES for name, v in given.items()}


def row(a: str, b: str, x: str, bare: str) -> dict[str, str]:
    return {"a": a, "b": b, "x": x, "bare": bare}


CASES: dict[str, tuple[PodBuilder, list[PodBuilder], dict[str, str]]] = {
    "nothing asked": (new("new"), [web("w", "a")], {"skipped": ""}),
    "near a pod": (asks(new("new"), near=[term()]), [web("w", "a")], row(PASSES, PASSES, NEAR, NEAR)),
    "near no pod at all": (asks(new("new"), near=[term()]), [], row(NEAR, NEAR, NEAR, NEAR)),
    "near its like, and the first": (
        asks(new("new").label("app", "web"), near=[term()]), [], row(PASSES, PASSES, PASSES, NEAR)),
    "the first must match all its own terms": (
        asks(new("new").label("app", "web"), near=[term(), term(selector={"matchLabels": {"app": "db"}})]),
        [], row(NEAR, NEAR, NEAR, NEAR)),
    "not the first, though its like is on a node without the key": (
        asks(new("new").label("app", "web"), near=[term(), term(HOST)]), [web("w", "bare")],
        row(NEAR, NEAR, NEAR, NEAR)),
    "one pod must match every term": (
        asks(new("new"), near=[term(), term(HOST, {"matchLabels": {"tier": "front"}})]),
        [web("w", "a"), make_pod("t").label("tier", "front").node("a")], row(NEAR, NEAR, NEAR, NEAR)),
    "each key is looked up by itself": (
        asks(new("new"), near=[term(), term(HOST)]), [web("w", "a"), web("v", "x")], row(PASSES, NEAR, PASSES, NEAR)),
    "far from a pod": (asks(new("new"), far=[term()]), [web("w", "a")], row(FAR, FAR, PASSES, PASSES)),
    "far by hostname": (asks(new("new"), far=[term(HOST)]), [web("w", "a")], row(FAR, PASSES, PASSES, PASSES)),
    "a running pod objects": (
        new("new").label("app", "web"), [asks(make_pod("o").node("a"), far=[term()])],
        row(OTHERS, OTHERS, PASSES, PASSES)),
    "a running pod on a node without the key cannot object": (
        new("new").label("app", "web"), [asks(make_pod("o").node("bare"), far=[term()])], {"skipped": ""}),
    "a running pod's affinity keeps nobody away": (
        new("new").label("app", "web"), [asks(make_pod("o").node("a"), near=[term()])], {"skipped": ""}),
    "terminating pods count": (
        asks(new("new"), far=[term()]), [web("w", "a").terminating()], row(FAR, FAR, PASSES, PASSES)),
    "pods of other namespaces do not": (asks(new("new"), far=[term()]), [web("w", "a", "red")], row(*[PASSES] * 4)),
    "unless they are named": (
        asks(new("new"), far=[term(namespaces=["red"])]), [web("w", "a", "red"), web("v", "x")],
        row(FAR, FAR, PASSES, PASSES)),
    "or selected": (
        asks(new("new"), far=[term(namespaceSelector={"matchLabels": {"team": "red"}})]),
        [web("w", "a", "red"), web("v", "x", "blue")], row(FAR, FAR, PASSES, PASSES)),
    "the empty namespace selector means all, unknown ones too": (
        asks(new("new"), far=[term(namespaceSelector={})]), [web("w", "a", "unknown")], row(FAR, FAR, PASSES, PASSES)),
    "one that matches a namespace without labels means all, as upstream": (
        asks(new("new"), far=[term(namespaceSelector={"matchExpressions": [expression("team", "NotIn", "red")]})]),
        [web("w", "a", "red")], row(FAR, FAR, PASSES, PASSES)),
    "a running pod's namespace selector asks for the newcomer's": (
        new("new", "blue").label("app", "web"),
        [asks(make_pod("o").node("a"), far=[term(namespaceSelector={"matchLabels": {"team": "blue"}})]),
         asks(make_pod("p").node("x"), far=[term(namespaceSelector={"matchLabels": {"team": "red"}})])],
        row(OTHERS, OTHERS, PASSES, PASSES)),
    "no selector matches nothing": (asks(new("new"), far=[term(selector=None)]), [web("w", "a")], row(*[PASSES] * 4)),
    "the empty selector matches every pod": (
        asks(new("new"), far=[term(selector={})]), [make_pod("p").node("a")], row(FAR, FAR, PASSES, PASSES)),
    "the pod's affinity is told before its anti-affinity, and that before what others ask": (
        asks(new("new").label("app", "web"), near=[term(HOST)], far=[term(selector={"matchLabels": {"app": "db"}})]),
        [web("w", "a"), web("v", "x"), make_pod("d").label("app", "db").node("b"),
         asks(make_pod("o").node("x"), far=[term()])],
        row(FAR, NEAR, OTHERS, NEAR)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_required_terms(case: str) -> None:
    pod, running, expected = CASES[case]
    assert verdicts(pod, columns_of(NODES, running)) == expected


def test_reasons_name_the_key_and_a_pod_in_the_way() -> None:
    columns, by, state = columns_of(NODES, [web("w", "a"), web("v", "a")]), plugin(), CycleState()
    pod = asks(new("new"), far=[term()]).info()
    by.pre_filter(state, pod, columns)
    (reason,) = by.filter(state, pod, columns).verdict_at(columns.index["b"]).reasons
    assert reason == Reason("pod-anti-affinity", {"key": ZONE, "pod": "default/w"})


def test_where_many_domains_are_closed_no_pod_is_named() -> None:
    nodes = [node(f"n{i}") for i in range(20)]
    columns, by, state = columns_of(nodes, [web(f"w{i}", f"n{i}") for i in range(20)]), plugin(), CycleState()
    pod = asks(new("new"), far=[term(HOST)]).info()
    by.pre_filter(state, pod, columns)
    (_, verdict) = by.filter(state, pod, columns).table
    assert verdict.reasons == (Reason("pod-anti-affinity", {"key": HOST, "pod": ""}),)


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        (WEB, "app=web"),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}, "tier=front"),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, ""),
    ],
)
def test_the_labels_for_which_a_running_pod_excludes_the_new_one_are_told(selector: Json, labels: str) -> None:
    guard = asks(web("guard", "a"), far=[term(HOST), term(ZONE, selector, namespaces=["default"])])
    pod, by, state = new().label("app", "web").label("tier", "front").info(), plugin(), CycleState()
    columns = columns_of(NODES, [guard])
    by.pre_filter(state, pod, columns)
    (reason,) = by.filter(state, pod, columns).verdict_at(columns.index["b"]).reasons
    assert reason == Reason(OTHERS, {"key": ZONE, "pod": "default/guard", "labels": labels})


def test_a_pod_with_invalid_terms_is_rejected() -> None:
    pod = asks(new("new"), rather_near=[(1, term(selector={"matchExpressions": [expression("app", "Near")]}))])
    result = plugin().pre_filter(CycleState(), pod.info(), columns_of(NODES)).verdict
    assert result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert result.reasons[0].params["text"].startswith("parsing pod: ")


def test_running_pod_with_invalid_terms_rejects_no_other_pod() -> None:
    bad = asks(make_pod("o").node("a"), far=[term(selector={"matchExpressions": [expression("app", "In")]})])
    assert verdicts(new("new").label("app", "web"), columns_of(NODES, [bad])) == {"skipped": ""}


# --- scores -----------------------------------------------------------------------------------------------------------


def scores(
    pod: PodBuilder, columns: NodeColumns, feasible: Sequence[str] = ("a", "b", "x", "bare"), **args: Any
) -> tuple[list[int], list[int]] | None:
    """Raw and normalised points in the order of `feasible`; None where the plugin skips."""
    by, state, info, order = plugin(**args), CycleState(), pod.info(), [columns.index[n] for n in feasible]
    mask = np.isin(np.arange(columns.slots), order)
    if by.pre_score(state, info, columns, mask).code is Code.SKIP:
        return None
    raw = np.where(mask, by.score(state, info, columns, mask), 0)
    return raw[order].tolist(), by.normalize(state, info, raw, mask)[order].tolist()


LIKES = asks(make_pod("l").node("a"), rather_near=[(5, term())])
NEEDS = asks(make_pod("l").node("a"), near=[term()])

SCORED: dict[str, tuple[PodBuilder, list[PodBuilder], Json, list[int] | None]] = {
    "nobody asks for anything": (new("new"), [web("w", "a")], {}, None),
    "rather near": (asks(new("new"), rather_near=[(5, term())]), [web("w", "a"), web("v", "b")], {}, [10, 10, 0, 0]),
    "rather far": (asks(new("new"), rather_far=[(5, term())]), [web("w", "a")], {}, [-5, -5, 0, 0]),
    "no pod is meant": (asks(new("new"), rather_near=[(5, term())]), [], {}, None),
    "pods on nodes without the key do not count": (
        asks(new("new"), rather_near=[(5, term())]), [web("w", "bare")], {}, None),
    "what adds up to nothing is not nothing": (
        asks(new("new"), rather_near=[(5, term())], rather_far=[(5, term())]), [web("w", "a")], {}, [0, 0, 0, 0]),
    "a running pod's preference": (new("new").label("app", "web"), [LIKES], {}, [5, 5, 0, 0]),
    "a running pod's dislike": (
        new("new").label("app", "web"), [asks(make_pod("l").node("a"), rather_far=[(5, term())])], {}, [-5, -5, 0, 0]),
    "a running pod's need is worth one point": (new("new").label("app", "web"), [NEEDS], {}, [1, 1, 0, 0]),
    "or as many as configured": (
        new("new").label("app", "web"), [NEEDS], {"hardPodAffinityWeight": 50}, [50, 50, 0, 0]),
    "or none": (new("new").label("app", "web"), [NEEDS], {"hardPodAffinityWeight": 0}, None),
    "running pods' preferences ignored": (
        new("new").label("app", "web"), [LIKES], {"ignorePreferredTermsOfExistingPods": True}, None),
    "but not for a pod that has its own": (
        asks(new("new").label("app", "web"), rather_near=[(2, term(HOST, {"matchLabels": {"app": "db"}}))]), [LIKES],
        {"ignorePreferredTermsOfExistingPods": True}, [5, 5, 0, 0]),
    "another namespace": (new("new", "red").label("app", "web"), [LIKES], {}, None),
}  # fmt: skip


@pytest.mark.parametrize("case", SCORED)
def test_preferred_terms(case: str) -> None:
    pod, running, args, raw = SCORED[case]
    found = scores(pod, columns_of(NODES, running), **args)
    assert (found and found[0]) == raw


@pytest.mark.parametrize(
    ("raw", "normalized"),
    [([29, 0, 100], [28, 0, 100]), ([-5, 0, 5], [0, 50, 100]), ([3, 3], [0, 0]), ([0, 1, 3], [0, 33, 100])],
)
def test_points_lie_between_the_least_and_the_most(raw: list[int], normalized: list[int]) -> None:
    """Upstream's float expression, cut: 29 of 100 is 28."""
    given_, feasible = np.array([*raw, -1000]), np.array([True] * len(raw) + [False])
    points = plugin().normalize(CycleState(), new("new").info(), given_, feasible)
    assert points[feasible].tolist() == normalized


@pytest.mark.parametrize(("weight", "problems"), [(0, 0), (100, 0), (-1, 1), (101, 1)])
def test_arguments(weight: int, problems: int) -> None:
    found = InterPodAffinityArgs(hard_pod_affinity_weight=weight).problems()
    assert list(found) == [invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]")] * problems


# --- against a model that walks ---------------------------------------------------------------------------------------

apps = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db"]), max_size=2)
selectors = st.one_of(
    st.none(),
    st.builds(lambda its: {"matchLabels": its}, apps),
    st.just({"matchExpressions": [expression("app", "NotIn", "db")]}),
)
namespace_selectors = st.sampled_from(
    [
        {},
        {"matchLabels": {"team": "red"}},
        {"matchExpressions": [expression("team", "DoesNotExist")]},
        {"matchExpressions": [expression("team", "Exists")]},
    ]
)
terms = st.builds(
    lambda key, selector, more: term(key, selector, **more),
    st.sampled_from([HOST, ZONE]),
    selectors,
    st.fixed_dictionaries(
        {},
        optional={
            "namespaces": st.lists(st.sampled_from(["default", "red"]), max_size=2),
            "namespaceSelector": namespace_selectors,
        },
    ),
)
weighted = st.lists(st.tuples(st.integers(1, 100), terms), max_size=2)


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    pod = make_pod(name, draw(st.sampled_from(["default", "default", "red", "unknown"])))
    pod.json["metadata"]["labels"] = draw(apps)
    if draw(st.booleans()):
        few = st.lists(terms, max_size=2)
        asks(pod, draw(few), draw(few), draw(weighted), draw(weighted))
    return pod


Cluster = tuple[list[NodeBuilder], list[PodBuilder]]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = [node(f"n{i}", draw(st.sampled_from([None, "z1", "z2"]))) for i in range(draw(st.integers(1, 4)))]
    count = draw(st.integers(0, 6))
    return nodes, [draw(pods(f"p{i}")).node(f"n{draw(st.integers(0, len(nodes) - 1))}") for i in range(count)]


def matches(selector: Json | None, its: Json) -> bool:
    if selector is None:
        return False
    for e in selector.get("matchExpressions", ()):
        value = its.get(e["key"])
        holds = {
            "NotIn": value not in e.get("values", ()),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[e["operator"]]:
            return False
    return all(its.get(k) == v for k, v in selector.get("matchLabels", {}).items())


def wanted(pod: Json, kind: str, when: str) -> list[Json]:
    found: list[Json] = pod["spec"].get("affinity", {}).get(kind, {}).get(when, [])
    return found


class Model:
    """The reference, node by node and pod by pod."""

    def __init__(self, cluster: Cluster, pod: PodBuilder) -> None:
        self.labels = {n.json["metadata"]["name"]: n.json["metadata"]["labels"] for n in cluster[0]}
        self.pods = [p.json for p in cluster[1]]
        self.pod = pod.json

    def means(self, t: Json, owner: Json, pod: Json, *, incoming: bool) -> bool:
        """`incoming`: the term is the incoming pod's, whose namespace selector is looked up, and asked once more."""
        namespace, selector = pod["metadata"]["namespace"], t.get("namespaceSelector")
        names = set(t.get("namespaces") or ([owner["metadata"]["namespace"]] if selector is None else []))
        labels = NAMESPACES.get(namespace, {})
        if incoming:
            names |= {n for n, its in NAMESPACES.items() if matches(selector, its)}
            labels = {}
        in_namespace = namespace in names or matches(selector, labels)
        return in_namespace and matches(t.get("labelSelector"), pod["metadata"]["labels"])

    def on(self, pod: Json, key: str) -> tuple[str, str] | None:
        value = self.labels[pod["spec"]["nodeName"]].get(key)
        return None if value is None else (key, value)

    def verdicts(self) -> dict[str, str]:
        near, far = wanted(self.pod, "podAffinity", REQUIRED), wanted(self.pod, "podAntiAffinity", REQUIRED)
        affinity, anti, existing = set(), set(), set()
        for p in self.pods:
            if near and all(self.means(t, self.pod, p, incoming=True) for t in near):
                affinity |= {self.on(p, t["topologyKey"]) for t in near}
            anti |= {self.on(p, t["topologyKey"]) for t in far if self.means(t, self.pod, p, incoming=True)}
            objecting = wanted(p, "podAntiAffinity", REQUIRED)
            existing |= {self.on(p, t["topologyKey"]) for t in objecting if self.means(t, p, self.pod, incoming=False)}
        for found in (affinity, anti, existing):
            found.discard(None)
        if not (near or far or existing):
            return {"skipped": ""}
        first = not affinity and all(self.means(t, self.pod, self.pod, incoming=True) for t in near)
        given_ = {}
        for name, its in self.labels.items():
            given_[name] = PASSES
            keys = [t["topologyKey"] for t in near]
            if not all(k in its for k in keys) or not (first or all((k, its[k]) in affinity for k in keys)):
                given_[name] = NEAR
            elif any((t["topologyKey"], its.get(t["topologyKey"])) in anti for t in far):
                given_[name] = FAR
            elif existing & set(its.items()):
                given_[name] = OTHERS
        return given_

    def raw(self, feasible: Sequence[str]) -> list[int] | None:
        points: dict[tuple[str, str], int] = {}

        def add(p: Json, t: Json, weight: int) -> None:
            where = self.on(p, t["topologyKey"])
            if where is not None:
                points[where] = points.get(where, 0) + weight

        for p in self.pods:
            for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                for w in wanted(self.pod, kind, PREFERRED):
                    if self.means(w["podAffinityTerm"], self.pod, p, incoming=True):
                        add(p, w["podAffinityTerm"], sign * w["weight"])
                for w in wanted(p, kind, PREFERRED):
                    if self.means(w["podAffinityTerm"], p, self.pod, incoming=False):
                        add(p, w["podAffinityTerm"], sign * w["weight"])
            for t in wanted(p, "podAffinity", REQUIRED):
                if self.means(t, p, self.pod, incoming=False):
                    add(p, t, 1)
        return [sum(points.get(pair, 0) for pair in self.labels[n].items()) for n in feasible] if points else None


@settings(max_examples=examples(300), deadline=None)
@given(clusters(), pods("new"))
def test_filter_equals_a_walk_over_nodes_and_pods(cluster: Cluster, pod: PodBuilder) -> None:
    assert verdicts(pod, columns_of(*cluster)) == Model(cluster, pod).verdicts()


@settings(max_examples=examples(300), deadline=None)
@given(clusters(), pods("new"), st.data())
def test_scores_equal_a_walk_over_nodes_and_pods(cluster: Cluster, pod: PodBuilder, data: st.DataObject) -> None:
    model = Model(cluster, pod)
    feasible = data.draw(st.lists(st.sampled_from(sorted(model.labels)), min_size=1, unique=True))
    found = scores(pod, columns_of(*cluster), feasible)
    raw = model.raw(feasible)
    if raw is None:
        assert found is None
    else:
        least, most = min(raw), max(raw)
        points = [int(100.0 * ((r - least) / (most - least))) if most > least else 0 for r in raw]
        assert found == (raw, points)


@settings(max_examples=examples(200), deadline=None)
@given(clusters(), pods("new"), st.data())
def test_a_pod_tried_on_or_off_a_node_equals_counting_anew(
    cluster: Cluster, pod: PodBuilder, data: st.DataObject
) -> None:
    nodes, running = cluster
    removed = data.draw(st.lists(st.sampled_from(running), unique_by=id)) if running else []
    by, state, info = plugin(), CycleState(), pod.info()
    before, after = columns_of(nodes, running), columns_of(nodes, [p for p in running if p not in removed])
    if by.pre_filter(state, info, before).verdict.code is Code.SKIP:
        return
    trial, passing = state.clone(), dict.fromkeys(before.index, PASSES)
    for p in removed:
        by.remove_pod(trial, info, p.info(), after, after.index[p.spec["nodeName"]])
    anew = verdicts(pod, after)
    assert said(by, trial, info, after) == (passing if "skipped" in anew else anew)
    for p in removed:
        by.add_pod(trial, info, p.info(), before, before.index[p.spec["nodeName"]])
    assert said(by, trial, info, before) == said(by, state, info, before)
