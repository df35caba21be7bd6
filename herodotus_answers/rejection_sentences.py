"""Say in a sentence why the filters rejected nodes: each kind of reason with its nodes, and the amounts of the closest.

Owns: the sentences. Does not own: kinds of rejections and their order (`explain`), the reason of one node
(`node_results`). Pure.

Invariant: a sentence names only nodes that have its reason. The sentences of a pruned record are those of the whole
one, but for those about all nodes of the cluster, which a pruned record does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from herodotus_answers.explain import MAX_KINDS, RejectionKind, count_verdicts, find_suggested_slot, group_by_kind
from herodotus_answers.node_results import (
    build_reason_detail,
    describe_reason,
    describe_selected_labels,
    describe_taints,
    describe_wanted_pods,
    find_resource,
    is_absent,
    list_obstacles,
    list_rejections,
    list_similar_resources,
    rate_effort,
)
from herodotus_answers.wording import ShortReason
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import Decision, NodeTable, Reason, Source
from herodotus_record.node_taints import TaintKind, find_node_taint
from herodotus_record.units import natural_sort_key

_NUMERIC: Final = ("spread", "cannot-allocate", "volume-limit")  # besides resources: amounts differ by node
_WITH_PODS: Final = ("pod-anti-affinity", "existing-anti-affinity", "ports")
_MAX_WANTS: Final = 60  # characters of an affinity in a headline; the table of rejected nodes has it whole
_HOSTNAME: Final = "kubernetes.io/hostname"
_BY_NAME: Final = f"{_HOSTNAME}="
_MAX_OTHER_NAMES: Final = 3


def format_rejections(decision: Decision, table: NodeTable) -> str:
    """Return the sentence on a pod that the filters rejected everywhere: the kinds of reasons, each with its nodes."""
    looked, kinds = decision.nodes_evaluated, group_by_kind(decision, table)
    shown, others = kinds[:MAX_KINDS], sum(kind.nodes for kind in kinds[MAX_KINDS:])
    if looked == 1:
        kind = shown[0]
        is_restricted = bool(decision.restricted_by) and bool(kind.named)
        who = f"only {table.names[kind.named[0]]} is eligible ({', '.join(decision.restricted_by)}), and it"
        subject = who if is_restricted else "the only node"
        text = f"No node fits: {subject} {_describe_kind(decision, kind, 1)}{_format_details(decision, table, kind)}."
        further = _describe_further(decision, table, kind) + _list_other_names(decision, table)
        return text + further + _describe_absent_pods(decision)
    parts, closest = list[str](), _find_closest(decision, table, shown)
    for number, kind in enumerate(shown):
        subject = f"{kind.nodes} of {looked} nodes" if not number else str(kind.nodes)
        nodes = _name_nodes(decision, table, kind, is_closest=kind is closest)
        parts.append(f"{subject} {_describe_kind(decision, kind, kind.nodes)}{nodes}")
    text = f"No node fits: {', '.join(parts)}" + (f", {others} for other reasons." if others else ".")
    narrowed = f" Only {looked} of {decision.nodes_total} are eligible ({', '.join(decision.restricted_by)})."
    return (
        text
        + _describe_closest(decision, table, closest)
        + _describe_further(decision, table, shown[0])
        + _list_other_names(decision, table)
        + _find_absent_node(decision, table, shown)
        + _describe_absent_pods(decision)
        + (narrowed if decision.restricted_by else "")
    )


def find_short_reason(decision: Decision, table: NodeTable) -> ShortReason | None:
    """Return what the sentence of `format_rejections` says first, for a row of a table: one or two kinds of reasons.

    The second is that of most other nodes that are for such pods. Return None if the filters rejected no node, so that
    only the message of the attempt tells what happened.
    """
    if decision.chosen is not None or decision.pre_filters or decision.key.source is Source.LOGGED:
        return None
    kinds = group_by_kind(decision, table)
    if not kinds:
        return None
    kind, subject = kinds[0], "nodes"
    if decision.nodes_evaluated == 1:
        subject = "its node" if decision.restricted_by else "the only node"
    text = f"{subject} {_describe_kind(decision, kind, 1 if decision.nodes_evaluated == 1 else 2)}"
    others = [
        other for other in kinds[1:MAX_KINDS] if other.is_usable and not _is_for_other_pods(decision, table, other)
    ]
    if others:
        text += f"; others {_describe_kind(decision, max(others, key=lambda other: other.nodes), 2)}"
    first = next(iter(kind.reasons), None)
    return ShortReason(text, first.code if first else "unknown", dict(first.params) if first else {})


def _is_for_other_pods(decision: Decision, table: NodeTable, kind: RejectionKind) -> bool:
    """Return whether the nodes of a kind are reserved for other pods, or are being removed."""
    return bool(kind.named) and all(rate_effort(decision, table, slot)[0] for slot in kind.named)


def _find_absent_node(decision: Decision, table: NodeTable, kinds: Sequence[RejectionKind]) -> str:
    """Return a sentence on a node that the pod's selector asks for by name and that does not exist; "" if none."""
    if decision.summary:
        return ""
    wants = [r.params.get("wants", "") for kind in kinds for r in kind.reasons if r.code == "node-affinity"]
    name = wants[0].removeprefix(_BY_NAME) if len(wants) == 1 and wants[0].startswith(_BY_NAME) else ""
    is_name = bool(name) and not set(name) & set(" ,()=")
    return f" Node {name} is not in the cluster." if is_name and table.find_slot(name) is None else ""


