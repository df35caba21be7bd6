"""The HTTPS port as a client meets it: certificates, limits, and what each path answers."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from herodotus_kube.published_authorities import AUTHENTICATION_PATH, watch_client_authorities
from herodotus_serving.certificates import CertificateError, ServingCertificate
from herodotus_serving.messages import Request, Response
from herodotus_serving.sockets import ListenError
from scheduler.live.metrics import SchedulerMetrics
from scheduler.serving.access import RequestAuthorizer
from scheduler.serving.health import HealthCheck
from scheduler.serving.http import build_text_response, parse_query
from scheduler.serving.port import find_key_pair
from scheduler.serving.routes import Content, StatusRoutes, build_probes
from scheduler.serving.server import LIMITS, StatusServer
from tests.kube.servers import api_of, status
from tests.processes import eventually
from tests.scheduler.serving.authorities import Authority
from tests.scheduler.serving.token_reviewer import TokenReviewer
from tests.support.clock import Clock

Start = Callable[..., StatusServer]


def echo(request: Request) -> Response:
    """Return a response with the user and the request."""
    parts: Any = request.subject.get("subject", ())
    subject = dict(pair for part in parts for pair in part)
    head = request.head
    return build_text_response(200, json.dumps([head.method, head.path, parse_query(head), subject]))


def certificate(
    *files: Path, cert_dir: Path | None = None, authorities: Callable[[], str] = str, clock: Any = time.monotonic
) -> ServingCertificate:
    """Return the certificate that the options name."""
    cert_file, key_file, *_ = (*files, None, None)
    pair = find_key_pair(cert_file, key_file, cert_dir, "127.0.0.1")
    return ServingCertificate(pair, authorities, lambda _: None, clock)


@pytest.fixture
def start() -> Iterator[Start]:
    servers: list[StatusServer] = []

    def made(handler: Any = echo, certs: ServingCertificate | None = None, **limits: Any) -> StatusServer:
        server = StatusServer(("127.0.0.1", 0), (certs or certificate()).context, handler, replace(LIMITS, **limits))
        server.start()
        servers.append(server)
        return server

    yield made
    for server in servers:
        server.close()


def ask(
    server: StatusServer, path: str = "/x", method: str = "GET", verify: Any = False, **more: Any
) -> httpx.Response:
    return httpx.request(method, f"https://127.0.0.1:{server.port}{path}", verify=verify, timeout=60, **more)


def client_tls(pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair:
        context.load_cert_chain(*pair)
    return context


def served_certificate(server: StatusServer) -> str:
    return ssl.get_server_certificate(("127.0.0.1", server.port))


class TestRequests:
    def test_an_answer_closes_its_connection_and_is_not_cached(self, start: Start) -> None:
        answer = ask(start(), "/a?verbose&exclude=b&exclude=c")
        assert answer.json() == ["GET", "/a", {"verbose": [""], "exclude": ["b", "c"]}, {}]
        headers = {name: answer.headers[name] for name in ("Connection", "Cache-Control", "X-Content-Type-Options")}
        assert headers == {
            "Connection": "close",
            "Cache-Control": "no-cache, private",
            "X-Content-Type-Options": "nosniff",
        }

    def test_a_head_has_no_body(self, start: Start) -> None:
        answer = ask(start(), method="HEAD")
        assert (answer.status_code, answer.content) == (200, b"")

    @pytest.mark.parametrize(
        ("more", "code"),
        [
            ({"content": b"x" * 1025}, 413),
            ({"content": iter([b"x" * 1025])}, 413),
            ({"content": b"x" * 1024}, 200),
            ({"content": iter([b"x" * 1024])}, 200),
        ],
        ids=["too long", "too long in chunks", "the longest", "the longest in chunks"],
    )
    def test_a_body_has_a_limit(self, start: Start, more: dict[str, Any], code: int) -> None:
        assert ask(start(), method="PUT", **more).status_code == code

    def test_internal_error_answers_500_without_details(self, start: Start, capfd: pytest.CaptureFixture[str]) -> None:
        def handler(request: Request) -> Response:
            raise KeyError("secret")

        answer = ask(start(handler))
        assert (answer.status_code, answer.text) == (500, "internal server error\n")
        assert "Traceback" not in capfd.readouterr().err

    def test_a_malformed_query_is_400(self, start: Start) -> None:
        assert ask(start(), "/x?" + "&".join(f"a{i}=1" for i in range(30))).status_code == 400


class TestLimits:
    def test_silent_client_does_not_delay_others(self, start: Start) -> None:
        server = start(handshake_s=600.0)
        with socket.create_connection(("127.0.0.1", server.port)), socket.create_connection(("127.0.0.1", server.port)):
            assert ask(server).status_code == 200

    @pytest.mark.parametrize("says", ["nothing", "half a request"])
    def test_a_slow_client_is_cut_off(self, start: Start, says: str) -> None:
        server = start(handshake_s=0.2, request_s=0.2)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
            if says == "nothing":
                assert plain.recv(1) == b""
                return
            # closed, with or without a good-bye, and on a slow machine in the middle of the handshake
            with contextlib.suppress(ssl.SSLError, ConnectionError), client_tls().wrap_socket(plain) as tls:
                tls.sendall(b"GET / HTTP/1.1\r\n")
                assert tls.recv(1) == b""
            eventually(lambda: server.listener.connections == 0, "the connection to be given up")

    def test_the_number_of_connections_is_limited(self, start: Start) -> None:
        go_on = threading.Event()

        def slow(request: Request) -> Response:
            if request.head.path == "/slow":
                go_on.wait(60)
            return build_text_response(200, "ok")

        server, answers = start(slow, connections=2), []
        threads = [threading.Thread(target=lambda: answers.append(ask(server, "/slow").status_code)) for _ in range(2)]
        for thread in threads:
            thread.start()
        eventually(lambda: server.listener.connections == 2, "two connections")
        with pytest.raises(httpx.TransportError):
            ask(server)
        go_on.set()
        for thread in threads:
            thread.join()
        assert answers == [200, 200]
        eventually(lambda: server.listener.connections == 0, "room again")
        assert ask(server).status_code == 200

    def test_plain_http_is_refused(self, start: Start) -> None:
        server = start()
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{server.port}/")
        assert ask(server).status_code == 200

    def test_an_address_that_is_taken_is_an_error(self, start: Start) -> None:
        with pytest.raises(ListenError, match="Address already in use"):
            StatusServer(("127.0.0.1", start().port), certificate().context, echo)


class TestCertificates:
    def test_a_certificate_in_memory_is_for_this_host_and_on_no_disk(self, start: Start) -> None:
        server = start()
        context = ssl.create_default_context(cadata=served_certificate(server))
        assert ask(server, verify=context).status_code == 200

    def test_an_old_protocol_is_refused(self) -> None:
        assert certificate().context().minimum_version is ssl.TLSVersion.TLSv1_2

    def test_files_are_served_and_read_again_when_they_change(self, start: Start, tmp_path: Path) -> None:
        authority, clock = Authority(tmp_path), Clock(0.0)
        cert, key = authority.server("server")
        server = start(certs=certificate(cert, key, clock=clock))
        assert ask(server, verify=ssl.create_default_context(cafile=str(authority.file))).status_code == 200
        old = served_certificate(server)
        authority.server("server")
        assert served_certificate(server) == old, "not looked at again yet"
        clock.now_s = 1.0
        assert served_certificate(server) == cert.read_text() != old

    def test_files_that_are_half_written_change_nothing_until_they_are_whole(
        self, start: Start, tmp_path: Path
    ) -> None:
        authority, clock = Authority(tmp_path), Clock(0.0)
        cert, key = authority.server("server")
        server = start(certs=certificate(cert, key, clock=clock))
        old = served_certificate(server)
        cert.write_text("half")
        clock.now_s = 1.0
        assert served_certificate(server) == old
        authority.server("server")
        clock.now_s = 2.0
        assert served_certificate(server) == cert.read_text()

    def test_a_directory_keeps_the_one_that_was_made(self, tmp_path: Path) -> None:
        certificate(cert_dir=tmp_path / "certs")
        first = (tmp_path / "certs" / "kube-scheduler.crt").read_text()
        certificate(cert_dir=tmp_path / "certs")
        assert (tmp_path / "certs" / "kube-scheduler.crt").read_text() == first
        assert (tmp_path / "certs" / "kube-scheduler.key").stat().st_mode & 0o777 == 0o600
        assert "PRIVATE" not in first

    @pytest.mark.parametrize(
        ("files", "directory", "message"),
        [
            (["a"], None, "must be given together"),
            (["/nonexistent", "/nonexistent"], None, "cannot use the serving certificate /nonexistent"),
            ([], Path("/dev/null/x"), "--cert-dir /dev/null/x: Not a directory"),
        ],
        ids=["no key", "no file", "no directory"],
    )
    def test_unusable_certificate_is_an_error(self, files: list[str], directory: Path | None, message: str) -> None:
        with pytest.raises(CertificateError, match=message):
            certificate(*map(Path, files), cert_dir=directory)


class TestClientCertificates:
    def test_a_client_certificate_is_optional_and_names_the_client(self, start: Start, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        server = start(certs=certificate(authorities=lambda: authority.pem))
        named = {"organizationName": "dev", "commonName": "ada"}
        assert ask(server, verify=client_tls(authority.client("ada", "dev"))).json()[3] == named
        assert ask(server).json()[3] == {}

    def test_a_client_certificate_of_another_authority_is_refused(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        pem = Authority(tmp_path).pem
        server = start(certs=certificate(authorities=lambda: pem))
        with pytest.raises(httpx.TransportError):
            ask(server, verify=client_tls(Authority(tmp_path / "other").client("ada")))

    def test_a_server_s_certificate_is_no_client_s(self, start: Start, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        with pytest.raises(httpx.TransportError):
            ask(start(certs=certificate(authorities=lambda: authority.pem)), verify=client_tls(authority.server("ada")))

    def test_client_certificates_are_ignored_without_authorities(self, start: Start, tmp_path: Path) -> None:
        assert ask(start(), verify=client_tls(Authority(tmp_path).client("ada"))).json()[3] == {}

    def test_new_authorities_take_the_place_of_old_ones(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "new").mkdir()
        old, new, clock = Authority(tmp_path), Authority(tmp_path / "new"), Clock(0.0)
        believed = [old.pem]
        server = start(certs=certificate(authorities=lambda: believed[0], clock=clock))
        believed[0], clock.now_s = new.pem, 1.0
        assert ask(server, verify=client_tls(new.client("bob"))).json()[3] == {"commonName": "bob"}
        with pytest.raises(httpx.TransportError):
            ask(server, verify=client_tls(old.client("ada")))

    @pytest.mark.parametrize(
        ("answer", "believed"),
        [
            (lambda pem: httpx.Response(200, json={"data": {"client-ca-file": pem}}), True),
            (lambda pem: httpx.Response(200, json={"data": {"client-ca-file": "no certificate"}}), False),
            (lambda pem: httpx.Response(200, json={}), False),
            (lambda pem: status(403), False),
            (lambda pem: httpx.ConnectError("refused"), False),
        ],
        ids=["there", "damaged", "empty", "forbidden", "no answer"],
    )
    def test_cluster_authorities_are_requested_from_clients(self, tmp_path: Path, answer: Any, believed: bool) -> None:
        pem, requested = Authority(tmp_path).pem, threading.Event()

        def handler(request: httpx.Request) -> httpx.Response:
            assert request.url.path == AUTHENTICATION_PATH
            requested.set()
            response: httpx.Response | Exception = answer(pem)
            if isinstance(response, Exception):
                raise response
            return response

        authorities = watch_client_authorities(api_of(handler))
        authorities.start()
        assert requested.wait(60)
        if believed:
            eventually(lambda: authorities.value == pem, "the authorities")
        assert authorities.value == (pem if believed else "")
        authorities.close()

    def test_a_file_is_read_instead(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        authorities = watch_client_authorities(api_of(lambda request: status(500)), authority.file)
        authorities.start()
        eventually(lambda: authorities.value == authority.pem, "the file")
        authorities.close()


@pytest.fixture
def reviewer() -> TokenReviewer:
    return TokenReviewer()


@pytest.fixture
def verbosity() -> list[int]:
    return []


@pytest.fixture
def served(start: Start, reviewer: TokenReviewer, verbosity: list[int]) -> StatusServer:
    content = Content(
        configuration={"kind": "KubeSchedulerConfiguration", "parallelism": 16},
        metrics=SchedulerMetrics().registry,
        readyz=(HealthCheck("good", lambda: None), HealthCheck("bad", lambda: "broken")),
        set_verbosity=verbosity.append,
    )
    return start(StatusRoutes(RequestAuthorizer(api_of(reviewer)), content))


ADA: dict[str, Any] = {"headers": {"Authorization": "Bearer good"}}


class TestRoutes:
    @pytest.mark.parametrize(
        ("path", "code", "body"),
        [
            ("/healthz", 200, "ok"),
            ("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"),
            ("/livez", 200, "ok"),
            ("/readyz", 500, "[+]good ok\n[-]bad failed: reason withheld\nreadyz check failed\n"),
            ("/readyz?exclude=bad", 200, "ok"),
        ],
    )
    def test_health_needs_no_right(self, served: StatusServer, path: str, code: int, body: str) -> None:
        answer = ask(served, path)
        assert (answer.status_code, answer.text) == (code, body)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"

    def test_probes_alone_have_the_summaries_without_a_right(self) -> None:
        """On an address of their own: the same summaries, and nothing else that the HTTPS port serves."""
        checks = (HealthCheck("good", lambda: None), HealthCheck("bad", lambda: "broken"))
        answers = build_probes(Content({}, SchedulerMetrics().registry, readyz=checks))
        assert {path: answer() for path, answer in answers.items()} == {
            "/healthz": (200, "ok"),
            "/livez": (200, "ok"),
            "/readyz": (500, "[+]good ok\n[-]bad failed: reason withheld\nreadyz check failed\n"),
        }

    @pytest.mark.parametrize("path", ["/readyz/bad", "/metrics", "/configz", "/debug/flags/v", "/nonsense"])
    def test_every_other_path_needs_a_right_even_if_it_is_unknown(self, served: StatusServer, path: str) -> None:
        answer = ask(served, path)
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")

    @pytest.mark.parametrize(
        ("path", "code", "body"),
        [
            ("/readyz/bad", 500, "internal server error: broken\n"),
            ("/readyz/good", 200, "ok"),
            ("/nonsense", 404, "404 page not found\n"),
            ("/metrics/resources", 404, "404 page not found\n"),
        ],
    )
    def test_a_reader_with_the_right_is_answered(self, served: StatusServer, path: str, code: int, body: str) -> None:
        answer = ask(served, path, **ADA)
        assert (answer.status_code, answer.text) == (code, body)

    def test_metrics_are_what_prometheus_reads(self, served: StatusServer) -> None:
        answer = ask(served, "/metrics", **ADA)
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        names = {family.name for family in text_string_to_metric_families(answer.text)}
        assert {"scheduler_schedule_attempts", "process_resident_memory_bytes"} <= names

    def test_metrics_are_in_openmetrics_format_for_a_client_that_accepts_it(self, served: StatusServer) -> None:
        """Only that format has exemplars. Prometheus names both."""
        accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
        answer = ask(served, "/metrics", headers={**ADA["headers"], "Accept": accept})
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert answer.text.endswith("# EOF\n")

    def test_the_configuration_is_under_upstream_s_key(self, served: StatusServer) -> None:
        answer = ask(served, "/configz", **ADA)
        assert answer.json() == {"componentconfig": {"kind": "KubeSchedulerConfiguration", "parallelism": 16}}

    @pytest.mark.parametrize(
        ("method", "body", "code", "text"),
        [
            ("PUT", "7", 200, "successfully set klog.logging.verbosity to 7\n"),
            ("PUT", "much", 400, 'strconv.ParseUint: parsing "much": invalid syntax\n'),
            ("PUT", "-1", 400, 'strconv.ParseUint: parsing "-1": invalid syntax\n'),
            ("PUT", "99999999999", 400, 'strconv.ParseUint: parsing "99999999999": value out of range\n'),
            ("PUT", "", 400, 'strconv.ParseUint: parsing "": invalid syntax\n'),
            ("GET", "", 406, "unsupported http method\n"),
        ],
    )
    def test_verbosity_is_put(
        self, served: StatusServer, verbosity: list[int], method: str, body: str, code: int, text: str
    ) -> None:
        answer = ask(served, "/debug/flags/v", method, content=body.encode(), **ADA)
        assert (answer.status_code, answer.text) == (code, text)
        assert verbosity == ([7] if code == 200 else [])

    def test_without_profiling_there_is_no_debugging(self, start: Start, reviewer: TokenReviewer) -> None:
        content = Content(configuration={}, metrics=CollectorRegistry(), profiling=False)
        server = start(StatusRoutes(RequestAuthorizer(api_of(reviewer)), content))
        assert ask(server, "/debug/flags/v", "PUT", content=b"7", **ADA).status_code == 404
