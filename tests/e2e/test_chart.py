"""The chart on a real API server: install, upgrade, rollback and uninstall; processes with their own accounts."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import helm_python
import httpx
import pytest
import yaml

from scripts.manifests import CHART, RELEASE
from tests.deploy import operators
from tests.deploy.charts import ASKED_FOR, COMBINATIONS, Json, combined, merged, objects
from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.conftest import own_address
from tests.processes import ROOT, Process, eventually, free_port, python

THEIRS = "theirs"  # the scheduler that is observed: the test binds its pods
PLURALS = {"NetworkPolicy": "networkpolicies"}  # every other kind has an s


@pytest.fixture
def real(cluster: Cluster) -> Cluster:
    """Return a real API server with the operators' kinds that the chart has objects of."""
    if cluster.kind != "real":
        pytest.skip("the simulated API server knows neither admission nor rights")
    for group, kinds in operators.KINDS.items():
        for kind in kinds:
            defined = operators.definition(group, kind)
            if cluster.find(f"{DEFINITIONS}/{defined['metadata']['name']}") is None:
                cluster.create(DEFINITIONS, defined)
            where = f"/apis/{group}/v1/{kind.lower()}s"

            def is_served(path: str = where) -> bool:
                return cluster.status(path) == 200

            eventually(is_served, f"{kind} to be served")
    return cluster


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_the_api_server_accepts_every_combination_without_a_warning(real: Cluster, namespace: str) -> None:
    """This includes pod security admission in a restricted namespace, and unknown fields, which would be dropped."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    real.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    for names in [(), *((name,) for name in (*COMBINATIONS, *ASKED_FOR))]:
        made = objects(combined(*names), namespace=namespace)
        command = ["kubectl", "--kubeconfig", str(real.kubeconfig), "apply", "--dry-run=server", "--validate=strict"]
        text = yaml.safe_dump_all(made)
        done = subprocess.run(
            [*command, "-f", "-"], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), names
        assert len(done.stdout.splitlines()) == len(made)


def path(o: Json, namespace: str) -> str:
    """Return the path of an object at the API server."""
    group = f"apis/{o['apiVersion']}" if "/" in o["apiVersion"] else f"api/{o['apiVersion']}"
    where = f"/namespaces/{o['metadata']['namespace']}" if o["metadata"].get("namespace") else ""
    return f"/{group}{where}/{PLURALS.get(o['kind'], o['kind'].lower() + 's')}/{o['metadata']['name']}"


@dataclass
class Helm:
    """The chart in one namespace of the cluster."""

    cluster: Cluster
    namespace: str
    made: dict[str, Json] = field(default_factory=dict)  # everything that was ever made, by its path

    def __call__(self, action: Callable[..., Any], values: Json) -> None:
        with helm_python.Chart.load(CHART) as chart:
            action(chart, RELEASE, values, namespace=self.namespace)
        self.made |= {path(o, self.namespace): o for o in objects(values, namespace=self.namespace)}

    def there(self) -> set[str]:
        return {where for where in self.made if self.cluster.find(where) is not None}

    def object(self, kind: str, name: str) -> Json:
        (where,) = (w for w, o in self.made.items() if (o["kind"], o["metadata"]["name"]) == (kind, name))
        return self.cluster.get(where)

    def arguments(self, component: str, containers: str = "containers") -> list[str]:
        """Return the arguments of the first container, or [] if the pod has none of this kind."""
        deployment = self.object("Deployment", f"{RELEASE}-{component}")
        return [a for c in deployment["spec"]["template"]["spec"].get(containers, ())[:1] for a in c["args"]]


@contextmanager
def helm(cluster: Cluster, namespace: str) -> Iterator[tuple[Helm, helm_python.Config]]:
    """Yield the chart and Helm's client; delete everything of the release afterwards."""
    with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace) as config:
        try:
            yield Helm(cluster, namespace), config
        finally:
            config.uninstall(RELEASE, ignore_not_found=True)


PLAIN = combined("plain-http")
WATCHED = combined("monitoring")
OWN = f"{RELEASE}-endpoint-own"


