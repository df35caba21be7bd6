"""Build the document `UndecidedPodGroup` about a group of pods without a recorded or evaluated scheduling cycle.

Such a group is of Volcano, coscheduling or Kueue, which decide it by themselves, or the cluster could not be evaluated.

Owns: the document's type, and what the objects of the group say. Does not own: reading them, layout. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from herodotus_answers.declare import Document
from herodotus_answers.live.declarations import BatchQueue
from herodotus_answers.live.objects import read_scheduled
from herodotus_record.units import join_limited, natural_sort_key

if TYPE_CHECKING:
    from herodotus_answers.pod_group import OtherMember

Json = dict[str, Any]
MAX_PODS = 500  # of a group that the document lists
_MAX_BLOCKING = 4  # reasons in a sentence, and pods of each
_NODES = "nodes are available: "


class UndecidedMember(TypedDict):
    """A pod of the group that has not ended."""

    pod: Annotated[str, "Name of the pod."]
    node: Annotated[str | None, "Node of the pod; null if it waits."]
    reason: Annotated[str | None, "Reason that its scheduler gave last; null if it gave none."]


class UndecidedPodGroup(Document):
    """A group of pods, from the objects of the system that schedules it. Only the plugin makes this document."""

    kind: Literal["UndecidedPodGroup"]
    headline: Annotated[str, "How many pods of the group exist and have a node, in one sentence."]
    queue: Annotated[BatchQueue | None, "Its PodGroup or Workload and their queue; null if no batch system has it."]
    pods: Annotated[list[UndecidedMember], "Its pods that have not ended."]
    podsOmitted: Annotated[int, "Number of pods that are not listed."]
    notes: Annotated[list[str], "Why there is no decision or evaluation, and what could not be read."]


def build_undecided_group(
    namespace: str, name: str, queue: BatchQueue | None, pods: Sequence[Json], notes: Sequence[str]
) -> UndecidedPodGroup:
    """Return the document about a group, from its queue, its pods, and notes on what is not known."""
    from herodotus_record.model import API_VERSION  # here, because it takes 10 ms

    members = sorted((_describe(pod) for pod in pods), key=lambda member: member["pod"])
    return {
        "apiVersion": API_VERSION,
        "kind": "UndecidedPodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "headline": _format_headline(queue, members),
        "queue": queue,
        "pods": members[:MAX_PODS],
        "podsOmitted": max(0, len(members) - MAX_PODS),
        "notes": list(notes),
    }


def _format_headline(queue: BatchQueue | None, members: Sequence[UndecidedMember]) -> str:
    placed, needed = sum(member["node"] is not None for member in members), queue["minMember"] if queue else None
    exist = f"{len(members)} pod{' exists' if len(members) == 1 else 's exist'}"
    if needed is not None:
        exist = f"{len(members)} of the {needed} pods that it needs exist"
    scheduled_by = (
        f"{queue['by']} schedules this group. " if queue else "No scheduler has decided this group as a whole. "
    )
    return f"{scheduled_by}{exist}, {placed} of them {'has' if placed == 1 else 'have'} a node."


def _describe(pod: Json) -> UndecidedMember:
    from herodotus_answers.pending import find_dominant_reason

    node = (pod.get("spec") or {}).get("nodeName")
    said = read_scheduled(pod)
    message = (said["message"] or said["reason"]) if said and said["status"] != "True" else ""
    return {
        "pod": pod["metadata"]["name"],
        "node": node or None,
        "reason": None if node else explain_untried(pod) or (find_dominant_reason(message) if message else None),
    }


def explain_untried(pod: Json) -> str:
    """Return why no scheduler has tried a pod that has no node; "" if one has."""
    gates = ", ".join(str(gate["name"]) for gate in pod["spec"].get("schedulingGates") or ())
    if gates:
        return f"waits for its scheduling gates ({gates})"
    return "" if read_scheduled(pod) else "was not tried yet"


def describe_blocking(pods: Sequence[Json], besides: str) -> str:
    """Return which other pods of a group have no node, each reason with its pods; "" if none is in the way.

    `besides` is the name of the pod that the sentence is for. Pods that their scheduler could place are left out.
    """
    names_by_reason: dict[str, list[str]] = {}
    for pod in sorted(pods, key=lambda each: natural_sort_key(each["metadata"]["name"])):
        name, said = str(pod["metadata"]["name"]), read_scheduled(pod)
        if name == besides or pod["spec"].get("nodeName") or (said is not None and said["reason"] == "Schedulable"):
            continue
        reason = explain_untried(pod) or (_shorten_message(said["message"] or said["reason"]) if said else "")
        names_by_reason.setdefault(reason, []).append(name)
    parts = []
    for reason, names in list(names_by_reason.items())[:_MAX_BLOCKING]:
        parts.append(join_limited(names, _MAX_BLOCKING) + (f" ({reason})" if reason else ""))
    return "; ".join(parts)


def _shorten_message(message: str) -> str:
    """Return what a scheduler's message says of nodes, which may follow words about the group; else all of it."""
    _, separator, counts = message.partition(_NODES)
    return (counts.partition(". ")[0] if separator else message).rstrip(". ")


def list_other_members(pods: Sequence[Json], recorded: Collection[str]) -> list[OtherMember]:
    """Return the pods of a group without a node and without a record, each with why. `recorded` has UIDs."""
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName") and pod["metadata"].get("uid") not in recorded]
    reasons = [(str(pod["metadata"]["name"]), explain_untried(pod) or "has no record") for pod in waiting]
    return [{"pod": name, "reason": reason} for name, reason in sorted(reasons)]
