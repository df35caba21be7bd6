"""Turn the suggestions of a record into sentences, structured changes and commands to paste.

Owns: the catalogue of changes, the object and field that each changes, and the command that makes it. Does not own:
which changes are suggested (the scheduler finds and checks them), layout on a screen. Pure.

A command changes the pod's owner, so that the change outlives the pod, and deletes the pod where the owner does not
replace it by itself. A pod without an owner is replaced, because its resources, node selector and affinity cannot be
changed; tolerations can be added to it. Commands need kubectl and a POSIX shell alone.

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
from herodotus_record.node_taints import TaintKind, build_toleration, find_node_taint
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

_NODE_CHANGES: Final = ("uncordon", "label-node", "remove-taint", "open-node", "clear-taint")
_CAPACITY_CHANGES: Final = ("add-node", "add-node-like", "add-node-of-kind")
_WAITS: Final = "await-end"
UNDO: Final = "undo-rollout"  # kind of a suggestion that no record has: it follows from the pod's workload as it is now
_MANUAL_CHANGES: Final = (_WAITS, "clear-taint", *_CAPACITY_CHANGES)  # no command of kubectl makes them
_STRATEGY: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
_STRATEGY_FIELDS: Final = {"Deployment": "strategy", "DaemonSet": "updateStrategy"}  # of kinds whose rollout may surge
_AFFINITIES: Final = {"remove-pod-affinity": "podAffinity", "remove-pod-anti-affinity": "podAntiAffinity"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


Change = TypedDict(
    "Change",
    {
        "kind": Annotated[str, "Kind of the change, such as set-request or uncordon."],
        "object": Annotated[str, "Object that is changed, as KIND/NAME; KIND alone for a new object."],
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
    node: Annotated[str, "Node on which the pod then fits; empty for a node that does not exist yet."]
    costs: Annotated[list[str], "What the changes need: application, node or capacity."]
    text: Annotated[str, "The changes as a sentence."]
    command: Annotated[str | None, "Shell command that makes the changes; null if none is known."]
    deletes: Annotated[list[str], "Objects that the command deletes, as KIND/NAME."]
    rollsOut: Annotated[list[str], "Owners that replace all their pods after the command, as KIND/NAME."]
    rights: Annotated[list[Right], "Rights that the command needs."]
    checked: Annotated[bool, "Whether the pod with the changes passed all filters on the snapshot of the attempt."]
    helps: Annotated[
        int, "Number of other waiting pods of which each alone would fit there with the same changes, as far as known."
    ]


class TemplateOwner(NamedTuple):
    """The object whose pod template a pod comes from; the pod itself if it has no controller."""

    kind: str
    name: str


def describe_effect(suggestion: Mapping[str, Any]) -> str:
    """Return the changes of a suggestion, and the node that the pod then fits unless they are changes of a node."""
    is_of_node = suggestion["object"].partition("/")[0] == "Node"
    if is_of_node or not suggestion["node"]:
        return str(suggestion["text"])
    return f"{suggestion['text']}: fits {suggestion['node']}"


def find_owner(pod: RecordedPod) -> TemplateOwner:
    """Return the object to change for a pod: its controller, or the Deployment behind its ReplicaSet."""
    if pod.owner is None:
        return TemplateOwner("Pod", pod.name)
    deployment = find_deployment(pod.owner.kind, pod.owner.name, pod.labels)
    return TemplateOwner("Deployment", deployment) if deployment else TemplateOwner(pod.owner.kind, pod.owner.name)


def find_deployment(kind: str, name: str, labels: Mapping[str, str]) -> str:
    """Return the Deployment behind a pod's controller, or "" if it has none. `labels` are those of the pod."""
    template = labels.get(HASH_LABEL)
    is_revision = kind == "ReplicaSet" and template and name.endswith(f"-{template}")
    return name.removesuffix(f"-{template}") if is_revision else ""


def build_suggestions(decision: Decision) -> list[SuggestedChange]:
    """Return the decision's suggestions as JSON, each with its sentence, its changes and the command that makes them.

    The fields of the first change are those of the suggestion; `also` holds the others. `command` is null where none is
    known, and `deletes` names the objects that it deletes. There are none for a pod whose group has fewer pods than it
    needs, because no change of the pod lets it get a node.
    """
    cycle = decision.group_cycle
    if cycle is not None and cycle.scheduled + cycle.pods < cycle.min_count:
        return []
    return [build_suggestion(decision.pod, suggestion) for suggestion in decision.suggestions]


