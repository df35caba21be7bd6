"""Deadlines, size limits and rate limits of a listener.

Owns: the values, the byte budget, the pace of refusals. Does not own: what happens when one is exceeded (`connection`,
`listener`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REFUSALS_AT_ONCE: Final = 20  # of one address
REFUSAL_INTERVAL_S: Final = 0.05  # after those: a refusal with its connection takes 1 to 3 ms, so an address takes 5 %
MAX_PACED_ADDRESSES: Final = 1024


@dataclass(frozen=True)
class ListenerLimits:
    """Deadlines in seconds and size limits that one listener sets its clients.

    A deadline counts from the start of a phase and is never extended: `handshake_s` for the TLS handshake, `request_s`
    for headers and body (a shipper's own timeout is as long), `response_s` for the client to read the response or one
    part of a stream, and `idle_s` between two requests. kube-scheduler keeps its connection to an extender open between
    pods.

    `connections` and `per_address` limit the open connections in total and from one client address. `bytes_in_flight`
    limits the memory for bodies and responses of all connections together.
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
    """A maximum number of bytes, from which users reserve. Not thread-safe: for use on the event loop."""

    def __init__(self, maximum: int) -> None:
        self._free = maximum
        self.maximum = maximum

    def acquire(self, size: int) -> bool:
        """Reserve `size` bytes and return True; if fewer are free, reserve nothing and return False."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def release(self, size: int) -> None:
        """Give `size` reserved bytes back to the budget."""
        self._free += size


class RefusalPace:
    """The times at which the requests of each client address are refused, so that refusing cannot fill the loop.

    Not thread-safe: for use on the event loop. An open connection waits for one refusal at a time, so an address waits
    at most as many intervals as it may have connections.
    """

    def __init__(self) -> None:
        self._next_s: dict[str, float] = {}  # when the next refusal is due if there had been no others at once

    def delay_s(self, address: str, now: float) -> float:
        """Reserve the next time for a refusal of an address, and return how many seconds after `now` it is."""
        if len(self._next_s) >= MAX_PACED_ADDRESSES:
            self._next_s = {each: due for each, due in self._next_s.items() if due > now}
        due = max(now, self._next_s.get(address, now))
        self._next_s[address] = due + REFUSAL_INTERVAL_S
        return max(0.0, due - now - REFUSALS_AT_ONCE * REFUSAL_INTERVAL_S)
