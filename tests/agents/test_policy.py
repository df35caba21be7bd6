"""Policies of the earlier systems are converted to configurations that the scheduler accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_agents.command_line import main
from herodotus_agents.policy import ALWAYS, PREDICATES, PRIORITIES, PolicyError, convert
from scheduler.config.load import parse_config as read_configuration
from scheduler.engine.plugins import IN_TREE

KUBERL = {
    "kind": "Policy",
    "apiVersion": "v1",
    "predicates": [
        {"name": name}
        for name in ("PodFitsHostPorts", "PodFitsResources", "NoDiskConflict", "MatchNodeSelector", "HostName")
    ],
    "priorities": [
        {"name": "LeastRequestedPriority", "weight": 1},
        {"name": "BalancedResourceAllocation", "weight": 1},
        {"name": "ServiceSpreadingPriority", "weight": 1},
        {"name": "EqualPriority", "weight": 1},
    ],
    "hardPodAffinitySymmetricWeight": 10,
    "extenders": [
        {
            "urlPrefix": "http://localhost:80/scheduler",
            "filterVerb": "",
            "prioritizeVerb": "priorities/rl-priority",
            "preemptVerb": "",
            "bindVerb": "",
            "weight": 10,
            "enableHttps": False,
            "nodeCacheCapable": False,
            "httpTimeout": 1500000000,
        }
    ],
}


def convert_policy(policy: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []
    return convert(json.dumps(policy).encode(), "my-scheduler", notes.append), notes


def test_a_complete_policy_is_converted() -> None:
    found, notes = convert_policy(KUBERL)
    filters = [*ALWAYS, "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeAffinity", "NodeName"]
    scores = ["NodeResourcesFit", "NodeResourcesBalancedAllocation", "PodTopologySpread"]
    everything = [{"name": "*"}]
    assert found == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "my-scheduler",
                "plugins": {
                    "filter": {"disabled": everything, "enabled": [{"name": name} for name in filters]},
                    "score": {"disabled": everything, "enabled": [{"name": name, "weight": 1} for name in scores]},
                },
                "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 10}}],
            }
        ],
        "extenders": [
            {
                "urlPrefix": "http://localhost:80/scheduler",
                "prioritizeVerb": "priorities/rl-priority",
                "weight": 10,
                "httpTimeout": "1.5s",
            }
        ],
    }
    assert notes == ["priorities[3]: EqualPriority left out: it gave every node the same"]


def test_a_policy_with_only_extenders_keeps_the_default_plugins() -> None:
    found, _ = convert_policy({"kind": "Policy", "apiVersion": "v1", "extenders": KUBERL["extenders"]})
    assert found["profiles"] == [{"schedulerName": "my-scheduler"}]


def test_every_name_maps_to_an_existing_plugin() -> None:
    plugins = {name for names in PREDICATES.values() for name in names} | set(PRIORITIES.values()) | set(ALWAYS)
    assert plugins <= IN_TREE.keys()


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"kind": "Pod"}, "kind: expected Policy, found Pod"),
        ({"predicates": [{"name": "Nonsense"}]}, r"predicates\[0\].name: Nonsense is not known"),
        ({"priorities": [{"name": "Nonsense"}]}, r"priorities\[0\].name: Nonsense is not known"),
        (
            {"priorities": [{"name": "x", "argument": {"labelPreference": {}}}]},
            r"priorities\[0\].argument: configured priorities have no successor",
        ),
        ({"extender": []}, "unknown field `extender`"),
    ],
    ids=["kind", "predicate", "priority", "argument", "key"],
)
def test_an_unconvertible_policy_is_rejected_with_its_place(policy: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        convert_policy(policy)


def test_the_scheduler_accepts_the_converted_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.cfg"
    file.write_text(json.dumps(KUBERL | {"priorities": [{"name": "MostRequestedPriority", "weight": 3}]}))
    assert main(["convert-policy", str(file)]) == 0
    text = capsys.readouterr().out
    read = read_configuration(text)
    assert [e.http_timeout for e in read.extenders] == ["1.5s"]
    (strategy,) = (c for c in yaml.safe_load(text)["profiles"][0]["pluginConfig"] if c["name"] == "NodeResourcesFit")
    assert strategy["args"]["scoringStrategy"]["type"] == "MostAllocated"
