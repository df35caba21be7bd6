"""TLS contexts are rebuilt when certificate or authorities change, and kept when rebuilding fails."""

from __future__ import annotations

import ssl
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from herodotus_serving.certificates import (
    CHECK_INTERVAL_S,
    CertificateError,
    KeyPair,
    ServingCertificate,
    build_server_context,
    create_self_signed,
    write_key_pair,
)


@cache
def self_signed(name: str) -> tuple[bytes, bytes]:
    return create_self_signed([name], timedelta(days=1))


class Source:
    """Authorities that a word names: reading "bad" fails, building from "broken" fails."""

    def __init__(self, pair: KeyPair = b"") -> None:
        self.pair = pair or b"".join(self_signed("server"))
        self.word, self.now_s, self.reads = "first", 0.0, 0
        self.words: dict[ssl.SSLContext, str] = {}
        self.reported: list[str] = []

    def read(self) -> str:
        self.reads += 1
        if self.word == "bad":
            raise OSError("no such file")
        return "no certificate" if self.word == "broken" else self_signed(self.word)[1].decode()

    def certificate(self) -> ServingCertificate:
        return ServingCertificate(
            self.pair, self.read, lambda e: self.reported.append(type(e).__name__), lambda: self.now_s
        )

    def word_after(self, word: str, certificate: ServingCertificate) -> str:
        """Set the authorities, let the interval pass, and return the word with which the current context was built."""
        self.word, self.now_s = word, self.now_s + CHECK_INTERVAL_S
        return self.words.setdefault(certificate.context(), word)


def test_rebuilds_after_a_change_and_keeps_the_old_context_on_errors() -> None:
    source = Source()
    certificate = source.certificate()
    words = ["first", "second", "bad", "bad", "broken", "second", "third"]
    assert [source.word_after(word, certificate) for word in words] == [
        "first", "second", "second", "second", "second", "second", "third",
    ]  # fmt: skip
    assert source.reported == ["NoneType", "OSError", "SSLError", "NoneType", "NoneType"], (
        "each failure is reported once"
    )


@pytest.mark.parametrize("half", ["tls.crt", "tls.key"])
def test_rebuilds_after_a_change_of_either_file(tmp_path: Path, half: str) -> None:
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    private, public = self_signed("server")
    write_key_pair(*pair, public, private)
    source = Source(pair)
    certificate = source.certificate()
    before = certificate.context()
    (tmp_path / half).write_bytes((tmp_path / half).read_bytes() + b"\n")
    assert certificate.context() is before, "not looked at again yet"
    source.now_s += CHECK_INTERVAL_S
    assert certificate.context() is not before
    (tmp_path / half).unlink()
    source.now_s += CHECK_INTERVAL_S
    assert certificate.context() is certificate.context()
    assert source.reported == ["NoneType", "FileNotFoundError"]


def test_only_the_owner_can_read_a_key(tmp_path: Path) -> None:
    write_key_pair(tmp_path / "tls.crt", tmp_path / "tls.key", b"public", b"private")
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600
    assert ((tmp_path / "tls.crt").read_bytes(), (tmp_path / "tls.key").read_bytes()) == (b"public", b"private")


def test_reads_inputs_once_per_interval() -> None:
    source = Source()
    certificate = source.certificate()
    assert len({certificate.context() for _ in range(100)}) == 1
    assert source.reads == 1


@pytest.mark.parametrize("word", ["bad", "broken"])
def test_errors_of_the_first_context_are_raised(word: str) -> None:
    source = Source()
    source.word = word
    with pytest.raises(CertificateError, match="cannot use the serving certificate with its key and authorities: "):
        source.certificate()


def test_requires_tls_1_2_and_no_client_certificate() -> None:
    context = build_server_context(b"".join(self_signed("server")), "")
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)


def test_a_client_certificate_is_optional_with_authorities() -> None:
    context = build_server_context(b"".join(self_signed("server")), self_signed("ca")[1].decode())
    assert context.verify_mode == ssl.CERT_OPTIONAL
