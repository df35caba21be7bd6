"""Each rule of kube-scheduler's validation, by the whole line that it says."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.config import ConfigError, build_profile, parse_config
from scheduler.config.defaulted import fill_defaults
from scheduler.config.types import API_VERSION
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.support.configurations import HEAD, config_error

NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
ARGS = "profiles[0].pluginConfig[0].args"
REQUIRED = f"{ARGS}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
REMOVED = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'


def with_args(plugin: str, args: str) -> str:
    return HEAD + f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "leaderElection: {leaseDuration: 80s, renewDeadline: 90s}",
            'leaderElection.leaseDuration: Invalid value: "1m30s": must be greater than `RenewDeadline`',
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: EBSLimits}]}}}]",
            f'profiles[0].plugins.filter.enabled[1]: Invalid value: "EBSLimits": {REMOVED}',
        ),
        (
            "profiles: [{pluginConfig: [{name: CinderLimits}]}]",
            f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {REMOVED}',
        ),
        (
            "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: Own}]}}}]",
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: Own}]}}}]",
            'profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":"Own","Weight":0}],"Disabled":null}:'
            " must be the same for all profiles",
        ),
        (
            "profiles: [{schedulerName: a, plugins: &q {queueSort: {enabled: [{name: Own}]}}},"
            " {schedulerName: b, plugins: *q, pluginConfig: [{name: Own, args: {x: 1}}]}]",
            'profiles[1].pluginConfig.args: Invalid value: {"x":1}: queueSort must be the same for all profiles',
        ),
        (
            "extenders: [{managedResources: [{name: a/b/c}]}]",
            f'extenders[0].managedResources[0].name: Invalid value: "a/b/c": a valid label key {NAME_RULE} with an'
            " optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
        (
            "extenders: [{managedResources: [{name: kubernetes.io/x}]}]",
            'extenders[0].managedResources[0].name: Invalid value: "kubernetes.io/x": is an invalid extended resource'
            " name",
        ),
        (  # in kube-scheduler's order, arguments among the rest
            "parallelism: 0\nclientConnection: {burst: -1}\npercentageOfNodesToScore: 101\n"
            "profiles: [{schedulerName: '', pluginConfig: [{name: InterPodAffinity,"
            " args: {hardPodAffinityWeight: 101}}]}]",
            "[clientConnection.burst: Invalid value: -1: must be non-negative,"
            " parallelism: Invalid value: 0: should be an integer value greater than zero,"
            " profiles[0].schedulerName: Required value,"
            f" {ARGS}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100],"
            " percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]]",
        ),
    ],
)
def test_rules_of_the_file(text: str, message: str) -> None:
    assert config_error(HEAD + text) == message


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a b,"
            " whenUnsatisfiable: ScheduleAnyway}]}",
            f'{ARGS}.defaultConstraints[0].topologyKey: Invalid value: "a b": name part {NAME_RULE}',
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1}]}",
            f"[{ARGS}.defaultConstraints[0].topologyKey: Required value: can not be empty,"
            f" {ARGS}.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty]",
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [&c {maxSkew: 1, topologyKey: z,"
            " whenUnsatisfiable: DoNotSchedule}, *c]}",
            f'{ARGS}.defaultConstraints[1]: Duplicate value: "{{z, DoNotSchedule}}"',
        ),
        (
            "PodTopologySpread",
            "{defaultingType: Own}",
            f'{ARGS}.defaultingType: Unsupported value: "Own": supported values: "System", "List"',
        ),
        (
            "NodeResourcesFit",
            "{ignoredResources: ['']}",
            f'[{ARGS}.ignoredResources[0]: Invalid value: "": name part must be non-empty,'
            f' {ARGS}.ignoredResources[0]: Invalid value: "": name part {NAME_RULE}]',
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {resources: [{name: cpu}]}}",
            f'{ARGS}.scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated",'
            ' "RequestedToCapacityRatio"',
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:"
            " [{matchExpressions: [{key: k, operator: In}, {key: k, operator: Gt, values: [x]}],"
            " matchFields: [{key: metadata.name, operator: Exists}]}]}}}",
            f"[{REQUIRED}.matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values"
            " set can't be empty,"
            f" {REQUIRED}.matchExpressions[1].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must"
            " be an integer,"
            f' {REQUIRED}.matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"]',
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference:"
            " {matchExpressions: [{key: k, operator: Exists, values: [v]}]}}]}}",
            f"{ARGS}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchExpressions[0].values:"
            ' Invalid value: ["v"]: values set must be empty for exists and does not exist',
        ),
        (
            "VolumeBinding",
            "{shape: [{utilization: 0, score: 1}]}",
            f'{ARGS}.shape: Invalid value: [{{"utilization":0,"score":1}}]: unexpected field `shape`, remove it or turn'
            " on the feature gate StorageCapacityScoring",
        ),
        (
            "DynamicResources",
            "{filterTimeout: -1s, bindingTimeout: 500ms}",
            f'[{ARGS}.filterTimeout: Invalid value: "-1s": must be zero or positive,'
            f' {ARGS}.bindingTimeout: Invalid value: "500ms": must be at least 1 second]',
        ),
        (
            "NodeAffinity",
            "{apiVersion: kubescheduler.config.k8s.io/v1beta3}",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: no kind"
            ' "NodeAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
        ),
    ],
)
def test_rules_of_arguments(plugin: str, args: str, message: str) -> None:
    assert config_error(with_args(plugin, args)) == message


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated, resources: []}}"),
        ("NodeResourcesBalancedAllocation", "{resources: []}"),
    ],
)
def test_no_resources_mean_the_default_ones(plugin: str, args: str) -> None:
    configs = fill_defaults(parse_config(with_args(plugin, args)), IN_TREE)["profiles"][0]["pluginConfig"]
    (written,) = [entry["args"] for entry in configs if entry["name"] == plugin]
    assert written.get("scoringStrategy", written)["resources"] == [
        {"name": "cpu", "weight": 1},
        {"name": "memory", "weight": 1},
    ]


@pytest.mark.parametrize(
    ("point", "plugin"),
    [("preFilter", "NodeResourcesFit"), ("preScore", "TaintToleration"), ("preBind", "VolumeBinding")],
)
def test_a_plugin_may_be_named_at_every_point_that_kube_schedulers_extends(point: str, plugin: str) -> None:
    """Where ours has nothing to do, nothing runs."""
    named = HEAD + f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}}}}]"
    profiles = [build_profile(parse_config(text), 0, IN_TREE, NoCluster()) for text in (HEAD, named)]
    assert [p.name for p in profiles[1].filter] == [p.name for p in profiles[0].filter]


class OwnArgs(Args, frozen=True):
    """For the test's plugin."""

    limit: int = 1

    def problems(self) -> list[Problem]:
        """Not above nine."""
        return [invalid("limit", self.limit, "too high")] if self.limit > 9 else []


