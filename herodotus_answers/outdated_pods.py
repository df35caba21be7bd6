"""Find pods that have an earlier template than their owner, and that the owner does not replace by itself.

A StatefulSet with podManagementPolicy OrderedReady stops at the first pod that is not ready, before it would replace
pods of an earlier template; with updateStrategy OnDelete, it and a DaemonSet never replace one. A change of the
template does not reach such a pod before it is deleted.

Owns: which pods these are, and the command that replaces one. Does not own: what else is wrong with the pod. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.pod_facts import find_owner, kubectl, make_cause, make_remedy, read_conditions

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause

Json = dict[str, Any]
REVISION_LABEL: Final = "controller-revision-hash"
# What a DaemonSet counts its templates by: a label of its pods, and an annotation of itself.
_GENERATION_LABEL: Final = "pod-template-generation"
_GENERATION: Final = "deprecated.daemonset.template.generation"


def find_outdated(pod: Json, objects: ClusterObjects) -> LiveCause | None:
    """Return the cause that the owner of a pod that is not ready keeps it at an earlier template, or None."""
    owner = find_owner(pod, objects)
    if owner is None or owner.kind not in ("StatefulSet", "DaemonSet"):
        return None
    found = objects.get(owner.kind, owner.name, pod["metadata"]["namespace"]).object
    return None if found is None else explain_outdated(pod, {**found, "kind": owner.kind})


def explain_outdated(pod: Json, owner: Json) -> LiveCause | None:
    """Return the cause that `owner`, a StatefulSet or DaemonSet, keeps a pod at an earlier template, or None.

    A pod that is ready is no problem, and gets no cause.
    """
    is_ready = (read_conditions(pod).get("Ready") or {}).get("status") == "True"
    if is_ready or pod["metadata"].get("deletionTimestamp") or not _is_earlier(pod, owner):
        return None
    why = _find_reason(pod, owner)
    if not why:
        return None
    name, label = pod["metadata"]["name"], f"{owner['kind']}/{owner['metadata']['name']}"
    text = f"{name} has an earlier template of {label}, which replaces it only {why}"
    remedy = make_remedy(
        f"delete {name}: it is made again with the newest template", kubectl(pod, f"delete pod {name}")
    )
    return make_cause("earlier-template", text, f"metadata.labels[{REVISION_LABEL}]", of=label, remedies=[remedy])


def _is_earlier(pod: Json, owner: Json) -> bool:
    """Return whether a pod has another template than the newest of its owner, as far as labels tell."""
    labels = pod["metadata"].get("labels") or {}
    newest, has = (owner.get("status") or {}).get("updateRevision"), labels.get(REVISION_LABEL)
    if owner["kind"] == "DaemonSet":
        newest, has = (owner["metadata"].get("annotations") or {}).get(_GENERATION), labels.get(_GENERATION_LABEL)
    return bool(newest and has) and newest != has


def _find_reason(pod: Json, owner: Json) -> str:
    """Return the condition on which the owner replaces a pod of an earlier template, or "".

    "" means that the owner replaces it now, or that `partition` keeps it at the earlier revision on purpose.
    """
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return "when it is deleted (updateStrategy OnDelete)"
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    ordinal = pod["metadata"]["name"].rpartition("-")[2]
    if owner["kind"] != "StatefulSet" or (ordinal.isdigit() and int(ordinal) < partition):
        return ""
    is_ordered = owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    return "once it is ready (podManagementPolicy OrderedReady)" if is_ordered else ""
