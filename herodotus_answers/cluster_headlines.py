"""Format the answer to a question about the whole cluster in one sentence.

Owns: the sentences. Does not own: the answer (`cluster_review`, `node_groups`), the tables below a sentence. Pure.

Invariant: a sentence is made from the status that the reader gets, after masking, so it names nothing that is hidden
there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from herodotus_answers.descheduling import format_deschedule_headline
from herodotus_answers.plans import format_plan_headline
from herodotus_record.reasons import CATALOGUE, EXCLUDED_BY_POD, parse_reason
from herodotus_record.units import (
    begin_sentence,
    continue_sentence,
    describe_all,
    format_available,
    format_requested,
    join_limited,
    natural_sort_key,
    pluralize,
)

if TYPE_CHECKING:  # `cluster_review` builds documents with this module's sentences
    from herodotus_answers.cluster_review import (
        BlockedPod,
        Capacity,
        ClusterReviewStatus,
        Consolidation,
        ReviewedPlacement,
        ScatteredResource,
        UpgradeReview,
    )
    from herodotus_answers.node_groups import NodeGroupCondition, NodeGroupReview, PodVerdicts, ScaleDown

GROUP_UNSCHEDULABLE: Final = CATALOGUE["group-unschedulable"]  # of a pod that fits, but whose group does not
HIDDEN_REASON: Final = "for a reason that you may not see"  # the service masks the message
NO_NODE_GROUP: Final = "No node group is known in this cluster."
_CORDONED: Final = CATALOGUE["unschedulable"]
# What a node is or has for which it rejects a pod, by the code of its reason: shorter than kube-scheduler's sentence.
_SHORT: Final = {
    "unschedulable": "cordoned",
    "untolerated-taint": "taint not tolerated",
    "node-affinity": "node selector or affinity",
    "ports": "host port taken",
    "spread": "topology spread",
    "pod-affinity": "pod affinity",
    "pod-anti-affinity": "pod anti-affinity",
    "existing-anti-affinity": "anti-affinity of its pods",
}
_FIT_ERROR: Final = re.compile(r"0/\d+ nodes are available: ")
_COUNTED: Final = re.compile(r"(\d+) (.+?)(?=, \d+ |\.(?: |$)|$)")
_NAMED: Final = 4  # node groups that fit
DRAINED: Final = "Drained"  # cause of the placement of a pod that a drain evicted
NODE_ADDED: Final = "NodeAdded"  # cause of a DaemonSet's pod on a new node
NOT_DRAINED: Final = "NodeNotDrained"  # cause of a pod that could be evicted, on a node with one that cannot be
_CAUSES: Final = 2  # that keep a node from being drained
_NAMED_PODS: Final = 2
# Types of conditions that are none of an object's own.
EVENT: Final = "Event"
PHASE: Final = "Phase"
_HINDERS: Final = {  # how a condition that hinders a group is worded, by the kind of its object and its type
    ("NodePool", "Ready"): "is not ready",
    ("NodeClaim", "Launched"): "is not launched",
    ("NodeClaim", "Registered"): "is launched, its node has not joined",
    ("NodeClaim", "Initialized"): "has a node that is not initialized",
    ("node group", "ScaleUp"): "is in backoff after a failed scale-up",
    ("node group", "Health"): "is unhealthy",
}
_BLOCKING: Final = {  # by the cause of a blocked pod
    "LocalStorage": "{pods} would lose local storage (--delete-emptydir-data)",
    "NoController": "no controller replaces {pods} (--force)",
    "DaemonSet": "a DaemonSet owns {pods} (--ignore-daemonsets)",
}


def format_cluster_headline(status: ClusterReviewStatus) -> str:
    """Return the answer to a question about the cluster in one sentence; while it is not complete, how far it is."""
    if status["phase"] == "Running":
        progress = status["progress"] or {"done": 0, "total": 0}
        return f"{progress['done']} of {pluralize(progress['total'], 'pod')} decided."
    if status["capacity"] is not None:
        return _describe_capacity(status["capacity"])
    if status["consolidation"] is not None:
        return _describe_consolidation(status["consolidation"])
    if status["upgrade"] is not None:
        return _describe_upgrade(status["upgrade"])
    if status["plan"] is not None:
        return format_plan_headline(status["plan"])
    if status["deschedule"] is not None:
        return format_deschedule_headline(status["deschedule"])
    if status["nodeGroups"] is not None:
        return _describe_node_groups(status["nodeGroups"])
    if status["scaleDown"] is not None:
        return _describe_scale_down(status["scaleDown"])
    return _describe_changes(status)


def count_pending_reasons(placements: Iterable[ReviewedPlacement]) -> Counter[str]:
    """Return how many pods stay pending for each reason, which is the most frequent one in kube-scheduler's message."""
    return Counter(_find_reason(pod["reason"]) for pod in placements if not pod["node"])