def build_hypothetical_suggestions(decision: Decision) -> list[SuggestedChange]:
    """Return the suggestions for a pod that does not exist: commands would change objects that do not exist either."""
    nothing: Json = {"command": None, "deletes": [], "rollsOut": [], "rights": []}
    return [suggestion | nothing for suggestion in build_suggestions(decision)]  # type: ignore[misc]


def build_suggestion(pod: RecordedPod, suggestion: Suggestion) -> SuggestedChange:
    """Return a suggestion for a pod as JSON, as `build_suggestions` does."""
    owner = find_owner(pod)
    first, *also = (_describe(pod, owner, suggestion, change) for change in suggestion.changes)
    command, deletes = build_command(pod, suggestion)
    sentences = [format_change(suggestion, change) for change in suggestion.changes]
    return {
        **first,
        "also": also,
        "node": suggestion.node,
        "costs": _list_costs(suggestion),
        "text": " and ".join(sentences),
        "command": command,
        "deletes": deletes,
        "rollsOut": ["/".join(owner)] if command and _rolls_out(owner, suggestion) else [],
        "rights": [] if command is None else _list_rights(pod, owner, suggestion, deletes),
        "checked": suggestion.is_checked,
        "helps": suggestion.helps,
    }


def _list_costs(suggestion: Suggestion) -> list[str]:
    """Return what a suggestion changes or needs, each once: application, node or capacity."""
    costs = dict.fromkeys(
        "node" if c.code in _NODE_CHANGES else "capacity" if c.code in _CAPACITY_CHANGES else "application"
        for c in suggestion.changes
        if c.code != _WAITS
    )
    return list(costs)


def _rolls_out(owner: TemplateOwner, suggestion: Suggestion) -> bool:
    """Return whether a suggestion changes the template of an owner that then replaces its pods."""
    changes_template = bool(suggestion.patch or _list_operations(suggestion, ""))
    return changes_template and owner.kind in ("Deployment", "StatefulSet", "DaemonSet")


def format_change(suggestion: Suggestion, change: Reason) -> str:
    """Return a change of a suggestion as a sentence in the imperative, without a full stop."""
    params = dict(change.params) | {"node": suggestion.node, "taint": _format_taint(change.params)}
    template = CHANGES.get(change.code, change.code)
    if change.code in ("clear-taint", "remove-taint"):
        declared = find_node_taint(params.get("key", ""), params.get("value", ""))
        params["action"] = declared.action.format_map(params) if declared else f"repair {suggestion.node}"
        if declared is not None and declared.kind is TaintKind.MAINTAINED:
            template = CHANGES["clear-taint"]
    params.setdefault("difference", f"{params.get('from')} becomes {params.get('to')}")  # of earlier records
    if not params.get("leaving"):  # an earlier record, or hidden from the reader
        params["leaving"] = "a pod" if change.code == "set-rollout-strategy" else "of lower priority"
    if "size" not in params:  # an earlier record
        template = template.removesuffix(" ({size})")
    if params.get("to") == "":
        params["to"] = '""'
    container = change.params.get("container")
    params["container"] = f" of container {container}" if container else " of the pod" if "container" in params else ""
    sentence = shorten_lists(template.format_map(params))
    if params.get("tolerated") and params.get("differs"):
        sentence += f" (the pod tolerates {params['tolerated']}, which has another {params['differs']})"
    return sentence + (f", although {suggestion.node} has no {params['lost']}" if params.get("lost") else "")


def _format_taint(params: Mapping[str, str]) -> str:
    value = f"={params['value']}" if params.get("value") else ""
    return f"{params.get('key', '')}{value}:{params.get('effect', '')}"