def test_a_release_is_upgraded_rolled_back_and_uninstalled(real: Cluster, namespace: str, tmp_path: Path) -> None:
    with helm(real, namespace) as (release, config):
        release(config.install, PLAIN)
        assert release.there() == release.made.keys()
        assert "--insecure" in release.arguments("endpoint")
        plain = set(release.made)

        release(config.upgrade, WATCHED)
        assert release.there() == release.made.keys() > plain
        assert "--insecure" not in release.arguments("endpoint")
        assert "data" not in release.object("Secret", OWN)
        Pod(release, "endpoint", tmp_path, {}).prepare()
        made = release.object("Secret", OWN)["data"]
        assert made.keys() == {"ca.crt", "tls.crt", "tls.key"}

        release(config.upgrade, merged(WATCHED, {"scheduler": {"verbosity": 4}}))
        assert "--v=4" in release.arguments("scheduler")
        assert release.object("Secret", OWN)["data"] == made, "an upgrade keeps the certificate"

        with pytest.raises(helm_python.HelmError, match="a SQLite database has one writer"):
            release(config.upgrade, {"endpoint": {"replicas": 2}})

        config.rollback(RELEASE, version=1)
        assert "--insecure" in release.arguments("endpoint")
        assert release.there() == plain

        config.uninstall(RELEASE)
        claim = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{RELEASE}-endpoint"
        assert release.there() == {claim}, "the records stay"
        real.delete(claim)


POSTGRESQL = merged(combined("postgresql"), {"endpoint": {"certificate": {"source": "selfSigned"}}})


def test_the_api_server_trusts_the_certificate_that_helm_creates(real: Cluster, namespace: str) -> None:
    """An upgrade keeps the certificate, and makes a new one if it was deleted. A broken release can be uninstalled."""
    with helm(real, namespace) as (release, config):

        def shown(action: Callable[..., Any]) -> str:
            release(action, POSTGRESQL)
            secret = release.object("Secret", f"{RELEASE}-endpoint-self-signed")["data"]
            check_certificate(secret, f"{RELEASE}-endpoint.{namespace}.svc")
            service = release.object("APIService", "v1alpha1.herodotus.dev")
            assert service["spec"]["caBundle"] == secret["ca.crt"]
            return str(secret["tls.crt"])

        first, kept = shown(config.install), shown(config.upgrade)
        real.delete(f"/api/v1/namespaces/{namespace}/secrets/{RELEASE}-endpoint-self-signed")
        assert first == kept != shown(config.upgrade)
        config.uninstall(RELEASE)
        assert release.there() == set()


def is_ready(process: Process) -> bool:
    """Return whether the process answers its readiness probe with ok."""
    return httpx.get(f"http://{probe_address(process)}/readyz").text == "ok"


def probe_address(recorder: Process) -> str:
    """Return the address at which a scheduler or an observer answers probes."""
    return recorder.wait_for(r'"Serving probes" addresses="(\S+)"')[1]


def check_certificate(data: dict[str, str], host: str) -> None:
    """Check that the Secret has a certificate for the host, another one of its authority, and no key of that."""
    assert data.keys() == {"ca.crt", "tls.crt", "tls.key"}
    authority, shown = (ssl.PEM_cert_to_DER_cert(base64.b64decode(data[key]).decode()) for key in ("ca.crt", "tls.crt"))
    assert authority != shown
    assert host.encode() in shown


# Everything with an account of its own: scheduler, observer and service, TLS and tokens between them.
OURS = "herodotus"  # the namespace in which the plugin looks for the service
SERVICE = f"{RELEASE}-endpoint"
WHOLE = merged(
    WATCHED,
    {"observer": {"enabled": True, "configuration": {"profiles": [{"schedulerName": THEIRS}]}}},
    {"access": {"readers": [{"kind": "Group", "name": "developers"}]}},
)
NAMES_IN_THE_CLUSTER = """
import socket
asked = socket.getaddrinfo
def answered(host, *arguments, **options):
    return asked("127.0.0.1" if str(host).endswith(".svc") else host, *arguments, **options)
socket.getaddrinfo = answered
"""


