"""Listening sockets from addresses.

A leaf: imports nothing of the project.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Final

BACKLOG: Final = 256  # connections that the kernel keeps until they are accepted


@dataclass(frozen=True)
class Address:
    """HOST:PORT; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenError(Exception):
    """The process cannot listen on an address. `why` is the cause alone."""

    def __init__(self, address: Address, why: str) -> None:
        super().__init__(f"cannot listen on {address}: {why}")
        self.why = why


def listen(address: Address) -> socket.socket:
    """Return a listening socket. Raises ListenError."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as e:
        why = os.strerror(e.errno) if e.errno and e.errno > 0 else e.strerror  # names are resolved with codes below 0
        raise ListenError(address, str(why)) from e


def address_of(listening: socket.socket) -> Address:
    """Return the address that a socket listens on."""
    return Address(*listening.getsockname()[:2])
