"""Build the answer document `PodGroupPlacement`: how the pods of a PodGroup were placed together, or why they were not.

Owns: the state of the group, which members block it, what they lack, the document's shape. Does not own: selecting
decisions (the store), the scheduling cycle of a group. Pure.

A group has no record of its own. The decisions on its members name the group and the cycle in which they were decided,
and their outcomes say whether the group was placed.

Invariant: counts cover every member of the cycle that is recorded; `notRecorded` counts the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, NamedTuple, TypedDict

from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.explain import PLACED_STATES, select_nearest_rejected
from herodotus_answers.group_fixes import fit_to_group
from herodotus_answers.headlines import format_headline
from herodotus_answers.node_results import ReasonDetail, build_reason_detail, list_rejections
from herodotus_answers.pending import find_dominant_reason
from herodotus_answers.rejection_sentences import find_short_reason
from herodotus_answers.suggestions import SuggestedChange, build_suggestions
from herodotus_record.model import API_VERSION, Decision, NodeTable, PodGroupCycle
from herodotus_record.units import describe_all, format_requests, format_timestamp, pluralize

GroupState = Literal["Scheduled", "PartlyScheduled", "Fits", "WaitingForPreemption", "Unschedulable", "Error"]

MAX_REASONS: Final = 8  # different reasons of blocked members; the other members are counted
# Pods with scheduling gates exist, but cannot be tried.
FEW_MEMBERS: Final = "only {known} of the {needed} pods that the group needs have a node or can be tried"
FITS: Final = "Fits"
PREEMPTED: Final = "Preempted"


@dataclass(frozen=True)
class GroupMember:
    """The last attempt of a member of a group.

    `node` is the node that the attempt chose. If `state` is Unschedulable nevertheless, the placement was undone,
    because the group was not placed. State Fits is that of a pod that was evaluated now and that no scheduler placed,
    and Preempted that of one that `preemptor` evicted since then.
    `position` is the pod's position in the last cycle of the group, or None if it was decided in another cycle or
    alone. `short_reason` is what stops it as `pod` says it, "" if no decision with the same message was read.
    """

    namespace: str
    pod: str
    uid: str
    state: str
    node: str | None
    position: int | None
    attempt: int
    started_us: int
    message: str
    decision_id: str
    short_reason: str = ""
    preemptor: str = ""

    @property
    def had_node(self) -> bool:
        """Whether the member has a node, is being bound to one, or was evicted from one by a preemption."""
        return self.is_placed or self.state == PREEMPTED

    @property
    def is_placed(self) -> bool:
        """Whether the member has a node or is being bound to one."""
        return self.state in PLACED_STATES

    @property
    def is_provisional(self) -> bool:
        """Whether a node was found for the member, which is not placed: undone with the group, or only evaluated."""
        return self.state in ("Unschedulable", FITS) and self.node is not None

    @property
    def is_blocked(self) -> bool:
        """Whether no node was found for the member itself, or it could not be bound."""
        return not self.had_node and not self.is_provisional

    @property
    def reason(self) -> str:
        """The reason that most nodes gave, "" for a placed member."""
        if self.is_placed:
            return ""
        if self.state == PREEMPTED:
            return f"preempted by {self.preemptor}"
        if self.is_provisional:
            return "fits now" if self.state == FITS else "fits; undone with the group"
        return self.short_reason or find_dominant_reason(self.message)


class MemberRecord(NamedTuple):
    """The decision on a member, with its node table."""

    decision: Decision
    table: NodeTable


@dataclass(frozen=True)
class GroupRecords:
    """The members of a group and what was read of their decisions.

    `cycle` is the last cycle of the group, None if the members were decided alone, as by an observer. `blocking` has
    the decisions on blocked members, by decision ID: one for each reason. `group_message` is the message of a member
    whose placement was undone.
    """

    namespace: str
    name: str
    members: Sequence[GroupMember]
    cycle: PodGroupCycle | None
    blocking: Mapping[str, MemberRecord]
    group_message: str
    source: str


class MemberCounts(TypedDict):
    """Numbers of pods of the group."""

    members: Annotated[int, "Number of pods that are listed, or had a node before the last cycle and have no record."]
    placed: Annotated[int, "Number of pods that are on a node or being bound to one."]
    provisional: Annotated[int, "Number of pods for which a node was found, but which are not placed."]
    blocked: Annotated[int, "Number of pods for which no node was found."]
    preempted: Annotated[int, "Number of pods that were evicted for pods of higher priority since they were placed."]
    notRecorded: Annotated[int, "Number of pods of the last cycle without a record."]


class LastCycle(TypedDict):
    """Last scheduling cycle of the group."""

    number: Annotated[int, "Number of the cycle among all group cycles of the scheduler process."]
    pods: Annotated[int, "Number of pods that the cycle had to decide."]
    scheduledBefore: Annotated[int, "Number of pods of the group that were on a node before the cycle."]
    startedAt: Annotated[str, "Start of the first pod's decision."]
    seconds: Annotated[float, "Time from the start of the first pod's decision to that of the last, in seconds."]


class ClosestNode(TypedDict):
    """Rejected node that is closest to fitting."""

    node: Annotated[str, "Name of the node."]
    reason: Annotated[str, "Why it was rejected."]
    reasons: Annotated[list[ReasonDetail], "The same with its numbers, as PodExplanation has it."]


class Shortage(TypedDict):
    """What the group lacks."""

    pods: Annotated[int, "Number of missing pods."]
    requests: Annotated[dict[str, str], "Requests of the missing pods together, by resource."]
    closestNode: Annotated[ClosestNode | None, "Node that is closest to fitting the next pod; null if unknown."]
    enoughMinCount: Annotated[int | None, "Greatest minCount with which the group would have been placed."]


class BlockingReason(TypedDict):
    """A reason, the number of pods that it blocks, and the decision of the first of them."""

    reason: Annotated[str, "Reason of most nodes."]
    pods: Annotated[int, "Number of pods with the reason."]
    first: Annotated[str, "Name of the first of them."]
    position: Annotated[int | None, "Position of the first of them in the cycle; null if it was decided before."]
    id: Annotated[str, "ID of its decision."]
    message: Annotated[str, "Message of its FailedScheduling event."]
    headline: Annotated[str | None, "Its decision in one sentence; null if it was not read."]
    suggestions: Annotated[
        list[SuggestedChange],
        "Changes after which it would have fitted; the text says if they are for fewer pods than the group lacks.",
    ]


class GroupNode(TypedDict):
    """A node that was chosen for pods of the group."""

    node: Annotated[str, "Name of the node."]
    pods: Annotated[int, "Number of the group's pods for which it was chosen."]
    last: Annotated[str, "Name of the last of them."]
    position: Annotated[int | None, "Position of the last of them in the cycle; null if it was decided before."]
    full: Annotated[bool | None, "Whether it rejected the first blocked pod; null if unknown."]
    reason: Annotated[str | None, "Why it rejected the first blocked pod."]


class GroupPod(TypedDict):
    """A pod of the group."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    position: Annotated[int | None, "Position in the last cycle; null if it was decided before."]
    state: Annotated[str, "State of its last attempt, Fits or Preempted."]
    node: Annotated[str | None, "Node that the attempt chose."]
    provisional: Annotated[bool, "Whether it is not placed on that node."]
    reason: Annotated[str | None, "Why it is not placed."]
    attempt: Annotated[int, "Number of the attempt."]
    startedAt: Annotated[str, "Start of the attempt."]
    id: Annotated[str, "ID of the decision."]


