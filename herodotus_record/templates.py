"""The pods that an object asks for: a Pod itself, or a workload with a template of pods.

Owns: which kinds have a template, where it stands, how many pods they ask for. Does not own: what a pod's fields mean
(the scheduler), files. Pure; standard library only.
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


class NoTemplateError(ValueError):
    """The object asks for no pods, or not in a way that can be read. One line that says why."""


@dataclass(frozen=True)
class Template:
    """Pods that are alike. `pod`: one of them as a manifest (metadata, spec). `namespace` empty: not said.

    `replicas`: how many the object asks for.
    """

    kind: str
    name: str
    namespace: str
    pod: Json
    replicas: int

    @property
    def scheduler(self) -> str:
        """Whose pods they are; "" where it is not said."""
        return str(self.pod["spec"].get("schedulerName") or "")


def asks_for_pods(manifest: object) -> bool:
    """Whether an object is of a kind whose pods can be told, or of one that is refused with a reason."""
    return isinstance(manifest, Mapping) and manifest.get("kind") in (POD, "DaemonSet", *COUNTED)


def template_of(manifest: object) -> Template:
    """What an object as written, or as the API server shows it, asks for. NoTemplateError."""
    if not isinstance(manifest, Mapping):
        raise NoTemplateError("expected an object")
    kind = manifest.get("kind")
    if kind == "DaemonSet":
        raise NoTemplateError(_DAEMON_SET)
    if kind != POD and kind not in COUNTED:
        raise NoTemplateError(f"kind: expected {POD}, {', '.join(COUNTED)}, found {kind or 'none'}")
    metadata = _mapping(manifest, "metadata", "")
    if kind == POD:
        pod = {"metadata": dict(metadata), "spec": dict(_mapping(manifest, "spec", ""))}
        return Template(POD, _name(metadata), str(metadata.get("namespace") or ""), pod, 1)
    group, counted = COUNTED[str(kind)]
    version = manifest.get("apiVersion")
    if version and str(version).rpartition("/")[0] != group:
        raise NoTemplateError(f"apiVersion: {version} has no {kind}")
    spec, where = _mapping(manifest, "spec", ""), "spec"
    if kind == "CronJob":
        spec = _mapping(_mapping(spec, "jobTemplate", "spec."), "spec", "spec.jobTemplate.")
        where = "spec.jobTemplate.spec"
    template = _mapping(spec, "template", f"{where}.")
    pod = {
        "metadata": dict(_mapping(template, "metadata", f"{where}.template.", required=False)),
        "spec": dict(_mapping(template, "spec", f"{where}.template.")),
    }
    replicas = spec.get(counted)
    if replicas is None:
        replicas = 1
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise NoTemplateError(f"{where}.{counted}: expected a number of pods")
    return Template(str(kind), _name(metadata), str(metadata.get("namespace") or ""), pod, replicas)


def _name(metadata: Mapping[str, Any]) -> str:
    """Of an object that is created with a generated name, the part that is known."""
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    if not isinstance(name, str) or not name:
        raise NoTemplateError("metadata.name: required")
    return name


def _mapping(of: Mapping[str, Any], field: str, where: str, *, required: bool = True) -> Mapping[str, Any]:
    found = of.get(field)
    if found is None and not required:
        return {}
    if not isinstance(found, Mapping):
        raise NoTemplateError(f"{where}{field}: {'required' if found is None else 'expected an object'}")
    return found
