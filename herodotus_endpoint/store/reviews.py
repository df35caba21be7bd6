"""Reviews under way: from the replica that was asked to the scheduler, and back.

Owns: those rows. Does not own: questions and answers, who may ask or answer, how long anybody waits.

They are in the database because the replica that a reader reaches need not be the one that the scheduler reaches; with
one replica that costs a commit or two. Nobody is told of a row: who waits looks again.

Invariant: a question is taken by one scheduler, and nothing of it outlives its asker by more than ABANDONED_S.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from herodotus_endpoint.store.database import translate_errors
from herodotus_endpoint.store.schema import REVIEWERS, REVIEWS
from herodotus_endpoint.store.writer import Writer

ABANDONED_S: Final = 120.0  # several times what anybody waits: the replica that was asked is gone
REVIEWER_KEPT_S: Final = 120.0  # twice the silence after which a scheduler gets no more reviews (`desk.SILENT_S`)
MAX_REVIEWERS: Final = 256  # schedulers of one cluster; a scheduler process announces at most 64 profiles


class TooManyReviewersError(ValueError):
    """A cluster announces more schedulers than the service keeps. The message says how many it keeps."""


@dataclass(frozen=True)
class ReviewingScheduler:
    """A scheduler that answers reviews. `cluster`: its id, "" where it does not say."""

    cluster: str
    scheduler: str


@dataclass(frozen=True)
class ReviewQuestion:
    """`body`: for the scheduler, as it is."""

    id: str
    reviewer: ReviewingScheduler
    body: bytes


@dataclass(frozen=True)
class ReviewAnswer:
    """`type`: the body's media type."""

    body: bytes
    type: str


class ReviewStore:
    """What waits for a scheduler, or for its asker to look."""

    def __init__(self, writer: Writer, reading: sa.Engine, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._reading = reading
        self._clock = clock

    def register(self, cluster: str, schedulers: Sequence[str]) -> None:
        """Store that these schedulers answer reviews, and drop those that have been silent for REVIEWER_KEPT_S.

        Raises TooManyReviewersError if the cluster would then have more than MAX_REVIEWERS, and StoreUnavailableError
        if the database cannot be written.
        """
        row, now_us = REVIEWERS.c, self._now_us()
        silent = row.seen_us < now_us - int(REVIEWER_KEPT_S * 1e6)
        announced = sa.and_(row.cluster == cluster, row.scheduler.in_(schedulers))
        others = sa.select(sa.func.count()).select_from(REVIEWERS).where(row.cluster == cluster)
        with self._writer.transaction() as connection:
            connection.execute(REVIEWERS.delete().where(sa.or_(silent, announced)))
            if connection.execute(others).scalar_one() + len(set(schedulers)) > MAX_REVIEWERS:
                raise TooManyReviewersError(f"more than {MAX_REVIEWERS} schedulers of this cluster answer reviews")
            rows = [{"cluster": cluster, "scheduler": name, "seen_us": now_us} for name in dict.fromkeys(schedulers)]
            connection.execute(REVIEWERS.insert(), rows)

    def list_reviewers(self, within_s: float) -> list[ReviewingScheduler]:
        """Those that were heard of so lately, by name."""
        row = REVIEWERS.c
        heard = row.seen_us >= self._now_us() - int(within_s * 1e6)
        found = sa.select(row.cluster, row.scheduler).where(heard).order_by(row.scheduler, row.cluster)
        with translate_errors(), self._reading.begin() as connection:
            return [ReviewingScheduler(r.cluster, r.scheduler) for r in connection.execute(found)]

    def add_question(self, question: ReviewQuestion, most: int) -> bool:
        """Lay a question down; whether fewer than `most` were waiting for that scheduler."""
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
        """The question that has waited longest for one of these; nobody else's from now on, and kept no longer."""
        row = REVIEWS.c
        waiting = (row.cluster == cluster, row.scheduler.in_(schedulers), row.taken.is_(False))
        first = sa.select(row.id, row.scheduler, row.question).where(*waiting).order_by(row.id).limit(1)
        with translate_errors(), self._reading.begin() as connection:
            if connection.execute(first).first() is None:
                return None
        with self._writer.transaction() as connection:
            found = connection.execute(first).first()
            if found is None:
                return None
            connection.execute(REVIEWS.update().where(row.id == found.id).values(taken=True, question=b""))
        return ReviewQuestion(found.id, ReviewingScheduler(cluster, found.scheduler), found.question)

    def store_answer(self, id: str, cluster: str, answer: ReviewAnswer) -> bool:
        """Lay an answer down; whether anybody still waits for it."""
        row = REVIEWS.c
        taken = (row.id == id, row.cluster == cluster, row.taken.is_(True), row.answer.is_(None))
        with self._writer.transaction() as connection:
            values = {"answer": answer.body, "answer_type": answer.type}
            return connection.execute(REVIEWS.update().where(*taken).values(values)).rowcount == 1

    def read_answer(self, id: str) -> ReviewAnswer | None:
        """The answer, where it is there."""
        found = sa.select(REVIEWS.c.answer, REVIEWS.c.answer_type).where(REVIEWS.c.id == id)
        with translate_errors(), self._reading.begin() as connection:
            row = connection.execute(found).first()
        return None if row is None or row.answer is None else ReviewAnswer(row.answer, row.answer_type)

    def is_claimed(self, id: str) -> bool:
        """Whether a scheduler has the question, or nobody waits for it any longer."""
        waiting = sa.select(REVIEWS.c.id).where(REVIEWS.c.id == id, REVIEWS.c.taken.is_(False))
        with translate_errors(), self._reading.begin() as connection:
            return connection.execute(waiting).first() is None

    def is_first(self, question: ReviewQuestion) -> bool:
        """Whether that scheduler has none before it, waiting or taken."""
        row, reviewer = REVIEWS.c, question.reviewer
        earlier = sa.select(row.id).where(
            row.cluster == reviewer.cluster, row.scheduler == reviewer.scheduler, row.id < question.id
        )
        with translate_errors(), self._reading.begin() as connection:
            return connection.execute(earlier.limit(1)).first() is None

    def remove_question(self, id: str) -> None:
        """Nobody waits any longer."""
        with self._writer.transaction() as connection:
            connection.execute(REVIEWS.delete().where(REVIEWS.c.id == id))

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)
