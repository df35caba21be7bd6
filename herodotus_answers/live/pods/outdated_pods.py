"""Find pods that have an earlier template than their owner, and that the owner does not replace by itself.

A StatefulSet with podManagementPolicy OrderedReady stops at the first pod that is not ready, before it would replace
pods of an earlier template; with updateStrategy OnDelete, it and a DaemonSet never replace one. A change of the
template does not reach such a pod before it is deleted.

Owns: which pods these are, what keeps an update from going on, and the commands. Does not own: what else is wrong with
the pod. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.pod_facts import (
    find_owner,
    is_true,
    kubectl,
    list_claims,
    make_cause,
    make_remedy,
    quote_patch,
)

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause

Json = dict[str, Any]
_MAX_NAMES: Final = 3  # in a sentence
# What no pod template describes.
_STORAGE: Final = ("PersistentVolumeClaim", "PersistentVolume")
REVISION_LABEL: Final = "controller-revision-hash"
# What a DaemonSet counts its templates by: a label of its pods, and an annotation of itself.
_GENERATION_LABEL: Final = "pod-template-generation"
_GENERATION: Final = "deprecated.daemonset.template.generation"


def find_outdated(pod: Json, objects: ClusterObjects) -> LiveCause | None:
    """Return the cause that the owner of a pod keeps it at an earlier template, or None."""
    owner = find_owner(pod, objects)
    if owner is None or owner.kind not in ("StatefulSet", "DaemonSet"):
        return None
    found = objects.get(owner.kind, owner.name, pod["metadata"]["namespace"]).object
    return None if found is None else explain_outdated(pod, {**found, "kind": owner.kind})


def add_outdated(causes: list[LiveCause], pod: Json, objects: ClusterObjects) -> list[LiveCause]:
    """Return the causes of what stops a pod, with that of its earlier template, if it has one, after the first.

    The newest template may have mended what the first cause names, so that its remedies follow that of the template.
    They stay where the newest template names the same claims, and the first cause is about one of them.
    """
    outdated = find_outdated(pod, objects)
    if outdated is None:
        return causes
    if causes and not _is_about_kept_claim(causes[0], pod, objects):
        outdated["remedies"] += causes[0]["remedies"]
        causes[0]["remedies"] = []
    return [*causes[:1], outdated, *causes[1:]]


def _is_about_kept_claim(cause: LiveCause, pod: Json, objects: ClusterObjects) -> bool:
    """Return whether a cause is about storage, and the newest template of the pod's owner has all claims of the pod."""
    owner = find_owner(pod, objects)
    if owner is None or str(cause["object"]).partition("/")[0] not in _STORAGE:
        return False
    found = objects.get(owner.kind, owner.name, pod["metadata"]["namespace"]).object or {}
    spec = found.get("spec") or {}
    made = {str(each["metadata"]["name"]) for each in spec.get("volumeClaimTemplates") or ()}
    template = {"metadata": pod["metadata"], "spec": (spec.get("template") or {}).get("spec") or {}}
    newest = {claim.name for claim in list_claims(template)}
    return all(claim.volume in made or claim.name in newest for claim in list_claims(pod))


def explain_outdated(pod: Json, owner: Json) -> LiveCause | None:
    """Return the cause that `owner`, a StatefulSet or DaemonSet, keeps a pod at an earlier template, or None."""
    if pod["metadata"].get("deletionTimestamp") or not is_earlier(pod, owner):
        return None
    why = _find_reason(pod, owner)
    if not why:
        return None
    name, label = pod["metadata"]["name"], f"{owner['kind']}/{owner['metadata']['name']}"
    text = f"pod {name} has an earlier template of {label}, which replaces it only {why}"
    remedy = make_remedy(
        f"delete {name}: it is made again with the newest template", kubectl(pod, f"delete pod {name}")
    )
    return make_cause("earlier-template", text, f"metadata.labels[{REVISION_LABEL}]", of=label, remedies=[remedy])


