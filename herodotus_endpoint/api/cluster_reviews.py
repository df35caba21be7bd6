"""The route `POST clusterreviews`: what would follow from changes to the cluster.

Owns: the request, its continuation while the answer is computed, and the errors if no answer is available. Does not
own: the answer (a scheduler or observer takes the review from `review_queue`), masking (`herodotus_record.disclosure`),
the documents (`herodotus_answers.cluster_review`).

A request waits up to WAIT_S seconds. If the answer is not complete by then, the response has a token, with which the
client asks again. The token cannot be guessed; the reader's right is checked for each request.

Invariant: a review is removed when its answer is delivered, and forgotten when its client stops asking.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from flask import Blueprint, Response

from herodotus_answers.cluster_questions import ClusterQuestion, ClusterQuestionDocument, list_namespaces
from herodotus_answers.cluster_review import (
    RUNNING,
    ClusterReviewStatus,
    ReviewProgress,
    build_cluster_review,
    build_empty_status,
)
from herodotus_answers.schema import refer_to
from herodotus_endpoint.access import guard
from herodotus_endpoint.api import review_queue
from herodotus_endpoint.api.reviews import (
    CONTAINER_LISTS,
    DEFAULT_SCHEDULER,
    FIELD_MANAGER_PARAMETERS,
    build_no_scheduler_error,
    find_reviewer,
    new_review_id,
    strip_containers,
)
from herodotus_endpoint.errors import StatusError, json_response, retry_later
from herodotus_endpoint.parameters import check_name, read_body
from herodotus_endpoint.reader_limits import has_client_left
from herodotus_endpoint.resources import CLUSTER_REVIEW, PREFIX
from herodotus_endpoint.routing import (
    JSON,
    Answer,
    PoolKind,
    RequiredRight,
    Route,
    build_blueprint,
    declare,
    list_views,
)
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.reviews import PROGRESS, ReviewAnswer, ReviewingScheduler, ReviewQuestion
from herodotus_record.disclosure import HIDDEN, list_named_namespaces, mask_answer
from herodotus_record.typed_decoding import decode_json

Json = dict[str, Any]

MAX_BODY_BYTES: Final = 1 << 20  # several manifests
MAX_NAMESPACES: Final = 64  # of a question: the reader's right to each is checked
MAX_WAITING: Final = 4  # per scheduler, which answers them one after the other, for minutes
WAIT_S: Final = 20.0  # of one request: the plugin gives up after 30 s
PICKUP_S: Final = 10.0  # within which a scheduler that has nothing else to answer must take the review
ENDED_S: Final = review_queue.CLUSTER_EVALUATION_S + 30.0  # after which a scheduler that took it has ended
POLL_S: Final = 0.1


def blueprint(store: Store, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of the route that creates cluster reviews."""
    return build_blueprint("cluster_reviews", list_views(ClusterReviewViews(store, settings)))


@dataclass(frozen=True)
class _QueuedReview:
    """A review in the queue, and how old it is."""

    id: str
    reviewer: ReviewingScheduler
    age_s: float


