"""The threads that answer reviews while this process leads, each on a copy of the process's state of the cluster.

Owns: one thread for each kind of review, its deadline, the error for a review that cannot be answered. Does not own:
the copy (`forked_copies`), what it does (`trials`), requests to the decisions service (`review_client`).

A question about the whole cluster may take minutes, and one about a pod less than a second, so each kind has a thread
with a connection of its own and neither waits for the other.

Invariant: nothing here changes the process's state or reads what a question describes; of each kind at most one review
is answered at a time; every failure is followed by the next review.
"""

from __future__ import annotations

import random
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from scheduler.engine.nodegroups.reading import AutoscalingObjects, read_autoscaling_objects
from scheduler.engine.progress import ProgressReport
from scheduler.engine.records.build import Origin
from scheduler.reviews.forked_copies import ForkedCopies, ForkedCopyError, RefusedQuestionError, Trial
from scheduler.reviews.review_client import (
    CLUSTER_REVIEW,
    PLACEMENT_REVIEW,
    NobodyWaitsError,
    ReceivedReview,
    ReviewClient,
    ReviewClientError,
)
from scheduler.reviews.reviewed_state import ReviewedState

if TYPE_CHECKING:
    from herodotus_answers.cluster_questions import ClusterQuestion
    from herodotus_answers.cluster_review import ClusterReviewStatus

DEADLINES_S: Final = {  # of a review, even where its client waits longer
    PLACEMENT_REVIEW: 20.0,  # the largest takes a fraction of it
    CLUSTER_REVIEW: 300.0,  # 10,000 pods take about a minute on 5,000 nodes
}
REST_S: Final = 0.1  # between two reviews, so that the process's own work keeps most of the machine
NOT_READY_S: Final = 0.5  # until it is checked again whether this process leads and has listed the cluster
BACKOFF_S: Final = (1.0, 30.0)  # while the service does not answer, or is too old for reviews
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


class ReviewWorker:
    """Threads that answer reviews, which are questions about pods or changes that do not exist."""

    def __init__(self, state: ReviewedState, client: ReviewClient, api: ApiServer, origin: Origin) -> None:
        """Prepare the threads without starting them."""
        self._state = state
        self._copies = ForkedCopies(state.thread)
        self._api = api
        self._origin = origin
        self._stop = threading.Event()
        clients = {PLACEMENT_REVIEW: client, CLUSTER_REVIEW: client.for_other_thread()}
        self._threads = [
            threading.Thread(target=self._run, args=(kind, its), name=kind, daemon=True)
            for kind, its in clients.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads without waiting for requests in flight."""
        self._stop.set()

    def _run(self, kind: str, client: ReviewClient) -> None:
        """Fetch reviews of one kind and answer them until `close` is called."""
        pause = BACKOFF_S[0]
        while not self._stop.is_set():
            if not self.is_ready:
                self._stop.wait(NOT_READY_S)
                continue
            try:
                request = client.next_request(kind)
                if request is not None:
                    self.review(request, client)
                    self._stop.wait(REST_S)
                pause = BACKOFF_S[0]
            except NobodyWaitsError as e:
                klog.info(2, "The client of a review has stopped waiting", err=str(e))
            except ReviewClientError as e:
                klog.info(2, "Cannot ask the decisions service for reviews, trying again", err=str(e))
                self._stop.wait(pause * random.uniform(1, 1.5))
                pause = min(pause * 2, BACKOFF_S[1])
        client.close()

    def review(self, request: ReceivedReview, client: ReviewClient) -> None:
        """Answer one review, or report why there is no answer.

        Raise ReviewClientError if the service does not accept the answer, NobodyWaitsError if the client no longer
        waits.
        """
        klog.info(2, "Reviewing", kind=request.kind, id=request.id)
        try:
            trial = self._build_trial(request.kind, request.question)
            deadline_s = min(request.deadline_s, DEADLINES_S[request.kind])
            answer = self._copies.run(trial, deadline_s, partial(client.report_progress, request))
        except RefusedQuestionError as e:
            client.reject(request, 422, str(e))
        except (ForkedCopyError, ApiError) as e:
            client.reject(request, 503, str(e))
        else:
            client.answer(request, answer)

    @property
    def is_ready(self) -> bool:
        """Whether this process may answer questions now: it leads and has listed the whole cluster."""
        return self._state.thread.synced and self._state.is_active()

    def run_cluster_review(self, spec: ClusterQuestion, deadline_s: float) -> ClusterReviewStatus:
        """Return the answer to a question about the cluster that this process asks itself.

        Raise ApiError if objects cannot be read, ForkedCopyError or RefusedQuestionError if there is no answer within
        `deadline_s` seconds.
        """
        from scheduler.reviews import trials

        trial = self._build_trial(CLUSTER_REVIEW, trials.encode_cluster_question(spec))
        return trials.decode_cluster_answer(self._copies.run(trial, deadline_s))

    def _build_trial(self, kind: str, question: bytes) -> Trial:
        """Read what a question needs from the API server, and return the function that answers it in a forked copy.

        Raise ApiError if the objects cannot be read, RefusedQuestionError if the question needs too many or is invalid.
        """
        from scheduler.reviews import trials  # with the first question, and not in the copy: a thread may be importing

        state, classes = self._state, self._api.get(PRIORITY_CLASSES)
        if kind == PLACEMENT_REVIEW:
            return lambda _report: trials.place_pods(state, question, classes, self._origin)
        pods = trials.list_examined_pods(question)
        read = AutoscalingObjects() if pods is None else read_autoscaling_objects(self._get, pods)

        def answer(report: ProgressReport) -> bytes:
            return trials.answer_cluster_review(state, question, classes, read, report)

        return answer

    def _get(self, path: str) -> bytes | int:
        """Return the body of a response of the API server, or the HTTP status code of its refusal."""
        try:
            return self._api.get(path)
        except ApiError as e:
            if not e.code:
                raise
            return e.code
