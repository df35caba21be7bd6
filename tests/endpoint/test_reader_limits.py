"""No reader, by name or else by address, has every turn of a pool."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from flask import Flask, Response, g, request

from herodotus_endpoint.errors import StatusError
from herodotus_endpoint.fair_queue import FairQueue
from herodotus_endpoint.reader_limits import install_reader_limits
from herodotus_serving.wsgi import POOL
from tests.processes import eventually

THREADS = 4
SHARE_OF_THREADS = 3  # that one reader may occupy


class Scene:
    """An app whose path /wait answers after `go_on`, and whose readers have the name in the header User."""

    def __init__(self) -> None:
        self.app, self.go_on, self.waiting = Flask(__name__), threading.Event(), 0
        self.app.before_request(self._identify)
        turns = FairQueue(THREADS, SHARE_OF_THREADS, waiting_per_client=0, wait_s=10)
        install_reader_limits(self.app, {"queries": turns})
        self.app.add_url_rule("/wait", view_func=self._wait)
        self.app.add_url_rule("/now", view_func=lambda: "ok")
        self.app.register_error_handler(StatusError, lambda e: Response(str(e), e.code))

    def _identify(self) -> None:
        g.user = request.headers.get("User", "")

    def _wait(self) -> str:
        self.waiting += 1
        self.go_on.wait(30)
        return "ok"

    def get(self, path: str, user: str = "", address: str = "10.0.0.1", pool: str = "queries") -> int:
        environ = {POOL: pool, "REMOTE_ADDR": address}
        headers = {"User": user} if user else {}
        return self.app.test_client().get(path, headers=headers, environ_overrides=environ).status_code

    @contextmanager
    def occupied(self, user: str) -> Iterator[None]:
        """Let a reader have as many requests waiting as it may, while the block runs."""
        with ThreadPoolExecutor(SHARE_OF_THREADS) as threads:
            found: list[Future[int]] = [threads.submit(self.get, "/wait", user) for _ in range(SHARE_OF_THREADS)]
            eventually(lambda: self.waiting == SHARE_OF_THREADS, "the requests to wait")
            try:
                yield
            finally:
                self.go_on.set()
        assert [future.result() for future in found] == [200] * SHARE_OF_THREADS


@pytest.mark.parametrize("user", ["ann", ""])
def test_a_reader_that_occupies_its_share_of_a_pool_is_refused(user: str) -> None:
    scene = Scene()
    with scene.occupied(user):
        assert scene.get("/now", user) == 429
        assert scene.get("/now", user, pool="probes") == 200
    assert scene.get("/now", user) == 200


def test_other_readers_are_answered_meanwhile() -> None:
    """Behind the API server every reader has its address, so a name counts and the address does not."""
    scene = Scene()
    with scene.occupied("ann"):
        assert scene.get("/now", "bob") == 200
        assert scene.get("/now", "ann", address="10.0.0.2") == 429
    scene = Scene()
    with scene.occupied(""):
        assert scene.get("/now", address="10.0.0.2") == 200