def shorten_fit_error(message: str) -> str:
    """Return what kube-scheduler's message says of the nodes, short: `6 nodes: Insufficient cpu, 1: cordoned`.

    Most nodes come first, but after them those that are cordoned, and last those that the pod's own spec leaves out. A
    message that counts no nodes keeps its first sentence.
    """
    counts = _count_reasons(message)
    if not counts:
        sentence, end, _ = message.partition(". ")
        return sentence + end.strip()
    short: Counter[tuple[int, str]] = Counter()
    for number, sentence in counts:
        group = 2 if parse_reason(sentence).code in EXCLUDED_BY_POD else 1 if sentence == _CORDONED else 0
        short[group, _shorten_reason(sentence)] += number
    shown = sorted(short.items(), key=lambda each: (each[0][0], -each[1]))
    subjects = [pluralize(shown[0][1], "node"), *(str(number) for _, number in shown[1:])]
    return ", ".join(f"{who}: {words}" for who, ((_, words), _) in zip(subjects, shown, strict=True))


def _count_reasons(message: str) -> list[tuple[int, str]]:
    """Return the reasons in kube-scheduler's message, each with its number of nodes; [] if it counts none."""
    lead = _FIT_ERROR.match(message)
    listed = message[lead.end() :].partition(". ")[0].removesuffix(".") if lead else ""
    return [(int(number), words) for number, words in _COUNTED.findall(listed)]


def _shorten_reason(sentence: str) -> str:
    reason = parse_reason(sentence)
    plugins = reason.params.get("plugins") or reason.params.get("plugin")
    if reason.code in EXCLUDED_BY_POD and plugins:  # PreFilter left the nodes out, before any was filtered
        return _SHORT["node-affinity"] if plugins == "[NodeAffinity]" else f"excluded by {plugins.strip('[]')}"
    return _SHORT.get(reason.code, sentence.removeprefix("node(s) "))


def find_problems(conditions: Iterable[NodeGroupCondition]) -> list[tuple[NodeGroupCondition, str]]:
    """Return those conditions that keep a group from getting a node, each with a clause such as `is not launched`.

    Of an object the first counts, because the others follow from it.
    """
    problems: dict[str, tuple[NodeGroupCondition, str]] = {}
    for condition in conditions:
        kind = "node group" if condition["object"].startswith("node group ") else condition["object"].partition("/")[0]
        clause = _HINDERS.get((kind, condition["type"]), "")
        if condition["type"] == EVENT:
            clause = condition["reason"]
        elif condition["type"] == PHASE:
            clause = f"is {condition['status']}, its node has not joined"
        elif condition["status"] not in ("False", "Unknown", "Backoff", "Unhealthy"):
            clause = ""
        if clause:
            problems.setdefault(condition["object"], (condition, clause))
    return list(problems.values())


def format_verdicts(pod: PodVerdicts, hint: str = "") -> str:
    """Return one sentence with the node groups that fit a pod and have room to grow.

    Groups at their size limit do not count. `hint` says how to see those that are not named, such as `--all`.
    """
    fitting = sorted((v["group"] for v in pod["groups"] if v["verdict"] == "Fits"), key=natural_sort_key)
    total = pluralize(len(pod["groups"]), "node group")
    if not fitting:
        return f"{pod['namespace']}/{pod['name']}: None of {total} fits with room to grow."
    fits = "fits" if len(fitting) == 1 else "fit"
    return f"{pod['namespace']}/{pod['name']}: {len(fitting)} of {total} {fits}: {join_limited(fitting, _NAMED, hint)}."


def format_node_group_count(answer: NodeGroupReview) -> str:
    """Return how many node groups are known, and how many nodes are in none."""
    outside = f"; {pluralize(answer['ungrouped'], 'node')} in no group" if answer["ungrouped"] else ""
    return f"{pluralize(len(answer['groups']), 'node group')}{outside}."


