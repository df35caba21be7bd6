"""Plugins whose results depend on a feature gate, each with both values."""

from __future__ import annotations

import time

import pytest

from scheduler.config import Configuration, build_profile
from scheduler.config.types import PluginRef, Plugins, PluginSet, ProfileConfig
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.pod_topology_spread.constraints import HARD, parse_constraints
from scheduler.engine.rules import Rules
from scheduler.offline.evaluate import NoCluster
from scheduler.offline.observe.batching import BatchDetection
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod

COMPARES = {"TaintTolerationComparisonOperators": True}
UNDECLARED = dict.fromkeys(
    (
        "NodeDeclaredFeatures",
        "ExtendWebSocketsToKubelet",
        "RestartAllContainersOnContainerExits",
        "InPlacePodVerticalScalingInitContainers",
        "InPlacePodLevelResourcesVerticalScaling",
    ),
    False,
)
UNMERGED = {"MatchLabelKeysInPodTopologySpread": False, "MatchLabelKeysInPodTopologySpreadSelectorMerge": False}


def framework(gates: dict[str, bool], profile: ProfileConfig | None = None) -> Framework:
    config = Configuration(feature_gates=gates)
    if profile is not None:
        config = Configuration(feature_gates=gates, profiles=(profile,))
    return Framework(build_profile(config, 0, IN_TREE, NoCluster()), time.monotonic)


def decide(columns: NodeColumns, pod: PodBuilder, gates: dict[str, bool]) -> CycleResult:
    return schedule(framework(gates), pod.info(), Snapshot.from_columns(columns), seed=0)


def feasible(columns: NodeColumns, pod: PodBuilder, gates: dict[str, bool]) -> list[str]:
    trace = decide(columns, pod, gates).trace
    return [columns.names[slot] for slot in trace.feasible.nonzero()[0].tolist()]


def test_tolerations_compare_numbers_in_taint_toleration() -> None:
    columns = columns_of([make_node(f"n{i}").taint("level", str(i)) for i in range(4)])
    pod = make_pod().toleration("level", "1", operator="Gt")
    assert feasible(columns, pod, COMPARES) == ["n2", "n3"]
    assert feasible(columns, pod, {}) == []


def test_soft_taints_are_counted_with_comparison() -> None:
    columns = columns_of([make_node(f"n{i}").taint("level", str(i), effect="PreferNoSchedule") for i in (1, 3)])
    pod = make_pod().toleration("level", "2", operator="Lt")

    def counts(gates: dict[str, bool]) -> list[int]:
        run = next(run for run in decide(columns, pod, gates).trace.scores if run.plugin == "TaintToleration")
        assert run.raw is not None
        return [int(count) for count in run.raw]

    assert (counts(COMPARES), counts({})) == ([0, 1], [1, 1])


def test_taints_are_honoured_with_comparison_when_pods_are_spread() -> None:
    nodes: list[NodeBuilder] = [
        make_node("a").label("zone", "1"),
        make_node("b").label("zone", "2").taint("level", "9"),
    ]
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": HARD,
        "labelSelector": {"matchLabels": {"app": "x"}},
        "nodeTaintsPolicy": "Honor",
    }
    pod = make_pod().label("app", "x").toleration("level", "1", operator="Gt")
    pod = pod.with_spec(topologySpreadConstraints=[constraint])
    columns = columns_of(nodes, [make_pod("old").label("app", "x").node("a")])
    assert feasible(columns, pod, COMPARES) == ["b"]
    assert feasible(columns, pod, {}) == ["a"]  # the other zone is no domain


@pytest.mark.parametrize(("gates", "expected"), [({}, ["rev"]), (UNMERGED, [])], ids=["on", "off"])
def test_match_label_keys_extend_the_selector(gates: dict[str, bool], expected: list[str]) -> None:
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": HARD,
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["rev"],
    }
    pod: PodInfo = make_pod().label("rev", "2").with_spec(topologySpreadConstraints=[constraint]).info()
    (found,) = parse_constraints(pod, HARD, Rules.from_settings(gates))
    assert found.selector is not None
    assert [e.key for e in found.selector.match_expressions or ()] == expected


def test_declared_features_do_not_count_without_their_gate() -> None:
    pod, columns = make_pod().with_spec(hostNetwork=True, hostUsers=False), columns_of([make_node("old")])
    assert feasible(columns, pod, {}) == []
    assert feasible(columns, pod, UNDECLARED) == ["old"]
    assert "NodeDeclaredFeatures" not in [plugin.name for plugin in framework(UNDECLARED).profile.filter]


def test_a_plugin_that_a_profile_names_does_nothing_without_its_gate() -> None:
    named = PluginSet(enabled=(PluginRef(name="NodeDeclaredFeatures"),))
    profile = ProfileConfig(scheduler_name="a", plugins=Plugins(multi_point=named))
    pod = make_pod().with_spec(hostNetwork=True, hostUsers=False)
    snapshot = Snapshot.from_columns(columns_of([make_node("old")]))
    assert schedule(framework(UNDECLARED, profile), pod.info(), snapshot, seed=0).chosen == 0


def test_without_batching_the_observer_expects_no_earlier_ranking() -> None:
    unspread = ProfileConfig(
        scheduler_name="a", plugins=Plugins(multi_point=PluginSet(disabled=(PluginRef(name="PodTopologySpread"),)))
    )
    columns = columns_of([make_node("a"), make_node("b")])
    for gates, expected in (({}, True), ({"OpportunisticBatching": False}, False)):
        decides = framework(gates, unspread)
        detection, pod = BatchDetection(decides.profile), make_pod().info()
        before = schedule(decides, pod, Snapshot.from_columns(columns), seed=0)
        detection.note(pod, "a", before, columns, now_s=0.0)
        cordoned = Snapshot.from_columns(columns_of([make_node("a").cordoned(), make_node("b")]))
        full = schedule(framework(gates, unspread), pod, cordoned, seed=0)
        assert detection.explains(pod, "b", full, columns, now_s=0.1) is expected
