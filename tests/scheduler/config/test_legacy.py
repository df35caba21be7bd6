"""kube-scheduler's beta configuration versions: their own defaults, what they become in v1, what is refused.

The expected lists are those of the last release that served each version: v1.22, v1.27 and v1.28.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import ConfigError, build_profile, parse_config
from scheduler.config.load import convert_file
from scheduler.config.types import Configuration
from scheduler.engine.framework.interface import EXTENSION_POINTS
from scheduler.engine.framework.profile import Profile
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.node_resources_fit import NodeResourcesFit
from scheduler.engine.plugins.pod_topology_spread import PodTopologySpread
from scheduler.offline.evaluate import NoCluster

Json = dict[str, Any]

GROUP = "kubescheduler.config.k8s.io"
VERSIONS = ("v1beta1", "v1beta2", "v1beta3")
FILTERS = [
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity"),
]
BETA_SCORES = {
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeResourcesFit": 1,
    "NodeAffinity": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}
BETA3_SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
LEAST, MOST, RATIO = "NodeResourcesLeastAllocated", "NodeResourcesMostAllocated", "RequestedToCapacityRatio"


def document(version: str, plugins: Json | None = None, *config: Json, **fields: Any) -> str:
    """Return a file with one profile of these plugins and plugin arguments."""
    profile = {"schedulerName": "a", **({"plugins": plugins} if plugins else {}), "pluginConfig": list(config)}
    head = {"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**head, "profiles": [profile], **fields})


def accepted(text: str) -> tuple[Configuration, list[str]]:
    """Return the configuration, and the notes after the deprecation."""
    notes: list[str] = []
    config = parse_config(text, legacy=notes.append)
    version = yaml.safe_load(text)["apiVersion"]
    assert notes[0].startswith(f"{version} is deprecated: kube-scheduler removed it in v1.")
    assert sum("deprecated" in note for note in notes) == 1
    return config, notes[1:]


def built(config: Configuration) -> Profile:
    return build_profile(config, 0, IN_TREE, NoCluster())


def points(profile: Profile) -> dict[str, list[str]]:
    """Return the plugins at each point, with their weights."""
    snake = ("".join(f"_{c.lower()}" if c.isupper() else c for c in point) for point in EXTENSION_POINTS)
    return {point: [plugin.name for plugin in getattr(profile, point)] for point in snake}


def outcome(config: Configuration) -> object:
    """Return the profile's plugins and weights, or the error."""
    try:
        profile = built(config)
    except ConfigError as e:
        return str(e)
    return points(profile), profile.weights


def scores(profile: Profile) -> dict[str, int]:
    return {plugin.name: profile.weights[plugin.name] for plugin in profile.score}


def unheard(note: str) -> None:
    """For notes that do not matter."""


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_config(text, legacy=unheard)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def refs(*names: str) -> list[Json]:
    """`NAME` or `NAME:WEIGHT`."""
    return [{"name": n, **({"weight": int(w)} if w else {})} for n, _, w in (name.partition(":") for name in names)]


def fit(config: Configuration) -> Json:
    (plugin,) = [p for p in built(config).score if p.name == "NodeResourcesFit"]
    assert isinstance(plugin, NodeResourcesFit)
    return dict(msgspec.json.decode(msgspec.json.encode(plugin.args.scoring_strategy)))


@pytest.mark.parametrize(
    ("version", "expected"), [("v1beta1", BETA_SCORES), ("v1beta2", BETA_SCORES), ("v1beta3", BETA3_SCORES)]
)
def test_each_version_has_its_own_default_plugins_order_and_weights(version: str, expected: dict[str, int]) -> None:
    config, notes = accepted(document(version))
    profile = built(config)
    assert notes == []
    assert list(scores(profile).items()) == list(expected.items())
    assert [p.name for p in profile.filter] == FILTERS
    assert "SchedulingGates" in [p.name for p in profile.pre_enqueue]
    assert [p.name for p in profile.post_filter] == ["DefaultPreemption"]
    assert [p.name for p in profile.bind] == ["DefaultBinder"]


@pytest.mark.parametrize("version", VERSIONS)
def test_beta_version_is_refused_with_a_hint_without_the_flag(version: str) -> None:
    with pytest.raises(ConfigError, match=f"found {GROUP}/{version} KubeSchedulerConfiguration; --accept-legacy"):
        parse_config(document(version))


def test_every_plugin_still_runs_where_it_has_gained_a_point() -> None:
    """NodeVolumeLimits and VolumeZone had no PreFilter in v1beta2, and need theirs now."""
    pre_filters = points(built(accepted(document("v1beta2"))[0]))["pre_filter"]
    assert {"NodeVolumeLimits", "VolumeZone"} < set(pre_filters)
    off = document("v1beta2", {"filter": {"disabled": refs("VolumeZone")}})
    assert "VolumeZone" not in points(built(accepted(off)[0]))["pre_filter"]


