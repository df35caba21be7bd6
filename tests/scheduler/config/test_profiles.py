"""From plugin sets to plugins in order: kube-scheduler's merge rules."""

from collections.abc import Sequence

import numpy as np
import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import SUCCESS
from scheduler.config import ConfigError, Configuration, build_profile, parse_config
from scheduler.config.arguments import find_argument_problems
from scheduler.config.types import API_VERSION, PluginConfig, ProfileConfig
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Plugin
from scheduler.engine.framework.plugin import BasePlugin, DependsOn
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import DEFAULT, IN_TREE
from scheduler.engine.plugins.node_resources_fit import NodeResourcesFit
from scheduler.engine.rules import Rules
from scheduler.offline.evaluate import NoCluster
from tests.support.configurations import HEAD

FILTERS = [
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
    *("InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
]


def profile(text: str = "") -> Profile:
    config = parse_config(HEAD + f"profiles:\n- schedulerName: a\n{text}") if text else Configuration()
    return build_profile(config, 0, IN_TREE, NoCluster())


def plugins(text: str) -> Profile:
    """Return the profile with this `plugins` block."""
    return profile(f"  plugins: {text}")


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        profile(text)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_feature_gates_of_a_configuration_are_checked_when_it_is_read() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(HEAD + "featureGates: {SidecarContainers: false}")
    assert str(raised.value) == (
        "featureGates: cannot set feature gate SidecarContainers to false, feature is locked to true"
    )


def names(group: Sequence[Plugin]) -> list[str]:
    return [p.name for p in group]


def test_the_default_profile() -> None:
    made = profile()
    assert names(made.filter) == FILTERS
    assert names(made.queue_sort) == ["PrioritySort"]
    assert names(made.pre_enqueue)[0] == "SchedulingGates"
    assert names(made.post_filter) == ["DynamicResources", "DefaultPreemption"]
    assert names(made.bind) == ["DefaultBinder"]
    weights = {name: weight or 1 for name, weight in DEFAULT}
    assert made.weights == {name: weights[name] for name in names(made.score)}
    assert (made.weights["TaintToleration"], made.weights["NodeAffinity"], made.weights["ImageLocality"]) == (3, 2, 1)
    assert made.percentage_of_nodes_to_score == 0


def test_a_plugin_is_one_object_at_all_its_points() -> None:
    made = profile()
    fit = [p for p in (*made.filter, *made.score, *made.pre_filter) if p.name == "NodeAffinity"]
    assert len({id(p) for p in fit}) == 1


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        pytest.param(
            "{filter: {disabled: [{name: NodeName}]}}",
            [f for f in FILTERS if f != "NodeName"],
            id="disabled at the point",
        ),
        pytest.param(
            "{multiPoint: {disabled: [{name: NodeName}]}}",
            [f for f in FILTERS if f != "NodeName"],
            id="disabled everywhere",
        ),
        pytest.param("{filter: {disabled: [{name: '*'}]}}", [], id="all of a point"),
        pytest.param(
            "{filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}, {name: NodeName}]}}",
            ["NodePorts", "NodeName"],
            id="all but some, in their order",
        ),
        pytest.param(
            "{filter: {enabled: [{name: NodePorts}, {name: NodeName}]}}",
            ["NodePorts", "NodeName", *(f for f in FILTERS if f not in ("NodePorts", "NodeName"))],
            id="overrides come first, in their order",
        ),
        pytest.param(
            "{filter: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}",
            [*(f for f in FILTERS if f != "NodeName"), "NodeName"],
            id="disabled and enabled at the point: to the end",
        ),
        pytest.param(
            "{multiPoint: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}",
            [*(f for f in FILTERS if f != "NodeName"), "NodeName"],
            id="disabled and enabled everywhere: to the end",
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: NodeName, weight: 7}]}}",
            FILTERS,
            id="enabled again everywhere: in its place",
        ),
        pytest.param(
            "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: NodeName}, {name: PrioritySort},"
            " {name: DefaultBinder}]}}",
            ["NodeName"],
            id="only what is named",
        ),
    ],
)
def test_the_order_of_a_point(text: str, filters: list[str]) -> None:
    assert names(plugins(text).filter) == filters


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        pytest.param(
            "{score: {enabled: [{name: ImageLocality, weight: 5}]}}",
            {"ImageLocality": 5, "TaintToleration": 3},
            id="at score",
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: ImageLocality, weight: 6}]}}", {"ImageLocality": 6}, id="everywhere"
        ),
        pytest.param(
            "{score: {enabled: [{name: ImageLocality, weight: 5}]}, multiPoint: {enabled: [{name:"
            " ImageLocality, weight: 6}]}}",
            {"ImageLocality": 5},
            id="score wins",
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: TaintToleration}]}}",
            {"TaintToleration": 1},
            id="none means 1, even for the default",
        ),
        pytest.param(
            "{score: {enabled: [{name: TaintToleration, weight: 0}]}}", {"TaintToleration": 1}, id="0 means 1"
        ),
    ],
)
def test_weights(text: str, weights: dict[str, int]) -> None:
    made = plugins(text).weights
    assert {name: made[name] for name in weights} == weights


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{filter: {enabled: [{name: Nope}]}}", 'profiles[0]: FilterPlugin "Nope" does not exist'),
        ("{multiPoint: {enabled: [{name: Nope}]}}", 'profiles[0]: MultiPoint "Nope" does not exist'),
        ("{score: {enabled: [{name: NodeName}]}}", 'profiles[0]: plugin "NodeName" does not extend ScorePlugin plugin'),
        (
            "{filter: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            'profiles[0]: plugin "NodeName" already registered as "FilterPlugin"',
        ),
        (
            "{multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            'profiles[0]: plugin "NodeName" already registered as "FilterPlugin"',
        ),
        (
            "{queueSort: {disabled: [{name: '*'}]}}",
            'profiles[0]: only one queue sort plugin required for profile with scheduler name "a", but got 0',
        ),
        (
            "{bind: {disabled: [{name: '*'}]}}",
            'profiles[0]: at least one bind plugin is needed for profile with scheduler name "a"',
        ),
        (
            "{score: {enabled: [{name: ImageLocality, weight: -1}]}}",
            "profiles[0]: total score of Score plugins could overflow",
        ),
        (
            "{score: {enabled: [{name: ImageLocality, weight: 2147483648}]}}",
            "profiles[0].plugins.score.enabled[0].weight: Expected `int` <= 2147483647",
        ),
    ],
)
def test_sets_that_cannot_be(text: str, message: str) -> None:
    assert refused(f"  plugins: {text}") == message


