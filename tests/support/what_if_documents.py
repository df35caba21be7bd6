"""Documents of what-if reviews."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from herodotus_answers.placement_review import (
    NOTHING_CREATED,
    REVIEWED,
    ReviewedAttempt,
    ReviewedWorkload,
    build_placement_review,
)
from herodotus_record.model import Code, Decision, Outcome
from tests.builders import bound
from tests.cli.scenes import a_pending, a_placed, preemption_would_help, table_of
from tests.support.answers import as_json

Json = dict[str, Any]


def attempt(decision: Decision) -> ReviewedAttempt:
    table = table_of(decision)
    outcomes: tuple[Outcome, ...] = ()
    if decision.chosen is not None:
        ended = bound(decision, table, status=Code.SKIP)
        outcomes = (replace(ended, phase=REVIEWED, message=NOTHING_CREATED),)
    return ReviewedAttempt(decision, outcomes, table)


def review(decisions: Iterable[Decision], *, replicas: int, kind: str = "Deployment", **more: Any) -> Json:
    workload = ReviewedWorkload(kind, "checkout", replicas)
    return as_json(build_placement_review(workload, map(attempt, decisions), **more))


def several() -> list[Decision]:
    points = {"worker-3": {"TaintToleration": 100, "NodeResourcesFit": 99, "ImageLocality": 91}}
    return [a_placed(pod=f"checkout-{i}", **({"points": points} if i == 1 else {})) for i in range(3)]


def review_with_victims() -> Json:
    answer = review([*several(), replace(a_pending(), text_notes=("spec.nodeName is ignored",))], replicas=9)
    answer["status"]["stopped"]["preemption"] = preemption_would_help()["preemption"]
    return answer
