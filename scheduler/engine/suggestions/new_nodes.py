"""Suggestions of nodes that the cluster lacks: larger ones, one more, or of another operating system or architecture.

Owns: what no present node can hold or has. Does not own: node groups (`nodegroups`), whether the pod would fit there:
a node that does not exist cannot be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from herodotus_record.model import Reason
from herodotus_record.units import format_available, format_requested
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.node_affinity import match_required_affinity
from scheduler.engine.suggestions.changes import BUILT_FOR, Draft, list_required_terms

MAX_SCANNED: Final = 500  # rejected nodes whose reasons are read
_HOSTNAME: Final = "kubernetes.io/hostname"
_NAMING: Final = ("device-claim-elsewhere", "node-name")
_SELECTING: Final = ("node-affinity", "enforced-node-affinity", "volume-affinity")
_ANTI_AFFINITY: Final = ("pod-anti-affinity", "existing-anti-affinity")


def draft_new_nodes(pod: PodInfo, nodes: NodeColumns, trace: Trace) -> list[Draft]:
    """Return drafts for nodes that do not exist, and on which the pod might fit; [] for a pod of a certain node."""
    if pod.pod.is_of_daemon_set or _names_nodes(trace):
        return []
    return list(_draft_kinds(pod, nodes)) or list(_draft_sizes(pod, nodes)) or list(_draft_more(pod, nodes, trace))


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
        if present and not set(values) & set(present):
            params = {"key": key, "value": values[0], "from": ", ".join(present)}
            yield Draft(spec, {}, is_exact=False).with_change("add-node-of-kind", params, spec)
            return


def _draft_more(pod: PodInfo, nodes: NodeColumns, trace: Trace) -> Iterator[Draft]:
    """Yield the draft of a node like one that rejects the pod only for other pods that are on it."""
    for slot in np.flatnonzero(trace.evaluated & (trace.codes != 0) & nodes.live)[:MAX_SCANNED].tolist():
        verdicts = [run.verdicts.verdict_at(slot) for run in trace.filters if not run.skipped]
        given = [reason for verdict in verdicts for reason in verdict.reasons if verdict.rejects_node]
        if given and all(map(_is_about_occupant, given)):
            yield Draft(pod.pod.spec, {}, is_exact=False).with_change(
                "add-node-like", {"like": nodes.names[slot]}, pod.pod.spec
            )
            return


def _is_about_occupant(reason: Reason) -> bool:
    """Return whether a reason is that another pod is on the same node, so that it does not hold for a new node."""
    return reason.code == "ports" or (reason.code in _ANTI_AFFINITY and reason.params.get("key") == _HOSTNAME)


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
