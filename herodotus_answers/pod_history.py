"""Build the answer document `PodHistory`: a pod's attempts, oldest first, and what changed from each to the next.

Owns: the document's shape. Does not own: the differences (`changes`), the selection of attempts. Pure.

Invariant: omitted attempts are counted, and the first listed attempt has no changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from herodotus_answers.changes import Json, RecordedDecision, compare_decisions
from herodotus_answers.decision import build_part, build_repeats
from herodotus_answers.explain import count_rejected_by_filter, derive_state
from herodotus_answers.headlines import format_headline
from herodotus_record.model import API_VERSION
from herodotus_record.units import format_timestamp


def build_pod_history(attempts: Sequence[RecordedDecision], *, first: int, total: int, repeated: int = 0) -> Json:
    """Return the JSON document of kind PodHistory: a pod's attempts, and what changed from each to the next.

    `attempts` are consecutive and ordered by start. `first` is the ordinal of the first of them, `total` how many
    attempts of the pod are stored, and `repeated` how many more are counted on those that they repeat. Raises
    ValueError if there is no attempt.
    """
    if not attempts:
        raise ValueError("a history needs an attempt")
    last = attempts[-1].decision
    before: list[RecordedDecision | None] = [None, *attempts]
    return {
        "apiVersion": API_VERSION,
        "kind": "PodHistory",
        "metadata": {"namespace": last.pod.namespace, "name": last.pod.name, "uid": last.pod.uid},
        "owner": f"{last.pod.owner.kind}/{last.pod.owner.name}" if last.pod.owner else None,
        "createdAt": format_timestamp(last.times.created_us),
        "attempts": [
            _attempt(attempt, earlier, first + i)
            for i, (attempt, earlier) in enumerate(zip(attempts, before, strict=False))
        ],
        "attemptsOmitted": total - len(attempts),
        "repeatedAttempts": repeated,
    }


def _attempt(recorded: RecordedDecision, before: RecordedDecision | None, ordinal: int) -> Json:
    d = recorded.decision
    return {
        "ordinal": ordinal,
        "number": d.key.attempt,
        "id": d.id,
        "startedAt": format_timestamp(d.times.started_us),
        "profile": d.scheduler.profile,
        "state": derive_state(d, recorded.outcomes),
        "node": None if d.chosen is None else recorded.table.names[d.chosen],
        "nodes": {"total": d.nodes_total, "evaluated": d.nodes_evaluated, "feasible": d.nodes_feasible},
        "headline": format_headline(d, recorded.table),
        "rejectedBy": count_rejected_by_plugin(recorded),
        "requeuedBy": build_part(d.requeued_by),
        "retry": build_part(d.retry),
        "repeats": build_repeats(recorded.outcomes),
        "message": d.message,
        "changes": [] if before is None else compare_decisions(before, recorded),
    }


def count_rejected_by_plugin(recorded: RecordedDecision) -> Json:
    """Return how many nodes each plugin was the first to reject, by plugin, the largest number first.

    If PreFilter rejected the pod, the result is that plugin with the number of all nodes.
    """
    if recorded.decision.pre_filters:
        return {recorded.decision.pre_filters[-1].plugin: recorded.decision.nodes_total}
    counts: Counter[str] = Counter()
    for position, nodes in count_rejected_by_filter(recorded.decision).items():
        counts[recorded.decision.filters[position].plugin] += nodes
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
