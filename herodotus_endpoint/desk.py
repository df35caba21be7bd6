"""Where schedulers take reviews and lay down their answers: on the way of their records, with the same credentials.

Owns: those two routes, how long a scheduler is kept waiting. Does not own: who is a sender (`ingest`), what is asked
and what becomes of an answer (`reviews`), where both wait (`store.reviews`).

Invariant: a sender sees and answers the questions of its own cluster only.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, request

from herodotus_endpoint import bodies, ingest, parameters
from herodotus_endpoint.errors import ApiError, busy, json_response
from herodotus_endpoint.settings import MAX_POLLS, Settings
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.reviews import Answer
from herodotus_record import codec

PATH: Final = "/ingest/v1/reviews"
MAX_WAIT_S: Final = 30
SILENT_S: Final = 60.0  # a scheduler that has not asked for so long answers no more: two waits
EVALUATION_S: Final = 15.0  # what a scheduler may take: the asker waits somewhat longer
LOOK_S: Final = 0.1
MAX_SCHEDULERS: Final = 64  # profiles of one process
MAX_ANSWER_BYTES: Final = ingest.MAX_BODY_BYTES
_REFUSALS: Final = (422, 503)


class Refused(msgspec.Struct):
    """That there is no answer: 422, the pod is none; 503, not now."""

    code: int
    message: str


def blueprint(store: Store, settings: Settings, stopping: threading.Event) -> Blueprint:
    """The routes. `stopping`: what ends waiting."""
    routes = Blueprint("desk", __name__)
    places = threading.BoundedSemaphore(MAX_POLLS)

    @routes.get(PATH, provide_automatic_options=False)
    def take() -> Response:
        cluster = _cluster(settings, parameters.text("cluster"))
        schedulers = [parameters.name(n, "scheduler") for n in request.args.getlist("scheduler")][:MAX_SCHEDULERS]
        if not schedulers:
            raise ApiError(400, "scheduler must be given")
        if not places.acquire(blocking=False):
            raise busy(429, f"{MAX_POLLS} schedulers wait already")
        try:
            return _taken(store, cluster, schedulers, parameters.integer("wait", most=MAX_WAIT_S) or 0, stopping)
        finally:
            places.release()

    @routes.post(f"{PATH}/<id>", provide_automatic_options=False)
    def answer(id: str) -> Response:
        cluster = _cluster(settings, parameters.text("cluster"))
        waited = store.reviews.answer(parameters.name(id, "the review"), cluster, _answer())
        if not waited:
            raise ApiError(404, "nobody waits for this review")
        return json_response({})

    return routes


def unpacked(body: bytes) -> bytes:
    """An answer's frames. ApiError where they are none."""
    try:
        return codec.decompress(body, ingest.MAX_UNPACKED_BYTES)
    except codec.CodecError as e:
        raise ApiError(500, f"the scheduler's answer is {e}") from e


def _taken(store: Store, cluster: str, schedulers: list[str], wait_s: int, stopping: threading.Event) -> Response:
    store.reviews.announce(cluster, schedulers)
    until = time.monotonic() + wait_s
    while True:
        question = store.reviews.take(cluster, schedulers)
        if question is not None:
            asked: dict[str, Any] = msgspec.json.decode(question.body)
            return json_response(asked | {"id": question.id, "deadlineSeconds": EVALUATION_S})
        if time.monotonic() >= until or stopping.wait(LOOK_S):
            return Response(status=204)


def _cluster(settings: Settings, named: str) -> str:
    """The sender's cluster: the one that it is bound to, else the one that it names. ApiError as for records."""
    bound = ingest.sender(settings)
    if bound and named not in ("", bound):
        raise ApiError(403, f'the sender is bound to cluster "{bound}", and asks for reviews of another')
    return bound or named


def _answer() -> Answer:
    body = bodies.read(MAX_ANSWER_BYTES, "an answer")
    if request.mimetype == codec.CONTENT_TYPE and request.headers.get("Content-Encoding") == "zstd":
        return Answer(body, codec.CONTENT_TYPE)
    if request.mimetype != "application/json":
        raise ApiError(415, f"an answer is {codec.CONTENT_TYPE} in zstd, or application/json")
    try:
        refused = msgspec.json.decode(body, type=Refused)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise ApiError(400, f"not a refusal: {e}") from e
    if refused.code not in _REFUSALS:
        raise ApiError(400, f"code: expected one of {', '.join(map(str, _REFUSALS))}")
    return Answer(body, "application/json")
