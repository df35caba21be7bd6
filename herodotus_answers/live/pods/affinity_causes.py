"""Find why no node can satisfy a required pod affinity or a spread constraint of a pod.

The pods that an affinity selects have no node themselves, or no node has the topology key.

Owns: these causes and their remedies. Does not own: affinity to pods on other nodes (kube-scheduler's reasons), reading
(`cluster_objects`). Pure.

Invariant: a cause is stated only of a term whose namespaces are known and whose pods could all be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.node_rules import matches_selector
from herodotus_answers.live.objects import is_active
from herodotus_answers.live.pod_facts import list_unknown_keys, make_cause, make_remedy, name_source
from herodotus_answers.live.workload_objects import format_selector
from herodotus_record.units import join_limited

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause

Json = dict[str, Any]
_NAMED: Final = 3  # pods in a sentence
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def find_affinity_causes(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each required pod affinity of a pod that only pods without a node match."""
    for term in _list_terms(pod):
        waiting = _list_waiting(pod, term, objects)
        if not waiting:
            continue
        names = [str(each["metadata"]["name"]) for each in waiting]
        selector = format_selector(term.get("labelSelector"))
        what = "the pod has to be near " + (f"one with {selector}" if selector else "any pod")
        verb, have = ("matches", "has") if len(names) == 1 else ("match", "have")
        text = f"{what} (same {term['topologyKey']}), and {join_limited(names, _NAMED)}, which {verb}, {have} no node"
        first = waiting[0]
        if any(_selects(other, pod, back) for other in waiting for back in _list_terms(other)):
            text += f" and {have} to be near this pod in turn: none of them can be first"
            remedy = make_remedy(f"make the required pod affinity of this pod or of {names[0]} a preferred one")
        else:
            remedy = make_remedy(f"see why {names[0]} has no node: this pod follows it")
        namespace = first["metadata"]["namespace"]
        yield make_cause(
            "affinity-pods-wait",
            text,
            "spec.affinity.podAffinity",
            of=f"Pod/{names[0]}",
            remedies=[remedy],
            inspect=f"kubectl herodotus pod {names[0]} -n {namespace}",
        )


def find_unknown_keys(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each topology key that a pod needs and no node has, if nodes have one that is much like it.

    Another key may be of nodes that do not exist yet.
    """
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    needed = [(each["topologyKey"], "spec.affinity.podAffinity") for each in _list_terms(pod)]
    needed += [
        (each["topologyKey"], "spec.topologySpreadConstraints")
        for each in constraints
        if each.get("whenUnsatisfiable") != "ScheduleAnyway"
    ]
    field_of = dict(reversed(needed))
    for key, near in list_unknown_keys((key for key, _ in needed), objects):
        if not near:
            continue
        field = field_of[key]
        text = f"no node has the label {key}, which is the topologyKey of {field.removeprefix('spec.')}; nodes have"
        remedy = make_remedy(f"correct the topologyKey {key} to {near}, in {name_source(pod, objects)}")
        yield make_cause("topology-key-unknown", f"{text} {near}", field, remedies=[remedy])


def _list_terms(pod: Json) -> list[Json]:
    """Return the required pod affinity terms of a pod."""
    return ((pod["spec"].get("affinity") or {}).get("podAffinity") or {}).get(_REQUIRED) or []


def _selects(pod: Json, other: Json, term: Json) -> bool:
    """Return whether a term of a pod selects another pod, as far as its namespaces are named."""
    spaces = term.get("namespaces") or [pod["metadata"]["namespace"]]
    meta = other["metadata"]
    return meta["namespace"] in spaces and matches_selector(term.get("labelSelector"), meta.get("labels") or {})


def _list_waiting(pod: Json, term: Json, objects: ClusterObjects) -> list[Json]:
    """Return the pods that a term selects if none of them has a node, else [].

    A pod that its own term selects may be the first, so that it waits for no other.
    """
    if term.get("namespaceSelector") is not None or _selects(pod, pod, term):
        return []
    selected: list[Json] = []
    for namespace in term.get("namespaces") or [pod["metadata"]["namespace"]]:
        listed = objects.list_objects("Pod", namespace)
        if listed.missing or not listed.is_complete:
            return []
        selected += [each for each in listed.items if is_active(each) and _selects(pod, each, term)]
    return [] if any(each["spec"].get("nodeName") for each in selected) else selected