def arguments(plugin: str, args: str) -> str:
    return f"  pluginConfig: [{{name: {plugin}, args: {args}}}]"


FIT, BALANCED, PREEMPTION, AFFINITY = (
    *("NodeResourcesFit", "NodeResourcesBalancedAllocation"),
    *("DefaultPreemption", "NodeAffinity"),
)
ARGS = "profiles[0].pluginConfig[0].args"
SHAPE = f"{ARGS}.scoringStrategy.requestedToCapacityRatio.shape"
RATIO = "type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: "


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        ("NodeName", "{x: 1}", "profiles[0].pluginConfig[0].args: plugin NodeName takes no arguments"),
        (
            FIT,
            "{x: 1}",
            f'decoding .profiles[0].pluginConfig[0]: decoding args for plugin {FIT}: unknown field "x"',
        ),
        (
            FIT,
            "{kind: NodeAffinityArgs}",
            f"decoding .profiles[0].pluginConfig[0]: args for plugin {FIT} were not of type"
            f" {FIT}Args.kubescheduler.config.k8s.io, got NodeAffinityArgs",
        ),
        (
            FIT,
            "{ignoredResourceGroups: [a/b]}",
            f"{ARGS}.ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
        ),
        (
            FIT,
            "{scoringStrategy: {type: Best}}",
            f'{ARGS}.scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated",'
            f' "MostAllocated", "RequestedToCapacityRatio"',
        ),
        (
            FIT,
            "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}",
            f"{ARGS}.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not"
            f" in valid range (0, 100]",
        ),
        (
            FIT,
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            f"{ARGS}.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type"
            f" is RequestedToCapacityRatio",
        ),
        (
            FIT,
            "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}}",
            f"{ARGS}.scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not"
            f" RequestedToCapacityRatio",
        ),
        (
            FIT,
            f"{{scoringStrategy: {{{RATIO}[]}}}}}}",
            f"{SHAPE}: Required value: at least one point must be specified",
        ),
        (
            FIT,
            f"{{scoringStrategy: {{{RATIO}[{{utilization: 50, score: 11}}, {{utilization: 50, score: 1}},"
            f" {{utilization: 101}}]}}}}}}",
            f"[{SHAPE}[1].utilization: Invalid value: 50: values must be sorted in increasing order,"
            f" {SHAPE}[0].score: Invalid value: 11: not in valid range [0, 10],"
            f" {SHAPE}[2].utilization: Invalid value: 101: not in valid range [0, 100]]",
        ),
        (BALANCED, "{resources: [{name: cpu, weight: 2}]}", f"{ARGS}.resources[0].weight: Invalid value: 2: must be 1"),
        (
            BALANCED,
            "{resources: [{name: cpu}, {name: cpu}]}",
            f'{ARGS}.resources[1].name: Duplicate value: "cpu"',
        ),
        (
            PREEMPTION,
            "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
            f"[{ARGS}.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100],"
            f" {ARGS}.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)]",
        ),
        (
            PREEMPTION,
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            f"[{ARGS}.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as"
            f" minCandidateNodesAbsolute,"
            f" {ARGS}.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as"
            f" minCandidateNodesPercentage]",
        ),
        (
            AFFINITY,
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:"
            " [{matchExpressions: [{key: k, operator: Near}]}]}}}",
            f"{ARGS}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            '.matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists",'
            ' "DoesNotExist", "Gt", "Lt"',
        ),
    ],
)
def test_arguments_that_cannot_be(plugin: str, args: str, message: str) -> None:
    assert refused(arguments(plugin, args)) == message


