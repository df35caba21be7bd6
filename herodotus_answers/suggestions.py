"""Turn the suggestions of a record into sentences, structured changes and commands to paste.

Owns: the catalogue of changes, the object and field that each changes, and the command that makes it. Does not own:
which changes are suggested (the scheduler finds and checks them), layout on a screen. Pure.

A pending pod's tolerations can be added to; its resources, node selector and affinity cannot be changed. So a command
changes the pod's owner, and deletes the pod where the owner does not replace it by itself. A pod without an owner is
replaced. Commands need kubectl and a POSIX shell alone.

Invariant: every change that this version records has its code here. A suggestion without a command says in `text` what
to change.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from herodotus_answers.wording import shorten_lists
from herodotus_record.model import Decision, Reason, RecordedPod, Suggestion
from herodotus_record.reasons import CHANGES

Json = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"  # of a Deployment's pods; their ReplicaSet's name ends with its value
_RUN_LABELS: Final = (  # of a Job's pods; the API server sets them anew in its copy
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
)
_TEMPLATES: Final = {  # kinds with a pod template, by their name in commands
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "DaemonSet": "daemonset",
    "ReplicaSet": "replicaset",
    "ReplicationController": "replicationcontroller",
}
_DELETES_POD: Final = ("StatefulSet", "ReplicaSet", "ReplicationController")  # they keep a pending pod as it is

_NODE_CHANGES: Final = ("uncordon", "label-node")


Change = TypedDict(
    "Change",
    {
        "kind": Annotated[str, "Kind of the change, such as set-request or uncordon."],
        "object": Annotated[str, "Object that is changed, as KIND/NAME."],
        "field": Annotated[str, "Field that is changed."],
        "from": Annotated[str | None, "Value before the change; null if there is none."],
        "to": Annotated[str | None, "Value after the change; null if the field is removed."],
    },
)


class Right(TypedDict):
    """A right to a resource of the API server."""

    verb: Annotated[str, "Verb of the request."]
    resource: Annotated[str, "Resource with its API group, such as statefulsets.apps."]
    namespace: Annotated[str, "Namespace of the request; empty for nodes."]


class SuggestedChange(Change):
    """A change after which the pod would fit on a node."""

    also: Annotated[list[Change], "Further changes that are needed together with it."]
    node: Annotated[str, "Node on which the pod then fits."]
    text: Annotated[str, "The changes as a sentence."]
    command: Annotated[str | None, "Shell command that makes the changes; null if none is known."]
    deletes: Annotated[list[str], "Objects that the command deletes, as KIND/NAME."]
    rights: Annotated[list[Right], "Rights that the command needs."]
    checked: Annotated[bool, "Whether the pod with the changes passed all filters on the snapshot of the attempt."]


class TemplateOwner(NamedTuple):
    """The object whose pod template a pod comes from; the pod itself if it has no controller."""

    kind: str
    name: str


def find_owner(pod: RecordedPod) -> TemplateOwner:
    """Return the object to change for a pod: its controller, or the Deployment behind its ReplicaSet."""
    if pod.owner is None:
        return TemplateOwner("Pod", pod.name)
    template = pod.labels.get(HASH_LABEL)
    if pod.owner.kind == "ReplicaSet" and template and pod.owner.name.endswith(f"-{template}"):
        return TemplateOwner("Deployment", pod.owner.name.removesuffix(f"-{template}"))
    return TemplateOwner(pod.owner.kind, pod.owner.name)


def build_suggestions(decision: Decision) -> list[SuggestedChange]:
    """Return the decision's suggestions as JSON, each with its sentence, its changes and the command that makes them.

    The fields of the first change are those of the suggestion; `also` holds the others. `command` is null where none is
    known, and `deletes` names the objects that it deletes.
    """
    return [_build(decision.pod, suggestion) for suggestion in decision.suggestions]


def build_hypothetical_suggestions(decision: Decision) -> list[SuggestedChange]:
    """Return the suggestions for a pod that does not exist: commands would change objects that do not exist either."""
    return [suggestion | {"command": None, "deletes": [], "rights": []} for suggestion in build_suggestions(decision)]


def _build(pod: RecordedPod, suggestion: Suggestion) -> SuggestedChange:
    owner = find_owner(pod)
    first, *also = (_describe(pod, owner, suggestion, change) for change in suggestion.changes)
    command, deletes = build_command(pod, suggestion)
    sentences = [format_change(suggestion, change) for change in suggestion.changes]
    return {
        **first,
        "also": also,
        "node": suggestion.node,
        "text": " and ".join(sentences),
        "command": command,
        "deletes": deletes,
        "rights": [] if command is None else _list_rights(pod, owner, suggestion, deletes),
        "checked": suggestion.is_checked,
    }


def _code(change: Reason) -> str:
    removes = "to" not in change.params and change.code in ("set-node-selector", "set-node-affinity")
    return change.code.replace("set-", "remove-") if removes else change.code


def format_change(suggestion: Suggestion, change: Reason) -> str:
    """Return a change of a suggestion as a sentence in the imperative, without a full stop."""
    params = dict(change.params) | {"node": suggestion.node, "taint": _format_taint(change.params)}
    container = change.params.get("container")
    params["container"] = f" of container {container}" if container else " of the pod" if "container" in params else ""
    template = CHANGES.get(_code(change), change.code)
    return shorten_lists(template.format_map(params))


def _format_taint(params: Mapping[str, str]) -> str:
    value = f"={params['value']}" if params.get("value") else ""
    return f"{params.get('key', '')}{value}:{params.get('effect', '')}"


def _describe(pod: RecordedPod, owner: TemplateOwner, suggestion: Suggestion, change: Reason) -> Change:
    """Return a change as JSON: its kind, the object and field that it changes, and the values before and after."""
    p, code = change.params, _code(change)
    on_pod = code == "add-toleration" and not suggestion.patch
    spec = "spec" if on_pod or owner.kind == "Pod" else "spec.template.spec"
    changed = f"Node/{suggestion.node}" if code in _NODE_CHANGES else f"Pod/{pod.name}" if on_pod else "/".join(owner)
    holder = f"{spec}.{p['group']}[name={p['container']}]" if p.get("container") else spec
    field, old, new = {
        "uncordon": ("spec.unschedulable", "true", "false"),
        "label-node": (f"metadata.labels[{p.get('key')}]", p.get("from") or None, p.get("value")),
        "add-toleration": (f"{spec}.tolerations", None, _format_taint(p)),
        "set-request": (f"{holder}.resources.requests[{p.get('resource')}]", p.get("from"), p.get("to")),
        "remove-host-port": (f"{holder}.ports.hostPort", p.get("from"), None),
        "set-node-selector": (f"{spec}.nodeSelector[{p.get('key')}]", p.get("from"), p.get("to")),
        "set-node-affinity": (f"{spec}.affinity.nodeAffinity.required", p.get("from"), p.get("to")),
        "set-max-skew": (_constraint_field(spec, p, "maxSkew"), p.get("from"), p.get("to")),
        "set-node-taints-policy": (_constraint_field(spec, p, "nodeTaintsPolicy"), p.get("from"), p.get("to")),
        "set-when-unsatisfiable": (_constraint_field(spec, p, "whenUnsatisfiable"), p.get("from"), p.get("to")),
        "remove-pod-affinity": (f"{spec}.affinity.podAffinity.required", p.get("key"), None),
        "remove-pod-anti-affinity": (f"{spec}.affinity.podAntiAffinity.required", p.get("key"), None),
    }.get(change.code, ("", None, None))
    return {"kind": code, "object": changed, "field": field, "from": old, "to": new}


def _constraint_field(spec: str, params: Mapping[str, str], field: str) -> str:
    return f"{spec}.topologySpreadConstraints[topologyKey={params.get('key')}].{field}"


def build_command(pod: RecordedPod, suggestion: Suggestion) -> tuple[str | None, list[str]]:
    """Return the shell command that carries the suggestion out, and the objects that it deletes.

    The command is None if no kubectl command can do it, for instance for a kind of owner that is not known here, or if
    a part of the suggestion is masked.
    """
    on_node = [_node_command(suggestion.node, change) for change in suggestion.changes if change.code in _NODE_CHANGES]
    tolerated = [change for change in suggestion.changes if change.code == "add-toleration"]
    if not suggestion.patch and not tolerated:
        return _join(on_node), []
    if not suggestion.patch:
        patch = _json_patch("/spec/tolerations", tolerated, "count")
        return _join([*on_node, f"kubectl -n {pod.namespace} patch pod {pod.name} --type=json -p {patch}"]), []
    try:
        patch_spec = json.loads(suggestion.patch)
    except ValueError:  # masked
        return None, []
    changed = _change_owner(pod, find_owner(pod), patch_spec, tolerated)
    return (None, []) if changed is None else (_join([*on_node, *changed[0]]), changed[1])


def _list_rights(pod: RecordedPod, owner: TemplateOwner, suggestion: Suggestion, deletes: Sequence[str]) -> list[Right]:
    """Return the rights that the command needs, as verb, resource with group, and namespace ("" for nodes)."""
    rights = []
    if any(change.code in _NODE_CHANGES for change in suggestion.changes):
        rights.append(("patch", "nodes", ""))
    if not suggestion.patch:
        tolerated = any(change.code == "add-toleration" for change in suggestion.changes)
        rights += [("patch", "pods", pod.namespace)] if tolerated else []
    elif owner.kind in _TEMPLATES:
        group = "" if owner.kind == "ReplicationController" else ".apps"
        rights.append(("patch", f"{_TEMPLATES[owner.kind]}s{group}", pod.namespace))
        rights += [("delete", "pods", pod.namespace)] if deletes else []
    else:
        resource = "pods" if owner.kind == "Pod" else "jobs.batch"
        rights += [("delete", resource, pod.namespace), ("create", resource, pod.namespace)]
    return [{"verb": verb, "resource": resource, "namespace": namespace} for verb, resource, namespace in rights]


def _join(commands: Sequence[str]) -> str:
    return " && ".join(commands)


def _node_command(node: str, change: Reason) -> str:
    if change.code == "uncordon":
        return f"kubectl uncordon {node}"
    overwrite = " --overwrite" if change.params.get("from") else ""
    return f"kubectl label node {node} {change.params['key']}={change.params['value']}{overwrite}"


def _change_owner(
    pod: RecordedPod, owner: TemplateOwner, patch_spec: Json, tolerated: Sequence[Reason]
) -> tuple[list[str], list[str]] | None:
    """Return the commands that give the pod another spec, and the objects that they delete; None if none is known."""
    kubectl = f"kubectl -n {pod.namespace}"
    if owner.kind == "Pod":
        local = [_local_patch({"spec": patch_spec})]
        local += [_local_patch(_json_patch("/spec/tolerations", tolerated, "count"))] if tolerated else []
        return [_replace(f"{kubectl} get pod {owner.name}", local, kubectl)], [f"Pod/{owner.name}"]
    if owner.kind == "Job":
        labels = dict.fromkeys(_RUN_LABELS)
        template = {"metadata": {"labels": labels}, "spec": patch_spec}
        local = [_local_patch({"spec": {"selector": None, "template": template}})]
        if tolerated:
            local.append(_local_patch(_json_patch("/spec/template/spec/tolerations", tolerated, "templateCount")))
        return [_replace(f"{kubectl} get job {owner.name}", local, kubectl)], [f"Job/{owner.name}"]
    if owner.kind not in _TEMPLATES or (tolerated and owner.kind == "DaemonSet"):
        return None  # of a DaemonSet's pods, the controller adds tolerations that the template lacks
    patch_command = f"{kubectl} patch {_TEMPLATES[owner.kind]} {owner.name}"
    commands = []
    if tolerated:
        patch = _json_patch("/spec/template/spec/tolerations", tolerated, "templateCount")
        commands.append(f"{patch_command} --type=json -p {patch}")
    commands.append(f"{patch_command} -p {_quote({'spec': {'template': {'spec': patch_spec}}})}")
    if owner.kind not in _DELETES_POD:
        return commands, []
    return [*commands, f"{kubectl} delete pod {pod.name}"], [f"Pod/{pod.name}"]


def _replace(get: str, local: Sequence[str], kubectl: str) -> str:
    return " | ".join([f"{get} -o json", *local, f"{kubectl} replace --force -f -"])


def _local_patch(patch: Json | str) -> str:
    arguments = f"--type=json -p {patch}" if isinstance(patch, str) else f"-p {_quote(patch)}"
    return f"kubectl patch --local -f - {arguments} -o json"


def _json_patch(path: str, tolerated: Sequence[Reason], count: str) -> str:
    """Return a JSON patch, quoted for the shell, that adds tolerations at the end of the list at `path`.

    `count` is the parameter that says how many tolerations the list has: an absent list is added first.
    """
    added = []
    for change in tolerated:
        p = change.params
        operator = {"operator": "Equal", "value": p["value"]} if p.get("value") else {"operator": "Exists"}
        added.append({"key": p.get("key", "")} | operator | {"effect": p.get("effect", "")})
    exists = any(change.params.get(count, "0") != "0" for change in tolerated)
    first = [] if exists else [{"op": "add", "path": path, "value": added}]
    each = [{"op": "add", "path": f"{path}/-", "value": toleration} for toleration in added] if exists else []
    return _quote([*first, *each])


def _quote(patch: Any) -> str:
    return shlex.quote(json.dumps(patch, separators=(",", ":")))
