"""The answer document `Agreements`: how what other schedulers do compares with what was reconstructed.

Owns: the document's shape and its sums. Does not own: the comparison itself (`scheduler.observe`), which decisions are
told (the store). Pure.

Invariant: the four classes of a scheduler add up to its outcomes, and its causes to those that do not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from herodotus_record.model import API_VERSION, Agreement, Cause
from herodotus_record.units import timestamp
from herodotus_record.wording import CAUSES

Json = dict[str, Any]


@dataclass(frozen=True)
class Compared:
    """One outcome of another scheduler. `headline`: None where that record was not read."""

    namespace: str
    pod: str
    scheduler: str
    agreement: str
    cause: str | None
    node: str | None
    started_us: int
    decision_id: str
    headline: str | None = None


def agreements(
    outcomes: Sequence[Compared],
    disagreements: Iterable[Compared],
    *,
    since_us: int,
    until_us: int,
    complete: bool,
    omitted: int = 0,
    namespace: str = "",
) -> Json:
    """The document of kind Agreements. `outcomes`: all, to be counted. `disagreements`: those that are told, in order.

    `complete`: whether these are all of the time that was asked for. `omitted`: disagreements that are not told.
    """
    by_scheduler: dict[str, list[Compared]] = {}
    for outcome in outcomes:
        by_scheduler.setdefault(outcome.scheduler, []).append(outcome)
    return {
        "apiVersion": API_VERSION,
        "kind": "Agreements",
        "metadata": {"namespace": namespace} if namespace else {},
        "since": timestamp(since_us),
        "until": timestamp(until_us),
        "complete": complete,
        "schedulers": [_scheduler(name, found) for name, found in sorted(by_scheduler.items())],
        "causes": [
            {"cause": cause, "outcomes": n, "text": CAUSES[Cause(cause)]} for cause, n in _causes(outcomes).items()
        ],
        "disagreements": [_told(outcome) for outcome in disagreements],
        "disagreementsOmitted": omitted,
    }


def _scheduler(name: str, outcomes: Sequence[Compared]) -> Json:
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


def _causes(outcomes: Sequence[Compared]) -> dict[str, int]:
    """How many outcomes have each, the most first."""
    counts = Counter(outcome.cause for outcome in outcomes if outcome.cause)
    return dict(sorted(counts.items(), key=lambda c: (-c[1], c[0])))


def _told(outcome: Compared) -> Json:
    return {
        "namespace": outcome.namespace,
        "pod": outcome.pod,
        "scheduler": outcome.scheduler,
        "node": outcome.node,
        "cause": outcome.cause,
        "at": timestamp(outcome.started_us),
        "id": outcome.decision_id,
        "headline": outcome.headline,
    }