def _describe_changes(status: ClusterReviewStatus) -> str:
    """Return how many pods move, and what becomes of the others."""
    blocked, parts = status["blocked"], list[str]()
    daemons = [pod for pod in status["placements"] if is_daemon_of_new_node(pod)]
    placements = [pod for pod in status["placements"] if pod not in daemons]
    total, placed = len(placements), sum(bool(pod["node"]) for pod in placements)
    moves = sum(bool(pod["fromNode"]) for pod in placements)
    noun = "new pod" if not moves else "displaced pod" if moves == total else "pod"
    if total and placed == total:
        parts.append(f"{describe_all(total, noun)} {'find' if total > 1 else 'finds'} a node")
    elif total:
        pending, why = total - placed, _describe_pending_reasons(placements)
        if placed:
            finds, stays = "finds" if placed == 1 else "find", "stays" if pending == 1 else "stay"
            parts.append(f"{placed} of {total} {noun}s {finds} a node, {pending} {stays} Pending: {why}")
        else:
            parts.append(f"{describe_all(total, noun)} {'stay' if total > 1 else 'stays'} Pending: {why}")
    if status["deleted"]:
        parts.append(f"{pluralize(len(status['deleted']), 'pod')} would end without a replacement")
    if status["pending"]:
        gets = "gets" if len(status["pending"]) == 1 else "get"
        parts.append(f"{pluralize(len(status['pending']), 'pending pod')} {gets} a node")
    makes_room = not moves and not status["deleted"]
    if status["stillPending"] and makes_room and (status["pending"] or daemons):
        none = "" if status["pending"] else "no pending pod would get a node; "
        parts.append(f"{none}{pluralize(len(status['stillPending']), 'pod')} would stay Pending")
    if daemons:
        placed = sum(bool(pod["node"]) for pod in daemons)
        of = f"{placed} of {len(daemons)} pods" if placed < len(daemons) else pluralize(placed, "pod")
        parts.append(f"{of} of DaemonSets would run on new nodes")
    text = "; ".join(parts)
    drained = status["drained"]
    nodes, verb = _join_names(drained), "is" if len(drained) == 1 else "are"
    if blocked:
        return f"{nodes} {verb} not drainable: {_describe_blocked(blocked)}." + f" {text}." * bool(text)
    if drained:
        leaving = "" if any(pod["cause"] == DRAINED for pod in placements) else "no pod has to leave"
        text = "; ".join(filter(None, (leaving, text)))
        return f"{nodes} {verb} drainable: {continue_sentence(text)}."
    return f"{begin_sentence(text)}." if text else "No pod moves, and none that is pending gets a node."


def _describe_pending_reasons(placements: Iterable[ReviewedPlacement]) -> str:
    """Return the two most frequent reasons for which pods stay pending, each with its number of pods if several do."""
    reasons = count_pending_reasons(placements)
    return ", ".join(
        f"{count} " * (reasons.total() > 1)
        + ("fit only with their group" if reason == GROUP_UNSCHEDULABLE else _shorten_reason(reason))
        for reason, count in reasons.most_common(2)
    )


def is_daemon_of_new_node(pod: ReviewedPlacement) -> bool:
    """Return whether a pod is the one that a DaemonSet makes for a node that the changes add."""
    return pod["cause"] == NODE_ADDED


def _describe_blocked(blocked: Iterable[BlockedPod]) -> str:
    """Return what keeps pods from being evicted: each budget, and each kind of pod that kubectl does not delete."""
    causes: dict[str, list[str]] = {}
    for pod in blocked:
        budget = f"PodDisruptionBudget {pod['namespace']}/{pod['budget']}" if pod["budget"] else ""
        cause = _BLOCKING.get(pod["cause"], pod["cause"])
        if pod["cause"] == "Budget":
            cause = f"{budget} allows no eviction of {{pods}}" if budget else "several budgets select {pods}"
        if pod["cause"] != NOT_DRAINED:
            causes.setdefault(cause, []).append(pod["name"])
    shown = list(causes.items())[:_CAUSES]
    texts = [cause.format(pods=_join_names(sorted(names, key=natural_sort_key))) for cause, names in shown]
    more = len(causes) - len(shown)
    return "; ".join([*texts, *([f"{more} more"] if more else [])])


