"""The pods of a review, as the API server would store them.

Owns: names of pods that are alike, what admission adds as far as it can be known here (priority), what of a manifest is
left out of the question and that this is said. Does not own: defaults (`evaluate.defaults`), which objects ask for pods
(`herodotus_record.templates`). Pure.

Source: plugin/pkg/admission/priority v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from herodotus_record.templates import POD, Template
from scheduler.evaluate.cluster import DEFAULT_NAMESPACE, ManifestError, decoded_pod
from scheduler.evaluate.defaults import defaulted
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Int32, Object, PodStatus
from scheduler.reviews.controllers import controller_of, owner_reference

Json = dict[str, Any]
# What a manifest of a pod that exists has, and what says nothing about where it would go.
_LEFT_OUT: Final = ("nodeName", "schedulingGates")


class PriorityClass(Object, frozen=True):
    """scheduling.k8s.io/v1.PriorityClass."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


@dataclass(frozen=True)
class Pods:
    """At least one pod. `named`: the first has the name that was given, and may exist.

    `marks`: what was left out of the question. `controller`: whose pods they are, as it would be created.
    """

    pods: tuple[PodInfo, ...]
    named: bool
    marks: tuple[str, ...]
    controller: Object | None = None

    def marked(self, marks: Iterable[str]) -> Pods:
        """With more marks."""
        return replace(self, marks=(*self.marks, *marks))


def pods_of(
    template: Template,
    namespace: str,
    scheduler: str,
    replicas: int,
    classes: Mapping[str, PriorityClass] | None,
) -> Pods:
    """So many pods of a template. ManifestError names the field that is wrong.

    `namespace`, `scheduler`: where the template says none, "" for the API server's defaults. `classes`: None where they
    are not known.
    """
    spec = dict(template.pod["spec"]) | {"schedulerName": scheduler or template.scheduler}
    marks = [f"spec.{name} is left out of the question" for name in _LEFT_OUT if spec.pop(name, None)]
    namespace = namespace or template.namespace or DEFAULT_NAMESPACE
    metadata = dict(template.pod["metadata"]) | {"namespace": namespace, "name": template.name}
    if template.kind != POD:
        metadata["ownerReferences"] = [owner_reference(template)]
    where = "the pod" if template.kind == POD else f"the template of {template.kind} {namespace}/{template.name}"
    marks += _set_priority(where, spec, classes)
    alone = template.kind == POD
    names = [template.name if alone and not i else f"{template.name}-{i}" for i in range(replicas)]
    uids = [str(metadata.get("uid") or "") if alone and not i else "" for i in range(replicas)]
    each = (metadata | {"name": name, "uid": uid} for name, uid in zip(names, uids, strict=True))
    pods = tuple(_pod(where, its, spec) for its in each)
    return Pods(pods, alone, tuple(marks), controller_of(template, namespace))


def _pod(where: str, metadata: Json, spec: Json) -> PodInfo:
    manifest = {"apiVersion": "v1", "kind": POD, "metadata": metadata, "spec": spec}
    pod = msgspec.structs.replace(
        defaulted(decoded_pod(where, manifest)), status=PodStatus(), manifest=msgspec.json.encode(manifest)
    )
    return PodInfo(pod)


def _set_priority(where: str, spec: Json, classes: Mapping[str, PriorityClass] | None) -> list[str]:
    """The priority of the class, or of the one for pods that name none; a mark where it cannot be known."""
    name = spec.get("priorityClassName")
    if classes is None:
        unknown = f"priority class {name} is not known here: the pod's priority counts as 0"
        return [unknown] if name and spec.get("priority") is None else []
    found = classes.get(str(name)) if name else _default_of(classes)
    if name and found is None:
        raise ManifestError(f"{where}: no PriorityClass with name {name} was found")
    if found is not None:
        spec["priority"] = found.value
        spec["preemptionPolicy"] = spec.get("preemptionPolicy") or found.preemption_policy
    return []


def _default_of(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Of several, which the API server tolerates, the one with the lowest value."""
    return min((c for c in classes.values() if c.global_default), key=lambda c: c.value, default=None)
