"""Find fields of a pod that its template does not explain, and correct suggestions that would change them there.

Owns: the comparison of a pod with the template that it was made from, who changed it at admission, and where a fix has
to be made then. Does not own: which changes help (the scheduler), commands (`suggestions`), reading
(`cluster_objects`). Pure.

Invariant: a suggestion whose command changes a template is kept only if the template states the value, or if the
changed template is stronger than what set the value. Of a VerticalPodAutoscaler that can be read, its policy is changed
instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from herodotus_answers.live.node_rules import read_labels
from herodotus_answers.live.objects import find_controller
from herodotus_answers.live.pod_facts import find_manager, quote_patch
from herodotus_answers.pod_templates import build_template_command, read_job_changes, read_template
from herodotus_answers.quantities import parse_quantity
from herodotus_record.units import join_limited

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects

Json = dict[str, Any]
_MAKERS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
_IMMUTABLE: Final = ("ReplicaSet", "Job")  # nothing changes their template after it made a pod
_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
_VPA_UPDATES: Final = "vpaUpdates"
_REVISION: Final = "controller-revision-hash"
_REQUEST: Final = re.compile(r"\.(containers|initContainers)\[name=([^\]]+)\]\.resources\.requests\[([^\]]+)\]$")
_SELECTOR: Final = re.compile(r"\.nodeSelector(?:\[([^\]]+)\])?$")
_AFFINITY: Final = re.compile(r"\.affinity\.(\w+)\.required$")
# Annotations of a namespace that add to the node selectors of its pods: of PodNodeSelector, and of OpenShift.
_NAMESPACE_SELECTORS: Final = ("scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_USUAL: Final = ("cpu", "memory", "ephemeral-storage")  # of other resources, the limit has to be the request
_NAMED: Final = 4  # nodes or classes in a sentence
_NO_COMMAND: Final[Json] = {"command": None, "deletes": [], "rollsOut": [], "rights": []}


class _Author(NamedTuple):
    """Who set a value that the template does not state, where it is to be changed, and whether a template prevails.

    `autoscaler` is the name of the VerticalPodAutoscaler that set it, or "".
    """

    name: str
    advice: str
    yields_to_template: bool = False
    autoscaler: str = ""


def correct_suggestions(answer: Json, pod: Json, objects: ClusterObjects) -> Json:
    """Return a PodExplanation whose suggestions say where a value comes from that the pod's template does not state.

    A suggestion that would change the template in vain loses its command. The answer is unchanged if no suggestion
    changes a template, or if the template cannot be read.
    """
    given = answer.get("suggestions") or []
    if not any(_is_of_template(change) for each in given for change in _list_changes(each)):
        return answer
    maker = _find_maker(pod, objects)
    if maker is None:
        return answer
    manager = find_manager(pod, objects)
    corrected = [_correct(each, pod, maker, objects) for each in given]
    corrected = [_leave_to_manager(each, manager, maker) for each in corrected] if manager else corrected
    return answer | {"suggestions": list({each["text"]: each for each in corrected}.values())}


def _leave_to_manager(suggestion: Json, manager: str, maker: Json) -> Json:
    """Return a suggestion without the command that changes a template which a controller would change back."""
    if not any(_is_of_template(change) for change in _list_changes(suggestion)):
        return suggestion
    label = f"{maker['kind']}/{maker['metadata']['name']}"
    text = f"{suggestion['text']}, in {manager}, whose controller would undo a change of {label}"
    return suggestion | _NO_COMMAND | {"text": text, "object": manager}


def describe_added_request(pod: Json, resource: str, objects: ClusterObjects) -> str:
    """Return a clause on who added a request to a pod whose template does not state it; "" if the template may."""
    maker = _find_maker(pod, objects)
    if maker is None:
        return ""
    for container in pod["spec"].get("containers") or ():
        field = f".containers[name={container['name']}].resources.requests[{resource}]"
        for what, was in _find_difference(field, pod, maker):
            author = _find_author(field, pod, maker, objects)
            if author is not None:
                of = f"{maker['kind']}/{maker['metadata']['name']}"
                return f"the template of {of} {was}: {author.name} set {what} at admission"
    return ""


def _list_changes(suggestion: Json) -> Iterable[Json]:
    return [suggestion, *suggestion["also"]]


def _is_of_template(change: Json) -> bool:
    return str(change["field"]).startswith("spec.template.")


def _find_maker(pod: Json, objects: ClusterObjects) -> Json | None:
    """Return the object from whose template the pod was made, or None if there is none or it cannot be read."""
    owner = find_controller(pod)
    if owner is None or owner["kind"] not in _MAKERS:
        return None
    found = objects.get(owner["kind"], owner["name"], pod["metadata"]["namespace"]).object
    return None if found is None else {**found, "kind": owner["kind"]}


def _correct(suggestion: Json, pod: Json, maker: Json, objects: ClusterObjects) -> Json:
    notes, is_in_vain, instead, later = list[str](), False, _NO_COMMAND, ""
    if (elsewhere := _correct_admission(suggestion, pod, maker, objects)) is not None:
        return elsewhere
    for change in filter(_is_of_template, _list_changes(suggestion)):
        for what, was in _find_difference(str(change["field"]), pod, maker):
            author = _find_author(str(change["field"]), pod, maker, objects)
            if author is None:
                continue
            notes.append(
                f"the template of {maker['kind']}/{maker['metadata']['name']} {was}: {author.name} set {what}"
                f" at admission{author.advice}"
            )
            is_in_vain = is_in_vain or not author.yields_to_template
            if author.autoscaler and not suggestion["also"]:
                instead = _cap_autoscaler(author.autoscaler, suggestion, pod, objects) or _NO_COMMAND
        later = _find_later_maker(str(change["field"]), pod, maker, objects) or later
    changed = _change_later_maker(suggestion, later, pod) if later and not is_in_vain else {}
    if later:
        what = "the last command changes that too" if changed else "change that too"
        notes.append(f"{later} makes its next Jobs from a template of its own: {what}")
    if not notes:
        return suggestion
    text = f"{suggestion['text']} ({'; '.join(dict.fromkeys(notes))})"
    return suggestion | {"text": text} | (instead if is_in_vain else changed)


def _change_later_maker(suggestion: Json, cron_job: str, pod: Json) -> Json:
    """Return the command of a suggestion for a Job, and its rights, with that which changes the CronJob alike."""
    if not suggestion["command"]:
        return {}
    kind, _, name = cron_job.partition("/")
    namespace, (spec, operations) = str(pod["metadata"]["namespace"]), read_job_changes(suggestion["command"])
    changed = build_template_command(kind, name, namespace, spec, operations)
    if changed is None:
        return {}
    rights = [{"verb": verb, "resource": resource, "namespace": namespace} for verb, resource in changed.rights]
    command = f"{suggestion['command']} && {changed.command}"
    return {"command": command, "rights": [*suggestion["rights"], *rights]}


def _find_later_maker(field: str, pod: Json, maker: Json, objects: ClusterObjects) -> str:
    """Return the CronJob, as KIND/NAME, whose next Jobs get the same value of a field as the pod; "" if none does."""
    owner = find_controller(maker) if maker["kind"] == "Job" else None
    if owner is None or owner["kind"] != "CronJob":
        return ""
    found = objects.get("CronJob", owner["name"], pod["metadata"]["namespace"]).object
    if found is None or any(_find_difference(field, pod, {**found, "kind": "CronJob"})):
        return ""
    return f"CronJob/{owner['name']}"


def _cap_autoscaler(name: str, change: Json, pod: Json, objects: ClusterObjects) -> Json | None:
    """Return the parts of a suggestion that caps a request in the policy of the VerticalPodAutoscaler that sets it.

    Return None if the autoscaler cannot be read, or its policy states a minimum above the request.
    """
    namespace, pod_name = str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])
    match, found = _REQUEST.search(str(change["field"])), objects.get("VerticalPodAutoscaler", name, namespace).object
    if match is None or match[1] != "containers" or found is None:
        return None
    policies: list[Json] = list(((found.get("spec") or {}).get("resourcePolicy") or {}).get("containerPolicies") or ())
    by_name = {policy.get("containerName"): policy for policy in policies}
    policy = by_name.get(match[2]) or by_name.get("*") or {}
    least, wanted = (
        parse_quantity(str(amount)) for amount in ((policy.get("minAllowed") or {}).get(match[3], "0"), change["to"])
    )
    if wanted is None or (least is not None and least > wanted):
        return None
    most = {**(policy.get("maxAllowed") or {}), match[3]: change["to"]}
    capped = {**policy, "containerName": match[2], "maxAllowed": most}
    others = [each for each in policies if each.get("containerName") != match[2]]
    patch = quote_patch({"spec": {"resourcePolicy": {"containerPolicies": [*others, capped]}}})
    rights = [("patch", "verticalpodautoscalers.autoscaling.k8s.io"), ("delete", "pods")]
    return {
        "command": f"kubectl -n {namespace} patch verticalpodautoscaler {name} --type=merge -p {patch}"
        f" && kubectl -n {namespace} delete pod {pod_name}",
        "deletes": [f"Pod/{pod_name}"],
        "rollsOut": [],
        "rights": [{"verb": verb, "resource": resource, "namespace": namespace} for verb, resource in rights],
    }


def _correct_admission(suggestion: Json, pod: Json, maker: Json, objects: ClusterObjects) -> Json | None:
    """Return what to correct in place of a node selector that an object of the cluster adds at admission, or None.

    The pod cannot lose such a selector, so that the nodes which the suggestion would open stay closed.
    """
    for change in filter(_is_of_template, _list_changes(suggestion)):
        if not _SELECTOR.search(str(change["field"])):
            continue
        for what, was in _find_difference(str(change["field"]), pod, maker):
            source = _find_selector_source(what, pod, objects)
            if source is None:
                continue
            of, field, advice = source
            template = f"the template of {maker['kind']}/{maker['metadata']['name']} {was}"
            text = f"correct {field} of {of.replace('/', ' ')}, which adds {what} to the pod at admission ({template}),"
            text += f" {advice}"
            moved = {"object": of, "field": field, "text": text, "also": [], "node": "", "costs": [], "helps": 0}
            return suggestion | moved | _NO_COMMAND | {"checked": False}
    return None


def _find_selector_source(what: str, pod: Json, objects: ClusterObjects) -> tuple[str, str, str] | None:
    """Return the object that adds a label to the node selectors of pods, its field, and what else helps; or None."""
    key, _, value = what.partition("=")
    name, namespace = pod["spec"].get("runtimeClassName"), str(pod["metadata"]["namespace"])
    found = objects.get("RuntimeClass", name).object if name else None
    if found is not None and ((found.get("scheduling") or {}).get("nodeSelector") or {}).get(key) == value:
        others = _list_runtime_classes(str(name), objects)
        advice = "or make its runtime ready on nodes, which then have that label, or name another runtimeClassName"
        advice = f"or name another RuntimeClass, which nodes have: {'; '.join(others)}" if others else advice
        return f"RuntimeClass/{name}", "scheduling.nodeSelector", advice
    meta = (objects.get("Namespace", namespace).object or {}).get("metadata") or {}
    for annotation in _NAMESPACE_SELECTORS:
        if what in str((meta.get("annotations") or {}).get(annotation) or "").replace(" ", "").split(","):
            advice = "or run the pods in another namespace, or add nodes with that label"
            return f"Namespace/{namespace}", f"annotation {annotation}", advice
    return None


def _list_runtime_classes(name: str, objects: ClusterObjects) -> list[str]:
    """Return the RuntimeClasses other than one that select some nodes, each with these nodes."""
    nodes, listed = objects.list_objects("Node").items, []
    for each in objects.list_objects("RuntimeClass", is_optional=True).items:
        selector = (each.get("scheduling") or {}).get("nodeSelector") or {}
        matching = [node for node in nodes if selector.items() <= read_labels(node).items()]
        if selector and matching and each["metadata"]["name"] != name:
            names = join_limited([str(node["metadata"]["name"]) for node in matching], _NAMED)
            selected = ", ".join(f"{key}={value}" for key, value in selector.items())
            listed.append(f"{each['metadata']['name']} ({names}: {selected})")
    return listed[:_NAMED]


def _find_difference(field: str, pod: Json, maker: Json) -> Iterator[tuple[str, str]]:
    """Yield what a field of the pod is, and what the template has in its place, if the two differ."""
    template: Json = read_template(str(maker["kind"]), maker).get("spec") or {}
    spec: Json = pod["spec"]
    if match := _REQUEST.search(field):
        resource = match[3]
        if not any(each["name"] == match[2] for each in template.get(match[1]) or ()):
            yield "it", f"has no container {match[2]}"
            return
        has, was = (_read_request(each, match[1], match[2], resource) for each in (spec, template))
        if has is not None and parse_quantity(has) != parse_quantity(was or "0"):
            yield f"{has} {resource}", f"requests {was} {resource}" if was else f"requests no {resource}"
    elif match := _SELECTOR.search(field):
        wanted, stated = (each.get("nodeSelector") or {} for each in (spec, template))
        for key in [match[1]] if match[1] else sorted(wanted):
            if key in wanted and wanted[key] != stated.get(key):
                in_place = f"selects {key}={stated[key]}" if key in stated else f"has no node selector {key}"
                yield f"{key}={wanted[key]}", in_place
    elif match := _AFFINITY.search(field):
        affinities = ((each.get("affinity") or {}).get(match[1]) or {} for each in (spec, template))
        required, stated = (each.get(_REQUIRED) for each in affinities)
        if required != stated:
            yield "it", f"has {'another' if stated else 'no'} required {match[1]}"


def _read_request(spec: Json, group: str, container: str, resource: str) -> str | None:
    """Return a container's request, which the API server sets to the limit if there is only that."""
    found: Json = next((each for each in spec.get(group) or () if each["name"] == container), {})
    resources = found.get("resources") or {}
    amount = (resources.get("requests") or {}).get(resource, (resources.get("limits") or {}).get(resource))
    return None if amount is None else str(amount)


