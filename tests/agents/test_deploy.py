"""The manifests of the agents: every combination renders, its ports and verbs are served, rights are what is asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_agents import __main__ as command
from herodotus_agents import settings
from herodotus_agents.registry import load
from scheduler.config import build_profile, read
from scheduler.config import load as load_configuration
from scheduler.evaluate import NoCluster
from scheduler.plugins import IN_TREE
from tests.processes import ROOT

Json = dict[str, Any]

AGENTS = ROOT / "deploy/agents"
COMBINATIONS = ("safe", "congestion", "pigeon", "reward", "foo", "safe-congestion", "safe-pigeon")


def rendered(name: str) -> list[Json]:
    done = subprocess.run(["kubectl", "kustomize", str(AGENTS / name)], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def the(objects: list[Json], kind: str, name: str = "") -> Json:
    (found,) = (o for o in objects if o["kind"] == kind and o["metadata"]["name"].startswith(name))
    return found


def environment(container: Json) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container["env"]}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_extenders_are_where_the_scheduler_asks_for_them(name: str) -> None:
    objects = rendered(name)
    config = read(the(objects, "ConfigMap")["data"]["config.yaml"])
    scheduler, *extenders = sorted(
        the(objects, "Deployment")["spec"]["template"]["spec"]["containers"], key=lambda c: c["name"] != "my-scheduler"
    )
    assert scheduler["command"][0] == "kube-scheduler"
    served: dict[str, Any] = {}
    for container in extenders:
        given = environment(container)
        arguments = command._parser().parse_args(container["args"])
        (port,) = container["ports"]
        assert settings.service(None, given).http_port == port["containerPort"]
        assert container["livenessProbe"]["httpGet"] == {"path": "/version", "port": port["containerPort"]}
        loaded = load(arguments.agents.split(","), {}, given)
        assert not loaded.failed
        assert arguments.watch_nodes
        served[f"http://localhost:{port['containerPort']}/scheduler"] = loaded
    assert {extender.url_prefix for extender in config.extenders} == served.keys()
    for extender in config.extenders:
        loaded = served[extender.url_prefix]
        assert extender.prioritize_verb.removeprefix("priorities/") in loaded.priorities
        assert not extender.filter_verb or extender.filter_verb.removeprefix("predicates/") in loaded.predicates


MEASURING = list(yaml.safe_load_all((AGENTS / "measuring.yaml").read_text()))


@pytest.mark.parametrize("name", [o["metadata"]["name"] for o in MEASURING if o["kind"] == "Deployment"])
def test_what_measures_is_started_with_its_own_arguments(name: str) -> None:
    (container,) = the(MEASURING, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    assert command._parser().parse_args(container["args"]).in_cluster


def test_rights_are_those_of_the_requests() -> None:
    rules = {
        o["metadata"]["name"]: {(r, verb) for rule in o["rules"] for r in rule["resources"] for verb in rule["verbs"]}
        for o in MEASURING
        if o["kind"] == "ClusterRole"
    }
    assert rules == {
        "herodotus-annotator": {("nodes", "list"), ("nodes", "patch"), ("pods", "list")},
        "herodotus-monitor": {("pods", "list"), ("pods", "watch"), ("nodes", "patch")},
    }


@pytest.mark.parametrize("file", sorted((AGENTS / "profiles").glob("*.yaml")), ids=lambda p: p.name)
def test_profiles_of_our_scheduler_can_be_built(file: Path) -> None:
    config = load_configuration(file)
    assert build_profile(config, 0, IN_TREE, NoCluster()).score
    assert config.leader_election.resource_name == config.profiles[0].scheduler_name


@pytest.mark.parametrize("file", sorted((AGENTS / "test").glob("*.yaml")), ids=lambda p: p.name)
def test_test_pods_name_the_scheduler_where_they_name_one(file: Path) -> None:
    (found,) = yaml.safe_load_all(file.read_text())
    spec = found["spec"].get("template", found)["spec"]
    assert spec.get("schedulerName", "my-scheduler") == "my-scheduler"
    assert json.dumps(found)
