"""A plugin that is disabled at PreFilter or PreScore alone: it fails, or falls back, as kube-scheduler's does."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest

from herodotus_record.model import Code, DecisionPath, PluginVerdict
from scheduler.config import build_profile, parse_config
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster, evaluate
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod
from tests.support.configurations import HEAD

Json = dict[str, Any]


def decide(columns: NodeColumns, pod: PodBuilder, point: str, *plugins: str) -> CycleResult:
    names = ", ".join(f"{{name: {name}}}" for name in plugins)
    config = f"profiles: [{{plugins: {{{point}: {{disabled: [{names}]}}}}}}]"
    profile = build_profile(parse_config(HEAD + config), 0, IN_TREE, NoCluster())
    return schedule(Framework(profile, time.monotonic), pod.info(), Snapshot.from_columns(columns), seed=0)


def cluster() -> NodeColumns:
    return columns_of([make_node("a"), make_node("b")])


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("NodePorts", 'reading "PreFilterNodePorts" from cycleState: not found'),
        ("NodeResourcesFit", 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'),
        ("VolumeRestrictions", 'cannot read "PreFilterVolumeRestrictions" from cycleState'),
        ("VolumeBinding", "not found"),
        ("PodTopologySpread", 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
        ("InterPodAffinity", 'error reading "PreFilterInterPodAffinity" from cycleState: not found'),
        ("DynamicResources", "not found"),
        ("NodeDeclaredFeatures", 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'),
    ],
)
class TestWithoutPreFilter:
    def test_every_pod_fails(self, plugin: str, words: str) -> None:
        result = decide(cluster(), make_pod(), "preFilter", plugin)
        assert (result.path, result.message) == (DecisionPath.ERROR, f'running "{plugin}" filter plugin: {words}')

    def test_not_where_another_filter_rejects_every_node_before(self, plugin: str, words: str) -> None:
        columns = columns_of([make_node("a").cordoned(), make_node("b").cordoned()])
        result = decide(columns, make_pod(), "preFilter", plugin)
        assert result.path is DecisionPath.NONE
        assert result.message.startswith("0/2 nodes are available: 2 node(s) were unschedulable.")
        (run,) = [run for run in result.trace.filters if run.plugin == plugin]
        assert (run.verdicts.verdict_at(0).code, join_reasons(run.verdicts.verdict_at(0))) == (Code.ERROR, words)

    def test_not_where_its_filter_is_disabled_too(self, plugin: str, words: str) -> None:
        framework = framework_without(
            plugin, "preFilter", "filter", *(("score",) if plugin == "DynamicResources" else ())
        )
        result = schedule(framework, make_pod().info(), Snapshot.from_columns(cluster()), seed=0)
        assert result.path is DecisionPath.SCORED


@pytest.mark.parametrize(
    ("plugin", "pod", "words"),
    [
        ("TaintToleration", make_pod(), 'failed to read "PreScoreTaintToleration" from cycleState: not found'),
        ("InterPodAffinity", make_pod(), 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'),
        ("PodTopologySpread", make_pod(), 'error reading "PreScorePodTopologySpread" from cycleState: not found'),
    ],
)
def test_without_pre_score_no_pod_is_placed_that_two_nodes_fit(plugin: str, pod: PodBuilder, words: str) -> None:
    result = decide(cluster(), pod, "preScore", plugin)
    assert (result.path, result.message) == (
        DecisionPath.ERROR,
        f'running Score plugins: plugin "{plugin}" failed with: {words}',
    )
    assert decide(columns_of([make_node("a")]), pod, "preScore", plugin).path is DecisionPath.ONLY_FEASIBLE


@pytest.mark.parametrize(
    ("plugin", "pod"),
    [
        ("NodeResourcesFit", make_pod().request(cpu="1")),
        ("NodeResourcesBalancedAllocation", make_pod().request(cpu="1")),
        ("NodeResourcesBalancedAllocation", make_pod()),
        ("NodeAffinity", make_pod()),
    ],
)
def test_plugins_that_compute_their_state_themselves_score_as_ever(plugin: str, pod: PodBuilder) -> None:
    with_, without = decide(cluster(), pod, "preScore"), decide(cluster(), pod, "preScore", plugin)
    assert without.path is DecisionPath.SCORED
    assert with_.trace.totals is not None
    assert without.trace.totals is not None
    assert with_.trace.totals.tolist() == without.trace.totals.tolist()


def test_volume_zone_looks_its_volumes_up_in_filter() -> None:
    assert decide(cluster(), make_pod(), "preFilter", "VolumeZone").path is DecisionPath.SCORED


def framework_without(plugin: str, *points: str, gates: str = "") -> Framework:
    disabled = ", ".join(f"{point}: {{disabled: [{{name: {plugin}}}]}}" for point in points)
    config = f"profiles: [{{plugins: {{{disabled}}}}}]\nfeatureGates: {{{gates}}}"
    return Framework(build_profile(parse_config(HEAD + config), 0, IN_TREE, NoCluster()), time.monotonic)


def reserved(framework: Framework) -> CycleState:
    """Return the state of a pod after Reserve on the node `a`."""
    state = schedule(framework, make_pod().info(), Snapshot.from_columns(cluster()), seed=0).state
    assert framework.run_reserve(state, make_pod().info(), "a") is None
    return state


def test_score_of_dynamic_resources_needs_its_pre_filter() -> None:
    framework = framework_without("DynamicResources", "preFilter", "filter")
    result = schedule(framework, make_pod().info(), Snapshot.from_columns(cluster()), seed=0)
    assert (result.path, result.message) == (
        DecisionPath.ERROR,
        'running Score plugins: plugin "DynamicResources" failed with: not found',
    )


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ((), 'running PreScore plugin "VolumeBinding": not found'),
        (("preScore",), 'running Score plugins: plugin "VolumeBinding" failed with: not found'),
    ],
)
def test_scores_of_storage_need_pre_filter(points: tuple[str, ...], message: str) -> None:
    disabled = ("preFilter", "filter", *points)
    framework = framework_without("VolumeBinding", *disabled, gates="StorageCapacityScoring: true")
    result = schedule(framework, make_pod().info(), Snapshot.from_columns(cluster()), seed=0)
    assert (result.path, result.message) == (DecisionPath.ERROR, message)
    result = schedule(
        framework_without("VolumeBinding", *disabled), make_pod().info(), Snapshot.from_columns(cluster()), seed=0
    )
    assert result.path is DecisionPath.SCORED


@pytest.mark.parametrize("plugin", ["VolumeBinding", "DynamicResources"])
class TestAfterScore:
    def test_reserve_needs_pre_filter(self, plugin: str) -> None:
        framework = framework_without(plugin, "preFilter", "filter", "score")
        result = schedule(framework, make_pod().info(), Snapshot.from_columns(cluster()), seed=0)
        verdict = framework.run_reserve(result.state, make_pod().info(), "a")
        assert verdict is not None
        assert (verdict.plugin, verdict.verdict.code, join_reasons(verdict.verdict)) == (
            plugin,
            Code.ERROR,
            "not found",
        )

    def test_pre_bind_needs_pre_filter(self, plugin: str) -> None:
        framework = framework_without(plugin, "preFilter", "filter", "score", "reserve")
        verdict = framework.run_pre_bind_pre_flight(reserved(framework), make_pod().info(), "a")
        assert isinstance(verdict, PluginVerdict)
        assert join_reasons(verdict.verdict) == f'running PreBindPreFlight "{plugin}": not found'

    def test_without_a_pre_flight_pre_bind_fails_itself(self, plugin: str) -> None:
        gates = "NominatedNodeNameForExpectation: false"
        framework = framework_without(plugin, "preFilter", "filter", "score", "reserve", gates=gates)
        state = reserved(framework)
        assert framework.run_pre_bind_pre_flight(state, make_pod().info(), "a") is True
        verdict = framework.run_pre_bind(state, make_pod().info(), "a")
        assert isinstance(verdict, PluginVerdict)
        assert (verdict.plugin, join_reasons(verdict.verdict)) == (plugin, "not found")


def test_pre_bind_of_volume_binding_needs_its_reserve() -> None:
    framework, pod = framework_without("VolumeBinding", "reserve"), make_pod().info()
    state = reserved(framework)
    verdict = framework.run_pre_bind_pre_flight(state, pod, "a")
    assert isinstance(verdict, PluginVerdict)
    assert join_reasons(verdict.verdict) == 'running PreBindPreFlight "VolumeBinding": no pod volume found for node "a"'
    ended = framework.run_pre_bind(state, pod, "a")
    assert isinstance(ended, PluginVerdict)
    assert join_reasons(ended.verdict) == 'failed to get cached bindings for pod "default/p"'


class TestDevicesThatBackResources:
    """Scores of extended resources that device classes back: both plugins that score resources count devices."""

    NODES: ClassVar = {"few": 2, "many": 8}

    def scores(self, fit: str, balanced: str, without: str = "") -> Json:
        """Return the raw scores where NodeResourcesFit and NodeResourcesBalancedAllocation score these resources."""
        strategy = {"type": "LeastAllocated", "resources": [{"name": fit, "weight": 1}]}
        arguments = {
            "NodeResourcesFit": {"scoringStrategy": strategy},
            "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu"}, {"name": balanced}]},
        }
        profile: Json = {"pluginConfig": [{"name": name, "args": args} for name, args in arguments.items()]}
        if without:
            profile["plugins"] = {"preScore": {"disabled": [{"name": without}]}}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        requests = {"cpu": "1", "example.com/gpu": "1", "example.com/nic": "2"}
        container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}
        pod = {"kind": "Pod", "metadata": {"name": "p", "uid": "p"}, "spec": {"containers": [container]}}
        case = {"id": "devices", "config": {**head, "profiles": [profile]}, "objects": self.objects(), "pod": pod}
        found: Json = evaluate(case).outcome()["scores"]
        return {name: found[name]["raw"] for name in arguments}

    def objects(self) -> list[Json]:
        made: list[Json] = []
        for kind in ("gpu", "nic"):
            spec: Json = {"extendedResourceName": f"example.com/{kind}"}
            spec |= {"selectors": [{"cel": {"expression": f'device.driver == "{kind}.example.com"'}}]}
            made.append(
                {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": kind}} | {"spec": spec}
            )
        for node, count in self.NODES.items():
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
            made.append(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": {"allocatable": amounts}}
            )
            for kind in ("gpu", "nic"):
                pool = {"name": f"{node}-{kind}", "generation": 1, "resourceSliceCount": 1}
                devices = [{"name": f"d{number}"} for number in range(count)]
                spec = {"driver": f"{kind}.example.com", "nodeName": node, "pool": pool, "devices": devices}
                meta = {"name": f"{node}-{kind}"}
                made.append(
                    {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}
                )
        return made

    def test_each_plugin_counts_the_devices_of_its_own_resources(self) -> None:
        both = self.scores("example.com/gpu", "example.com/nic")
        assert both["NodeResourcesFit"] == {"few": 50, "many": 87}
        assert both["NodeResourcesFit"] == self.scores("example.com/gpu", "memory")["NodeResourcesFit"]
        assert (
            both["NodeResourcesBalancedAllocation"]
            == (self.scores("cpu", "example.com/nic")["NodeResourcesBalancedAllocation"])
        )

    @pytest.mark.parametrize("plugin", ["NodeResourcesFit", "NodeResourcesBalancedAllocation"])
    def test_they_count_without_pre_score_too(self, plugin: str) -> None:
        resources = ("example.com/gpu", "example.com/nic")
        assert self.scores(*resources, without=plugin) == self.scores(*resources)
