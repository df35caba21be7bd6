"""Find what a pod with a node needs and cannot get: Secrets, ConfigMaps, their keys, and claims.

Owns: these causes and their remedies. Does not own: why a claim has no volume (`claim_causes`), what the kubelet says
(`kubelet_causes`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.pod_facts import (
    change_templates,
    clean,
    describe_elsewhere,
    find_missing_objects,
    find_owner,
    format_ago,
    list_claims,
    list_containers,
    make_cause,
    make_remedy,
    name_source,
)
from herodotus_answers.live.pods.claim_causes import find_claim_causes

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
_MAX_KEYS: Final = 4  # of a Secret or ConfigMap in a sentence
# ConfigMaps that a controller makes in every namespace and keeps up to date, and which controller.
_PUBLISHED: Final = {
    "kube-root-ca.crt": "kube-controller-manager",
    "openshift-service-ca.crt": "OpenShift's service CA operator",
    "istio-ca-root-cert": "istiod",
}
CREATING: Final = ("ContainerCreating", "PodInitializing", "")


def find_missing_references(
    pod: Json, events: list[Json], objects: ClusterObjects, now: datetime
) -> Iterator[LiveCause]:
    """Yield a cause for each Secret, ConfigMap and claim that the pod needs and that does not exist.

    Secrets and ConfigMaps are only read if nothing else explains that a container does not start.
    """
    namespace, containers = pod["metadata"]["namespace"], list_containers(pod)
    if all(each.read_state("running") or each.read_state("terminated") for each in containers):
        return
    kinds = [("PersistentVolumeClaim", "claim-missing", _list_claims(pod))]
    reasons = {each.read_state("waiting").get("reason") or "" for each in containers}
    warnings = {event.get("reason") for event in events if event.get("type") == "Warning"}
    has_other_cause = reasons.isdisjoint((*CREATING, "CreateContainerConfigError")) or warnings - {
        "FailedMount",
        "Failed",
    }
    if "FailedMount" in warnings or "CreateContainerConfigError" in reasons or not has_other_cause:
        kinds += [
            ("Secret", "secret-missing", _list_references(pod, "secret")),
            ("ConfigMap", "config-map-missing", _list_references(pod, "configMap")),
        ]
    for kind, code, names in kinds:
        for name in find_missing_objects(kind, names, namespace, objects):
            remedy = make_remedy(
                f"see why {_PUBLISHED[name]} does not publish {name} in namespace {namespace}, as it does in every"
                " namespace; the kubelet then tries again by itself"
                if kind == "ConfigMap" and name in _PUBLISHED
                else f"create the {kind} {name} in namespace {namespace}, or correct its name in"
                f" {name_source(pod, objects)}; the kubelet tries again by itself"
            )
            field, text = names[name][0][0], f"{kind} {name} does not exist"
            if kind != "Secret":  # a list of Secrets would have what they hold
                text += describe_elsewhere(kind, name, objects)
            if said := _find_maker_warning(name, namespace, objects):
                maker = f"{said['involvedObject']['kind']}/{name}"
                text += f"; {maker}, which may be what makes it, reports {said.get('reason')}"
                text += f"{format_ago(read_event_time(said), now)}: {clean(said.get('message'))}"
                again = f"the {kind} {name}, if it is to make that; the kubelet then tries again by itself"
                remedy = make_remedy(f"mend what {maker} reports, so that it makes {again}")
            yield make_cause(code, text, field, of=f"{kind}/{name}", remedies=[remedy])
        for name, uses in names.items():
            yield from _find_missing_keys(pod, kind, name, uses, objects)


def _find_maker_warning(name: str, namespace: str, objects: ClusterObjects) -> Json | None:
    """Return the last event about a custom resource with this name if it is a warning, else None.

    Operators name what makes a Secret or ConfigMap, such as an ExternalSecret or a SealedSecret, like the object.
    """
    for event in reversed(objects.list_events({"metadata": {"name": name, "namespace": namespace}})):
        subject = event.get("involvedObject") or {}
        group = str(subject.get("apiVersion") or "").rpartition("/")[0]
        if "." in group and not group.endswith(".k8s.io") and subject.get("kind"):
            return event if event.get("type") == "Warning" else None
    return None


def _find_missing_keys(
    pod: Json, kind: str, name: str, uses: list[tuple[str, str]], objects: ClusterObjects
) -> Iterator[LiveCause]:
    """Yield a cause for each key that the pod needs and that a Secret or ConfigMap lacks."""
    wanted = {key: field for field, key in uses if key}
    found = objects.get(kind, name, pod["metadata"]["namespace"]).object if wanted else None
    if found is None:
        return
    keys = sorted({*(found.get("data") or {}), *(found.get("binaryData") or {})})
    for key in sorted(wanted.keys() - {*keys}):
        has = f"it has {', '.join(keys[:_MAX_KEYS])}" if keys else "it has none"
        has += f" and {len(keys) - _MAX_KEYS} more" if len(keys) > _MAX_KEYS else ""
        remedy = make_remedy(f"add the key {key} to {kind} {name}, or correct it in {name_source(pod, objects)}")
        text = f"{kind} {name} has no key {key}: {has}"
        yield make_cause("key-missing", text, wanted[key], of=f"{kind}/{name}", remedies=[remedy])


def _list_references(pod: Json, kind: str) -> dict[str, list[tuple[str, str]]]:
    """Return the names of the Secrets or ConfigMaps that the pod cannot do without.

    With each are the fields that name it, and the key that the field names, "" if it names none. `kind` is `secret` or
    `configMap`.
    """
    named = "secretName" if kind == "secret" else "name"
    names: dict[str, list[tuple[str, str]]] = {}
    for volume in pod["spec"].get("volumes") or ():
        sources = [(volume.get(kind) or {}, named)]
        sources += [(each.get(kind) or {}, "name") for each in (volume.get("projected") or {}).get("sources") or ()]
        for source, key in sources:
            if source.get(key) and not source.get("optional"):
                field = f"spec.volumes[{volume['name']}]"
                items = [str(item["key"]) for item in source.get("items") or ()]
                names.setdefault(source[key], []).extend((field, item) for item in items or [""])
    for container in list_containers(pod):
        references = [(each.get(f"{kind}Ref") or {}, "envFrom") for each in container.spec.get("envFrom") or ()]
        references += [
            ((each.get("valueFrom") or {}).get(f"{kind}KeyRef") or {}, f"env[{each.get('name')}]")
            for each in container.spec.get("env") or ()
        ]
        for reference, field in references:
            if reference.get("name") and not reference.get("optional"):
                use = (f"{container.label}: {field}", str(reference.get("key") or ""))
                names.setdefault(reference["name"], []).append(use)
    return names


def _list_claims(pod: Json) -> dict[str, list[tuple[str, str]]]:
    """Return the names of the pod's claims, and the fields that name them."""
    names: dict[str, list[tuple[str, str]]] = {}
    for claim in list_claims(pod):
        names.setdefault(claim.name, []).append((f"spec.volumes[{claim.volume}]", ""))
    return names


