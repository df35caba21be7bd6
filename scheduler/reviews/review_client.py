"""Client of the decisions service's review queue: fetches the next review and posts its answer.

Owns: those requests and their form. Does not own: the review itself (`reviewer`), credentials (`recorder.endpoint`).

The scheduler connects to the service, never the other way. The connection, its credentials and its network policy are
those of the records, and the service need not find out which replica leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from herodotus_record import cluster_reviews, codec
from herodotus_record.cluster_reviews import ClusterReviewSpec
from herodotus_record.templates import PodTemplate, PodTemplateError
from scheduler.recorder.connection import ServiceConnection
from scheduler.recorder.endpoint import ServiceEndpoint

Json = dict[str, Any]

WAIT_S: Final = 20.0  # how long the service may hold a request for the next review
PATIENCE_S: Final = WAIT_S + 10.0
REFUSED: Final = "application/json"
PLACEMENT_REVIEW: Final = "PlacementReview"
KINDS: Final = (PLACEMENT_REVIEW, cluster_reviews.KIND)
CLUSTER_ANSWER: Final = "application/vnd.herodotus.clusterreview+json"
PROGRESS: Final = "application/vnd.herodotus.progress+json"
_NOBODY_WAITS: Final = 404


class ReviewClientError(Exception):
    """The decisions service did not respond to a request about reviews, or its response is invalid."""


@dataclass(frozen=True)
class ReceivedReview:
    """A review (a question where given pods would be placed) that the decisions service hands to this scheduler.

    `scheduler` is the profile that decides. `deadline_s` is how many seconds the reader waits for the answer.
    """

    id: str
    namespace: str
    scheduler: str
    template: PodTemplate
    replicas: int
    deadline_s: float


@dataclass(frozen=True)
class ReceivedClusterReview:
    """A question about the whole cluster that the decisions service hands to this scheduler.

    `deadline_s` is how many seconds the service waits for the answer.
    """

    id: str
    spec: ClusterReviewSpec
    deadline_s: float


Received = ReceivedReview | ReceivedClusterReview


class NobodyWaitsError(Exception):
    """The client of a review no longer waits for the answer."""


class ReviewClient:
    """Fetches reviews from the decisions service and posts the answers, for the profiles of this scheduler process.

    A review is a question where given pods would be placed.
    """

    def __init__(
        self,
        endpoint: ServiceEndpoint,
        cluster: str,
        schedulers: Sequence[str],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Store the settings without connecting.

        `cluster` is the cluster id in the records of this process, and `schedulers` its profiles. `transport` replaces
        the network in tests.
        """
        self._endpoint, self._transport = endpoint, transport
        self._connection = ServiceConnection(endpoint, PATIENCE_S, transport)
        self._url = f"{endpoint.url.rstrip('/')}/ingest/v1/reviews"
        self._cluster_params = [("cluster", cluster)]
        self._request_params = [
            *self._cluster_params,
            *(("scheduler", name) for name in schedulers),
            *(("kind", kind) for kind in KINDS),
            ("wait", str(int(WAIT_S))),
        ]

    def for_other_thread(self) -> ReviewClient:
        """Return a client with a connection of its own, for answers from another thread."""
        schedulers = [value for name, value in self._request_params if name == "scheduler"]
        return ReviewClient(self._endpoint, self._cluster_params[0][1], schedulers, self._transport)

    def next_request(self, busy: Sequence[str] = ()) -> Received | None:
        """Return the review that has waited longest, or None if there is none for WAIT_S seconds.

        `busy` are kinds of reviews that cannot be answered now. Raise ReviewClientError if the request fails or the
        review cannot be read.
        """
        params = [*self._request_params, *(("busy", kind) for kind in busy)]
        response = self._send("GET", self._url, params=params)
        if response.status_code == 204:
            return None
        try:
            return _parse_request(msgspec.json.decode(response.content))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, PodTemplateError) as e:
            raise ReviewClientError(f"a question that cannot be read: {e}") from e

    def answer(self, request: ReceivedReview, frames: bytes) -> None:
        """Post the answer to a review, as encoded frames. Raise ReviewClientError if the request fails."""
        headers = {"Content-Type": codec.CONTENT_TYPE, "Content-Encoding": "zstd"}
        self._post_answer(request, headers, codec.compress(frames))

    def answer_cluster_review(self, request: ReceivedClusterReview, status: bytes) -> None:
        """Post the answer to a question about the cluster, as JSON. Raise ReviewClientError if the request fails."""
        headers = {"Content-Type": CLUSTER_ANSWER, "Content-Encoding": "zstd"}
        self._post_answer(request, headers, codec.compress(status))

    def report_progress(self, request: ReceivedClusterReview, done: int, total: int) -> None:
        """Report how many pods were decided and how many are known.

        Raise NobodyWaitsError if the client has stopped waiting, ReviewClientError if the request fails.
        """
        body = msgspec.json.encode({"done": done, "total": total})
        self._post_answer(request, {"Content-Type": PROGRESS}, body)

    def reject(self, request: Received, code: int, message: str) -> None:
        """Report that a review has no answer, with an HTTP status code and a message for its reader.

        Raise ReviewClientError if the request fails.
        """
        self._post_answer(request, {"Content-Type": REFUSED}, msgspec.json.encode({"code": code, "message": message}))

    def close(self) -> None:
        self._connection.close()

    def _post_answer(self, request: Received, headers: dict[str, str], body: bytes) -> None:
        self._send("POST", f"{self._url}/{request.id}", headers, params=self._cluster_params, content=body)

    def _send(self, method: str, url: str, headers: dict[str, str] | None = None, **options: Any) -> httpx.Response:
        try:
            response = self._connection.send(method, url, headers=headers or {}, **options)
        except (OSError, httpx.HTTPError) as e:
            raise ReviewClientError(str(e) or type(e).__name__) from e
        if response.status_code == _NOBODY_WAITS and method == "POST":
            raise NobodyWaitsError(response.text[:200])
        if response.is_error:
            raise ReviewClientError(f"{response.status_code}: {response.text[:200]}")
        return response


def _parse_request(document: Json) -> Received:
    if document.get("kind") == cluster_reviews.KIND:
        spec = msgspec.convert(document["spec"], ClusterReviewSpec)
        return ReceivedClusterReview(str(document["id"]), spec, float(document["deadlineSeconds"]))
    template = document["template"]
    return ReceivedReview(
        id=str(document["id"]),
        namespace=str(document["namespace"]),
        scheduler=str(document["scheduler"]),
        template=PodTemplate(template["kind"], template["name"], template["namespace"], template["pod"], 1),
        replicas=int(document["replicas"]),
        deadline_s=float(document["deadlineSeconds"]),
    )