class Pod:
    """A container of a Deployment as a process of this machine, with its account's token, files and ports."""

    def __init__(self, release: Helm, component: str, folder: Path, at: dict[str, str]) -> None:
        """Take the chart's component; `at` maps a container port to its address on this machine."""
        self.component, self.account = component, f"{RELEASE}-{component}"
        self.folder = folder / component
        self.folder.mkdir()
        self._release, self._cluster, self._namespace = release, release.cluster, release.namespace
        (self.folder / "sitecustomize.py").write_text(NAMES_IN_THE_CLUSTER)
        config = yaml.safe_load(release.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": self.token()}
        (self.folder / "kubeconfig").write_text(yaml.safe_dump(config))
        (self.folder / "token").write_text(self.token("herodotus-endpoint"))
        files = ("/var/run/herodotus", "/var/lib/herodotus", "/etc/herodotus/tls", "/etc/herodotus")
        self._places = dict.fromkeys(files, str(self.folder))
        for port, address in at.items():
            self._places |= {f"0.0.0.0:{port}": address, f".svc:{port}": f".svc:{address.rpartition(':')[2]}"}
        if component != "endpoint":  # each container of a cluster has a port 8002
            self._places["0.0.0.0:8002"] = "127.0.0.1:0"

    def arguments(self, containers: str = "containers") -> list[str]:
        found = self._release.arguments(self.component, containers)
        for theirs, ours in self._places.items():
            found = [argument.replace(theirs, ours) for argument in found]
        return [*found, f"--kubeconfig={self.folder / 'kubeconfig'}"] if found else []

    def prepare(self) -> None:
        """Write the files of its volumes, and run its init containers."""
        for key, value in self._configured().items():
            (self.folder / key).write_text(value)
        if before := self.arguments("initContainers"):
            command = python("herodotus_endpoint", *before)
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stderr) == (0, "")

    def _configured(self) -> dict[str, str]:
        try:
            return dict(self._release.object("ConfigMap", self.account)["data"])
        except ValueError:  # it has none
            return {}

    def token(self, *audiences: str) -> str:
        where = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self.account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}}
        return str(self._cluster.create(where, request)["status"]["token"])

    def started(self, module: str, *more: str) -> Process:
        command = python(module, *self.arguments(), *more)
        return Process(self.account, command, self.folder / "log", {"PYTHONPATH": f"{self.folder}:."})

    def request_status(self, method: str, where: str, body: Json | None = None) -> int:
        """Return the HTTP status of a request to the API server with the account's token."""
        headers = {"Authorization": f"Bearer {self.token()}"}
        return httpx.request(method, self._cluster.url + where, headers=headers, json=body, verify=False).status_code


def test_processes_work_with_their_accounts_and_have_no_other_rights(real: Cluster, tmp_path: Path) -> None:
    """Scheduler and observer send records over TLS with their tokens; requests without a right are forbidden.

    The plugin finds the service behind the API server, also if the service speaks plain HTTP.
    """
    at = {port: f"127.0.0.1:{free_port()}" for port in ("8001", "8002")} | {"8000": f"{own_address()}:{free_port()}"}
    if real.find(f"/api/v1/namespaces/{OURS}") is None:
        real.create("/api/v1/namespaces", {"metadata": {"name": OURS}})
    with helm(real, OURS) as (release, config):
        release(config.install, WHOLE)
        pods = {c: Pod(release, c, tmp_path, at) for c in ("endpoint", "scheduler", "observer")}
        for pod in pods.values():
            pod.prepare()
        running = [pods["endpoint"].started("herodotus_endpoint")]
        try:
            running[0].wait_for(r"listening on http://\S+ \(probes\)")
            running += [pods[c].started("scheduler", "--secure-port=0") for c in ("scheduler", "observer")]
            running[2].wait_for("Everything was listed")
            for recorder in running[1:]:
                eventually(partial(is_ready, recorder), "a process to be ready")
            check_both_are_recorded(real, OURS, f"https://{at['8000']}")
            check_forbidden_requests(real, OURS, pods, f"https://{at['8001']}")
            publish(real, at["8000"], "queries")
            assert plugin(real, tmp_path) == (0, "pod/ours\n", "")
            assert plugin(real, tmp_path, "--as=dora", "--as-group=developers") == (0, "pod/ours\n", "")
            code, _, output = plugin(real, tmp_path, "--as=eve", "--as-group=strangers")
            assert (code, "needed: get on services/proxy, https:herodotus-endpoint:8000" in output) == (1, True), output
        finally:
            codes = [process.stop(30.0) for process in reversed(running)]
        output = "\n".join(process.output() for process in running)
        assert codes == [0, 0, 0], output
        assert not re.search(r"forbidden|cannot (get|list|watch|create|patch|update|delete)", output, re.IGNORECASE), (
            output
        )
        check_plain_http_is_found(release, config, pods["endpoint"], at["8000"], tmp_path)
        for where in leftovers(real):
            real.delete(where)