class OtherMember(TypedDict):
    """A pod of the group that no scheduler tries."""

    pod: Annotated[str, "Name of the pod."]
    reason: Annotated[str, "Why no scheduler tries it."]


class PodGroupPlacement(Document, MemberCounts):
    """How the pods of a PodGroup were placed together, or which of them block it."""

    kind: Literal["PodGroupPlacement"]
    source: Annotated[str, "Source of the records; `evaluated` if local mode evaluated the present cluster."]
    state: Annotated[GroupState, "State of the group after its last cycle."]
    headline: Annotated[str, "The result for the group in one sentence."]
    message: Annotated[str, "Message of the members whose placement was undone with the group; empty if none was."]
    minCount: Annotated[int | None, "Number of pods that the group needs at least; null if unknown."]
    missing: Annotated[int, "Number of further pods that need a node before the group can be placed."]
    cycle: Annotated[LastCycle | None, "Last cycle of the group; null if its pods were decided alone."]
    shortage: Annotated[Shortage | None, "What would have been enough; null if no pod is missing."]
    reasons: Annotated[list[BlockingReason], "Reasons of the blocked pods, in the order of the cycle."]
    reasonsOmitted: Annotated[int, "Number of reasons that are not listed."]
    nodes: Annotated[list[GroupNode], "Nodes that were chosen for pods of the group."]
    pods: Annotated[list[GroupPod], "Pods of the group, in the order of the cycle."]
    otherMembers: NotRequired[
        Annotated[list[OtherMember], "Pods of the group that no scheduler tries; present if local mode has read them."]
    ]


