"""The decisions service behind a real kube-apiserver: kubectl's own commands, RBAC, deletion of namespaces."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from herodotus_endpoint.pages import FOLDER, HEADERS, SHELL
from herodotus_record import codec
from herodotus_record.model import Candidate, Frame, Preemption
from tests import postgresql
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.e2e.conftest import NO_BINARIES, own_address
from tests.e2e.control_plane import ControlPlane, assets
from tests.processes import ROOT, Process, eventually, free_port, python
from tests.scheduler.serving.authorities import Authority

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(assets() is None, reason=NO_BINARIES)]

NAME = "herodotus-endpoint.herodotus.svc"
SENDER = "system:serviceaccount:herodotus:herodotus-scheduler"
OTHER_SENDER, OTHER_CLUSTER = "system:serviceaccount:ci:default", "0c6f5be5-6d0b-4d4c-8a3c-5b1df9a4a7a1"
MANIFEST = list(yaml.safe_load_all((ROOT / "deploy" / "aggregated-api" / "herodotus.yaml").read_text()))
API = "/apis/herodotus.dev/v1alpha1"
UNDISCOVERED = "the server doesn't have a resource type"
UNDOCUMENTED = "couldn't find resource for"  # the API server has not fetched our OpenAPI document yet
FIRST, SECOND, THIRD = (f"01900000-0000-7000-8000-{sequence:012x}" for sequence in (1, 3, 4))
NODES = ("worker-1", "worker-2", "worker-3")
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}


@dataclass
class System:
    """A control plane, the decisions service behind it, and kubectl as any user.

    The service has two replicas on PostgreSQL if that is installed, else one on SQLite, which the program refuses.
    """

    plane: ControlPlane
    directory: Path
    address: str
    ports: list[int]
    kubectl_of: dict[str, Path]
    replicas: list[Process] = field(default_factory=list)
    controllers: Process | None = None
    cluster: str = ""
    token: str = ""  # a sender's

    def kubectl(self, *arguments: str, user: str = "admin", stdin: str = "", code: int = 0) -> str:
        done = self.run(*arguments, user=user, stdin=stdin)
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def herodotus(self, *arguments: str, user: str) -> subprocess.CompletedProcess[str]:
        """Run the plugin as kubectl starts it for that user."""
        environment = {"KUBECONFIG": str(self.kubectl_of[user]), "HOME": str(self.directory / user)}
        environment |= {"KUBECTL_PATH": _kubectl()}
        program = [sys.executable, str(ROOT / "kubectl-herodotus")]
        return subprocess.run(
            [*program, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def run(self, *arguments: str, user: str = "admin", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl once our resources are in API discovery and in the OpenAPI document, which may lag behind.

        Without them `auth can-i` only warns, and checks a resource without a group, which no role allows.
        """
        return eventually(lambda: self._discovered(*arguments, user=user, stdin=stdin), "our resources' discovery")

    def _discovered(self, *arguments: str, user: str, stdin: str) -> subprocess.CompletedProcess[str] | None:
        environment = {"KUBECONFIG": str(self.kubectl_of[user]), "HOME": str(self.directory / user)}
        done = subprocess.run(
            [_kubectl(), *arguments], input=stdin, env=environment, capture_output=True, text=True, timeout=100,
            check=False,
        )  # fmt: skip
        return None if UNDISCOVERED in done.stderr or UNDOCUMENTED in done.stderr else done

    def send(self, token: str, *frames: Frame) -> httpx.Response:
        return httpx.post(
            f"https://127.0.0.1:{self.port}/ingest/v1/frames",
            content=b"".join(map(codec.encode, frames)),
            headers={"Content-Type": codec.CONTENT_TYPE, "Authorization": f"Bearer {token}"},
            verify=False,
        )

    @property
    def port(self) -> int:
        """Return the ingest port of the replica that takes records."""
        return self.ports[0]

    def available(self) -> bool:
        found = json.loads(self.kubectl("get", "apiservice", "v1alpha1.herodotus.dev", "-o", "json"))
        return any(c["type"] == "Available" and c["status"] == "True" for c in found["status"].get("conditions", ()))


