"""The answer document `PodHistory`: a pod's attempts, oldest first, and what changed from each to the next.

Owns: the document's shape. Does not own: what is different (`changes`), which attempts are asked for. Pure.

Invariant: attempts that are left out are counted, and the first one that is told has no changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from herodotus_record.changes import Json, Recorded, changes
from herodotus_record.document import retry, woken_by
from herodotus_record.explain import rejected_by, state
from herodotus_record.headlines import headline
from herodotus_record.model import API_VERSION
from herodotus_record.units import timestamp


def pod_history(attempts: Sequence[Recorded], *, first: int, total: int) -> Json:
    """The document of kind PodHistory. `attempts`: by start, without a break, `first` the ordinal of the first one.

    `total`: how many are stored. ValueError without any attempt.
    """
    if not attempts:
        raise ValueError("a history needs an attempt")
    last = attempts[-1].decision
    before: list[Recorded | None] = [None, *attempts]
    return {
        "apiVersion": API_VERSION,
        "kind": "PodHistory",
        "metadata": {"namespace": last.pod.namespace, "name": last.pod.name, "uid": last.pod.uid},
        "owner": f"{last.pod.owner.kind}/{last.pod.owner.name}" if last.pod.owner else None,
        "createdAt": timestamp(last.times.created_us),
        "attempts": [
            _attempt(attempt, earlier, first + i)
            for i, (attempt, earlier) in enumerate(zip(attempts, before, strict=False))
        ],
        "attemptsOmitted": total - len(attempts),
    }


def _attempt(of: Recorded, before: Recorded | None, ordinal: int) -> Json:
    d = of.decision
    return {
        "ordinal": ordinal,
        "number": d.key.attempt,
        "id": d.id,
        "startedAt": timestamp(d.times.started_us),
        "profile": d.scheduler.profile,
        "state": state(d, of.outcomes),
        "node": None if d.chosen is None else of.table.names[d.chosen],
        "nodes": {"total": d.nodes_total, "evaluated": d.nodes_evaluated, "feasible": d.nodes_feasible},
        "headline": headline(d, of.table),
        "rejectedBy": rejecting(of),
        "wokenBy": woken_by(d),
        "retry": retry(d),
        "message": d.message,
        "changes": [] if before is None else changes(before, of),
    }


def rejecting(of: Recorded) -> Json:
    """How many nodes each filter turned away first, the most first; a PreFilter plugin counts for all of them."""
    if of.decision.pre_filters:
        return {of.decision.pre_filters[-1].plugin: of.decision.nodes_total}
    found: Counter[str] = Counter()
    for position, nodes in rejected_by(of.decision).items():
        found[of.decision.filters[position].plugin] += nodes
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
