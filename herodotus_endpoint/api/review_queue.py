"""Routes through which schedulers take reviews and return answers, with the credentials of their records.

Owns: both routes and how long a scheduler's request may wait. Does not own: authentication of senders (`ingest`), the
content of reviews (`reviews`), the queue itself (`store.reviews`).

Invariant: a sender sees and answers only reviews of its own cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, request

from herodotus_answers.cluster_review import ReviewProgress
from herodotus_endpoint.api import ingest
from herodotus_endpoint.errors import StatusError, json_response, retry_later
from herodotus_endpoint.parameters import (
    CLUSTER,
    IntegerParameter,
    NameParameter,
    NamesParameter,
    check_name,
    read_body,
)
from herodotus_endpoint.resources import CLUSTER_REVIEW, REVIEW
from herodotus_endpoint.routing import Access, Answer, PoolKind, Route, build_blueprint, declare
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.reviews import PROGRESS, ReviewAnswer, ReviewingScheduler, TooManyReviewersError
from herodotus_record import codec
from herodotus_record.codec import batches
from herodotus_record.typed_decoding import decode_json
from herodotus_serving.memory import estimate_json_bytes
from herodotus_serving.wsgi import CANCELLED

PATH: Final = "/ingest/v1/reviews"
MAX_WAIT_S: Final = 30
REVIEWER_EXPIRY_S: Final = 60.0  # a scheduler counts as gone after two waits without a request
EVALUATION_S: Final = 15.0  # the time limit of a scheduler; the client waits somewhat longer
CLUSTER_EVALUATION_S: Final = 300.0  # of a question about the whole cluster; its client asks again every 20 s
POLL_S: Final = 0.1
MAX_SCHEDULERS: Final = 64  # profiles of one process
MAX_ANSWER_BYTES: Final = ingest.MAX_BODY_BYTES
SENDER_ERRORS: Final = (400, 401, 403, 429, 503)
CLUSTER_ANSWER: Final = "application/vnd.herodotus.clusterreview+json"  # media type of a ClusterReviewStatus
_REFUSALS: Final = (422, 503)
_PLACEMENT: Final = REVIEW.kind
_MAX_PROGRESS_BYTES: Final = 1 << 10

SENDER_CLUSTER: Final = NameParameter(
    CLUSTER.name, "The cluster of a sender that is bound to none: the UID of its namespace kube-system."
)
SCHEDULER: Final = NamesParameter(
    "scheduler", "A profile of the scheduler; may be repeated.", "scheduler must be given", MAX_SCHEDULERS
)
_KINDS: Final = NamesParameter(
    "kind", f"A kind of review that the scheduler answers [{_PLACEMENT}]; may be repeated.", maximum=2
)
_BUSY: Final = NamesParameter("busy", "A kind of review of which it takes none now; may be repeated.", maximum=2)
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
            parameters=(SENDER_CLUSTER, SCHEDULER, _KINDS, _BUSY, _WAIT),
            answers=(Answer(description="A review."), Answer(204, "No review is queued.", ())),
            errors=SENDER_ERRORS,
            pool=PoolKind.POLLS,
        )
    )
    def take() -> Response:
        cluster, schedulers = resolve_sender_cluster(settings), SCHEDULER.parse()
        kinds, busy = _KINDS.parse() or [_PLACEMENT], _BUSY.parse()
        announced = [queue_name(kind, name) for kind in kinds for name in schedulers]
        try:
            registered_us = store.reviews.register(cluster, announced)
        except TooManyReviewersError as e:
            raise retry_later(429, str(e)) from e
        queues = [queue_name(kind, name) for kind in kinds if kind not in busy for name in schedulers]
        cancelled = request.environ.get(CANCELLED) or threading.Event()
        try:
            return _take_review(store, cluster, queues, _WAIT.parse(), cancelled)
        finally:
            if cancelled.is_set():  # the scheduler has ended, or its connection: readers need not wait for it
                store.reviews.unregister(cluster, announced, registered_us)

    @declare(
        Route(
            "POST",
            f"{PATH}/<id>",
            "answerReview",
            "Deliver a scheduler's answer to a review, or how far the answer is.",
            right=Access.SENDER,
            parameters=(SENDER_CLUSTER,),
            answers=(Answer(description="The answer was delivered to the client."),),
            errors=(*SENDER_ERRORS, 404, 413, 415),
            pool=PoolKind.INGEST,
            max_body=MAX_ANSWER_BYTES,
        )
    )
    def answer(id: str) -> Response:
        cluster = resolve_sender_cluster(settings)
        check_name(id, "the review")
        if request.mimetype == PROGRESS:
            waited = store.reviews.store_progress(id, cluster, _parse_progress())
        else:
            waited = store.reviews.store_answer(id, cluster, _parse_answer())
        if not waited:
            raise StatusError(404, "no client waits for this review")
        return json_response({})

    return build_blueprint("review_queue", (take, answer))


def decompress_answer(body: bytes) -> bytes:
    """Return the decompressed body of a scheduler's answer to a review.

    Raises StatusError 500 if it cannot be decompressed, or has a frame that would take too much memory.
    """
    try:
        return batches.unpack(body, ingest.MAX_UNPACKED_BYTES, compressed=True).frames
    except codec.CodecError as e:
        raise StatusError(500, f"the scheduler's answer is {e}") from e


def decompress_document(body: bytes) -> bytes:
    """Return the decompressed JSON of a scheduler's answer to a cluster review.

    Raises StatusError 500 if it cannot be decompressed, or would take too much memory.
    """
    document = decompress_answer(body)
    if estimate_json_bytes(document) > batches.MAX_TOGETHER_BYTES:
        raise StatusError(500, f"the scheduler's answer of {len(document)} bytes has too many values")
    return document


def queue_name(kind: str, scheduler: str) -> str:
    """Return the name of the store's queue for the reviews of a kind that a scheduler answers."""
    return scheduler if kind == _PLACEMENT else f"{kind}/{scheduler}"