class ClusterReviewViews:
    """The Flask view that creates cluster reviews."""

    def __init__(self, store: Store, settings: ServiceSettings) -> None:
        self._reviews = store.reviews
        self._clock = settings.clock
        self._own = settings.cluster

    @declare(
        Route(
            "POST",
            f"{PREFIX}/{CLUSTER_REVIEW.plural}",
            "createClusterReview",
            "What would follow from changes to the cluster.",
            right=RequiredRight("create", CLUSTER_REVIEW),
            parameters=FIELD_MANAGER_PARAMETERS,
            body={JSON: refer_to(CLUSTER_REVIEW.kind)},
            answers=(Answer(201),),
            errors=(400, 401, 403, 404, 410, 413, 415, 422, 429, 503, 504),
            pool=PoolKind.REVIEWS,
            max_body=MAX_BODY_BYTES,
        )
    )
    def create(self) -> Response:
        """Queue the request's ClusterReview, or continue to wait for one that is queued.

        Return the ClusterReview with the answer, or with the progress and the value of `continue` for the next request.
        """
        request_spec = _parse_request()
        spec = msgspec.structs.replace(request_spec, cluster=guard.switch_cluster(request_spec.cluster))
        _check_namespaces(spec)
        queued = self._continue(spec) if spec.continue_ else self._queue(spec)
        answer = self._wait(queued)
        if answer is None or answer.type == PROGRESS:
            progress: ReviewProgress = {"done": 0, "total": 0}
            if answer:
                progress = decode_json(answer.body, ReviewProgress)
            status: ClusterReviewStatus = {
                **build_empty_status(),
                "phase": RUNNING,
                "progress": progress,
                "continue": queued.id,
            }
        else:
            self._reviews.remove_question(queued.id)
            status = _parse_answer(answer)
            visible = guard.visible_namespaces(list_named_namespaces(status, ClusterReviewStatus))
            status = mask_answer(status, ClusterReviewStatus, visible)
        return json_response(build_cluster_review(status), 201)

    def _queue(self, spec: ClusterQuestion) -> _QueuedReview:
        reviewers = review_queue.list_schedulers(
            self._reviews.list_reviewers(review_queue.REVIEWER_EXPIRY_S), CLUSTER_REVIEW.kind
        )
        if not reviewers:
            raise build_no_scheduler_error(self._reviews)
        names = sorted({r.scheduler for r in reviewers if spec.cluster in ("", r.cluster)})
        default = DEFAULT_SCHEDULER if DEFAULT_SCHEDULER in names or not names else names[0]
        match = find_reviewer(reviewers, spec.scheduler_name or default, spec.cluster, self._own)
        reviewer = ReviewingScheduler(match.cluster, review_queue.queue_name(CLUSTER_REVIEW.kind, match.scheduler))
        # A scheduler of an earlier release refuses fields that it does not know, so only the question's own are sent.
        fields = {key: value for key, value in msgspec.to_builtins(spec).items() if value is not None}
        body = msgspec.json.encode({"kind": CLUSTER_REVIEW.kind, "spec": _strip(fields)})
        question = ReviewQuestion(new_review_id(self._clock()), reviewer, body)
        if not self._reviews.add_question(question, MAX_WAITING):
            raise retry_later(429, f"{MAX_WAITING} questions about the cluster wait for this scheduler; ask again")
        return _QueuedReview(question.id, reviewer, 0.0)

    def _continue(self, spec: ClusterQuestion) -> _QueuedReview:
        check_name(spec.continue_, "spec.continue")
        reviewer = self._reviews.keep(spec.continue_)
        ours = reviewer is not None and reviewer.scheduler.startswith(review_queue.queue_name(CLUSTER_REVIEW.kind, ""))
        if reviewer is None or not ours or (spec.cluster or self._own) not in ("", reviewer.cluster):
            raise StatusError(410, "the review was answered, or nobody has asked for it for too long", reason="Expired")
        began_s = int(spec.continue_.partition("-")[0], 16) / 1e6
        return _QueuedReview(spec.continue_, reviewer, max(0.0, self._clock() - began_s))

    def _wait(self, queued: _QueuedReview) -> ReviewAnswer | None:
        """Wait up to WAIT_S seconds for the answer; return it, or else the latest progress, or None without any.

        Raises StatusError 503 if no scheduler takes the review within PICKUP_S seconds, and 504 if the one that has
        taken it does not answer within ENDED_S seconds.
        """
        began = time.monotonic()
        answer = self._reviews.read_answer(queued.id)
        while (answer is None or answer.type == PROGRESS) and (waited_s := time.monotonic() - began) < WAIT_S:
            age_s = queued.age_s + waited_s
            if age_s > PICKUP_S and not self._reviews.is_claimed(queued.id):
                question = ReviewQuestion(queued.id, queued.reviewer, b"")
                if self._reviews.is_first(question):
                    self._reviews.remove_question(queued.id)
                    raise retry_later(503, f"no scheduler has taken the review for {PICKUP_S:.0f} s")
            if age_s > ENDED_S and self._reviews.is_claimed(queued.id):
                self._reviews.remove_question(queued.id)
                raise StatusError(504, f"the scheduler has not answered within {ENDED_S:.0f} s", reason="Timeout")
            if has_client_left():
                self._reviews.remove_question(queued.id)  # the scheduler learns it with its next report
                break
            time.sleep(POLL_S)
            answer = self._reviews.read_answer(queued.id)
        return answer


def _parse_request() -> ClusterQuestion:
    body = read_body(MAX_BODY_BYTES, "a review")
    try:
        review = decode_json(body, ClusterQuestionDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise StatusError(400, f"not a {CLUSTER_REVIEW.kind}: {e}") from e
    if review.kind != CLUSTER_REVIEW.kind:
        raise StatusError(400, f"kind: expected {CLUSTER_REVIEW.kind}")
    return review.spec


def _check_namespaces(spec: ClusterQuestion) -> None:
    """Raise StatusError if the question names a namespace that the reader may not see: an answer would disclose it."""
    namespaces = list_namespaces(spec)
    if len(namespaces) > MAX_NAMESPACES:
        raise StatusError(400, f"the question names {len(namespaces)} namespaces; at most {MAX_NAMESPACES} are allowed")
    visible = guard.visible_namespaces(namespaces)
    hidden = sorted(namespace for namespace in namespaces if not visible.sees(namespace))
    if hidden:
        raise StatusError(403, f'you may not get decisions in the namespace "{hidden[0]}"')


def _parse_answer(answer: ReviewAnswer) -> ClusterReviewStatus:
    if answer.type != review_queue.CLUSTER_ANSWER:
        refused = decode_json(answer.body, review_queue.Refusal)
        raise StatusError(refused.code, refused.message)
    try:
        return decode_json(review_queue.decompress_document(answer.body), ClusterReviewStatus)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        problem = re.sub("(?s)(?<=^Invalid enum value )'.*'", HIDDEN, str(e))  # a value of the answer is not masked
        raise StatusError(500, f"the scheduler's answer makes no sense: {problem}") from e


def _strip(value: Any) -> Any:
    """Return a copy of a question that lacks the fields of its manifests which scheduling does not read.

    These are annotations, managed fields, and most fields of containers. The copy is stored until a scheduler takes it.
    """
    if isinstance(value, list):
        return [_strip(item) for item in value]
    if not isinstance(value, dict):
        return value
    items = ((key, item) for key, item in value.items() if key not in ("annotations", "managedFields"))
    return {key: strip_containers(item) if key in CONTAINER_LISTS else _strip(item) for key, item in items}
