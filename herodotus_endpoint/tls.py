"""The TLS context of the next connection: serving certificate and believed authorities, read anew when they change.

Owns: files, noticing that they changed. Does not own: what a client's certificate means (`access`).

Invariant: a context, once made, is not changed. Where new files cannot be loaded the old context stays. A client need
show no certificate; one that it shows is of a believed authority, or the handshake ends. TLS 1.2 at least.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOK_EVERY_S: Final = 1.0  # at the files, at most
_log: Final = logging.getLogger(__name__)


class TlsError(Exception):
    """The certificate cannot be used. One line that says why."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files. `client_ca`: of those who sign senders' certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Tls:
    """Contexts for one pair of files. Thread-safe."""

    def __init__(
        self,
        files: TlsFiles,
        authorities: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`authorities`: PEMs that are believed beside `client_ca`. TlsError when the files cannot be used."""
        self._files, self._authorities, self._clock = files, authorities, clock
        self._lock = threading.Lock()
        self._looked_at = clock()
        try:
            self._seen = self._look()
            self._context = self._made(self._seen)
        except (OSError, ValueError) as e:
            raise TlsError(f"cannot use the certificate {files.certificate} with its key and authorities: {e}") from e

    def context(self) -> ssl.SSLContext:
        """For a connection accepted now."""
        with self._lock:
            now = self._clock()
            if now - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = now
                self._reload()
            return self._context

    def client_authority(self) -> str:
        """The PEM in `client_ca`; "" where there is none, or none now."""
        try:
            return self._files.client_ca.read_text() if self._files.client_ca else ""
        except OSError:
            return ""

    def _reload(self) -> None:
        try:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen  # files that cannot be loaded are tried again when they change again
                self._context = self._made(seen)
                _log.info("the serving certificate or its authorities changed, and were read anew")
        except (OSError, ValueError) as e:
            _log.warning("cannot load the changed certificate, going on with the old one: %s", e)

    def _look(self) -> tuple[bytes, bytes, str]:
        """What the context is made of: by content, since a mounted Secret is a link that moves."""
        pems = [*self._authorities(), self._files.client_ca.read_text() if self._files.client_ca else ""]
        return self._files.certificate.read_bytes(), self._files.key.read_bytes(), "\n".join(filter(None, pems))

    def _made(self, seen: tuple[bytes, bytes, str]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._files.certificate, self._files.key)
        if seen[2]:
            context.load_verify_locations(cadata=seen[2])
            context.verify_mode = ssl.CERT_OPTIONAL
        return context
