"""The web pages with the user's own credentials: access, forwarded requests, and clean-up."""

from __future__ import annotations

import http.client
import re
import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from herodotus_answers.live.pods.holders import HeldObject
from herodotus_cli import live_pods
from herodotus_cli.commands import pod, ui
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import process_environment
from herodotus_cli.transport.loopback_proxy import ForwardingRules, LiveAnswers, LoopbackProxy
from herodotus_client import api_paths
from tests.cli.service import API, PROXY, Service, command
from tests.processes import Process
from tests.support.kubectls import KUBECTLS

RULES = ForwardingRules(f"{API}/", re.compile(api_paths.PAGES_READ), re.compile(api_paths.PAGES_POST))


class _Upstream(BaseHTTPRequestHandler):
    """A server that returns the path and the headers of each request."""

    protocol_version = "HTTP/1.1"
    forwarded: list[tuple[str, str, dict[str, str]]]

    def do_GET(self) -> None:
        self.forwarded.append((self.command, self.path, dict(self.headers)))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"
        self.send_response(200)
        for name, value in (("Content-Type", "application/json"), ("ETag", '"e"'), ("Set-Cookie", "a=b")):
            self.send_header(name, value)
        if self.path.endswith("/streamed"):
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def forwarded() -> list[tuple[str, str, dict[str, str]]]:
    return []


@pytest.fixture
def proxy(tmp_path: Path, forwarded: list[tuple[str, str, dict[str, str]]]) -> Iterator[LoopbackProxy]:
    """Return a loopback proxy for a Unix socket whose server logs every request."""
    handler = type("Upstream", (_Upstream,), {"forwarded": forwarded})
    path = str(tmp_path / "kubectl")
    with (
        socketserver.ThreadingUnixStreamServer(path, handler) as upstream,
        LoopbackProxy(0, path, "/before", RULES) as forwarding,
    ):
        servers = (upstream, forwarding)
        threads = [threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.01}) for s in servers]
        for thread in threads:
            thread.start()
        yield forwarding
        for server in servers:
            server.shutdown()
        for thread in threads:
            thread.join()


def ask(
    proxy: LoopbackProxy, path: str, *, method: str = "GET", host: str = "", **headers: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{proxy.server_port}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_forwards_requests_without_token_and_with_few_headers(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]]
) -> None:
    answer = ask(
        proxy, f"/{proxy.token}{API}/decisions?limit=1", Accept="application/json", Cookie="c=d", If_None_Match='"e"'
    )
    assert (answer.status, answer.headers["ETag"], answer.headers["Set-Cookie"]) == (200, '"e"', None)
    ((method, path, headers),) = forwarded
    assert (method, path) == ("GET", f"/before{API}/decisions?limit=1")
    assert {name for name in headers if name != "Accept-Encoding"} == {"Host", "Accept", "If-None-Match"}
    assert headers["Host"] == "localhost"


def test_answers_about_a_pod_only_with_the_token(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]]
) -> None:
    assert ask(proxy, f"/{proxy.token}{API}/decisions").headers["Herodotus-Live"] is None
    asked: list[tuple[str, str]] = []

    def explain_pod(namespace: str, name: str) -> tuple[int, dict[str, Any]]:
        asked.append((namespace, name))
        return 200, {"live": {}}

    proxy.live = LiveAnswers(explain_pod, pages_url="https://herodotus.example.com/ui")
    answer = ask(proxy, f"/{proxy.token}/live/pods/shop/web-0")
    assert (answer.status, answer.headers["Content-Type"], asked) == (200, "application/json", [("shop", "web-0")])
    headers = ask(proxy, f"/{proxy.token}{API}/decisions").headers
    assert (headers["Herodotus-Live"], headers["Herodotus-Pages"]) == ("pods", "https://herodotus.example.com/ui")
    for path, more in (
        ("/wrong/live/pods/shop/web-0", {}),
        (f"/{proxy.token}/live/pods/shop/web-0", {"host": "evil.test"}),
        (f"/{proxy.token}/live/pods/shop/-o", {}),
        (f"/{proxy.token}/live/pods/shop/a/b", {}),
        (f"/{proxy.token}/live/pods/shop/web-0", {"method": "HEAD"}),
    ):
        assert ask(proxy, path, **more).status == 404
    assert (len(asked), len(forwarded)) == (1, 2)


