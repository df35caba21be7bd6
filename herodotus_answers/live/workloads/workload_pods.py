"""Find what keeps the pods of a workload from being ready: one cause for all pods with the same problem.

Owns: which pods have the same problem, how the decision about a waiting pod becomes a cause, and when a rollout can be
undone for waiting pods. Does not own: the states of pods (`pod_state`), decisions and the other suggestions. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.objects import has_ended, is_active, is_incomplete_fit, list_pinned
from herodotus_answers.live.pod_facts import (
    find_owner,
    format_ago,
    list_containers,
    make_cause,
    make_remedy,
    read_conditions,
)
from herodotus_answers.live.pods.outdated_pods import has_newest, is_earlier
from herodotus_answers.live.pods.pod_state import find_state
from herodotus_answers.live.workload_objects import Workload, is_ready

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, PodsInState, Remedy

Json = dict[str, Any]
# Returns the PodExplanation of a pod of the workload that waits for a node, or None if there is none.
Explain = Callable[[str], "Json | None"]
_MAX_GROUPS: Final = 4  # of which the state is found, the largest ones
_MAX_NAMES: Final = 10
_WAITING: Final = ("pod-waits-for-node", "pod-not-tried")
_UNDOABLE: Final = ("Deployment", "StatefulSet", "DaemonSet")
_NOT_PROBLEMS: Final = ("pod-running", "pod-terminating", "pod-succeeded")


class Problems:
    """The pods of a workload that are not ready, in groups of the same problem."""

    def __init__(self, groups: list[PodsInState], causes: list[LiveCause]) -> None:
        self.groups, self.causes = groups, causes

    def describe(self, name: str) -> str:
        """Return the state of a pod of a group, or "" if it is in none."""
        return next((group["headline"].rstrip(".") for group in self.groups if name in group["pods"]), "")


def find_problems(workload: Workload, explain: Explain) -> Problems:
    """Return the problems of the pods that are not ready and have not ended. Pods without a node come first."""
    by_signature: dict[tuple[object, ...], list[Json]] = {}
    for pod in workload.pods:
        if not has_ended(pod) and not (is_ready(pod) and is_active(pod)):
            by_signature.setdefault(_sign(pod), []).append(pod)
    order = sorted(by_signature.values(), key=lambda pods: (bool(pods[0]["spec"].get("nodeName")), -len(pods)))
    groups: list[PodsInState] = []
    causes: list[LiveCause] = []
    for pods in order[:_MAX_GROUPS]:
        group, cause = _explain_group(pods, workload, explain)
        groups.append(group)
        causes += [cause] if cause else []
    return Problems(groups, causes)


def explain_pod(pod: Json, workload: Workload, others: int = 0) -> LiveCause | None:
    """Return the first cause of a pod's state as a cause of the workload's, or None if it has none."""
    state = find_state(pod, workload.objects, workload.now)
    return _adopt(pod, state["causes"], others, workload)


def explain_failed_pod(workload: Workload) -> list[LiveCause]:
    """Return why the last pod of a workload that failed did so, if it still exists: it counts for nothing."""
    failed = [pod for pod in workload.pods if (pod.get("status") or {}).get("phase") == "Failed"]
    if not failed:
        return []
    last = max(failed, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    cause = explain_pod(last, workload, len(failed) - 1)
    return [cause] if cause else []


def _sign(pod: Json) -> tuple[object, ...]:
    """Return what pods with the same problem have in common."""
    spec, status = pod["spec"], pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return ("terminating",)
    if not spec.get("nodeName"):
        gates = tuple(str(each["name"]) for each in spec.get("schedulingGates") or ())
        condition = read_conditions(pod).get("PodScheduled") or {}
        return ("waiting", gates, condition.get("message"))
    waits = tuple(each.read_state("waiting").get("reason") for each in list_containers(pod))
    return ("placed", status.get("phase"), status.get("reason"), waits)


def _explain_group(pods: Sequence[Json], workload: Workload, explain: Explain) -> tuple[PodsInState, LiveCause | None]:
    pod = pods[0]
    name = str(pod["metadata"]["name"])
    state = find_state(pod, workload.objects, workload.now)
    causes = [cause for cause in state["causes"] if cause["code"] != "no-node-found"]
    cause = None if state["code"] in _NOT_PROBLEMS else _adopt(pod, causes, len(pods) - 1, workload)
    headline, reason = state["headline"], causes[0]["code"] if causes else None
    is_waiting = state["code"] in _WAITING
    explanation = explain(name) if is_waiting and not causes else None
    if explanation is not None and state["causes"] and is_incomplete_fit(explanation):
        explanation = None  # what its scheduler says counts for more
    if explanation is not None and explanation["metadata"].get("uid") in (None, pod["metadata"].get("uid")):
        headline, reason = str(explanation["headline"]), _find_reason(explanation)
        if node := explanation["outcome"]["node"]:
            headline = f"Waits for a node, and fits {node} by an evaluation of now: its scheduler has not placed it"
        text = _describe_waiting(pods, headline.rstrip("."))
        suggestions = _insert_undo(_correct(explanation, pod, workload), pods, workload)
        remedies = [_convert(suggestion, len(pods)) for suggestion in suggestions]
        attempt = explanation["attempt"]
        ago = format_ago(attempt.get("startedAt"), workload.now)  # so that the age of its fixes is known
        source = "evaluated now" if attempt["source"] == "evaluated" else f"last attempt{',' * bool(ago)}{ago}"
        see = f"kubectl herodotus pod {name} -n {workload.namespace}"
        cause = make_cause("pods-waiting", text, source, of=f"Pod/{name}", remedies=remedies, inspect=see)
    elif is_waiting and cause is None:
        cause = _adopt(pod, state["causes"], len(pods) - 1, workload)
    group: PodsInState = {
        "state": state["code"],
        "reason": reason,
        "count": len(pods),
        "pods": [str(each["metadata"]["name"]) for each in pods[:_MAX_NAMES]],
        "headline": headline,
    }
    return group, cause


def _adopt(pod: Json, causes: Sequence[LiveCause], others: int, workload: Workload) -> LiveCause | None:
    """Return the first cause of a pod's state with the pod's name in its text."""
    if not causes:
        return None
    first, name = causes[0], str(pod["metadata"]["name"])
    cause: LiveCause = {**first, "text": f"{_name(pod, others)}: {first['text']}"}
    cause["object"] = first["object"] or f"Pod/{name}"
    cause.setdefault("inspect", f"kubectl herodotus pod {name} -n {workload.namespace}")
    return cause


def _name(pod: Json, others: int) -> str:
    return f"{pod['metadata']['name']}{f' and {others} more' if others else ''}"


def _describe_waiting(pods: Sequence[Json], headline: str) -> str:
    """Return the headline of the first pod, and whether it is about the others, too, or each waits for its own node."""
    if len(pods) == 1 or all(list_pinned(pod["spec"]) == list_pinned(pods[0]["spec"]) for pod in pods):
        return f"{_name(pods[0], len(pods) - 1)}: {headline}"
    wait = "1 more pod waits" if len(pods) == 2 else f"{len(pods) - 1} more pods wait"
    return f"{_name(pods[0], 0)}: {headline}. {wait} for {'its' if len(pods) == 2 else 'their'} own node"


def _find_reason(explanation: Json) -> str | None:
    """Return the code of the reason for which most nodes were rejected first."""
    groups = explanation.get("rejections") or ()
    counted = [(group["count"], reason["code"]) for group in groups for reason in group["reasons"]]
    return str(max(counted)[1]) if counted else None


def add_undo(answer: Json, pod: Json, objects: ClusterObjects, now: datetime) -> Json:
    """Return the PodExplanation of a waiting pod with the suggestion to undo the rollout that made it, if that helps.

    The suggestion is at the place that it has among the remedies of the pod's workload.
    """
    owner = find_owner(pod, objects)
    if owner is None or owner.kind not in _UNDOABLE:
        return answer
    workload = Workload(owner.kind, owner.name, pod["metadata"]["namespace"], objects, now)
    return answer | {"suggestions": _insert_undo(answer["suggestions"], [pod], workload)}


def _insert_undo(suggestions: Sequence[Json], pods: Sequence[Json], workload: Workload) -> list[Json]:
    """Return the suggestions for the first of `pods`, and to undo the rollout, behind those checked for all pods."""
    undo = _find_undo(workload, pods)
    whole = sum(bool(suggestion["checked"]) for suggestion in suggestions) if len(pods) == 1 else 0
    return [*suggestions[:whole], *([undo] if undo else []), *suggestions[whole:]]


def _find_undo(workload: Workload, pods: Sequence[Json]) -> Json | None:
    """Return the suggestion to go back to the previous template, or None if that is not known to help waiting `pods`.

    It helps if these have the newest template and pods of the previous one run. kubectl undoes no paused rollout, and
    with OnDelete no controller would replace the waiting pods.
    """
    spec = workload.spec
    if workload.kind == "Deployment":
        makers = workload.makers
        if spec.get("paused") or len(makers) < 2 or makers[0] is not workload.current:
            return None
        newest, previous = workload.list_active_of(makers[0]), workload.list_active_of(makers[1])
    elif workload.kind in _UNDOABLE:
        if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
            return None
        newest = [pod for pod in workload.active if has_newest(pod, workload.object)]
        previous = [pod for pod in workload.active if is_earlier(pod, workload.object)]
    else:
        return None
    names = {pod["metadata"]["name"] for pod in newest}
    if not all(pod["metadata"]["name"] in names for pod in pods) or not any(map(is_ready, previous)):
        return None
    from herodotus_answers.suggestions import UNDO  # here, because most workloads have no suggestion

    text, deletes = "go back to the previous template", list[str]()
    command = f"kubectl rollout undo {workload.kind.lower()}/{workload.name} -n {workload.namespace}"
    rights = [("patch", f"{workload.kind.lower()}s.apps")]
    is_ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    if workload.kind == "StatefulSet" and is_ordered:  # it waits for a pod of the undone template, which never runs
        name = pods[0]["metadata"]["name"]
        text += f", from which the StatefulSet makes {name} again"
        command += f" && kubectl delete pod {name} -n {workload.namespace}"
        deletes.append(f"Pod/{name}")
        rights.append(("delete", "pods"))
    return {
        "kind": UNDO,
        "object": workload.label,
        "field": "spec.template",
        "from": None,
        "to": None,
        "also": [],
        "node": "",
        "costs": ["application"],
        "text": text,
        "command": command,
        "deletes": deletes,
        "rollsOut": [workload.label],
        "rights": [{"verb": verb, "resource": of, "namespace": workload.namespace} for verb, of in rights],
        "checked": False,
        "helps": 0,
    }


def _correct(explanation: Json, pod: Json, workload: Workload) -> list[Json]:
    """Return the suggestions of an explanation, corrected by the template from which the pod was made."""
    if not explanation.get("suggestions"):
        return []
    from herodotus_answers.live.pods.template_overrides import correct_suggestions

    return list(correct_suggestions(explanation, pod, workload.objects)["suggestions"])


def _convert(suggestion: Json, pods: int) -> Remedy:
    """Return a suggestion as a remedy. The engine has checked it for one of these pods, or not at all."""
    from herodotus_answers.suggestions import describe_effect  # here, because most workloads have no suggestion

    text = describe_effect(suggestion)
    if pods > 1 and suggestion["checked"]:
        text += f" (checked for 1 pod of {pods})"
    deletes = suggestion.get("deletes") or ()
    remedy = make_remedy(text + (f" (deletes {', '.join(deletes)})" if deletes else ""), suggestion["command"])
    return {**remedy, "checked": bool(suggestion["checked"])}
