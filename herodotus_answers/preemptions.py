"""Build the answer document `Preemptions`: which pods were evicted to make room, by whose decision, and when.

Owns: the document's shape, and what became of each victim. Does not own: the selection of decisions. Pure.

Invariant: a preemption is listed only if the scheduler evicted pods, or if the observer's evaluation nominated a node
for another scheduler's pod. The entry states which, and names no victim that the record does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from herodotus_record.model import API_VERSION, Candidate, Decision, Outcome, Source
from herodotus_record.units import format_timestamp

Json = dict[str, Any]
_STATES: Final = {"evicted": "Evicted", "taken-back": "Evicted", "eviction-failed": "Failed"}  # by code of the note


def build_preemption(decision: Decision, outcomes: Sequence[Outcome], *, shows_preemptor: bool) -> Json | None:
    """Return the entry of the document for one decision, or None if it evicted no pod.

    Unless `shows_preemptor`, the entry does not name the pod that the decision is about.
    """
    preemption, taken = decision.preemption, _find_taken(decision)
    if preemption is None or taken is None:
        return None
    results = {o.reason.params.get("victim"): o for o in outcomes if o.phase == "Evict" and o.reason is not None}
    pod = decision.pod
    preemptor = {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "priority": pod.priority,
        "owner": f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else None,
        "attempt": decision.key.attempt,
        "decision": decision.id,
    }
    return {
        "at": format_timestamp(decision.times.started_us),
        "node": preemption.nominated_node,
        "evicted": preemption.evicted,
        "source": decision.key.source.value,
        "profile": decision.scheduler.profile,
        "preemptor": preemptor if shows_preemptor else None,
        "victims": [_victim(name, results.get(name)) for name in taken.victims],
        "pdbViolations": taken.pdb_violations,
    }


def list_victims(decision: Decision) -> Sequence[str]:
    """Return the pods that a decision evicted, as NAMESPACE/POD; empty if `build_preemption` has no entry for it."""
    taken = _find_taken(decision)
    return taken.victims if taken else ()


def _find_taken(decision: Decision) -> Candidate | None:
    """Return the nominated node with its victims, or None if the decision evicted no pod."""
    preemption = decision.preemption
    is_reconstructed = decision.key.source is Source.RECONSTRUCTED
    if preemption is None or not preemption.nominated_node or not (preemption.evicted or is_reconstructed):
        return None
    taken = next((c for c in preemption.candidates if c.node == preemption.nominated_node), None)
    return taken if taken and taken.victims else None


def build_preemptions(
    entries: Sequence[Json], *, since_us: int, until_us: int, complete: bool, namespace: str = ""
) -> Json:
    """Return the JSON document of kind Preemptions, with `entries` from `build_preemption`, the newest first.

    `complete` is whether every decision of the time window was read.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "Preemptions",
        "metadata": {"namespace": namespace} if namespace else {},
        "since": format_timestamp(since_us),
        "until": format_timestamp(until_us),
        "complete": complete,
        "preemptions": list(entries),
    }


def _victim(name: str, outcome: Outcome | None) -> Json:
    """Return a victim with its state, Unknown if the record does not hold the result of its eviction."""
    namespace, slash, pod = name.partition("/")
    state = _STATES.get(outcome.reason.code, "Unknown") if outcome is not None and outcome.reason else "Unknown"
    return {
        "namespace": namespace if slash else None,
        "pod": pod if slash else None,
        "state": state,
        "at": None if outcome is None else format_timestamp(outcome.at_us),
    }