def test_arguments_reach_their_plugin() -> None:
    head = f"apiVersion: {API_VERSION}, kind: NodeResourcesFitArgs"
    made = profile(arguments(FIT, f"{{{head}, ignoredResources: [a/b]}}"))
    (fit,) = [p for p in made.filter if p.name == FIT]
    assert isinstance(fit, NodeResourcesFit)
    assert fit.args.ignored_resources == ("a/b",)


@pytest.mark.parametrize(
    ("over_all", "own", "expected"),
    [(None, None, 0), (40, None, 40), (40, 60, 60), (40, 0, 0), (None, 100, 0), (100, None, 0)],
)
def test_a_profiles_percentage_wins(over_all: int | None, own: int | None, expected: int) -> None:
    text = f"percentageOfNodesToScore: {over_all}\n" if over_all is not None else ""
    text += "profiles: [{schedulerName: a" + (f", percentageOfNodesToScore: {own}" if own is not None else "") + "}]"
    assert build_profile(parse_config(HEAD + text), 0, IN_TREE, NoCluster()).percentage_of_nodes_to_score == expected


def test_arguments_for_a_plugin_that_is_not_known_are_no_error() -> None:
    """As in kube-scheduler: the file may be shared with a build that has the plugin."""
    assert profile("  pluginConfig: [{name: Nope, args: {a: 1}}]").scheduler_name == "a"


class _ReadsAnnotation(BasePlugin):
    """A filter that reads a node annotation."""

    name = "ReadsAnnotation"
    annotations = frozenset({"example.org/rack"})

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        nodes.annotation("example.org/rack")
        return Verdicts((SUCCESS,), np.zeros(nodes.slots, np.uint16))


class _CachedAnnotation(_ReadsAnnotation):
    """A filter whose cached results would not follow the annotation that it reads."""

    name = "CachedAnnotation"
    depends_on = DependsOn.ROW


class _ReserveReadsAnnotation(BasePlugin):
    """A plugin that reads an annotation at a point after Score."""

    name = "ReserveReadsAnnotation"
    annotations = frozenset({"example.org/pdu"})

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> None: ...

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None: ...


def test_refuses_a_plugin_whose_cached_results_miss_changes_of_an_annotation() -> None:
    config = parse_config(HEAD + "profiles: [{plugins: {filter: {enabled: [{name: CachedAnnotation}]}}}]\n")
    with pytest.raises(ConfigError, match='"CachedAnnotation" reads node annotations and must declare') as raised:
        build_profile(config, 0, {**IN_TREE, "CachedAnnotation": _CachedAnnotation}, NoCluster())
    assert "not DependsOn.ROW" in str(raised.value)


def test_a_profile_names_the_annotations_of_plugins_at_every_point() -> None:
    text = "profiles: [{plugins: {multiPoint: {enabled: [{name: ReadsAnnotation}, {name: ReserveReadsAnnotation}]}}}]\n"
    more = {plugin.name: plugin for plugin in (_ReadsAnnotation, _ReserveReadsAnnotation)}
    made = build_profile(parse_config(HEAD + text), 0, {**IN_TREE, **more}, NoCluster())
    assert made.annotations == {"example.org/rack", "example.org/pdu"}


@pytest.mark.parametrize(("version", "is_refused"), [("v1.35.6", False), ("v1.36.0", True)])
def test_a_shape_beside_another_strategy_is_refused_since_v1_36(version: str, is_refused: bool) -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    strategy = {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": shape}}
    entry = PluginConfig(name="NodeResourcesFit", args={"scoringStrategy": strategy})
    profile = ProfileConfig(scheduler_name="a", plugin_config=(entry,))
    rules = Rules.from_settings({}, KubernetesVersion.parse(version))
    assert bool([*find_argument_problems(profile, "profiles[0]", IN_TREE, rules)]) is is_refused
