"""Suggestions for rejected pods: which change is found for each reason, and that the pod then fits."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from herodotus_record.model import Suggestion
from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects import pod as pod_module
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.suggestions.search import Suggester, suggest
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, expression, make_node, make_pod, term
from tests.support.clock import Clock

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def default_framework() -> Framework:
    return Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), lambda: 0.0)


def host(name: str) -> NodeBuilder:
    return make_node(name).label(HOST, name)


def running(name: str, node: str) -> PodBuilder:
    return make_pod(name).node(node)


def find(pod: PodInfo, nodes: NodeColumns, framework: Framework | None = None) -> tuple[Suggestion, ...]:
    framework = framework or default_framework()
    result = schedule(framework, pod, Snapshot.from_columns(nodes), seed=1)
    assert result.chosen is None
    return suggest(framework, pod, nodes, result)


def changes(suggestion: Suggestion) -> list[tuple[str, dict[str, str]]]:
    return [(change.code, dict(change.params)) for change in suggestion.changes]


SPREAD = {
    "topologySpreadConstraints": [
        {
            "topologyKey": HOST,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
CASES: dict[str, tuple[PodBuilder, list[NodeBuilder], list[PodBuilder], str, list[Any], str]] = {
    "cordoned": (make_pod(), [host("a").cordoned()], [], "a", [("uncordon", {})], ""),
    "tainted": (
        make_pod(),
        [host("a").taint("dedicated", "gpu")],
        [],
        "a",
        [
            (
                "add-toleration",
                {"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "count": "0", "templateCount": "0"},
            )
        ],
        "",
    ),
    "too little cpu, the node with most free": (
        make_pod().container({"cpu": "5"}, name="app").container({"cpu": "1"}, name="side"),
        [host("a"), host("b").allocatable(cpu="5")],
        [],
        "b",
        [("set-request", {"container": "app", "group": "containers", "resource": "cpu", "from": "5", "to": "4"})],
        '{"containers":[{"name":"app","resources":{"requests":{"cpu":"4"}}}]}',
    ),
    "an init container asks for most": (
        make_pod().container({"memory": "1Gi"}, name="app").container({"memory": "20Gi"}, name="load", init=True),
        [host("a")],
        [],
        "a",
        [
            (
                "set-request",
                {"container": "load", "group": "initContainers", "resource": "memory", "from": "20Gi", "to": "16Gi"},
            )
        ],
        '{"initContainers":[{"name":"load","resources":{"requests":{"memory":"16Gi"}}}]}',
    ),
    "a pod's own resources": (
        make_pod().container({"cpu": "1"}, name="app").pod_level(cpu="8"),
        [host("a")],
        [],
        "a",
        [("set-request", {"container": "", "group": "", "resource": "cpu", "from": "8", "to": "4"})],
        '{"resources":{"requests":{"cpu":"4"}}}',
    ),
    "host port taken": (
        make_pod().host_port(80),
        [host("a")],
        [running("other", "a").host_port(80)],
        "a",
        [("remove-host-port", {"container": "c0", "group": "containers", "ports": "80/TCP", "from": "80"})],
        '{"containers":[{"name":"c0","ports":[{"containerPort":80,"hostPort":null,"hostIP":null}]}]}',
    ),
    "node selector": (
        make_pod().node_selector(**{ZONE: "z9"}),
        [host("a").label(ZONE, "z1")],
        [],
        "a",
        [("set-node-selector", {"key": ZONE, "from": "z9", "to": "z1"})],
        f'{{"nodeSelector":{{"{ZONE}":"z1"}}}}',
    ),
    "node affinity": (
        make_pod().required_terms(term(expression("disk", "In", "ssd"), expression(ZONE, "Exists"))),
        [host("a").label("disk", "hdd").label(ZONE, "z1")],
        [],
        "a",
        [
            (
                "set-node-affinity",
                {"from": f"disk=ssd, {ZONE}", "to": f"disk in (ssd,hdd), {ZONE}"},
            )
        ],
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{'
        '"matchExpressions":[{"key":"disk","operator":"In","values":["ssd","hdd"]},'
        f'{{"key":"{ZONE}","operator":"Exists"}}]}}]}}}}}}}}',
    ),
    "spread": (
        make_pod().label("app", "web").with_spec(**SPREAD),
        [host("a"), host("b").allocatable(cpu="0", pods="0")],
        [running("w", "a").label("app", "web")],
        "a",
        [("set-max-skew", {"key": HOST, "from": "1", "to": "2"})],
        f'{{"topologySpreadConstraints":[{{"topologyKey":"{HOST}","maxSkew":2}}]}}',
    ),
    "no label to spread over": (
        make_pod().label("app", "web").with_spec(**SPREAD),
        [make_node("a")],
        [],
        "a",
        [("set-when-unsatisfiable", {"key": HOST, "from": "DoNotSchedule", "to": "ScheduleAnyway"})],
        f'{{"topologySpreadConstraints":[{{"topologyKey":"{HOST}","whenUnsatisfiable":"ScheduleAnyway"}}]}}',
    ),
    "anti-affinity to itself": (
        make_pod().label("app", "db").anti_affinity(HOST, app="db"),
        [host("a")],
        [running("w", "a").label("app", "db")],
        "a",
        [("remove-pod-anti-affinity", {"key": HOST})],
        '{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}}}',
    ),
    "two reasons on one node": (
        make_pod().container({"cpu": "6"}, name="app"),
        [host("a").cordoned()],
        [],
        "a",
        [
            ("uncordon", {}),
            ("set-request", {"container": "app", "group": "containers", "resource": "cpu", "from": "6", "to": "4"}),
        ],
        '{"containers":[{"name":"app","resources":{"requests":{"cpu":"4"}}}]}',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_smallest_change_for_each_reason_makes_the_pod_fit(case: str) -> None:
    pod, nodes, pods, node, expected, patch = CASES[case]
    first = find(pod.info(), columns_of(nodes, pods))[0]
    assert (first.node, changes(first), first.patch, first.is_checked) == (node, expected, patch, True)


def test_a_label_is_suggested_only_where_some_node_has_the_value_and_the_pods_selector_beside_it() -> None:
    pod = make_pod().node_selector(disk="nvme").info()
    used = [host("a"), host("b").label("disk", "nvme").cordoned().taint("node.kubernetes.io/not-ready")]
    codes = [[code for code, _ in changes(s)] for s in find(pod, columns_of(used))]
    assert codes == [["set-node-selector"], ["label-node"]]
    codes = [[code for code, _ in changes(s)] for s in find(pod, columns_of([host("a")]))]
    assert codes == [["set-node-selector"]]


def test_of_nodes_with_equal_reasons_the_one_that_needs_fewest_changes_is_taken() -> None:
    pod = make_pod().node_selector(disk="ssd", pool="gpu").info()
    nodes = columns_of([host("a"), host("b").label("disk", "ssd")])
    assert [(s.node, len(s.changes)) for s in find(pod, nodes)] == [("b", 1)]


def test_labels_that_state_what_a_node_is_are_not_suggested() -> None:
    pod = make_pod().node_selector(**{ZONE: "z2"}).info()
    nodes = columns_of([host("a").zone("z1"), host("b").zone("z2").allocatable(pods="0")])
    assert [changes(s)[0][0] for s in find(pod, nodes)] == ["set-node-selector"]


@pytest.mark.parametrize(
    ("pod", "node", "why"),
    [
        (make_pod(), host("a").taint("node.kubernetes.io/not-ready"), "a broken node is to be mended, not tolerated"),
        (make_pod().request(cpu="100"), host("a"), "less than a tenth of the request would be left"),
        (make_pod(), host("a").allocatable(pods="0"), "no change to the pod makes room for it"),
        (make_pod().required_terms(term(fields=[expression("metadata.name", "In", "gone")])), host("a"), "narrowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_suggested_that_would_not_help(pod: PodBuilder, node: NodeBuilder, why: str) -> None:
    assert find(pod.info(), columns_of([node])) == (), why


@pytest.mark.parametrize("limit", [20, 19])
def test_a_pod_with_too_many_terms_for_the_number_of_nodes_is_not_checked_for_suggestions(limit: int) -> None:
    pod = make_pod().request({"cpu": "5"})
    preferred = [{"weight": 1, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {}}} for _ in range(10)]
    pod.spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    with patch.object(pod_module, "MAX_TERMS_TIMES_NODES", limit):
        assert bool(find(pod.info(), columns_of([host("a"), host("b")]))) is (limit == 20)


def test_a_large_pod_is_not_checked_for_suggestions() -> None:
    pod = make_pod().request({"cpu": "5"})
    pod.spec["schedulingGates"] = [{"name": f"gate-{i}" * 20} for i in range(1000)]
    assert find(pod.info(), columns_of([host("a")])) == ()
    del pod.spec["schedulingGates"]
    assert find(pod.info(), columns_of([host("a")]))


def test_a_pod_that_fits_has_no_suggestion() -> None:
    framework, nodes, pod = default_framework(), columns_of([host("a")]), make_pod().info()
    result = schedule(framework, pod, Snapshot.from_columns(nodes), seed=1)
    assert Suggester(lambda: 0.0).suggest(framework, pod, nodes, result) == ()


def test_the_search_stops_when_its_time_share_is_used_and_resumes_later() -> None:
    clock, framework, nodes = Clock(0.0), default_framework(), columns_of([host("a").cordoned()])
    suggester = Suggester(clock, share=0.1, burst_s=0.1)

    def ask(pod: PodBuilder) -> tuple[Suggestion, ...]:
        info = pod.info()
        return suggester.suggest(framework, info, nodes, schedule(framework, info, Snapshot.from_columns(nodes), 1))

    clock.step_s = 0.05
    assert [s.is_checked for s in ask(make_pod("one"))] == [True]
    clock.step_s = 0.2
    ask(make_pod("two").label("app", "other"))  # spends more than there is
    assert ask(make_pod("three").label("app", "third")) == ()
    assert [s.is_checked for s in ask(make_pod("again"))] == [False], "known for the template, but not checked now"
    clock.now_s, clock.step_s = 100.0, 0.0
    assert [s.is_checked for s in ask(make_pod("four").label("app", "third"))] == [True]


def test_a_suggestion_for_a_template_is_found_anew_when_it_no_longer_fits() -> None:
    framework, suggester = default_framework(), Suggester(lambda: 0.0)
    nodes = columns_of([host("a").cordoned(), host("b").cordoned()])

    def ask() -> list[str]:
        pod = make_pod().request(cpu="3").info()
        result = schedule(framework, pod, Snapshot.from_columns(nodes), 1)
        return [s.node for s in suggester.suggest(framework, pod, nodes, result)]

    assert ask() == ["a"]
    nodes.add_pod(running("w", "a").request(cpu="2").info(), "a")
    assert ask() == ["b"]
