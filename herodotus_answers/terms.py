"""The words that screens print, each with what it means: requeue events, queues, states, headings.

Owns: these meanings. Does not own: plugins and their reasons (`plugin_reference`), which have answers of their own.

Invariant: every requeue event, queue, state, kind of evaluation and heading has a meaning
(tests/cli/render/test_terms.py gathers them where they are declared).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from herodotus_answers.declare import Document
from herodotus_record.model import API_VERSION

_REQUEUED: Final = "A scheduler tries a waiting pod again when such an event may help it."
_ACTIONS: Final[Mapping[str, str]] = {
    "Add": "was created, or became visible",
    "Delete": "was deleted, or left",
    "Update": "was changed",
    "UpdateNodeAllocatable": "has other allocatable amounts",
    "UpdateNodeLabel": "has other labels",
    "UpdateNodeTaint": "has other taints, or was cordoned or uncordoned",
    "UpdateNodeAnnotation": "has another annotation that a plugin reads",
    "UpdateNodeDeclaredFeature": "declares other features of its kubelet",
    "UpdatePodLabel": "has other labels",
    "UpdatePodScaleDown": "requests less than before",
    "UpdatePodToleration": "has other tolerations",
    "UpdatePodSchedulingGatesEliminated": "lost its last scheduling gate",
    "UpdatePodGeneratedResourceClaim": "got the claim that was made from its template",
}
_OBJECTS: Final[Mapping[str, str]] = {
    "AssignedPod": "A pod on a node, or nominated for one,",
    "UnschedulablePod": "The waiting pod itself",
}
_QUEUES: Final[Mapping[str, str]] = {
    "active": "Queue of pods that are tried next, by priority and then by age.",
    "backoff": "Pods that wait some seconds after a failed attempt, longer after each, before they become active.",
    "unschedulable": "Pods for which no node fitted. They wait for an event that may help, at most five minutes.",
    "gated": "Pods with scheduling gates: they are tried once something removes the gates.",
}
_STATES: Final[Mapping[str, str]] = {
    "Bound": "The pod was bound to its node. Whether it runs there is the kubelet's part.",
    "Binding": "A node was chosen, and the API server has not confirmed it yet.",
    "DryRun": "A node was chosen, and the pod was deliberately not bound.",
    "Failed": "A node was chosen, but a step after that failed; the pod is tried again.",
    "Unschedulable": "No node passed every filter.",
    "Error": "The attempt ended in an error of the scheduler or of a plugin.",
    "Evicted": "The pod was deleted to make room for one of higher priority.",
}
_EVALUATIONS: Final[Mapping[str, str]] = {
    "evaluated": "The filters ran on the node.",
    "absent": "The node was not in the cluster.",
    "restricted": "A PreFilter plugin had excluded the node before filters ran, as for a pod pinned to other nodes.",
    "not-sampled": "Enough feasible nodes had been found before (percentageOfNodesToScore).",
    "not-needed": "The nominated node fitted, so no other was looked at.",
    "not-reached": "The attempt ended before the node was looked at.",
    "unrecorded": "The record does not say.",
}
_HEADINGS: Final[Mapping[str, str]] = {
    "AGE": "Time since.",
    "AHEAD BY": "Points by which the node led the second best.",
    "ALL NODES PASS": "Filters that no node failed.",
    "ALWAYS PASS": "Filters that never rejected the node.",
    "ATTEMPT": "Number of the try to find a node for the pod.",
    "AUTOSCALER": "What the autoscaler's events, conditions and objects say about new nodes for the pod.",
    "BY": "Who or what did it.",
    "CAUSE": "What keeps the pod or workload from its state, with the source in brackets.",
    "CHOSEN": "Times that the node was chosen.",
    "CHOSEN FOR": "Workloads for whose pods the node was chosen.",
    "CPU REQUESTS": "Sum of the CPU requests of the node's pods.",
    "CPU": "Sum of the CPU requests of the node's pods, of what it has for pods.",
    "DECIDED BY": "Score plugin that made most of the lead of the chosen node over the second best; tie: none, and a"
    " node was drawn at random.",
    "DIFFERENCE": "Points of the first node minus those of the second.",
    "EVENT": "Message of the FailedScheduling event.",
    "EXPECTED": "Number by an equal share.",
    "FEASIBLE": "Nodes that passed every filter.",
    "FILTER": "Plugin that says whether the pod can run on a node at all.",
    "FIND A NODE": "Pods that would find a node.",
    "FIT": "Feasible nodes of all nodes.",
    "FIX": "A change after which the pod would fit; it was checked on the snapshot unless `not checked` follows.",
    "FROM": "Node that the pod leaves.",
    "FULL": "Largest share of a resource of the node that pods request.",
    "HOLDS": "Pods that hold what the waiting pod lacks, largest first.",
    "LIMITED BY": "What keeps the next pod from the node.",
    "LOST": "Times that the node was scored and another was chosen.",
    "MARGIN": "Points between the chosen node and the next.",
    "MOVES": "Pods that would leave their nodes, or be new.",
    "NEXT TRY": "When the scheduler tries the pod again: after its backoff, on an event that may help, or at the latest"
    " after five minutes.",
    "NODE GROUPS": "Pools from which an autoscaler takes new nodes, and whether one of their nodes would fit.",
    "NORM": "Score of the plugin from 0 to 100, before its weight.",
    "NOT EVALUATED": "Nodes on which no filter ran.",
    "NOTHING TO CHECK": "Plugins that had nothing to do for this pod.",
    "OWNER": "Controller that made the pod.",
    "PASSED": "Times that the node passed the filter.",
    "PASSES": "Share of attempts in which the node passed the filter.",
    "PLUGIN": "Part of the scheduler that filters or scores nodes.",
    "POD SPEC DIFF": "What scheduling reads of the two pods and differs, from the earlier to the later decision.",
    "POINTS": "Normalized score times the plugin's weight; their sum is the total.",
    "PREEMPTED BY": "Pod of higher priority for which the victim was evicted.",
    "PREEMPTION": "Whether evicting pods of lower priority would make room, by node.",
    "PREFILTER": "Step before filters, which may exclude nodes at once.",
    "QUEUE": "Part of the scheduling queue in which the pod waits, or its place there.",
    "RANK": "Place of the node by total, from 1; equal totals share a rank.",
    "RAW": "Score of the plugin before normalization.",
    "REJECTED": "Number of nodes that the filter rejected first.",
    "REQUEUED BY": "Event that put the pod back into the queue, and the plugin that it may help.",
    "SCORE PLUGIN": "Plugin that ranks the nodes which passed every filter.",
    "SCORED": "Times that the node was feasible and ranked.",
    "SEE": "Command that shows the object of the cause.",
    "SHARE": "Part of the pods that the node has.",
    "SKEW": "Difference between the domains with the most and the fewest pods.",
    "STAYS PENDING": "Pods that would find no node.",
    "STOPS AT": "What stops the next pod of the group.",
    "TAINTS": "Taints of the node that pods must tolerate.",
    "TOP WORKLOADS": "Workloads whose pods the node wins most often.",
    "TOTAL": "Sum of the points of all score plugins.",
    "TRIED": "Time since the last attempt.",
    "UNREAD": "Objects that you may not read, or that could not be read.",
    "VERDICT": "Whether the filter passes the node.",
    "VERDICTS DIFFER": "Nodes that fit one of the two pods only, with the filter that rejects the other.",
    "VICTIM": "Pod that was evicted for one of higher priority.",
    "WEIGHT": "Factor of a plugin's score, from the scheduler's configuration.",
    "WHAT CHANGED": "What differs between two attempts: pods, nodes, verdicts, free amounts.",
    "WHAT LIMITS IT": "Why no more pods fit, by number of nodes.",
    "WON": "Times that the node was chosen, and the plugins to which it owed that.",
    "ZONES": "Pods by zone of their nodes.",
}
_OTHERS: Final[Mapping[str, str]] = {
    "UnschedulableTimeout": "No event moved the pod for five minutes, so it is tried again.",
    "ForceActivate": "The scheduler was asked to try this pod at once.",
    "feasible": "A node is feasible for a pod if it passes every filter.",
    "nominated": "Pods were evicted on a node for this pod, which is tried there once they have ended.",
    "tie": "Several nodes had the same total, and one was drawn at random.",
    "overdue": "The scheduler should have tried the pod again by now: it does not run, or the pod was deleted.",
    "Preemption is not helpful for scheduling": "Evicting pods would not make the node fit, because what rejects the"
    " pod there is no lack of room that pods cause: a taint, a selector, a cordon, a node that is too small. A higher"
    " priority does not help.",
    "No preemption victims found for incoming pod": "No pods of lower priority on the node hold enough of what the pod"
    " lacks.",
}
_GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "queue": _QUEUES,
    "state": _STATES,
    "evaluation of a node": _EVALUATIONS,
    "word": _OTHERS,
    "heading": _HEADINGS,
}


class TermExplanation(Document):
    """A word of the screens, and what it means."""

    kind: Literal["TermExplanation"]
    of: Annotated[str, "What the word is: event, queue, state, evaluation of a node, word or heading."]
    meaning: Annotated[str, "What it means."]


def find_term(words: str) -> TermExplanation | None:
    """Return the document about a word that screens print, regardless of case; None if it is none."""
    wanted = words.strip().rstrip(".").lower()
    if meaning := _explain_event(wanted):
        return _build(words.strip(), "event", meaning)
    for of, terms in _GROUPS.items():
        for name, meaning in terms.items():
            if wanted == name.lower():
                return _build(name, of, meaning)
    return None


def list_terms() -> list[str]:
    """Return the words with a meaning, except the events, which are composed."""
    return [name for terms in _GROUPS.values() for name in terms]


def _explain_event(wanted: str) -> str:
    """Return the meaning of a requeue event, whose name is an object and an action: `nodeadd`; "" if it is none."""
    for action, happened in sorted(_ACTIONS.items(), key=lambda item: -len(item[0])):
        name = wanted.removesuffix(action.lower())
        if name in ("", wanted):
            continue
        kind = next((k for k in _KINDS if k.lower() == name.rpartition("/")[2]), "")
        if kind:
            return f"{_OBJECTS.get(kind, f'A {kind}')} {happened}. {_REQUEUED}"
    return ""


_KINDS: Final = (
    *_OBJECTS,
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceClass",
    "PodGroup",
)


def _build(name: str, of: str, meaning: str) -> TermExplanation:
    return {
        "apiVersion": API_VERSION,
        "kind": "TermExplanation",
        "metadata": {"name": name},
        "of": of,
        "meaning": meaning,
    }