def _describe_absent_pods(decision: Decision) -> str:
    """Return a sentence on a required pod affinity that no pod on any node satisfies; "" if one does.

    A record of chosen nodes alone does not tell.
    """
    if decision.restricted_by or decision.nodes_evaluated != decision.nodes_total:
        return ""
    for column, counts in zip(decision.filters, count_verdicts(decision), strict=True):
        absent = sum(
            nodes
            for verdict, nodes in zip(column.verdicts, counts, strict=False)
            if any(reason.code == "pod-affinity" and reason.params.get("lacks") == "pods" for reason in verdict.reasons)
        )
        if absent == decision.nodes_evaluated:
            return " No pod on any node satisfies this pod affinity: check its labels and namespaces."
    return ""


def _name_nodes(decision: Decision, table: NodeTable, kind: RejectionKind, *, is_closest: bool) -> str:
    """Return the nodes of a kind in parentheses, of many nodes one as an example; "" if it is all nodes.

    With `is_closest`, a sentence names the closest of the nodes, so that many need no example.
    """
    is_all, is_many = kind.nodes == decision.nodes_evaluated, kind.nodes > len(kind.named)
    if not kind.named or (is_all and not _names_pods(kind)) or (is_many and is_closest):
        return ""
    if kind.nodes == 1 and _is_numeric(kind):
        return _format_details(decision, table, kind, names=True)
    slots = sorted(kind.named, key=lambda slot: natural_sort_key(table.names[slot]))
    names = [_with_pod(decision, table, kind, slot) for slot in slots]
    return f" ({', '.join(names)}{', …' if is_many else ''})"


def _with_pod(decision: Decision, table: NodeTable, kind: RejectionKind, slot: int) -> str:
    """Return a node's name, with the pod that its reason names."""
    reasons_given = decision.filters[kind.position].verdicts[decision.filters[kind.position].ids[slot]].reasons
    pods = [reason.params["pod"] for reason in reasons_given if reason.params.get("pod")]
    return f"{table.names[slot]}: {', '.join(pods)}" if pods and _names_pods(kind) else table.names[slot]


def _names_pods(kind: RejectionKind) -> bool:
    return any(reason.code in _WITH_PODS and reason.params.get("pod") for reason in kind.reasons)


def _is_numeric(kind: RejectionKind) -> bool:
    """Return whether the reasons have amounts that differ by node."""
    return any(reason.code in _NUMERIC or (find_resource(reason) and not is_absent(reason)) for reason in kind.reasons)


