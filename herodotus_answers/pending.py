"""Build the answer document `PendingPods`: pods whose last attempt chose no node, grouped by their most common reason.

Owns: the document's shape, the dominant reason of an event's message, when a retry is overdue, and the list with what
the API server knows. Does not own: which attempt is a pod's last one (the store), `live` itself
(`live.declarations`). Pure.

Invariant: each pod is in exactly one group. Records do not know of deletions: `apply_live` leaves out the pods that the
API server no longer has. Pods whose retry is overdue form groups of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.live.declarations import LiveCause, LivePending, UntriedPod
from herodotus_answers.wording import ShortReason
from herodotus_record import reasons
from herodotus_record.model import API_VERSION, Retry
from herodotus_record.units import format_timestamp

MAX_NAMED: Final = 5  # pods listed for a group; `pods` holds all of them
OVERDUE_AFTER_US: Final = 60_000_000  # a busy scheduler retries late, an idle one within a second
_BINDING_FAILED: Final = "a node was chosen, but the pod could not be bound to it"
_GROUP_NOT_PLACED: Final = "fits, but other pods of its group do not"
_OF_OTHERS: Final = ("text", "enforced-node-affinity")  # codes of reasons that the configuration or a plugin gives
_LEAD: Final = re.compile(r"0/\d+ nodes are available: ")
_COUNTED: Final = re.compile(r"(\d+) (.+?)(?=, \d+ |\.(?: |$)|$)")


@dataclass(frozen=True)
class PendingPod:
    """A pod without a node, as its last scheduling attempt left it.

    `is_undone` is whether a node was chosen and the placement undone with the pod's group. `created_us` and `retry` are
    None if the record of the attempt was not read. `restricted_to` names the only nodes that the pod may use, if they
    are few. `reason` is None if the decision was not read, or rejected no node.
    """

    namespace: str
    pod: str
    uid: str
    owner: str | None
    profile: str
    state: str
    attempt: int
    started_us: int
    message: str
    decision_id: str
    pod_group: str = ""
    is_undone: bool = False
    created_us: int | None = None
    retry: Retry | None = None
    restricted_to: tuple[str, ...] = ()
    reason: ShortReason | None = None


class ListedPendingPod(TypedDict):
    """A pod without a node."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    profile: Annotated[str, "Scheduler name (spec.schedulerName) of the pod."]
    state: Annotated[str, "State of the last attempt; Gated or Untried if no attempt is recorded."]
    podGroup: Annotated[str | None, "PodGroup of the pod."]
    reason: Annotated[str, "What `pod NAME` names first: what stops the nodes that the pod may use; or why none tried."]
    code: Annotated[str, "Stable code of the reason."]
    params: Annotated[dict[str, str], "Parameters of the reason, such as the resource or the taint's key."]
    attempt: Annotated[int, "Number of the last attempt; 0 if none is recorded."]
    id: Annotated[str | None, "ID of the decision; null if no attempt is recorded."]
    createdAt: Annotated[str | None, "Time at which the pod was created; null if it is not known."]
    startedAt: Annotated[str | None, "Start of the last attempt; null if none is recorded."]
    queue: Annotated[str | None, "Queue of the scheduler in which the pod waits; null if it is not known."]
    notBefore: Annotated[str | None, "Time before which the pod is not tried again; null if it is not known."]
    latest: Annotated[str | None, "Time at which the pod is tried even if nothing changes; null if there is none."]
    overdue: Annotated[bool, "Whether the scheduler should have tried the pod again by now."]
    message: Annotated[str, "Message of the pod's FailedScheduling event; empty if there is none."]
    restrictedTo: NotRequired[Annotated[list[str], "The only nodes that the pod may use, if there are few of them."]]


class GroupFix(TypedDict):
    """The best change known after which the first pod of a group would fit."""

    pod: Annotated[str, "The pod as NAMESPACE/NAME."]
    text: Annotated[str, "The change as a sentence."]
    command: Annotated[str | None, "Shell command that makes it; null if none is known."]
    checked: Annotated[bool, "Whether the pod with the change passed all filters on the snapshot of the attempt."]


class PendingGroup(TypedDict):
    """Pending pods of one PodGroup, or with one reason."""

    podGroup: Annotated[str | None, "PodGroup of the pods as NAMESPACE/NAME; null for pods without one."]
    reason: Annotated[str, "Reason of most nodes that they may use; of a PodGroup, that of most pods which block it."]
    code: Annotated[str, "Stable code of the reason."]
    overdue: Annotated[bool, "Whether the retries of the pods are overdue."]
    count: Annotated[int, "Number of the pods."]
    oldestAt: Annotated[str | None, "Time at which the oldest of the pods was created; null if it is not known."]
    pods: Annotated[list[str], "The oldest of the pods as NAMESPACE/NAME."]
    podsOmitted: Annotated[int, "Number of pods that are not listed in `pods`."]
    fix: NotRequired[Annotated[GroupFix | None, "Fix for the first pod, which the plugin asks for; null if none."]]


