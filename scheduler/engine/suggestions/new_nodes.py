"""Suggestions of nodes that the cluster lacks: larger ones, one more, or of another operating system or architecture.

Owns: what no present node can hold or has, and the check of one more node like a present one: that node as it would be
with the pods that every node starts with. Does not own: node groups (`nodegroups`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from herodotus_record.model import Reason, Verdict
from herodotus_record.node_labels import BUILT_FOR, is_same_platform
from herodotus_record.units import format_available, format_requested, natural_sort_key
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import CPU, MEMORY
from scheduler.engine.plugins.node_affinity import match_required_affinity
from scheduler.engine.suggestions.changes import Draft, list_required_terms
from scheduler.engine.suggestions.check import fits_without

MAX_SCANNED: Final = 500  # rejected nodes whose sizes are compared
MAX_CHECKED: Final = 3  # sizes of nodes, each with a PreFilter and a Filter on one node
_HOSTNAME: Final = "kubernetes.io/hostname"
_NAMING: Final = ("device-claim-elsewhere", "node-name")
_SELECTING: Final = ("node-affinity", "enforced-node-affinity", "volume-affinity")
_ANTI_AFFINITY: Final = ("pod-anti-affinity", "existing-anti-affinity")


def draft_new_nodes(framework: Framework, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> list[Draft]:
    """Return drafts for nodes that do not exist, and on which the pod might fit; [] for a pod of a certain node.

    One more node like a present one is checked.
    """
    if pod.pod.is_of_daemon_set or _names_nodes(trace):
        return []
    return (
        list(_draft_kinds(pod, nodes))
        or list(_draft_sizes(pod, nodes))
        or list(_draft_more(framework, pod, nodes, trace))
    )


def _names_nodes(trace: Trace) -> bool:
    """Return whether the pod, its volume or its devices name nodes, so that a new node is none of them."""
    tables = (run.verdicts.table for run in trace.filters if not run.skipped)
    given = (reason for table in tables for verdict in table for reason in verdict.reasons)
    return bool(trace.restricted_by) or any(map(_is_about_name, given))


def _is_about_name(reason: Reason) -> bool:
    """Return whether a reason is that the node is another one than those which are named."""
    wants = reason.params.get("wants", "")
    names_host = reason.code in _SELECTING and (f"{_HOSTNAME}=" in wants or f"{_HOSTNAME} in " in wants)
    return names_host or reason.code in _NAMING or (reason.code == "no-volume" and "selected" in reason.params)


def _draft_kinds(pod: PodInfo, nodes: NodeColumns) -> Iterator[Draft]:
    """Yield the draft of a node with the operating system or architecture that the pod selects and no node has."""
    spec, terms = pod.pod.spec, list_required_terms(pod.pod.spec)
    wanted = {key: [value] for key, value in (spec.node_selector or {}).items()}
    for term in terms if len(terms) == 1 else ():
        wanted |= {r.key: list(r.values or ()) for r in term.match_expressions or () if r.operator == "In"}
    for key in BUILT_FOR:
        values = wanted.get(key)
        if not values or key not in nodes.label_keys:
            continue
        labels = ((n.metadata.labels or {}).get(key) for n in nodes.nodes if n is not None)
        present = sorted({label for label in labels if label})
        is_there = any(v == label or is_same_platform(key, v, label) for v in values for label in present)
        if present and not is_there:
            params = {"key": key, "value": values[0], "from": ", ".join(present)}
            yield Draft(spec, {}, is_exact=False).with_change("add-node-of-kind", params, spec)
            return


def _draft_more(framework: Framework, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> Iterator[Draft]:
    """Yield the draft of a node like one that rejects the pod only for other pods on it, or in its topology domain.

    Of several such nodes the smallest is copied. The check runs the filters on the node without its pods, except those
    with which a node starts, and without those of its domain if the new node needs another one. What the pod demands of
    its zone holds already with them. A volume may be on that node.
    """
    spec, has_claims = pod.pod.spec, any(volume.is_storage for volume in pod.pod.spec.volumes or ())
    if spec.resource_claims:
        return  # its devices may be allocated
    for key in (_HOSTNAME, *_list_excluding_keys(trace)):
        if _selects_by(pod, key):
            continue  # the new node has another value
        for slot in _list_occupied(pod, nodes, trace, key)[:MAX_CHECKED]:
            alike = [slot] if key == _HOSTNAME else _list_domain(nodes, key, slot)
            leaving = {each: _list_leaving(nodes, each) for each in alike}
            if len(alike) > MAX_SCANNED or not any(leaving.values()):
                continue
            if fits_without(framework, pod, nodes, slot, leaving):
                amounts = {resource: int(nodes.allocatable(resource)[slot]) for resource in (CPU, MEMORY)}
                size = " and ".join(f"{format_available(each, amount)} {each}" for each, amount in amounts.items())
                params = {"like": nodes.names[slot], "size": size} | ({} if key == _HOSTNAME else {"key": key})
                yield Draft(spec, {}, is_exact=not has_claims).with_change("add-node-like", params, spec)
                return


def _list_excluding_keys(trace: Trace) -> list[str]:
    """Return the topology keys, except that of single nodes, in whose domains an anti-affinity rejects the pod."""
    reasons = (reason for run in trace.filters if not run.skipped for v in run.verdicts.table for reason in v.reasons)
    keys = {reason.params.get("key", "") for reason in reasons if reason.code in _ANTI_AFFINITY}
    return sorted(keys - {_HOSTNAME, ""})


def _list_domain(nodes: NodeColumns, key: str, slot: int) -> list[int]:
    """Return the slots of the nodes that have the same value of a label as the node in this slot."""
    numbers = nodes.label(key).ids(nodes.slots)
    slots: list[int] = np.flatnonzero(nodes.live & (numbers == numbers[slot])).tolist()
    return slots


def _list_leaving(nodes: NodeColumns, slot: int) -> list[PodInfo]:
    """Return the pods of a node that a new one like it does not start with."""
    return [each for each in nodes.pods[slot].values() if not (each.pod.is_of_daemon_set or each.pod.is_static)]


def _selects_by(pod: PodInfo, key: str) -> bool:
    """Return whether the pod selects nodes by a label, or by their names if it is the host name."""
    terms = list_required_terms(pod.pod.spec)
    keys = {each.key for term in terms for each in (*(term.match_expressions or ()), *(term.match_fields or ()))}
    names = {key, "metadata.name"} if key == _HOSTNAME else {key}
    return not names.isdisjoint({*keys, *(pod.pod.spec.node_selector or ())})


def _list_occupied(pod: PodInfo, nodes: NodeColumns, trace: Trace, key: str) -> list[int]:
    """Return the slots of nodes that reject the pod only for other pods in their domain of a topology key.

    They could hold the pod if they were empty. Of each size there is one, the smallest first.
    """
    candidates = trace.evaluated & (trace.codes != 0) & nodes.live
    for run in trace.filters:
        if run.skipped or run.verdicts.ids is None:
            continue
        is_occupancy = np.array([_is_about_occupants(verdict, key) for verdict in run.verdicts.table])
        candidates &= is_occupancy.take(run.verdicts.ids)
    wanted = {resource: amount for resource, amount in pod.requests.items() if amount > 0}
    if nodes.list_unknown_resources(wanted):
        return []
    for resource, amount in wanted.items():
        candidates &= nodes.allocatable(resource) >= amount
    slots = np.flatnonzero(candidates)[:MAX_SCANNED].tolist()
    sizes = [tuple(int(nodes.allocatable(each)[slot]) for each in (*sorted(wanted), CPU, MEMORY)) for slot in slots]
    smallest: dict[tuple[int, ...], int] = {}
    for size, slot in sorted(zip(sizes, slots, strict=True), key=lambda s: (s[0], natural_sort_key(nodes.names[s[1]]))):
        smallest.setdefault(size, slot)
    return list(smallest.values())


def _is_about_occupants(verdict: Verdict, key: str) -> bool:
    """Return whether a verdict rejects the node at most for other pods in its domain, so that a new one may fit."""
    if not verdict.rejects_node:
        return True
    return bool(verdict.reasons) and all(_is_about_occupant(reason, key) for reason in verdict.reasons)


def _is_about_occupant(reason: Reason, key: str) -> bool:
    """Return whether a reason is that other pods are near, so that it does not hold for a node in a new domain."""
    is_of_domain = reason.code in _ANTI_AFFINITY and reason.params.get("key") in (_HOSTNAME, key)
    return is_of_domain or reason.code in ("ports", "insufficient", "too-many-pods")


def _draft_sizes(pod: PodInfo, nodes: NodeColumns) -> Iterator[Draft]:
    """Yield the draft of a larger node if a request is larger than what any node that the pod selects can hold."""
    selected = match_required_affinity(pod, nodes) & nodes.live
    wanted = {resource: amount for resource, amount in pod.requests.items() if amount > 0}
    known = wanted.keys() - set(nodes.list_unknown_resources(wanted))
    largest = {resource: int(np.max(nodes.allocatable(resource)[selected], initial=0)) for resource in known}
    short = [resource for resource in wanted if 0 < largest.get(resource, 0) < wanted[resource]]
    if short:
        to, there = (
            " and ".join(f"{format_amount(resource, amounts[resource])} {resource}" for resource in short)
            for format_amount, amounts in ((format_requested, wanted), (format_available, largest))
        )
        yield Draft(pod.pod.spec, {}, is_exact=False).with_change("add-node", {"from": there, "to": to}, pod.pod.spec)