@pytest.mark.parametrize("node", [None, "worker-1"], ids=["waiting", "placed"])
def test_answer_about_a_waiting_pod_has_who_holds_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, node: str | None
) -> None:
    document = {"kind": "PodExplanation", "outcome": {"node": node}}
    held = HeldObject("worker-1", "resource", ("cpu",), 300)
    monkeypatch.setattr(pod, "run", lambda _arguments, _connection, _output, env: env.collect(document, None))
    monkeypatch.setattr(live_pods, "read_live_facts", lambda _answer, _transport: live_pods.LiveFacts([], held))
    code, answer = ui._explain_pod(ConnectionSettings(), process_environment(), "shop", "web-0")
    assert (code, answer["kind"]) == (200, "PodExplanation")
    assert answer.get("holders", {}).get("node") == (None if node else "worker-1")


class LocalAnswer(NamedTuple):
    code: int
    headers: dict[str, str]
    body: bytes


def test_answers_in_place_of_the_service_only_with_the_token(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]]
) -> None:
    asked: list[tuple[str, str, bytes]] = []

    def answer(method: str, path: str, headers: Mapping[str, str], body: bytes) -> LocalAnswer:
        asked.append((method, path, body))
        return LocalAnswer(501, {"Content-Type": "application/json", "ETag": headers["If-None-Match"]}, b"{}")

    proxy.live = LiveAnswers(lambda _namespace, _name: (404, {}), answer_request=answer)
    got = ask(proxy, f"/{proxy.token}{API}/decisions?limit=1", If_None_Match='"e"', Cookie="c=d")
    assert (got.status, got.headers["ETag"], got.headers["Herodotus-Live"]) == (501, '"e"', "pods, local")
    assert post(proxy, f"/{proxy.token}{API}/clusterreviews", If_None_Match="") == (501, b"{}")
    assert asked == [("GET", f"{API}/decisions?limit=1", b""), ("POST", f"{API}/clusterreviews", b'{"spec":{}}')]
    assert ask(proxy, f"/wrong{API}/decisions").status == 404
    assert ask(proxy, f"/{proxy.token}/api/v1/secrets").status == 404
    assert ask(proxy, f"/{proxy.token}/api/v1/nodes").status == 200
    assert (len(asked), [path for _, path, _ in forwarded]) == (2, ["/api/v1/nodes"])


def test_ends_a_response_of_unknown_length_by_closing_the_connection(proxy: LoopbackProxy) -> None:
    answer = ask(proxy, f"/{proxy.token}{API}/streamed")
    assert (answer.status, answer.headers["Connection"], answer.headers["Content-Length"]) == (200, "close", None)


@pytest.mark.parametrize(
    ("path", "host"),
    [
        (f"{API}/decisions", ""),
        (f"/TOKEN{API}/decisions", "evil.test"),
        (f"/TOKEN{API}/decisions", "127.0.0.1"),
        (f"/wrong{API}/decisions", ""),
        ("/TOKEN/api/v1/secrets", ""),
        ("/TOKEN/api/v1/namespaces/shop/pods/web/log", ""),
        ("/TOKEN/api/v1/namespaces/shop/pods%2fweb/exec", ""),
        ("/TOKEN/api/v1/namespaces/shop/pods/web%2flog", ""),
        ("/TOKEN/api/v1/namespaces/shop/secrets/web", ""),
        ("/TOKEN/apis/apps/v1/namespaces/shop/deployments/web/scale", ""),
        (f"/TOKEN{API}/../../../api/v1/secrets", ""),
        (f"/TOKEN{API}/%2e%2e/%2e%2e/%2e%2e/api/v1/secrets", ""),
        ("/TOKEN", ""),
        ("/", ""),
    ],
    ids=[
        "no-token",
        "rebound",
        "no-port",
        "wrong-token",
        "elsewhere",
        "log",
        "exec",
        "log-escaped",
        "secret",
        "scale",
        "upwards",
        "upwards-escaped",
        "token-alone",
        "root",
    ],
)
def test_rejects_requests_without_token_or_with_other_host(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]], path: str, host: str
) -> None:
    assert ask(proxy, path.replace("TOKEN", proxy.token), host=host).status == 404
    assert forwarded == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1",
        "/api/v1/nodes?limit=500",
        "/api/v1/namespaces/shop/pods/web-0",
        "/apis/apps/v1/namespaces/shop/deployments/web",
        "/apis/batch/v1/namespaces/shop/cronjobs/report",
    ],
)
def test_forwards_reads_of_pods_nodes_and_workloads_to_the_api_server(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]], path: str
) -> None:
    assert ask(proxy, f"/{proxy.token}{path}").status == 200
    assert [(method, at) for method, at, _ in forwarded] == [("GET", path)]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_rejects_methods_that_change(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]], method: str
) -> None:
    assert ask(proxy, f"/{proxy.token}{API}/decisions", method=method).status == 501
    assert forwarded == []


