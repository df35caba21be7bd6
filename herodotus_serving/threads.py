"""An HTTP server in a thread of this process, for tests and for the demo's picture.

Owns: starting and stopping the server. Does not own: what it serves.

Invariant: after the `with` block the port is free and the thread has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

POLL_S = 0.01  # how often the server checks whether it should stop


@contextmanager
def serve_in_thread(server: HTTPServer) -> Iterator[str]:
    """Run an HTTP server in a thread during a `with` block; yield its URL on loopback."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_S})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
