"""Build the answer document `Agreements`: how outcomes of other schedulers compare with their reconstructions.

Owns: the document's shape and its sums. Does not own: the comparison (`scheduler.offline.observe`), which disagreements
are listed (the store). Pure.

Invariant: the four classes of a scheduler add up to its outcomes, and its causes to those that do not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from herodotus_answers.declare import Document
from herodotus_answers.wording import CAUSES
from herodotus_record.model import API_VERSION, Agreement, Cause
from herodotus_record.units import format_timestamp


@dataclass(frozen=True)
class CoveredTime:
    """The time that a document covers, from `since_us` to `until_us`, both in microseconds since 1970.

    `complete` is whether everything stored of that time was read.
    """

    since_us: int
    until_us: int
    complete: bool


@dataclass(frozen=True)
class ComparedOutcome:
    """One outcome of another scheduler, and whether it agrees with the observer's reconstruction.

    `agreement` and `cause` are values of the enums Agreement and Cause. `headline` is None if the decision's record was
    not read.
    """

    namespace: str
    pod: str
    scheduler: str
    agreement: str
    cause: str | None
    node: str | None
    started_us: int
    decision_id: str
    headline: str | None = None


class SchedulerAgreement(TypedDict):
    """How many outcomes of a scheduler agree with their reconstruction."""

    scheduler: Annotated[str, "Scheduler name (spec.schedulerName)."]
    outcomes: Annotated[int, "Number of its outcomes."]
    agree: Annotated[int, "Number of outcomes that agree."]
    agreeInWindow: Annotated[int, "Number of outcomes that agree if events near them came in another order."]
    disagree: Annotated[int, "Number of outcomes that disagree."]
    unknown: Annotated[int, "Number of outcomes with nothing to compare with."]
    causes: Annotated[dict[str, int], "Number of outcomes that do not agree, by cause, the most frequent first."]


class CauseCount(TypedDict):
    """A cause of outcomes that do not agree."""

    cause: Annotated[str, "Code of the cause."]
    outcomes: Annotated[int, "Number of outcomes with the cause."]
    text: Annotated[str, "The cause as a sentence."]


class Disagreement(TypedDict):
    """An outcome of a scheduler that the reconstruction does not confirm, and the cause if one was found."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    scheduler: Annotated[str, "Scheduler name (spec.schedulerName) of the pod."]
    node: Annotated[
        str | None, "Node that the scheduler chose; null if it chose none. The record has the reconstructed one."
    ]
    cause: Annotated[str | None, "Code of the cause; null if there is none."]
    at: Annotated[str, "Start of the attempt."]
    id: Annotated[str, "ID of the decision."]
    headline: Annotated[str | None, "The reconstructed decision in one sentence; null if its record was not read."]


class Agreements(Document):
    """Comparison of other schedulers' outcomes with the observer's reconstructions."""

    kind: Literal["Agreements"]
    since: Annotated[str, "Start of the time window."]
    until: Annotated[str, "Time of the request."]
    complete: Annotated[bool, "Whether every decision of the requested time window is counted."]
    schedulers: Annotated[list[SchedulerAgreement], "Outcomes of each scheduler by agreement and cause."]
    causes: Annotated[list[CauseCount], "Causes of outcomes that do not agree, the most frequent first."]
    disagreements: Annotated[list[Disagreement], "Newest outcomes that disagree with the reconstruction."]
    disagreementsOmitted: Annotated[int, "Number of disagreements that are not listed."]


def build_agreements(
    outcomes: Sequence[ComparedOutcome],
    disagreements: Iterable[ComparedOutcome],
    time: CoveredTime,
    *,
    omitted: int = 0,
    namespace: str = "",
) -> Agreements:
    """Return the JSON document of kind Agreements: by scheduler, how many outcomes agree with their reconstruction.

    `outcomes` are all outcomes of `time` to count; `disagreements` are those to list, in order, and `omitted` counts
    those not listed.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "Agreements",
        "metadata": {"namespace": namespace} if namespace else {},
        "since": format_timestamp(time.since_us),
        "until": format_timestamp(time.until_us),
        "complete": time.complete,
        "schedulers": list_schedulers(outcomes),
        "causes": [
            {"cause": cause, "outcomes": n, "text": CAUSES[Cause(cause)]} for cause, n in _causes(outcomes).items()
        ],
        "disagreements": [_disagreement(outcome) for outcome in disagreements],
        "disagreementsOmitted": omitted,
    }


def list_schedulers(outcomes: Iterable[ComparedOutcome]) -> list[SchedulerAgreement]:
    """Return, by the scheduler's name, how many of its outcomes agree with their reconstruction."""
    by_scheduler: dict[str, list[ComparedOutcome]] = {}
    for outcome in outcomes:
        by_scheduler.setdefault(outcome.scheduler, []).append(outcome)
    return [_scheduler(name, decisions) for name, decisions in sorted(by_scheduler.items())]


def _scheduler(name: str, outcomes: Sequence[ComparedOutcome]) -> SchedulerAgreement:
    classes = Counter(outcome.agreement for outcome in outcomes)
    return {
        "scheduler": name,
        "outcomes": len(outcomes),
        "agree": classes[Agreement.AGREE.value],
        "agreeInWindow": classes[Agreement.IN_WINDOW.value],
        "disagree": classes[Agreement.DISAGREE.value],
        "unknown": classes[Agreement.UNKNOWN.value],
        "causes": _causes(outcomes),
    }


def _causes(outcomes: Sequence[ComparedOutcome]) -> dict[str, int]:
    """Return how many outcomes have each cause of disagreement, the most frequent cause first."""
    counts = Counter(outcome.cause for outcome in outcomes if outcome.cause)
    return dict(sorted(counts.items(), key=lambda c: (-c[1], c[0])))


def _disagreement(outcome: ComparedOutcome) -> Disagreement:
    return {
        "namespace": outcome.namespace,
        "pod": outcome.pod,
        "scheduler": outcome.scheduler,
        "node": outcome.node,
        "cause": outcome.cause,
        "at": format_timestamp(outcome.started_us),
        "id": outcome.decision_id,
        "headline": outcome.headline,
    }
