"""The manifests of the agents: every combination renders, ports and verbs are served, and RBAC rules fit requests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_agents import command_line as command
from herodotus_agents import settings
from herodotus_agents.registry import load_agents
from scheduler.config import build_profile, parse_config
from scheduler.config import load as load_configuration
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.processes import ROOT

Json = dict[str, Any]

AGENTS = ROOT / "deploy/agents"
COMBINATIONS = ("safe", "congestion", "pigeon", "reward", "foo", "safe-congestion", "safe-pigeon")


def rendered(name: str) -> list[Json]:
    done = subprocess.run(["kubectl", "kustomize", str(AGENTS / name)], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("name", COMBINATIONS)
def test_extenders_are_not_reachable_from_outside_the_pod(name: str) -> None:
    """They listen on every address, without TLS, beside the scheduler that asks them over loopback."""
    (policy,) = (each for each in rendered(name) if each["kind"] == "NetworkPolicy")
    (pods,) = (
        each for each in rendered(name) if each["kind"] == "Deployment" and each["metadata"]["name"] == "my-scheduler"
    )
    assert (
        policy["spec"]["podSelector"]["matchLabels"].items() <= pods["spec"]["template"]["metadata"]["labels"].items()
    )
    assert (policy["spec"]["policyTypes"], policy["spec"]["ingress"]) == (["Ingress"], [])
    assert policy["metadata"]["namespace"] == pods["metadata"]["namespace"]


def find_object(objects: list[Json], kind: str, name: str = "") -> Json:
    (found,) = (o for o in objects if o["kind"] == kind and o["metadata"]["name"].startswith(name))
    return found


def environment(container: Json) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container["env"]}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_the_scheduler_s_extender_urls_are_served(name: str) -> None:
    objects = rendered(name)
    config = parse_config(find_object(objects, "ConfigMap")["data"]["config.yaml"])
    scheduler, *extenders = sorted(
        find_object(objects, "Deployment")["spec"]["template"]["spec"]["containers"],
        key=lambda c: c["name"] != "my-scheduler",
    )
    assert scheduler["command"][0] == "kube-scheduler"
    served: dict[str, Any] = {}
    for container in extenders:
        given = environment(container)
        arguments = command._parser().parse_args(container["args"])
        port, probes = container["ports"]
        assert settings.load_extender_service_settings(None, given).http_port == port["containerPort"]
        assert [address.port for address in arguments.probe_bind] == [probes["containerPort"]]
        for kind, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert container[kind]["httpGet"] == {"path": path, "port": probes["containerPort"]}
        loaded = load_agents(arguments.agents.split(","), {}, given)
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
def test_annotators_are_started_with_valid_arguments(name: str) -> None:
    (container,) = find_object(MEASURING, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    assert command._parser().parse_args(container["args"]).in_cluster


def test_rbac_rules_cover_exactly_the_requests() -> None:
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
def test_profiles_for_the_scheduler_can_be_built(file: Path) -> None:
    config = load_configuration(file)
    assert build_profile(config, 0, IN_TREE, NoCluster()).score
    assert config.leader_election.resource_name == config.profiles[0].scheduler_name


@pytest.mark.parametrize("file", sorted((AGENTS / "test").glob("*.yaml")), ids=lambda p: p.name)
def test_the_scheduler_names_of_test_pods_exist(file: Path) -> None:
    (found,) = yaml.safe_load_all(file.read_text())
    spec = found["spec"].get("template", found)["spec"]
    assert spec.get("schedulerName", "my-scheduler") == "my-scheduler"
    assert json.dumps(found)