def _kubectl() -> str:
    program = shutil.which("kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("NO KUBECTL, neither in the virtual environment nor on PATH")
    return program


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    binaries, directory = assets(), tmp_path_factory.mktemp("aggregated")
    assert binaries is not None
    users, proxies, servers = (Authority(directory, name) for name in ("users", "proxies", "servers"))
    proxy_cert, proxy_key = proxies.client("front-proxy")
    address, ports = own_address(), [free_port() for _ in range(2 if postgresql.BINARIES else 1)]
    plane = ControlPlane(
        binaries,
        directory,
        f"--client-ca-file={users.file}",
        f"--requestheader-client-ca-file={proxies.file}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={proxy_cert}",
        f"--proxy-client-key-file={proxy_key}",
        "--enable-aggregator-routing=true",
    )
    kubeconfigs = {"admin": _kubeconfig(directory, "admin", plane.kubeconfig()["users"][0]["user"], plane)}
    for user, group in (("ada", "team-a"), ("bob", "team-b"), ("nora", "node-readers")):
        cert, key = users.client(user, group)
        login = {"client-certificate": str(cert), "client-key": str(key)}
        kubeconfigs[user] = _kubeconfig(directory, user, login, plane)
    cert, key = servers.server(NAME)

    database = postgresql.Server() if postgresql.BINARIES else None
    url = database.database() if database else ""

    def start(number: int) -> Process:
        tls = (cert, key)
        where: tuple[str, ...]
        flags: tuple[str, ...]
        if url:  # the command itself
            module, where, files = (
                "herodotus_endpoint",
                ("--bind", f"0.0.0.0:{ports[number]}"),
                ("tls-cert-file", "tls-private-key-file"),
            )
            flags = (
                "--aggregated-api",
                "--database-url",
                url,
                "--probe-bind",
                "127.0.0.1:0",
                "--ingest-sender",
                SENDER,
                "--ingest-sender",
                f"{OTHER_SENDER}={OTHER_CLUSTER}",
            )
        else:
            module, where, files = (
                "tests.e2e.aggregated_service",
                ("--host", "0.0.0.0", "--port", str(ports[number])),
                ("cert", "key"),
            )
            flags = ("--data", str(directory / "data"), "--sender", SENDER)
            flags += ("--sender", f"{OTHER_SENDER}={OTHER_CLUSTER}")
        shown = [word for name, file in zip(files, tls, strict=True) for word in (f"--{name}", str(file))]
        command = python(module, *where, *flags, *shown, "--kubeconfig", str(kubeconfigs["service"]))
        process = Process(f"replica {number}", command, directory / f"replica-{number}.log")
        process.wait_for(r"listening on http://\S+ \(probes\)")
        return process

    found = System(plane, directory, address, ports, kubeconfigs)
    try:
        plane.wait_until_ready()
        for namespace in ("herodotus", "shop", "ci"):
            found.kubectl("create", "namespace", namespace)
        rights = [o for o in MANIFEST if o["kind"] == "ServiceAccount" or o["apiVersion"].startswith("rbac.")]
        found.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
        for user, namespace in (("ada", "shop"), ("bob", "ci")):
            found.kubectl(
                "-n", namespace, "create", "rolebinding", user, "--clusterrole=herodotus-view", f"--user={user}"
            )
        found.kubectl("create", "clusterrolebinding", "nora", "--clusterrole=herodotus-nodes", "--user=nora")
        token = found.kubectl("-n", "herodotus", "create", "token", "herodotus-endpoint").strip()
        kubeconfigs["service"] = _kubeconfig(directory, "service", {"token": token}, plane)
        found.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(_service(found)))
        addressed = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        found.kubectl("-n", "herodotus", "patch", "pod", "herodotus-endpoint", "--subresource=status", "-p", addressed)
        found.replicas = [start(number) for number in range(len(ports))]
        apply_api_service(found, servers)
        found.controllers = _controllers(binaries, directory, kubeconfigs["admin"])
        eventually(found.available, "the APIService to be available", every_s=0.3)
        _store(found)
        yield found
    finally:
        for process in (*found.replicas, found.controllers):
            if process is not None and process.running:
                process.stop()
        plane.stop()
        if database:
            database.stop()


