"""The real process behind TLS: who gets a connection, whose headers count, and probes whatever readers do."""

from __future__ import annotations

import base64
import http.client
import json
import re
import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from herodotus_kube.discovery import KUBE_SYSTEM
from herodotus_record import codec
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.shipper import NotDeliveredError, Shipper
from scheduler.recorder.spool import Spool
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.endpoint.reviewer import SENDER, Reviewer
from tests.endpoint.service import API
from tests.processes import Process, eventually, python
from tests.scheduler.serving.authorities import Authority

FRONT_PROXY = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
ADA = {"X-Remote-User": "ada"}
METRICS = ("get", "/metrics", "")


class Answers(BaseHTTPRequestHandler):
    """An API server that reviews as a Reviewer does, and publishes how its front proxy is known."""

    reviewer: Reviewer
    authority = ""

    def do_GET(self) -> None:
        if self.path == KUBE_SYSTEM:
            self._send({"metadata": {"uid": CLUSTER}})
            return
        assert self.path == FRONT_PROXY
        names = json.dumps(["front-proxy"])
        data = {"requestheader-client-ca-file": self.authority, "requestheader-allowed-names": names}
        self._send({"data": data})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reviewer.asked.append(body)
        review = self.reviewer._token if body["kind"] == "TokenReview" else self.reviewer._access
        self._send({**body, "status": review(body["spec"])})

    def _send(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: Any) -> None: ...


class Doors:
    """The service's process, and requests to it."""

    def __init__(self, directory: Path, proxies: Authority, servers: Authority, process: Process) -> None:
        self.directory, self.proxies, self.servers, self.process = directory, proxies, servers, process
        self.port = int(process.wait_for(r"listening on https://127\.0\.0\.1:(\d+)")[1])
        self.probes = int(process.wait_for(r"listening on http://127\.0\.0\.1:(\d+) \(probes\)")[1])

    def connect(self, pair: tuple[Path, Path] | None = None) -> http.client.HTTPSConnection:
        tls = ssl.create_default_context(cadata=self.servers.pem)
        if pair:
            tls.load_cert_chain(*pair)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=tls)

    def get(self, path: str, headers: dict[str, str] | None = None, pair: tuple[Path, Path] | None = None) -> int:
        connection = self.connect(pair)
        try:
            connection.request("GET", path, headers=headers or {})
            return connection.getresponse().status
        finally:
            connection.close()

    def probe(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.probes, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture(scope="module")
def reviewer() -> Reviewer:
    return Reviewer(
        tokens={"ada's": ("ada", ""), "sender's": (SENDER, "herodotus-endpoint")},
        allowed={("ada", verb, "decisions", "shop") for verb in ("get", "list", "watch")} | {("ada", *METRICS)},
    )


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, reviewer: Reviewer) -> Iterator[Callable[..., Doors]]:
    directory = tmp_path_factory.mktemp("doors")
    proxies, servers = Authority(directory, "proxies"), Authority(directory, "servers")
    handler = type("Handler", (Answers,), {"reviewer": reviewer, "authority": proxies.pem})
    api = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=api.serve_forever, daemon=True).start()
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    (directory / "kubeconfig").write_text(yaml.safe_dump(config))
    processes: list[Process] = []

    def started(name: str, *flags: str) -> Doors:
        cert, key = servers.server(f"{name}.test")
        command = [
            *python("tests.e2e.aggregated_service", "--data", str(directory / name)),
            *("--kubeconfig", str(directory / "kubeconfig"), "--sender", f"{SENDER}={CLUSTER}"),
            *("--cert", str(cert), "--key", str(key), *flags),
        ]
        processes.append(Process(name, command, directory / f"{name}.log"))
        return Doors(directory, proxies, servers, processes[-1])

    yield started
    for process in processes:
        process.stop()
    api.shutdown()
    api.server_close()


@pytest.fixture(scope="module")
def doors(start: Callable[..., Doors]) -> Doors:
    return start("doors", "--max-watches", "6")


SHOP = f"{API}/namespaces/shop/decisions"


def test_trusts_front_proxy_headers_over_tls(doors: Doors, reviewer: Reviewer) -> None:
    reviewer.asked.clear()
    connection = doors.connect(doors.proxies.client("front-proxy"))
    connection.putrequest("GET", SHOP)
    for name, value in (*ADA.items(), ("X-Remote-Group", "dev"), ("X-Remote-Group", "cn=ops,dc=example")):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()
    assert reviewer.asked[-1]["spec"]["groups"] == ["dev", "cn=ops,dc=example"]


@pytest.mark.parametrize(
    ("who", "headers", "code"),
    [
        ("nobody", ADA, 401),
        ("nobody", {"X_Remote_User": "ada", "X-Herodotus-Headers": '[["X-Remote-User","ada"]]'}, 401),
        ("somebody", ADA, 401),
        ("front-proxy", {}, 401),
        ("front-proxy", {"X-Remote-User": "eve"}, 403),
        ("nobody", {"Authorization": "Bearer ada's"}, 200),
        ("somebody", {"Authorization": "Bearer ada's"}, 200),
        ("nobody", {"Authorization": "Bearer expired"}, 401),
        ("nobody", {"Authorization": "Bearer sender's"}, 401),
    ],
    ids=lambda v: str(v),
)
def test_ignores_user_headers_without_the_front_proxy_certificate(
    doors: Doors, who: str, headers: dict[str, str], code: int
) -> None:
    pair = None if who == "nobody" else doors.proxies.client(who)
    assert doors.get(SHOP, headers, pair) == code