def _find_author(field: str, pod: Json, maker: Json, objects: ClusterObjects) -> _Author | None:
    """Return who set the value of a field that differs from the template, or None if the template may have changed."""
    annotations = pod["metadata"].get("annotations") or {}
    if match := _REQUEST.search(field):
        container, resource = match[2], match[3]
        updates = str(annotations.get(_VPA_UPDATES) or "")
        if f"{resource} request" in updates:
            named = re.search(r"updated by (\S+?):", updates)
            autoscaler = named[1] if named else ""
            name = f"VerticalPodAutoscaler {autoscaler}" if named else "a VerticalPodAutoscaler"
            advice = (
                f", and does so again: set {resource} in its resourcePolicy's maxAllowed for container {container}, or"
                " its updateMode to Off, and then delete the pod"
            )
            return _Author(name, advice, autoscaler=autoscaler)
        if _is_set_by_limit_ranger(str(annotations.get(_LIMIT_RANGER) or ""), container, resource):
            namespace = str(pod["metadata"]["namespace"])
            limit_range = _find_limit_range(namespace, resource, objects)
            name = f"LimitRange {limit_range}" if limit_range else f"a LimitRange of namespace {namespace}"
            return _Author(name, " as the default; a request in the template prevails", yields_to_template=True)
    if maker["kind"] not in _IMMUTABLE and not _has_newest_template(pod, maker):
        return None
    advice = ", so a change of the template alone may not last: kubectl get mutatingwebhookconfigurations"
    return _Author("something that changes pods, such as a webhook,", advice)


def _is_set_by_limit_ranger(annotation: str, container: str, resource: str) -> bool:
    """Return whether LimitRanger's annotation names the request, as in `cpu, memory request for container main`."""
    parts = re.split(r";\s*", annotation.partition("plugin set:")[2])
    return any(
        re.search(rf"\b{re.escape(resource)}\b.* request for (?:init )?container {re.escape(container)}$", f" {part}")
        for part in parts
    )


def _find_limit_range(namespace: str, resource: str, objects: ClusterObjects) -> str:
    """Return the name of the LimitRange that has a default request for a resource; "" if none can be read."""
    for each in objects.list_objects("LimitRange", namespace).items:
        for limit in (each.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container" and resource in {
                *(limit.get("defaultRequest") or {}),
                *(limit.get("default") or {}),
            }:
                return str(each["metadata"]["name"])
    return ""


def _has_newest_template(pod: Json, maker: Json) -> bool:
    """Return whether a StatefulSet's pod was made from the template that it has now."""
    made_from = (pod["metadata"].get("labels") or {}).get(_REVISION)
    return bool(made_from) and made_from == (maker.get("status") or {}).get("updateRevision")