def test_v1beta2_changes_a_default_plugin_in_place_and_v1beta1_appends() -> None:
    own = {"score": {"disabled": refs("ImageLocality"), "enabled": refs("NodeAffinity:7", "ImageLocality:5")}}
    assert list(scores(built(accepted(document("v1beta2", own))[0])).items())[-4:] == [
        *(("NodeAffinity", 7), ("PodTopologySpread", 2), ("TaintToleration", 1), ("ImageLocality", 5))
    ]
    with pytest.raises(ConfigError, match='plugin "NodeAffinity" already registered as "ScorePlugin"'):
        built(accepted(document("v1beta1", own))[0])


@pytest.mark.parametrize(
    ("scorer", "args", "expected"),
    [
        (MOST, {"resources": refs("cpu:3")}, {"type": "MostAllocated", "resources": refs("cpu:3")}),
        (
            RATIO,
            {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
            {
                "type": "RequestedToCapacityRatio",
                "resources": refs("cpu:1", "memory:1"),
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            },
        ),
    ],
    ids=["most", "ratio"],
)
def test_a_scorer_of_v1beta1_becomes_a_strategy_of_node_resources_fit(scorer: str, args: Json, expected: Json) -> None:
    plugins = {"score": {"disabled": refs(LEAST), "enabled": refs(f"{scorer}:5")}}
    ignored = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["a/b"]}}
    config, notes = accepted(document("v1beta1", plugins, ignored, {"name": scorer, "args": args}))
    assert notes == []
    assert {key: value for key, value in fit(config).items() if value is not None} == expected
    assert scores(built(config))["NodeResourcesFit"] == 5
    (plugin,) = [p for p in built(config).filter if p.name == "NodeResourcesFit"]
    assert isinstance(plugin, NodeResourcesFit)
    assert plugin.args.ignored_resources == ("a/b",)


def test_without_a_scorer_node_resources_fit_gives_no_points() -> None:
    config, _ = accepted(document("v1beta1", {"score": {"disabled": refs(LEAST)}}))
    assert "NodeResourcesFit" not in scores(built(config))


@pytest.mark.parametrize(("version", "kind"), [("v1beta1", "List"), ("v1beta2", "")])
def test_default_constraints_alone_mean_a_list_in_v1beta1(version: str, kind: str) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    text = document(version, None, {"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}})
    if not kind:
        assert refused(text).endswith('defaultingType: Invalid value: "System": when .defaultConstraints are not empty')
        return
    (plugin,) = [p for p in built(accepted(text)[0]).filter if p.name == "PodTopologySpread"]
    assert isinstance(plugin, PodTopologySpread)
    assert plugin.args.defaulting_type == kind


@pytest.mark.parametrize(
    ("version", "plugins", "filters", "note"),
    [
        ("v1beta2", {"filter": {"enabled": refs("EBSLimits")}}, FILTERS, "EBSLimits left out"),
        ("v1beta3", {"multiPoint": {"enabled": refs("CinderLimits")}}, FILTERS, "CinderLimits left out"),
        (
            "v1beta2",
            {"filter": {"disabled": refs("*"), "enabled": refs("NodeName", "GCEPDLimits", "EBSLimits")}},
            ["NodeName", "NodeVolumeLimits"],
            "GCEPDLimits becomes NodeVolumeLimits",
        ),
        (
            "v1beta3",
            {"filter": {"disabled": refs("EBSLimits")}},
            FILTERS,
            "EBSLimits is disabled, but NodeVolumeLimits",
        ),
        (
            "v1beta3",
            {"multiPoint": {"disabled": refs("NodeVolumeLimits", "EBSLimits"), "enabled": refs("AzureDiskLimits")}},
            [*(name for name in FILTERS if name != "NodeVolumeLimits"), "NodeVolumeLimits"],
            "AzureDiskLimits becomes NodeVolumeLimits",
        ),
    ],
)
def test_limits_of_in_tree_drivers_are_node_volume_limits(
    version: str, plugins: Json, filters: list[str], note: str
) -> None:
    config, notes = accepted(document(version, plugins))
    assert [p.name for p in built(config).filter] == filters
    assert any(note in each for each in notes)


def test_fields_without_effect_are_dropped_with_a_note() -> None:
    plugins = {"score": {"disabled": refs("NodePreferAvoidPods"), "enabled": refs("NodePreferAvoidPods:1")}}
    text = document(
        *("v1beta1", plugins),
        {"name": "NodeLabel", "args": {"presentLabels": ["x"]}},
        healthzBindAddress="0.0.0.0:10251",
        leaderElection={"resourceLock": "endpointsleases"},
    )
    config, notes = accepted(text)
    assert notes == [
        "healthzBindAddress: left out, v1 has no such field",
        "leaderElection.resourceLock: endpointsleases becomes leases",
        "profiles[0].plugins.score: NodePreferAvoidPods left out, the annotation that it read is no more",
        "profiles[0].pluginConfig[0]: left out, NodeLabel is not used",
    ]
    assert config.leader_election.resource_lock == "leases"


AT = "profiles[0].plugins"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            document("v1beta1", {"filter": {"enabled": refs("ServiceAffinity")}}),
            f'{AT}.filter.enabled[0]: Invalid value: "ServiceAffinity": has no equivalent in v1: use InterPodAffinity'
            " instead",
        ),
        (
            document("v1beta1", {"score": {"enabled": refs(MOST)}}),
            f'{AT}.score.enabled[0]: Invalid value: "{MOST}": was conflict with "{LEAST}": v1 has one scoring strategy,'
            " so disable all of these but one",
        ),
        (
            document("v1beta3", {"score": {"enabled": refs(LEAST)}}),
            f'{AT}.score.enabled[0]: Invalid value: "{LEAST}": was invalid in version "{GROUP}/v1beta2"'
            f' (KubeSchedulerConfiguration is version "{GROUP}/v1beta3")',
        ),
        (document("v1beta2", {"multiPoint": {}}), f'unknown field "{AT}.multiPoint"'),
        (document("v1beta1", {"preEnqueue": {}}), f'unknown field "{AT}.preEnqueue"'),
        (document("v1beta3", delayCacheUntilActive=True), 'unknown field "delayCacheUntilActive"'),
        (document("v1beta3", healthzBindAddress=":1"), 'unknown field "healthzBindAddress"'),
        (document("v1beta2", parallelism="x"), "parallelism: Expected `int`, got `str`"),
        (document("v1beta2", {"filters": {}}), f'unknown field "{AT}.filters"'),
        (
            document("v1beta1", None, {"name": "NodeResourcesFit", "args": {"scoringStrategy": {}}}),
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: unknown field"
            ' "scoringStrategy"',
        ),
        (
            document("v1beta2", leaderElection={"resourceLock": "endpoints"}),
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (
            document("v1beta1", {"score": {"disabled": refs(LEAST), "enabled": refs(RATIO)}}),
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape: Required value: at least"
            " one point must be specified",
        ),
        (
            '{"kind": "Policy", "apiVersion": "v1", "predicates": []}',
            "this is a scheduler Policy (policy.cfg), which kube-scheduler read until v1.22, and no"
            " KubeSchedulerConfiguration: Policy files are not read",
        ),
    ],
)
def test_field_without_equivalent_is_refused_by_its_path(text: str, message: str) -> None:
    assert refused(text) == message


