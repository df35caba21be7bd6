"""Build the answer document `PodHistory`: a pod's attempts, oldest first, and what changed from each to the next.

Owns: the document's shape. Does not own: the differences (`changes`), the selection of attempts. Pure.

Invariant: omitted attempts are counted, and the first listed attempt has no changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from herodotus_answers.changes import Difference, RecordedDecision, compare_decisions
from herodotus_answers.decision import (
    Archive,
    Repeats,
    RequeueEvent,
    Retry,
    build_part,
    build_repeats,
)
from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.explain import SnapshotCounts, count_nodes, count_rejected_by_filter, derive_state
from herodotus_answers.headlines import format_headline
from herodotus_answers.live.declarations import LivePod
from herodotus_record.model import API_VERSION
from herodotus_record.units import format_timestamp


class ListedAttempt(TypedDict):
    """An attempt, with the changes since the previous one."""

    ordinal: Annotated[int, "Number of the attempt among those that the service has of the pod, from 1."]
    lastOrdinal: Annotated[int, "Number of the last attempt that equals it and shares its record; else `ordinal`."]
    number: Annotated[int, "The scheduler's count of the pod's attempts, which restarts with the scheduler."]
    id: Annotated[str, "ID of the decision."]
    startedAt: Annotated[str, "Start of the attempt."]
    profile: Annotated[str, "Scheduler name (spec.schedulerName) of the profile."]
    state: Annotated[str, "State of the attempt: Bound, Binding, DryRun, Failed, Unschedulable or Error."]
    node: Annotated[str | None, "Node that was chosen."]
    nodes: SnapshotCounts
    headline: Annotated[str, "Result of the attempt in one sentence."]
    rejectedBy: Annotated[dict[str, int], "Number of nodes that each plugin was the first to reject."]
    requeuedBy: Annotated[RequeueEvent | None, "Event that requeued the pod before the attempt."]
    retry: Annotated[Retry | None, "When the pod is tried again; null if it is not."]
    repeats: Annotated[Repeats | None, "Later attempts that equal this one; null if there are none."]
    message: Annotated[str, "Message of the pod's FailedScheduling event."]
    changes: Annotated[list[Difference], "Changes since the previous attempt; empty for the first one."]


class PodHistory(Document):
    """Attempts to schedule a pod, oldest first."""

    kind: Literal["PodHistory"]
    headline: Annotated[str, "Result of the newest attempt in one sentence."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    createdAt: Annotated[str, "Time at which the pod was created."]
    attempts: Annotated[list[ListedAttempt], "Attempts, each with the changes since the previous one."]
    attemptsOmitted: Annotated[int, "Number of earlier attempts that are not listed."]
    archive: NotRequired[Archive]
    live: NotRequired[Annotated[LivePod, "What the API server knows now; only the plugin adds it."]]


def build_pod_history(attempts: Sequence[RecordedDecision], ordinals: Sequence[tuple[int, int]]) -> PodHistory:
    """Return the JSON document of kind PodHistory: a pod's attempts, and what changed from each to the next.

    `attempts` are consecutive and ordered by start, and the last is the pod's newest. `ordinals` has, for each, the
    numbers of the first and the last attempt that its record stands for. Raises ValueError if there is no attempt.
    """
    if not attempts:
        raise ValueError("a history needs an attempt")
    last = attempts[-1].decision
    before: list[RecordedDecision | None] = [None, *attempts]
    return {
        "apiVersion": API_VERSION,
        "kind": "PodHistory",
        "metadata": {"namespace": last.pod.namespace, "name": last.pod.name, "uid": last.pod.uid},
        "headline": format_headline(last, attempts[-1].table),
        "owner": str(last.pod.owner) if last.pod.owner else None,
        "createdAt": format_timestamp(last.times.created_us),
        "attempts": [
            _attempt(attempt, earlier, numbers)
            for attempt, earlier, numbers in zip(attempts, before, ordinals, strict=False)
        ],
        "attemptsOmitted": ordinals[0][0] - 1,
    }


def _attempt(recorded: RecordedDecision, before: RecordedDecision | None, ordinals: tuple[int, int]) -> ListedAttempt:
    d = recorded.decision
    return {
        "ordinal": ordinals[0],
        "lastOrdinal": ordinals[1],
        "number": d.key.attempt,
        "id": d.id,
        "startedAt": format_timestamp(d.times.started_us),
        "profile": d.scheduler.profile,
        "state": derive_state(d, recorded.outcomes),
        "node": None if d.chosen is None else recorded.table.names[d.chosen],
        "nodes": count_nodes(d),
        "headline": format_headline(d, recorded.table),
        "rejectedBy": count_rejected_by_plugin(recorded),
        "requeuedBy": build_part(d.requeued_by),
        "retry": build_part(d.retry),
        "repeats": build_repeats(recorded.outcomes),
        "message": d.message,
        "changes": [] if before is None else compare_decisions(before, recorded),
    }


def count_rejected_by_plugin(recorded: RecordedDecision) -> dict[str, int]:
    """Return how many nodes each plugin was the first to reject, by plugin, the largest number first.

    If PreFilter rejected the pod, the result is that plugin with the number of all nodes.
    """
    if recorded.decision.pre_filters:
        return {recorded.decision.pre_filters[-1].plugin: recorded.decision.nodes_total}
    counts: Counter[str] = Counter()
    for position, nodes in count_rejected_by_filter(recorded.decision).items():
        counts[recorded.decision.filters[position].plugin] += nodes
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