def _kubeconfig(directory: Path, name: str, user: dict[str, str], plane: ControlPlane) -> Path:
    config = plane.kubeconfig() | {"users": [{"name": "admin", "user": user}]}
    path = directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def _service(system: System) -> list[dict[str, Any]]:
    """Create a Service without a selector, and an EndpointSlice for each replica, as no controller runs here.

    The API server's service proxy also needs Endpoints and the pod with their address.
    """
    metadata = {"name": "herodotus-endpoint", "namespace": "herodotus"}
    spec = {"ports": [{"name": "queries", "port": 8000, "targetPort": system.port}]}
    label = {"kubernetes.io/service-name": "herodotus-endpoint"}
    slices = [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata | {"name": f"herodotus-endpoint-{port}", "labels": label},
            "addressType": "IPv4",
            "ports": [{"name": "queries", "port": port}],
            "endpoints": [{"addresses": [system.address], "conditions": {"ready": True}}],
        }
        for port in system.ports
    ]
    addresses = [{"ip": system.address, "targetRef": {"kind": "Pod"} | metadata}]
    subsets = [{"addresses": addresses, "ports": [{"name": "queries", "port": port}]} for port in system.ports]
    running = {"nodeName": "worker-1", "containers": [{"name": "endpoint", "image": "endpoint"}]}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec},
        *slices,
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": running},
    ]


def apply_api_service(system: System, servers: Authority) -> None:
    (service,) = (o for o in MANIFEST if o["kind"] == "APIService")
    service["spec"]["caBundle"] = base64.b64encode(servers.pem.encode()).decode()
    system.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(service))


def _controllers(binaries: Path, directory: Path, kubeconfig: Path) -> Process | None:
    """Run kube-controller-manager, which deletes the contents of terminating namespaces."""
    program = binaries / "kube-controller-manager"
    if not program.exists():
        return None
    command = [str(program), f"--kubeconfig={kubeconfig}", "--controllers=namespace-controller", "--leader-elect=false"]
    return Process("controllers", [*command, "--secure-port=0"], directory / "controllers.log")


def _store(system: System) -> None:
    cluster = system.cluster = json.loads(system.kubectl("get", "ns", "kube-system", "-o", "json"))["metadata"]["uid"]
    arguments = ("create", "token", "herodotus-scheduler", "--audience=herodotus-endpoint")
    system.token = system.kubectl("-n", "herodotus", *arguments).strip()
    table = a_table(NODES)
    first = a_decision(pod="web-1", cluster=cluster, sequence=1)
    second = a_decision(pod="web-2", cluster=cluster, sequence=3, rejected=FULL)
    candidates = tuple(Candidate(node, ("ci/job-1", "shop/web-0"), 0) for node in NODES)
    second = replace(second, preemption=Preemption("worker-1", candidates, False))
    third = a_decision(pod="job-2", namespace="ci", cluster=cluster, sequence=4)
    frames = (table.rows(cluster, first.key.incarnation), first, bound(first, table, sequence=2), second, third)
    answer = system.send(system.token, *frames)
    assert answer.status_code == 200, answer.text


def cells(printed: str) -> list[list[str]]:
    """Return the words of a table without its ages."""
    return [
        re.split(r"\s{2,}", re.sub(r"\s+\d+[smhd]\d*[smhd]?\b", "  AGE", line.strip())) for line in printed.splitlines()
    ]


