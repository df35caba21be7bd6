"""POST placementreviews: where pods would go that nobody creates.

Owns: the form of a question, how long its asker waits, what a review that cannot be had is told. Does not own: the
decision (a scheduler takes the question: `desk`), the document (`herodotus_record.reviews`), what a reader may see.

Invariant: nothing of a review is stored beyond its asker's patience.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from flask import Blueprint, Response

from herodotus_endpoint import bodies, desk, parameters
from herodotus_endpoint.checks import checked
from herodotus_endpoint.errors import ApiError, busy, json_response
from herodotus_endpoint.kubeapi.resources import PREFIX, REVIEW
from herodotus_endpoint.questions import Questions
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.reviews import Answer, Question, Reviewer
from herodotus_record import codec
from herodotus_record.reviews import MAX_REPLICAS, placement_review, reviewed
from herodotus_record.templates import NoTemplateError, Template, template_of

Json = dict[str, Any]

MAX_BODY_BYTES: Final = 256 << 10  # the API server takes objects of 1.5 MB, most of it what scheduling does not read
MAX_WAITING: Final = 16  # for one scheduler, which answers one after the other
WAIT_S: Final = 25.0  # of an asker: the plugin gives up after 30 s
TAKEN_S: Final = WAIT_S - desk.EVALUATION_S  # within which a scheduler must have begun
LOOK_S: Final = 0.05
DEFAULT_SCHEDULER: Final = "default-scheduler"  # what the API server makes of none


_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_CONTAINERS: Final = ("name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules")
_NOT_OF_METADATA: Final = ("annotations", "managedFields")  # kubectl keeps the whole manifest in an annotation


class Spec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What is asked. `object`: a Pod, or a workload with a template. `replicas`: None for as many as the object says.

    `scheduler_name`: instead of the object's own. `node`: what is told of single nodes is of this one; `all_nodes`: of
    every one. `cluster`: where schedulers of several ask for reviews.
    """

    object: dict[str, Any]
    replicas: int | None = None
    scheduler_name: str = ""
    node: str = ""
    all_nodes: bool = False
    cluster: str = ""


class Review(msgspec.Struct, rename="camel"):
    """A PlacementReview as it is sent."""

    spec: Spec
    api_version: str = ""
    kind: str = REVIEW.kind


@dataclass(frozen=True)
class Asked:
    """A question that makes sense."""

    spec: Spec
    template: Template
    namespace: str
    scheduler: str
    replicas: int

    def body(self) -> bytes:
        """As the scheduler is asked: this lies in the database, so without what scheduling does not read."""
        t = self.template
        template = {"kind": t.kind, "name": t.name, "namespace": t.namespace, "pod": _needed(t.pod)}
        question = {"namespace": self.namespace, "scheduler": self.scheduler, "replicas": self.replicas}
        return msgspec.json.encode(question | {"template": template})


def blueprint(store: Store, questions: Questions, settings: Settings) -> Blueprint:
    """The route."""
    views = Reviews(store, questions, settings)
    routes = Blueprint("reviews", __name__, url_prefix=PREFIX)
    rule = f"/namespaces/<namespace>/{REVIEW.plural}"
    routes.add_url_rule(rule, "create", views.create, methods=["POST"], provide_automatic_options=False)
    return routes


