"""deploy/herodotus-scheduler.yml on a real API server: it is accepted, and its roles are sufficient and minimal."""

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import NO_BINARIES
from tests.e2e.control_plane import TOKEN, ControlPlane, assets
from tests.processes import ROOT, Process, eventually, free_port, python
from tests.scheduler.serving.authorities import Authority

MANIFEST = ROOT / "deploy" / "herodotus-scheduler.yml"
PODS = 12

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(assets() is None, reason=NO_BINARIES)]

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority of client certificates that the cluster trusts."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ControlPlane]:
    binaries = assets()
    assert binaries is not None
    plane = ControlPlane(binaries, tmp_path_factory.mktemp("control-plane"), f"--client-ca-file={authority.file}")
    try:
        plane.wait_until_ready()
        yield plane
    finally:
        plane.stop()


def kubeconfig(path: Path, server: ControlPlane, token: str) -> Path:
    cluster = {"server": server.url, "certificate-authority": str(server.ca)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def kubectl(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Return a function that runs kubectl as the administrator."""
    directory = tmp_path_factory.mktemp("admin")
    program = shutil.which("kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("NO KUBECTL, neither in the virtual environment nor on PATH")
    config = kubeconfig(directory / "kubeconfig", server, TOKEN)

    def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
        environment = {"KUBECONFIG": str(config), "HOME": str(directory), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [program, *arguments],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="module")
def applied(kubectl: Kubectl) -> None:
    """Apply the manifest; the dry run on the server before needs the namespace."""
    kubectl("create", "namespace", "herodotus")
    output = kubectl("apply", "--dry-run=server", "-f", str(MANIFEST))
    assert len(output.splitlines()) == len(list(yaml.safe_load_all(MANIFEST.read_text())))
    kubectl("apply", "-f", str(MANIFEST))


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"cpsc426-label": name}}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "herodotus-scheduler", "containers": [container], **spec},
    }


STATUS = (
    '{"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"capacity":{"cpu":"4","memory":"8Gi",'
    '"pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}'
)


def test_the_scheduler_works_with_its_service_account(
    applied: None, kubectl: Kubectl, server: ControlPlane, authority: Authority, tmp_path: Path
) -> None:
    port = free_port()
    for name in ("main", "micro"):
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump(node(name)))
        kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", STATUS)
    token = kubectl("-n", "herodotus", "create", "token", "herodotus-scheduler").strip()
    config = next(o for o in objects() if o["kind"] == "ConfigMap")["data"]["config.yaml"]
    (tmp_path / "config.yaml").write_text(config)
    command = [
        *python("scheduler", "run", "--v", "2", "--config", str(tmp_path / "config.yaml")),
        *("--kubeconfig", str(kubeconfig(tmp_path / "kubeconfig", server, token)), "--spool", str(tmp_path / "spool")),
        *("--bind-address", "127.0.0.1", "--secure-port", str(port)),
    ]
    scheduler = Process("scheduler", command, tmp_path / "log")
    asked = Port(port)
    try:
        many = [pod(f"p-{i}") for i in range(PODS)] + [pod("misfit", nodeSelector={"no": "such"})]
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(many))
        for manifest in ("deploy-default-pod", "deploy-named-node-pod", "main-label-pod", "micro-label-pod"):
            kubectl("apply", "-n", "default", "-f", str(ROOT / "deploy" / "test" / f"{manifest}.yml"))
        eventually(lambda: unbound(kubectl) == ["misfit"], "all but one pod to be bound", every_s=0.3)
        eventually(lambda: reasons(kubectl).count("Scheduled") == PODS + 4, "the events", every_s=0.3)
        assert asked("/readyz?verbose").text.endswith("readyz check passed\n")
        check_access(asked, kubectl, authority)
        check_responses(asked, authority)
        os.kill(scheduler.pid, signal.SIGUSR2)
        scheduler.wait_for(r'"Cache comparer finished" mismatches=0')
    finally:
        code = scheduler.stop(30.0)
    output = scheduler.output()
    assert code == 0, output
    assert not re.search("forbidden|cannot (get|list|watch|create|patch|update|delete)", output, re.IGNORECASE), output
    assert re.search(r"^E", output, re.MULTILINE) is None, output
    assert "FailedScheduling" in reasons(kubectl)
    condition = kubectl("get", "pod", "misfit", "-o", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}")
    assert condition == "Unschedulable"
    lease = kubectl("-n", "herodotus", "get", "lease", "herodotus-scheduler", "-o", "jsonpath={.spec.holderIdentity}")
    assert lease == "", "given back at the end"


class Port:
    """A client of the scheduler's HTTPS port with any credentials."""

    def __init__(self, port: int) -> None:
        self._url = f"https://127.0.0.1:{port}"

    def __call__(
        self, path: str, *, token: str = "", pair: tuple[Path, Path] | None = None, put: bytes | None = None
    ) -> httpx.Response:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair:
            context.load_cert_chain(*pair)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        method = "GET" if put is None else "PUT"
        return httpx.request(method, self._url + path, headers=headers, content=put, verify=context, timeout=100)


def check_access(port: Port, kubectl: Kubectl, authority: Authority) -> None:
    """Check a service account with the right and one without, certificates, no credentials, and an invalid token."""
    for name in ("scraper", "stranger"):
        kubectl("-n", "default", "create", "serviceaccount", name)
    scraper = ("--clusterrole=herodotus-metrics", "--serviceaccount=default:scraper")
    kubectl("create", "clusterrolebinding", "scraper", *scraper)
    tokens = {name: kubectl("-n", "default", "create", "token", name).strip() for name in ("scraper", "stranger")}
    administrator = authority.client("root", "system:masters")
    # the API server publishes whose certificates it believes, and the role to read that, a moment after its start
    eventually(lambda: port("/metrics", pair=administrator).status_code == 200, "certificates to be believed")
    found = {
        "scraper": port("/metrics", token=tokens["scraper"]).status_code,
        "scraper elsewhere": port("/configz", token=tokens["scraper"]).json()["message"],
        "stranger": port("/metrics", token=tokens["stranger"]).json()["message"],
        "nobody": port("/metrics").json()["message"],
        "no token": port("/metrics", token="nonsense").status_code,
        "a user": port("/metrics", pair=authority.client("ada", "dev")).json()["message"],
        "an administrator": port("/metrics", pair=administrator).status_code,
    }
    assert found == {
        "scraper": 200,
        "scraper elsewhere": 'forbidden: User "system:serviceaccount:default:scraper" cannot get path "/configz"',
        "stranger": 'forbidden: User "system:serviceaccount:default:stranger" cannot get path "/metrics"',
        "nobody": 'forbidden: User "system:anonymous" cannot get path "/metrics"',
        "no token": 401,
        "a user": 'forbidden: User "ada" cannot get path "/metrics"',
        "an administrator": 200,
    }


def check_responses(port: Port, authority: Authority) -> None:
    pair = authority.client("root", "system:masters")

    def scraped() -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(port("/metrics", pair=pair).text)
        return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}

    # what the loop holds is looked at once a second
    eventually(lambda: scraped()["scheduler_cache_size", "pods"] == PODS + 4, "the cache's size")
    values = scraped()
    profile = "herodotus-scheduler"
    assert values["scheduler_pod_scheduling_attempts_count",] == PODS + 4
    assert sum(v for (n, *labels), v in values.items() if n == "scheduler_schedule_attempts_total") >= PODS + 5
    assert values["leader_election_master_status", profile] == 1
    assert (values["scheduler_cache_size", "nodes"], values["scheduler_cache_size", "pods"]) == (2, PODS + 4)
    assert values["herodotus_records_dropped_total",] == 0
    assert port("/configz", pair=pair).json()["componentconfig"]["profiles"][0]["schedulerName"] == profile
    assert port("/debug/flags/v", pair=pair, put=b"4").text == "successfully set klog.logging.verbosity to 4\n"
    assert port("/readyz/spool", pair=pair).text == "ok"


def unbound(kubectl: Kubectl) -> list[str]:
    names = kubectl("get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name}={.spec.nodeName} {end}")
    return [n.removesuffix("=") for n in names.split() if n.endswith("=")]


def reasons(kubectl: Kubectl) -> list[str]:
    return kubectl("get", "events.v1.events.k8s.io", "-o", "jsonpath={range .items[*]}{.reason} {end}").split()


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


ACCOUNT = "system:serviceaccount:herodotus:{}"


@pytest.mark.parametrize(
    ("account", "question", "allowed"),
    [
        ("herodotus-scheduler", "create pods --subresource=binding", True),
        ("herodotus-scheduler", "create leases.coordination.k8s.io -n herodotus", True),
        ("herodotus-scheduler", "get namespaces/kube-system", True),
        ("herodotus-scheduler", "get namespaces/default", False),
        ("herodotus-scheduler", "delete pods", True),
        ("herodotus-scheduler", "create pods --subresource=eviction", False),
        ("herodotus-scheduler", "patch persistentvolumes", True),
        ("herodotus-scheduler", "delete persistentvolumeclaims", False),
        ("herodotus-scheduler", "create tokenreviews.authentication.k8s.io", True),
        ("herodotus-scheduler", "create subjectaccessreviews.authorization.k8s.io", True),
        ("herodotus-scheduler", "get configmaps/extension-apiserver-authentication -n kube-system", True),
        ("herodotus-scheduler", "get configmaps -n herodotus", False),
        ("herodotus-scheduler", "update pods", False),
        ("herodotus-scheduler", "create pods", False),
        ("herodotus-scheduler", "get secrets", False),
        ("herodotus-scheduler", "get configmaps", False),
        ("herodotus-scheduler", "patch nodes", False),
        ("herodotus-scheduler", "update leases.coordination.k8s.io/kube-scheduler -n kube-system", False),
        ("herodotus-scheduler", "update leases.coordination.k8s.io/another -n herodotus", False),
        ("herodotus-scheduler", "list priorityclasses.scheduling.k8s.io", True),
        ("herodotus-endpoint", "list pods", False),
        ("herodotus-endpoint", "get namespaces/kube-system", True),
        ("herodotus-endpoint", "create tokenreviews.authentication.k8s.io", True),
        ("herodotus-endpoint", "create subjectaccessreviews.authorization.k8s.io", False),
        ("herodotus-endpoint", "update secrets/herodotus-endpoint-own -n herodotus", True),
        ("herodotus-endpoint", "get secrets/another -n herodotus", False),
        ("herodotus-endpoint", "list secrets -n herodotus", False),
        ("herodotus-endpoint", "create secrets -n herodotus", False),
        ("herodotus-scheduler", "get secrets/herodotus-endpoint-own -n herodotus", False),
        ("herodotus-scheduler", "get configmaps/herodotus-endpoint-ca -n herodotus", True),
        ("herodotus-scheduler", "update configmaps/herodotus-endpoint-ca -n herodotus", False),
        ("herodotus-scheduler", "watch configmaps/herodotus-endpoint-ca -n herodotus", False),
        ("herodotus-endpoint", "update configmaps/herodotus-endpoint-ca -n herodotus", True),
        ("herodotus-endpoint", "get configmaps/herodotus-scheduler -n herodotus", False),
    ],
    ids=lambda v: str(v),
)
def test_accounts_have_least_privilege(
    applied: None, kubectl: Kubectl, account: str, question: str, allowed: bool
) -> None:
    output = kubectl("auth", "can-i", *question.split(), "--as", ACCOUNT.format(account), code=0 if allowed else 1)
    assert output.strip() == ("yes" if allowed else "no")


def test_the_reader_role_allows_queries_and_nothing_else(applied: None, kubectl: Kubectl) -> None:
    kubectl("-n", "herodotus", "create", "rolebinding", "readers", "--role=herodotus-reader", "--group=developers")
    as_reader = ("-n", "herodotus", "--subresource=proxy", "--as=dora", "--as-group=developers")
    assert kubectl("auth", "can-i", "get", "services/https:herodotus-endpoint:8000", *as_reader) == "yes\n"
    assert kubectl("auth", "can-i", "create", "services/https:herodotus-endpoint:8000", *as_reader, code=1) == "no\n"
    assert kubectl("auth", "can-i", "get", "services/https:herodotus-endpoint:8001", *as_reader, code=1) == "no\n"
    kubectl("-n", "herodotus", "create", "rolebinding", "whatif", "--role=herodotus-whatif", "--group=developers")
    assert kubectl("auth", "can-i", "create", "services/https:herodotus-endpoint:8000", *as_reader) == "yes\n"
    assert kubectl("auth", "can-i", "create", "services/https:herodotus-endpoint:8001", *as_reader, code=1) == "no\n"
