"""Client of the decisions service's review queue: fetches the next question of a kind and posts its answer.

Owns: those requests and their form. Does not own: the question's content, which only a forked copy decodes (`trials`),
credentials (`recorder.endpoint`).

The scheduler connects to the service, never the other way. The connection, its credentials and its network policy are
those of the records, and the service need not find out which replica leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from herodotus_answers import cluster_review
from herodotus_record import codec
from herodotus_record.typed_decoding import decode_json
from scheduler.recorder.endpoint import ServiceConnection, ServiceEndpoint

WAIT_S: Final = 20.0  # how long the service may hold a request for the next review
PATIENCE_S: Final = WAIT_S + 10.0
REFUSED: Final = "application/json"
PLACEMENT_REVIEW: Final = "PlacementReview"
CLUSTER_REVIEW: Final = cluster_review.KIND
KINDS: Final = (PLACEMENT_REVIEW, CLUSTER_REVIEW)
PROGRESS: Final = "application/vnd.herodotus.progress+json"
_ANSWERS: Final = {  # media type of the answer by kind of review
    PLACEMENT_REVIEW: codec.CONTENT_TYPE,
    CLUSTER_REVIEW: "application/vnd.herodotus.clusterreview+json",
}
_NOBODY_WAITS: Final = 404


class ReviewClientError(Exception):
    """The decisions service did not respond to a request about reviews, or its response is invalid."""


@dataclass(frozen=True)
class ReceivedReview:
    """A question that the decisions service hands to this scheduler.

    `question` is the JSON document as received. `deadline_s` is how many seconds the service waits for the answer.
    """

    id: str
    kind: str
    question: bytes
    deadline_s: float


class _Envelope(msgspec.Struct, rename="camel"):
    """The fields of a question that the scheduler's own process reads."""

    id: str
    deadline_seconds: float
    kind: str = PLACEMENT_REVIEW


class NobodyWaitsError(Exception):
    """The client of a review no longer waits for the answer."""


class ReviewClient:
    """Fetches reviews from the decisions service and posts the answers, for the profiles of this scheduler process.

    For use by one thread.
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
        """Return a client with a connection of its own, for another thread."""
        schedulers = [value for name, value in self._request_params if name == "scheduler"]
        return ReviewClient(self._endpoint, self._cluster_params[0][1], schedulers, self._transport)

    def next_request(self, kind: str) -> ReceivedReview | None:
        """Wait at most WAIT_S seconds for the next review of a kind, and return it, or None if there is none.

        The request also announces that this scheduler answers every kind, so that the service does not consider the
        scheduler gone while one of its threads works on a long answer. Raise ReviewClientError if the request fails or
        the review cannot be read.
        """
        others = [("busy", other) for other in KINDS if other != kind]
        response = self._send("GET", self._url, params=[*self._request_params, *others])
        if response.status_code == 204:
            return None
        try:
            envelope = decode_json(response.content, _Envelope)
        except (ValueError, RecursionError) as e:
            raise ReviewClientError(f"a question that cannot be read: {e}") from e
        if envelope.kind != kind:
            raise ReviewClientError(f"a {envelope.kind[:40]} where a {kind} was requested")
        return ReceivedReview(envelope.id, envelope.kind, response.content, envelope.deadline_seconds)

    def answer(self, request: ReceivedReview, answer: bytes) -> None:
        """Post the compressed answer to a review. Raise ReviewClientError if the request fails."""
        headers = {"Content-Type": _ANSWERS[request.kind], "Content-Encoding": "zstd"}
        self._post_answer(request, headers, answer)

    def report_progress(self, request: ReceivedReview, done: int, total: int, smallest: int = 0) -> None:
        """Report that `done` of `total` pods were decided, and the changes of the smallest plan that was found.

        Raise NobodyWaitsError if the client has stopped waiting, ReviewClientError if the request fails.
        """
        body = msgspec.json.encode({"done": done, "total": total, "smallestPlan": smallest})
        self._post_answer(request, {"Content-Type": PROGRESS}, body)

    def reject(self, request: ReceivedReview, code: int, message: str) -> None:
        """Report that a review has no answer, with an HTTP status code and a message for its reader.

        Raise ReviewClientError if the request fails.
        """
        self._post_answer(request, {"Content-Type": REFUSED}, msgspec.json.encode({"code": code, "message": message}))

    def close(self) -> None:
        self._connection.close()

    def _post_answer(self, request: ReceivedReview, headers: dict[str, str], body: bytes) -> None:
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
