"""The chart: documented values render valid objects and arguments, and the plain manifests are its output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import helm_python
import jsonschema
import kubernetes_validate
import pytest
import yaml

from herodotus_agents import command_line as agents
from herodotus_agents.registry import load_agents
from herodotus_endpoint import certificate, deployment_modes, options
from herodotus_record.version import __version__
from scheduler.commands import main as app
from scheduler.config import load
from scheduler.recorder import endpoint
from scripts.manifests import CHART, DEPLOY, ManifestFile, load_values, manifests, render
from tests.deploy.charts import (
    TESTED,
    Json,
    combined,
    containers,
    every_combination,
    made_of,
    merged,
    named,
    objects,
    pods,
    templates,
    valid,
)
from tests.processes import ROOT

SUPPORTED = ("1.30", TESTED, "1.37")  # the oldest, and the newest
# What the user makes.
GIVEN = {("Secret", f"herodotus-{name}") for name in ("database", "sender", "certificate")}
GIVEN |= {("ConfigMap", "herodotus-extra")}


@every_combination
def test_every_combination_is_valid(names: tuple[str, ...]) -> None:
    made = made_of(names)
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in made]
    assert len(keys) == len(set(keys))
    for o in made:
        valid(json.dumps(o, sort_keys=True))


@pytest.mark.parametrize("kubernetes", SUPPORTED)
def test_every_supported_version_of_kubernetes_accepts_the_default(kubernetes: str) -> None:
    for o in made_of(("agents", "postgresql")) + made_of(("observer",)):
        valid(json.dumps(o, sort_keys=True), kubernetes)


@pytest.mark.parametrize("allocation", [False, True])
def test_annotators_may_list_pods_only_with_allocation(allocation: bool) -> None:
    own = {"usage": {"enabled": True}, "prometheus": "http://prometheus", "allocation": {"enabled": allocation}}
    role = named(objects({"annotators": own}), "ClusterRole", "herodotus-annotator")
    granted = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    assert granted == {"nodes": ["list", "patch"], **({"pods": ["list"]} if allocation else {})}


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://c.m:4318", 4318), ("https://c.m/base", 443), ("http://c.m", 80), ("http://[2001:db8::1]:4319/", 4319)],
)
def test_the_policy_allows_the_receiver_of_spans(url: str, port: int) -> None:
    made = objects({"endpoint": {"otlpEndpoint": url}})
    (container,) = named(made, "Deployment", "herodotus-endpoint")["spec"]["template"]["spec"]["containers"]
    assert options.build_parser().parse_args(container["args"]).otlp_endpoint == url
    egress = named(made, "NetworkPolicy", "herodotus-endpoint")["spec"]["egress"]
    assert [{"port": port}] in [rule["ports"] for rule in egress]
    plain = objects({"endpoint": {"otlpEndpoint": url, "certificate": {"source": "none"}}})
    egress = named(plain, "NetworkPolicy", "herodotus-endpoint")["spec"]["egress"]
    assert [rule["ports"] for rule in egress] == [[{"port": port}], [{"port": 53, "protocol": "UDP"}, {"port": 53}]]


def test_a_url_of_replicas_comes_from_the_secret() -> None:
    values = {"endpoint": {"database": {"urlSecret": {"readKey": "read-url"}}}}
    made = objects(merged(combined("postgresql"), values))
    (container,) = named(made, "Deployment", "herodotus-endpoint")["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each for each in container["env"]}
    secret = environment["HERODOTUS_READ_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "herodotus-database", "key": "read-url"}


def test_names_that_look_like_numbers_remain_strings() -> None:
    """Covers every name from outside; YAML would read an unquoted 123 as a number."""
    given = {
        "image": {"pullSecrets": ["123"]},
        "scheduler": {"priorityClassName": "123", "configuration": {"leaderElection": {"resourceName": "123"}}},
        "priorityClass": {"create": True, "value": 10_000_000},
        "endpoint": {"database": {"urlSecret": {"name": "123", "key": "123", "readKey": "123"}}},
        "monitor": {"storageClass": "123"},
        "records": {"omitLabels": ["123:"]},
        "access": {"nodes": [{"kind": "ServiceAccount", "name": "123", "namespace": "123"}]},
        "networkPolicy": {"apiServerCIDRs": ["::1/128"]},
    }
    for values in (
        merged(combined("agents", "monitoring", "postgresql"), given),
        merged(combined("elsewhere"), {"records": {"secret": "123"}}),
        {"endpoint": {"persistence": {"existingClaim": "123"}}},
        {"endpoint": {"persistence": {"storageClass": "123"}}},
    ):
        made = objects(values, namespace="123")
        assert {o["metadata"].get("namespace") for o in made} <= {None, "kube-system", "123"}
        for o in made:
            valid(json.dumps(o, sort_keys=True))


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "ServiceMonitor"])
def test_an_unknown_field_is_found(kind: str) -> None:
    """Shows that the test above can fail."""
    o = next(o for o in objects(combined("monitoring")) if o["kind"] == kind)
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
        valid(json.dumps(o | {"spec": o["spec"] | {"selectors": {}}}))


@every_combination
def test_programs_accept_their_arguments_and_configuration(names: tuple[str, ...], tmp_path: Path) -> None:
    made = made_of(names)
    for name, pod in pods(made).items():
        for container in containers(pod):
            program = container["image"].rpartition("/")[2].partition(":")[0]
            environment = {e["name"]: e.get("value", "postgresql://host/database") for e in container.get("env", ())}
            {"herodotus-scheduler": records, "herodotus-endpoint": serves, "herodotus-agents": measures}[program](
                container, environment, made, name, tmp_path
            )


def records(container: Json, _: dict[str, str], made: list[Json], name: str, folder: Path) -> None:
    arguments = app._parser().parse_args(container["args"])
    (folder / "config.yaml").write_text(named(made, "ConfigMap", name)["data"]["config.yaml"])
    config = load(folder / "config.yaml")
    assert config.profiles
    delivery = endpoint.endpoint_from_arguments(arguments)
    assert delivery is not None
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    files = [f for f in (delivery.token_file, delivery.ca_file, delivery.cert_file, delivery.key_file) if f]
    assert bool(files) == delivery.url.startswith("https") == ("endpoint" in mounts)
    assert all(str(file.parent) == mounts["endpoint"] for file in files)
    replaces = getattr(arguments, "replace_default_scheduler", None)
    if replaces is not None:
        assert replaces == any(p.scheduler_name == "default-scheduler" for p in config.profiles)
        (lease,) = (o for o in made if (o["kind"], o["metadata"]["name"]) == ("Role", name))
        election = config.leader_election
        assert lease["metadata"]["namespace"] == election.resource_namespace
        assert lease["rules"][1]["resourceNames"] == [election.resource_name]


def serves(container: Json, environment: dict[str, str], made: list[Json], name: str, _: Path) -> None:
    if container["name"] == "certificate":
        check_certificate_arguments(container, made, name)
        return
    arguments = options.build_parser().parse_args(container["args"])
    where = options.build_listening(arguments)
    url = environment.get("HERODOTUS_DATABASE_URL") or f"sqlite:///{arguments.data}/herodotus.db"
    deployment_modes.check_mode(options.build_mode(arguments, where, url))
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    served = {"queries": where.queries, "ingest": where.ingest, "probes": where.probes}
    assert {name: [a.port for a in at] for name, at in served.items()} == {n: [p] for n, p in ports.items()}
    senders = {user for user, _ in arguments.ingest_sender or ()}
    writers = {"herodotus-scheduler", "herodotus-observer"} & pods(made).keys()
    named_senders = {f"system:serviceaccount:herodotus:{name}" for name in writers}
    assert senders == (named_senders if where.key_pair else set())


def check_certificate_arguments(container: Json, made: list[Json], name: str) -> None:
    """Check that the service writes its certificate where it reads it, for the name and Secret that senders use."""
    assert container["args"][0] == certificate.COMMAND
    arguments = certificate.build_parser().parse_args(container["args"][1:])
    (service,) = pods(made)[name]["containers"]
    where = options.build_listening(options.build_parser().parse_args(service["args"]))
    assert where.key_pair is not None
    assert set(where.key_pair) == {arguments.directory / f"tls.{end}" for end in ("crt", "key")}
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == str(arguments.directory)
    namespace, secret = arguments.secret
    assert named(made, "Secret", secret)["metadata"]["namespace"] == namespace
    volumes = [volume for pod in pods(made).values() for volume in pod.get("volumes", ())]
    sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources", ())]
    assert {s["secret"]["name"] for s in sources if "secret" in s} <= {secret}
    namespace, published = arguments.ca_configmap
    assert named(made, "ConfigMap", published)["metadata"]["namespace"] == namespace
    read = [a for pod in pods(made).values() for c in pod["containers"] for a in c["args"] if "ca-configmap" in a]
    assert set(read) <= {f"--endpoint-ca-configmap={namespace}/{published}"}
    for asked in (a for pod in pods(made).values() for c in pod["containers"] for a in c["args"]):
        assert not asked.startswith("--endpoint=") or asked == f"--endpoint=https://{arguments.host}:8001"


def measures(container: Json, environment: dict[str, str], made: list[Json], name: str, folder: Path) -> None:
    arguments = agents._parser().parse_args(container["args"])
    assert arguments.in_cluster
    if container["args"][0] != "serve":
        return
    data = named(made, "ConfigMap", name)["data"]
    loaded = load_agents(arguments.agents.split(","), yaml.safe_load(data["agents.yaml"])["settings"], environment)
    assert not loaded.failed
    (folder / "config.yaml").write_text(data["config.yaml"])
    for extender in load(folder / "config.yaml").extenders:
        assert extender.url_prefix == f"http://127.0.0.1:{arguments.port}/scheduler"
        assert not extender.filter_verb or extender.filter_verb.removeprefix("predicates/") in loaded.predicates
        assert extender.prioritize_verb.removeprefix("priorities/") in loaded.priorities


@every_combination
def test_references_of_pods_exist(names: tuple[str, ...]) -> None:
    """Covers service accounts, volumes and their sources, and the selectors of policies, services and budgets."""
    made = made_of(names)
    there = {(o["kind"], o["metadata"]["name"]) for o in made}
    there |= {("Secret", o["spec"]["secretName"]) for o in made if o["kind"] == "Certificate"}
    there |= GIVEN
    for pod in pods(made).values():
        assert ("ServiceAccount", pod["serviceAccountName"]) in there
        mounted = {m["name"] for c in containers(pod) for m in c.get("volumeMounts", ())}
        assert mounted == {v["name"] for v in pod.get("volumes", ())}
        assert set(sources(pod)) <= there
    labels = [o["spec"]["template"]["metadata"]["labels"] for o in made if o["kind"] == "Deployment"]
    wanted = [o["spec"]["podSelector"]["matchLabels"] for o in made if o["kind"] == "NetworkPolicy"]
    wanted += [o["spec"]["selector"] for o in made if o["kind"] == "Service"]
    wanted += [o["spec"]["selector"]["matchLabels"] for o in made if o["kind"] == "PodDisruptionBudget"]
    for selector in wanted:
        assert any(selector.items() <= its.items() for its in labels) or "endpoint" in str(selector)
    services = [o["metadata"]["labels"] for o in made if o["kind"] == "Service"]
    for monitor in (o for o in made if o["kind"] == "ServiceMonitor"):
        assert sum(monitor["spec"]["selector"]["matchLabels"].items() <= its.items() for its in services) == 1


def sources(pod: Json) -> Iterator[tuple[str, str]]:
    """Return the objects that volumes and environment refer to."""
    for volume in pod.get("volumes", ()):
        for source in [volume, *volume.get("projected", {}).get("sources", ())]:
            if "configMap" in source:
                yield "ConfigMap", source["configMap"]["name"]
            if "secret" in source:
                yield "Secret", source["secret"].get("secretName") or source["secret"]["name"]
            if "persistentVolumeClaim" in source:
                yield "PersistentVolumeClaim", source["persistentVolumeClaim"]["claimName"]
    for variable in (v for c in pod["containers"] for v in c.get("env", ())):
        if "valueFrom" in variable:
            yield "Secret", variable["valueFrom"]["secretKeyRef"]["name"]


@every_combination
def test_pods_run_with_the_least_rights(names: tuple[str, ...]) -> None:
    made = made_of(names)
    for pod in pods(made).values():
        assert (pod["schedulerName"], pod["enableServiceLinks"]) == ("default-scheduler", False)
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert not any("hostPath" in volume for volume in pod.get("volumes", ()))
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= container["resources"].keys()
    for rule in (rule for o in made if o["kind"] in ("Role", "ClusterRole") for rule in o["rules"]):
        assert rule["verbs"]
        assert not any("*" in word for words in rule.values() for word in words)


def test_a_release_of_another_name_shares_nothing_with_the_first() -> None:
    first, second = objects(combined("postgresql")), objects(combined("postgresql"), "blue", "elsewhere")

    def keys(made: list[Json]) -> set[tuple[str, str, str]]:
        return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in made}

    assert keys(first) & keys(second) == {("APIService", "", "v1alpha1.herodotus.dev")}, "there is one for a cluster"
    assert {name for _, _, name in keys(second)} == {
        name.replace("herodotus", "blue-herodotus") if kind != "APIService" else name for kind, _, name in keys(first)
    }
    assert {namespace for _, namespace, _ in keys(second)} == {"", "elsewhere", "kube-system"}


def test_a_changed_configuration_restarts_pods() -> None:
    def annotations(values: Json) -> Json:
        deployment = named(objects(values), "Deployment", "herodotus-scheduler")
        return dict(deployment["spec"]["template"]["metadata"]["annotations"])

    other = {"scheduler": {"configuration": {"profiles": [{"schedulerName": "another"}]}}}
    assert annotations({}) == annotations({"scheduler": {"verbosity": 3}}) != annotations(other)


def test_images_come_from_one_registry_with_one_tag_or_a_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    images = {"registry": "r.example.com/x", "tag": "1.2.3", "pullSecrets": ["mine"]}
    made = pods(objects(merged(combined("agents"), {"image": images, "scheduler": {"image": {"digest": digest}}})))
    assert {pod["containers"][0]["image"] for pod in made.values()} == {
        f"r.example.com/x/herodotus-scheduler@{digest}",
        "r.example.com/x/herodotus-endpoint:1.2.3",
        "r.example.com/x/herodotus-agents:1.2.3",
    }
    assert all(pod["imagePullSecrets"] == [{"name": "mine"}] for pod in made.values())


DEVELOPERS = {"kind": "Group", "name": "developers"}
PROMETHEUS = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}


@pytest.mark.parametrize(
    ("names", "access", "bound"),
    [
        ((), {"readers": [DEVELOPERS]}, ("RoleBinding", "herodotus-reader")),
        ((), {"whatif": [DEVELOPERS]}, ("RoleBinding", "herodotus-whatif")),
        (("postgresql",), {"nodes": [DEVELOPERS]}, ("ClusterRoleBinding", "herodotus-nodes")),
        ((), {"scrapers": [PROMETHEUS]}, ("ClusterRoleBinding", "herodotus-metrics")),
    ],
    ids=lambda v: v[1] if isinstance(v, tuple) and len(v) == 2 else "",
)
def test_subjects_get_the_right_of_their_list(names: tuple[str, ...], access: Json, bound: tuple[str, str]) -> None:
    before, after = (objects(merged(combined(*names), given)) for given in ({}, {"access": access}))
    (binding,) = (o for o in after if o not in before)
    assert (binding["kind"], binding["roleRef"]["name"]) == bound
    assert any((o["kind"], o["metadata"]["name"]) == (binding["roleRef"]["kind"], bound[1]) for o in after)
    (subject,) = binding["subjects"]
    (given,) = next(iter(access.values()))
    assert given.items() <= subject.items()


@pytest.mark.parametrize("manifest", manifests(), ids=lambda m: m.path)
def test_plain_manifests_equal_the_rendered_chart(manifest: ManifestFile) -> None:
    assert (DEPLOY / manifest.path).read_text() == render(manifest), "run `make manifests`"


def test_the_chart_has_this_version_and_the_supported_api_servers() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    oldest, _, newest = SUPPORTED
    assert f"v{oldest} to v{newest}" in (ROOT / "docs/installing.md").read_text()
    after = f"1.{int(newest.removeprefix('1.')) + 1}"
    assert chart["kubeVersion"] == f">={oldest}.0-0 <{after}.0-0"


def test_the_chart_passes_lint_and_can_be_packaged(tmp_path: Path) -> None:
    found = helm_python.lint(CHART, strict=True)
    assert [m["error"] for m in found["messages"]] == ["icon is recommended"]
    packed = helm_python.package(CHART, destination=tmp_path)
    with helm_python.Chart.load(packed) as chart:
        assert chart.render({}, name="herodotus", namespace="herodotus") == templates({})


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), ["kubectl -n herodotus get pods", "kubectl herodotus version", "  herodotus-scheduler"]),
        (("plain-http",), ["WARNING: endpoint.certificate.source is none.", "Every pod that reaches port 8000"]),
        (("postgresql",), ["kubectl get apiservice v1alpha1.herodotus.dev", "kubectl get decisions -A"]),
        (("observer",), ["kubectl herodotus disagreements -A"]),
        (("replace-default-scheduler",), ["It waits for the Lease of kube-scheduler.", "start kube-scheduler again"]),
        ((), ["\n  kubectl get pods -A --field-selector spec.schedulerName=herodotus-scheduler,spec.nodeName=\n"]),
    ],
    ids=lambda v: "+".join(v) if isinstance(v, tuple) else "",
)
def test_the_notes_name_the_next_steps(names: tuple[str, ...], said: list[str]) -> None:
    (notes,) = (text for path, text in templates(combined(*names)).items() if path.endswith("NOTES.txt"))
    assert not [line for line in said if line not in notes]
    assert "\n\n\n" not in notes


ARCHIVE = {"url": "s3://decisions/herodotus?region=eu-central-1", "delay": "8d", "keep": "730d", "secret": "s3"}


def test_the_archive_is_a_second_container_on_sqlite() -> None:
    """Its volume belongs to one pod."""
    made = objects({"endpoint": {"archive": ARCHIVE}})
    assert not [o for o in made if o["kind"] == "CronJob"]
    (service,) = [o for o in made if o["kind"] == "Deployment" and o["metadata"]["name"] == "herodotus-endpoint"]
    first, second = service["spec"]["template"]["spec"]["containers"]
    assert f"--archive={ARCHIVE['url']}" in first["args"]
    options.build_parser().parse_args(first["args"])
    assert second["args"] == [
        "archive", f"--to={ARCHIVE['url']}", "--delay=8d", "--keep=730d", "--data=/var/lib/herodotus", "--every=1h",
    ]  # fmt: skip
    assert first["envFrom"] == second["envFrom"] == [{"secretRef": {"name": "s3"}}]
    for o in made:
        valid(json.dumps(o))


def test_the_archive_is_a_cronjob_on_postgresql() -> None:
    values = load_values("postgresql")
    values["endpoint"] = values["endpoint"] | {"archive": ARCHIVE | {"scores": True}}
    made = objects(values)
    (job,) = [o for o in made if o["kind"] == "CronJob"]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["archive", f"--to={ARCHIVE['url']}", "--delay=8d", "--keep=730d", "--scores"]
    assert container["env"][0]["name"] == "HERODOTUS_DATABASE_URL"
    (policy,) = [
        o
        for o in made
        if o["kind"] == "NetworkPolicy"
        and o["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ]
    ports = {p["port"] for rule in policy["spec"]["egress"] for p in rule["ports"]}
    assert (policy["spec"]["ingress"], ports) == ([], {5432, 443, 53})
    (selected,) = [o for o in made if o["kind"] == "Service" and o["metadata"]["name"] == "herodotus-endpoint"]
    assert not selected["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    for o in made:
        valid(json.dumps(o))
