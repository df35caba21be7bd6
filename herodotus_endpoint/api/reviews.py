"""The route `POST placementreviews`: where hypothetical pods would be placed.

Owns: the request format, how long a client waits, and the errors if no answer is available. Does not own: the decision
(a scheduler takes the review from `review_queue`), the document (`herodotus_answers.placement_review`), masking.

Invariant: nothing of a review is stored longer than its client waits.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from flask import Blueprint, Response

from herodotus_answers import placement_review
from herodotus_answers.placement_review import (
    MAX_REPLICAS,
    ReviewedWorkload,
    build_placement_review,
    parse_attempts,
)
from herodotus_answers.schema import refer_to
from herodotus_answers.service import StatusDetails
from herodotus_endpoint.access import guard
from herodotus_endpoint.api import review_queue
from herodotus_endpoint.api.manifests import parse_manifest
from herodotus_endpoint.api.masked_reader import MaskedReader
from herodotus_endpoint.api.record_limits import check_frame
from herodotus_endpoint.errors import StatusError, json_response, retry_later
from herodotus_endpoint.parameters import PRETTY, TextParameter, check_name, read_body
from herodotus_endpoint.reader_limits import has_client_left
from herodotus_endpoint.resources import PREFIX, REVIEW
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
from herodotus_endpoint.store.reviews import ReviewAnswer, ReviewingScheduler, ReviewQuestion, ReviewStore
from herodotus_record import codec
from herodotus_record.codec import batches
from herodotus_record.templates import PodTemplate, PodTemplateError, parse_pod_template
from herodotus_record.typed_decoding import decode_json

Json = dict[str, Any]

MAX_BODY_BYTES: Final = (
    256 << 10
)  # the API server accepts objects of 1.5 MB, mostly fields that scheduling does not read
MAX_WAITING: Final = 16  # per scheduler, which answers reviews one after the other
WAIT_S: Final = 25.0  # how long a client waits: the plugin gives up after 30 s
PICKUP_S: Final = WAIT_S - review_queue.EVALUATION_S  # within which a scheduler must take the review
POLL_S: Final = 0.05
DEFAULT_SCHEDULER: Final = "default-scheduler"  # the API server's default for spec.schedulerName

# What kubectl adds to requests that create objects.
_FIELD_MANAGER: Final = TextParameter("fieldManager", "Accepted without effect.")
_DRY_RUN: Final = TextParameter("dryRun", "Accepted without effect.")
_FIELD_VALIDATION: Final = TextParameter("fieldValidation", "Accepted without effect.")
FIELD_MANAGER_PARAMETERS: Final = (_FIELD_MANAGER, PRETTY, _DRY_RUN, _FIELD_VALIDATION)
CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_KEPT_CONTAINER_FIELDS: Final = ("name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules")
_DROPPED_METADATA_FIELDS: Final = ("annotations", "managedFields")  # kubectl keeps the whole manifest in an annotation


class PlacementReviewSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The spec of a PlacementReview: the pods to place and what the response should show.

    `object` is a Pod or a workload with a pod template; `manifest` is the same as text, in YAML or JSON, in its place.
    If `replicas` is None, the object's number of replicas is used. `scheduler_name` overrides the object's scheduler.
    The response has details about `node`, or about every node if `all_nodes` is true.

    `cluster` is the ID or name of a cluster, or "" for the service's own.
    """

    object: dict[str, Any] | None = None
    manifest: str = ""
    replicas: int | None = None
    scheduler_name: str = ""
    node: str = ""
    all_nodes: bool = False
    cluster: str = ""


class PlacementReview(msgspec.Struct, rename="camel"):
    """A PlacementReview object as the client sends it: the question where hypothetical pods would be placed."""

    spec: PlacementReviewSpec
    api_version: str = ""
    kind: str = REVIEW.kind


@dataclass(frozen=True)
class ReviewRequest:
    """A validated PlacementReview, with the pod template, scheduler and number of replicas that follow from it."""

    spec: PlacementReviewSpec
    template: PodTemplate
    namespace: str
    scheduler: str
    replicas: int

    def body(self) -> bytes:
        """Return the question for the scheduler as JSON.

        It omits fields of the pod that scheduling ignores, because it is stored until a scheduler takes it.
        """
        t = self.template
        template = {"kind": t.kind, "name": t.name, "namespace": t.namespace, "pod": _strip_pod(t.pod)}
        question = {"namespace": self.namespace, "scheduler": self.scheduler, "replicas": self.replicas}
        return msgspec.json.encode(question | {"template": template})


