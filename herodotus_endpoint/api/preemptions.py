"""Preemptions in answers: the entry that a reader may see, and the preemption that evicted a pod.

Owns: which preemption evicted a pod, or each of some pods. Does not own: entries (`herodotus_answers.preemptions`), SQL
(`store.listing`), what is hidden (`masked_reader`).

Invariant: a preemptor is named only to readers who may see its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from herodotus_answers.preemptions import PreemptionEntry, build_preemption
from herodotus_endpoint.access.masking import VisibleRow
from herodotus_endpoint.api.masked_reader import MaskedReader, group_rows_by_attempt
from herodotus_endpoint.store import StoredAttempt
from herodotus_endpoint.store.listing import EvictionCondition, PreemptionCondition
from herodotus_record.model import DecisionPath

MAX_PREEMPTIONS_READ: Final = 100  # per answer, the newest ones; reading one of 5,000 nodes takes 4 to 20 ms
MAX_PREEMPTION_ROWS: Final = 3 * MAX_PREEMPTIONS_READ  # an attempt has up to three records
MAX_EVICTING_READ: Final = 20  # per answer about workloads, for which preemptions are a detail
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
        if entry and (pod.namespace, pod.name) in _list_evicted(entry):
            return entry
    return None


def find_evictions(reader: MaskedReader, rows: Iterable[VisibleRow], namespace: str) -> dict[str, PreemptionEntry]:
    """Return, by pod UID, the preemption that evicted each pod after the decision of its row, if one is recorded.

    `rows` has the last attempt of each pod of a namespace, or of all namespaces if `namespace` is "". Of more than
    MAX_EVICTING_READ preemptions the newest are read. What an observer evaluated for another scheduler does not
    count, because that scheduler may have evicted other pods.
    """
    by_name: dict[tuple[str, str, str], list[VisibleRow]] = {}
    for row in rows:
        if row.node is not None:
            by_name.setdefault((row.cluster, row.namespace, row.pod), []).append(row)
    if not by_name:
        return {}
    since_us = min(row.started_us for named in by_name.values() for row in named)
    found = reader.listing().decisions([PreemptionCondition(since_us, namespace)], None, MAX_PREEMPTION_ROWS)
    preemptors = [attempt.record for attempt in group_rows_by_attempt(found)][-MAX_EVICTING_READ:]
    evictions: dict[str, PreemptionEntry] = {}
    for stored in filter(None, reader.decisions_by_row(preemptors)):
        entry = build_visible_preemption(reader, stored)
        if entry is None or not entry["evicted"]:
            continue
        for name in _list_evicted(entry):
            named = by_name.get((stored.decision.key.cluster, *name), ())
            earlier = [row for row in named if row.started_us < stored.decision.times.started_us]
            if earlier:  # a pod that had the name before the last of them was gone
                evictions[max(earlier, key=lambda row: row.started_us).pod_uid] = entry
    return evictions


def _list_evicted(entry: PreemptionEntry) -> set[tuple[str, str]]:
    """Return namespace and name of the victims that the reader may see, without those whose eviction failed."""
    return {
        (victim["namespace"], victim["pod"])
        for victim in entry["victims"]
        if victim["namespace"] and victim["pod"] and victim["state"] != "Failed"
    }


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
