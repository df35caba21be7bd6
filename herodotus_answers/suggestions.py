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
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from herodotus_answers.live.objects import find_deployment
from herodotus_answers.pod_templates import TemplateCommand, add_tolerations, build_template_command, quote_json
from herodotus_answers.wording import shorten_lists
from herodotus_record.model import Decision, Reason, RecordedPod, Suggestion
from herodotus_record.node_taints import TaintKind, build_toleration, find_node_taint
from herodotus_record.reasons import CHANGES

Json = dict[str, Any]

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
    command, deletes, rights = _build_command(pod, owner, suggestion)
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
        "rights": rights,
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
    changes_template = bool(suggestion.patch or _list_operations(suggestion, of_pod=False))
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
    if change.code == "add-node-like" and params.get("key"):
        domain = params["key"].rpartition("/")[2]
        sentence += f" in another {domain}" + (f" ({params['key']})" if domain != params["key"] else "")
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
    command, deletes, _ = _build_command(pod, find_owner(pod), suggestion)
    return command, deletes


def _build_command(
    pod: RecordedPod, owner: TemplateOwner, suggestion: Suggestion
) -> tuple[str | None, list[str], list[Right]]:
    """Return the command of a suggestion, the objects that it deletes, and the rights that it needs."""
    codes = {change.code for change in suggestion.changes}
    if not codes.isdisjoint(_MANUAL_CHANGES):
        return None, [], []
    commands = [_node_command(suggestion.node, change) for change in suggestion.changes if change.code in _NODE_CHANGES]
    rights = [_right("patch", "nodes", "")] if commands else []
    if "set-rollout-strategy" in codes:
        if owner.kind not in _STRATEGY_FIELDS:
            return None, [], []
        patch = quote_json({"spec": {_STRATEGY_FIELDS[owner.kind]: _STRATEGY}})
        commands.append(f"kubectl -n {pod.namespace} patch {owner.kind.lower()} {owner.name} -p {patch}")
        rights.append(_right("patch", f"{owner.kind.lower()}s.apps", pod.namespace))
    operations = _list_operations(suggestion, of_pod=owner.kind == "Pod")
    if not suggestion.patch and not operations:
        return _join(commands), [], rights
    try:
        patch_spec = json.loads(suggestion.patch or "{}")
    except ValueError:  # masked
        return None, [], []
    if codes == {"add-toleration"} and owner.kind == "Pod":  # the only change of an existing pod
        changed: TemplateCommand | None = add_tolerations(pod.name, pod.namespace, operations)
    else:
        changed = build_template_command(*owner, pod.namespace, patch_spec, operations, pod=pod.name)
    if changed is None:
        return None, [], []
    rights += [_right(verb, resource, pod.namespace) for verb, resource in changed.rights]
    return _join([*commands, changed.command]), list(changed.deletes), rights


def _right(verb: str, resource: str, namespace: str) -> Right:
    return {"verb": verb, "resource": resource, "namespace": namespace}


def _join(commands: Sequence[str]) -> str:
    return " && ".join(commands)


def _node_command(node: str, change: Reason) -> str:
    if change.code == "uncordon":
        return f"kubectl uncordon {node}"
    if change.code in ("remove-taint", "open-node"):
        return f"kubectl taint node {node} {_format_taint(change.params)}-"
    overwrite = " --overwrite" if change.params.get("from") else ""
    return f"kubectl label node {node} {change.params['key']}={change.params['value']}{overwrite}"


def _list_operations(suggestion: Suggestion, *, of_pod: bool) -> list[Json]:
    """Return the operations of a JSON patch for changes of lists without a merge key; their paths begin below the spec.

    Tolerations are added at the end of their list, or with it if the pod, or with `of_pod` false its template, has
    none. Of several terms of a pod affinity, the one that is meant is removed, after a test that the template has it.
    """
    operations, added = list[Json](), list[Json]()
    for change in suggestion.changes:
        p = change.params
        if change.code in _AFFINITIES and "index" in p:
            path = f"/affinity/{_AFFINITIES[change.code]}/{_REQUIRED}/{p['index']}"
            operations.append({"op": "test", "path": f"{path}/topologyKey", "value": p.get("key")})
            operations.append({"op": "remove", "path": path})
        elif change.code == "add-toleration":
            toleration = build_toleration(p.get("key", ""), p.get("value", ""), p.get("effect", ""))
            count = p.get("count" if of_pod else "templateCount", "0")
            if count != "0":
                operations.append({"op": "add", "path": "/tolerations/-", "value": toleration})
            else:
                added.append(toleration)
    return [*operations, *([{"op": "add", "path": "/tolerations", "value": added}] if added else [])]