DENIED = (
    'Error from server (Forbidden): decisions.herodotus.dev is forbidden: User "{}" cannot list resource "decisions" in'
    ' API group "herodotus.dev" {}\n'
)


def test_a_reader_of_a_namespace_lists_only_its_decisions(system: System) -> None:
    assert cells(system.kubectl("get", "decisions", "-n", "shop", user="ada")) == [
        ["NAME", "POD", "ATTEMPT", "STATE", "NODE", "FEASIBLE", "AGE"],
        [SECOND, "web-2", "1", "Unschedulable", "<none>", "0/3", "AGE"],
        [FIRST, "web-1", "1", "Bound", "worker-1", "3/3", "AGE"],
    ]
    for user, arguments, where in (
        ("ada", ["-n", "ci"], 'in the namespace "ci"'),
        ("bob", ["-n", "shop"], 'in the namespace "shop"'),
        ("ada", ["-A"], "at the cluster scope"),
        ("nora", ["-n", "shop"], 'in the namespace "shop"'),
    ):
        assert system.kubectl("get", "decisions", *arguments, user=user, code=1) == DENIED.format(user, where)


def test_the_administrator_lists_every_namespace_in_pages(system: System) -> None:
    printed = cells(system.kubectl("get", "decisions", "-A", "--chunk-size=1"))
    assert [row[:3] for row in printed] == [
        ["NAMESPACE", "NAME", "POD"],
        ["ci", THIRD, "job-2"],
        ["shop", SECOND, "web-2"],
        ["shop", FIRST, "web-1"],
    ]


def test_can_i_answers_for_decisions_as_for_any_resource(system: System) -> None:
    answers = {
        (user, *question): system.run("auth", "can-i", *question, user=user).stdout.strip()
        for user, question in (
            ("ada", ("list", "decisions.herodotus.dev", "-n", "shop")),
            ("ada", ("list", "decisions.herodotus.dev", "-n", "ci")),
            ("ada", ("get", "nodehistories.herodotus.dev")),
            ("nora", ("get", "nodehistories.herodotus.dev")),
            ("bob", ("delete", "decisions.herodotus.dev", "-n", "ci")),
        )
    }
    assert [*answers.values()] == ["yes", "no", "no", "yes", "no"]


def test_an_administrator_can_impersonate_a_reader(system: System) -> None:
    as_ada = ("--as", "ada", "--as-group", "team-a")
    assert system.kubectl("get", "decisions", "-n", "shop", "-o", "name", *as_ada).split() == [
        f"decision.herodotus.dev/{SECOND}",
        f"decision.herodotus.dev/{FIRST}",
    ]
    assert system.kubectl("get", "decisions", "-A", *as_ada, code=1) == DENIED.format("ada", "at the cluster scope")


@pytest.mark.parametrize(
    ("selector", "pods"),
    [
        (["--field-selector", "spec.pod=web-1"], ["web-1"]),
        (["--field-selector", "status.state!=Bound"], ["web-2"]),
        (["-l", "herodotus.dev/state in (Unschedulable, Error)"], ["web-2"]),
        (["-l", "herodotus.dev/node"], ["web-1"]),
        (["-l", "!herodotus.dev/node"], ["web-2"]),
        (["-l", "app=checkout"], ["web-2", "web-1"]),
        (["-l", "app=checkout,herodotus.dev/node"], ["web-1"]),
        (["-l", "app=cart"], []),
    ],
    ids=lambda v: " ".join(v),
)
def test_selectors_filter_decisions(system: System, selector: list[str], pods: list[str]) -> None:
    template = "jsonpath={.items[*].spec.pod.name}"
    assert system.kubectl("get", "decisions", "-n", "shop", *selector, "-o", template, user="ada").split() == pods