class PendingPods(Document):
    """Pods whose last attempt did not find a node."""

    kind: Literal["PendingPods"]
    at: Annotated[str, "Time of the request."]
    count: Annotated[int, "Number of pending pods."]
    overdue: Annotated[int, "Number of pending pods whose retry is overdue."]
    groups: Annotated[list[PendingGroup], "Pending pods, grouped by PodGroup or reason, most pods first."]
    pods: Annotated[list[ListedPendingPod], "Pending pods, oldest first."]
    podsOmitted: Annotated[int, "Number of pods that are not listed."]
    source: NotRequired[
        Annotated[
            Literal["evaluated", "conditions"],
            "Present if local mode evaluated the present cluster, or read the pods' own conditions without evaluating.",
        ]
    ]
    noRecords: NotRequired[Annotated[bool, "Present and true if no scheduler has ever sent records."]]
    live: NotRequired[Annotated[LivePending, "What the API server knows now about the pods."]]


def build_pending_pods(
    pods: Sequence[PendingPod], *, now_us: int, omitted: int = 0, namespace: str = ""
) -> PendingPods:
    """Return the JSON document of kind PendingPods: the pods without a node, oldest first, and grouped by reason.

    `omitted` counts further pods known to be pending. `now_us`, in microseconds since 1970, determines which retries
    are overdue.
    """
    listed = [
        _pod(pod, now_us) for pod in sorted(pods, key=lambda p: (p.created_us or p.started_us, p.namespace, p.pod))
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "PendingPods",
        "metadata": {"namespace": namespace} if namespace else {},
        "at": format_timestamp(now_us),
        "count": len(listed),
        "overdue": sum(pod["overdue"] for pod in listed),
        "groups": _groups(listed),
        "pods": listed,
        "podsOmitted": omitted,
    }


def apply_live(document: PendingPods) -> PendingPods:
    """Return a PendingPods document whose lists and counts are those of the present pods, as its `live` tells them.

    Pods that are gone are left out, and pods without a recorded attempt follow, in groups by their gates or scheduler.
    """
    live = document.get("live")
    if live is None:
        return document
    gone = {pod["uid"] for pod in live["gone"] or ()}
    left = [pod for pod in document["pods"] if pod["uid"] not in gone]
    untried = [_untried(pod) for pod in live["untried"]]
    by_reason: dict[str, list[ListedPendingPod]] = {}
    for pod in untried:
        by_reason.setdefault(pod["reason"], []).append(pod)
    return document | {
        "count": len(left) + len(untried),
        "overdue": sum(pod["overdue"] for pod in left),
        "groups": [
            *(_groups(left) if gone else document["groups"]),
            *(_group(reason, False, members) for reason, members in by_reason.items()),
        ],
        "pods": [*left, *untried],
    }


def replace_messages(document: PendingPods, messages: Mapping[str, str]) -> PendingPods:
    """Return a PendingPods document in which pods have these messages, by UID, and the reasons that they give."""
    if not messages:
        return document
    pods: list[ListedPendingPod] = []
    for pod in document["pods"]:
        message = messages.get(pod["uid"])
        if message is None:
            pods.append(pod)
        else:
            reason = _parse(find_dominant_reason(message))
            stated: ListedPendingPod = {**pod, "message": message, "reason": reason.text}
            stated |= {"code": reason.code, "params": dict(reason.params)}
            pods.append(stated)
    return document | {"pods": pods, "groups": _groups(pods)}


def add_causes(document: PendingPods, causes: Mapping[str, LiveCause]) -> PendingPods:
    """Return a PendingPods document in which the reasons of pods are followed by these causes, by UID."""
    if not causes:
        return document
    pods: list[ListedPendingPod] = []
    for pod in document["pods"]:
        cause = causes.get(pod["uid"])
        pods.append(pod if cause is None else {**pod, "reason": f"{pod['reason']}: {cause['text']}"})
    return document | {"pods": pods, "groups": _groups(pods)}


def _groups(pods: Sequence[ListedPendingPod]) -> list[PendingGroup]:
    """Return the pods grouped by pod group or reason: the largest group first, groups of overdue pods last."""
    groups: dict[tuple[str, bool, str], list[ListedPendingPod]] = {}
    for pod in pods:
        group = f"{pod['namespace']}/{pod['podGroup']}" if pod["podGroup"] else ""
        groups.setdefault((pod["reason"] if not group else "", pod["overdue"], group), []).append(pod)
    largest = sorted(groups.items(), key=lambda g: (g[0][1], -len(g[1]), g[0]))
    return [
        _group(_group_reason(members) if name else reason, overdue, members, name)
        for (reason, overdue, name), members in largest
    ]


