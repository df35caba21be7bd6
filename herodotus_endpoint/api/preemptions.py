"""Preemptions in answers: the entry that a reader may see, and the preemption that evicted a pod.

Owns: which preemption evicted a pod. Does not own: entries (`herodotus_answers.preemptions`), SQL (`store.listing`),
what is hidden (`masked_reader`).

Invariant: a preemptor is named only to readers who may see its namespace.
"""

from __future__ import annotations

from typing import Final

from herodotus_answers.preemptions import PreemptionEntry, Victim, build_preemption
from herodotus_endpoint.api.masked_reader import MaskedReader, group_rows_by_attempt
from herodotus_endpoint.store import StoredAttempt
from herodotus_endpoint.store.listing import EvictionCondition
from herodotus_record.model import DecisionPath

MAX_EVICTION_ROWS: Final = 30  # ten attempts to evict one pod, with up to three records each

EARLIER_ATTEMPTS: Final = 5  # the one that evicted is the last, unless others were interrupted


def build_visible_preemption(reader: MaskedReader, stored: StoredAttempt) -> PreemptionEntry | None:
    """Return the entry of a preemption for the user of the request, or None if the decision evicted no pod.

    `stored` is an attempt that `reader` has returned, so that its victims are masked. The preemptor is not named if the
    user may not see its namespace.
    """
    sees = reader.sees(stored.decision.pod.namespace)
    return build_preemption(stored.decision, stored.outcomes, shows_preemptor=sees)


def find_eviction(reader: MaskedReader, stored: StoredAttempt) -> PreemptionEntry | None:
    """Return the entry of the first preemption that evicted the pod of `stored` after its decision, or None.

    A preemption whose request to evict the pod failed does not count. For an attempt from the archive the result is
    None. On SQLite the query reads an index with an entry for each decision that evicted pods: 6 ms for 15,000 of
    300,000 decisions, and 2 ms if all are older.
    """
    decision = stored.decision
    if stored.archived or (decision.chosen is None and stored.ordinal == stored.attempts):
        return None  # the archive has no index of victims, and a pod without a node cannot be evicted
    pod, since_us = decision.pod, decision.times.started_us
    condition = EvictionCondition(decision.key.cluster, pod.namespace, pod.name, pod.uid, since_us)
    rows = reader.listing().decisions([condition], None, MAX_EVICTION_ROWS)
    for attempt in group_rows_by_attempt(rows):
        (preemptor,) = reader.decisions_by_row([attempt.record])
        entry = preemptor and build_visible_preemption(reader, preemptor)
        if entry and any(_is_evicted(victim, pod.namespace, pod.name) for victim in entry["victims"]):
            return entry
    return None


def find_preemption_before(reader: MaskedReader, stored: StoredAttempt) -> PreemptionEntry | None:
    """Return the entry of the last preemption for the pod of `stored` before its attempt on a nominated node, or None.

    Only the last EARLIER_ATTEMPTS attempts are read, and none of the archive.
    """
    pod, before = stored.decision.pod, stored.ordinal - 1
    if stored.archived or stored.decision.path is not DecisionPath.NOMINATED or before < 1:
        return None
    earlier = reader.decisions_of_pod(
        pod.namespace, pod.name, uid=pod.uid, attempt=before, last=min(before, EARLIER_ATTEMPTS)
    )
    entries = (build_visible_preemption(reader, attempt) for attempt in reversed(earlier))
    return next((entry for entry in entries if entry is not None), None)


def _is_evicted(victim: Victim, namespace: str, pod: str) -> bool:
    return (victim["namespace"], victim["pod"]) == (namespace, pod) and victim["state"] != "Failed"
