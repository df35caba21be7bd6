"""The words that screens print, each with what it means: requeue events, queues, states, headings.

Owns: these meanings. Does not own: plugins and their reasons (`plugin_reference`), which have answers of their own;
codes of states and causes (`live.codes`, `live.workloads.workload_codes`).

Invariant: every requeue event, queue, state, kind of evaluation, code and heading has a meaning
(tests/cli/render/test_terms.py gathers them where they are declared and where they are printed).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from herodotus_answers.declare import Document
from herodotus_answers.reason_list import CAUSES, STATES
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
    "ACCUMULATED": "Sum of the plugin's points over all attempts in which the node was scored.",
    "AGAINST": "The node that the chosen one is compared with: the second best.",
    "AGE": "Time since.",
    "AGREE": "Outcomes that the observer's evaluation gives too.",
    "AHEAD BY": "Points by which the node led the second best.",
    "ALIKE": "Pods of one owner with one reason, of which the first is named.",
    "ALL NODES PASS": "Filters that no node failed.",
    "ALWAYS PASS": "Filters that never rejected the node.",
    "AMOUNTS": "Requests or nodes of the group so far, and its limits.",
    "AND": "A further fix that is needed too, or a further difference.",
    "ARCHIVE": "Day of the archive from which the decision was read, because the service no longer has it.",
    "ARRIVALS": "Number of pods that arrive in a part of a trace.",
    "AT": "When it happened in a simulation, from the start of the trace.",
    "ATTEMPT": "Number of the try to find a node for the pod.",
    "AUTOSCALER": "What the autoscaler's events, conditions and objects say about new nodes for the pod.",
    "AVERAGE": "Mean of the points per attempt in which the node was scored.",
    "BECAUSE OF": "Pod that keeps the node from being removed.",
    "BEST NODES": "Nodes that the pod would get, before and after; several if their totals are equal.",
    "BLOCKED": "Pods that kubectl drain does not evict, so that their node is not drained.",
    "BY": "Who or what did it.",
    "BY ZONE": "New nodes by zone.",
    "CAUSE": "What keeps the pod or workload from its state, with the source in brackets.",
    "CAUSES": "What explains the outcomes that differ, by number.",
    "CHANGE": "What differs between the two sides.",
    "CHANGE THE POD OR A NODE": "Plan of one fix, the same that the answer about the pod names.",
    "CHANGED WINNER": "Decisions in which another node would have won without the plugin.",
    "CHOSEN": "Times that the node was chosen.",
    "CHOSEN FOR": "Workloads for whose pods the node was chosen.",
    "CLUSTER CHANGES": "Nodes that came or went between two decisions, and the largest free amounts that differ.",
    "CLUSTER CHANGES IN": "Nodes that came or went between two decisions, and the largest free amounts that differ.",
    "CLUSTER DIFFERS": "What differs between two simulated clusters when they decide about the pod.",
    "CODE": "Stable name of a reason, for programs.",
    "CONDITION": "Condition of the object's status that says this.",
    "CONSTRAINT": "Topology spread constraint of the workload, by its topology key.",
    "COST": "What a plan disturbs: deleted pods, budgets used, detached volumes, new nodes.",
    "CPU": "Sum of the CPU requests of the node's pods, of what it has for pods.",
    "CPU REQUESTS": "Sum of the CPU requests of the node's pods.",
    "DAEMON PODS": "Requests of the DaemonSets' pods that each new node gets.",
    "DECIDED": "Decisions in which the plugin made most of the winner's lead.",
    "DECISION": "What the last scheduling attempt found, under the state that the pod is in now.",
    "DECIDED BY": "Score plugin that made most of the lead of the chosen node over the second best; tie: none, and a"
    " node was drawn at random.",
    "DEVICES": "Devices of dynamic resource allocation that the pod was given or lacks.",
    "DIFF": "Points of this node minus those of the chosen one.",
    "DIFFERENCE": "Points of the first node minus those of the second.",
    "DISAGREE": "Outcomes that the observer's evaluation does not give and nothing explains.",
    "EFFECT": "What the rule changes.",
    "EMPTIED": "Nodes whose pods would all fit elsewhere.",
    "ENDS": "Pods that would end and that nothing replaces.",
    "ENOUGH": "Minimum number of pods with which the group would have been placed.",
    "EVALUATED NOW": "What an evaluation of the present cluster finds, under the state that the pod is in now.",
    "EVALUATION": "What the observer's evaluation gave.",
    "EVENT": "Message of the FailedScheduling event.",
    "EVICTED": "Pod that the descheduler would evict.",
    "EVICTS": "Number of pods that the plugin evicts.",
    "EXPECTED": "Number by an equal share.",
    "EXPLAINED": "Missing records whose cause is known.",
    "FEASIBLE": "Nodes that passed every filter.",
    "FILTER": "Plugin that says whether the pod can run on a node at all.",
    "FILTERS": "Plugins that say whether the pod can run on the node, each with its verdict.",
    "FIND A NODE": "Pods that would find a node.",
    "FIGURE": "What a simulation measured (docs/offline.md defines each figure).",
    "FIRST": "First pods of the row.",
    "FIT": "Feasible nodes of all nodes.",
    "EVENTS": "The newest events about the node, one of each kind, without those of every start of a node.",
    "FIX": "A change after which the pod would fit; it was checked on the snapshot unless `not checked` follows.",
    "FLAVOR": "ResourceFlavor of Kueue whose quota is counted.",
    "FOR": "Pod whose decision the column has.",
    "FROM": "Node that the pod leaves.",
    "FULL": "Largest share of a resource of the node that pods request.",
    "HALF": "Part of a trace: the one that tuning searched, or the one that it has not seen.",
    "HIGHEST": "The largest value of the plot.",
    "HOLDERS": "How many pods hold what the waiting pod lacks, and which would have to leave.",
    "HOLDS": "Pods that hold what the waiting pod lacks, largest first.",
    "ID": "Identifier of the cluster: the UID of its namespace kube-system.",
    "IN FLIGHT": "Outcomes that depend on pods which were being bound at the same time.",
    "INPUT": "Measurement that a plugin scores by.",
    "INPUTS": "Measurements that plugins score by, for each node.",
    "KEPT": "Nodes that cannot be emptied.",
    "LAST": "Time since the last one.",
    "LAST POD": "Last pod of the group that was placed on the node, with its position.",
    "LAST PODS": "Pods that were placed last.",
    "LIMIT": "Most that the queue may use.",
    "LIMIT OF": "Node group that has a limit.",
    "LIMITED BY": "What keeps the next pod from the node.",
    "LOWER A REQUEST": "Plans that lower a request of the waiting pods.",
    "LOST": "Times that the node was scored and another was chosen.",
    "LOWEST": "The smallest value of the plot.",
    "MARGIN": "Points between the chosen node and the next.",
    "MAX": "Largest skew that the constraint allows (maxSkew).",
    "MEASURED": "Time of the measurement.",
    "MEMORY": "Sum of the memory requests of the node's pods, of what it has for pods.",
    "MESSAGE": "Text of the event or condition, as its author wrote it.",
    "MIN": "Nodes that the group always has.",
    "MISSING": "Records that were lost, as gaps in the sequence show.",
    "MORE": "Documentation.",
    "MOVE PODS": "Plans that delete pods whose controllers recreate them on other nodes.",
    "MOVES": "Pods that would leave their nodes and find others.",
    "NAME": "Name of the object.",
    "NEEDS": "Pods that the group must place together (minCount).",
    "NEW NODE": "What a new node of the group has for pods.",
    "NEW NODES": "Nodes that the group would grow by.",
    "NEW POD": "Pod that the changes create, with the node that it would get.",
    "NEWEST": "Age of the newest pod.",
    "NEXT TRY": "When the scheduler tries the pod again: after its backoff, on an event that may help, or at the"
    " latest after five minutes.",
    "NO BLOCKER": "Nodes that nothing known keeps from being removed.",
    "NO PLAN": "Kinds of plans of which none was found, with the reason.",
    "NO POD ON": "Nodes on which the DaemonSet has no pod, and why.",
    "NODE": "Machine on which pods run.",
    "NODE GROUP": "Pool from which an autoscaler takes new nodes.",
    "NODE GROUPS": "Pools from which an autoscaler takes new nodes, and whether one of their nodes would fit.",
    "NODE OR REASON": "Node that the pods got, or why they got none.",
    "NODES": "Number of nodes.",
    "NORM": "Score of the plugin from 0 to 100, before its weight.",
    "NORMALIZED": "Score of the plugin from 0 to 100, before its weight.",
    "NOT DRAINED": "Nodes that cannot be drained, with the pod that keeps them.",
    "NOT COMPARED": "Decisions in which the node fitted, and that chose none or did not compare scores.",
    "NOT CREATED": "Pods that a workload lacks because they were refused: none of them is pending.",
    "NOT EVALUATED": "Nodes on which no filter ran, or decisions that ran none on the node.",
    "NOT EVICTED": "Pod that a plugin of the descheduler leaves alone.",
    "NOT RECORDED": "Members of the group without a record.",
    "NOT TRIED": "Members of the group that the scheduler did not try, and why.",
    "NOTE": "What limits the answer.",
    "NOTHING TO CHECK": "Plugins that had nothing to do for this pod.",
    "OF": "Attempts in which the filter ran on the node.",
    "OLDEST": "Time that the longest pending pod waits.",
    "ON": "Node of the pod.",
    "OR EVICT": "Pods whose eviction would make room instead.",
    "OTHER": "What else decided, or the other node of a comparison.",
    "OTHER NODES": "Filters that rejected the other nodes, where only one fitted, each with its number of nodes.",
    "OUTCOMES": "Results of the observed scheduler that were evaluated.",
    "OWNER": "Controller that made the pod.",
    "PASSED": "Times that the node passed the filter.",
    "PASSES": "Share of attempts in which the node passed the filter.",
    "PENDING": "Pods that wait for a node.",
    "PENDING, GETS A NODE": "Pods that are pending now and would get a node.",
    "PLACED": "Nodes that the pods of a plan get.",
    "PLACED POD": "Pod that got a node.",
    "PLUGIN": "Part of the scheduler that filters or scores nodes.",
    "POD": "Namespace and name of the pod.",
    "POD GROUP": "Pods that are placed together or not at all.",
    "POD ON ANOTHER NODE": "Pod whose node differs between the simulated variants, by namespace and name.",
    "POD SPEC DIFF": "What scheduling reads of the two pods and differs, from the earlier to the later decision.",
    "PODS": "Number of pods.",
    "PODS LEFT": "Pods that would still find no node.",
    "PODS PLACED": "Pods that would find a node.",
    "PODS TO MOVE": "Pods that would have to go to other nodes.",
    "POINTS": "Normalized score times the plugin's weight; their sum is the total.",
    "POSITION": "Place in the order in which the group's pods are tried, or of the workload in its queue.",
    "PREEMPTED": "Pod that was evicted from its node for one of higher priority.",
    "PREEMPTED BY": "Pod of higher priority for which the victim was evicted.",
    "PREEMPTION": "Whether evicting pods of lower priority would make room, by node.",
    "PREFILTER": "Step before filters, which may exclude nodes at once.",
    "PRESENT": "With the configuration as it is.",
    "PRIORITY": "Priority of the pod (spec.priority). Pods of a higher one are tried first, and may preempt.",
    "QUEUE": "Part of the scheduling queue in which the pod waits, or its place there.",
    "QUOTA": "Resource of which the queue has a quota.",
    "RANK": "Place of the node by total, from 1; equal totals share a rank.",
    "RAW": "Score of the plugin before normalization.",
    "READS": "Fields of objects that the plugin reads.",
    "REASON": "Why, in kube-scheduler's words or shorter.",
    "RECENT PODS": "Pods for which the node was considered last.",
    "REFUSED": "Evictions that a disruption budget or a limit of the policy refuses.",
    "REJECTED": "Number of nodes that the filter rejected first.",
    "REJECTED FOR": "Reasons for which the filter rejected the node, by number of attempts.",
    "REQUEST": "Amount that the pod requests.",
    "REQUESTS": "Amounts that the pod requests.",
    "REQUEUED BY": "Event that put the pod back into the queue, and the plugin that it may help.",
    "RESULT": "How it ended.",
    "RULE": "Feature gate or other rule of kube-scheduler that differs between the versions.",
    "RUNS": "Times that schedulers of the cluster were started.",
    "SCALE DOWN LOWER-PRIORITY WORKLOADS": "Plans that scale a workload of lower priority down by one pod.",
    "SCHEDULER": "Name of the scheduler (spec.schedulerName).",
    "SCHEDULERS": "Schedulers with records in the cluster.",
    "SCORE PLUGIN": "Plugin that ranks the nodes which passed every filter.",
    "SCORED": "Times that the node was feasible and ranked.",
    "SCORES": "Points of the plugins for each node.",
    "SEE": "Command that shows more of it, such as the object of the cause.",
    "SETTING": "A weight, strategy or shape of the scheduler's configuration.",
    "SEVERAL KINDS": "Plans that combine moves, scaling down and nodes.",
    "SHARE": "Part of the pods that the node has.",
    "SHORT OF": "How many pods of the group found no node, and what they lack together.",
    "SINCE": "Time since the condition changed last.",
    "SKEW": "Difference between the domains with the most and the fewest pods.",
    "SOURCE": "Where the statement comes from: an object's field, a condition, an event, or a record.",
    "SOURCES": "Records of one attempt that were merged.",
    "SPREAD": "Matching pods by topology domain, as the constraint counts them.",
    "STATE": "What the object is like now.",
    "STATUS": "How the pod or condition stands.",
    "STATUS AFTERWARDS": "Verdict of the filters on the node for the next pod of the group.",
    "STAYS PENDING": "Pods that would find no node.",
    "STOPS AT": "What stops the next pod of the group.",
    "TAINTS": "Taints of the node that pods must tolerate.",
    "TIME": "Time in UTC.",
    "TIMELINE": "What happened to the pod, oldest first.",
    "TO": "Node that the pod gets.",
    "TOP WORKLOADS": "Workloads whose pods the node wins most often.",
    "TOTAL": "Sum of the points of all score plugins.",
    "TRIED": "Time since the last attempt.",
    "TUNED": "With the configuration that tuning found.",
    "UNIT": "Unit of the measurement.",
    "UNKNOWN": "Outcomes, or filters, about which nothing is known.",
    "UNREAD": "Objects that you may not read, or that could not be read.",
    "USED": "What the queue's workloads use.",
    "VALUE": "Value of the measurement.",
    "VARIANT": "Configuration and version that a trace is simulated with.",
    "VERDICT": "Whether the filter passes the node.",
    "VERDICTS DIFFER": "Nodes that were judged differently for the two pods, with the filters that reject them.",
    "VICTIM": "Pod that was evicted for one of higher priority.",
    "WAITING POD": "Pod that waits for a node.",
    "WEIGHT": "Factor of a plugin's score, from the scheduler's configuration.",
    "WENT TO": "Node that the observed scheduler chose.",
    "WHAT CHANGED": "What differs between two attempts: pods, nodes, verdicts, free amounts.",
    "WHAT IT DOES": "What the plugin checks or scores.",
    "WHAT LIMITS IT": "Why no more pods fit, by number of nodes.",
    "WHY": "What is the cause.",
    "WON": "Times that the node was chosen, and the plugins to which it owed that.",
    "WORKLOAD": "Deployment, StatefulSet, Job or other owner of the pods.",
    "WOULD GO TO": "Node that the evaluation chooses.",
    "WOULD WIN": "Decisions that the node would win with the given weights.",
    "ZONE": "Zone of the node (label topology.kubernetes.io/zone).",
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
    "code of a state": STATES,
    "code of a cause": CAUSES,
}


class TermExplanation(Document):
    """A word of the screens, and what it means."""

    kind: Literal["TermExplanation"]
    of: Annotated[
        str,
        "What the word is: event, queue, state, evaluation of a node, word, heading, code of a state or of a cause.",
    ]
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
    return _find_heading_with_names(words.strip())


def _find_heading_with_names(words: str) -> TermExplanation | None:
    """Return the document about a heading that names go on, such as `HOLDS CPU ON worker-9`; None if it is none."""
    heading = max((name for name in _HEADINGS if words.startswith(f"{name} ")), key=len, default="")
    return _build(heading, "heading", _HEADINGS[heading]) if heading else None


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