def list_schedulers(queues: Iterable[ReviewingScheduler], kind: str) -> list[ReviewingScheduler]:
    """Return the schedulers that answer reviews of `kind`.

    The entries of `queues` have a name from `queue_name` in place of the scheduler's; the returned entries have the
    scheduler's.
    """
    prefix = queue_name(kind, "")
    of_kind = (r for r in queues if r.scheduler.startswith(prefix))
    named = [ReviewingScheduler(r.cluster, r.scheduler.removeprefix(prefix)) for r in of_kind]
    return [r for r in named if "/" not in r.scheduler]


def _take_review(store: Store, cluster: str, queues: list[str], wait_s: int, cancelled: threading.Event) -> Response:
    until = time.monotonic() + wait_s
    while True:
        question = store.reviews.claim_question(cluster, queues)
        if question is not None:
            document: dict[str, Any] = msgspec.json.decode(question.body)
            deadline_s = CLUSTER_EVALUATION_S if document.get("kind") == CLUSTER_REVIEW.kind else EVALUATION_S
            body = msgspec.json.encode(document | {"id": question.id, "deadlineSeconds": deadline_s})
            return Response(body, content_type="application/json")  # a question: not the answer that its kind declares
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
    body = read_body(MAX_ANSWER_BYTES, "an answer")
    if request.mimetype in (codec.CONTENT_TYPE, CLUSTER_ANSWER) and request.headers.get("Content-Encoding") == "zstd":
        return ReviewAnswer(body, request.mimetype)
    if request.mimetype != "application/json":
        raise StatusError(415, f"an answer is {codec.CONTENT_TYPE} or {CLUSTER_ANSWER} in zstd, or application/json")
    try:
        refused = decode_json(body, Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise StatusError(400, f"not a refusal: {e}") from e
    if refused.code not in _REFUSALS:
        raise StatusError(400, f"code: expected one of {', '.join(map(str, _REFUSALS))}")
    return ReviewAnswer(body, "application/json")


def _parse_progress() -> bytes:
    try:
        progress = decode_json(read_body(_MAX_PROGRESS_BYTES, "progress"), ReviewProgress)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise StatusError(400, f"not a progress: {e}") from e
    return msgspec.json.encode(progress)