def _format_details(decision: Decision, table: NodeTable, kind: RejectionKind, *, names: bool = False) -> str:
    """Return what the reasons have on the nearest node, in parentheses: its amounts, or the pod that stands against."""
    if not kind.named:
        return ""
    if not _is_numeric(kind):
        pods = dict.fromkeys(reason.params["pod"] for reason in kind.reasons if reason.params.get("pod"))
        return f" ({', '.join(pods)})" if pods and _names_pods(kind) else ""
    words = _describe_on_node(decision, table, kind, kind.named[0])
    return f" ({table.names[kind.named[0]]}: {words})" if names else f" ({words})"


def _describe_on_node(decision: Decision, table: NodeTable, kind: RejectionKind, slot: int) -> str:
    column = decision.filters[kind.position]
    reasons_given = column.verdicts[column.ids[slot]].reasons
    return ", ".join(build_reason_detail(decision, table, slot, reason)["text"] for reason in reasons_given)


def _find_closest(decision: Decision, table: NodeTable, kinds: Sequence[RejectionKind]) -> RejectionKind | None:
    """Return the first kind of several nodes with amounts that differ by node, or None.

    Nodes that have nothing of a resource are not close where other nodes are rejected for other reasons.
    """
    numeric = (kind for kind in kinds if _is_numeric(kind) and kind.named and kind.nodes > 1)
    return next((kind for kind in numeric if len(kinds) == 1 or _has_some(decision, table, kind)), None)


def _has_some(decision: Decision, table: NodeTable, kind: RejectionKind) -> bool:
    """Return whether the nearest node of a kind has some of every resource that it lacks."""
    column, slot = decision.filters[kind.position], kind.named[0]
    details = (build_reason_detail(decision, table, slot, r) for r in column.verdicts[column.ids[slot]].reasons)
    return all(detail.get("allocatable") != 0 for detail in details)


def _describe_closest(decision: Decision, table: NodeTable, kind: RejectionKind | None) -> str:
    """Return a sentence with the amounts of the closest of several nodes; "" if there are none."""
    if kind is None:
        return ""
    slot = kind.named[0]
    return f" Closest: {table.names[slot]} ({_describe_on_node(decision, table, kind, slot)})."


def _describe_further(decision: Decision, table: NodeTable, kind: RejectionKind) -> str:
    """Return a sentence on further filters that reject the node of the first suggestion; "" if none does."""
    slot = find_suggested_slot(decision, table)
    if slot is None or slot not in kind.named:
        return ""
    further = [
        describe_rejection(decision, plugin, verdict.reasons, 1)
        for plugin, verdict in list_rejections(decision, slot)[1:]
        if any(reason in list_obstacles(decision, slot) for reason in verdict.reasons)
    ]
    return f" {table.names[slot]} also {' and '.join(further)}." if further else ""


def _describe_kind(decision: Decision, kind: RejectionKind, nodes: int) -> str:
    return describe_rejection(decision, decision.filters[kind.position].plugin, kind.reasons, nodes)


def describe_rejection(decision: Decision, plugin: str, given: Sequence[Reason], nodes: int) -> str:
    """Return what `nodes` nodes are or lack, as the predicate of a sentence: `has too little cpu`."""
    short = [reason for reason in given if reason.code == "insufficient"]
    scarce = dict.fromkeys(find_resource(reason) for reason in short if not is_absent(reason))
    absent = dict.fromkeys(find_resource(reason) for reason in short if is_absent(reason))
    one, rest = nodes == 1, [reason for reason in given if reason.code != "insufficient"]
    has, is_ = ("has", "is") if one else ("have", "are")
    is_unoffered = any(reason.params.get("capacity") for reason in given)
    parts = [f"{has} too little {'allocatable ' if is_unoffered else ''}{' and '.join(scarce)}"] if scarce else []
    parts += [f"{has} no {' and no '.join(absent)}"] if absent else []
    parts += dict.fromkeys(_describe_predicate(reason, has, is_) for reason in rest)
    if not all(parts) or not parts:
        version = find_wording_version(decision.scheduler.rules)
        words = ", ".join(dict.fromkeys(describe_reason(reason, version) for reason in given))
        return f"{is_} rejected by {plugin}: {words or 'it gave no reason'}"  # an extender may give none
    return " and ".join(parts)


