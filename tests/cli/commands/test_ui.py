"""The web pages with the user's own credentials: access, forwarded requests, and clean-up."""

from __future__ import annotations

import http.client
import socketserver
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from herodotus_cli.transport.loopback_proxy import LoopbackProxy
from tests.cli.service import API, PROXY, Service, command
from tests.cli.transport.test_kubectl import KUBECTLS
from tests.processes import Process

WITHIN = f"{API}/"


class _Upstream(BaseHTTPRequestHandler):
    """A server that returns the path and the headers of each request."""

    protocol_version = "HTTP/1.1"
    forwarded: list[tuple[str, str, dict[str, str]]]

    def do_GET(self) -> None:
        self.forwarded.append((self.command, self.path, dict(self.headers)))
        body = b"{}"
        self.send_response(200)
        for name, value in (("Content-Type", "application/json"), ("ETag", '"e"'), ("Set-Cookie", "a=b")):
            self.send_header(name, value)
        if self.path.endswith("/streamed"):
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
        LoopbackProxy(0, path, "/before", WITHIN) as forwarding,
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


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_rejects_methods_that_change(
    proxy: LoopbackProxy, forwarded: list[tuple[str, str, dict[str, str]]], method: str
) -> None:
    assert ask(proxy, f"/{proxy.token}{API}/decisions", method=method).status == 501
    assert forwarded == []


def test_new_token_each_time_and_error_without_kubectl(tmp_path: Path) -> None:
    with LoopbackProxy(0, str(tmp_path / "none"), "", WITHIN) as one, LoopbackProxy(0, "", "", WITHIN) as other:
        assert one.token != other.token
        thread = threading.Thread(target=one.handle_request)
        thread.start()
        assert ask(one, f"/{one.token}{API}/decisions").status == 502
        thread.join()


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
        connection.close()
        assert f"{PROXY}{API}/decisions" in service.requests
        assert ui.stop() == 130
        assert list(folder.iterdir()) == []
    finally:
        ui.kill_all()