def find_unbound_claims(pod: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield a cause for each claim of the pod that has no volume.

    A scheduler binds all claims before it binds the pod. So a pod with a node and a claim that waits for its first
    consumer, without a node chosen for it, was created with spec.nodeName.
    """
    namespace, node = pod["metadata"]["namespace"], pod["spec"].get("nodeName")
    for name in _list_claims(pod):
        claim = objects.get("PersistentVolumeClaim", name, namespace).object
        if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
            continue
        phase = (claim.get("status") or {}).get("phase") or "Pending"
        class_name = claim["spec"].get("storageClassName")
        storage = objects.get("StorageClass", class_name).object if class_name else None
        chosen = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
        waits = storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer" and not chosen
        source, of = "PersistentVolumeClaim status.phase", f"PersistentVolumeClaim/{name}"
        found = [] if waits else find_claim_causes(pod, objects, only=name)
        if found:
            yield from found
            continue
        if not waits:
            text = f"claim {name} is {phase} and has no volume"
            yield make_cause("claim-not-bound", text, source, of=of, at=claim["metadata"].get("creationTimestamp"))
            continue
        text = (
            f"claim {name} of StorageClass {class_name} waits for its first consumer (WaitForFirstConsumer): a"
            " scheduler would have chosen the node for its volume, but the pod was created with spec.nodeName"
            f" {node}, so no scheduler decided it and the claim is never bound"
        )
        remedies = [_replace_node_name(pod, objects)]
        yield make_cause(
            "created-with-node",
            text,
            "spec.nodeName, PersistentVolumeClaim status.phase",
            of=of,
            at=claim["metadata"].get("creationTimestamp"),
            remedies=remedies,
        )


def _replace_node_name(pod: Json, objects: ClusterObjects) -> Remedy:
    """Return the remedy that leaves the choice of the node to a scheduler, restricted to the pod's node."""
    node = pod["spec"]["nodeName"]
    labels = (objects.get("Node", node).object or {"metadata": {}})["metadata"].get("labels") or {}
    selector = {"kubernetes.io/hostname": labels.get("kubernetes.io/hostname", node)}
    instead = f"nodeSelector kubernetes.io/hostname: {selector['kubernetes.io/hostname']}"
    changed = change_templates(
        pod, {"nodeName": None, "nodeSelector": selector}, f"replace nodeName by {instead}", objects
    )
    if changed is not None:
        return changed
    owner = find_owner(pod, objects)
    who = f"the pod template of {owner.label}" if owner else "the manifest"
    return make_remedy(
        f"remove nodeName from {who}, use {instead} in its place, and create the pod anew: nodeName of an existing pod"
        " cannot be changed"
    )
