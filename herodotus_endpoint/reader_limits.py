"""No reader occupies every thread of a pool.

Owns: how many requests of one reader run at a time. Does not own: who the reader is (`access`), watches
(`kubeapi.watching`).

A reader is the user that the API server names, or the address of a client that nobody names.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

from flask import Flask, g, request

from herodotus_endpoint.errors import retry_later
from herodotus_serving.wsgi import POOL

SHARE: Final = 0.75  # of a pool's threads

Key = tuple[str, str]  # pool, reader


def reader_name() -> str:
    """Return the name of the request's reader."""
    return g.user or f"address {request.remote_addr}"


def install_reader_limits(app: Flask, threads: Mapping[str, int]) -> None:
    """Refuse requests of a reader beyond its share with 429. `threads`: the size of each limited pool."""
    limits = {pool: max(1, int(size * SHARE)) for pool, size in threads.items()}
    lock = threading.Lock()
    running: Counter[Key] = Counter()

    @app.before_request
    def begin() -> None:
        pool = request.environ.get(POOL, "")
        limit = limits.get(pool)
        if limit is None:
            return
        key = pool, reader_name()
        with lock:
            if running[key] >= limit:
                raise retry_later(429, f"{limit} requests of this reader run already; try again")
            running[key] += 1
        g.running = key

    @app.teardown_request
    def end(_error: BaseException | None) -> None:
        key = g.pop("running", None)
        if key is not None:
            with lock:
                running[key] -= 1
                if not running[key]:
                    del running[key]