def _describe(pod: RecordedPod, owner: TemplateOwner, suggestion: Suggestion, change: Reason) -> Change:
    """Return a change as JSON: its kind, the object and field that it changes, and the values before and after."""
    p, code = change.params, change.code
    spec = "spec" if owner.kind == "Pod" else "spec.template.spec"
    is_node = code in (*_NODE_CHANGES, *_CAPACITY_CHANGES, _WAITS)
    changed = "/".join(filter(None, ("Node", suggestion.node))) if is_node else "/".join(owner)
    holder = f"{spec}.{p['group']}[name={p['container']}]" if p.get("container") else spec
    field, old, new = {
        "await-end": ("metadata.deletionTimestamp", p.get("leaving"), None),
        "uncordon": ("spec.unschedulable", "true", "false"),
        "label-node": (f"metadata.labels[{p.get('key')}]", p.get("from") or None, p.get("value")),
        "remove-taint": ("spec.taints", _format_taint(p), None),
        "open-node": ("spec.taints", _format_taint(p), None),
        "clear-taint": ("spec.taints", _format_taint(p), None),
        "add-node": ("status.allocatable", p.get("from"), p.get("to")),
        "add-node-like": ("metadata.name", None, None),
        "add-node-of-kind": (f"metadata.labels[{p.get('key')}]", p.get("from"), p.get("value")),
        "add-toleration": (f"{spec}.tolerations", None, _format_taint(p)),
        "set-priority-class": (f"{spec}.priorityClassName", p.get("from"), p.get("to")),
        "set-rollout-strategy": (f"spec.{_STRATEGY_FIELDS.get(owner.kind)}.rollingUpdate.maxSurge", None, "0"),
        "set-request": (f"{holder}.resources.requests[{p.get('resource')}]", p.get("from"), p.get("to")),
        "remove-host-port": (f"{holder}.ports.hostPort", p.get("from"), None),
        "set-node-selector": (f"{spec}.nodeSelector[{p.get('key')}]", p.get("from"), p.get("to")),
        "rename-node-selector": (
            f"{spec}.nodeSelector",
            f"{p.get('key')}={p.get('value')}",
            f"{p.get('to')}={p.get('value')}",
        ),
        "remove-node-selector": (f"{spec}.nodeSelector[{p.get('key')}]", p.get("from"), None),
        "set-node-affinity": (f"{spec}.affinity.nodeAffinity.required", p.get("from"), p.get("to")),
        "remove-node-affinity": (f"{spec}.affinity.nodeAffinity.required", p.get("from"), None),
        "set-taints-policy": (_constraint_field(spec, p, "nodeTaintsPolicy"), p.get("from"), p.get("to")),
        "set-affinity-policy": (_constraint_field(spec, p, "nodeAffinityPolicy"), p.get("from"), p.get("to")),
        "remove-min-domains": (_constraint_field(spec, p, "minDomains"), p.get("from"), None),
        "set-max-skew": (_constraint_field(spec, p, "maxSkew"), p.get("from"), p.get("to")),
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
    owner, codes = find_owner(pod), {change.code for change in suggestion.changes}
    if not codes.isdisjoint(_MANUAL_CHANGES):
        return None, []
    commands = [_node_command(suggestion.node, change) for change in suggestion.changes if change.code in _NODE_CHANGES]
    if "set-rollout-strategy" in codes:
        if owner.kind not in _STRATEGY_FIELDS:
            return None, []
        patch = _quote({"spec": {_STRATEGY_FIELDS[owner.kind]: _STRATEGY}})
        commands.append(f"kubectl -n {pod.namespace} patch {_TEMPLATES[owner.kind]} {owner.name} -p {patch}")
    if codes == {"add-toleration"} and owner.kind == "Pod":
        patch = _quote(_list_operations(suggestion, "/spec"))
        return f"kubectl -n {pod.namespace} patch pod {pod.name} --type=json -p {patch}", []
    if not suggestion.patch and not _list_operations(suggestion, ""):
        return _join(commands), []
    try:
        patch_spec = json.loads(suggestion.patch or "{}")
    except ValueError:  # masked
        return None, []
    changed = _change_owner(pod, owner, patch_spec, suggestion)
    return (None, []) if changed is None else (_join([*commands, *changed[0]]), changed[1])


def _list_rights(pod: RecordedPod, owner: TemplateOwner, suggestion: Suggestion, deletes: Sequence[str]) -> list[Right]:
    """Return the rights that the command needs, as verb, resource with group, and namespace ("" for nodes)."""
    rights = []
    if any(change.code in _NODE_CHANGES for change in suggestion.changes):
        rights.append(("patch", "nodes", ""))
    codes = {change.code for change in suggestion.changes}
    if "set-rollout-strategy" in codes:
        rights.append(("patch", f"{_TEMPLATES[owner.kind]}s.apps", pod.namespace))
    if codes == {"add-toleration"} and owner.kind == "Pod":
        rights.append(("patch", "pods", pod.namespace))
    elif not suggestion.patch and not _list_operations(suggestion, ""):
        pass
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
    if change.code in ("remove-taint", "open-node"):
        return f"kubectl taint node {node} {_format_taint(change.params)}-"
    overwrite = " --overwrite" if change.params.get("from") else ""
    return f"kubectl label node {node} {change.params['key']}={change.params['value']}{overwrite}"


def _change_owner(
    pod: RecordedPod, owner: TemplateOwner, patch_spec: Json, suggestion: Suggestion
) -> tuple[list[str], list[str]] | None:
    """Return the commands that give the pod another spec, and the objects that they delete; None if none is known."""
    kubectl = f"kubectl -n {pod.namespace}"
    operations = _list_operations(suggestion, "/spec" if owner.kind == "Pod" else "/spec/template/spec")
    if owner.kind in ("Pod", "Job"):
        spec: Json = patch_spec
        if owner.kind == "Job":
            template = {"metadata": {"labels": dict.fromkeys(_RUN_LABELS)}, "spec": patch_spec}
            spec = {"selector": None, "template": template}
        local = [_local_patch({"spec": spec})] if spec else []
        local += [_local_patch(operations)] if operations else []
        get = f"{kubectl} get {owner.kind.lower()} {owner.name}"
        return [_replace(get, local, kubectl)], ["/".join(owner)]
    if owner.kind not in _TEMPLATES:
        return None
    patch_command = f"{kubectl} patch {_TEMPLATES[owner.kind]} {owner.name}"
    commands = [f"{patch_command} --type=json -p {_quote(operations)}"] if operations else []
    if patch_spec:
        commands.append(f"{patch_command} -p {_quote({'spec': {'template': {'spec': patch_spec}}})}")
    if owner.kind not in _DELETES_POD:
        return commands, []
    return [*commands, f"{kubectl} delete pod {pod.name}"], [f"Pod/{pod.name}"]


def _replace(get: str, local: Sequence[str], kubectl: str) -> str:
    return " | ".join([f"{get} -o json", *local, f"{kubectl} replace --force -f -"])


def _local_patch(patch: Json | list[Json]) -> str:
    type_ = "--type=json " if isinstance(patch, list) else ""
    return f"kubectl patch --local -f - {type_}-p {_quote(patch)} -o json"


def _list_operations(suggestion: Suggestion, spec: str) -> list[Json]:
    """Return the operations of a JSON patch for changes of lists without a merge key; `spec` is the path of the spec.

    Tolerations are added at the end of their list, or with it if the pod has none. Of several terms of a pod affinity,
    the one that is meant is removed, after a test that the template has it.
    """
    operations, added = list[Json](), list[Json]()
    for change in suggestion.changes:
        p = change.params
        if change.code in _AFFINITIES and "index" in p:
            path = f"{spec}/affinity/{_AFFINITIES[change.code]}/{_REQUIRED}/{p['index']}"
            operations.append({"op": "test", "path": f"{path}/topologyKey", "value": p.get("key")})
            operations.append({"op": "remove", "path": path})
        elif change.code == "add-toleration":
            toleration = build_toleration(p.get("key", ""), p.get("value", ""), p.get("effect", ""))
            count = p.get("count" if spec == "/spec" else "templateCount", "0")
            if count != "0":
                operations.append({"op": "add", "path": f"{spec}/tolerations/-", "value": toleration})
            else:
                added.append(toleration)
    return [*operations, *([{"op": "add", "path": f"{spec}/tolerations", "value": added}] if added else [])]


def _quote(patch: Any) -> str:
    return shlex.quote(json.dumps(patch, separators=(",", ":")))