def _join_names(names: list[str]) -> str:
    left = len(names) - _NAMED_PODS
    return ", ".join(names[:_NAMED_PODS]) + (f" and {left} more" if left > 0 else "")


def _find_reason(message: str) -> str:
    """Return the most frequent reason in kube-scheduler's message; cordoned nodes count only if there is no other."""
    if message.startswith(GROUP_UNSCHEDULABLE):
        return GROUP_UNSCHEDULABLE
    numbered = [(words != _CORDONED, number, words) for number, words in _count_reasons(message)]
    return max(numbered, default=(True, 0, message or HIDDEN_REASON))[2]


def _describe_capacity(answer: Capacity) -> str:
    nodes = sum(bool(node["fits"]) for node in answer["nodes"])
    count, fits = answer["fits"], pluralize(answer["fits"], "more pod")
    if answer["groupSize"]:
        count = answer["groups"] or 0
        fits = f"{pluralize(count, 'more group')} of {pluralize(answer['groupSize'], 'pod')}"
    fits += " fits" if count == 1 else " fit"
    fits += f", on {pluralize(nodes, 'node')}" if nodes else ""
    new = [node["fits"] for node in answer["nodes"] if node.get("isNew")]
    if new:
        each = str(max(new)) if min(new) == max(new) else f"{min(new)} to {max(new)}"
        fits += f": {each} on {'the new node' if len(new) == 1 else f'each of the {len(new)} new nodes'}"
    if answer["limited"]:
        return f"At least {fits}."
    scattered = "".join(map(_describe_scattered, answer["scattered"]))
    return f"{fits}. The next one fits nowhere ({shorten_fit_error(answer['message']).removesuffix('.')}).{scattered}"


def _describe_scattered(each: ScatteredResource) -> str:
    """Return the sentence that enough of a resource is free, and not on one node."""
    name = each["resource"]
    free, most = (format_available(name, each[part]) for part in ("free", "most"))
    return f" {name}: it requests {format_requested(name, each['requested'])}, {free} free, at most {most} on one node."


def _describe_consolidation(answer: Consolidation) -> str:
    emptied = len(answer["emptied"])
    nodes = pluralize(emptied + len(answer["kept"]), "node")
    return f"{emptied} of {nodes} could be emptied, in this order." if emptied else f"None of {nodes} could be emptied."


def _describe_upgrade(answer: UpgradeReview) -> str:
    decided, changes = answer["decided"], answer["changes"]
    lost = sum(each["pods"] for each in changes if each["change"] in ("FitsNoMore", "NodeRejects"))
    moved = sum(each["pods"] for each in changes if each["change"] == "OtherNode")
    pods = pluralize(answer["pods"], "pod")
    of = f"{decided} of {pods}" if decided < answer["pods"] else pluralize(decided, "pod")
    what = f"{answer['fromVersion']} → {answer['toVersion']}"
    if not changes:
        return f"{what}: no decision differs ({of} decided)."
    parts = [f"{pluralize(lost, 'pod')} would not fit where they are" if lost else "every pod fits where it is"]
    if moved:
        parts.append(f"{pluralize(moved, 'pod')} would get another node")
    return f"{what}: {', '.join(parts)} ({of} decided)."


def _describe_node_groups(answer: NodeGroupReview) -> str:
    """Return which groups fit the pod of the question, how many of its pods have one, or how many groups there are."""
    pods = answer["pods"]
    if not answer["groups"]:
        return NO_NODE_GROUP
    if not pods:
        return format_node_group_count(answer)
    if len(pods) == 1:
        return format_verdicts(pods[0])
    served = sum(any(verdict["verdict"] == "Fits" for verdict in pod["groups"]) for pod in pods)
    groups = pluralize(len(answer["groups"]), "node group")
    return (
        f"{served or 'None'} of {len(pods)} pods {'fit' if served > 1 else 'fits'} one of {groups} with room to grow."
    )


def _describe_scale_down(answer: ScaleDown) -> str:
    free = sum(not node["blockers"] for node in answer["nodes"])
    has = "has" if free == 1 else "have"
    return f"{free} of {pluralize(len(answer['nodes']), 'node')} {has} no known blocker."