def group_by_reason(members: Sequence[GroupMember]) -> list[list[GroupMember]]:
    """Return the blocked members grouped by reason, in the order of the cycle."""
    groups: dict[str, list[GroupMember]] = {}
    for member in members:
        if member.is_blocked:
            groups.setdefault(member.reason, []).append(member)
    return list(groups.values())


def build_pod_group_placement(records: GroupRecords) -> PodGroupPlacement:
    """Return the JSON document of kind PodGroupPlacement."""
    records = replace(records, members=_hold_back([_with_short_reason(m, records) for m in records.members], records))
    members, cycle = records.members, records.cycle
    blocked = group_by_reason(members)
    earlier = _count_placed_before(records) - sum(m.had_node for m in members if m.position is None)
    counts: MemberCounts = {
        "members": len(members) + earlier,
        "placed": sum(m.is_placed for m in members) + earlier,
        "provisional": sum(m.is_provisional for m in members),
        "blocked": sum(map(len, blocked)),
        "preempted": sum(m.state == PREEMPTED for m in members),
        "notRecorded": max(0, cycle.pods - sum(m.position is not None for m in members)) if cycle else 0,
    }
    missing = _count_missing(records, counts)
    answer: PodGroupPlacement = {
        "apiVersion": API_VERSION,
        "kind": "PodGroupPlacement",
        "metadata": {"namespace": records.namespace, "name": records.name},
        "source": records.source,
        "state": _state(members, counts, records.group_message),
        "headline": "",
        "message": records.group_message,
        "minCount": cycle.min_count if cycle else None,
        "members": counts["members"],
        "placed": counts["placed"],
        "provisional": counts["provisional"],
        "blocked": counts["blocked"],
        "preempted": counts["preempted"],
        "notRecorded": counts["notRecorded"],
        "missing": missing,
        "cycle": _cycle(records),
        "shortage": _shortage(records, blocked, missing, counts),
        "reasons": [_reason(group, records.blocking, missing) for group in blocked[:MAX_REASONS]],
        "reasonsOmitted": max(0, len(blocked) - MAX_REASONS),
        "nodes": _nodes(records, blocked),
        "pods": [_member(m) for m in members],
    }
    answer["headline"] = _headline(records, answer)
    return answer


def _hold_back(members: Sequence[GroupMember], records: GroupRecords) -> Sequence[GroupMember]:
    """Return the members, those being bound as only provisional if too few have a node: the group is not placed then.

    Their outcomes are recorded after the group's cycle.
    """
    if records.cycle is None:
        return members
    now = sum(m.had_node for m in members if m.position is not None)
    if now + _count_placed_before(records) >= records.cycle.min_count:
        return members
    return [replace(m, state="Unschedulable") if m.state == "Binding" else m for m in members]


