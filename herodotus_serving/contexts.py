"""The TLS context of the next connection, made anew when what it is made of changes.

Owns: when to look, which context holds, what all of ours have in common. Does not own: where certificate and
authorities come from, what a client's certificate means.

Invariant: a context, once made, is not changed: a change makes another one, for the connections that follow. Where that
cannot be made the old one stays. TLS 1.2 at least. A client need show no certificate; one that it shows is of a
believed authority, or the handshake ends.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

LOOK_EVERY_S: Final = 1.0  # at most: a certificate is renewed days before it ends

Seen = TypeVar("Seen")


class Renewed(Generic[Seen]):
    """One context at a time. Thread-safe."""

    def __init__(
        self,
        look: Callable[[], Seen],
        make: Callable[[Seen], ssl.SSLContext],
        tell: Callable[[Exception | None], None],
        clock: Callable[[], float],
    ) -> None:
        """`look`: what the context is made of, to be compared. `tell`: it was made anew, or why not.

        OSError, ValueError of `look` and `make`: now they are the caller's; later they are told.
        """
        self._look, self._make, self._tell, self._clock = look, make, tell, clock
        self._lock = threading.Lock()
        self._looked_at = clock()
        self._seen = look()
        self._context = make(self._seen)
        self._told = ""

    def context(self) -> ssl.SSLContext:
        """For a connection accepted now."""
        with self._lock:
            now = self._clock()
            if now - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = now
                self._renew()
            return self._context

    def _renew(self) -> None:
        try:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen  # what cannot be used is tried again when it changes again
                self._context = self._make(seen)
                self._told = ""
                self._tell(None)
        except (OSError, ValueError) as e:
            if str(e) != self._told:
                self._told = str(e)
                self._tell(e)


def server_context(load: Callable[[ssl.SSLContext], None], authorities: str) -> ssl.SSLContext:
    """A server's context. `load` loads certificate and key; `authorities`: PEM of those believed, "" for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load(context)
    if authorities:
        context.load_verify_locations(cadata=authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