def test_describe_explain_and_api_resources_work(system: System) -> None:
    described = system.kubectl("describe", "decision", "web-2", "-n", "shop", user="ada")
    assert f"Name:         {SECOND}" in described
    explained = system.kubectl("explain", "decisions.status.state", user="ada")
    assert "Bound, Binding, DryRun, Failed, Unschedulable or Error." in " ".join(explained.split())
    assert "FIELD: window" in system.kubectl("explain", "nodehistories.window")
    resources = system.kubectl("api-resources", "--api-group=herodotus.dev", "-o", "name").split()
    assert {"decisions.herodotus.dev", "nodehistories.herodotus.dev"} <= set(resources)


def test_names_are_masked_only_for_readers_without_the_right(system: System) -> None:
    def victims(user: str) -> list[str]:
        found = json.loads(system.kubectl("get", "decision", SECOND, "-n", "shop", "-o", "json", user=user))
        return list(found["spec"]["preemption"]["candidates"][0]["victims"])

    assert (victims("ada"), victims("admin")) == (["(hidden)", "shop/web-0"], ["ci/job-1", "shop/web-0"])
    history = json.loads(system.kubectl("get", "--raw", f"{API}/nodehistories/worker-1?since=999999999", user="nora"))
    assert [r["pod"] for r in history["recent"]] == ["(hidden)"] * 3
    assert history["considered"] == 3
    assert "job" not in json.dumps(history)


@pytest.mark.parametrize(
    ("arguments", "allowed", "forbidden", "printed", "refused"),
    [
        (("pod", "web-1", "-n", "shop"), "ada", "bob", "worker-1", 'get resource "podexplanations"'),
        (("compare", "pod/web-1", "pod/web-2", "-n", "shop"), "ada", "bob", "web-2", 'get resource "podcomparisons"'),
        (("pending", "-n", "shop"), "ada", "nora", "web-2", 'list resource "pendingpods"'),
        (("node", "worker-1"), "nora", "ada", "worker-1", 'get resource "nodehistories"'),
        (("balance",), "nora", "ada", "No pod was placed", 'list resource "balances"'),
        (("version",), "ada", "", "Server Version: ", ""),
    ],
    ids=lambda v: v[0] if isinstance(v, tuple) else "",
)  # fmt: skip
def test_the_plugin_has_only_the_rights_of_its_user(
    system: System, arguments: tuple[str, ...], allowed: str, forbidden: str, printed: str, refused: str
) -> None:
    may = system.herodotus(*arguments, user=allowed)
    assert (may.returncode, may.stderr) == (0, "")
    assert printed in may.stdout
    if forbidden:
        may_not = system.herodotus(*arguments, user=forbidden)
        assert may_not.returncode == 1
        assert "Error from server (Forbidden): " in may_not.stderr
        assert f'User "{forbidden}" cannot {refused} in API group "herodotus.dev"' in may_not.stderr


def test_the_plugin_works_for_an_administrator_and_with_impersonation(system: System) -> None:
    """The administrator may use the service proxy too, behind which the service requires a user name."""
    assert "worker-1" in system.herodotus("pod", "web-1", "-n", "shop", user="admin").stdout
    for who, code in (("ada", 0), ("bob", 1)):
        result = system.herodotus("pod", "web-1", "-n", "shop", "--as", who, user="admin")
        assert (result.returncode, "is forbidden" in result.stderr) == (code, code == 1)
    nobody = system.herodotus("version", "--as", "system:anonymous", user="admin")
    assert 'User "system:anonymous" cannot list resource "serviceversions"' in nobody.stderr


