"""The manifests have valid arguments, the rights that the scheduler's requests need, and restricted pods."""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_endpoint import certificate
from herodotus_endpoint import options as endpoint
from herodotus_record.version import __version__
from scheduler.commands import main as app
from scheduler.config import load
from scheduler.recorder.spool import DEFAULT_LIMIT_BYTES
from scheduler.serving.access import ALWAYS_ALLOWED_PATHS
from scheduler.serving.port import PORT
from tests.deploy import charts
from tests.deploy.charts import valid
from tests.deploy.manifests import DEPLOY, MANIFEST, REQUESTS, Right, container, named, read
from tests.processes import ROOT

TEST_PODS = sorted((DEPLOY / "test").glob("*.yml"))
VERBS = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}


def rules() -> list[dict[str, Any]]:
    return [rule for o in MANIFEST if o["kind"] in ("Role", "ClusterRole") for rule in o["rules"]]


def bytes_of(quantity: str) -> int:
    match = re.fullmatch(r"(\d+)(Mi|Gi)", quantity)
    assert match, quantity
    return int(match[1]) << {"Mi": 20, "Gi": 30}[match[2]]


def test_objects_are_unique_and_namespaced_ones_have_a_namespace() -> None:
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in MANIFEST]
    assert len(keys) == len(set(keys))
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    assert all((namespace is None) == (kind in cluster_wide) for kind, namespace, _ in keys)
    elsewhere = {key for key in keys if key[1] not in (None, "herodotus")}
    assert elsewhere == {("RoleBinding", "kube-system", "herodotus-scheduler-authentication-reader")}


@pytest.mark.parametrize("rule", rules(), ids=lambda r: f"{r.get('resources') or r['nonResourceURLs']}-{r['verbs']}")
def test_every_rule_names_its_verbs_and_uses_no_wildcard(rule: dict[str, Any]) -> None:
    assert rule["verbs"]
    assert set(rule["verbs"]) <= VERBS
    assert not any("*" in word for words in rule.values() for word in words)


ROLES = (("ClusterRole", "herodotus-scheduler"), ("Role", "herodotus-scheduler"), ("Role", "herodotus-scheduler-ca"))

RIGHTS = {right for rights in REQUESTS.values() for right in rights or ()}


def requests_in(path: Path) -> set[tuple[str, str, str]]:
    """Return (file, function, method) of every call on an object named `api`."""
    found = set()
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                of = call.func.value
                name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
                if name in ("api", "_api") and call.func.attr in METHODS:
                    found.add((str(path.relative_to(ROOT)), function.name, call.func.attr))
    return found


METHODS = {"get", "get_object", "list_objects", "review", "post", "put", "patch", "delete", "send", "stream"}