def _count_placed_before(records: GroupRecords) -> int:
    """Return how many members had a node before the last cycle; the records of some may be gone."""
    recorded = sum(m.had_node for m in records.members if m.position is None)
    return max(records.cycle.scheduled if records.cycle else 0, recorded)


def _with_short_reason(member: GroupMember, records: GroupRecords) -> GroupMember:
    """Return a blocked member with the reason of the decision that was read for it or for one with its message."""
    if not member.is_blocked:
        return member
    alike = (m for m in records.members if m.message == member.message and m.decision_id in records.blocking)
    record = records.blocking.get(member.decision_id) or next((records.blocking[m.decision_id] for m in alike), None)
    reason = find_short_reason(record.decision, record.table) if record else None
    return replace(member, short_reason=reason.text if reason else "")


def _count_missing(records: GroupRecords, counts: MemberCounts) -> int:
    """Return how many more members need a node before the group can be placed."""
    return 0 if records.cycle is None else max(0, records.cycle.min_count - counts["placed"] - counts["provisional"])


def _state(members: Sequence[GroupMember], counts: MemberCounts, message: str) -> GroupState:
    if members and all(m.state == FITS for m in members if not m.is_placed):
        return FITS if counts["provisional"] else "Scheduled"
    if (counts["placed"] or counts["preempted"]) and not counts["provisional"]:
        return "PartlyScheduled" if counts["blocked"] or counts["preempted"] else "Scheduled"
    if any(m.state in ("Error", "Failed") for m in members):
        return "Error"
    return "WaitingForPreemption" if "preemption" in message else "Unschedulable"


def _cycle(records: GroupRecords) -> LastCycle | None:
    cycle = records.cycle
    if cycle is None:
        return None
    times = [m.started_us for m in records.members if m.position is not None]
    return {
        "number": cycle.number,
        "pods": cycle.pods,
        "scheduledBefore": cycle.scheduled,
        "startedAt": format_timestamp(min(times)),
        "seconds": (max(times) - min(times)) / 1e6,
    }


def _shortage(
    records: GroupRecords, blocked: Sequence[Sequence[GroupMember]], missing: int, counts: MemberCounts
) -> Shortage | None:
    """Return what the members that the group still needs request together, and the `minCount` that would be enough."""
    if not missing or not blocked:
        return None
    first = records.blocking.get(blocked[0][0].decision_id)
    requests = {} if first is None else {name: n * missing for name, n in first.decision.pod.requests.items()}
    return {
        "pods": missing,
        "requests": format_requests(requests),
        "closestNode": None if first is None else _closest(first),
        "enoughMinCount": counts["placed"] + counts["provisional"] or None,
    }


def _closest(record: MemberRecord) -> ClosestNode | None:
    """Return the rejected node that is closest to fitting, and its reasons."""
    if record.decision.chosen is not None:
        return None
    slot = next(iter(select_nearest_rejected(record.decision, record.table, 1)), None)
    if slot is None:
        return None
    details = _detail_rejection(record, slot)
    return {"node": record.table.names[slot], "reason": _rejection(record, slot), "reasons": details}


def _rejection(record: MemberRecord, slot: int) -> str:
    """Return why the decision rejected a node, by the filter that rejected it first, or "" if it did not."""
    rejections = list_rejections(record.decision, slot)
    if not rejections:
        return ""
    return ", ".join(each["text"] for each in _detail_rejection(record, slot)) or rejections[0][0]


def _detail_rejection(record: MemberRecord, slot: int) -> list[ReasonDetail]:
    """Return the reasons of the filter that rejected a node first, [] if none did."""
    rejections = list_rejections(record.decision, slot)[:1]
    reasons = [reason for _, verdict in rejections for reason in verdict.reasons]
    return [build_reason_detail(record.decision, record.table, slot, reason) for reason in reasons]


