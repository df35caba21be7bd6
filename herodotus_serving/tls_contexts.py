"""TLS server contexts that follow changes of certificates and authorities without a restart.

Owns: when to check for a change, which context is current, and the settings that all servers share. Does not own: the
source of certificates and authorities, or what a client certificate means.

Invariant: a context is never modified. A change builds a new context for later connections; if that fails, the old
context stays. TLS 1.2 is the minimum. Client certificates are optional, but one that does not verify against the
configured authorities ends the handshake.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

CHECK_INTERVAL_S: Final = 1.0  # certificates are renewed days before they expire, so checking more often gains nothing

Inputs = TypeVar("Inputs")


class TLSContextReloader(Generic[Inputs]):
    """The current TLS context of a server, rebuilt when its certificate or authorities change. Thread-safe."""

    def __init__(
        self,
        read: Callable[[], Inputs],
        build: Callable[[Inputs], ssl.SSLContext],
        report: Callable[[Exception | None], None],
        clock: Callable[[], float],
    ) -> None:
        """Build the first context. Raises any OSError or ValueError of `read` and `build`.

        `read` returns the inputs of `build`, such as the certificate; a change of the inputs triggers a rebuild.
        `report` is called after each rebuild with None, or with the error that kept the old context in use. `clock`
        returns monotonic seconds.
        """
        self._read, self._build, self._report, self._clock = read, build, report, clock
        self._lock = threading.Lock()
        self._checked_at = clock()
        self._inputs = read()
        self._context = build(self._inputs)
        self._reported_error = ""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection.

        Changed inputs are looked for at most once per CHECK_INTERVAL_S seconds.
        """
        with self._lock:
            now = self._clock()
            if now - self._checked_at >= CHECK_INTERVAL_S:
                self._checked_at = now
                self._reload()
            return self._context

    def _reload(self) -> None:
        try:
            inputs = self._read()
            if inputs != self._inputs:
                self._inputs = inputs  # inputs that fail to build are not tried again until they change
                self._context = self._build(inputs)
                self._reported_error = ""
                self._report(None)
        except (OSError, ValueError) as e:
            if str(e) != self._reported_error:
                self._reported_error = str(e)
                self._report(e)


def build_server_context(load: Callable[[ssl.SSLContext], None], authorities: str) -> ssl.SSLContext:
    """Build a TLS server context.

    `load` loads the certificate and key into the context. `authorities` is the PEM of the CAs that may sign client
    certificates; if it is empty, the server requests none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load(context)
    if authorities:
        context.load_verify_locations(cadata=authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
