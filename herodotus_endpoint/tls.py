"""The service's TLS files: its certificate, its key and client authorities, reloaded while the service runs.

Owns: reading the files, and authorities that others add. Does not own: when a context is rebuilt
(`herodotus_serving.tls_contexts`), the identity of a client certificate (`access`).
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from herodotus_serving.tls_contexts import TLSContextReloader, build_server_context

_log: Final = logging.getLogger(__name__)


class ServingTlsError(Exception):
    """The certificate cannot be used; the message is one line."""


@dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files; `client_ca` has the authorities of senders' certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServingTls:
    """TLS contexts of a certificate and its key. Thread-safe."""

    def __init__(
        self,
        files: TlsFiles,
        authorities: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the files; `authorities` returns PEMs trusted beside `client_ca`. Raises ServingTlsError if unusable."""
        self._files, self._authorities = files, authorities
        try:
            self._renewed = TLSContextReloader(self._look, self._made, _log_reload, clock)
        except (OSError, ValueError) as e:
            raise ServingTlsError(
                f"cannot use the certificate {files.certificate} with its key and authorities: {e}"
            ) from e

    def context(self) -> ssl.SSLContext:
        """Return the context of a new connection."""
        return self._renewed.context()

    def client_authority(self) -> str:
        """Return the PEM in `client_ca`, or "" if there is none at present."""
        try:
            return self._files.client_ca.read_text() if self._files.client_ca else ""
        except OSError:
            return ""

    def _look(self) -> tuple[bytes, bytes, str]:
        """Read the files' contents, which are compared because a mounted Secret is a symbolic link that changes."""
        pems = [*self._authorities(), self._files.client_ca.read_text() if self._files.client_ca else ""]
        return self._files.certificate.read_bytes(), self._files.key.read_bytes(), "\n".join(filter(None, pems))

    def _made(self, seen: tuple[bytes, bytes, str]) -> ssl.SSLContext:
        files = self._files
        return build_server_context(lambda context: context.load_cert_chain(files.certificate, files.key), seen[2])


def _log_reload(failure: Exception | None) -> None:
    if failure is None:
        _log.info("the serving certificate or its authorities changed, and were read anew")
    else:
        _log.warning("cannot load the changed certificate, going on with the old one: %s", failure)