def post(proxy: LoopbackProxy, path: str, body: bytes = b'{"spec":{}}', **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, body, {"Content-Type": "application/json", **named})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_posts_reviews_and_nothing_else(proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]]) -> None:
    reviews = f"{API}/namespaces/shop/placementreviews"
    assert post(proxy, f"/{proxy.token}{reviews}", Sec_Fetch_Site="cross-site") == (200, b'{"spec":{}}')
    ((method, path, headers),) = forwarded
    assert (method, path, headers["Sec-Fetch-Site"]) == ("POST", f"/before{reviews}", "cross-site")
    for path in (
        reviews,
        f"/{proxy.token}{API}/decisions",
        f"/{proxy.token}/api/v1/pods",
        f"/{proxy.token}/api/v1/namespaces/shop/pods/web-0",
        f"/{proxy.token}{API}/namespaces/shop/placementreviews/../../../../../../api/v1/pods",
    ):
        assert post(proxy, path)[0] == 404, path
    assert post(proxy, f"/{proxy.token}{reviews}", Host="evil.test")[0] == 404
    too_long = ask(proxy, f"/{proxy.token}{reviews}", method="POST", Content_Length=str((1 << 20) + 1))
    assert too_long.status == 413
    assert len(forwarded) == 1


def test_new_token_each_time_and_error_without_kubectl(tmp_path: Path) -> None:
    with LoopbackProxy(0, str(tmp_path / "none"), "", RULES) as one, LoopbackProxy(0, "", "", RULES) as other:
        assert one.token != other.token
        thread = threading.Thread(target=one.handle_request)
        thread.start()
        assert ask(one, f"/{one.token}{API}/decisions").status == 502
        thread.join()


def test_copied_link_is_the_page_to_begin_with() -> None:
    link = "https://api:6443/any/pages/?view=decision&namespace=shop&name=web-0"
    out = command("ui", link, "--endpoint", "http://10.1.2.3:8000").out
    assert out == f"http://10.1.2.3:8000{API}/pages/?view=decision&namespace=shop&name=web-0\n"
    assert command("ui", "https://api:6443/any", "--endpoint", "http://10.1.2.3:8000").code == 2


def test_endpoint_prints_its_own_pages() -> None:
    assert command("ui", "--endpoint", "http://10.1.2.3:8000/").out == f"http://10.1.2.3:8000{API}/pages/\n"


def test_unreachable_service_fails_before_serving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("ui", environ={"PATH": str(tmp_path), "HOME": str(tmp_path)}).code == 1
    assert capsys.readouterr().err.startswith("error: kubectl is not on PATH\n")


@pytest.mark.parametrize("deep", [False, True], ids=["", "below a deep TMPDIR"])
def test_serves_through_kubectl_until_terminated(service: Service, tmp_path: Path, deep: bool) -> None:
    service.answer(f"{API}/serviceversions", {"version": "0.1.0"})
    service.answer(f"{API}/decisions", {"kind": "DecisionList"})
    config, folder = tmp_path / "config", tmp_path / "temporary" / ("deep" * 30 if deep else "")
    folder.mkdir(parents=True)
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{service.url}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    )
    environ = {"KUBECTL_PATH": KUBECTLS[0], "KUBECONFIG": str(config), "HOME": str(tmp_path), "TMPDIR": str(folder)}
    ui = Process("ui", [sys.executable, "-m", "herodotus_cli", "ui"], tmp_path / "log", environ)
    try:
        found = ui.wait_for(rf"http://127\.0\.0\.1:(\d+)(/[\w-]+){API}/pages/\n")
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
        connection.request("GET", f"{found[2]}{API}/decisions")
        assert connection.getresponse().read() == b'{"kind": "DecisionList"}'
        assert f"{PROXY}{API}/decisions" in service.requests
        connection.request("GET", f"{found[2]}{API}/serviceversions")
        assert connection.getresponse().headers["Herodotus-Pages"] == f"{service.url}{PROXY}{API}/pages/"
        connection.close()
        assert ui.stop() == 130
        assert list(folder.iterdir()) == []
    finally:
        ui.kill_all()
