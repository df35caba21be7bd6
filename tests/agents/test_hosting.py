"""Which plugins of the framework the extender service hosts, and what a hosted plugin answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from herodotus_agents.app import create_app
from herodotus_agents.hosting import HostedPlugin, UnsupportedPluginError
from herodotus_agents.nodes import NodeCache
from herodotus_agents.objects import NodeView
from herodotus_agents.registry import load_agents
from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.engine.columns import MissingInputError, NodeColumns, NodeObjectColumns
from scheduler.engine.framework.per_node import NodeInfo, PerNodePlugin
from scheduler.engine.framework.plugin import BasePlugin, PluginInput
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins import IN_TREE
from tests.agents.builders import Json, a_node, a_pod, extender_args, feasible_nodes, json_of, points, service
from tests.scheduler.builders import make_node

HOSTED = {
    "BestPrice",
    "Congestion",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodeUnschedulable",
    "Reward",
    "SafeBalance",
    "SafeOverload",
    "TaintToleration",
}


def test_plugins_that_read_only_node_objects_are_hosted_and_the_others_refused_with_the_reason() -> None:
    names = [n for n, p in IN_TREE.items() if hasattr(p, "filter") or hasattr(p, "score")]
    loaded = load_agents(names, {}, {})
    assert set(loaded.agents) == HOSTED
    refused = "which an extender's request does not contain"
    assert loaded.failed["NodeResourcesFit"] == (
        f"UnsupportedPluginError: plugin NodeResourcesFit reads pods on nodes, other objects of the cluster, {refused}"
    )
    assert loaded.failed["PodTopologySpread"] == (
        "UnsupportedPluginError: plugin PodTopologySpread reads all nodes of the cluster, pods on nodes,"
        f" other objects of the cluster, {refused}"
    )
    assert "other objects of the cluster" in loaded.failed["VolumeBinding"]
    assert "metrics from Prometheus" in loaded.failed["NetworkTraffic"]
    assert set(loaded.failed) == set(names) - HOSTED


@pytest.mark.parametrize("name", [n for n, p in IN_TREE.items() if hasattr(p, "filter") or hasattr(p, "score")])
def test_every_filter_and_score_plugin_declares_what_it_reads(name: str) -> None:
    assert IN_TREE[name].reads != BasePlugin.reads


def test_a_plugin_that_neither_filters_nor_scores_is_refused() -> None:
    class Idle(BasePlugin):
        name = "Idle"
        reads = frozenset({PluginInput.NODE})

    with pytest.raises(UnsupportedPluginError, match="plugin Idle neither filters nor scores"):
        HostedPlugin(Idle, None)


def test_a_plugin_that_reads_more_than_it_declares_gets_an_error() -> None:
    class Undeclared(PerNodePlugin):
        name = "Undeclared"
        reads = frozenset({PluginInput.NODE})

        def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
            return node.requested("cpu")

    with pytest.raises(MissingInputError, match="Node objects alone do not determine resources"):
        HostedPlugin(Undeclared, None).prioritize(PodInfo(Pod()), NodeObjectColumns([make_node("n1").obj()]))


TAINTED = a_node("tainted") | {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}
DISLIKED = a_node("disliked") | {"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}


def test_taint_toleration_answers_as_in_a_scheduler() -> None:
    client = service("TaintToleration")
    args = extender_args(a_pod(), [TAINTED, DISLIKED, a_node("plain")])
    answer = json_of(client.post("/scheduler/predicates/TaintToleration", json=args))
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["disliked", "plain"]
    why = "node(s) had untolerated taint(s)"
    assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ({}, {"tainted": why})
    assert points(client, "TaintToleration", a_pod(), [DISLIKED, a_node("plain")]) == {"disliked": 0, "plain": 10}


def test_pre_filter_limits_the_nodes_of_node_affinity_and_skips_it_without_affinity() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pod = a_pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    nodes = [a_node("n1"), a_node("n2")]
    answer = json_of(service("NodeAffinity").post("/scheduler/predicates/NodeAffinity", json=extender_args(pod, nodes)))
    why = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert answer["FailedAndUnresolvableNodes"] == {"n1": why}
    assert feasible_nodes(service("NodeAffinity"), "NodeAffinity", a_pod(), nodes) == (["n1", "n2"], {})


def test_the_arguments_of_a_plugin_come_from_its_section() -> None:
    nodes = [a_node("cheap", {"eur": "1"}), a_node("dear", {"eur": "2"})]
    client = service("BestPrice", sections={"BestPrice": {"annotation": "eur"}})
    assert points(client, "BestPrice", a_pod(), nodes) == {"cheap": 10, "dear": 0}
    sections: dict[str, Json] = {"BestPrice": {"key": "eur"}, "Congestion": {"factorMax": 0}}
    wrong = load_agents([*sections, "Nonsense"], sections, {})
    assert "settings.BestPrice: Object contains unknown field `key`" in wrong.failed["BestPrice"]
    assert "settings.Congestion.factorMax: Invalid value: 0: must be positive" in wrong.failed["Congestion"]
    assert "there is no agent or plugin of that name" in wrong.failed["Nonsense"]


def test_an_installed_plugin_is_hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from herodotus_agents.agents.foo import Foo\n\n\nclass Installed(Foo):\n    name = 'Installed'\n"
    (tmp_path / "installed_plugin.py").write_text(text)
    info = tmp_path / "installed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[herodotus.plugins]\nInstalled = installed_plugin:Installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert points(service("Installed"), "Installed", a_pod(), [a_node("n1")]) == {"n1": 1}


def test_columns_of_node_objects_equal_those_of_a_scheduler() -> None:
    builders = [make_node("a").label("zone", "x").annotation("k", "1"), make_node("b").annotation("k", "2")]
    nodes = [builder.obj() for builder in builders]
    columns, expected = NodeObjectColumns(nodes), NodeColumns()
    for node in nodes:
        expected.set_node(node)
    assert (columns.names, columns.index) == (expected.names, expected.index)
    assert columns.unschedulable.tolist() == expected.unschedulable.tolist()
    for resource in ("cpu", "memory", "pods"):
        assert columns.allocatable(resource).tolist() == expected.allocatable(resource).tolist()
    assert columns.allocatable_of(("cpu", "pods")).tolist() == expected.allocatable_of(("cpu", "pods")).tolist()
    for mine, theirs in (
        (columns.label("zone"), expected.label("zone")),
        (columns.annotation("k"), expected.annotation("k")),
        (columns.taints, expected.taints),
    ):
        assert [mine.values[i] for i in mine.ids(2)] == [theirs.values[i] for i in theirs.ids(2)]


def test_cached_columns_are_rebuilt_when_a_node_changes() -> None:
    cache = NodeCache()
    annotated = {"metadata": {"name": "n1", "annotations": {"congestion-factor": "100"}}}
    cache.update(ListResult("Node", [msgspec.convert(annotated, NodeView)]))
    before = cache.get_columns(["n1"])
    assert cache.get_columns(["n1"]) is before
    cache.update(WatchEvent("Node", "MODIFIED", msgspec.convert({"metadata": {"name": "n1"}}, NodeView)))
    client = create_app(load_agents(["congestion"], {}, {}), cache).test_client()
    answer = client.post("/scheduler/priorities/congestion", json={"Pod": a_pod(), "NodeNames": ["n1"]})
    assert json_of(answer) == [{"Host": "n1", "Score": 10}]
