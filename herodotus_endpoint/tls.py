"""The service's certificate and trusted authorities, read from files and reloaded when they change.

Owns: the files, and merging further authorities. Does not own: when a context is rebuilt
(`herodotus_serving.tls_contexts`), the meaning of a client certificate (`access`).
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
    """The error for an unusable certificate, key or CA file; the message is one line with the reason."""


@dataclass(frozen=True)
class TlsFiles:
    """The paths of PEM files: certificate, private key, and the CAs that sign senders' client certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServingTls:
    """The service's current TLS context, which is rebuilt when the content of its files changes. Thread-safe."""

    def __init__(
        self,
        files: TlsFiles,
        authorities: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the files. Raises ServingTlsError if they are unusable.

        `authorities` returns the PEM certificates of further CAs whose client certificates are trusted. `clock` returns
        monotonic seconds.
        """
        self._files, self._authorities = files, authorities
        try:
            self._reloader = TLSContextReloader(self._read, self._build, _log_reload, clock)
        except (OSError, ValueError) as e:
            raise ServingTlsError(
                f"cannot use the certificate {files.certificate} with its key and authorities: {e}"
            ) from e

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection."""
        return self._reloader.context()

    def client_authority(self) -> str:
        """Return the PEM content of the file `client_ca`, or "" if none is configured or it cannot be read."""
        try:
            return self._files.client_ca.read_text() if self._files.client_ca else ""
        except OSError:
            return ""

    def _read(self) -> tuple[bytes, bytes, str]:
        """Return the contents of certificate and key, and the PEM certificates of all client CAs.

        They are compared to detect changes. Modification times prove nothing, because a mounted Secret is a symbolic
        link.
        """
        pems = [*self._authorities(), self._files.client_ca.read_text() if self._files.client_ca else ""]
        return self._files.certificate.read_bytes(), self._files.key.read_bytes(), "\n".join(filter(None, pems))

    def _build(self, inputs: tuple[bytes, bytes, str]) -> ssl.SSLContext:
        files = self._files
        return build_server_context(lambda context: context.load_cert_chain(files.certificate, files.key), inputs[2])


def _log_reload(failure: Exception | None) -> None:
    if failure is None:
        _log.info("reloaded the serving certificate and its authorities")
    else:
        _log.warning("cannot load the changed certificate, continuing with the previous one: %s", failure)
