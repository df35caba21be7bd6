"""Addresses and the listening sockets that are bound to them. Imports nothing of the project."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

BACKLOG: Final = 256  # connections that the kernel queues until they are accepted


@dataclass(frozen=True)
class Address:
    """A host and a port. Port 0 lets the system choose a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(address: str) -> bool:
    """Return whether a text is a loopback address, also one such as ::ffff:127.0.0.1; False for a host name."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def is_loopback_host(host: str) -> bool:
    """Return whether a host is a loopback address or `localhost`; other names are not resolved."""
    return host == "localhost" or is_loopback(host)


class ListenError(Exception):
    """The process cannot listen on `address`. `reason` is the cause without the address."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address, self.reason = address, reason


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on an address. Raises ListenError."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as e:
        reason = os.strerror(e.errno) if e.errno and e.errno > 0 else e.strerror  # name resolution uses negative codes
        raise ListenError(address, str(reason)) from e


def get_bound_address(listening: socket.socket) -> Address:
    """Return the address that a listening socket is bound to."""
    return Address(*listening.getsockname()[:2])