class Own(BasePlugin):
    """A plugin that only this registry knows."""

    name = "Own"
    args_type = OwnArgs

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return the same score for every node."""
        return np.zeros(nodes.slots, np.int64)


REGISTRY = {**IN_TREE, "Own": Own}


class TestAPluginOfAnotherRegistry:
    """Its name, arguments and defaults are as good as those in the tree."""

    text = HEAD + "profiles: [{plugins: {score: {enabled: [{name: Own, weight: 3}]}}}]"

    def test_is_enabled_and_has_its_defaults_written(self) -> None:
        config = parse_config(self.text, registry=REGISTRY)
        assert build_profile(config, 0, REGISTRY, NoCluster()).weights["Own"] == 3
        written = {
            entry["name"]: entry["args"] for entry in fill_defaults(config, REGISTRY)["profiles"][0]["pluginConfig"]
        }
        assert written["Own"] == {"limit": 1, "apiVersion": API_VERSION, "kind": "OwnArgs"}

    def test_has_its_arguments_checked(self) -> None:
        with pytest.raises(ConfigError) as raised:
            parse_config(with_args("Own", "{limit: 10}"), registry=REGISTRY)
        assert str(raised.value) == f"{ARGS}.limit: Invalid value: 10: too high"

    def test_is_unknown_to_others(self) -> None:
        with pytest.raises(ConfigError, match='ScorePlugin "Own" does not exist'):
            build_profile(parse_config(self.text), 0, IN_TREE, NoCluster())