def _reason(group: Sequence[GroupMember], read: Mapping[str, MemberRecord], missing: int) -> BlockingReason:
    """Return the reason of a group of members; `missing` is the number of members that still need a node."""
    first = group[0]
    record = read.get(first.decision_id)
    return {
        "reason": first.reason,
        "pods": len(group),
        "first": first.pod,
        "position": first.position,
        "id": first.decision_id,
        "message": first.message,
        "headline": format_headline(record.decision, record.table) if record else None,
        "suggestions": fit_to_group(build_suggestions(record.decision), record.decision, record.table, missing)
        if record
        else [],
    }


def _nodes(records: GroupRecords, blocked: Sequence[Sequence[GroupMember]]) -> list[GroupNode]:
    """Return the nodes chosen for members: how many, the last of them, and why the first blocked member did not fit.

    `full` is null if no decision on a blocked member with this node was read.
    """
    chosen: dict[str, list[GroupMember]] = {}
    for member in records.members:
        if member.node is not None and (member.is_placed or member.is_provisional):
            chosen.setdefault(member.node, []).append(member)
    first = records.blocking.get(blocked[0][0].decision_id) if blocked else None
    slots = {} if first is None else {name: slot for slot, name in enumerate(first.table.names) if name in chosen}
    nodes = list[GroupNode]()
    for node, members in chosen.items():
        slot = slots.get(node)
        rejected = "" if first is None or slot is None else _rejection(first, slot)
        nodes.append(
            {
                "node": node,
                "pods": len(members),
                "last": members[-1].pod,
                "position": members[-1].position,
                "full": None if slot is None else bool(rejected),
                "reason": rejected or None,
            }
        )
    return nodes


def _member(member: GroupMember) -> GroupPod:
    return {
        "namespace": member.namespace,
        "pod": member.pod,
        "uid": member.uid,
        "position": member.position,
        "state": member.state,
        "node": member.node,
        "provisional": member.is_provisional,
        "reason": member.reason or None,
        "attempt": member.attempt,
        "startedAt": format_timestamp(member.started_us),
        "id": member.decision_id,
    }


def _headline(records: GroupRecords, answer: PodGroupPlacement) -> str:
    """Return one sentence on the group: how many members fit, how many it needs, and who blocks it."""
    members, need = answer["members"], f" (minCount {answer['minCount']})" if answer["minCount"] else ""
    nodes = Counter(m.node for m in records.members if m.is_placed)
    if answer["state"] == FITS:
        chosen = {m.node for m in records.members}
        return f"The group fits now: {pluralize(members, 'pod')} on {pluralize(len(chosen), 'node')}{need}."
    if answer["state"] == "Scheduled":
        return f"{describe_all(members, 'pod')} placed on {pluralize(len(nodes), 'node')}{need}."
    if answer["state"] == "PartlyScheduled":
        others = [f"{answer['blocked']} found no node: {answer['reasons'][0]['reason']}"] if answer["reasons"] else []
        evicted = [m for m in records.members if m.state == PREEMPTED]
        others += [f"{len(evicted)} preempted by {evicted[0].preemptor}"] if evicted else []
        return f"{answer['placed']} of {pluralize(members, 'pod')} placed{need}; {'; '.join(others)}."
    known = members + answer["notRecorded"]
    if known < (answer["minCount"] or 0):
        return f"The group is not placed: {FEW_MEMBERS.format(known=known, needed=answer['minCount'])}."
    if not answer["reasons"]:
        return f"The group is not placed{need}: {answer['message'] or 'its members fit, but it needs more of them'}."
    fits, first = answer["placed"] + answer["provisional"], answer["reasons"][0]
    lead = {"WaitingForPreemption": "The group waits for preemption", "Error": "The group's cycle ended in an error"}
    state = lead.get(answer["state"], "The group does not fit")
    return (
        f"{state}: {fits} of {pluralize(members + answer['notRecorded'], 'pod')} fit{need}."
        f" {first['first']} found no node: {first['reason']}."
    )
