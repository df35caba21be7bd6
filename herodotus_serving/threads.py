"""A server in a thread of this process, for as long as a block lasts: for tests, and for the demo's picture.

Owns: beginning and ending it. Does not own: what it serves.

Invariant: when the block is left, the port is free and the thread has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

POLL_S = 0.01  # how long ending it takes


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Its URL, on loopback."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_S})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
