"""deploy/aggregated-api, built with kustomize: arguments are valid, and rights are the ones that requests need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_endpoint import deployment_modes, options
from herodotus_endpoint.resources import GROUP, RESOURCES, VERSION
from herodotus_endpoint.routing import Access, list_verbs
from scheduler.commands import main as app
from scheduler.recorder import endpoint
from tests.deploy import reader_rules
from tests.endpoint.service import declared_routes
from tests.processes import ROOT

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def built() -> list[dict[str, Any]]:
    program = shutil.which("kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("NO KUBECTL, neither in the virtual environment nor on PATH")
    folder = str(DEPLOY / "aggregated-api")
    done = subprocess.run([program, "kustomize", folder], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def named(built: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (o for o in built if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def pod(built: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return dict(named(built, "Deployment", name)["spec"]["template"]["spec"])


def test_the_service_accepts_its_flags_and_their_combination(built: list[dict[str, Any]]) -> None:
    spec = pod(built, "herodotus-endpoint")
    (container,) = spec["containers"]
    arguments = options.build_parser().parse_args(container["args"])
    where = options.build_listening(arguments)
    deployment_modes.check_mode(options.build_mode(arguments, where, "postgresql://host/database"))
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    served = {"queries": where.queries, "ingest": where.ingest, "probes": where.probes}
    assert {name: [a.port for a in addresses] for name, addresses in served.items()} == {
        n: [p] for n, p in ports.items()
    }
    assert where.key_pair is not None
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert str(where.key_pair[0].parent) == mounts["tls"]
    assert {v["name"] for v in spec["volumes"]} == mounts.keys() == {"database", "tls", "tmp"}
    assert named(built, "Deployment", "herodotus-endpoint")["spec"]["replicas"] >= 2


def test_the_database_s_authority_is_in_the_secret_of_its_url(built: list[dict[str, Any]]) -> None:
    """A container has no default authority for libpq: without this one sslmode=verify-full fails."""
    spec = pod(built, "herodotus-endpoint")
    (container,) = spec["containers"]
    url, authority = container["env"]
    (mount,) = (m["mountPath"] for m in container["volumeMounts"] if m["name"] == "database")
    (secret,) = (v["secret"] for v in spec["volumes"] if v["name"] == "database")
    assert authority == {"name": "PGSSLROOTCERT", "value": f"{mount}/{secret['items'][0]['path']}"}
    assert secret["secretName"] == url["valueFrom"]["secretKeyRef"]["name"]


def test_the_scheduler_sends_the_token_that_the_service_requires(built: list[dict[str, Any]]) -> None:
    spec = pod(built, "herodotus-scheduler")
    (container,) = spec["containers"]
    delivery = endpoint.endpoint_from_arguments(app._parser().parse_args(container["args"]))
    service = options.build_parser().parse_args(pod(built, "herodotus-endpoint")["containers"][0]["args"])
    assert delivery is not None
    assert delivery.url == f"https://{named(built, 'Certificate', 'herodotus-endpoint')['spec']['dnsNames'][0]}:8001"
    (sources,) = (v["projected"]["sources"] for v in spec["volumes"] if v["name"] == "endpoint")
    token, authority = sources[0]["serviceAccountToken"], sources[1]["secret"]
    (mount,) = (m["mountPath"] for m in container["volumeMounts"] if m["name"] == "endpoint")
    assert (token["audience"], f"{mount}/{token['path']}") == (service.ingest_audience, str(delivery.token_file))
    assert f"{mount}/{authority['items'][0]['path']}" == str(delivery.ca_file)
    assert [user for user, _ in service.ingest_sender] == [
        f"system:serviceaccount:herodotus:{spec['serviceAccountName']}"
    ]


def test_the_api_service_has_the_served_group(built: list[dict[str, Any]]) -> None:
    found = named(built, "APIService", f"{VERSION}.{GROUP}")["spec"]
    assert (found["group"], found["version"]) == (GROUP, VERSION)
    service = named(built, "Service", found["service"]["name"])
    assert found["service"]["port"] in [p["port"] for p in service["spec"]["ports"]]


def test_rules_of_reader_roles_follow_from_routes() -> None:
    if os.environ.get("HERODOTUS_REGENERATE"):
        reader_rules.FILE.write_text(reader_rules.text())
    assert reader_rules.text() == reader_rules.FILE.read_text(), "HERODOTUS_REGENERATE=1 writes it anew"


def test_reader_roles_have_exactly_the_rights_that_routes_require(built: list[dict[str, Any]]) -> None:
    required = {("/metrics", "get")}.union(*map(reader_rules.find_rights, declared_routes()))
    granted = {role: list_rights(built, role) for role in (*reader_rules.ROLES, "metrics")}
    assert set().union(*granted.values()) == required
    pages = {("pages", "get"), ("pages", "list")}
    assert granted["version"] == {("serviceversions", "list")} | pages, (
        "everybody may: they tell nothing of the cluster"
    )
    assert granted["whatif"] == {("placementreviews", "create")}, "of whoever may create pods: a question tells no more"
    assert granted["cluster-reviewer"] == {("clusterreviews", "create")}, "given to nobody by default"
    assert granted["metrics"] == {(route.path, "get") for route in declared_routes() if route.right is Access.URL}


def list_rights(built: list[dict[str, Any]], role: str) -> set[tuple[str, str]]:
    """Return the resources or paths of a role, each with a verb."""
    rules = named(built, "ClusterRole", f"herodotus-{role}")["rules"]
    targets = [(rule.get("resources") or rule["nonResourceURLs"], rule["verbs"]) for rule in rules]
    return {(target, verb) for listed, verbs in targets for target in listed for verb in verbs}


def test_discovery_has_the_verbs_of_the_reader_roles(built: list[dict[str, Any]]) -> None:
    served = {(kind.plural, verb) for kind in RESOURCES for verb in list_verbs(declared_routes(), kind)}
    granted = set[tuple[str, str]]().union(*(list_rights(built, role) for role in reader_rules.ROLES))
    assert served == {(resource, verb) for resource, verb in granted if resource != "pages"}


def test_reader_roles_are_part_of_the_cluster_s_own(built: list[dict[str, Any]]) -> None:
    (everybody,) = named(built, "ClusterRoleBinding", "herodotus-version")["subjects"]
    assert everybody["name"] == "system:authenticated"
    for role, own in (("herodotus-view", "view"), ("herodotus-whatif", "edit")):
        labels = named(built, "ClusterRole", role)["metadata"]["labels"]
        assert labels == {f"rbac.authorization.k8s.io/aggregate-to-{own}": "true"}


def test_probes_have_a_separate_port(built: list[dict[str, Any]]) -> None:
    (container,) = pod(built, "herodotus-endpoint")["containers"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {(p["port"], p.get("scheme", "HTTP")) for p in probes} == {("probes", "HTTP")}
    assert {p["path"] for p in probes} == {"/livez", "/readyz"}


def test_a_disruption_leaves_one_replica(built: list[dict[str, Any]]) -> None:
    budget = named(built, "PodDisruptionBudget", "herodotus-endpoint")["spec"]
    deployment = named(built, "Deployment", "herodotus-endpoint")["spec"]
    assert budget["maxUnavailable"] < deployment["replicas"]
    assert budget["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
