"""The serving certificate of the HTTPS port, and the authorities (CAs) of accepted client certificates.

The certificate: `--tls-cert-file` and `--tls-private-key-file`, or the pair in `--cert-dir` (created if absent), or one
in memory. The authorities: those that the API server publishes in the ConfigMap
kube-system/extension-apiserver-authentication, or `--client-ca-file`.

Invariant: a key that is created here is written to disk only if `--cert-dir` asks for it.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from herodotus_serving.self_signed import create_self_signed
from herodotus_serving.tls_contexts import CHECK_INTERVAL_S, TLSContextReloader, build_server_context

AUTHORITIES_EVERY_S: Final = 60.0  # how often the ConfigMap is read: they change once in years
PAIR_NAME: Final = "kube-scheduler"  # of the files in --cert-dir
VALID_FOR: Final = timedelta(days=365)  # what is made here; as kube components make theirs
AUTHORITIES_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

Pair = tuple[Path, Path]


class CertificateError(Exception):
    """The serving certificate cannot be used. The message is one line."""


@dataclass(frozen=True)
class CertificateFiles:
    """The certificate options of the command line. An option that is not given is None."""

    cert_file: Path | None = None
    key_file: Path | None = None
    cert_dir: Path | None = None
    client_ca_file: Path | None = None


class Certificates:
    """Provides the TLS context of the HTTPS port, rebuilt when a certificate file or the client authorities change."""

    def __init__(
        self, files: CertificateFiles, host: str, authorities: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        """Find or create the serving certificate. Raise CertificateError if it cannot be used.

        A certificate created here names `host`. `authorities` returns the accepted client authorities as PEM text.
        """
        self._pair = _find_pair(files, host)
        self._memory = None if self._pair else b"".join(_make_certificate(host))
        self._authorities = authorities
        try:
            self._renewed = TLSContextReloader(self._read_inputs, self._build_context, _log_reload, clock)
        except (OSError, ValueError) as e:
            raise CertificateError(f"cannot use the serving certificate: {e}") from e

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for new connections. Rebuild it if the certificate or the authorities have changed."""
        return self._renewed.context()

    def _read_inputs(self) -> tuple[tuple[object, ...], str]:
        """Return values that change when a certificate file or the client authorities change."""
        return tuple(_identity(path) for path in self._pair or ()), self._authorities()

    def _build_context(self, seen: tuple[tuple[object, ...], str]) -> ssl.SSLContext:
        def load(context: ssl.SSLContext) -> None:
            if self._pair:
                context.load_cert_chain(*self._pair)
            else:
                _load_from_memory(context, self._memory or b"")

        return build_server_context(load, seen[1])


def _log_reload(failure: Exception | None) -> None:
    if failure is None:
        klog.info(0, "Reloaded the serving certificate and client authorities")
    else:
        klog.error(failure, "Cannot load the changed certificate, going on with the old one")


class ClientAuthorities:
    """The authorities (CAs) of accepted client certificates, which a thread keeps up to date."""

    def __init__(self, api: ApiServer, file: Path | None = None) -> None:
        """Prepare the thread without starting it.

        If `file` is given, it is read instead of the API server's ConfigMap.
        """
        self._api = api
        self._file = file
        self._pem = ""
        self._said = ""  # the last failure that was logged
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client-ca", daemon=True)

    def __call__(self) -> str:
        """Return the accepted authorities as PEM text, which is empty until they are known."""
        return self._pem

    def start(self) -> None:
        """Start the thread that reads the authorities."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        pause = CHECK_INTERVAL_S
        while not self._stop.is_set():
            try:
                self._pem, self._said = self._read(), ""
                # none: an API server that has just started publishes them a moment later
                pause = AUTHORITIES_EVERY_S if self._pem else min(pause * 2, AUTHORITIES_EVERY_S)
            except (ApiError, OSError, ValueError, KeyError, TypeError, AttributeError) as e:
                pause = min(pause * 2, AUTHORITIES_EVERY_S)
                if self._said != str(e):  # as kube-scheduler: without them, tokens still tell who asks
                    self._said = str(e)
                    klog.warning("Cannot read the authorities of client certificates, trying again", err=str(e))
            self._stop.wait(pause)

    def _read(self) -> str:
        if self._file is not None:
            return self._file.read_text()
        data = json.loads(self._api.get(AUTHORITIES_PATH)).get("data") or {}
        pem = str(data.get("client-ca-file", ""))
        if pem:
            ssl.create_default_context(cadata=pem)  # ssl.SSLError, an OSError, where it is none
        return pem


def _find_pair(files: CertificateFiles, host: str) -> Pair | None:
    """Return the paths of the serving certificate and its key, or None if the certificate is to be kept in memory.

    A missing pair in `--cert-dir` is created. Raise CertificateError if that fails or only one path is given.
    """
    if files.cert_file and files.key_file:
        return files.cert_file, files.key_file
    if files.cert_file or files.key_file:
        raise CertificateError("--tls-cert-file and --tls-private-key-file must be given together")
    if files.cert_dir is None:
        return None
    cert, key = (files.cert_dir / f"{PAIR_NAME}.{end}" for end in ("crt", "key"))
    try:
        if not (cert.exists() and key.exists()):
            _write_pair(cert, key, *_make_certificate(host))
    except OSError as e:
        raise CertificateError(f"--cert-dir {files.cert_dir}: {e.strerror or e}") from e
    return cert, key


def _make_certificate(host: str) -> tuple[bytes, bytes]:
    """Return a new private key and a self-signed certificate for it, as PEM.

    Clients cannot verify the certificate; the kubelet, which sends probes, does not try to.
    """
    own = [socket.gethostname()] if socket.gethostname().isascii() else []
    return create_self_signed(["localhost", "127.0.0.1", *own, host], VALID_FOR)


def _write_pair(cert: Path, key: Path, private: bytes, public: bytes) -> None:
    cert.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as f:
        f.write(private)
    cert.write_bytes(public)


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


def _identity(path: Path) -> object:
    """Return a value that changes when the file does, also when the symbolic link of a mounted Secret is replaced."""
    try:
        stat = path.stat()
    except OSError as e:
        return e.errno
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
