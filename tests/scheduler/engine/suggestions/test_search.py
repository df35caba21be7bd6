"""Suggestions for rejected pods: which change is found for each reason, and that the pod then fits."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from herodotus_record.model import Suggestion
from herodotus_record.node_taints import NODE_TAINTS, NodeTaint, TaintKind
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

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
HOST, ZONE, CONTROL_PLANE = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "node-role.kubernetes.io/control-plane",
)
ROLE_OF_RKE = "node-role.kubernetes.io/controlplane"


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
    "node selector by the key of old releases": (
        make_pod().node_selector(**{BETA_ZONE: "z1"}),
        [host("a").label(ZONE, "z1"), host("b").label(ZONE, "z2")],
        [],
        "a",
        [("rename-node-selector", {"key": BETA_ZONE, "value": "z1", "to": ZONE})],
        f'{{"nodeSelector":{{"{BETA_ZONE}":null,"{ZONE}":"z1"}}}}',
    ),
    "node selector with a misspelled key": (
        make_pod().node_selector(**{"disk-type": "ssd"}),
        [host("a").label("disktype", "ssd").label("other", "ssd")],
        [],
        "a",
        [("rename-node-selector", {"key": "disk-type", "value": "ssd", "to": "disktype"})],
        '{"nodeSelector":{"disk-type":null,"disktype":"ssd"}}',
    ),
    "node selector with a key of another meaning": (
        make_pod().node_selector(gpu="true"),
        [host("a").label("spot", "true")],
        [],
        "a",
        [("remove-node-selector", {"key": "gpu", "from": "true"})],
        '{"nodeSelector":{"gpu":null}}',
    ),
    "node affinity": (
        make_pod().required_terms(term(expression("disk", "In", "ssd"), expression(ZONE, "Exists"))),
        [host("a").label("disk", "hdd").label(ZONE, "z1")],
        [],
        "a",
        [
            (
                "set-node-affinity",
                {
                    "from": f"disk=ssd, {ZONE}",
                    "to": f"disk in (ssd,hdd), {ZONE}",
                    "difference": "allow disk=hdd",
                },
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
    "one of two terms to avoid": (
        make_pod().label("app", "db").anti_affinity(ZONE, app="other").anti_affinity(HOST, app="db"),
        [host("a").zone("z1")],
        [running("w", "a").label("app", "db")],
        "a",
        [("remove-pod-anti-affinity", {"key": HOST, "index": "1"})],
        "",
    ),
    "an empty label": (
        make_pod().node_selector(role="true"),
        [host("a").label("role", "")],
        [],
        "a",
        [("set-node-selector", {"key": "role", "from": "true", "to": ""})],
        '{"nodeSelector":{"role":""}}',
    ),
    "the name of a node that is gone": (
        make_pod().node_selector(**{HOST: "gone"}),
        [host("a")],
        [],
        "a",
        [("remove-node-selector", {"key": HOST, "from": "gone"})],
        f'{{"nodeSelector":{{"{HOST}":null}}}}',
    ),
    "terms that name a node that is gone": (
        make_pod().required_terms(term(fields=[expression("metadata.name", "In", "gone")])),
        [host("a")],
        [],
        "a",
        [("remove-node-affinity", {"from": "metadata.name=gone"})],
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}}}',
    ),
    "names of nodes that are gone, and another requirement": (
        make_pod().required_terms(term(expression(HOST, "In", "x", "y"), expression("disk", "Exists"))),
        [host("a").label("disk", "ssd")],
        [],
        "a",
        [
            (
                "set-node-affinity",
                {"from": f"{HOST} in (x,y), disk", "to": "disk", "difference": f"drop {HOST} in (x,y)"},
            )
        ],
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{'
        '"matchExpressions":[{"key":"disk","operator":"Exists"}]}]}}}}',
    ),
    "a label that is to be absent, and says no": (
        make_pod().required_terms(term(expression("gpu", "DoesNotExist"))),
        [host("a").label("gpu", "true"), host("b").label("gpu", "false")],
        [],
        "b",
        [
            (
                "set-node-affinity",
                {
                    "from": "!gpu",
                    "to": "gpu notin (true)",
                    "difference": "exclude only gpu=true, in place of every node with that label",
                },
            )
        ],
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{'
        '"matchExpressions":[{"key":"gpu","operator":"NotIn","values":["true"]}]}]}}}}',
    ),
    "a label that is to be absent, and says no in another word": (
        make_pod().required_terms(term(expression("virtual", "DoesNotExist"))),
        [host("a").label("virtual", "yes"), host("b").label("virtual", "no")],
        [],
        "b",
        [
            (
                "set-node-affinity",
                {
                    "from": "!virtual",
                    "to": "virtual notin (yes)",
                    "difference": "exclude only virtual=yes, in place of every node with that label",
                },
            )
        ],
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{'
        '"matchExpressions":[{"key":"virtual","operator":"NotIn","values":["yes"]}]}]}}}}',
    ),
    "the nearer of two terms": (
        make_pod().required_terms(
            term(expression("pool", "In", "batch")), term(expression("disk", "In", "ssd"), expression(ZONE, "Exists"))
        ),
        [host("a").label("disk", "hdd").label(ZONE, "z1")],
        [],
        "a",
        [
            (
                "set-node-affinity",
                {
                    "from": f"disk=ssd, {ZONE}",
                    "to": f"disk in (ssd,hdd), {ZONE}",
                    "difference": "allow disk=hdd",
                },
            )
        ],
        '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":['
        '{"matchExpressions":[{"key":"pool","operator":"In","values":["batch"]}]},'
        '{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd","hdd"]},'
        f'{{"key":"{ZONE}","operator":"Exists"}}]}}]}}}}}}}}',
    ),
    "a reserved node alone": (
        make_pod(),
        [host("a").taint(CONTROL_PLANE)],
        [],
        "a",
        [
            (
                "add-toleration",
                {"key": CONTROL_PLANE, "value": "", "effect": "NoSchedule", "count": "0", "templateCount": "0"},
            )
        ],
        "",
    ),
    "a node that starts": (
        make_pod(),
        [host("a").taint("node.cilium.io/agent-not-ready")],
        [],
        "a",
        [("clear-taint", {"key": "node.cilium.io/agent-not-ready", "value": "", "effect": "NoSchedule"})],
        "",
    ),
    "domains of nodes with taints": (
        make_pod().label("app", "web").with_spec(**SPREAD),
        [host("a"), host("cp").taint(CONTROL_PLANE)],
        [running("w", "a").label("app", "web")],
        "a",
        [("set-taints-policy", {"key": HOST, "from": "Ignore", "to": "Honor"})],
        f'{{"topologySpreadConstraints":[{{"topologyKey":"{HOST}","nodeTaintsPolicy":"Honor"}}]}}',
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
    assert codes == [["remove-node-selector"], ["label-node"]]
    codes = [[code for code, _ in changes(s)] for s in find(pod, columns_of([host("a")]))]
    assert codes == [["remove-node-selector"]]


def gpu(name: str, **amounts: str) -> NodeBuilder:
    return host(name).label("accelerator", "gpu").allocatable({"cpu": "8", "nvidia.com/gpu": "4"} | amounts)


SELECTS_GPU = {
    "selector": make_pod().node_selector(accelerator="gpu").container({"cpu": "5"}, name="app"),
    "affinity": make_pod()
    .required_terms(term(expression("accelerator", "In", "gpu")))
    .container({"cpu": "5"}, name="app"),
}


@pytest.mark.parametrize("selects", SELECTS_GPU)
def test_hardware_that_a_label_stands_for_is_given_up_last_and_claimed_of_no_node(selects: str) -> None:
    nodes = columns_of([gpu("g"), host("w").allocatable(cpu="8")], [running("other", "g").container({"cpu": "5"})])
    found = find(SELECTS_GPU[selects].info(), nodes)
    assert next((s.node, changes(s)[0][0]) for s in found) == ("g", "set-request")
    assert [dict(c.params).get("lost", c.code) for s in found[1:] for c in s.changes] == [
        "add-node-like",
        "nvidia.com/gpu",
    ]
    assert "label-node" not in {c.code for s in found for c in s.changes}


def test_a_node_that_has_the_hardware_too_may_get_the_label() -> None:
    nodes = columns_of([gpu("g", cpu="1"), host("h").allocatable({"cpu": "8", "nvidia.com/gpu": "1"})])
    found = find(SELECTS_GPU["selector"].info(), nodes)
    assert [changes(s)[0][0] for s in found] == ["remove-node-selector", "set-request", "label-node"]
    assert all("lost" not in c.params for s in found for c in s.changes)


def test_a_pod_asks_for_less_before_a_node_gets_a_label() -> None:
    pod = make_pod().node_selector(disk="ssd").container({"cpu": "3"}, name="app").info()
    nodes = columns_of([host("a").label("disk", "ssd"), host("b")], [running("other", "a").container({"cpu": "2"})])
    assert [changes(s)[0][0] for s in find(pod, nodes)] == ["remove-node-selector", "set-request", "label-node"]


@pytest.mark.parametrize("key", ["node-role.example.com/edge", "node-role.kubernetes.io/ingress"])
def test_another_node_gets_the_role_before_the_application_gives_it_up(key: str) -> None:
    pod = make_pod().node_selector(**{key: "true"}).host_port(80).info()
    holder = running("other", "edge").host_port(80)
    found = find(pod, columns_of([host("edge").label(key, "true"), host("b")], [holder]))
    assert [(s.node, changes(s)[0][0]) for s in found] == [
        ("b", "label-node"),
        ("b", "remove-node-selector"),
        ("edge", "remove-host-port"),
    ]


def test_a_label_without_a_value_is_not_excluded_by_a_value() -> None:
    pod = make_pod().required_terms(term(expression("node-role.example.com/edge", "DoesNotExist"))).info()
    found = find(pod, columns_of([host("a").label("node-role.example.com/edge", "")]))
    assert {code for each in found for code, _ in changes(each)} == {"remove-node-affinity"}


@pytest.mark.parametrize(
    "key",
    [
        "eks.amazonaws.com/nodegroup",
        "agentpool",
        "karpenter.sh/nodepool",
        "nvidia.com/gpu.product",
        CONTROL_PLANE,
        ROLE_OF_RKE,
    ],
)
def test_labels_of_providers_are_not_suggested(key: str) -> None:
    pod = make_pod().node_selector(**{key: "x"}).info()
    nodes = columns_of([host("a"), host("b").label(key, "x").allocatable(pods="0")])
    assert "label-node" not in {c.code for s in find(pod, nodes) for c in s.changes}


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
        (make_pod(), host("a").taint("karpenter.sh/disrupted"), "the node is being removed"),
        (make_pod(), host("a").cordoned().taint("node.kubernetes.io/not-ready"), "the node is in maintenance"),
        (make_pod(), host("a").allocatable(pods="0"), "no change to the pod makes room for it"),
        (
            make_pod().owner("DaemonSet", "d").required_terms(term(fields=[expression("metadata.name", "In", "gone")])),
            host("a"),
            "the controller deletes it",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_suggested_that_would_not_help(pod: PodBuilder, node: NodeBuilder, why: str) -> None:
    assert find(pod.info(), columns_of([node])) == (), why


@pytest.mark.parametrize("taint", NODE_TAINTS, ids=lambda taint: taint.key)
def test_a_taint_of_the_system_is_never_tolerated_where_the_pod_may_select_another_node(taint: NodeTaint) -> None:
    key = taint.key.replace("*", "any")
    nodes = columns_of([host("a").taint(key), host("b").taint(key, "value", "NoExecute"), host("c").cordoned()])
    suggested = [change for s in find(make_pod().info(), nodes) for change in s.changes]
    assert suggested
    assert {change.code for change in suggested} <= {"uncordon", "clear-taint", "remove-taint"}
    is_for_good = taint.kind in (TaintKind.LEAVES, TaintKind.RESERVED)
    assert not (is_for_good and {c.code for c in suggested} != {"uncordon"})


@pytest.mark.parametrize(
    ("resources", "code"),
    [({"cpu": "2"}, "set-request"), ({"cpu": "2", "example.com/gpu": "1"}, "add-toleration")],
    ids=["without-devices", "with-devices"],
)
def test_a_pool_of_devices_is_tolerated_only_for_a_pod_that_requests_them(resources: dict[str, str], code: str) -> None:
    pool = host("a").taint("sku", "gpu").allocatable({"cpu": "8", "pods": "9", "example.com/gpu": "4"})
    nodes = columns_of([pool, host("b").allocatable({"cpu": "1", "pods": "9"})])
    first = find(make_pod().request(resources).info(), nodes)[0]
    assert [change.code for change in first.changes] == [code]


def test_the_taint_of_a_maintained_node_is_removed_and_never_tolerated() -> None:
    found = find(make_pod().info(), columns_of([host("a").taint("example.com/maintenance", "disk")]))
    taint = {"key": "example.com/maintenance", "value": "disk", "effect": "NoSchedule"}
    assert [changes(suggestion) for suggestion in found] == [[("remove-taint", taint)]]


def test_a_taint_that_a_controller_owns_is_not_removed_by_hand() -> None:
    found = find(make_pod().info(), columns_of([host("a").taint("node.kubernetes.io/unschedulable")]))
    assert [[c.code for c in suggestion.changes] for suggestion in found] == [["clear-taint"]]


@pytest.mark.parametrize("others", [(), ("node.kubernetes.io/unreachable",)], ids=["back", "still-down"])
def test_the_taint_of_an_outage_is_removed_after_the_node_is_repaired(others: tuple[str, ...]) -> None:
    node = host("a").taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")
    for key in others:
        node = node.taint(key)
    (only,) = find(make_pod().info(), columns_of([node]))
    assert [c.code for c in only.changes] == [*["clear-taint"] * len(others), "remove-taint"]


@pytest.mark.parametrize(
    ("taint", "toleration", "differs"),
    [
        ((CONTROL_PLANE, "", "NoSchedule"), {"key": "node-role.kubernetes.io/master", "operator": "Exists"}, "key"),
        (("dedicated", "db", "NoSchedule"), {"key": "dedicate", "value": "db"}, "key"),
        (("Dedicated", "db", "NoSchedule"), {"key": "dedicated", "value": "db", "effect": "NoSchedule"}, "key"),
        (("dedicated", "db", "NoSchedule"), {"key": "dedicated", "value": "database"}, "value"),
        (("dedicated", "db", "NoExecute"), {"key": "dedicated", "value": "db", "effect": "NoSchedule"}, "effect"),
        (("dedicated", "db", "NoSchedule"), {"key": "team", "value": "db"}, ""),
        (("gpu", "", "NoSchedule"), {"key": "cpu", "operator": "Exists"}, ""),
    ],
)
def test_a_toleration_that_nearly_matches_is_named(
    taint: tuple[str, str, str], toleration: dict[str, str], differs: str
) -> None:
    pod = make_pod().node_selector(pool="x").with_spec(tolerations=[toleration]).info()
    first = find(pod, columns_of([host("a").label("pool", "x").taint(*taint), host("b").allocatable(pods="0")]))[0]
    assert [(c.code, c.params.get("differs", "")) for c in first.changes] == [("add-toleration", differs)]


def test_no_node_is_opened_to_all_pods_for_one_that_nearly_tolerates_its_taint() -> None:
    pod = make_pod().with_spec(tolerations=[{"key": "node-role.kubernetes.io/master", "operator": "Exists"}])
    nodes = columns_of([host("a").taint(CONTROL_PLANE), host("b").allocatable(pods="0")])
    assert [[c.code for c in s.changes] for s in find(pod.info(), nodes)] == [["add-toleration"]]
    codes = [[c.code for c in s.changes] for s in find(make_pod().info(), columns_of([host("a").taint(CONTROL_PLANE)]))]
    assert codes == [["add-toleration"], ["open-node"]]


def test_no_other_operating_system_is_suggested_and_a_larger_node_is_beside_a_smaller_request() -> None:
    node = host("a").label("kubernetes.io/os", "linux")
    (only,) = find(make_pod().node_selector(**{"kubernetes.io/os": "windows"}).info(), columns_of([node]))
    of_kind = {"key": "kubernetes.io/os", "value": "windows", "from": "linux"}
    assert (only.node, changes(only), only.is_checked) == ("", [("add-node-of-kind", of_kind)], False)
    smaller, larger = find(make_pod().request(cpu="6").info(), columns_of([node]))
    assert (changes(smaller)[0][0], smaller.is_checked) == ("set-request", True)
    assert (changes(larger), larger.is_checked) == ([("add-node", {"from": "4 cpu", "to": "6 cpu"})], False)


@pytest.mark.parametrize(("priority", "codes"), [(0, ["set-priority-class"]), (2_000_001_000, [])])
def test_a_daemon_sets_pod_gets_a_higher_priority_only_if_its_node_has_pods_below(
    priority: int, codes: list[str]
) -> None:
    pod = make_pod().owner("DaemonSet", "agent").required_terms(term(fields=[expression("metadata.name", "In", "a")]))
    nodes = columns_of([host("a").allocatable(pods="1"), host("b")], [running("w", "a").priority(priority)])
    found = find(pod.info(), nodes)
    assert [changes(s)[0][0] for s in found] == codes
    assert [s.patch for s in found] == ['{"priorityClassName":"system-node-critical"}'] * len(codes)


def test_a_higher_priority_names_the_pods_that_preemption_would_evict() -> None:
    pod = make_pod().owner("DaemonSet", "agent").required_terms(term(fields=[expression("metadata.name", "In", "a")]))
    pods = [running(name, "a").priority(priority).request(cpu="1") for name, priority in (("low", 1), ("high", 5))]
    found = find(pod.request(cpu="3").info(), columns_of([host("a")], pods))
    leaving = [params["leaving"] for s in found for code, params in changes(s) if code == "set-priority-class"]
    assert leaving == ["default/low"], "high can stay"


@pytest.mark.parametrize(("hash_", "codes"), [("1", {"set-rollout-strategy"}), ("2", set())])
def test_a_rollout_whose_old_pods_hold_the_place_of_new_ones_deletes_old_ones_first(
    hash_: str, codes: set[str]
) -> None:
    def revision(name: str, number: str) -> PodBuilder:
        own = make_pod(name).label("app", "web").label("pod-template-hash", number).host_port(80)
        return own.owner("ReplicaSet", f"web-{number}").anti_affinity(HOST, app="web")

    nodes = columns_of([host("a")], [revision("old", hash_).node("a")])
    *found, one_more = find(revision("new", "2").info(), nodes)
    assert {change.code for s in found for change in s.changes} == codes
    assert all(s.is_checked for s in found)
    size = "4 cpu and 16Gi memory"
    assert (changes(one_more), one_more.is_checked) == ([("add-node-like", {"like": "a", "size": size})], True)


@pytest.mark.parametrize(
    ("pod", "taken", "like"),
    [
        (make_pod().request(cpu="3"), "2", "small"),
        (make_pod().request(cpu="6"), "2", "large"),
        (make_pod().request(cpu="4"), "2", "large"),
        (make_pod().request(cpu="3").node_selector(pool="x"), "2", ""),
        (make_pod().request(cpu="3").node_selector(**{HOST: "small"}), "2", ""),
    ],
    ids=["smallest", "larger", "beside the DaemonSet's pod", "not selected", "by its name"],
)
def test_one_more_node_like_a_full_one_is_checked_with_the_pods_that_every_node_starts_with(
    pod: PodBuilder, taken: str, like: str
) -> None:
    hosts = [host("small"), host("large").allocatable(cpu="8")]
    pods = [running(f"agent-{n}", n).owner("DaemonSet", "agent").request(cpu="500m") for n in ("small", "large")]
    pods += [running("w-small", "small").request(cpu=taken), running("w-large", "large").request(cpu="7")]
    found = find(pod.info(), columns_of(hosts, pods))
    added = [(s.changes[0].params["like"], s.is_checked) for s in found if s.changes[0].code == "add-node-like"]
    assert added == ([(like, True)] if like else [])
    assert not like or found[-1].changes[0].code == "add-node-like", "it is the last resort"


@pytest.mark.parametrize(
    ("owner", "revision", "priority", "is_ending", "codes"),
    [
        ("agent", "1", 0, False, {"set-rollout-strategy", "set-request", "set-priority-class"}),
        ("agent", "1", 2_000_001_000, False, {"set-rollout-strategy", "set-request"}),
        ("agent", "2", 2_000_001_000, False, {"set-request"}),
        ("other", "1", 2_000_001_000, False, {"set-request"}),
        ("agent", "1", 2_000_001_000, True, {"await-end", "set-request"}),
    ],
    ids=["surges", "critical", "same revision", "other owner", "ends already"],
)
def test_a_surging_daemon_sets_pod_takes_the_place_of_the_one_that_it_replaces(
    owner: str, revision: str, priority: int, is_ending: bool, codes: set[str]
) -> None:
    def agent(name: str, owner: str, revision: str) -> PodBuilder:
        pod = make_pod(name).owner("DaemonSet", owner).label("controller-revision-hash", revision).request(cpu="1500m")
        return pod.required_terms(term(fields=[expression("metadata.name", "In", "a")])).priority(priority)

    old, api = agent("old", owner, revision).node("a"), running("api", "a").request(cpu="2").priority(priority)
    nodes = columns_of([host("a"), host("b")], [old.terminating() if is_ending else old, api])
    found = find(agent("new", "agent", "2").info(), nodes)
    assert {change.code for s in found for change in s.changes} == codes
    assert all(s.is_checked and s.node == "a" for s in found)
    leaving = [c.params["leaving"] for s in found for c in s.changes if c.code in ("set-rollout-strategy", "await-end")]
    assert leaving == ["default/old"] * len(leaving)


def test_a_rollout_order_is_suggested_only_if_one_old_pod_fewer_is_enough() -> None:
    old = [
        make_pod(f"old-{i}").owner("ReplicaSet", "web-1").label("pod-template-hash", "1").request(cpu="2").node("a")
        for i in range(2)
    ]
    new = make_pod("new").owner("ReplicaSet", "web-2").label("pod-template-hash", "2").request(cpu="3")
    found = find(new.info(), columns_of([host("a")], old))
    assert "set-rollout-strategy" not in {change.code for s in found for change in s.changes}


def test_a_port_is_no_matter_of_priority() -> None:
    pod = make_pod().owner("DaemonSet", "agent").host_port(80)
    pod.required_terms(term(fields=[expression("metadata.name", "In", "a")])).spec["hostNetwork"] = True
    assert find(pod.info(), columns_of([host("a")], [running("w", "a").host_port(80)])) == ()


def test_an_anti_affinity_is_given_up_only_if_nothing_else_helps() -> None:
    term_of_host = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    pod = make_pod().label("app", "web").request(cpu="3")
    pod.spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term_of_host]}}
    holders = [running("w", "a").label("app", "web"), running("busy", "b").request(cpu="2")]
    other = host("b").cordoned().taint("dedicated", "gpu")  # its changes together cost more than the anti-affinity
    first, *more = find(pod.info(), columns_of([host("a"), other], holders))
    assert [code for code, _ in changes(first)] == ["uncordon", "add-toleration", "set-request"]
    assert [[code for code, _ in changes(each)] for each in more][:1] == [["remove-pod-anti-affinity"]]


@pytest.mark.parametrize(
    ("zones", "selector", "expected"),
    [
        (("z1", "z1"), {}, [("a", ZONE, True)]),
        (("z1", "z2"), {}, [("a", ZONE, True)]),
        (("z1", "z1"), {ZONE: "z1"}, []),
    ],
    ids=["one zone", "a zone each", "the pod selects the zone"],
)
def test_a_node_in_another_zone_is_suggested_where_an_anti_affinity_closes_all_zones(
    zones: tuple[str, str], selector: dict[str, str], expected: list[tuple[str, str, bool]]
) -> None:
    def replica(name: str) -> PodBuilder:
        return make_pod(name).label("app", "db").anti_affinity(ZONE, app="db")

    hosts = [host(name).label(ZONE, zone) for name, zone in zip("ab", zones, strict=True)]
    there = [replica(f"db-{name}").node(name) for name, _ in zip("ab", set(zones), strict=False)]
    found = find(replica("db-9").node_selector(**selector).info(), columns_of(hosts, there))
    added = [s for s in found if s.changes[0].code == "add-node-like"]
    assert [(s.changes[0].params["like"], s.changes[0].params["key"], s.is_checked) for s in added] == expected


def test_a_pod_waits_first_for_one_that_is_terminating() -> None:
    holder = running("old", "a").request(cpu="3").terminating()
    first, *_ = find(make_pod().request(cpu="2").info(), columns_of([host("a")], [holder]))
    assert (changes(first), first.is_checked) == ([("await-end", {"leaving": "default/old"})], True)


def test_nodes_that_the_pod_does_not_select_no_longer_count_as_domains() -> None:
    constraint = SPREAD["topologySpreadConstraints"][0] | {"nodeAffinityPolicy": "Ignore"}
    pod = make_pod().label("app", "web").node_selector(pool="app")
    pod.spec["topologySpreadConstraints"] = [constraint]
    nodes = [host("a").label("pool", "app"), host("b").label("pool", "db")]
    first, *_ = find(pod.info(), columns_of(nodes, [running("w", "a").label("app", "web")]))
    assert changes(first)[0][0] == "set-affinity-policy"


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


def test_equal_nodes_have_equal_suggestions_whatever_was_found_before() -> None:
    framework, suggester = default_framework(), Suggester(lambda: 0.0)
    nodes, small = columns_of([host("a"), host("b")]), running("w", "a").request(cpu="1").info()
    nodes.add_pod(small, "a")

    def ask(suggester: Suggester) -> list[tuple[str, str]]:
        pod = make_pod().request(cpu="9").info()
        result = schedule(framework, pod, Snapshot.from_columns(nodes), 1)
        found = suggester.suggest(framework, pod, nodes, result)
        return [(s.node, change.params.get("to", "")) for s in found for change in s.changes]

    first = ask(suggester)
    nodes.add_pod(running("v", "b").request(cpu="2").info(), "b")
    nodes.remove_pod(small.uid, "a")
    assert ask(suggester) == ask(Suggester(lambda: 0.0)) != first


def test_what_was_found_for_a_template_is_reused_while_time_is_scarce() -> None:
    clock, framework = Clock(0.0), default_framework()
    suggester = Suggester(clock, share=0.0, burst_s=1.0)
    nodes = columns_of([host("a"), host("b").allocatable(cpu="2")])

    def ask() -> list[str]:
        pod = make_pod().request(cpu="9").info()
        result = schedule(framework, pod, Snapshot.from_columns(nodes), 1)
        return [s.node for s in suggester.suggest(framework, pod, nodes, result) if s.node]

    clock.step_s = 0.3
    assert ask() == ["a"]
    clock.step_s = 0.001
    nodes.set_node(host("b").allocatable(cpu="8").obj())
    assert ask() == ["a"], "b has more free, but the search takes more time than a check"
    clock.step_s, suggester = 0.0, Suggester(clock)
    assert ask() == ["b"]
