"""Where an object of each kind has its pod template, and the commands that change the template.

Owns: the paths of templates, and what has to be deleted so that pods get the changed one. Does not own: which change
helps, and who made a pod. Pure.

A change of a pod spec is a strategic merge patch of the spec, and JSON operations whose paths begin below the spec.

Invariant: a command leaves an object whose pods are made from the changed template, also where the API server refuses
to change the template of an existing object (Job, Pod).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Json = dict[str, Any]
_TEMPLATE: Final = ("spec", "template")
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {  # kinds that are known; a Pod is its own template
    "Pod": (),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"), _TEMPLATE
    ),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
}
_GROUPS: Final = {"Pod": "", "ReplicationController": "", "Job": ".batch", "CronJob": ".batch"}  # others are of apps
_MADE_ANEW: Final = ("Pod", "Job")  # nothing changes their spec, so a copy takes their place
_DELETES_POD: Final = ("StatefulSet", "ReplicaSet", "ReplicationController")  # they keep a pending pod as it is
_RUN_LABELS: Final = (  # of a Job's pods; the API server sets them anew in its copy
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
)


class TemplateCommand(NamedTuple):
    """The shell command that changes a pod template, what it deletes (KIND/NAME), and its rights (verb, resource)."""

    command: str
    deletes: tuple[str, ...]
    rights: tuple[tuple[str, str], ...]


def has_template(kind: str) -> bool:
    """Return whether objects of a kind are known to have a pod template."""
    return bool(_PATHS.get(kind))


def read_template(kind: str, obj: Json) -> Json:
    """Return the pod template of an object, {} if it has none."""
    template: Any = obj
    for field in _PATHS.get(kind, _TEMPLATE):
        template = (template or {}).get(field)
    return template or {}


def build_template_command(
    kind: str, name: str, namespace: str, spec: Json, operations: Sequence[Json] = (), *, pod: str = ""
) -> TemplateCommand | None:
    """Return the command that gives the pods of an object another spec; None for a kind that is not known here.

    `spec` is the strategic merge patch and `operations` are the JSON operations; `pod` is the waiting pod, which the
    command deletes if its owner would keep it.
    """
    if kind not in _PATHS:
        return None
    resource, kubectl = f"{kind.lower()}s{_GROUPS.get(kind, '.apps')}", f"kubectl -n {namespace}"
    patches = _wrap(kind, spec, operations)
    if kind in _MADE_ANEW:
        local = [f"kubectl patch --local -f - {_type(patch)}-p {quote_json(patch)} -o json" for patch in patches]
        command = " | ".join(
            [f"{kubectl} get {kind.lower()} {name} -o json", *local, f"{kubectl} replace --force -f -"]
        )
        return TemplateCommand(command, (f"{kind}/{name}",), (("delete", resource), ("create", resource)))
    commands = [
        f"{kubectl} patch {kind.lower()} {name} {_type(patch)}-p {quote_json(patch)}" for patch in patches[::-1]
    ]
    rights = [("patch", resource)]
    deletes = (f"Pod/{pod}",) if pod and kind in _DELETES_POD else ()
    if deletes:
        commands.append(f"{kubectl} delete pod {pod}")
        rights.append(("delete", "pods"))
    return TemplateCommand(" && ".join(commands), deletes, tuple(rights))


def add_tolerations(name: str, namespace: str, operations: Sequence[Json]) -> TemplateCommand:
    """Return the command that adds tolerations to an existing pod, the only change of its spec that the API allows."""
    patch = quote_json(_wrap("Pod", {}, operations)[0])
    return TemplateCommand(f"kubectl -n {namespace} patch pod {name} --type=json -p {patch}", (), (("patch", "pods"),))


def read_job_changes(command: str) -> tuple[Json, list[Json]]:
    """Return the patch of the spec and the operations in a command of `build_template_command` for a Job."""
    words, spec, operations = shlex.split(command), dict[str, Any](), list[Json]()
    for position, word in enumerate(words):
        if word != "-p" or "--local" not in words[position - 4 : position]:
            continue
        patch = json.loads(words[position + 1])
        if isinstance(patch, list):
            prefix = len(_find_prefix("Job"))
            operations += [{**each, "path": each["path"][prefix:]} for each in patch]
        else:
            spec = read_template("Job", patch).get("spec") or {}
    return spec, operations


def quote_json(patch: Any) -> str:
    """Return a patch as an argument of a shell command."""
    return shlex.quote(json.dumps(patch, separators=(",", ":")))


def _wrap(kind: str, spec: Json, operations: Sequence[Json]) -> list[Json | list[Json]]:
    """Return the patches of an object that change the spec of its pods: the merge patch, then the operations."""
    prefix, patches = _find_prefix(kind), list[Json | list[Json]]()
    if kind == "Job":  # a copy gets a selector and labels of its own
        template: Json = {"metadata": {"labels": dict.fromkeys(_RUN_LABELS)}, "spec": spec}
        patches.append({"spec": {"selector": None, "template": template}})
    elif spec:
        patch: Json = {"spec": spec}
        for field in reversed(_PATHS[kind]):
            patch = {field: patch}
        patches.append(patch)
    return patches + ([[{**each, "path": f"{prefix}{each['path']}"} for each in operations]] if operations else [])


def _find_prefix(kind: str) -> str:
    return "".join(f"/{field}" for field in (*_PATHS[kind], "spec"))


def _type(patch: Json | list[Json]) -> str:
    return "--type=json " if isinstance(patch, list) else ""
