"""Read the pods that an object describes: a Pod itself, or a workload with a pod template.

Owns: which kinds have a template, where the template is, how many pods an object creates. Does not own: the meaning of
a pod's fields (the scheduler), files. Pure; standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

# kind -> (API group, the field of `spec` with the number of pods)
COUNTED: Final[Mapping[str, tuple[str, str]]] = {
    "Deployment": ("apps", "replicas"),
    "ReplicaSet": ("apps", "replicas"),
    "StatefulSet": ("apps", "replicas"),
    "ReplicationController": ("", "replicas"),
    "Job": ("batch", "parallelism"),
    "CronJob": ("batch", "parallelism"),
}
POD: Final = "Pod"
_DAEMON_SET: Final = (
    "a DaemonSet has a pod for each node, which its controller pins there: ask about its template as a Pod, with --node"
)


class PodTemplateError(ValueError):
    """The object describes no pods, or describes them in an unreadable form; the message says why in one line."""


@dataclass(frozen=True)
class PodTemplate:
    """The pods that one object, such as a Deployment, creates; they are all equal.

    `pod` is one of them as a manifest (metadata, spec), `replicas` how many the object creates. `namespace` is empty if
    the object names none.
    """

    kind: str
    name: str
    namespace: str
    pod: Json
    replicas: int

    @property
    def scheduler(self) -> str:
        """Return the schedulerName in the pods' spec, or "" if the spec has none."""
        return str(self.pod["spec"].get("schedulerName") or "")


def is_pod_or_workload(manifest: object) -> bool:
    """Return whether an object is a Pod or a workload; DaemonSets count, although `parse_pod_template` refuses them."""
    return isinstance(manifest, Mapping) and manifest.get("kind") in (POD, "DaemonSet", *COUNTED)


def parse_pod_template(manifest: object) -> PodTemplate:
    """Return the pods that a manifest, or an object from the API server, describes.

    Raises PodTemplateError if the object is a DaemonSet, is neither a Pod nor a workload, or is malformed.
    """
    if not isinstance(manifest, Mapping):
        raise PodTemplateError("expected an object")
    kind = manifest.get("kind")
    if kind == "DaemonSet":
        raise PodTemplateError(_DAEMON_SET)
    if kind != POD and kind not in COUNTED:
        raise PodTemplateError(f"kind: expected {POD}, {', '.join(COUNTED)}, found {kind or 'none'}")
    metadata = _mapping(manifest, "metadata", "")
    if kind == POD:
        pod = {"metadata": dict(metadata), "spec": dict(_mapping(manifest, "spec", ""))}
        return PodTemplate(POD, _name(metadata), str(metadata.get("namespace") or ""), pod, 1)
    group, replicas_field = COUNTED[str(kind)]
    version = manifest.get("apiVersion")
    if version and str(version).rpartition("/")[0] != group:
        raise PodTemplateError(f"apiVersion: {version} has no {kind}")
    spec, path = _mapping(manifest, "spec", ""), "spec"
    if kind == "CronJob":
        spec = _mapping(_mapping(spec, "jobTemplate", "spec."), "spec", "spec.jobTemplate.")
        path = "spec.jobTemplate.spec"
    template = _mapping(spec, "template", f"{path}.")
    pod = {
        "metadata": dict(_mapping(template, "metadata", f"{path}.template.", required=False)),
        "spec": dict(_mapping(template, "spec", f"{path}.template.")),
    }
    replicas = spec.get(replicas_field)
    if replicas is None:
        replicas = 1
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise PodTemplateError(f"{path}.{replicas_field}: expected a number of pods")
    return PodTemplate(str(kind), _name(metadata), str(metadata.get("namespace") or ""), pod, replicas)


def _name(metadata: Mapping[str, Any]) -> str:
    """Return the object's name or, without one, its generateName without hyphens at the end.

    Raises PodTemplateError if it has neither.
    """
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    if not isinstance(name, str) or not name:
        raise PodTemplateError("metadata.name: required")
    return name


def _mapping(parent: Mapping[str, Any], field: str, where: str, *, required: bool = True) -> Mapping[str, Any]:
    value = parent.get(field)
    if value is None and not required:
        return {}
    if not isinstance(value, Mapping):
        raise PodTemplateError(f"{where}{field}: {'required' if value is None else 'expected an object'}")
    return value
