"""Plugins on small clusters: upstream's vectors, and what the recorded families cannot show (parameters, wake-ups)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from herodotus_record import reasons
from herodotus_record.model import Code, DecisionPath, Reason, Verdict
from scheduler.config import build_profile, parse_config
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects import request_parts
from scheduler.engine.plugins import IN_TREE, node_resources_fit
from scheduler.engine.plugins.image_locality import ImageLocality
from scheduler.engine.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from scheduler.engine.plugins.taint_toleration import TaintToleration
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import (
    MIB,
    NodeBuilder,
    PodBuilder,
    columns_of,
    expression,
    make_node,
    make_pod,
    named,
    term,
)
from tests.support.configurations import HEAD


def decide(columns: NodeColumns, pod: PodBuilder, config: str = "") -> CycleResult:
    profile = build_profile(parse_config(HEAD + config), 0, IN_TREE, NoCluster())
    return schedule(Framework(profile, time.monotonic), pod.info(), Snapshot.from_columns(columns), seed=0)


def normalized(result: CycleResult) -> dict[str, list[int]]:
    return {r.plugin: r.normalized.tolist() for r in result.trace.scores if r.normalized is not None}


def said(columns: NodeColumns, pod: PodBuilder, config: str = "") -> list[list[tuple[str, Code, list[Reason]]]]:
    """Per node what rejects the pod: (plugin, code, reasons)."""
    trace = decide(columns, pod, config).trace
    found = []
    for slot in np.flatnonzero(trace.evaluated):
        row = [(run.plugin, run.verdicts.verdict_at(int(slot))) for run in trace.filters]
        found.append([(plugin, v.code, list(v.reasons)) for plugin, v in row if v.code])
    return found


def test_the_worked_example() -> None:
    """Three nodes with a column per score; the last but one is the gain in balance of v1.36, not the balance itself."""
    columns = columns_of(
        [make_node("n1"), make_node("n2"), make_node("n3")],
        [make_pod("a").request(cpu="2", memory="4Gi").node("n1"), make_pod("b").request().node("n2")],
    )
    result = decide(columns, make_pod().request(cpu="1", memory="2Gi"))
    points = normalized(result)
    assert points["TaintToleration"] == [100, 100, 100]
    assert points["NodeResourcesFit"] == [43, 79, 81]
    assert points["NodeResourcesBalancedAllocation"] == [50 + (50 + 81 - 87) // 2, 50 + (50 + 93 - 100) // 2, 71]
    assert points["ImageLocality"] == [0, 0, 0]
    assert "NodeAffinity" not in points
    assert (result.path, result.chosen) == (DecisionPath.SCORED, 2)


@pytest.mark.parametrize(
    ("images", "nodes", "score"),
    [
        pytest.param(["a", "x"], [{"a": 250}, {}], 5, id="250 MiB on one of two"),
        pytest.param(["a", "x"], [{"a": 40}, {}], 0, id="40 MiB is not worth it"),
        pytest.param(["a", "b"], [{"a": 40, "b": 300}, {}], 7, id="two images"),
        pytest.param(["a", "x"], [{"a": 4000}, {}], 100, id="no more than all"),
        pytest.param(["a", "x"], [{"a": 4000}, {}, {}], 66, id="one of three"),
        pytest.param(["a", "a"], [{"a": 250}, {}], 11, id="an image used twice counts twice"),
        pytest.param(["x", "y"], [{"a": 4000}, {}], 0, id="images that nobody has"),
    ],
)
def test_image_locality_upstream(images: list[str], nodes: list[Mapping[str, int]], score: int) -> None:
    made = [make_node(f"n{i}") for i in range(len(nodes))]
    for node, has in zip(made, nodes, strict=True):
        for name, mib in has.items():
            node.image(mib * MIB, f"{name}:latest")
    columns, pod = columns_of(made), make_pod().image(*images).info()
    everywhere = np.ones(len(nodes), np.bool_)
    assert int(ImageLocality(None, NoCluster()).score(CycleState(), pod, columns, everywhere)[0]) == score


@pytest.mark.parametrize(
    ("image", "known_as"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("reg:5000/nginx", "reg:5000/nginx:latest"),
        ("reg:5000/nginx:1", "reg:5000/nginx:1"),
        ("nginx@sha256:abc", "nginx@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image: str, known_as: str) -> None:
    columns, pod = columns_of([make_node().image(4000 * MIB, known_as)]), make_pod().image(image).info()
    scores = ImageLocality(None, NoCluster()).score(CycleState(), pod, columns, np.ones(1, np.bool_))
    assert scores.tolist() == [100]


def test_an_image_volume_counts_and_a_pod_without_containers_does_not() -> None:
    columns = columns_of([make_node().image(4000 * MIB, "v:1")])
    plugin, one = ImageLocality(None, NoCluster()), np.ones(1, np.bool_)
    volumes = [{"name": "v", "image": {"reference": "v:1"}}]
    with_container = make_pod().image("x").with_spec(volumes=volumes).info()
    assert plugin.score(CycleState(), with_container, columns, one).tolist() == [100]
    assert plugin.score(CycleState(), make_pod().with_spec(volumes=volumes).info(), columns, one).tolist() == [0]


def fit(pod: PodBuilder, node: NodeBuilder, *running: PodBuilder, **args: Any) -> Verdict:
    plugin = NodeResourcesFit(NodeResourcesFitArgs(**args), NoCluster())
    return plugin.filter(CycleState(), pod.info(), columns_of([node], [p.node("n") for p in running])).verdict_at(0)


def short(*resources: str) -> tuple[Reason, ...]:
    return tuple(Reason("insufficient", {"resource": r}) for r in resources)


class TestFit:
    def test_everything_that_is_short_in_kube_schedulers_order(self) -> None:
        pod = make_pod().request(
            {
                "z.com/b": "1",
                "a.com/a": "1",
                "memory": "1Ti",
                "cpu": "5",
                "ephemeral-storage": "1",
                "hugepages-2Mi": "2Mi",
            }
        )
        assert fit(pod, make_node().allocatable(pods="0")) == Verdict(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            (
                Reason("too-many-pods"),
                *short("cpu", "memory", "ephemeral-storage", "a.com/a", "hugepages-2Mi", "z.com/b"),
            ),
        )

    @pytest.mark.parametrize(
        ("asks", "code"),
        [("4", Code.SUCCESS), ("4001m", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)],
        ids=["exactly all", "more than there is"],
    )
    def test_an_empty_node(self, asks: str, code: Code) -> None:
        assert fit(make_pod().request(cpu=asks), make_node()).code is code

    def test_rejection_that_eviction_could_help_is_resolvable(self) -> None:
        verdict = fit(make_pod().request(cpu="2"), make_node(), make_pod("r").request(cpu="3"))
        assert verdict == Verdict(Code.UNSCHEDULABLE, short("cpu"))

    def test_one_unresolvable_resource_makes_the_node_unresolvable(self) -> None:
        verdict = fit(make_pod().request({"cpu": "2", "x.com/y": "1"}), make_node(), make_pod("r").request(cpu="3"))
        assert verdict == Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, short("cpu", "x.com/y"))

    @pytest.mark.parametrize("count", [61, 62, 63, 200])
    def test_each_of_many_resources_is_named_only_where_it_is_short(self, count: int) -> None:
        names = sorted(f"x.com/r{i}" for i in range(count))
        has_all = dict.fromkeys(names, "2")
        nodes = [make_node(n).allocatable(has_all) for n in ("all", "used", "lacks")]
        nodes[2].allocatable({names[-1]: "0", names[0]: "1"})
        columns = columns_of([*nodes, make_node("none")], [make_pod("r").request({names[-1]: "1"}).node("used")])
        pod = make_pod().request(dict.fromkeys(names, "2")).info()
        verdicts = NodeResourcesFit(NodeResourcesFitArgs(), NoCluster()).filter(CycleState(), pod, columns)
        assert [verdicts.verdict_at(slot) for slot in range(4)] == [
            Verdict(Code.SUCCESS),
            Verdict(Code.UNSCHEDULABLE, short(names[-1])),
            Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, short(names[0], names[-1])),
            Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, short(*names)),
        ]

    def test_resource_that_no_node_has_is_short_everywhere_unless_the_sum_of_requests_wrapped_around(self) -> None:
        pods = [make_pod(f"r{i}").request({"x.com/y": "9E"}).node("a") for i in range(2)]
        columns = columns_of([make_node("a"), make_node("b")], pods)
        pod = make_pod().request({"x.com/y": "1", "x.com/zero": "0", "x.com/z": "1"}).info()
        verdicts = NodeResourcesFit(NodeResourcesFitArgs(), NoCluster()).filter(CycleState(), pod, columns)
        assert [verdicts.verdict_at(slot).reasons for slot in range(2)] == [
            short("x.com/z"),
            short("x.com/y", "x.com/z"),
        ]

    def test_pod_without_requests_passes_on_an_overcommitted_node(self) -> None:
        over = make_pod("r").request(cpu="9", memory="1Ti")
        assert fit(make_pod().request(cpu="0"), make_node(), over).code is Code.SUCCESS
        assert fit(make_pod().request(cpu="1m"), make_node(), over).reasons == short("cpu")

    def test_a_pod_without_requests_is_rejected_by_too_many_pods(self) -> None:
        verdict = fit(make_pod(), make_node().allocatable(pods="1"), make_pod("r"))
        assert verdict == Verdict(Code.UNSCHEDULABLE, (Reason("too-many-pods"),))

    def test_ignored_resources_and_groups(self) -> None:
        pod = make_pod().request({"a.com/x": "1", "b.com/y": "1", "b.com/z": "1", "hugepages-2Mi": "2Mi"})
        verdict = fit(
            pod, make_node(), ignored_resources=("a.com/x", "hugepages-2Mi"), ignored_resource_groups=("b.com",)
        )
        assert verdict.reasons == short("hugepages-2Mi")  # only extended resources can be ignored

    @pytest.mark.parametrize(
        ("strategy", "scores"),
        [
            ("{type: LeastAllocated}", [37, 87]),
            ("{type: MostAllocated}", [62, 12]),
            ("{type: LeastAllocated, resources: [{name: cpu, weight: 3}, {name: memory}]}", [31, 81]),
            ("{type: LeastAllocated, resources: [{name: x.com/y}]}", [0, 0]),
            (
                "{type: RequestedToCapacityRatio, requestedToCapacityRatio:"
                " {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}",
                [63, 25],  # what scores 0 does not pull the mean down
            ),
        ],
    )
    def test_strategies(self, strategy: str, scores: list[int]) -> None:
        """With the pod the first node uses 3 of 4 cpu and half of the memory, the second a quarter and none."""
        nodes = [make_node("a").allocatable(memory="1000"), make_node("b").allocatable(memory="1000")]
        columns = columns_of(nodes, [make_pod("r").request(cpu="2", memory="500").node("a")])
        args = f"{{scoringStrategy: {strategy}}}"
        config = f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]"
        points = normalized(decide(columns, make_pod().request(cpu="1", memory="0"), config))
        assert points["NodeResourcesFit"] == scores


class TestTaints:
    def test_every_hard_taint_that_is_not_tolerated_is_named_the_first_one_apart(self) -> None:
        node = make_node().taint("soft", effect="PreferNoSchedule").taint("ok").taint("a", "1", "NoExecute").taint("b")
        (row,) = said(columns_of([node]), make_pod().toleration("ok", operator="Exists"))
        named = {"key": "a", "value": "1", "effect": "NoExecute"}
        reason = Reason("untolerated-taint", named | {"others": "b:NoSchedule"})
        assert row == [("TaintToleration", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, [reason])]

    @pytest.mark.parametrize(
        ("tolerations", "raw"),
        [
            ([], [0, 1, 2]),
            ([{"key": "a", "operator": "Exists"}], [0, 0, 1]),
            ([{"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"}], [0, 0, 1]),
            ([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], [0, 1, 2]),
            ([{"operator": "Exists"}], [0, 0, 0]),
        ],
    )
    def test_soft_taints_are_counted(self, tolerations: list[object], raw: list[int]) -> None:
        soft = "PreferNoSchedule"
        nodes = [
            make_node("0"),
            make_node("1").taint("a", effect=soft),
            make_node("2").taint("a", effect=soft).taint("b", effect=soft),
        ]
        pod = make_pod().with_spec(tolerations=tolerations).info()
        plugin, feasible = TaintToleration(None, NoCluster()), np.ones(3, np.bool_)
        points = plugin.score(CycleState(), pod, columns_of(nodes), feasible)
        assert points.tolist() == raw
        top = max(raw)
        expected = [100 - 100 * r // top if top else 100 for r in raw]
        assert plugin.normalize(CycleState(), pod, points, feasible).tolist() == expected

    def test_cordoned_nodes_are_rejected_once_by_the_cordon_and_tolerated_by_its_taint(self) -> None:
        columns = columns_of([make_node().cordoned()])
        assert said(columns, make_pod()) == [
            [("NodeUnschedulable", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, [Reason("unschedulable")])]
        ]
        assert said(columns, make_pod().toleration("node.kubernetes.io/unschedulable", operator="Exists")) == [[]]


class TestAffinity:
    NODES = (make_node("a").label("disk", "ssd").label("gen", "7"), make_node("b").label("disk", "hdd"), make_node("c"))

    @pytest.mark.parametrize(
        ("pod", "fits"),
        [
            pytest.param(make_pod().node_selector(disk="ssd"), "a", id="selector"),
            pytest.param(make_pod().required_terms(term(expression("disk", "In", "ssd", "hdd"))), "ab", id="In"),
            pytest.param(
                make_pod().required_terms(term(expression("disk", "NotIn", "ssd"))),
                "bc",
                id="NotIn matches nodes without the key",
            ),
            pytest.param(make_pod().required_terms(term(expression("disk", "DoesNotExist"))), "c", id="DoesNotExist"),
            pytest.param(make_pod().required_terms(term(expression("gen", "Gt", "6"))), "a", id="Gt"),
            pytest.param(
                make_pod().required_terms(term(expression("gen", "Lt", "6"))), "", id="Lt never matches without the key"
            ),
            pytest.param(
                make_pod().required_terms(term(expression("disk", "Exists"), expression("gen", "Exists"))),
                "a",
                id="expressions are ANDed",
            ),
            pytest.param(
                make_pod().required_terms(term(expression("gen", "Exists")), named("b")), "ab", id="terms are ORed"
            ),
            pytest.param(make_pod().required_terms(term()), "", id="an empty term matches nothing"),
            pytest.param(make_pod().required_terms(), "", id="no terms match nothing"),
            pytest.param(
                make_pod().required_terms(term(expression("k", "Near")), term(expression("disk", "Exists"))),
                "ab",
                id="a malformed term matches nothing",
            ),
            pytest.param(make_pod().required_terms(named("b"), named("c")), "bc", id="names narrow"),
            pytest.param(make_pod().required_terms(named("b", "c")), "", id="names that contradict each other"),
            pytest.param(
                make_pod().required_terms(named("b", "c"), named("a")), "a", id="and another term that rescues"
            ),
            pytest.param(
                make_pod().required_terms(term(fields=[expression("metadata.name", "NotIn", "a")])),
                "bc",
                id="NotIn a name",
            ),
        ],
    )
    def test_required(self, pod: PodBuilder, fits: str) -> None:
        result = decide(columns_of(self.NODES), pod.request(cpu="1"))
        assert "".join(name for name, ok in zip("abc", result.trace.feasible, strict=True) if ok) == fits

    def test_preferred_weights_add_up(self) -> None:
        pod = (
            make_pod().preferred(10, term(expression("disk", "Exists"))).preferred(5, term(expression("gen", "Exists")))
        )
        pod.preferred(0, term(expression("gen", "Exists"))).preferred(50, term())
        assert normalized(decide(columns_of(self.NODES), pod))["NodeAffinity"] == [100, 66, 0]

    def test_a_malformed_preference_fails_the_attempt(self) -> None:
        result = decide(columns_of(self.NODES), make_pod().preferred(1, term(expression("k", "Near"))))
        assert result.path is DecisionPath.ERROR
        assert result.message == (
            'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].operator: Unsupported value: "Near":'
            ' supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
        )

    def test_affinity_that_a_profile_adds(self) -> None:
        terms = "{nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}"
        added = f"{{addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {terms}}}}}"
        config = f"profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {added}}}]}}]"
        result = decide(columns_of(self.NODES), make_pod().node_selector(gen="8"), config)
        words = [
            reasons.format_reason(v.verdict_at(s).reasons[0])
            for s in range(3)
            for v in (r.verdicts for r in result.trace.filters)
            if v.verdict_at(s).code
        ]
        match, enforced = (
            "node(s) didn't match Pod's node affinity/selector",
            "node(s) didn't match scheduler-enforced node affinity",
        )
        assert words == [match, match, enforced]

    def test_reason_names_the_requested_resource(self) -> None:
        pod = make_pod().node_selector(gen="8").required_terms(term(expression("disk", "In", "ssd")), named("c"))
        ((rejected,),) = said(columns_of([make_node("x")]), pod)
        wanted = Reason("node-affinity", {"wants": "gen=8, disk=ssd or metadata.name=c"})
        assert rejected == ("NodeAffinity", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, [wanted])


class TestPorts:
    def test_the_ports_that_are_taken_are_named_node_by_node(self) -> None:
        columns = columns_of(
            [make_node("a"), make_node("b"), make_node("c")],
            [
                make_pod("1").host_port(80).host_port(53, "UDP").node("a"),
                make_pod("2").host_port(80, ip="10.0.0.1").node("b"),
                make_pod("3").host_port(80, "UDP").node("c"),
            ],
        )
        rows = said(columns, make_pod().host_port(80).host_port(53, "UDP"))
        assert [[reason.params["ports"] for _, _, (reason,) in row] for row in rows] == [
            ["80/TCP, 53/UDP"],
            ["80/TCP"],
            [],
        ]
        assert {code for row in rows for _, code, _ in row} == {Code.UNSCHEDULABLE}

    def test_a_pods_own_containers_never_conflict(self) -> None:
        assert said(columns_of([make_node()]), make_pod().host_port(80).host_port(80)) == [[]]


# --- parameters that only readers need --------------------------------------------------------------------------------


def params_by_node(columns: NodeColumns, pod: PodBuilder) -> dict[str, dict[str, str]]:
    """Return by node the parameters of the reasons of its first rejection."""
    trace, found = decide(columns, pod).trace, {}
    for slot in np.flatnonzero(trace.evaluated).tolist():
        verdicts = (run.verdicts.verdict_at(slot) for run in trace.filters)
        first = next(verdict for verdict in verdicts if verdict.code)
        found[columns.names[slot]] = {name: text for r in first.reasons for name, text in r.params.items()}
    return found


PARTS = {
    "the only container": (make_pod().request(cpu="6"), None),
    "an init container alone": (make_pod().request(cpu="1").container({"cpu": "6"}, name="migrate", init=True), "init"),
    "a sidecar beside the container": (
        make_pod().container({"cpu": "3"}, name="main").container({"cpu": "3"}, name="side", sidecar=True),
        "sidecar side 3 + main 3",
    ),
    "overhead": (
        make_pod().container({"cpu": "3900m"}, name="main").overhead(cpu="250m"),
        "main 3900m + overhead of the runtime class 250m",
    ),
    "the whole pod": (make_pod().request(cpu="1").pod_level(cpu="6"), "spec.resources of the pod"),
    "one of two containers": (make_pod().container({"cpu": "6"}, name="big").container(name="idle"), "container big"),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_shortage_tells_what_makes_up_the_request(case: str) -> None:
    pod, parts = PARTS[case]
    parts = "init container migrate" if parts == "init" else parts
    found = params_by_node(columns_of([make_node("n").allocatable(cpu="4")]), pod)
    assert found == {"n": {"resource": "cpu"} | ({"parts": parts} if parts else {})}


def test_a_shortage_tells_the_capacity_that_is_not_allocatable() -> None:
    sick = make_node("sick").allocatable({"x.example/npu": "0"})
    sick.json["status"]["capacity"] = {"x.example/npu": "8", "cpu": "64"}
    found = params_by_node(columns_of([sick, make_node("none")]), make_pod().request({"x.example/npu": 1}))
    none = {"resource": "x.example/npu", "allocatable": "0"}
    assert found == {"sick": none | {"capacity": "8"}, "none": none}


def test_nodes_that_are_full_of_a_resource_and_nodes_without_it_have_verdicts_of_their_own() -> None:
    gpu = {"x.example/gpu": "4"}
    nodes = [make_node("full").allocatable({"cpu": "8", **gpu}), make_node("slow").allocatable(cpu="1")]
    nodes += [make_node("plain"), make_node("busy").allocatable({"cpu": "8", **gpu})]
    running = [make_pod("a").request(gpu).node("full"), make_pod("b").request({"cpu": "8", **gpu}).node("busy")]
    columns = columns_of(nodes, running)
    pod = make_pod().request({"cpu": "2", "x.example/gpu": 2})
    verdicts = next(run.verdicts for run in decide(columns, pod).trace.filters if run.verdicts.table[1:])
    short = {
        columns.names[slot]: {
            r.params["resource"]: r.params.get("allocatable") for r in verdicts.verdict_at(slot).reasons
        }
        for slot in range(4)
    }
    assert short == {
        "full": {"x.example/gpu": None},
        "slow": {"cpu": None, "x.example/gpu": "0"},
        "plain": {"x.example/gpu": "0"},
        "busy": {"cpu": None, "x.example/gpu": None},
    }
    assert {str(reasons.format_reason(r)) for v in verdicts.table for r in v.reasons} == {
        "Insufficient cpu",
        "Insufficient x.example/gpu",
    }


def test_too_many_ways_to_lack_resources_are_not_told_apart() -> None:
    resources = {f"x.example/r{i}": "1" for i in range(100)}
    nodes = [
        make_node(f"n{i}").allocatable({name: n for name, n in resources.items() if name[-1] != str(i)})
        for i in range(10)
    ]
    many = [
        make_node(f"m{i}").allocatable({name: "1" for j, name in enumerate(resources) if j != i}) for i in range(100)
    ]
    pod = make_pod().request(dict.fromkeys(resources, 2))

    def count(those: list[NodeBuilder]) -> int:
        run = next(run for run in decide(columns_of(those), pod).trace.filters if run.verdicts.table[1:])
        return len(run.verdicts.table) - 1

    assert (count(nodes), count(many)) == (10, 1)


def test_work_and_reasons_of_a_shortage_do_not_grow_with_names_times_nodes_or_containers() -> None:
    names, sick = [f"x.example/r{i}" for i in range(1000)], [make_node(f"n{i}") for i in range(50)]
    for i, node in enumerate(sick):
        node.json["status"]["capacity"] = {"x.example/npu": str(i + 1)}
    pod = make_pod("many").container(dict.fromkeys([*names, "x.example/npu"], 1), name="all")
    for i in range(100):
        pod.container(name=f"idle{i}")
    with (
        patch.object(node_resources_fit, "_find_unoffered", wraps=node_resources_fit._find_unoffered) as compared,
        patch.object(request_parts, "_requests", wraps=request_parts._requests) as read,
    ):
        verdicts = next(run.verdicts for run in decide(columns_of(sick), pod).trace.filters if run.verdicts.table[1:])
    assert [call.args[0] for call in compared.call_args_list] == ["x.example/npu"]
    assert read.call_count <= 101 + len(names) + 1  # once for each container, and for each request
    assert 2 * 1001 <= sum(len(verdict.reasons) for verdict in verdicts.table) <= 5 * 1001


def test_an_init_container_adds_to_the_sidecars_that_start_before_it_only() -> None:
    pod = make_pod().container({"cpu": "1"}, name="early", sidecar=True).container({"cpu": "6"}, name="a", init=True)
    pod.container({"cpu": "2"}, name="late", sidecar=True).container({"cpu": "1"}, name="main")
    found = params_by_node(columns_of([make_node("n").allocatable(cpu="4")]), pod)
    assert found == {"n": {"resource": "cpu", "parts": "init container a 6 + sidecar early 1"}}


def test_a_taken_port_tells_the_pod_that_uses_it() -> None:
    running = [make_pod("a").host_port(80, ip="10.0.0.1").node("n1"), make_pod("b").host_port(80).node("n2")]
    found = params_by_node(columns_of([make_node("n1"), make_node("n2")], running), make_pod().host_port(80))
    assert found == {"n1": {"ports": "80/TCP", "pod": "default/a"}, "n2": {"ports": "80/TCP", "pod": "default/b"}}


def test_the_only_nodes_that_a_pod_may_use_are_told() -> None:
    columns = columns_of([make_node(f"n{i}").label("disk", "ssd" if i == 2 else "hdd") for i in range(9)])
    assert decide(columns, make_pod().request(cpu="99").node_selector(disk="ssd")).trace.restricted_to == ("n2",)
    assert decide(columns, make_pod().request(cpu="99").node_selector(disk="hdd")).trace.restricted_to == ()
    assert decide(columns, make_pod().request(cpu="99").required_terms(named("n5"))).trace.restricted_to == ("n5",)
