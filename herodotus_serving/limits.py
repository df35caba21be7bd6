"""Deadlines and bounds of a listener.

Owns: the values and the byte budget. Does not own: what happens when one is exceeded (`connection`, `listener`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one listener grants its clients. Times are seconds from the start of each phase and are never extended.

    `handshake_s`: the TLS handshake. `request_s`: headers and body together; a shipper gives up after as long.
    `response_s`: until the client has read the response, or the next part of a stream. `idle_s`: between two requests;
    kube-scheduler keeps its connection to an extender between pods.

    `connections`, `per_address`: open at a time. `bytes_in_flight`: bodies and responses held in memory.
    """

    handshake_s: float = 10.0
    request_s: float = 30.0
    response_s: float = 30.0
    idle_s: float = 75.0
    connections: int = 256
    per_address: int = 128
    bytes_in_flight: int = 96 << 20
    max_target: int = 4094  # bytes of path and query
    max_headers: int = 100
    max_head: int = 32 << 10  # bytes of the request line and headers together


class ByteBudget:
    """Counts bytes up to a maximum. For use on the event loop."""

    def __init__(self, maximum: int) -> None:
        self._free = maximum
        self.maximum = maximum

    def take(self, size: int) -> bool:
        """Reserve bytes; return False if they do not fit."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def give_back(self, size: int) -> None:
        """Release reserved bytes."""
        self._free += size
