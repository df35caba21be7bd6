"""The thread that answers one question about the whole cluster at a time, beside the thread that fetches reviews.

Owns: the thread, progress reports, and the answer's form between the forked copy and this process. Does not own: the
answer (`engine.whatif.changes`), the copy (`forked_copies`), requests (`review_client`).

Invariant: at most one such question is answered at a time, and it ends when its client stops waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from herodotus_record.cluster_reviews import KIND, ClusterReviewSpec, ClusterReviewStatus
from scheduler import klog
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.whatif.changes import ClusterReviewError
from scheduler.kube.http import ApiError
from scheduler.reviews.forked_copies import ForkedCopies, ForkedCopyError, Trial
from scheduler.reviews.review_client import (
    NobodyWaitsError,
    ReceivedClusterReview,
    ReviewClient,
    ReviewClientError,
)

DEADLINE_S: Final = 300.0  # 10,000 pods take about a minute on 5,000 nodes
_ANSWER, _INVALID = b"+", b"-"


class ClusterReviewer:
    """Answers questions about the whole cluster, each in a forked copy and in a thread of its own."""

    def __init__(
        self, copies: ForkedCopies, build_trial: Callable[[ClusterReviewSpec], Trial], client: ReviewClient
    ) -> None:
        """`build_trial` returns the function that answers a question in the copy, or raises ApiError."""
        self._copies, self._build_trial, self._client = copies, build_trial, client
        self._thread: threading.Thread | None = None

    @property
    def busy_kinds(self) -> tuple[str, ...]:
        """The kinds of reviews that cannot be answered now."""
        return (KIND,) if self._thread is not None and self._thread.is_alive() else ()

    def start(self, request: ReceivedClusterReview) -> None:
        """Answer a question in a thread. No other question may be in progress."""
        self._thread = threading.Thread(target=self.review, args=(request,), name="cluster-review", daemon=True)
        self._thread.start()

    def review(self, request: ReceivedClusterReview) -> None:
        """Answer one question, or report why there is no answer."""
        klog.info(2, "Reviewing the cluster", id=request.id)
        try:
            self._answer(request)
        except NobodyWaitsError:
            klog.info(2, "The client of a review of the cluster has stopped waiting", id=request.id)
        except ReviewClientError as e:
            klog.info(2, "Cannot answer a review of the cluster", err=str(e))

    def _answer(self, request: ReceivedClusterReview) -> None:
        try:
            answer = self._copies.run(
                self._build_trial(request.spec),
                min(request.deadline_s, DEADLINE_S),
                lambda done, total: self._client.report_progress(request, done, total),
            )
        except (ForkedCopyError, ApiError) as e:
            self._client.reject(request, 503, str(e))
            return
        if answer[:1] == _ANSWER:
            self._client.answer_cluster_review(request, answer[1:])
        else:
            self._client.reject(request, 422, answer[1:].decode())


def encode_answer(answer: Callable[[], ClusterReviewStatus], notes: Callable[[], Iterable[str]]) -> bytes:
    """Return an answer with further notes, or why the question is invalid, as bytes for the parent process."""
    try:
        status = answer()
    except (ClusterReviewError, ManifestError) as e:
        return _INVALID + str(e).encode()
    status.notes = [*notes(), *status.notes]
    return _ANSWER + msgspec.json.encode(status)


def decode_answer(answer: bytes) -> ClusterReviewStatus:
    """Return the answer that `encode_answer` encoded. Raise ForkedCopyError if the question was invalid."""
    if answer[:1] != _ANSWER:
        raise ForkedCopyError(answer[1:].decode())
    return msgspec.json.decode(answer[1:], type=ClusterReviewStatus)
