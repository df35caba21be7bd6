"""Certificates of HTTPS servers: self-signed ones, and TLS contexts that follow changes without a restart.

Owns: the contents of a self-signed certificate, the files of a key pair, when to check for a change, which context is
current, and the settings that all servers share. Does not own: the source of authorities, or what a client certificate
means.

Invariant: a context is never modified. A change builds a new context for later connections; if that fails, the old
context stays. TLS 1.2 is the minimum. Client certificates are optional, but one that does not verify against the
configured authorities ends the handshake. A self-signed certificate is its own authority: a client that trusts it
trusts this server alone, because no other process has the key.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

CHECK_INTERVAL_S: Final = 1.0  # certificates are renewed days before they expire, so checking more often gains nothing

KeyPair = tuple[Path, Path] | bytes  # the files of certificate and key, or both as PEM in memory


class CertificateError(Exception):
    """The serving certificate cannot be used. The message is one line."""


class ServingCertificate:
    """The current TLS context of a server, rebuilt when its certificate or authorities change. Thread-safe."""

    def __init__(
        self,
        pair: KeyPair,
        authorities: Callable[[], str],
        report: Callable[[Exception | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build the first context. Raises CertificateError if that fails.

        `authorities` returns the PEM certificates of the CAs that may sign client certificates; while it returns "",
        the server requests none. `report` is called after each rebuild with None, or with the error that kept the old
        context in use. `clock` returns monotonic seconds.
        """
        self._pair, self._authorities, self._report, self._clock = pair, authorities, report, clock
        self._lock = threading.Lock()
        self._checked_at = clock()
        self._read_error = ""  # the last one, which is reported once
        try:
            self._inputs = self._read()
            self._context = build_server_context(pair, self._inputs[-1])
        except (OSError, ValueError) as e:
            file = "" if isinstance(pair, bytes) else f" {pair[0]}"
            raise CertificateError(f"cannot use the serving certificate{file} with its key and authorities: {e}") from e

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection.

        At most once per CHECK_INTERVAL_S seconds, the files and authorities are read, and the context rebuilt if they
        changed.
        """
        with self._lock:
            now = self._clock()
            if now - self._checked_at >= CHECK_INTERVAL_S:
                self._checked_at = now
                self._reload()
            return self._context

    def _read(self) -> tuple[bytes, bytes, str]:
        """Return the contents of certificate and key, and the authorities, to be compared with those of the context.

        A key pair in memory is returned as the first element with b"" as the second. Modification times would prove
        nothing, because a mounted Secret is a symbolic link.
        """
        if isinstance(self._pair, bytes):
            return self._pair, b"", self._authorities()
        certificate, key = self._pair
        return certificate.read_bytes(), key.read_bytes(), self._authorities()

    def _reload(self) -> None:
        try:
            inputs = self._read()
        except (OSError, ValueError) as e:
            if str(e) != self._read_error:
                self._read_error = str(e)
                self._report(e)
            return
        self._read_error = ""
        if inputs == self._inputs:
            return
        self._inputs = inputs  # inputs that fail to build are not tried again until they change
        try:
            self._context = build_server_context(self._pair, inputs[-1])
        except (OSError, ValueError) as e:
            self._report(e)
        else:
            self._report(None)


def build_server_context(pair: KeyPair, authorities: str) -> ssl.SSLContext:
    """Build a TLS server context.

    `authorities` is the PEM of the CAs that may sign client certificates; if it is empty, the server requests none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if isinstance(pair, bytes):
        _load_from_memory(context, pair)
    else:
        context.load_cert_chain(*pair)
    if authorities:
        context.load_verify_locations(cadata=authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def write_key_pair(certificate: Path, key: Path, public: bytes, private: bytes) -> None:
    """Write a certificate and its key (PEM) to files; only the owner can read the key. Raises OSError."""
    file = os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as f:
        f.write(private)
    certificate.write_bytes(public)


def create_self_signed(names: Sequence[str], valid_for: datetime.timedelta) -> tuple[bytes, bytes]:
    """Create a key and a certificate for the given DNS names and IP addresses; return both as PEM, the key first."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{socket.gethostname()[:40]}@{int(time.time())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + valid_for)
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(map(_to_general_name, names)))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def parse_expiry(certificate: bytes) -> datetime.datetime:
    """Return when a PEM certificate expires. Raises ValueError if it is not a certificate."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


# Strict verifiers (Python's from 3.13) require key_cert_sign of an authority, TLS requires digital_signature.
_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def _to_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load_from_memory(context: ssl.SSLContext, pem: bytes) -> None:
    """Load the PEM certificate and key into the TLS context through an anonymous file in memory.

    `ssl` reads only files, and the key must not be written to disk.
    """
    file = os.memfd_create("serving-certificate", os.MFD_CLOEXEC)
    try:
        os.write(file, pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