def test_every_request_of_the_scheduler_is_in_the_table() -> None:
    """A new request needs a row with its right."""
    paths = [path for folder in ("herodotus_kube", "scheduler") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert {request for path in paths for request in requests_in(path)} == REQUESTS.keys()


def granted(right: Right) -> bool:
    return any(
        right.verb in rule["verbs"]
        and right.resource in rule.get("resources", ())
        and right.group in rule["apiGroups"]
        and (not rule.get("resourceNames") or right.name in rule["resourceNames"])
        for rule in named(*right.role)["rules"]
    )


@pytest.mark.parametrize("right", sorted(RIGHTS, key=str), ids=lambda r: f"{r.verb} {r.resource} {r.name}")
def test_every_request_of_the_scheduler_is_allowed(right: Right) -> None:
    assert granted(right)


def test_roles_allow_nothing_else() -> None:
    given = {
        Right(verb, resource, group, name, role)
        for role in ROLES
        for rule in named(*role)["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    }
    assert given == RIGHTS


def test_client_certificates_are_verified_with_the_cluster_s_authority() -> None:
    binding = named("RoleBinding", "herodotus-scheduler-authentication-reader")
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == (
        "kube-system",
        "extension-apiserver-authentication-reader",
    )
    (account,) = binding["subjects"]
    assert account == {"kind": "ServiceAccount", "name": "herodotus-scheduler", "namespace": "herodotus"}


def test_probes_and_policy_use_the_served_ports() -> None:
    spec = container("herodotus-scheduler")
    arguments = app._parser().parse_args(spec["args"])
    served = {port["name"]: port["containerPort"] for port in spec["ports"]}
    (probes,) = arguments.probe_bind
    assert served == {"https": arguments.secure_port, "probes": probes.port}
    assert arguments.secure_port == PORT
    for probe in ("livenessProbe", "readinessProbe"):
        asked = spec[probe]["httpGet"]
        assert (asked["port"], asked.get("scheme")) == ("probes", None)
        assert asked["path"] in ALWAYS_ALLOWED_PATHS
    assert named("NetworkPolicy", "herodotus-scheduler")["spec"]["ingress"] == [], "the kubelet needs no rule"


def test_the_scheduler_accepts_its_arguments() -> None:
    arguments = app._parser().parse_args(container("herodotus-scheduler")["args"])
    assert arguments.endpoint == "https://herodotus-endpoint.herodotus.svc:8001"
    assert arguments.spool_limit == DEFAULT_LIMIT_BYTES


def test_the_service_accepts_its_arguments() -> None:
    arguments = endpoint.build_parser().parse_args(container("herodotus-endpoint")["args"])
    ports = {p["name"]: p["containerPort"] for p in container("herodotus-endpoint")["ports"]}
    assert [a.port for a in arguments.bind] == [ports["queries"]]
    assert [a.port for a in arguments.ingest_bind] == [ports["ingest"]]
    assert [a.port for a in arguments.probe_bind] == [ports["probes"]]
    assert where_from(arguments) == {"herodotus-scheduler", "herodotus-observer"}
    (claim,) = (o for o in MANIFEST if o["kind"] == "PersistentVolumeClaim")
    assert bytes_of(claim["spec"]["resources"]["requests"]["storage"]) >= 1.25 * arguments.max_bytes


def where_from(arguments: argparse.Namespace) -> set[str]:
    """Return the accounts in our namespace that may send records, including the one of deploy/observer.yaml."""
    assert not arguments.insecure
    return {user.removeprefix("system:serviceaccount:herodotus:") for user, _ in arguments.ingest_sender}


def test_the_manifest_has_no_secret_data_and_the_service_may_write_its_own() -> None:
    (secret,) = (o for o in MANIFEST if o["kind"] == "Secret")
    assert secret.keys() == {"apiVersion", "kind", "metadata", "type"}
    given = {
        (verb, resource, *rule.get("resourceNames", [""]))
        for role in ("ClusterRole", "Role")
        for rule in named(role, "herodotus-endpoint")["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    assert given == {
        ("get", "namespaces", "kube-system"),
        ("create", "tokenreviews", ""),
        ("get", "secrets", secret["metadata"]["name"]),
        ("update", "secrets", secret["metadata"]["name"]),
        ("get", "configmaps", "herodotus-endpoint-ca"),
        ("update", "configmaps", "herodotus-endpoint-ca"),
    }


def test_the_scheduler_reads_the_authority_where_the_service_publishes_it() -> None:
    spec = named("Deployment", "herodotus-endpoint")["spec"]["template"]["spec"]
    published = certificate.build_parser().parse_args(spec["initContainers"][0]["args"][1:]).ca_configmap
    arguments = app._parser().parse_args(container("herodotus-scheduler")["args"])
    assert arguments.endpoint_ca_configmap == published
    config_map = named("ConfigMap", published[1])
    assert (config_map["metadata"]["namespace"], "data" in config_map) == (published[0], False)
    for role in ("herodotus-scheduler-ca", "herodotus-endpoint"):
        (account,) = named("RoleBinding", role)["subjects"]
        assert account["name"] == role.removesuffix("-ca")


def test_an_unknown_argument_is_found() -> None:
    """Shows that the two tests above can fail."""
    with pytest.raises(SystemExit):
        app._parser().parse_args(["run", "--no-such-flag"])
    assert isinstance(endpoint.build_parser(), argparse.ArgumentParser)


def test_the_spool_s_volume_is_larger_than_the_spool_limit() -> None:
    arguments = app._parser().parse_args(container("herodotus-scheduler")["args"])
    volumes = named("Deployment", "herodotus-scheduler")["spec"]["template"]["spec"]["volumes"]
    (limit,) = (v["emptyDir"]["sizeLimit"] for v in volumes if "emptyDir" in v)
    (mount,) = (m["mountPath"] for m in container("herodotus-scheduler")["volumeMounts"] if m["name"] == "spool")
    assert bytes_of(limit) > arguments.spool_limit
    assert arguments.spool.is_relative_to(mount)
    assert container("herodotus-scheduler")["resources"]["requests"]["ephemeral-storage"] == limit


def test_the_scheduler_accepts_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(named("ConfigMap", "herodotus-scheduler")["data"]["config.yaml"])
    config = load(tmp_path / "c.yaml")
    assert [p.scheduler_name for p in config.profiles] == ["herodotus-scheduler"]
    election = config.leader_election
    lease = named("Role", "herodotus-scheduler")["rules"][1]["resourceNames"]
    assert (election.resource_namespace, [election.resource_name]) == ("herodotus", lease)


@pytest.mark.parametrize("name", ["herodotus-scheduler", "herodotus-endpoint"])
def test_pods_run_with_the_least_rights(name: str) -> None:
    spec = named("Deployment", name)["spec"]["template"]["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= container(name)["resources"].keys()
    assert spec["automountServiceAccountToken"]


def test_images_have_this_version() -> None:
    names = ("herodotus-scheduler", "herodotus-endpoint")
    assert [container(n)["image"] for n in names] == [f"ghcr.io/herodotus-scheduler/{n}:{__version__}" for n in names]


def test_selectors_match_their_pods() -> None:
    labels = {
        name: named("Deployment", name)["spec"]["template"]["metadata"]["labels"]
        for name in ("herodotus-scheduler", "herodotus-endpoint")
    }
    for name, its in labels.items():
        assert named("Deployment", name)["spec"]["selector"]["matchLabels"].items() <= its.items()
        assert named("NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"].items() <= its.items()
    assert named("Service", "herodotus-endpoint")["spec"]["selector"].items() <= labels["herodotus-endpoint"].items()


def test_only_the_scheduler_s_pods_reach_ingest() -> None:
    policy = named("NetworkPolicy", "herodotus-endpoint")["spec"]
    by_port = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    scheduler = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "herodotus-scheduler"}}}
    assert by_port == {"queries": None, "ingest": [scheduler]}
    assert [p["port"] for p in policy["ingress"][0]["ports"]] == ["queries"], "the kubelet needs no rule"


def test_the_maintenance_pod_equals_the_service_s_and_only_sleeps() -> None:
    """It has the same files and user, no rights, and a restricted namespace."""
    (found,) = read(DEPLOY / "maintenance.yaml")
    valid(json.dumps(found))
    (waits,), theirs = (
        found["spec"]["containers"],
        named("Deployment", "herodotus-endpoint")["spec"]["template"]["spec"],
    )
    (service,) = theirs["containers"]
    assert found["spec"]["securityContext"] == theirs["securityContext"]
    assert (waits["image"], waits["securityContext"]) == (service["image"], service["securityContext"])
    volumes = {v["name"]: v for v in theirs["volumes"]}
    assert found["spec"]["volumes"] == [volumes[m["name"]] for m in waits["volumeMounts"]]
    assert all(mount in service["volumeMounts"] for mount in waits["volumeMounts"])
    assert not found["spec"]["automountServiceAccountToken"]


@pytest.mark.parametrize("path", TEST_PODS, ids=lambda p: p.stem)
def test_test_pods_use_the_scheduler(path: Path) -> None:
    for obj in read(path):
        spec = obj["spec"]["template"]["spec"] if obj["kind"] == "Deployment" else obj["spec"]
        assert spec["schedulerName"] == "herodotus-scheduler"


def test_all_test_manifests_of_the_first_herodotus_exist() -> None:
    names = {path.stem: read(path)[0]["metadata"]["name"] for path in TEST_PODS}
    assert names == {
        "deploy-default-pod": "test-pod-1",
        "deploy-named-node-pod": "test-named-pod-1",
        "main-label-pod": "test-pod-main",
        "micro-label-pod": "test-pod-micro",
        "deploy-big-deployment": "large-deploy",
    }


def test_a_fork_s_images_are_set_by_one_value_or_one_block(tmp_path: Path) -> None:
    said = (ROOT / "docs/packages.md").read_text()
    assert "--set image.registry=ghcr.io/OWNER --set image.tag=main" in said
    fork = {"image": {"registry": "ghcr.io/OWNER", "tag": "main"}}
    made = charts.objects(charts.merged(charts.combined("agents"), fork))
    images = {c["image"] for pod in charts.pods(made).values() for c in charts.containers(pod)}
    names = ("scheduler", "endpoint", "agents")
    assert images == {f"ghcr.io/OWNER/herodotus-{name}:main" for name in names}

    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    file = tmp_path / "deploy/kustomization.yaml"
    resources, _, block = file.read_text().partition("# images:\n")
    text = "".join(line.removeprefix("# ") for line in f"# images:\n{block}".splitlines(keepends=True))
    text = text.replace("registry.example.com/team/", "ghcr.io/OWNER/").replace("newTag: 0.1.0", "newTag: main")
    file.write_text(f"{resources}{text}")
    program = str(Path(sys.executable).with_name("kubectl"))
    done = subprocess.run([program, "kustomize", file.parent], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {c["image"] for o in yaml.safe_load_all(done.stdout) for c in containers_of(o)}
    assert found == {f"ghcr.io/OWNER/herodotus-{name}:main" for name in ("scheduler", "endpoint")}


def containers_of(obj: Any) -> list[Any]:
    spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [*spec.get("containers", []), *spec.get("initContainers", [])]
