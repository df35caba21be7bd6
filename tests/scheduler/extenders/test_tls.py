"""Which extenders are trusted: as kube-scheduler's tlsConfig and enableHTTPS say."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scheduler.config.extenders import TlsConfig
from scheduler.engine.framework.extender import ExtenderError
from scheduler.extenders.transport import ExtenderTlsError
from tests.scheduler.extenders.stub import NODES, POD, Stub, client, stub
from tests.scheduler.serving.authorities import Authority


@dataclass(frozen=True)
class Secured:
    """A stub behind TLS that asks for a client's certificate, and who signs."""

    stub: Stub
    authority: Authority


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server("extender"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_OPTIONAL
    with stub(context) as running:
        running.answer("prioritize", [{"Host": "a", "Score": 1}])
        yield Secured(running, authority)


def asks(url: str, **config: Any) -> str:
    """Call the extender; return its error, or an empty text after success."""
    with client(url, **config) as ours:
        try:
            assert ours.prioritize(POD, NODES).points == {"a": 1}
            return ""
        except ExtenderError as e:
            return str(e)


def test_a_certificate_without_a_known_authority_is_refused(secured: Secured) -> None:
    said = asks(secured.stub.url)
    assert said.startswith(f'Post "{secured.stub.url}/prioritize": tls: failed to verify certificate: ')


def test_its_authority_is_trusted_by_file_and_by_data(secured: Secured) -> None:
    ca = secured.authority
    assert asks(secured.stub.url, tls_config=TlsConfig(ca_file=str(ca.file))) == ""
    data = base64.b64encode(ca.pem.encode()).decode()
    assert asks(secured.stub.url, tls_config=TlsConfig(ca_data=data)) == ""


def test_certificate_of_another_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    assert "failed to verify certificate" in asks(secured.stub.url, tls_config=TlsConfig(ca_file=str(other.file)))


def test_insecure_trusts_anyone_and_so_does_https_without_an_authority(secured: Secured) -> None:
    assert asks(secured.stub.url, tls_config=TlsConfig(insecure=True)) == ""
    assert asks(secured.stub.url, enable_https=True) == ""


def test_the_name_is_checked_and_can_be_given(secured: Secured) -> None:
    """The certificate is for 127.0.0.1."""
    url, ca = secured.stub.url.replace("127.0.0.1", "localhost"), str(secured.authority.file)
    assert "failed to verify certificate: Hostname mismatch" in asks(url, tls_config=TlsConfig(ca_file=ca))
    assert asks(url, tls_config=TlsConfig(ca_file=ca, server_name="127.0.0.1")) == ""


@pytest.mark.parametrize("by_data", [False, True])
def test_our_own_certificate_is_shown(secured: Secured, by_data: bool, tmp_path: Path) -> None:
    cert, key = (str(path) for path in secured.authority.client("scheduler"))
    ca = str(secured.authority.file)
    shown = TlsConfig(ca_file=ca, cert_file=cert, key_file=key)
    if by_data:
        cert, key = (base64.b64encode(Path(path).read_bytes()).decode() for path in (cert, key))
        shown = TlsConfig(ca_file=ca, cert_data=cert, key_data=key)
    seen: list[Any] = []

    def record_certificate(handler: Any, request: Any) -> None:
        seen.append(handler.connection.getpeercert())
        handler.send_error(500)

    secured.stub.reply("filter", record_certificate)
    with client(secured.stub.url, tls_config=shown) as ours, pytest.raises(ExtenderError, match="code 500"):
        ours.filter(POD, NODES)
    assert dict(seen[0]["subject"][-1])["commonName"] == "scheduler"


def test_http_and_https_do_not_understand_each_other(secured: Secured) -> None:
    said = asks(secured.stub.url.replace("https", "http"))
    assert said.startswith('Post "http://127.0.0.1')
    with stub() as plain:
        url = plain.url.replace("http", "https")
        assert asks(url).startswith(f'Post "{url}/prioritize": tls: ')


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        pytest.param(TlsConfig(ca_file="/nowhere/ca.crt"), "unable to load certificates", id="no-such-file"),
        pytest.param(TlsConfig(ca_data="%%%"), "unable to load certificates", id="not-base64"),
        pytest.param(TlsConfig(ca_data="bm8gUEVN"), "unable to load certificates", id="not-a-certificate"),
        pytest.param(TlsConfig(cert_data="bm8gUEVN"), "unable to load certificates", id="certificate-without-key"),
        pytest.param(
            TlsConfig(insecure=True, ca_file="/ca.crt"),
            "specifying a root certificates file with the insecure flag is not allowed",
            id="insecure-with-an-authority",
        ),
    ],
)
def test_unusable_tls_files_are_refused_at_start(tls: TlsConfig, message: str) -> None:
    with pytest.raises(ExtenderTlsError, match=message), client("https://127.0.0.1:1", tls_config=tls):
        pass
