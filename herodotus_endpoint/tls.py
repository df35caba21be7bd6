"""The service's certificate and the authorities that it believes: files, looked at again while it serves.

Owns: those files, and that others may add authorities. Does not own: when the context is made anew
(`herodotus_serving.tls_contexts`), what a client's certificate means (`access`).
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
    """The certificate cannot be used. One line that says why."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files. `client_ca`: of those who sign senders' certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServingTls:
    """Contexts for one pair of files. Thread-safe."""

    def __init__(
        self,
        files: TlsFiles,
        authorities: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`authorities`: PEMs that are believed beside `client_ca`. TlsError when the files cannot be used."""
        self._files, self._authorities = files, authorities
        try:
            self._renewed = TLSContextReloader(self._look, self._made, _log_reload, clock)
        except (OSError, ValueError) as e:
            raise ServingTlsError(
                f"cannot use the certificate {files.certificate} with its key and authorities: {e}"
            ) from e

    def context(self) -> ssl.SSLContext:
        """For a connection accepted now."""
        return self._renewed.context()

    def client_authority(self) -> str:
        """The PEM in `client_ca`; "" where there is none, or none now."""
        try:
            return self._files.client_ca.read_text() if self._files.client_ca else ""
        except OSError:
            return ""

    def _look(self) -> tuple[bytes, bytes, str]:
        """What the context is made of: by content, since a mounted Secret is a link that moves."""
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