def test_what_if_needs_a_separate_right(system: System, tmp_path: Path) -> None:
    """A viewer may not create reviews; a user with the right gets: no scheduler is there."""
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod\nmetadata: {name: web}\nspec: {schedulerName: herodotus-scheduler}\n")
    review = ("whatif", "-f", str(file), "-n", "shop")
    refused = system.herodotus(*review, user="ada")
    assert (refused.returncode, refused.stderr.splitlines()) == (
        1,
        [
            'Error from server (Forbidden): placementreviews.herodotus.dev is forbidden: User "ada" cannot create'
            ' resource "placementreviews" in API group "herodotus.dev" in the namespace "shop"',
            "  needed: the ClusterRole herodotus-whatif in the pod's namespace, which edit and admin include",
        ],
    )
    system.kubectl("-n", "shop", "create", "rolebinding", "may-ask", "--clusterrole=herodotus-whatif", "--user=eve")

    def is_allowed() -> bool:
        return "no scheduler answers what-ifs" in system.herodotus(*review, "--as", "eve", user="admin").stderr

    eventually(is_allowed, "the new right to take effect")


def test_a_watch_prints_new_decisions(system: System, tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(system.kubectl_of["ada"]), "HOME": str(tmp_path), "KUBECTL_PATH": _kubectl()}
    kubectl = Process(
        "kubectl", [_kubectl(), "get", "decisions", "-n", "shop", "-w"], tmp_path / "kubectl.log", environment
    )
    program = [sys.executable, "-u", str(ROOT / "kubectl-herodotus")]
    plugin = Process("plugin", [*program, "watch", "-n", "shop"], tmp_path / "plugin.log", environment)
    try:
        for watch in (kubectl, plugin):
            watch.wait_for("web-1")
        table = a_table(NODES)
        late = a_decision(pod="web-3", cluster=system.cluster, sequence=10)
        assert system.send(system.token, late).status_code == 200
        kubectl.wait_for(r"web-3\s+1\s+Binding")
        assert system.send(system.token, bound(late, table, sequence=11)).status_code == 200
        kubectl.wait_for(r"web-3\s+1\s+Bound")
        plugin.wait_for("web-3")
    finally:
        for watch in (kubectl, plugin):
            watch.kill()