def test_the_observer_s_file_needs_nothing_else(real: Cluster, tmp_path: Path) -> None:
    """Apply deploy/observer.yaml alone; ask about a pod of the default scheduler, and about one that does not exist.

    The plugin finds the service without flags. The observer and the service use their own accounts.
    """
    file = ROOT / "deploy" / "observer.yaml"
    if real.find(f"/api/v1/namespaces/{OURS}") is None:
        real.create("/api/v1/namespaces", {"metadata": {"name": OURS}})
    release = Helm(real, OURS, {path(o, OURS): o for o in yaml.safe_load_all(file.read_text())})
    at = {port: f"127.0.0.1:{free_port()}" for port in ("8001", "8002")} | {"8000": f"{own_address()}:{free_port()}"}
    kubectl(real, "apply", "-f", str(file))
    assert release.there() == release.made.keys()
    allow_any_pod = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}
    real.patch(f"/api/v1/namespaces/{OURS}", allow_any_pod)  # the test's own pods are not restricted
    pods = {component: Pod(release, component, tmp_path, at) for component in ("endpoint", "observer")}
    pods["endpoint"].prepare()
    pods["observer"].prepare()
    running = [pods["endpoint"].started("herodotus_endpoint")]
    try:
        running[0].wait_for(r"listening on http://\S+ \(probes\)")
        running.append(pods["observer"].started("scheduler", "--secure-port=0"))
        running[1].wait_for("Everything was listed")
        create_bound_pod(real, "ours", "default-scheduler")
        publish(real, at["8000"], "queries")
        eventually(lambda: plugin(real, tmp_path)[0] == 0, "the observer's record")
        assert plugin(real, tmp_path) == (0, "pod/ours\n", "")
        manifest = tmp_path / "asked.json"
        manifest.write_text(json.dumps(pod("asked", scheduler="default-scheduler")))
        whatif = ("whatif", "-f", str(manifest), "-o", "json", "--exit-code")
        code, answer, output = plugin(real, tmp_path, question=whatif)
        assert code == 0, output
        placed = json.loads(answer)["status"]
        assert [p["node"] for p in placed["pods"]] == ["n1"]
        assert placed["first"]["notes"] == [
            "decided by an observer of default-scheduler, with the configuration that the observer has"
        ]
    finally:
        codes = [process.stop(30.0) for process in reversed(running)]
    output = "\n".join(process.output() for process in running)
    assert codes == [0, 0], output
    assert not re.search(r"forbidden|cannot (get|list|watch|create|patch|update|delete)", output, re.IGNORECASE), output
    for where in [w for w in release.made if w != f"/api/v1/namespaces/{OURS}"] + leftovers(real):
        real.delete(where)


def kubectl(cluster: Cluster, *arguments: str) -> None:
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def create_bound_pod(cluster: Cluster, name: str, scheduler: str) -> None:
    """Create a node n1 and a pod, and bind the pod as its scheduler would."""
    made = cluster.create("/api/v1/nodes", node("n1"))
    cluster.patch("/api/v1/nodes/n1/status", {"status": made["status"]})
    where = f"/api/v1/namespaces/{OURS}/pods"
    cluster.create(where, pod(name, scheduler=scheduler))
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    cluster.create(f"{where}/{name}/binding", binding)


def check_plain_http_is_found(
    release: Helm, config: helm_python.Config, endpoint: Pod, address: str, folder: Path
) -> None:
    """Check that the plugin finds a service without TLS, also as a reader whose right names the port."""
    cluster = release.cluster
    release(config.upgrade, merged(WHOLE, PLAIN))
    running = endpoint.started("herodotus_endpoint")
    try:
        running.wait_for(r"listening on http://\S+ \(queries\)")
        publish(cluster, address, "plain-http")
        _, _, output = plugin(cluster, folder, f"--service={OURS}/https:{SERVICE}:plain-http")
        assert f"or ask with  --service {OURS}/http:{SERVICE}:plain-http\n" in output, output
        for as_whom in ((), ("--as=dora", "--as-group=developers")):
            assert plugin(cluster, folder, *as_whom) == (0, "pod/ours\n", "")
    finally:
        running.stop()