def _describe_predicate(reason: Reason, has: str, is_: str) -> str:
    """Return what a reason says of a node as a predicate; "" if there are only its own words."""
    p, one = reason.params, is_ == "is"
    match reason.code:
        case "too-many-pods":
            return f"{has} no room for another pod"
        case "unschedulable":
            return f"{is_} cordoned"
        case "untolerated-taint":
            declared = find_node_taint(p.get("key", ""), p.get("value", ""))
            leaves = declared is not None and declared.kind is TaintKind.LEAVES
            return f"{f'{is_} being removed, by' if leaves else f'{has} the untolerated'} {describe_taints(p)}"
        case "node-affinity" | "enforced-node-affinity":
            return _describe_selection(p.get("wants", ""), has, "does" if one else "do")
        case "volume-limit" if p.get("driver"):
            return f"{has} as many volumes of {p['driver']} attached as the limit allows"
        case "volume-affinity" if p.get("volume") and p.get("wants"):
            return f"cannot reach volume {p['volume']}, which needs {p['wants']}"
        case "ports" if p.get("ports"):
            return f"{has} host port {p['ports']} taken"
        case "spread":
            return f"would have too many matching pods{_name_domain(p, 'in its' if one else 'in their')}"
        case "spread-label":
            return f"{has} no label {p.get('key')} to spread over"
        case "pod-affinity" if p.get("lacks") == "label":
            return f"{has} no label {p.get('key')}, which the pod affinity needs"
        case "pod-affinity" if p.get("wants"):
            return f"{has} no pod that matches {describe_wanted_pods(p)}{_name_domain(p)}"
        case "cannot-allocate" if p.get("needed"):
            what = p.get("extendedResource") or f"claim {p.get('claim')}"
            return f"{has} too few usable devices for {what}"
        case "device-claim-elsewhere" if p.get("claims"):
            return f"cannot use the devices that {p['claims']} is allocated"
        case "claim-in-use" if p.get("claims"):
            user = f": {p['pod']} on {p.get('podNode')} uses it" if p.get("pod") else ""
            return f"{is_} rejected because only one pod at a time may use {p['claims']} (ReadWriteOncePod){user}"
        case "pod-anti-affinity":
            return f"{has} a pod{_name_domain(p)} that the pod's anti-affinity excludes"
        case "existing-anti-affinity":
            return f"{has} a pod{_name_domain(p)} whose anti-affinity keeps this pod away{describe_selected_labels(p)}"
        case _:
            return ""


def _describe_selection(wants: str, has: str, does: str) -> str:
    """Return that a node is not selected, from what the pod wants of its labels."""
    if wants.startswith("!") and not set(wants) & set(" ,"):
        return f"{has} the label {wants[1:]}, which the pod excludes"
    short = wants if 0 < len(wants) <= _MAX_WANTS else "the pod's node selector or affinity"
    return f"{does} not match {short}"


def _name_domain(p: Mapping[str, str], where: str = "in the same") -> str:
    """Return the topology domain that a reason is about, "" if it is the node alone."""
    return "" if p.get("key") == _HOSTNAME else f" {where} {p.get('key')}"


def _list_other_names(decision: Decision, table: NodeTable) -> str:
    """Return a sentence on resources that nodes have in place of one that they lack, such as slices of a GPU."""
    if decision.summary:
        return ""
    lacking = [
        find_resource(reason)
        for kind in group_by_kind(decision, table)[:MAX_KINDS]
        for reason in kind.reasons
        if reason.code == "insufficient"
    ]
    found: dict[str, list[str]] = {}
    for resource in dict.fromkeys(lacking):
        for slot, other in list_similar_resources(table, resource):
            found.setdefault(other, []).append(table.names[slot])
    named = [f"{other} ({', '.join(nodes[:2])}{', …' if len(nodes) > 2 else ''})" for other, nodes in found.items()]
    more = f" and {len(named) - _MAX_OTHER_NAMES} more" if len(named) > _MAX_OTHER_NAMES else ""
    return f" Offered instead: {', '.join(named[:_MAX_OTHER_NAMES])}{more}." if named else ""