def blueprint(store: Store, reader: MaskedReader, settings: ServiceSettings) -> Blueprint:
    """Return the Flask blueprint of the route that creates placement reviews."""
    return build_blueprint("reviews", list_views(ReviewViews(store, reader, settings)))


class ReviewViews:
    """The Flask view that creates placement reviews."""

    def __init__(self, store: Store, reader: MaskedReader, settings: ServiceSettings) -> None:
        self._reviews = store.reviews
        self._reader = reader
        self._clock = settings.clock
        self._own = settings.cluster

    @declare(
        Route(
            "POST",
            f"{PREFIX}/namespaces/<namespace>/{REVIEW.plural}",
            "createPlacementReview",
            "Where hypothetical pods would be placed.",
            right=RequiredRight("create", REVIEW),
            parameters=FIELD_MANAGER_PARAMETERS,
            body={JSON: refer_to(REVIEW.kind)},
            answers=(Answer(201),),
            errors=(400, 401, 403, 404, 413, 415, 422, 429, 503, 504),
            pool=PoolKind.REVIEWS,
            max_body=MAX_BODY_BYTES,
        )
    )
    def create(self, namespace: str) -> Response:
        """Queue the request's PlacementReview for a scheduler, wait for the answer and return it as a document."""
        review = _parse_request(check_name(namespace, "the namespace"))
        cluster = guard.switch_cluster(review.spec.cluster)
        reviewers = review_queue.list_schedulers(
            self._reviews.list_reviewers(review_queue.REVIEWER_EXPIRY_S), REVIEW.kind
        )
        if not reviewers:
            raise build_no_scheduler_error(self._reviews)
        reviewer = find_reviewer(reviewers, review.scheduler, cluster, self._own)
        answer = self._answer(ReviewQuestion(new_review_id(self._clock()), reviewer, review.body()))
        return json_response(self._document(answer, review), 201)

    def _answer(self, question: ReviewQuestion) -> ReviewAnswer:
        """Queue a review and return the scheduler's answer to it.

        Raises StatusError if the queue is full, or if no scheduler takes or answers the review in time. A review that
        is not taken within PICKUP_S seconds is removed, because its client would no longer wait for the answer.
        """
        if not self._reviews.add_question(question, MAX_WAITING):
            raise retry_later(429, f"{MAX_WAITING} reviews wait for this scheduler; ask again")
        try:
            began = time.monotonic()
            while (waited_s := time.monotonic() - began) < WAIT_S and not has_client_left():
                answer = self._reviews.read_answer(question.id)
                if answer is not None:
                    return answer
                if waited_s > PICKUP_S and not self._reviews.is_claimed(question.id):
                    raise self._not_taken(question)
                time.sleep(POLL_S)
        finally:
            self._reviews.remove_question(question.id)
        message = f'scheduler "{question.reviewer.scheduler}" has not answered within {WAIT_S:.0f} s'
        raise StatusError(504, message, reason="Timeout")

    def _not_taken(self, question: ReviewQuestion) -> StatusError:
        """Return the error for a review that no scheduler took within PICKUP_S seconds.

        Its code is 503 if no earlier review is queued for the scheduler, which then does not respond, and 429
        otherwise.
        """
        if self._reviews.is_first(question):
            return retry_later(
                503, f'scheduler "{question.reviewer.scheduler}" has not taken a review for {PICKUP_S:.0f} s'
            )
        return retry_later(429, f"other reviews have been queued before this one for {PICKUP_S:.0f} s; try again")

    def _document(self, answer: ReviewAnswer, review: ReviewRequest) -> placement_review.PlacementReview:
        if answer.type != codec.CONTENT_TYPE:
            refused = decode_json(answer.body, review_queue.Refusal)
            raise StatusError(refused.code, refused.message)
        frames = codec.split_frames(review_queue.decompress_answer(answer.body))
        decoded = map(check_frame, batches.decode_together(frame for _, frame in frames))
        attempts = map(self._reader.reviewed, parse_attempts(decoded))
        spec, template = review.spec, review.template
        try:
            return build_placement_review(
                ReviewedWorkload(template.kind, template.name, review.replicas),
                attempts,
                every_node=spec.all_nodes,
                node=spec.node,
            )
        except KeyError as e:
            raise StatusError(404, f'nodes "{spec.node}" not found') from e
        except ValueError as e:
            raise StatusError(500, f"the scheduler's answer makes no sense: {e}") from e