def test_client_certificate_of_another_authority_fails_the_handshake(doors: Doors) -> None:
    pair = Authority(doors.directory, "others").client("front-proxy")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        doors.get(SHOP, ADA, pair)
    assert doors.get("/livez") == 200


def test_expired_client_certificate_fails_the_handshake(doors: Doors, tmp_path: Path) -> None:
    """The front proxy's own, of the right authority and name."""
    expired = tuple(Path(shutil.move(file, tmp_path)) for file in doors.proxies.client("front-proxy", ends_h=-0.5))
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        doors.get(SHOP, ADA, (expired[0], expired[1]))
    assert doors.get(SHOP, ADA, doors.proxies.client("front-proxy")) == 200


def test_ingest_requires_the_token_of_a_sender(doors: Doors) -> None:
    codes = []
    for token in ("sender's", "ada's"):
        connection = doors.connect()
        headers = {"Content-Type": codec.CONTENT_TYPE, "Authorization": f"Bearer {token}"}
        body = codec.encode(a_table(["worker-1"]).rows(CLUSTER, INCARNATION))
        connection.request("POST", "/ingest/v1/frames", body, headers)
        codes.append(connection.getresponse().status)
        connection.close()
    assert codes == [200, 401]


def test_shipper_verifies_the_certificate_of_the_service(doors: Doors, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("sender's\n")
    spool = Spool(tmp_path / "spool", "shipped")
    spool.rotate(codec.encode(a_table(["worker-1"]).rows(CLUSTER, "shipped")))
    spool.append(codec.encode(a_decision(nodes=["worker-1"], incarnation="shipped")))
    url = f"https://127.0.0.1:{doors.port}"
    stranger = Shipper(tmp_path / "spool", ServiceEndpoint(url, token, Authority(tmp_path, "strangers").file))
    with closing(stranger), pytest.raises(NotDeliveredError, match="certificate verify failed"):
        stranger.deliver_pending()
    shipper = Shipper(tmp_path / "spool", ServiceEndpoint(url, token, doors.servers.file))
    with closing(shipper):
        assert (shipper.deliver_pending(), shipper.deliver_pending(), shipper.progress.refused) == (True, False, 0)
    spool.close()


def test_watches_do_not_delay_probes_and_queries(doors: Doors) -> None:
    """Nor do they outlive their clients."""
    pair = doors.proxies.client("front-proxy")

    def watch(user: str) -> http.client.HTTPSConnection:
        connection = doors.connect(pair)
        connection.request("GET", f"{SHOP}?watch=1&timeoutSeconds=60", headers={"X-Remote-User": user})
        return connection

    running = [watch("ada") for _ in range(6)]
    assert [connection.getresponse().status for connection in running] == [200] * 6

    def full() -> bool:
        asking = watch("ada")
        try:
            return asking.getresponse().status == 429
        finally:
            asking.close()

    assert full()
    began = time.monotonic()
    assert [doors.probe(path) for path in ("/livez", "/readyz", "/metrics", SHOP)] == [200, 200, 404, 404]
    assert doors.get(SHOP, ADA, pair) == 200
    assert time.monotonic() - began < 30  # a watch lasts a minute
    for connection in running:
        connection.close()
    eventually(lambda: not full(), "the places to be given back")


def test_reloads_a_changed_certificate(start: Callable[..., Doors]) -> None:
    renewed = start("renewed")
    cert, key = (renewed.directory / f"renewed.test.{end}" for end in ("crt", "key"))

    def served() -> bytes:
        pem = ssl.get_server_certificate(("127.0.0.1", renewed.port))
        return base64.b64decode("".join(pem.splitlines()[1:-1]))

    before = served()
    cert.write_text("not a certificate")
    time.sleep(1.2)
    assert served() == before, "what cannot be loaded changes nothing"
    new_cert, new_key = renewed.servers.server("new.test")
    shutil.copy(new_key, key)
    shutil.copy(new_cert, cert)
    eventually(lambda: served() != before, "the new certificate", every_s=0.2)


def test_every_worker_reports_the_metrics_of_all(start: Callable[..., Doors]) -> None:
    shared = start("shared", "--workers", "2")
    for _ in range(40):
        assert shared.get("/version") == 200
    assert shared.get(SHOP, ADA, shared.proxies.client("front-proxy")) == 200
    workers = eventually(
        lambda: children(shared.process.pid) if len(children(shared.process.pid)) == 2 else None, "both"
    )
    found = []
    for _ in range(6):
        connection = shared.connect()
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer ada's"})
        text = connection.getresponse().read().decode()
        connection.close()
        found.append(re.findall(r'herodotus_request_seconds_count\{.*route="/version".*\} (\S+)', text))
        assert 'herodotus_stored{kind="decisions"} 0.0' in text
    assert found == [["40.0"]] * 6
    assert len(workers) == 2


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_watches_end_when_the_process_stops(start: Callable[..., Doors]) -> None:
    ending = start("ending")
    connection = ending.connect(ending.proxies.client("front-proxy"))
    connection.request("GET", f"{SHOP}?watch=1&timeoutSeconds=600", headers=ADA)
    watch = connection.getresponse()
    assert watch.status == 200
    assert ending.process.stop() == 0
    assert watch.read() == b"", "its end was told, the worker was not cut off"
    connection.close()
