"""Limits on the concurrent requests of one reader, so that no reader occupies every thread of a pool.

A reader is the user that the API server names; without a user, it is the client's address.

Owns: how many requests of one reader run at a time. Does not own: authentication (`access`), watches
(`kubeapi.watches`).
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


def _reader_name() -> str:
    """Return the user who sent the current request, or a name made of the client's address if no user is known."""
    return g.user or f"address {request.remote_addr}"


def install_reader_limits(app: Flask, threads: Mapping[str, int]) -> None:
    """Make the app answer 429 if requests of one reader already occupy the SHARE of a worker pool's threads.

    `threads` maps the name of a pool to its number of threads. Other pools are not limited.
    """
    limits = {pool: max(1, int(size * SHARE)) for pool, size in threads.items()}
    lock = threading.Lock()
    running: Counter[Key] = Counter()

    @app.before_request
    def begin() -> None:
        pool = request.environ.get(POOL, "")
        limit = limits.get(pool)
        if limit is None:
            return
        key = pool, _reader_name()
        with lock:
            if running[key] >= limit:
                raise retry_later(429, f"{limit} requests of this reader are already running; try again")
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