def _group_reason(members: Sequence[ListedPendingPod]) -> str:
    """Return the most frequent reason of those members of a pod group that block it."""
    reasons_given = [pod["reason"] for pod in members if pod["reason"] != _GROUP_NOT_PLACED] or [_GROUP_NOT_PLACED]
    return Counter(reasons_given).most_common(1)[0][0]


def find_dominant_reason(message: str) -> str:
    """Return the reason that the most nodes gave in a FailedScheduling message.

    Nodes that the pod's own spec leaves out count only if there are no others: the reason is what stops the nodes that
    the pod may use. If the message counts no nodes, its first sentence is returned.
    """
    sentences = _LEAD.sub("", message, count=1)
    counts = [(int(n), words) for n, words in _COUNTED.findall(sentences.partition(". ")[0])]
    if not counts or not _LEAD.match(message):
        return sentences.partition(". ")[0].rstrip(".") or "no reason given"
    eligible = [c for c in counts if reasons.parse_reason(c[1].rstrip(".")).code not in reasons.EXCLUDED_BY_POD]
    _, words = max(eligible or counts, key=lambda c: c[0])
    return str(words).rstrip(".")


def list_unknown_reasons(message: str) -> list[str]:
    """Return the reasons that nodes gave in a FailedScheduling message and that no plugin of kube-scheduler states.

    An affinity that a profile adds to all pods is among them, because it is in no object.
    """
    if not _LEAD.match(message):
        return []
    counted = _COUNTED.findall(_LEAD.sub("", message, count=1).partition(". ")[0])
    given = [str(words).rstrip(".") for _, words in counted]
    return [words for words in given if reasons.parse_reason(words).code in _OF_OTHERS]


def _pod(pod: PendingPod, now_us: int) -> ListedPendingPod:
    retry = pod.retry
    latest = None if retry is None else retry.not_before_us if retry.latest_us is None else retry.latest_us
    reason = _find_reason(pod)
    listed: ListedPendingPod = {
        "namespace": pod.namespace,
        "pod": pod.pod,
        "uid": pod.uid,
        "owner": pod.owner,
        "profile": pod.profile,
        "state": pod.state,
        "podGroup": pod.pod_group or None,
        "reason": reason.text,
        "code": reason.code,
        "params": dict(reason.params),
        "attempt": pod.attempt,
        "id": pod.decision_id,
        "createdAt": None if pod.created_us is None else format_timestamp(pod.created_us),
        "startedAt": format_timestamp(pod.started_us),
        "queue": retry.queue if retry else None,
        "notBefore": format_timestamp(retry.not_before_us) if retry else None,
        "latest": None if retry is None or retry.latest_us is None else format_timestamp(retry.latest_us),
        "overdue": latest is not None and now_us > latest + OVERDUE_AFTER_US,
        "message": pod.message,
    }
    if pod.restricted_to:
        listed["restrictedTo"] = list(pod.restricted_to)
    return listed


def _find_reason(pod: PendingPod) -> ShortReason:
    if pod.is_undone:
        return _parse(_GROUP_NOT_PLACED)
    if pod.reason is not None:
        return pod.reason
    is_unbound = pod.state == "Failed" and not pod.message
    return _parse(_BINDING_FAILED if is_unbound else find_dominant_reason(pod.message))


def _parse(sentence: str) -> ShortReason:
    """Return a sentence as a reason, with its code if kube-scheduler uses the sentence."""
    parsed = reasons.parse_reason(sentence)
    return ShortReason(sentence, parsed.code, dict(parsed.params))


def _untried(pod: UntriedPod) -> ListedPendingPod:
    gates, scheduler, message = pod["schedulingGates"], pod["schedulerName"], pod["message"]
    reason = find_dominant_reason(message) if message else f"no attempt of {scheduler} is recorded"
    parsed = _parse(f"schedulingGates: {', '.join(gates)}" if gates else reason)
    return {
        "namespace": pod["namespace"],
        "pod": pod["pod"],
        "uid": pod["uid"],
        "owner": pod["owner"],
        "profile": scheduler,
        "podGroup": None,
        "state": "Gated" if gates else "Unschedulable" if message else "Untried",
        "reason": parsed.text,
        "code": parsed.code,
        "params": dict(parsed.params),
        "attempt": 0,
        "id": None,
        "createdAt": pod["createdAt"],
        "startedAt": None,
        "queue": "gated" if gates else None,
        "notBefore": None,
        "latest": None,
        "overdue": False,
        "message": message,
    }


def _group(reason: str, overdue: bool, members: Sequence[ListedPendingPod], pod_group: str = "") -> PendingGroup:
    return {
        "podGroup": pod_group or None,
        "reason": reason,
        "code": next((pod["code"] for pod in members if pod["reason"] == reason), "text"),
        "overdue": overdue,
        "count": len(members),
        "oldestAt": members[0]["createdAt"],
        "pods": [f"{pod['namespace']}/{pod['pod']}" for pod in members[:MAX_NAMED]],
        "podsOmitted": max(0, len(members) - MAX_NAMED),
    }