def test_everybody_may_load_the_pages_and_sees_only_permitted_records(system: System, tmp_path: Path) -> None:
    """Requests pass the API server as `kubectl herodotus ui` forwards a browser's."""
    environment = {"KUBECONFIG": str(system.kubectl_of["ada"]), "HOME": str(tmp_path), "KUBECTL_PATH": _kubectl()}
    program = [sys.executable, "-u", str(ROOT / "kubectl-herodotus"), "ui"]
    ui = Process("ui", program, tmp_path / "ui.log", environment)
    try:
        pages = ui.wait_for(r"http://\S+/pages/\n")[0].strip()
        shell = httpx.get(pages)
        assert (shell.status_code, shell.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert shell.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
        assert shell.text == (FOLDER / SHELL).read_text()
        again = httpx.get(f"{pages}main.js", headers={"If-None-Match": httpx.get(f"{pages}main.js").headers["ETag"]})
        assert again.status_code == 304
        codes = [
            httpx.get(pages.replace("/pages/", path)).status_code
            for path in ("/namespaces/shop/decisions", "/decisions")
        ]
        assert codes == [200, 403]
    finally:
        ui.stop()


def test_a_reader_may_query_the_service_directly_with_a_token(system: System) -> None:
    """The rights are the same as through the API server."""
    system.kubectl("-n", "ci", "create", "serviceaccount", "reader")
    system.kubectl(
        "-n", "ci", "create", "rolebinding", "reader", "--clusterrole=herodotus-view", "--serviceaccount=ci:reader"
    )
    token = system.kubectl("-n", "ci", "create", "token", "reader").strip()
    answers = [
        httpx.get(
            f"https://127.0.0.1:{system.port}{API}/namespaces/{namespace}/decisions", headers=headers, verify=False
        )
        for namespace, headers in (
            ("ci", {"Authorization": f"Bearer {token}"}),
            ("shop", {"Authorization": f"Bearer {token}"}),
            ("ci", {"Authorization": f"Bearer {system.token}"}),  # meant for ingest
            ("ci", {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}),
        )
    ]
    assert [a.status_code for a in answers] == [200, 403, 401, 401]


@pytest.mark.parametrize("audience", ["", "somebody-else"])
def test_ingest_requires_a_token_for_the_service(system: System, audience: str) -> None:
    flags = [f"--audience={audience}"] if audience else []
    token = system.kubectl("-n", "herodotus", "create", "token", "herodotus-scheduler", *flags).strip()
    assert system.send(token, a_decision(cluster=system.cluster, sequence=50)).status_code == 401


def token_expiring(system: System, token: str, in_s: float) -> str:
    """Return a token of the API server for the same account and audience that expires at another time."""
    head, payload, _ = (part.encode() for part in token.split("."))
    claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    claims |= {"exp": int(time.time() + in_s), "iat": claims["iat"] - 7200, "nbf": claims["nbf"] - 7200}
    signed = head + b"." + base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    key = load_pem_private_key((system.plane.directory / "sa.key").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    signature = base64.urlsafe_b64encode(key.sign(signed, padding.PKCS1v15(), hashes.SHA256())).rstrip(b"=")
    return (signed + b"." + signature).decode()


def test_expired_tokens_are_rejected(system: System) -> None:
    """The real API server reviews the tokens. Valid ones open ingest and queries, expired ones neither."""
    system.kubectl("-n", "ci", "create", "serviceaccount", "auditor")
    system.kubectl(
        "create", "clusterrolebinding", "auditor", "--clusterrole=herodotus-view", "--serviceaccount=ci:auditor"
    )
    reader = system.kubectl("-n", "ci", "create", "token", "auditor").strip()
    rows = a_table(NODES).rows(system.cluster, "of-the-test-of-tokens")
    codes = []
    for in_s in (3600, -60):
        headers = {"Authorization": f"Bearer {token_expiring(system, reader, in_s)}"}
        response = httpx.get(f"https://127.0.0.1:{system.port}{API}/decisions", headers=headers, verify=False)
        codes.append((response.status_code, system.send(token_expiring(system, system.token, in_s), rows).status_code))
    assert codes == [(200, 200), (401, 401)]


def test_records_of_another_cluster_or_sender_are_rejected(system: System) -> None:
    assert system.send(system.token, a_decision(cluster="another", sequence=50)).status_code == 403
    other = system.kubectl("-n", "herodotus", "create", "token", "herodotus-endpoint", "--audience=herodotus-endpoint")
    assert system.send(other.strip(), a_decision(cluster=system.cluster, sequence=50)).status_code == 403


FLEET_READER = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: fleet-reader}}
rules:
  - apiGroups: [herodotus.dev]
    resources: [clusters]
    verbs: [list]
  - apiGroups: [herodotus.dev]
    resources: [clusters]
    resourceNames: [{OTHER_CLUSTER}]
    verbs: [get]
