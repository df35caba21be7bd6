"""The service's own certificate: made once, kept in a Secret, believed by its `ca.crt`, renewed at a start."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_endpoint import __main__ as program
from herodotus_endpoint.certificate import (
    RENEW_BEFORE,
    VALID_FOR,
    ensure_certificate,
    publish_authority,
)
from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiError, ApiServer
from herodotus_serving.certificates import create_self_signed, parse_expiry, write_key_pair

NAME = ("herodotus", "herodotus-endpoint-own")
PATH = "/api/v1/namespaces/herodotus/secrets/herodotus-endpoint-own"
HOST = "herodotus-endpoint.herodotus.svc"
SERVER = Credentials("https://kubernetes.default.svc", None, dict)
NOW = datetime.now(timezone.utc)


@dataclass
class Secret:
    """An API server that has one Secret; it refuses what is not of the version that it has."""

    data: dict[str, str] | None = None
    version: int = 1
    read: int | None = None  # the version that is shown, where it is an older one
    puts: list[Any] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == PATH
        if request.method == "PUT":
            body = json.loads(request.read())
            self.puts.append(body)
            if body["metadata"]["resourceVersion"] != str(self.version):
                return httpx.Response(409, json={"kind": "Status", "message": "it was changed"})
            self.version, self.data = self.version + 1, body["data"]
        metadata = {"namespace": NAME[0], "name": NAME[1], "resourceVersion": str(self.read or self.version)}
        data = {} if self.data is None else {"data": self.data}
        return httpx.Response(200, json={"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data})

    def kept(self, now: datetime = NOW) -> dict[str, bytes]:
        return ensure_certificate(ApiServer(SERVER, transport=httpx.MockTransport(self)), NAME, HOST, now)


def encoded(pair: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(pem).decode() for name, pem in pair.items()}


def test_creates_a_certificate_once() -> None:
    secret = Secret()
    first = secret.kept()
    assert secret.data == encoded(first)
    assert secret.kept() == first
    assert len(secret.puts) == 1
    assert parse_expiry(first["tls.crt"]) - NOW > VALID_FOR - timedelta(minutes=1)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tls.crt": "", "tls.key": "", "ca.crt": ""},
        {"tls.crt": "not base64!"},
        encoded({"tls.crt": b"no certificate", "tls.key": b"x", "ca.crt": b"x"}),
    ],
    ids=["empty", "empty values", "no base64", "no certificate"],
)
def test_replaces_an_invalid_certificate(data: dict[str, str]) -> None:
    secret = Secret(data)
    assert encoded(secret.kept()) == secret.data != data


def test_renews_a_certificate_that_expires_soon() -> None:
    secret = Secret()
    first = secret.kept()
    end = parse_expiry(first["tls.crt"])
    assert secret.kept(end - RENEW_BEFORE - timedelta(days=1)) == first
    assert secret.kept(end - RENEW_BEFORE) != first


def test_uses_a_certificate_of_the_user() -> None:
    key, certificate = create_self_signed([HOST], VALID_FOR)
    theirs = {"tls.crt": certificate, "tls.key": key, "ca.crt": certificate}
    assert Secret(encoded(theirs)).kept() == theirs


def test_concurrent_creation_fails_once_and_then_finds_the_certificate() -> None:
    secret = Secret(version=2, read=1)
    with pytest.raises(ApiError, match="it was changed"):
        secret.kept()
    secret.read = None
    assert secret.kept() == secret.kept()


@dataclass
class ConfigMap:
    """An API server that has one ConfigMap."""

    data: dict[str, str] | None = None
    puts: list[Any] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v1/namespaces/herodotus/configmaps/herodotus-endpoint-ca"
        if request.method == "PUT":
            self.puts.append(json.loads(request.read()))
            self.data = self.puts[-1]["data"]
        data = {} if self.data is None else {"data": self.data}
        return httpx.Response(200, json={"kind": "ConfigMap", "metadata": {"resourceVersion": "7"}, **data})

    def publish(self, pem: bytes) -> None:
        api = ApiServer(SERVER, transport=httpx.MockTransport(self))
        publish_authority(api, ("herodotus", "herodotus-endpoint-ca"), pem)


def test_publishes_the_authority_once_for_each_certificate() -> None:
    config_map = ConfigMap()
    for pem in (b"first", b"first", b"second", b"second"):
        config_map.publish(pem)
    assert [put["data"] for put in config_map.puts] == [{"ca.crt": "first"}, {"ca.crt": "second"}]
    assert {put["metadata"]["resourceVersion"] for put in config_map.puts} == {"7"}


def test_publishes_beside_other_keys_of_the_config_map() -> None:
    config_map = ConfigMap({"theirs": "1", "ca.crt": "old"})
    config_map.publish(b"new")
    assert config_map.data == {"theirs": "1", "ca.crt": "new"}


@pytest.mark.parametrize(
    ("host", "believed"),
    [(HOST, True), ("elsewhere.herodotus.svc", False), ("localhost", False)],
    ids=["its own name", "another", "the machine"],
)
def test_clients_with_the_authority_verify_the_host_name(tmp_path: Path, host: str, believed: bool) -> None:
    """Also where a verifier is strict, as Python's own is from 3.13."""
    pair = Secret().kept()
    write_key_pair(tmp_path / "tls.crt", tmp_path / "tls.key", pair["tls.crt"], pair["tls.key"])
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=pair["ca.crt"].decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert shaken(server, client, host) == believed


def test_clients_with_another_authority_reject_it(tmp_path: Path) -> None:
    pair = Secret().kept()
    write_key_pair(tmp_path / "tls.crt", tmp_path / "tls.key", pair["tls.crt"], pair["tls.key"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert not shaken(server, ssl.create_default_context(cadata=Secret().kept()["ca.crt"].decode()), HOST)


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Whether hands are shaken, without a network."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (ours, theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--secret", "herodotus"], "'herodotus' is not NAMESPACE/NAME"),
        (["--secret", "a/b/c"], "'a/b/c' is not NAMESPACE/NAME"),
        (["--ca-configmap", "ca"], "'ca' is not NAMESPACE/NAME"),
        (["--host", HOST], "--secret"),
    ],
)
def test_rejects_invalid_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["certificate", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_missing_api_server_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--secret", "/".join(NAME), "--host", HOST, "--directory", str(tmp_path)]
    assert program.main(["certificate", *place, "--kubeconfig", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("error: cannot provide a certificate: kubeconfig ")
    assert list(tmp_path.iterdir()) == []