def explain_waiting_update(pods: Iterable[Json], owner: Json, wanted: int) -> LiveCause | None:
    """Return the cause that unavailable pods keep a StatefulSet or DaemonSet from updating its other pods, or None.

    `pods` are those that have not ended, also those that are being deleted. An update may take maxUnavailable pods away
    at a time, and pods that are unavailable for another reason count among them.
    """
    strategy = owner["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if strategy.get("type") == "OnDelete" or rolling.get("partition") or rolling.get("maxSurge") not in (None, 0, "0%"):
        return None
    pods = list(pods)
    earlier = [pod for pod in pods if is_earlier(pod, owner)]
    broken = [pod for pod in pods if not is_true(pod, "Ready") or pod["metadata"].get("deletionTimestamp")]
    value = rolling.get("maxUnavailable", 1)
    allowed = _round_up(value, wanted)
    if len(broken) < allowed or not broken or not any(pod not in broken for pod in earlier):
        return None
    label, done = f"{owner['kind']}/{owner['metadata']['name']}", wanted - len(earlier)
    names = ", ".join(
        f"{pod['metadata']['name']}{' on ' + pod['spec']['nodeName'] if pod['spec'].get('nodeName') else ''}"
        for pod in broken[:_MAX_NAMES]
    )
    more = f" and {len(broken) - _MAX_NAMES} more" if len(broken) > _MAX_NAMES else ""
    text = f"the update waits, {max(0, done)} of {wanted} pods have the newest template: maxUnavailable {value} is"
    text += f" used up by {names}{more}"
    raised = len(broken) + 1
    patch = {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": raised}}}}
    command = kubectl(owner, f"patch {owner['kind'].lower()} {owner['metadata']['name']}", "-p", quote_patch(patch))
    remedy = make_remedy(f"let the update go on beside them: maxUnavailable {raised} in {label}", command)
    # A StatefulSet updates one pod after the other, and a newest template that does not run is no reason to go on.
    may_go_on = owner["kind"] == "DaemonSet" and all(pod in earlier for pod in broken)
    remedies = [remedy] if may_go_on else []
    return make_cause(
        "update-waits", text, "spec.updateStrategy.rollingUpdate.maxUnavailable", of=label, remedies=remedies
    )


def _round_up(value: object, wanted: int) -> int:
    """Return a number of pods that may be a percentage, rounded up as a DaemonSet's maxUnavailable is."""
    text = str(value)
    return -(-wanted * int(text[:-1]) // 100) if text.endswith("%") else int(text)


def is_earlier(pod: Json, owner: Json) -> bool:
    """Return whether a pod has another template than the newest of its owner, as far as labels tell."""
    newest, has = _read_revisions(pod, owner)
    return bool(newest and has) and newest != has


def has_newest(pod: Json, owner: Json) -> bool:
    """Return whether the labels of a pod say that it has the newest template of its owner."""
    newest, has = _read_revisions(pod, owner)
    return bool(newest) and newest == has


def _read_revisions(pod: Json, owner: Json) -> tuple[str | None, str | None]:
    """Return the newest revision of a StatefulSet or DaemonSet and that of a pod, as its label says; None: unknown."""
    labels = pod["metadata"].get("labels") or {}
    if owner["kind"] == "DaemonSet":
        return (owner["metadata"].get("annotations") or {}).get(_GENERATION), labels.get(_GENERATION_LABEL)
    return (owner.get("status") or {}).get("updateRevision"), labels.get(REVISION_LABEL)


def _find_reason(pod: Json, owner: Json) -> str:
    """Return the condition on which the owner replaces a pod of an earlier template, or "".

    "" means that the owner replaces it now or in its turn, or that `partition` keeps it at the earlier revision.
    """
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return "when it is deleted (updateStrategy OnDelete)"
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    ordinal = pod["metadata"]["name"].rpartition("-")[2]
    if is_true(pod, "Ready") or owner["kind"] != "StatefulSet" or (ordinal.isdigit() and int(ordinal) < partition):
        return ""
    is_ordered = owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    return "once it is ready (podManagementPolicy OrderedReady)" if is_ordered else ""
