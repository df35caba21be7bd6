"""The thread that answers reviews while this process leads, each on a copy of the process's state of the cluster.

Owns: running one review at a time, its deadline, the error for a review that cannot be answered. Does not own: the copy
(`forked_copies`), the placement (`engine.whatif`), requests to the decisions service (`review_client`).

Invariant: nothing here changes the process's state, and every failure is followed by the next review.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from herodotus_record import codec
from herodotus_record.cluster_reviews import ClusterReviewSpec, ClusterReviewStatus
from herodotus_record.model import Reason
from herodotus_record.notes import format_note
from scheduler import klog
from scheduler.backend.cluster_state import ClusterState
from scheduler.engine.framework.extender import Extender
from scheduler.engine.framework.extenders import Extenders
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.nodegroups.reading import AutoscalingObjects, read_autoscaling_objects
from scheduler.engine.objects.types import Pod
from scheduler.engine.records.build import Origin
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.controllers import ensure
from scheduler.engine.whatif.placement import CopiedCluster, place
from scheduler.engine.whatif.pods import Pods, PriorityClass, build_pods
from scheduler.engine.whatif.simulation import WhatIfState
from scheduler.kube.http import ApiError, ApiServer
from scheduler.reviews.cluster_reviewer import ClusterReviewer, decode_answer, encode_answer
from scheduler.reviews.forked_copies import ForkedCopies, ForkedCopyError, Report, StateThread, Trial
from scheduler.reviews.review_client import (
    NobodyWaitsError,
    ReceivedClusterReview,
    ReceivedReview,
    ReviewClient,
    ReviewClientError,
)

DEADLINE_S: Final = 20.0  # of a review, even where its client waits longer; the largest takes a fraction of it
REST_S: Final = 0.1  # between two reviews, so that the process's own work keeps most of the machine
NOT_READY_S: Final = 0.5  # until it is checked again whether this process leads and has listed the cluster
BACKOFF_S: Final = (1.0, 30.0)  # while the service does not answer, or is too old for reviews
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


class _Classes(msgspec.Struct):
    items: list[PriorityClass]


@dataclass(frozen=True)
class ReviewedState:
    """The state of a process that answers reviews, and what the process can do with it.

    `thread` changes the state. `frameworks` has the framework of each profile by scheduler name. `pending` returns the
    pods without a node. `extenders` connects to the extenders anew; both are called in the copy. `notes` returns
    remarks about the answers for a scheduler name. `is_active` says whether this process answers, because it leads or
    is the only one.
    """

    thread: StateThread
    cluster: ClusterState
    frameworks: Mapping[str, Framework]
    pending: Callable[[], Sequence[Pod]]
    extenders: Callable[[], Sequence[Extender]] = tuple
    notes: Callable[[str], Iterable[Reason]] = lambda _scheduler: ()
    is_active: Callable[[], bool] = lambda: True


class ReviewWorker:
    """A thread that answers reviews (questions where given pods would be placed), one after the other.

    It fetches them from the decisions service. Questions about the whole cluster take longer: one at a time is answered
    in a thread of its own.
    """

    def __init__(self, state: ReviewedState, client: ReviewClient, api: ApiServer, origin: Origin) -> None:
        """Prepare the thread without starting it."""
        self._state = state
        self._copies = ForkedCopies(state.thread)
        self._client = client
        self._api = api
        self._origin = origin
        self._clusters = ClusterReviewer(self._copies, self.build_trial, client.for_other_thread())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reviews", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread without waiting for a request in flight."""
        self._stop.set()

    def _run(self) -> None:
        pause = BACKOFF_S[0]
        while not self._stop.is_set():
            if not self.is_ready:
                self._stop.wait(NOT_READY_S)
                continue
            try:
                request = self._client.next_request(self._clusters.busy_kinds)
                if isinstance(request, ReceivedClusterReview):
                    self._clusters.start(request)
                elif request is not None:
                    self.review(request)
                    self._stop.wait(REST_S)
                pause = BACKOFF_S[0]
            except NobodyWaitsError as e:
                klog.info(2, "The client of a review has stopped waiting", err=str(e))
            except ReviewClientError as e:
                klog.info(2, "Cannot ask the decisions service for reviews, trying again", err=str(e))
                self._stop.wait(pause * random.uniform(1, 1.5))
                pause = min(pause * 2, BACKOFF_S[1])
        self._client.close()

    def review(self, request: ReceivedReview) -> None:
        """Decide the pods of one review and post the answer, or the reason why there is none.

        Raise ReviewClientError if the answer cannot be posted.
        """
        klog.info(2, "Reviewing", namespace=request.namespace, name=request.template.name, pods=request.replicas)
        try:
            pods = self._pods(request)
            answer = self._copies.run(lambda _report: self._placed(request, pods), min(request.deadline_s, DEADLINE_S))
        except ManifestError as e:
            self._client.reject(request, 422, str(e))
        except (ForkedCopyError, ApiError) as e:
            self._client.reject(request, 503, str(e))
        else:
            self._client.answer(request, answer)

    def _classes(self) -> dict[str, PriorityClass]:
        """Return the cluster's PriorityClasses by name. Raise ApiError if they cannot be read."""
        classes = msgspec.json.decode(self._api.get(PRIORITY_CLASSES), type=_Classes)
        return {c.metadata.name: c for c in classes.items}

    def _get(self, path: str) -> bytes | int:
        """Return the body of a response of the API server, or the HTTP status code of its refusal."""
        try:
            return self._api.get(path)
        except ApiError as e:
            if not e.code:
                raise
            return e.code

    @property
    def is_ready(self) -> bool:
        """Whether this process may answer questions now: it leads and has listed the whole cluster."""
        return self._state.thread.synced and self._state.is_active()

    def run_cluster_review(self, spec: ClusterReviewSpec, deadline_s: float) -> ClusterReviewStatus:
        """Return the answer to a question about the cluster that this process asks itself.

        Raise ApiError if objects cannot be read, ForkedCopyError if there is no answer within `deadline_s` seconds.
        """
        return decode_answer(self._copies.run(self.build_trial(spec), deadline_s))

    def build_trial(self, spec: ClusterReviewSpec) -> Trial:
        """Return the function that answers a question about the cluster in a forked copy, whose state it changes.

        Raise ApiError if the PriorityClasses cannot be read.
        """
        classes, state = self._classes(), self._state
        read = AutoscalingObjects()
        if spec.node_groups is not None or spec.scale_down is not None:
            pods = spec.node_groups.pods if spec.node_groups is not None else ()
            read = read_autoscaling_objects(self._get, pods)
        first = next(iter(state.frameworks.values()))
        others = set[str]()

        def find_framework(scheduler: str) -> Framework:
            if scheduler not in state.frameworks:
                others.add(scheduler)
            return state.frameworks.get(scheduler, first)

        def build_notes() -> Iterator[str]:
            for name in state.frameworks:
                yield from map(format_note, state.notes(name))
            for name in sorted(others):
                yield f"pods of scheduler {name} are decided as those of {first.profile.scheduler_name}"

        def answer(report: Report) -> bytes:
            extenders, cluster = Extenders(state.extenders()), state.cluster
            for framework in state.frameworks.values():
                framework.extenders = extenders
            for obj in read.objects:
                cluster.objects.set(obj)
            columns, pending = cluster.cache.columns, state.pending()
            whatif = WhatIfState(columns, cluster.objects, cluster.nominator, find_framework, pending, read.note)
            seed = random.getrandbits(31)
            return encode_answer(lambda: answer_review(whatif, spec, report, seed, classes), build_notes)

        return answer

    def _pods(self, request: ReceivedReview) -> Pods:
        """Return the pods that a review asks about, with the priorities of the cluster's PriorityClasses.

        Raise ManifestError for an invalid pod, ApiError if the PriorityClasses cannot be read.
        """
        classes = self._classes()
        pods = build_pods(request.template, request.namespace, request.scheduler, request.replicas, classes)
        return pods.with_notes(self._state.notes(request.scheduler))

    def _placed(self, request: ReceivedReview, pods: Pods) -> bytes:
        """Place the pods one after the other and return the records as encoded frames.

        The service reads them without negotiating a version, and it may be of the release before this one. It runs in
        the forked copy, whose state it changes.
        """
        framework, cluster = self._state.frameworks[request.scheduler], self._state.cluster
        ensure(pods.controller, cluster.objects)
        framework.extenders = Extenders(self._state.extenders())
        copy = CopiedCluster(cluster.cache.columns, cluster.objects)
        frames = place(framework, copy, pods, self._origin, random.getrandbits(31))
        return b"".join(map(codec.encode_for_older_release, frames))
