"""Routes through which schedulers take reviews and return answers, with the credentials of their records.

Owns: both routes and how long a scheduler's request may wait. Does not own: authentication of senders (`ingest`), the
content of reviews (`reviews`), the queue itself (`store.reviews`).

Invariant: a sender sees and answers only reviews of its own cluster.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, request

from herodotus_endpoint.api import ingest, request_body
from herodotus_endpoint.errors import StatusError, json_response, retry_later
from herodotus_endpoint.parameters import CLUSTER, IntegerParameter, NameParameter, NamesParameter, check_name
from herodotus_endpoint.routing import Access, Answer, Route, build_blueprint, declare
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.reviews import ReviewAnswer, TooManyReviewersError
from herodotus_record import codec
from herodotus_serving.wsgi import CANCELLED

PATH: Final = "/ingest/v1/reviews"
MAX_WAIT_S: Final = 30
REVIEWER_EXPIRY_S: Final = 60.0  # a scheduler counts as gone after two waits without a request
EVALUATION_S: Final = 15.0  # the time limit of a scheduler; the client waits somewhat longer
POLL_S: Final = 0.1
MAX_SCHEDULERS: Final = 64  # profiles of one process
MAX_ANSWER_BYTES: Final = ingest.MAX_BODY_BYTES
SENDER_ERRORS: Final = (400, 401, 403, 429, 503)
_REFUSALS: Final = (422, 503)

SENDER_CLUSTER: Final = NameParameter(
    CLUSTER.name, "The cluster of a sender that is bound to none: the UID of its namespace kube-system."
)
SCHEDULER: Final = NamesParameter(
    "scheduler", "A profile of the scheduler; may be repeated.", "scheduler must be given", MAX_SCHEDULERS
)
_WAIT: Final = IntegerParameter("wait", "Seconds to wait for a review.", maximum=MAX_WAIT_S)


class Refusal(msgspec.Struct):
    """A scheduler's refusal to answer a review, as an HTTP status code and a message.

    The code is 422 if the pod is invalid, and 503 if the scheduler cannot answer now.
    """

    code: int
    message: str


def blueprint(store: Store, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of the two routes with which schedulers take reviews and answer them."""

    @declare(
        Route(
            "GET",
            PATH,
            "takeReview",
            "A review for a scheduler to answer.",
            right=Access.SENDER,
            parameters=(SENDER_CLUSTER, SCHEDULER, _WAIT),
            answers=(Answer(description="A review."), Answer(204, "No review is queued.", ())),
            errors=SENDER_ERRORS,
        )
    )
    def take() -> Response:
        cluster, schedulers = resolve_sender_cluster(settings), SCHEDULER.parse()
        cancelled = request.environ.get(CANCELLED) or threading.Event()
        return _take_review(store, cluster, schedulers, _WAIT.parse(), cancelled)

    @declare(
        Route(
            "POST",
            f"{PATH}/<id>",
            "answerReview",
            "Deliver a scheduler's answer to a review.",
            right=Access.SENDER,
            parameters=(SENDER_CLUSTER,),
            answers=(Answer(description="The answer was delivered to the client."),),
            errors=(*SENDER_ERRORS, 404, 413, 415),
        )
    )
    def answer(id: str) -> Response:
        cluster = resolve_sender_cluster(settings)
        waited = store.reviews.store_answer(check_name(id, "the review"), cluster, _parse_answer())
        if not waited:
            raise StatusError(404, "no client waits for this review")
        return json_response({})

    return build_blueprint("review_queue", (take, answer))


def decompress_answer(body: bytes) -> bytes:
    """Return the decompressed frames of a scheduler's answer to a review.

    Raises StatusError 500 if they cannot be decompressed.
    """
    try:
        return codec.decompress(body, ingest.MAX_UNPACKED_BYTES)
    except codec.CodecError as e:
        raise StatusError(500, f"the scheduler's answer is {e}") from e


def _take_review(
    store: Store, cluster: str, schedulers: list[str], wait_s: int, cancelled: threading.Event
) -> Response:
    try:
        store.reviews.register(cluster, schedulers)
    except TooManyReviewersError as e:
        raise retry_later(429, str(e)) from e
    until = time.monotonic() + wait_s
    while True:
        question = store.reviews.claim_question(cluster, schedulers)
        if question is not None:
            asked: dict[str, Any] = msgspec.json.decode(question.body)
            return json_response(asked | {"id": question.id, "deadlineSeconds": EVALUATION_S})
        if time.monotonic() >= until or cancelled.wait(POLL_S):
            return Response(status=204)


def resolve_sender_cluster(settings: ServiceSettings) -> str:
    """Authenticate the sender of this request and return the ID of its cluster.

    A sender that is bound to no cluster names its cluster in the query parameter `cluster`; without it, the result is
    "". Raises StatusError 403 if the sender is bound to another cluster than it names.
    """
    named = SENDER_CLUSTER.parse()
    bound = ingest.authenticate_sender(settings)
    if bound and named not in ("", bound):
        raise StatusError(403, f'the sender is bound to cluster "{bound}", and asks about another')
    return bound or named


def _parse_answer() -> ReviewAnswer:
    body = request_body.read_body(MAX_ANSWER_BYTES, "an answer")
    if request.mimetype == codec.CONTENT_TYPE and request.headers.get("Content-Encoding") == "zstd":
        return ReviewAnswer(body, codec.CONTENT_TYPE)
    if request.mimetype != "application/json":
        raise StatusError(415, f"an answer is {codec.CONTENT_TYPE} in zstd, or application/json")
    try:
        refused = msgspec.json.decode(body, type=Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise StatusError(400, f"not a refusal: {e}") from e
    if refused.code not in _REFUSALS:
        raise StatusError(400, f"code: expected one of {', '.join(map(str, _REFUSALS))}")
    return ReviewAnswer(body, "application/json")
