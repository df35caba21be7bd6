"""A plugin that is disabled at PreFilter or PreScore alone: it fails, or falls back, as kube-scheduler's does."""

from __future__ import annotations

import time

import pytest

from herodotus_record.model import Code, DecisionPath
from scheduler.config import build_profile, parse_config
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.config.test_load import HEAD


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
        names = f"{{disabled: [{{name: {plugin}}}]}}"
        config = f"profiles: [{{plugins: {{preFilter: {names}, filter: {names}}}}}]"
        profile = build_profile(parse_config(HEAD + config), 0, IN_TREE, NoCluster())
        result = schedule(
            Framework(profile, time.monotonic), make_pod().info(), Snapshot.from_columns(cluster()), seed=0
        )
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


def test_reserve_of_volume_binding_needs_its_pre_filter() -> None:
    names = "{disabled: [{name: VolumeBinding}]}"
    config = f"profiles: [{{plugins: {{preFilter: {names}, filter: {names}}}}}]"
    profile = build_profile(parse_config(HEAD + config), 0, IN_TREE, NoCluster())
    framework = Framework(profile, time.monotonic)
    result = schedule(framework, make_pod().info(), Snapshot.from_columns(cluster()), seed=0)
    said = framework.run_reserve(result.state, make_pod().info(), "a")
    assert said is not None
    assert (said.plugin, said.verdict.code, join_reasons(said.verdict)) == ("VolumeBinding", Code.ERROR, "not found")
