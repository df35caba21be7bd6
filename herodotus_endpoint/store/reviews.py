"""Pending reviews: passing a question from a replica to the scheduler, and the answer back.

Owns: the rows of reviews and reviewers. Does not own: the contents of questions and answers, authorization, timeouts of
requests.

Reviews are in the database because the client and the scheduler may reach different replicas. With one replica this
costs one or two commits. No notification is sent: both sides poll.

Invariant: one scheduler claims a question, and its row is deleted at most ABANDONED_S after its client has stopped
waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import translate_errors
from herodotus_endpoint.store.schema import REVIEWERS, REVIEWS
from herodotus_endpoint.store.writer import Writer

ABANDONED_S: Final = 120.0  # several times a client's timeout: the replica of the client has ended
REVIEWER_KEPT_S: Final = 3600.0  # so that an answer can say since when no scheduler answers
PROGRESS: Final = "application/vnd.herodotus.progress+json"  # media type of what is stored before the answer is
SILENT_S: Final = 60.0  # a client that has not asked for progress for this long waits no longer
MAX_REVIEWERS: Final = 256  # schedulers of one cluster; a scheduler process announces at most 64 profiles


class TooManyReviewersError(ValueError):
    """A cluster announces more schedulers than the service keeps. The message says how many it keeps."""


@dataclass(frozen=True)
class ReviewingScheduler:
    """A scheduler that answers reviews, which are questions about pods that do not exist.

    `cluster` is the id of its cluster, or an empty string if it sends none.
    """

    cluster: str
    scheduler: str


@dataclass(frozen=True)
class ReviewQuestion:
    """A question for a scheduler about pods that do not exist. `body` is passed to the scheduler unchanged."""

    id: str
    reviewer: ReviewingScheduler
    body: bytes


@dataclass(frozen=True)
class ReviewAnswer:
    """A scheduler's answer to a review question. `type` is the media type of `body`."""

    body: bytes
    type: str