"""


def test_right_to_a_cluster_is_by_its_name(system: System) -> None:
    """It opens the records of that cluster and no others, in the namespaces that the API server lets through."""
    system.run("-n", "ci", "create", "serviceaccount", "default")  # unless its controller has made it
    token = system.kubectl("-n", "ci", "create", "token", "default", "--audience=herodotus-endpoint").strip()
    incarnation, nodes = "of-another-cluster", ("there-1",)
    table = a_table(nodes).rows(OTHER_CLUSTER, incarnation)
    decision = a_decision(pod="web-1", nodes=nodes, sequence=1, cluster=OTHER_CLUSTER, incarnation=incarnation)
    assert system.send(token, table, decision).status_code == 200

    def ask(*words: str, namespace: str = "shop", cluster: str = OTHER_CLUSTER) -> subprocess.CompletedProcess[str]:
        return system.herodotus("pod", *words, "-n", namespace, "--cluster", cluster, user="ada")

    refused = ask("web-1")
    assert f'clusters.herodotus.dev "{OTHER_CLUSTER}" is forbidden: User "ada" cannot get' in refused.stderr
    assert 'cannot list resource "clusters"' in system.herodotus("clusters", user="ada").stderr

    system.kubectl("apply", "-f", "-", stdin=FLEET_READER)
    system.kubectl("create", "clusterrolebinding", "fleet-reader", "--clusterrole=fleet-reader", "--user=ada")

    def answer() -> str | None:
        found = ask("web-1")
        return None if found.returncode else found.stdout

    assert "there-1" in eventually(answer, "the new right to take effect")
    assert "web-2" not in ask().stdout
    assert "worker-1" in system.herodotus("pod", "web-1", "-n", "shop", user="ada").stdout
    both = {(system.cluster, True), (OTHER_CLUSTER, False)}
    eventually(lambda: list_clusters(system, "ada") == both, "the new right to take effect in every replica")
    assert 'clusters.herodotus.dev "another" is forbidden' in ask("web-1", cluster="another").stderr
    assert 'podexplanations.herodotus.dev "web-1" is forbidden' in ask("web-1", namespace="ci").stderr


def list_clusters(system: System, user: str) -> set[tuple[str, bool]]:
    """Return ID, and whether it is the API server's own, of each cluster that the plugin lists for a user."""
    listed = json.loads(system.herodotus("clusters", "-o", "json", user=user).stdout)["items"]
    return {(cluster["metadata"]["name"], cluster["own"]) for cluster in listed}


def gone(system: System, namespace: str) -> bool:
    return bool(system.run("get", "namespace", namespace).returncode)


def reports_unavailable_api(system: System, namespace: str) -> bool:
    """Return whether a terminating namespace reports that an API does not answer."""
    conditions = json.loads(system.kubectl("get", "namespace", namespace, "-o", "json"))["status"].get("conditions", ())
    return ("NamespaceDeletionDiscoveryFailure", "True") in {(c["type"], c["status"]) for c in conditions}


def test_namespaces_are_deleted_with_the_service_and_without_its_api_service(
    system: System,
) -> None:
    """This test is the last one because it stops the service. It shows why an APIService needs two replicas."""
    if system.controllers is None:
        pytest.skip("NO kube-controller-manager beside kube-apiserver: no namespace is deleted")
    for name in ("with", "one", "without"):
        system.kubectl("create", "namespace", name)
        decision = a_decision(pod="web", namespace=name, cluster=system.cluster, incarnation=f"of-{name}")
        sent = (a_table(NODES).rows(system.cluster, f"of-{name}"), replace(decision, id=str(uuid.uuid4())))
        assert system.send(system.token, *sent).status_code == 200
    assert all(replica.running for replica in system.replicas)
    system.kubectl("delete", "namespace", "with", "--wait=false")
    eventually(lambda: gone(system, "with"), "the namespace to go, with every replica up", every_s=0.2)
    if len(system.replicas) > 1:
        system.replicas[-1].stop()
        system.kubectl("-n", "herodotus", "delete", "endpointslice", f"herodotus-endpoint-{system.ports[-1]}")
        system.kubectl("delete", "namespace", "one", "--wait=false")
        eventually(lambda: gone(system, "one"), "the namespace to go, with one replica up", 60.0, every_s=0.2)
    for replica in system.replicas:
        if replica.running:
            replica.stop()
    eventually(lambda: not system.available(), "the API server to notice", every_s=0.3)
    system.kubectl("delete", "namespace", "without", "--wait=false")
    eventually(lambda: reports_unavailable_api(system, "without"), "the namespace to say what hinders it", every_s=0.2)
    system.kubectl("delete", "apiservice", "v1alpha1.herodotus.dev")
    eventually(lambda: gone(system, "without"), "the namespace to go", every_s=0.2)