PLAIN = ("NodeName", "NodePorts", "NodeAffinity", "TaintToleration", "VolumeZone", "NodeUnschedulable")
SCORING = ("NodeAffinity", "TaintToleration", "ImageLocality", "PodTopologySpread", "InterPodAffinity")


def plugin_sets(names: tuple[str, ...], weights: bool) -> st.SearchStrategy[Json]:
    weight = {"weight": st.integers(1, 9)} if weights else {}
    ref = st.fixed_dictionaries({"name": st.sampled_from(names)}, optional=weight)
    enabled = st.lists(ref, unique_by=lambda each: each["name"])
    disabled = st.lists(st.fixed_dictionaries({"name": st.sampled_from((*names, "*"))}), max_size=4)
    return st.fixed_dictionaries({}, optional={"enabled": enabled, "disabled": disabled})


SETS = st.fixed_dictionaries({}, optional={"filter": plugin_sets(PLAIN, False), "score": plugin_sets(SCORING, True)})


@given(version=st.sampled_from(VERSIONS), sets=SETS, multi_point=plugin_sets(PLAIN, False))
def test_the_converted_file_is_the_same_configuration_and_the_same_profile(
    tmp_path_factory: pytest.TempPathFactory, version: str, sets: Json, multi_point: Json
) -> None:
    """Whatever is enabled and disabled: where the beta file gives a profile, its v1 gives the same."""
    if version == "v1beta3":
        sets = {**sets, "multiPoint": multi_point}
    text = document(version, sets)
    path = tmp_path_factory.getbasetemp() / f"{version}.yaml"
    path.write_text(text)
    v1 = parse_config(convert_file(path, unheard))
    legacy, _ = accepted(text)
    assert v1 == legacy
    assert outcome(v1) == outcome(legacy)


@given(own=plugin_sets(SCORING, True))
def test_v1beta2_merges_as_kube_scheduler_did(own: Json) -> None:
    """Against the rule itself: defaults without the disabled, with the weights that the file gives, then the rest."""
    off = {ref["name"] for ref in own.get("disabled", [])}
    given_weights = {ref["name"]: ref.get("weight", 1) for ref in own.get("enabled", [])}
    kept = {n: given_weights.get(n, w) for n, w in BETA_SCORES.items() if n not in off and "*" not in off}
    expected = kept | {n: w for n, w in given_weights.items() if n not in kept}
    assert list(scores(built(accepted(document("v1beta2", {"score": own}))[0])).items()) == list(expected.items())


def test_v1_is_converted_to_itself(tmp_path: Path) -> None:
    text = f"# kept\napiVersion: {GROUP}/v1\nkind: KubeSchedulerConfiguration\nparallelism: 4\n"
    (tmp_path / "v1.yaml").write_text(text)
    assert convert_file(tmp_path / "v1.yaml", unheard) == text


def test_a_file_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(document("v1beta2", parallelism=0))
    with pytest.raises(ConfigError, match=rf"^{path}: parallelism: Invalid value: 0: should be"):
        convert_file(path, unheard)