class ReviewStore:
    """The stored review questions with their answers, and the schedulers that answer them.

    A replica of the service stores a client's question here; a scheduler claims it through any replica and answers it.
    """

    def __init__(self, writer: Writer, reading: sa.Engine, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._reading = reading
        self._clock = clock

    def register(self, cluster: str, schedulers: Sequence[str]) -> int:
        """Store that these schedulers of a cluster answer reviews, and return the time of that in microseconds.

        The time is the argument `registered_us` of `unregister`. Schedulers that have been silent for REVIEWER_KEPT_S
        are deleted. Raises TooManyReviewersError if the cluster would then have more than MAX_REVIEWERS, and
        StoreUnavailableError if the database cannot be written.
        """
        row, now_us = REVIEWERS.c, self._now_us()
        silent = sa.func.abs(row.seen_us) < now_us - int(REVIEWER_KEPT_S * 1e6)
        announced = sa.and_(row.cluster == cluster, row.scheduler.in_(schedulers))
        others = sa.select(sa.func.count()).select_from(REVIEWERS).where(row.cluster == cluster)
        with self._writer.transaction() as connection:
            connection.execute(REVIEWERS.delete().where(sa.or_(silent, announced)))
            if connection.execute(others).scalar_one() + len(set(schedulers)) > MAX_REVIEWERS:
                raise TooManyReviewersError(f"more than {MAX_REVIEWERS} schedulers of this cluster answer reviews")
            rows = [{"cluster": cluster, "scheduler": name, "seen_us": now_us} for name in dict.fromkeys(schedulers)]
            connection.execute(REVIEWERS.insert(), rows)
        return now_us

    def unregister(self, cluster: str, schedulers: Sequence[str], registered_us: int) -> None:
        """Store that these schedulers no longer answer reviews, except those registered again since `registered_us`."""
        row = REVIEWERS.c
        gone = (row.cluster == cluster, row.scheduler.in_(schedulers), row.seen_us == registered_us)
        with self._writer.transaction() as connection:
            connection.execute(REVIEWERS.update().where(*gone).values(seen_us=-self._now_us()))

    def last_seen_s(self) -> float | None:
        """Return how many seconds ago a scheduler was last seen; None if none was within REVIEWER_KEPT_S."""
        latest = sa.select(sa.func.max(sa.func.abs(REVIEWERS.c.seen_us)))
        with translate_errors(), self._reading.begin() as connection:
            seen_us = connection.execute(latest).scalar()
        silent_s = None if seen_us is None else max(0.0, (self._now_us() - seen_us) / 1e6)
        return None if silent_s is None or silent_s > REVIEWER_KEPT_S else silent_s

    def list_reviewers(self, within_s: float) -> list[ReviewingScheduler]:
        """Return the schedulers that registered within the last `within_s` seconds, ordered by name."""
        row = REVIEWERS.c
        heard = row.seen_us >= self._now_us() - int(within_s * 1e6)
        statement = sa.select(row.cluster, row.scheduler).where(heard).order_by(row.scheduler, row.cluster)
        with translate_errors(), self._reading.begin() as connection:
            return [ReviewingScheduler(r.cluster, r.scheduler) for r in connection.execute(statement)]

    def add_question(self, question: ReviewQuestion, most: int) -> bool:
        """Store a question and return True, or return False if `most` questions wait for the scheduler already."""
        row, now_us = REVIEWS.c, self._now_us()
        values = {"cluster": question.reviewer.cluster, "scheduler": question.reviewer.scheduler}
        waiting = sa.select(sa.func.count()).select_from(REVIEWS)
        waiting = waiting.where(*(row[name] == value for name, value in values.items()))
        abandoned = row.asked_us < now_us - int(ABANDONED_S * 1e6)
        more = {"id": question.id, "asked_us": now_us, "taken": False, "question": question.body, "answer_type": ""}
        with self._writer.transaction() as connection:
            connection.execute(REVIEWS.delete().where(abandoned))
            room: bool = connection.execute(waiting).scalar_one() < most
            if room:
                connection.execute(REVIEWS.insert().values(values | more))
        return room

    def claim_question(self, cluster: str, schedulers: Sequence[str]) -> ReviewQuestion | None:
        """Claim the oldest unclaimed question for one of these schedulers and return it, or None if there is none.

        The body of a claimed question is deleted from the database.
        """
        row = REVIEWS.c
        waiting = (row.cluster == cluster, row.scheduler.in_(schedulers), row.taken.is_(False))
        first = sa.select(row.id, row.scheduler, row.question).where(*waiting).order_by(row.id).limit(1)
        with translate_errors(), self._reading.begin() as connection:
            if connection.execute(first).first() is None:
                return None
        with self._writer.transaction() as connection:
            question = connection.execute(first).first()
            if question is None:
                return None
            connection.execute(REVIEWS.update().where(row.id == question.id).values(taken=True, question=b""))
        return ReviewQuestion(question.id, ReviewingScheduler(cluster, question.scheduler), question.question)

    def store_answer(self, id: str, cluster: str, answer: ReviewAnswer) -> bool:
        """Store the answer to the question `id` and return True, or return False if no client waits for it."""
        row = REVIEWS.c
        unanswered = sa.or_(row.answer.is_(None), row.answer_type == PROGRESS)
        taken = (row.id == id, row.cluster == cluster, row.taken.is_(True), unanswered)
        with self._writer.transaction() as connection:
            values = {"answer": answer.body, "answer_type": answer.type}
            return connection.execute(REVIEWS.update().where(*taken).values(values)).rowcount == 1

    def store_progress(self, id: str, cluster: str, progress: bytes) -> bool:
        """Store the progress of the answer to the question `id` and return True, or return False if no client waits.

        A client waits if it has called `keep` within the last SILENT_S seconds.
        """
        with translate_errors(), self._reading.begin() as connection:
            asked_us = connection.execute(sa.select(REVIEWS.c.asked_us).where(REVIEWS.c.id == id)).scalar()
        waits = asked_us is not None and asked_us >= self._now_us() - int(SILENT_S * 1e6)
        return waits and self.store_answer(id, cluster, ReviewAnswer(progress, PROGRESS))

    def keep(self, id: str) -> ReviewingScheduler | None:
        """Note that the client of the question `id` still waits, and return the scheduler that answers the question.

        Returns None if the question was removed.
        """
        row = REVIEWS.c
        with self._writer.transaction() as connection:
            connection.execute(REVIEWS.update().where(row.id == id).values(asked_us=self._now_us()))
            review = connection.execute(sa.select(row.cluster, row.scheduler).where(row.id == id)).first()
        return None if review is None else ReviewingScheduler(review.cluster, review.scheduler)

    def read_answer(self, id: str) -> ReviewAnswer | None:
        """Return the answer to the question `id`, or None if it is not stored yet."""
        statement = sa.select(REVIEWS.c.answer, REVIEWS.c.answer_type).where(REVIEWS.c.id == id)
        with translate_errors(), self._reading.begin() as connection:
            row = connection.execute(statement).first()
        return None if row is None or row.answer is None else ReviewAnswer(row.answer, row.answer_type)

    def is_claimed(self, id: str) -> bool:
        """Return whether a scheduler has claimed the question `id`, or the question was removed."""
        waiting = sa.select(REVIEWS.c.id).where(REVIEWS.c.id == id, REVIEWS.c.taken.is_(False))
        with translate_errors(), self._reading.begin() as connection:
            return connection.execute(waiting).first() is None

    def is_first(self, question: ReviewQuestion) -> bool:
        """Return whether no earlier question for the same scheduler is stored, waiting or claimed."""
        row, reviewer = REVIEWS.c, question.reviewer
        earlier = sa.select(row.id).where(
            row.cluster == reviewer.cluster, row.scheduler == reviewer.scheduler, row.id < question.id
        )
        with translate_errors(), self._reading.begin() as connection:
            return connection.execute(earlier.limit(1)).first() is None

    def remove_question(self, id: str) -> None:
        """Delete the question `id`, whose client no longer waits, with its answer."""
        with self._writer.transaction() as connection:
            connection.execute(REVIEWS.delete().where(REVIEWS.c.id == id))

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)
