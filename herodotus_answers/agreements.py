"""Build the answer document `Agreements`: how outcomes of other schedulers compare with their reconstructions.

Owns: the document's shape and its sums. Does not own: the comparison (`scheduler.offline.observe`), which disagreements
are listed (the store). Pure.

Invariant: the four classes of a scheduler add up to its outcomes, and its causes to those that do not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from herodotus_answers.wording import CAUSES
from herodotus_record.model import API_VERSION, Agreement, Cause
from herodotus_record.units import format_timestamp

Json = dict[str, Any]


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


def build_agreements(
    outcomes: Sequence[ComparedOutcome],
    disagreements: Iterable[ComparedOutcome],
    time: CoveredTime,
    *,
    omitted: int = 0,
    namespace: str = "",
) -> Json:
    """Return the JSON document of kind Agreements: by scheduler, how many outcomes agree with their reconstruction.

    `outcomes` are all outcomes of `time` to count; `disagreements` are those to list, in order, and `omitted` counts
    those not listed.
    """
    by_scheduler: dict[str, list[ComparedOutcome]] = {}
    for outcome in outcomes:
        by_scheduler.setdefault(outcome.scheduler, []).append(outcome)
    return {
        "apiVersion": API_VERSION,
        "kind": "Agreements",
        "metadata": {"namespace": namespace} if namespace else {},
        "since": format_timestamp(time.since_us),
        "until": format_timestamp(time.until_us),
        "complete": time.complete,
        "schedulers": [_scheduler(name, decisions) for name, decisions in sorted(by_scheduler.items())],
        "causes": [
            {"cause": cause, "outcomes": n, "text": CAUSES[Cause(cause)]} for cause, n in _causes(outcomes).items()
        ],
        "disagreements": [_disagreement(outcome) for outcome in disagreements],
        "disagreementsOmitted": omitted,
    }


def _scheduler(name: str, outcomes: Sequence[ComparedOutcome]) -> Json:
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


def _disagreement(outcome: ComparedOutcome) -> Json:
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
