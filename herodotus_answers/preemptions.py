"""Build the answer document `Preemptions`: which pods were evicted to make room, by whose decision, and when.

Owns: the document's shape, and what became of each victim. Does not own: the selection of decisions. Pure.

Invariant: a preemption is listed only if the scheduler evicted pods, or if the observer's evaluation nominated a node
for another scheduler's pod. The entry states which, and names no victim that the record does not name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.declare import Document
from herodotus_record.model import API_VERSION, Candidate, Decision, Outcome, Source
from herodotus_record.units import format_timestamp

VictimState = Literal["Evicted", "Failed", "Unknown"]
_STATES: Final[Mapping[str, VictimState]] = {  # by code of the note
    "evicted": "Evicted",
    "taken-back": "Evicted",
    "eviction-failed": "Failed",
}


class Preemptor(TypedDict):
    """A pod for which others were evicted."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    priority: Annotated[int, "Priority of the pod."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    attempt: Annotated[int, "Number of the attempt."]
    decision: Annotated[str, "ID of the decision."]


class Victim(TypedDict):
    """A pod that was chosen for eviction."""

    namespace: Annotated[str | None, "Namespace of the pod; null if the reader may not see it."]
    pod: Annotated[str | None, "Name of the pod; null if the reader may not see it."]
    state: Annotated[VictimState, "Result of the eviction; Unknown if it is not recorded."]
    at: Annotated[str | None, "Time of the result; null if it is not recorded."]


class PreemptionEntry(TypedDict):
    """The pods that one decision chose for eviction."""

    at: Annotated[str, "Start of the attempt."]
    node: Annotated[str, "Node that was nominated."]
    evicted: Annotated[bool, "Whether the scheduler evicted the pods; false if an observer's evaluation chose them."]
    source: Annotated[str, "Source of the record."]
    profile: Annotated[str, "Scheduler name (spec.schedulerName) of the profile."]
    preemptor: Annotated[Preemptor | None, "Pod that got the room; null if the reader may not see it."]
    victims: Annotated[list[Victim], "Pods that were chosen for eviction."]
    pdbViolations: Annotated[int, "Number of victims that a PodDisruptionBudget protects."]


class Preemptions(Document):
    """Pods that were evicted to make room for pods of higher priority, by the decision that chose them."""

    kind: Literal["Preemptions"]
    since: Annotated[str, "Start of the time window."]
    until: Annotated[str, "Time of the request."]
    complete: Annotated[bool, "Whether every decision of the requested time window is counted."]
    preemptions: Annotated[list[PreemptionEntry], "Preemptions, the newest first."]


def name_preemptor(entry: PreemptionEntry) -> str:
    """Return the pod that got the room as NAMESPACE/NAME, or in words if the reader may not see it."""
    preemptor = entry["preemptor"]
    return f"{preemptor['namespace']}/{preemptor['pod']}" if preemptor else "a pod of another namespace"


def build_preemption(
    decision: Decision, outcomes: Sequence[Outcome], *, shows_preemptor: bool
) -> PreemptionEntry | None:
    """Return the entry of the document for one decision, or None if it evicted no pod.

    Unless `shows_preemptor`, the entry does not name the pod that the decision is about.
    """
    preemption, taken = decision.preemption, _find_taken(decision)
    if preemption is None or taken is None:
        return None
    results = {o.reason.params.get("victim"): o for o in outcomes if o.phase == "Evict" and o.reason is not None}
    pod = decision.pod
    preemptor: Preemptor = {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "priority": pod.priority,
        "owner": str(pod.owner) if pod.owner else None,
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
    entries: Sequence[PreemptionEntry], *, since_us: int, until_us: int, complete: bool, namespace: str = ""
) -> Preemptions:
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


def _victim(name: str, outcome: Outcome | None) -> Victim:
    """Return a victim with its state, Unknown if the record does not hold the result of its eviction."""
    namespace, slash, pod = name.partition("/")
    state = _STATES.get(outcome.reason.code, "Unknown") if outcome is not None and outcome.reason else "Unknown"
    return {
        "namespace": namespace if slash else None,
        "pod": pod if slash else None,
        "state": state,
        "at": None if outcome is None else format_timestamp(outcome.at_us),
    }
