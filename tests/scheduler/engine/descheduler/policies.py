"""Policies of the descheduler for tests, and what it evicts by them."""

from __future__ import annotations

from typing import Any

from herodotus_answers.cluster_questions import ClusterQuestion, DescheduleQuestion
from herodotus_answers.descheduling import DescheduledPod, DescheduleReview
from scheduler.engine.progress import ignore_progress
from scheduler.engine.whatif.changes import answer_review
from scheduler.engine.whatif.pods import PriorityClass
from tests.scheduler.engine.whatif.clusters import a_state

Json = dict[str, Any]
DESCHEDULE = (
    "RemovePodsViolatingNodeTaints",
    "RemovePodsViolatingNodeAffinity",
    "RemovePodsViolatingInterPodAntiAffinity",
)


def a_policy(plugins: Json, evictor: Json | None = None, **more: Any) -> Json:
    """A policy of one profile with these plugins in order, and the arguments of each."""
    config = {"DefaultEvictor": evictor or {}, **plugins}
    enabled = {
        "deschedule": {"enabled": [name for name in plugins if name in DESCHEDULE]},
        "balance": {"enabled": [name for name in plugins if name not in DESCHEDULE]},
    }
    profile = {
        "name": "default",
        "pluginConfig": [{"name": name, "args": args} for name, args in config.items()],
        "plugins": enabled,
    }
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **more}


def deschedule(
    objects: list[Json], policy: Json, *pods: str, classes: dict[str, PriorityClass] | None = None, **more: Any
) -> DescheduleReview:
    question = ClusterQuestion(deschedule=DescheduleQuestion(policy=policy, pods=list(pods), **more))
    review = answer_review(a_state(objects), question, ignore_progress, 0, classes)["deschedule"]
    assert review is not None
    return review


def evicted(review: DescheduleReview) -> list[str]:
    return [each["name"] for each in review["evictions"] if each["outcome"] != "Refused"]


def refused(review: DescheduleReview) -> list[DescheduledPod]:
    return [each for each in review["evictions"] if each["outcome"] == "Refused"]


def why_not(review: DescheduleReview) -> list[str]:
    """Why the plugins do not evict the only pod of the question."""
    (pod,) = review["pods"]
    return [each["reason"] for each in pod["reasons"]]