class Reviews:
    """The view over one store."""

    def __init__(self, store: Store, questions: Questions, settings: Settings) -> None:
        self._reviews = store.reviews
        self._questions = questions
        self._clock = settings.clock
        self._places = threading.BoundedSemaphore(settings.max_reviews)
        self._most = settings.max_reviews

    def create(self, namespace: str) -> Response:
        """Have it decided, and say what came of it."""
        parameters.known("fieldManager", "pretty", "dryRun", "fieldValidation")
        asked = _asked(parameters.name(namespace, "the namespace"))
        reviewer = _reviewer(self._reviews.reviewers(desk.SILENT_S), asked.scheduler, asked.spec.cluster)
        if not self._places.acquire(blocking=False):
            raise busy(429, f"{self._most} reviews are under way; ask again")
        try:
            answer = self._answer(Question(_id(self._clock()), reviewer, asked.body()))
        finally:
            self._places.release()
        return json_response(self._document(answer, asked), 201)

    def _answer(self, question: Question) -> Answer:
        """What the scheduler said. ApiError where it was not in time, or could not be any more.

        A question that is taken so late that the scheduler may need longer than its asker waits is asked in vain, and
        keeps others waiting.
        """
        if not self._reviews.ask(question, MAX_WAITING):
            raise busy(429, f"{MAX_WAITING} reviews wait for this scheduler; ask again")
        try:
            began = time.monotonic()
            while (waited_s := time.monotonic() - began) < WAIT_S:
                answer = self._reviews.look(question.id)
                if answer is not None:
                    return answer
                if waited_s > TAKEN_S and not self._reviews.taken(question.id):
                    raise self._not_taken(question)
                time.sleep(LOOK_S)
        finally:
            self._reviews.withdraw(question.id)
        said = f'scheduler "{question.reviewer.scheduler}" has not answered within {WAIT_S:.0f} s'
        raise ApiError(504, said, reason="Timeout")

    def _not_taken(self, question: Question) -> ApiError:
        """Why nobody has begun with it: others are before it, or the scheduler is not there any more."""
        if self._reviews.is_first(question):
            return busy(503, f'scheduler "{question.reviewer.scheduler}" takes no reviews, for {TAKEN_S:.0f} s already')
        return busy(429, f"other reviews are before this one, for {TAKEN_S:.0f} s already; ask again")

    def _document(self, answer: Answer, asked: Asked) -> Json:
        if answer.type != codec.CONTENT_TYPE:
            refused = msgspec.json.decode(answer.body, type=desk.Refused)
            raise ApiError(refused.code, refused.message)
        frames = (checked(codec.decode(raw)) for _, raw in codec.split(desk.unpacked(answer.body)))
        attempts = map(self._questions.reviewed, reviewed(frames))
        spec, template = asked.spec, asked.template
        try:
            return placement_review(
                attempts,
                name=template.name,
                kind=template.kind,
                asked=asked.replicas,
                every_node=spec.all_nodes,
                node=spec.node,
            )
        except KeyError as e:
            raise ApiError(404, f'nodes "{spec.node}" not found') from e
        except ValueError as e:
            raise ApiError(500, f"the scheduler's answer makes no sense: {e}") from e


def _asked(namespace: str) -> Asked:
    body = bodies.read(MAX_BODY_BYTES, "a review")
    try:
        review = msgspec.json.decode(body, type=Review)
        template = template_of(review.spec.object)
    except NoTemplateError as e:
        raise ApiError(422, f"spec.object: {e}") from e
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ApiError(400, f"not a {REVIEW.kind}: {e}") from e
    if review.kind != REVIEW.kind:
        raise ApiError(400, f"kind: expected {REVIEW.kind}")
    if template.namespace not in ("", namespace):
        raise ApiError(400, f'the namespace of the object, "{template.namespace}", is not "{namespace}"')
    for name, what in ((template.name, "spec.object.metadata.name"), (review.spec.node, "spec.node")):
        parameters.name(name, what)
    replicas = template.replicas if review.spec.replicas is None else review.spec.replicas
    if not 1 <= replicas <= MAX_REPLICAS:
        raise ApiError(422, f"spec.replicas: {replicas} pods are asked about; it must be 1 to {MAX_REPLICAS}")
    scheduler = review.spec.scheduler_name or template.scheduler or DEFAULT_SCHEDULER
    return Asked(review.spec, template, namespace, scheduler, replicas)


def _needed(pod: Json) -> Json:
    """The pod without environment, arguments and commands of its containers, and without annotations."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _NOT_OF_METADATA}
    spec = {key: _containers(value) if key in _CONTAINERS else value for key, value in pod["spec"].items()}
    return pod | {"metadata": metadata, "spec": spec}


def _containers(value: Any) -> Any:
    """What is no list of objects is left for the scheduler to refuse."""
    if not isinstance(value, list):
        return value
    return [{k: c[k] for k in _OF_CONTAINERS if k in c} if isinstance(c, dict) else c for c in value]


def _reviewer(known: Sequence[Reviewer], scheduler: str, cluster: str) -> Reviewer:
    """Who answers. ApiError where nobody does, or it is not said who."""
    if not known:
        raise busy(503, "no scheduler answers reviews: none that leads has been heard of lately (run --endpoint)")
    found = [r for r in known if r.scheduler == scheduler and cluster in ("", r.cluster)]
    if not found:
        names = sorted({r.scheduler for r in known})
        details = {"name": scheduler, "kind": "schedulers", "known": names}
        said = f'no scheduler named "{scheduler}" answers reviews; these do: {", ".join(names)}'
        raise ApiError(404, said, details=details)
    if len(found) > 1:
        clusters = ", ".join(r.cluster for r in found)
        raise ApiError(400, f'spec.cluster: scheduler "{scheduler}" answers reviews in several clusters: {clusters}')
    return found[0]


def _id(now_s: float) -> str:
    """In order of asking, and not to be guessed."""
    return f"{int(now_s * 1e6):016x}-{secrets.token_hex(8)}"