def _parse_request(namespace: str) -> ReviewRequest:
    body = read_body(MAX_BODY_BYTES, "a review")
    try:
        review = decode_json(body, PlacementReview)
        template = parse_pod_template(_find_object(review.spec))
    except PodTemplateError as e:
        raise StatusError(422, f"spec.object: {e}") from e  # also of one that is written in spec.manifest
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise StatusError(400, f"not a {REVIEW.kind}: {e}") from e
    if review.kind != REVIEW.kind:
        raise StatusError(400, f"kind: expected {REVIEW.kind}")
    if template.namespace not in ("", namespace):
        raise StatusError(400, f'the namespace of the object, "{template.namespace}", is not "{namespace}"')
    for name, what in ((template.name, "spec.object.metadata.name"), (review.spec.node, "spec.node")):
        check_name(name, what)
    replicas = template.replicas if review.spec.replicas is None else review.spec.replicas
    if not 1 <= replicas <= MAX_REPLICAS:
        raise StatusError(422, f"spec.replicas: expected 1 to {MAX_REPLICAS}, got {replicas}")
    scheduler = review.spec.scheduler_name or template.scheduler or DEFAULT_SCHEDULER
    return ReviewRequest(review.spec, template, namespace, scheduler, replicas)


def _find_object(spec: PlacementReviewSpec) -> Json:
    """Return the object of a review, which is JSON or a manifest. Raises StatusError for neither and for both."""
    if spec.manifest:
        if spec.object is not None:
            raise StatusError(422, "spec.manifest: not together with spec.object")
        return parse_manifest(spec.manifest)
    if spec.object is None:
        raise StatusError(400, f"not a {REVIEW.kind}: Object missing required field `object` - at `$.spec`")
    return spec.object


def _strip_pod(pod: Json) -> Json:
    """Return the pod without annotations, and its containers with only the fields that scheduling reads."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _DROPPED_METADATA_FIELDS}
    spec = {key: strip_containers(value) if key in CONTAINER_LISTS else value for key, value in pod["spec"].items()}
    return pod | {"metadata": metadata, "spec": spec}


def strip_containers(value: Any) -> Any:
    """Return a list of containers with only the fields that scheduling reads.

    A value that is not a list is returned unchanged, because the scheduler refuses it with an error.
    """
    if not isinstance(value, list):
        return value
    return [{k: c[k] for k in _KEPT_CONTAINER_FIELDS if k in c} if isinstance(c, dict) else c for c in value]


def build_no_scheduler_error(reviews: ReviewStore) -> StatusError:
    """Return a 503 error for a question that no scheduler can answer; it says when a scheduler was last seen."""
    seen_s = reviews.last_seen_s()
    when = "none was seen in the last hour" if seen_s is None else f"last seen {seen_s:.0f} s ago"
    return retry_later(503, f"no scheduler answers what-ifs ({when})")


def find_reviewer(
    reviewers: Sequence[ReviewingScheduler], scheduler: str, cluster: str, own: str
) -> ReviewingScheduler:
    """Return the one entry of `reviewers` that has this scheduler name and cluster.

    `own` is the ID of the service's cluster. It is used if `cluster` is "", and for entries without a cluster. Raises
    StatusError 404 if no entry matches, and 400 if entries of several clusters match.
    """
    wanted = cluster or own
    in_cluster = [r for r in reviewers if not wanted or r.cluster == wanted or (wanted == own and not r.cluster)]
    matches = [r for r in in_cluster if r.scheduler == scheduler]
    if not matches:
        names = sorted({r.scheduler for r in in_cluster})
        details: StatusDetails = {"name": scheduler, "kind": "schedulers", "known": names}
        message = f'no scheduler named "{scheduler}" answers reviews; these do: {", ".join(names) or "none"}'
        raise StatusError(404, message, details=details)
    if len(matches) > 1:
        clusters = ", ".join(r.cluster for r in matches)
        problem = f"answers reviews in several clusters; name one (--cluster of the plugin): {clusters}"
        raise StatusError(400, f'spec.cluster: scheduler "{scheduler}" {problem}')
    return matches[0]


def new_review_id(now_s: float) -> str:
    """Return a new review ID that sorts by its creation time `now_s` and cannot be guessed."""
    return f"{int(now_s * 1e6):016x}-{secrets.token_hex(8)}"
