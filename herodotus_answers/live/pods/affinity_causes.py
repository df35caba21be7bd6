"""Find why no node can satisfy a required pod affinity or a spread constraint of a pod.

The pods that an affinity selects have no node themselves or do not exist, or no node has the topology key.

Owns: these causes and their remedies. Does not own: affinity to pods on other nodes (kube-scheduler's reasons), reading
(`cluster_objects`). Pure.

Invariant: a cause is stated only of a term whose namespaces are known and whose pods could all be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.node_rules import matches_selector
from herodotus_answers.live.objects import is_active
from herodotus_answers.live.pod_facts import (
    change_templates,
    list_unknown_keys,
    make_cause,
    make_remedy,
    name_source,
)
from herodotus_answers.live.workload_objects import format_selector
from herodotus_record.units import join_limited

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
_NAMED: Final = 3  # pods in a sentence
_SIMILAR: Final = 0.6  # of two values of a label, one of which may be a slip
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_FIELD: Final = "spec.affinity.podAffinity"


def find_affinity_causes(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield why no pod with a node matches a required pod affinity of a pod, as far as it is known."""
    for term in _list_terms(pod):
        selected = _list_selected(pod, term, objects)
        if selected == []:
            yield from _explain_absence(pod, term, objects)
        elif selected and not any(each["spec"].get("nodeName") for each in selected):
            yield _describe_waiting(pod, term, selected)


def _describe_waiting(pod: Json, term: Json, waiting: list[Json]) -> LiveCause:
    """Return the cause that the pods which a term selects have no node themselves."""
    names = [str(each["metadata"]["name"]) for each in waiting]
    verb, have = ("matches", "has") if len(names) == 1 else ("match", "have")
    text = f"{_describe_term(term)}, and {join_limited(names, _NAMED)}, which {verb}, {have} no node"
    if any(_selects(other, pod, back) for other in waiting for back in _list_terms(other)):
        text += f" and {have} to be near this pod in turn: none of them can be first"
        remedy = make_remedy(f"make the required pod affinity of this pod or of {names[0]} a preferred one")
    else:
        remedy = make_remedy(f"see why {names[0]} has no node: this pod follows it")
    return make_cause(
        "affinity-pods-wait",
        text,
        _FIELD,
        of=f"Pod/{names[0]}",
        remedies=[remedy],
        inspect=f"kubectl herodotus pod {names[0]} -n {waiting[0]['metadata']['namespace']}",
    )


def _explain_absence(pod: Json, term: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield the cause that no pod matches a term, if pods of another namespace or with a similar label may be meant."""
    spaces = _list_namespaces(pod, term)
    listed = objects.list_objects("Pod", labels=format_selector(term.get("labelSelector")), is_optional=True).items
    placed = [each for each in listed if is_active(each) and each["spec"].get("nodeName")]
    others = [each for each in placed if _matches(each, term) and each["metadata"]["namespace"] not in spaces]
    text = f"{_describe_term(term)}, and no pod of namespace {join_limited(spaces, _NAMED)} has that"
    if others:
        names = sorted(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in others)
        space = names[0].partition("/")[0]
        text += f": {join_limited(names, _NAMED)}, in another namespace, {'has' if len(names) == 1 else 'have'} it"
        what = f"let the pod affinity select pods of namespace {space}"
        remedy = _change_terms(pod, term, {"namespaces": [space]}, what, objects)
        yield make_cause("affinity-pods-missing", text, _FIELD, remedies=[remedy])
    elif near := _find_near_label(pod, term, objects):
        name, key, value = near
        text += f": {name} has {key}={value}"
        labels = {**term["labelSelector"]["matchLabels"], key: value}
        what = f"if {name} is meant, let the pod affinity select {key}={value}"
        remedy = _change_terms(
            pod, term, {"labelSelector": {**term["labelSelector"], "matchLabels": labels}}, what, objects
        )
        yield make_cause("affinity-pods-missing", text, _FIELD, of=f"Pod/{name}", remedies=[remedy])


def _find_near_label(pod: Json, term: Json, objects: ClusterObjects) -> tuple[str, str, str] | None:
    """Return a pod that a term would select if one label had a similar value: its name, the label and that value."""
    labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
    for key, wanted in labels.items():
        for namespace in _list_namespaces(pod, term):
            for other in objects.list_objects("Pod", namespace).items:
                value = str((other["metadata"].get("labels") or {}).get(key) or "")
                changed = {**(other["metadata"].get("labels") or {}), key: wanted}
                is_near = value not in ("", wanted) and get_close_matches(wanted, [value], cutoff=_SIMILAR)
                if is_near and other["spec"].get("nodeName") and matches_selector(term["labelSelector"], changed):
                    return str(other["metadata"]["name"]), key, value
    return None


def _change_terms(pod: Json, term: Json, change: Json, what: str, objects: ClusterObjects) -> Remedy:
    """Return the remedy that changes one of the required pod affinity terms, where the pod comes from."""
    terms = [{**each, **change} if each is term else each for each in _list_terms(pod)]
    is_of_template = not any(each.get("matchLabelKeys") or each.get("mismatchLabelKeys") for each in terms)
    patch = {"affinity": {"podAffinity": {_REQUIRED: terms}}}
    changed = change_templates(pod, patch, what, objects) if is_of_template else None
    return changed or make_remedy(f"{what}, in {name_source(pod, objects)}")


def find_unknown_keys(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each topology key that a pod needs and no node has, if nodes have one that is much like it.

    Another key may be of nodes that do not exist yet.
    """
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    needed = [(each["topologyKey"], _FIELD) for each in _list_terms(pod)]
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


def _describe_term(term: Json) -> str:
    """Return what a required pod affinity term demands, as the beginning of a sentence."""
    selector = format_selector(term.get("labelSelector"))
    return f"the pod has to be near {f'one with {selector}' if selector else 'any pod'} (same {term['topologyKey']})"


def _list_namespaces(pod: Json, term: Json) -> list[str]:
    """Return the namespaces that a term of a pod names; without any it is the pod's own."""
    return list(term.get("namespaces") or [pod["metadata"]["namespace"]])


def _matches(pod: Json, term: Json) -> bool:
    """Return whether the labels of a pod are those that a term selects."""
    return matches_selector(term.get("labelSelector"), pod["metadata"].get("labels") or {})


def _selects(pod: Json, other: Json, term: Json) -> bool:
    """Return whether a term of a pod selects another pod, as far as its namespaces are named."""
    return other["metadata"]["namespace"] in _list_namespaces(pod, term) and _matches(other, term)


def _list_selected(pod: Json, term: Json, objects: ClusterObjects) -> list[Json] | None:
    """Return the pods that a term selects, or None if they are not known or the pod does not need them.

    A pod that its own term selects may be the first, so that it waits for no other.
    """
    if term.get("namespaceSelector") is not None or _selects(pod, pod, term):
        return None
    selected: list[Json] = []
    for namespace in _list_namespaces(pod, term):
        listed = objects.list_objects("Pod", namespace)
        if listed.missing or not listed.is_complete:
            return None
        selected += [each for each in listed.items if is_active(each) and _selects(pod, each, term)]
    return selected
