"""What the requests of one reader may use of the service: turns in a pool, and a budget for each question.

A reader is the user that the API server names; without a user, it is the client's address.

Owns: whose request runs next in a pool, and the start of each request's budget. Does not own: authentication
(`access.guard`), the order (`fair_queue`), counting (`store.read_budget`), watches (`kubeapi.watches`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from flask import Flask, g, request

from herodotus_endpoint.errors import retry_later
from herodotus_endpoint.fair_queue import FairQueue, TurnRefusedError
from herodotus_endpoint.store.read_budget import (
    UNLIMITED,
    ReadBudget,
    ReadLimits,
    check_budget,
    current_budget,
    set_budget,
)
from herodotus_serving.wsgi import CLIENT_LEFT, POOL

SHARE: Final = 0.75  # of the requests that run in a pool, for one reader while others do not wait
WAITING_PER_READER: Final = 16  # for a turn; a page of the plugin sends six
WAIT_S: Final = 10.0  # for a turn; clients give up after 30 s
REVIEWS_PER_READER: Final = 1  # at the same time: a scheduler decides one after the other


def _reader_name() -> str:
    """Return the user who sent the current request, or a name made of the client's address if no user is known."""
    return g.user or f"address {request.remote_addr}"


def create_queue(concurrent: int, per_reader: int = 0) -> FairQueue:
    """Return the queue of a pool that runs `concurrent` requests at the same time, `per_reader` of them of one reader.

    If `per_reader` is 0, it is the share SHARE of `concurrent`, and at least 1.
    """
    return FairQueue(concurrent, per_reader or max(1, int(concurrent * SHARE)), WAITING_PER_READER, WAIT_S)


def install_reader_limits(app: Flask, queues: Mapping[str, FairQueue]) -> None:
    """Make requests of a pool wait for their reader's turn, and start the budget of each request.

    `queues` maps the name of a pool to its queue. Requests of other pools do not wait. The app answers 429 if the turn
    does not come in time, or if many requests of the reader wait.
    """

    @app.before_request
    def begin() -> None:
        reader, client_left = _reader_name(), request.environ.get(CLIENT_LEFT)
        limits = ReadLimits() if g.get("right") else UNLIMITED  # senders wait for questions as long as they like
        set_budget(ReadBudget(limits, client_left, reader))
        queue = queues.get(request.environ.get(POOL, ""))
        if queue is None:
            return
        turn = g.turn = ExitStack()
        try:
            turn.enter_context(queue.admit(reader, check_budget))
        except TurnRefusedError as e:
            raise retry_later(429, str(e)) from e
        set_budget(ReadBudget(limits, client_left, reader))  # without the time that it waited

    @app.teardown_request
    def end(_error: BaseException | None) -> None:
        set_budget(None)
        turn = g.pop("turn", None)
        if turn is not None:
            turn.close()


def has_client_left() -> bool:
    """Return whether the client of the current request has closed its connection."""
    budget = current_budget()
    return budget is not None and budget.client_left.is_set()
