"""The thread that answers reviews while this process leads: a question, a copy of the state, an answer.

Owns: one review at a time, its deadline, what a question that cannot be answered is told. Does not own: the copy
(`copies`), the placing (`placing`), requests to the decisions service (`desk`).

Invariant: nothing here touches the loop's state; whatever goes wrong, the next question is asked for.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from herodotus_record import codec
from scheduler import klog
from scheduler.evaluate.cluster import ManifestError
from scheduler.framework.extender import Extender
from scheduler.framework.extenders import Extenders
from scheduler.framework.runtime import Framework
from scheduler.kube.http import ApiError, ApiServer
from scheduler.reviews.controllers import ensure
from scheduler.reviews.copies import Copies, CopyError
from scheduler.reviews.desk import Desk, DeskError, Question
from scheduler.reviews.placing import Origin, place
from scheduler.reviews.pods import Pods, PriorityClass, pods_of
from scheduler.shared import Shared

DEADLINE_S: Final = 20.0  # of a review, also where its asker would wait longer: some times what the largest takes
REST_S: Final = 0.1  # between two reviews: however many ask, the loop has most of the machine
NOT_READY_S: Final = 0.5  # until we look again whether we lead and have seen the cluster
BACKOFF_S: Final = (1.0, 30.0)  # while the service does not answer, or is of a version that knows no reviews
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


class _Classes(msgspec.Struct):
    items: list[PriorityClass]


class Reviewer:
    """Answers the questions of one decisions service."""

    def __init__(
        self,
        desk: Desk,
        copies: Copies,
        api: ApiServer,
        frameworks: Mapping[str, Framework],
        shared: Shared,
        origin: Origin,
        ready: Callable[[], bool],
        extenders: Callable[[], Sequence[Extender]],
    ) -> None:
        """`ready`: whether we lead and have seen the cluster. `extenders`: connected anew, in the copy."""
        self._desk = desk
        self._copies = copies
        self._api = api
        self._frameworks = frameworks
        self._shared = shared
        self._origin = origin
        self._ready = ready
        self._extenders = extenders
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reviews", daemon=True)

    def start(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def close(self) -> None:
        """Ask no more; does not wait for a question under way."""
        self._stop.set()

    def _run(self) -> None:
        pause = BACKOFF_S[0]
        while not self._stop.is_set():
            if not self._ready():
                self._stop.wait(NOT_READY_S)
                continue
            try:
                question = self._desk.next()
                if question is not None:
                    self.review(question)
                    self._stop.wait(REST_S)
                pause = BACKOFF_S[0]
            except DeskError as e:
                klog.info(2, "Cannot ask the decisions service for reviews, trying again", err=str(e))
                self._stop.wait(pause * random.uniform(1, 1.5))
                pause = min(pause * 2, BACKOFF_S[1])
        self._desk.close()

    def review(self, question: Question) -> None:
        """Answer one question. DeskError when the answer cannot be delivered."""
        klog.info(2, "Reviewing", namespace=question.namespace, name=question.template.name, pods=question.replicas)
        try:
            asked = self._pods(question)
            answer = self._copies.run(lambda: self._placed(question, asked), min(question.deadline_s, DEADLINE_S))
        except ManifestError as e:
            self._desk.refuse(question, 422, str(e))
        except (CopyError, ApiError) as e:
            self._desk.refuse(question, 503, str(e))
        else:
            self._desk.answer(question, answer)

    def _pods(self, question: Question) -> Pods:
        """ManifestError where the pod is none; ApiError where its priority cannot be found out."""
        classes = msgspec.json.decode(self._api.get(PRIORITY_CLASSES), type=_Classes)
        named = {c.metadata.name: c for c in classes.items}
        return pods_of(question.template, question.namespace, question.scheduler, question.replicas, named)

    def _placed(self, question: Question, asked: Pods) -> bytes:
        """In the copy, where everything may be changed."""
        framework = self._frameworks[question.scheduler]
        ensure(asked.controller, self._shared.objects)
        framework.extenders = Extenders(self._extenders())
        frames = place(framework, self._shared.cache.columns, asked, self._origin, random.getrandbits(31))
        return b"".join(map(codec.encode, frames))
