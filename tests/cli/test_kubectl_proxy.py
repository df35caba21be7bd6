"""Requests through a `kubectl proxy` that starts slowly, or leaves one without a response."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from herodotus_cli.errors import ProxyStartError
from herodotus_cli.transport.kubectl_proxy import KubectlProxy

# Binds its socket, listens half a second later, closes the first connection after a request and answers the others.
SLOW = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
time.sleep(0.5)
listener.listen()
served = 0
while True:
    connection, _ = listener.accept()
    while b"\\r\\n\\r\\n" in connection.recv(65536):
        served += 1
        if served == 1:
            break
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    connection.close()
"""


@pytest.fixture
def proxy() -> Iterator[KubectlProxy]:
    with KubectlProxy(lambda path: [sys.executable, "-c", SLOW, path]) as started:
        yield started


def test_a_request_waits_until_the_socket_accepts_connections(proxy: KubectlProxy) -> None:
    with pytest.raises(ConnectionError, match="closed connection without response"):
        proxy.get("/lost")
    assert proxy.get("/next") == (200, b"{}"), "a request without a response spoils no other one"
    assert proxy.get("/after") == (200, b"{}")


def test_a_process_that_ends_before_it_listens_is_named() -> None:
    ends = "import sys; sys.exit('no cluster')"
    with (
        KubectlProxy(lambda path: [sys.executable, "-c", ends, path]) as proxy,
        pytest.raises(ProxyStartError, match="no cluster"),
    ):
        proxy.get("/")
