"""The settings of a configuration: with any values it is valid, and decides as they say."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import build_profile, parse_config
from scheduler.config.defaulted import fill_defaults
from scheduler.config.legacy import to_yaml
from scheduler.engine.plugins.registry import Registry
from scheduler.offline.evaluate import NoCluster
from scheduler.offline.simulate.score_settings import ScoreSettings

Json = dict[str, Any]
HEAD: Json = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
GPU = "nvidia.com/gpu"
REGISTRY = Registry()
GPU_SHARES = "scheduler.offline.simulate.gpu_shares:GpuShares"
DOCUMENTS: dict[str, Json] = {
    "empty": HEAD,
    "own": HEAD
    | {
        "podMaxBackoffSeconds": 20,
        "profiles": [
            {
                "schedulerName": "batch",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": GPU_SHARES}, {"name": "NodeAffinity", "weight": 40}]},
                    "score": {
                        "enabled": [{"name": "ImageLocality", "weight": 3}],
                        "disabled": [{"name": "VolumeBinding"}],
                    },
                },
                "pluginConfig": [
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}},
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "ignoredResources": ["example.com/ignored"],
                            "scoringStrategy": {
                                "type": "RequestedToCapacityRatio",
                                "resources": [{"name": "cpu", "weight": 20}],
                                "requestedToCapacityRatio": {
                                    "shape": [{"utilization": 20, "score": 10}, {"utilization": 80, "score": 0}]
                                },
                            },
                        },
                    },
                ],
            },
            {"schedulerName": "other"},
        ],
    },
    "no fit": HEAD | {"profiles": [{"plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}]}}}]},
}


def take(name: str) -> ScoreSettings:
    document = DOCUMENTS[name]
    return ScoreSettings(document, parse_config(to_yaml(document), registry=REGISTRY), REGISTRY, ["cpu", "memory", GPU])


def read(text: str) -> tuple[dict[str, int], Json]:
    config = parse_config(text, registry=REGISTRY)
    weights = build_profile(config, 0, REGISTRY, NoCluster()).weights
    args = {each["name"]: each["args"] for each in fill_defaults(config, REGISTRY)["profiles"][0]["pluginConfig"]}
    return weights, args["NodeResourcesFit"]["scoringStrategy"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_present_values_leave_the_configuration_as_it_is(name: str) -> None:
    settings = take(name)
    assert settings.list_changes(settings.present) == []
    assert yaml.safe_load(settings.format_with(settings.present)) == {"profiles": [{}]} | DOCUMENTS[name]


def test_settings_are_those_of_score_plugins_and_of_the_strategy() -> None:
    present = take("own").present
    assert present["NodeAffinity.weight"] == 40
    assert present["ImageLocality.weight"] == 3
    assert "VolumeBinding.weight" not in present
    assert {name: value for name, value in present.items() if name.startswith("NodeResourcesFit")} == {
        "NodeResourcesFit.weight": 1,
        "NodeResourcesFit.type": "RequestedToCapacityRatio",
        "NodeResourcesFit.resources.cpu": 20,
        "NodeResourcesFit.resources.memory": 0,
        f"NodeResourcesFit.resources.{GPU}": 0,
        "NodeResourcesFit.shape.0": 10,
        "NodeResourcesFit.shape.50": 5,
        "NodeResourcesFit.shape.100": 0,
    }
    assert not any(name.startswith("NodeResourcesFit") for name in take("no fit").present)


@pytest.mark.parametrize("name", DOCUMENTS)
@given(data=st.data())
def test_any_values_give_a_valid_configuration_that_has_them(name: str, data: st.DataObject) -> None:
    settings = take(name)
    values: dict[str, int | str] = {}
    for each in settings.settings:
        drawn: st.SearchStrategy[Any] = st.sampled_from(each.words) if each.words else st.integers(each.low, each.high)
        values[each.name] = data.draw(drawn)
    text = settings.format_with(values)
    weights, strategy = read(text)
    assert weights == {
        name.removesuffix(".weight"): value for name, value in values.items() if name.endswith(".weight") and value
    }
    if weights.get("NodeResourcesFit"):
        resources = {spec["name"]: spec["weight"] for spec in strategy["resources"]}
        prefix = "NodeResourcesFit.resources."
        wanted = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
        assert resources == ({name: value for name, value in wanted.items() if value} or dict.fromkeys(wanted, 1))
        assert strategy["type"] == values["NodeResourcesFit.type"]
    document, present = yaml.safe_load(text), DOCUMENTS[name]
    assert document["profiles"][1:] == present.get("profiles", [])[1:]
    assert {key: value for key, value in document.items() if key != "profiles"} == {
        key: value for key, value in present.items() if key != "profiles"
    }


def test_what_has_no_effect_is_no_change() -> None:
    settings = take("empty")
    shape = {"NodeResourcesFit.shape.50": 9}
    assert settings.list_changes({**settings.present, **shape}) == []
    ratio = {**settings.present, **shape, "NodeResourcesFit.type": "RequestedToCapacityRatio"}
    assert settings.list_changes(ratio) == ["NodeResourcesFit.type", "NodeResourcesFit.shape.50"]
    assert settings.list_changes({**ratio, "NodeResourcesFit.weight": 0}) == ["NodeResourcesFit.weight"]


def test_each_strategy_is_an_example_and_the_present_one_comes_first() -> None:
    settings = take("own")
    types = [each["NodeResourcesFit.type"] for each in settings.list_examples()]
    assert types == ["RequestedToCapacityRatio", "LeastAllocated", "MostAllocated"]
    assert settings.list_examples()[0] == settings.present
    assert take("no fit").list_examples() == [take("no fit").present]
