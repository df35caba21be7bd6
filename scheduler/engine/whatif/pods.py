"""The pods that a PlacementReview or ClusterReview asks about, built as the API server would store them.

Of the admission plugins only Priority is applied. Pure.

Source: plugin/pkg/admission/priority v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from herodotus_record.model import Reason
from herodotus_record.templates import POD, PodTemplate
from herodotus_record.typed_decoding import convert
from scheduler.engine.manifests.cluster import DEFAULT_NAMESPACE, ManifestError, SourceManifest, decode_pod
from scheduler.engine.manifests.defaults import apply_pod_defaults
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Int32, Object, Pod, PodStatus
from scheduler.engine.whatif.controllers import build_controller, owner_reference

Json = dict[str, Any]
# Fields of an existing pod's manifest that do not affect where it would go.
_LEFT_OUT: Final = ("nodeName", "schedulingGates")


class PriorityClass(Object, frozen=True):
    """The fields of scheduling.k8s.io/v1.PriorityClass that priority admission reads."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


@dataclass(frozen=True)
class Pods:
    """The pods of one review, all created from one pod template.

    `named` means that the template is a Pod, whose name the first pod has; a pod with this name may exist. `notes`
    state which fields were ignored. `controller` is the pods' controller as it would be created.
    """

    pods: tuple[PodInfo, ...]
    named: bool
    notes: tuple[Reason, ...]
    controller: Object | None = None

    def with_notes(self, notes: Iterable[Reason]) -> Pods:
        """Return a copy with `notes` appended to its notes, which each decision of the review repeats."""
        return replace(self, notes=(*self.notes, *notes))


def build_pods(
    template: PodTemplate,
    namespace: str,
    scheduler: str,
    replicas: int,
    classes: Mapping[str, PriorityClass] | None,
) -> Pods:
    """Return `replicas` pods of a pod template, as the API server would store them.

    If `namespace` or `scheduler` is not "", it replaces the template's value. `classes` are the priority classes by
    name, or None if unknown. Raise ManifestError, which names the field, for an invalid template.
    """
    spec = dict(template.pod["spec"]) | {"schedulerName": scheduler or template.scheduler}
    notes = [Reason("field-left-out", {"field": name}) for name in _LEFT_OUT if spec.pop(name, None)]
    namespace = namespace or template.namespace or DEFAULT_NAMESPACE
    metadata = dict(template.pod["metadata"]) | {"namespace": namespace, "name": template.name}
    if template.kind != POD:
        metadata["ownerReferences"] = [owner_reference(template)]
    subject = "the pod" if template.kind == POD else f"the template of {template.kind} {namespace}/{template.name}"
    notes += _set_priority(subject, spec, classes)
    alone = template.kind == POD
    names = [template.name if alone and not number else f"{template.name}-{number}" for number in range(replicas)]
    first = {"name": names[0], "uid": str(metadata.get("uid") or "") if alone else ""} if names else {}
    pods = _build_copies(subject, metadata | first, spec, names)
    return Pods(pods, alone, tuple(notes), build_controller(template, namespace))


def _build_copies(subject: str, metadata: Json, spec: Json, names: Sequence[str]) -> tuple[PodInfo, ...]:
    """Return one pod for each name: the first with the given `metadata`, the others with their own name and UID.

    The manifest is decoded once, because the largest takes 20 ms or more; the copies share the decoded objects.
    """
    if not names:
        return ()
    encoded = msgspec.Raw(msgspec.json.encode(spec))

    def build_copy(pod: Pod, metadata: Json) -> PodInfo:
        manifest = msgspec.json.encode({"apiVersion": "v1", "kind": POD, "metadata": metadata, "spec": encoded})
        return PodInfo(msgspec.structs.replace(pod, manifest=manifest))

    decoded = decode_pod(subject, {"apiVersion": "v1", "kind": POD, "metadata": metadata, "spec": spec})
    first = msgspec.structs.replace(apply_pod_defaults(decoded), status=PodStatus())
    pods = [build_copy(first, metadata)]
    for name in names[1:]:
        its = msgspec.structs.replace(first.metadata, name=name, uid=f"{first.metadata.namespace}/{name}")
        pods.append(build_copy(msgspec.structs.replace(first, metadata=its), metadata | {"name": name, "uid": ""}))
    return tuple(pods)


def _set_priority(subject: str, spec: Json, classes: Mapping[str, PriorityClass] | None) -> list[Reason]:
    """Set the priority of `spec` from its priority class, or from the default class if it names none.

    If the classes are unknown (None), change nothing, and return a note if `spec` names a class without a priority.
    Raise ManifestError if the named class does not exist.
    """
    name = spec.get("priorityClassName")
    if classes is None:
        unknown = Reason("priority-class-unknown", {"name": str(name)})
        return [unknown] if name and spec.get("priority") is None else []
    priority_class = classes.get(str(name)) if name else _default_of(classes)
    if name and priority_class is None:
        raise ManifestError(f"{subject}: no PriorityClass with name {name} was found")
    if priority_class is not None:
        spec["priority"] = priority_class.value
        spec["preemptionPolicy"] = spec.get("preemptionPolicy") or priority_class.preemption_policy
    return []


def _default_of(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Return the priority class with `globalDefault`, that with the lowest value if there are several, or None."""
    return min((c for c in classes.values() if c.global_default), key=lambda c: c.value, default=None)


def split_priority_classes(
    objects: Iterable[SourceManifest],
) -> tuple[dict[str, PriorityClass] | None, list[SourceManifest]]:
    """Return the PriorityClasses by name, or None if there are none, and the manifests of all other objects.

    Raise ManifestError for an invalid PriorityClass.
    """
    classes, others = {}, []
    for manifest in objects:
        if isinstance(manifest.content, Mapping) and manifest.content.get("kind") == PriorityClass.__name__:
            try:
                priority_class = convert(manifest.content, PriorityClass)
            except msgspec.ValidationError as e:
                raise ManifestError(f"{manifest.where} ({PriorityClass.__name__}): {e}") from e
            classes[priority_class.metadata.name] = priority_class
        else:
            others.append(manifest)
    return classes or None, others