def publish(cluster: Cluster, address: str, name: str) -> None:
    """Create a pod and Endpoints behind the Service with a port of this name, in place of kubelet and controllers.

    The API server's service proxy reads Endpoints, not EndpointSlices.
    """
    ip, _, port = address.rpartition(":")
    where = f"/api/v1/namespaces/{OURS}"
    if cluster.find(f"{where}/pods/endpoint") is None:
        cluster.create(f"{where}/pods", pod("endpoint", nodeName="n1"))
        cluster.patch(f"{where}/pods/endpoint/status", {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}})
    of = {"kind": "Pod", "namespace": OURS, "name": "endpoint"}
    subset = {"addresses": [{"ip": ip, "targetRef": of}], "ports": [{"name": name, "port": int(port)}]}
    cluster.delete(f"{where}/endpoints/{SERVICE}")
    cluster.create(f"{where}/endpoints", {"metadata": {"name": SERVICE}, "subsets": [subset]})


def leftovers(cluster: Cluster) -> list[str]:
    """Return the paths of the objects that uninstalling a release leaves."""
    where = f"/api/v1/namespaces/{OURS}"
    pods = [f"{where}/pods/{p['metadata']['name']}" for p in cluster.items(f"{where}/pods")]
    return [*pods, f"{where}/endpoints/{SERVICE}", f"{where}/persistentvolumeclaims/{SERVICE}"]


def plugin(
    cluster: Cluster, folder: Path, *more: str, question: tuple[str, ...] = ("pod", "ours", "-o", "name")
) -> tuple[int, str, str]:
    """Ask `kubectl herodotus` a question with only a kubeconfig; return exit code, stdout and stderr."""
    command = [sys.executable, str(ROOT / "kubectl-herodotus"), *question, "-n", OURS, *more]
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def check_both_are_recorded(cluster: Cluster, namespace: str, service: str) -> None:
    """Check that both pods are recorded: ours, which the scheduler binds, and the other one, which the test binds."""
    create_bound_pod(cluster, "theirs", THEIRS)
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("ours"))
    eventually(lambda: len(cluster.bound(namespace)) == 2, "both pods to be bound")

    def recorded() -> dict[str, str]:
        asked = f"{service}/apis/herodotus.dev/v1alpha1/namespaces/{namespace}/decisions"
        found = httpx.get(asked, verify=False).json()["items"]
        return {d["spec"]["pod"]["name"]: d["spec"]["key"]["source"] for d in found}

    eventually(lambda: len(recorded()) == 2, "both records", every_s=0.2)
    assert recorded() == {"ours": "scheduler", "theirs": "reconstructed"}


def check_forbidden_requests(cluster: Cluster, namespace: str, pods: dict[str, Pod], ingest: str) -> None:
    """Send requests with the accounts' tokens, to the API server for rights and to the service for records."""
    where = f"/api/v1/namespaces/{namespace}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "ours"}, "target": target}
    answers = {
        ("scheduler", "GET", f"{where}/secrets"): 403,
        ("scheduler", "GET", f"{where}/secrets/{OWN}"): 403,
        ("scheduler", "GET", f"{where}/configmaps"): 403,
        ("scheduler", "POST", f"{where}/pods"): 403,
        ("scheduler", "DELETE", "/api/v1/nodes/n1"): 403,
        ("observer", "GET", f"{where}/pods"): 200,
        ("observer", "POST", f"{where}/pods/ours/binding"): 403,
        ("observer", "DELETE", f"{where}/pods/ours"): 403,
        ("observer", "POST", "/apis/events.k8s.io/v1/namespaces/default/events"): 403,
        ("observer", "GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"): 403,
        ("endpoint", "GET", "/api/v1/namespaces/kube-system"): 200,
        ("endpoint", "GET", f"{where}/pods"): 403,
        ("endpoint", "GET", f"{where}/secrets"): 403,
        ("endpoint", "GET", f"{where}/secrets/{OWN}"): 200,
        ("endpoint", "GET", f"{where}/secrets/another"): 403,
        ("endpoint", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"): 403,
    }
    found = {
        (who, method, url): pods[who].request_status(method, url, binding if method == "POST" else None)
        for who, method, url in answers
    }
    assert found == answers
    shown = {
        "nobody": {},
        "a token for the API server": {"Authorization": f"Bearer {pods['scheduler'].token()}"},
        "another account": {"Authorization": f"Bearer {pods['endpoint'].token('herodotus-endpoint')}"},
    }
    content = {"Content-Type": "application/vnd.herodotus.frames"}
    output = {
        who: httpx.post(f"{ingest}/ingest/v1/frames", headers=headers | content, verify=False).status_code
        for who, headers in shown.items()
    }
    assert output == {"nobody": 401, "a token for the API server": 401, "another account": 403}, json.dumps(output)
