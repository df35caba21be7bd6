"""Shorten an answer to a document of kind `Brief`: the headline, the cause as a code, and the best fix, below 2 kB.

It is for products that show the reason in a status, a page or a chat. Everything in it is from the answer, so what was
masked there is masked here.

Owns: the short form, the codes of outcomes without a reason. Does not own: the codes of reasons and their parameters
(`herodotus_record.reasons`), headlines of pods (`headlines`). Pure.

Invariant: the JSON text of a Brief has at most MAX_BYTES bytes, even with every character beyond ASCII escaped. Texts
that are too long end with an ellipsis, a command that is too long is left out, and `truncated` says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypedDict

from herodotus_answers.cluster_headlines import count_pending_reasons
from herodotus_answers.declare import Document, Metadata
from herodotus_answers.pending import find_dominant_reason
from herodotus_answers.plans import describe_changes
from herodotus_record import reasons
from herodotus_record.model import API_VERSION, EVALUATION, POD_GROUP_PHASE
from herodotus_record.units import is_in_bytes, pluralize

Answer = Mapping[str, Any]
MAX_BYTES: Final = 2_000
_ELLIPSIS: Final = "…"
_MAX_PARAMETERS: Final = 10  # more than a reason of this version has

# Codes of what is no reason. None of them is a code of `reasons.CATALOGUE`.
OUTCOMES: Final[Mapping[str, str]] = {
    "placed": "Every pod that the answer is about has a node.",
    "binding": "A node was chosen, and the pod is being bound to it, or the result is not known.",
    "dry-run": "A node was chosen, and the pod was deliberately not bound to it.",
    "binding-failed": "A node was chosen, but a phase after that failed.",
    "attempt-failed": "The attempt ended in an error, which the headline has.",
    "fits": "The pods would find a node; nothing was created.",
    "planned": "A plan was found; the whole document has its steps.",
    "no-plan": "No plan was found.",
    "drainable": "Every pod that a drain evicts finds another node.",
    "not-created": "A quota or LimitRange refuses pods that the question creates.",
    "not-evicted": "A pod that should leave its node cannot be evicted.",
    "nothing-pending": "No pod waits for a node.",
    "not-decided": "No scheduler whose decisions are recorded has decided about the pod.",
    "unknown": "The pod has no node, and the record does not say why.",
}
_STATES: Final = {
    "Bound": "placed",
    "Binding": "binding",
    "DryRun": "dry-run",
    "Failed": "binding-failed",
    "Error": "attempt-failed",
    "Scheduled": "placed",  # of a pod group
    "Fits": "fits",
    "WaitingForPreemption": "group-preempting",
}


class LackingAmounts(TypedDict):
    """Amounts of the lacking resource for one pod on the node nearest to holding it."""

    resource: Annotated[str, "Name of the resource."]
    unit: Annotated[str, "Unit of the amounts: millicores, bytes or pieces."]
    requested: Annotated[int, "Amount that the pod requests."]
    free: Annotated[int, "Amount that is free on the node."]
    allocatable: Annotated[int, "Amount that the node has for pods."]


class Fix(TypedDict):
    """The best change known after which the pod would fit."""

    text: Annotated[str, "The change as a sentence."]
    command: Annotated[str | None, "Shell command that makes it; null if none is known, or if it is too long."]
    checked: Annotated[bool, "Whether the pod with the change passed all filters on the snapshot of the attempt."]


class Brief(Document):
    """The short form of an answer: what happened, why, and what helps."""

    kind: Literal["Brief"]
    of: Annotated[str, "Kind of the answer that it shortens."]
    about: Annotated[str, "Kind of the object that `metadata` names, such as Pod; Cluster for the whole cluster."]
    headline: Annotated[str, "The answer in one sentence."]
    code: Annotated[
        str | None, "Code of the dominant reason, of the outcome, or of the state's first cause; null if there is none."
    ]
    conditionReason: Annotated[str | None, "The code as Kubernetes spells reasons of conditions."]
    params: Annotated[dict[str, str], "Parameters of the reason by name, as far as the answer has them."]
    plugin: Annotated[str | None, "Plugin that returned the reason; null if the answer does not name it."]
    nodes: Annotated[int | None, "Number of nodes that the plugin was the first to reject; null if it is not known."]
    amounts: Annotated[LackingAmounts | None, "Amounts of the lacking resource; null if none lacks or is known."]
    since: Annotated[str | None, "Time since which the pods wait, or at which the answer's attempt started."]
    scheduler: Annotated[str | None, "Scheduler name (spec.schedulerName); null if there are several or none."]
    fix: Annotated[Fix | None, "What helps; null if nothing is known."]
    decision: Annotated[str | None, "ID of the decision behind the reason; null if it is not of one decision."]
    truncated: Annotated[bool, "Whether something was cut or left out because of its length."]


class _Cause(TypedDict, total=False):
    """What a kind of answer contributes to its short form; an absent field is null or empty."""

    about: str
    name: str
    headline: str
    code: str
    params: Mapping[str, str]
    plugin: str | None
    nodes: int | None
    amounts: LackingAmounts | None
    since: str | None
    scheduler: str | None
    fix: Fix | None
    decision: str | None


def shorten(answer: Answer) -> Brief:
    """Return the short form of an answer, which is a document as `-o json` prints it.

    Raises ValueError for a kind of document that has no headline.
    """
    kind = str(answer.get("kind", ""))
    try:
        cause = _READERS.get(kind, _read_headline)(answer)
        metadata = answer["metadata"]
    except (KeyError, IndexError):
        raise ValueError(f"a document of kind {kind or 'unknown'} has no short form") from None
    limits, code = _Limits(), cause.get("code")
    found = {"name": cause.get("name") or metadata.get("name")} | {k: metadata.get(k) for k in ("namespace", "uid")}
    names: Metadata = {}
    if found["name"]:
        names["name"] = limits.cut(found["name"], 253)
    if found["namespace"]:
        names["namespace"] = limits.cut(found["namespace"], 63)
    if found["uid"]:
        names["uid"] = limits.cut(found["uid"], 64)
    brief: Brief = {
        "apiVersion": API_VERSION,
        "kind": "Brief",
        "metadata": names,
        "of": limits.cut(kind, 40),
        "about": limits.cut(cause["about"], 40),
        "headline": limits.cut(cause["headline"], 500),
        "code": limits.cut_if_any(code, 50),
        "conditionReason": limits.cut_if_any(code and reasons.format_condition_reason(code), 50),
        "params": limits.cut_params(cause.get("params", {})),
        "plugin": limits.cut_if_any(cause.get("plugin"), 100),
        "nodes": cause.get("nodes"),
        "amounts": cause.get("amounts"),
        "since": limits.cut_if_any(cause.get("since"), 40),
        "scheduler": limits.cut_if_any(cause.get("scheduler"), 100),
        "fix": limits.cut_fix(cause.get("fix")),
        "decision": limits.cut_if_any(cause.get("decision"), 120),
        "truncated": False,
    }
    _make_fit(brief, limits)
    brief["truncated"] = limits.has_cut
    return brief


# --- what each kind of answer contributes -----------------------------------------------------------------------------


def _read_pod(answer: Answer) -> _Cause:
    return {**_read_decided_pod(answer), **_read_state(answer)}


def _read_decided_pod(answer: Answer) -> _Cause:
    attempt, outcome = answer["attempt"], answer["outcome"]
    cause: _Cause = {
        "about": "Pod",
        "headline": answer["headline"],
        "since": attempt["startedAt"],
        "scheduler": attempt["profile"],
        "decision": attempt["id"],
        "code": _STATES.get(outcome["state"], "unknown"),
    }
    last = outcome["phases"][-1] if outcome["phases"] else None
    of_group = answer.get("groupHeadline")
    if outcome["state"] == "Binding" and of_group:
        return cause | {"headline": f"Fits on {outcome['node']}, but waits for its pod group. {of_group}"}
    if outcome["state"] == "Failed" and last and last["phase"] != EVALUATION:
        return cause | {"headline": f"{last['phase']} failed on {outcome['node']}: {last['message']}"}
    if outcome["state"] != "Unschedulable":
        return cause
    cause |= {"since": attempt["podCreatedAt"] or attempt["startedAt"]}
    if last and last["phase"] == POD_GROUP_PHASE:
        waits = reasons.CATALOGUE["group-preempting"] in last["message"]
        headline = f"Fits on {outcome['node']}, but its group is not placed: {of_group or last['message']}"
        return cause | {"headline": headline, "code": "group-preempting" if waits else "group-unschedulable"}
    fix = _find_fix(answer["suggestions"], answer["possibleChanges"])
    return {**cause, **_find_rejection(answer), "fix": fix}


def _find_rejection(answer: Answer) -> _Cause:
    """Return the dominant reason of a pod without a node, which its headline begins with.

    It is that of the node of the first suggestion, or else of the plugin that was the first to reject most nodes. Nodes
    that the pod's own spec leaves out do not count if there are others.
    """
    if answer["preFilters"]:
        last = answer["preFilters"][-1]
        cause = _parse(last["reasons"][0]) if last["reasons"] else _parse_message(answer["message"])
        return {**cause, "plugin": last["plugin"]}
    groups = answer["rejections"]
    if not groups:
        return _parse_message(answer["message"])
    suggested = next((s["node"] for s in answer["suggestions"]), None)
    usable = [g for g in groups if not _is_left_out(g)]
    groups = usable or [g for g in groups if _is_excluded_by_pod(g)] or groups
    groups = [g for g in groups if any(row["node"] == suggested for row in g["nodes"])] or groups
    counts: dict[str, int] = {}
    for group in groups:
        counts[group["plugin"]] = counts.get(group["plugin"], 0) + group["count"]
    order = [f["plugin"] for f in answer["filters"]]
    plugin = max(counts, key=lambda p: (counts[p], -order.index(p)))
    found: _Cause = {"plugin": plugin, "nodes": counts[plugin], "code": "unknown"}
    given = [(g, reason) for g in groups if g["plugin"] == plugin for reason in g["reasons"]]
    if not given:
        return found  # an extender may reject without a reason
    nodes_of: dict[str, int] = {}
    for group, reason in given:
        nodes_of[reason["sentence"]] = nodes_of.get(reason["sentence"], 0) + group["count"]
    group, reason = max(given, key=lambda g: nodes_of[g[1]["sentence"]])
    details = group["nodes"][0]["reasons"] if group["nodes"] else []
    detail: Answer = next((d for d in details if (d["code"], d["params"]) == (reason["code"], reason["params"])), {})
    return {**found, "code": reason["code"], "params": reason["params"], "amounts": _read_amounts(detail)}


def _is_left_out(group: Answer) -> bool:
    """Return whether the pod's own spec leaves out the nodes of a group of rejections, whichever filter was first."""
    return _is_excluded_by_pod(group) or group.get("alsoRejectedBy", {}).get("NodeAffinity") == group["count"]


def _is_excluded_by_pod(group: Answer) -> bool:
    """Return whether a group of rejections has reasons and all of them are in `EXCLUDED_BY_POD`."""
    codes = [reason["code"] for reason in group["reasons"]]
    return bool(codes) and all(code in reasons.EXCLUDED_BY_POD for code in codes)


def _read_amounts(detail: Answer) -> LackingAmounts | None:
    if "requested" not in detail:
        return None
    resource = detail["resource"]
    return {
        "resource": resource,
        "unit": "millicores" if resource == "cpu" else "bytes" if is_in_bytes(resource) else "pieces",
        "requested": detail["requested"],
        "free": detail["free"],
        "allocatable": detail["allocatable"],
    }


def _read_undecided_pod(answer: Answer) -> _Cause:
    """Return what a document says about a pod without a decision."""
    gates = answer.get("schedulingGates")
    return {
        "about": "Pod",
        "headline": answer["headline"],
        "code": "gated" if gates else "not-decided",
        "params": {"gates": f"[{' '.join(gates)}]"} if gates else {},
        "since": answer["createdAt"],
        "scheduler": answer["schedulerName"],
        "fix": _find_fix([], answer.get("possibleChanges") or []),
        **_read_state(answer),
    }


def _read_state(answer: Answer) -> _Cause:
    """Return what `live` says of the state that the pod is really in: its first cause, which the decision lacks."""
    state = (answer.get("live") or {}).get("state")
    if state is None:
        return {}
    cause: _Cause = {"headline": state["headline"], "plugin": None, "nodes": None, "amounts": None, "fix": None}
    if state["code"] != "pod-gated":  # a reason of the catalogue with its parameters
        cause |= {"code": state["code"], "params": {}}
    if not state["causes"]:
        return cause
    first = state["causes"][0]
    if state["code"] != "pod-gated":
        cause["code"] = first["code"]
    remedies = [remedy for each in state["causes"] for remedy in each["remedies"]]
    if remedies:
        best = remedies[0]
        cause["fix"] = {"text": best["text"], "command": best["command"], "checked": False}
    if first["at"]:
        cause["since"] = first["at"]
    return cause


def _read_pending(answer: Answer) -> _Cause:
    about = "Namespace" if answer["metadata"].get("namespace") else "Cluster"
    if not answer["groups"]:
        return {"about": about, "headline": "No pod waits for a node.", "code": "nothing-pending"}
    first, count = answer["groups"][0], answer["count"]
    oldest = next(pod for pod in answer["pods"] if f"{pod['namespace']}/{pod['pod']}" == first["pods"][0])
    profiles = {pod["profile"] for pod in answer["pods"]}
    waits = f"{pluralize(count, 'pod')} {'waits' if count == 1 else 'wait'} for a node"
    which = "" if first["count"] == count else f"{first['count']} of them: "
    late = f" {answer['overdue']} are overdue: their scheduler does not run." if answer["overdue"] else ""
    return {
        "about": about,
        "headline": f"{waits}: {which}{first['reason']}.{late}",
        "since": first["oldestAt"],
        "scheduler": profiles.pop() if len(profiles) == 1 else None,
        "decision": oldest["id"],
        **_read_group_reason(first, oldest),
    }


def _read_group_reason(group: Answer, pod: Answer) -> _Cause:
    """Return the reason of a group of pending pods, of which `pod` is one."""
    if pod["state"] == "Gated":
        return {"code": "gated", "params": {"gates": f"[{group['reason'].partition(': ')[2].replace(',', '')}]"}}
    if pod["state"] == "Untried":
        return {"code": "not-decided"}
    cause: _Cause = {"code": group["code"], "params": pod.get("params", {}) if pod["reason"] == group["reason"] else {}}
    if cause["code"] != "text":
        return cause
    return {"code": "group-unschedulable"} if pod["podGroup"] else cause | {"code": _STATES.get(pod["state"], "text")}


def _read_workload(answer: Answer) -> _Cause:
    kind, _, name = answer["metadata"]["name"].partition("/")
    cause: _Cause = {"about": kind, "name": name, "headline": answer["headline"], "code": "placed"}
    if state := _read_state(answer):
        return cause | state
    if not answer["pending"]:
        return cause | ({} if answer["placed"] else {"code": "unknown"})
    first = min(answer["pending"], key=lambda pod: str(pod["startedAt"]))
    return {**cause, **_parse_message(first["message"]), "since": first["startedAt"]}


def _read_group(answer: Answer) -> _Cause:
    started = (answer["cycle"] or {}).get("startedAt")
    cause: _Cause = {"about": "PodGroup", "headline": answer["headline"], "since": started}
    if answer["state"] in ("Scheduled", "Fits") or not answer["reasons"]:
        return cause | {"code": _STATES.get(answer["state"], "group-unschedulable")}
    first = answer["reasons"][0]
    fix = _find_fix(first["suggestions"], [])
    reason = _parse_message(first["message"]) if first["message"] else _parse(first["reason"])
    return {**cause, **reason, "fix": fix, "decision": first["id"]}


def _read_placement_review(answer: Answer) -> _Cause:
    status, spec = answer["status"], answer["spec"]
    cause: _Cause = {
        "about": spec["kind"],
        "headline": status["headline"],
        "scheduler": spec["schedulerName"],
        "code": "fits",
    }
    stopped = status["stopped"]
    if stopped is None:
        return cause
    fix = _find_fix(stopped["suggestions"], stopped["possibleChanges"])
    return (
        cause | {"code": _STATES.get(stopped["outcome"]["state"], "unknown")} | _find_rejection(stopped) | {"fix": fix}
    )


def _read_pod_history(answer: Answer) -> _Cause:
    last = answer["attempts"][-1]
    cause: _Cause = {
        "about": "Pod",
        "headline": answer["headline"],
        "since": last["startedAt"],
        "scheduler": last["profile"],
        "decision": last["id"],
        "code": _STATES.get(last["state"], "unknown"),
    }
    if last["state"] != "Unschedulable":
        return cause
    cause |= {"since": answer["createdAt"]}
    if last["node"] is not None:  # the placement was undone
        return cause | {"code": "group-unschedulable"}
    plugin, nodes = next(iter(last["rejectedBy"].items()), (None, None))
    found: _Cause = {"plugin": plugin, "nodes": nodes} if plugin and nodes else {}
    return {**cause, **_parse_message(last["message"]), **found}


def _read_cluster_review(answer: Answer) -> _Cause:
    status = answer["status"]
    outcome = _find_plan(status["plan"]) if status.get("plan") else _find_outcome(status)
    cause: _Cause = {"about": "Cluster", "headline": status["headline"], **outcome}
    drained: Sequence[str] = status.get("drained") or ()  # a service of an earlier version does not say
    if len(drained) == 1:
        cause["about"], cause["name"] = "Node", drained[0]
    return cause


def _find_plan(review: Answer) -> _Cause:
    """Return the outcome of a search for plans, with the changes of the best plan for pods."""
    if review["verdict"] == "NoPlan":
        return {"code": "no-plan"}
    if review["verdict"] != "Planned":
        return {"code": "fits"}
    for kind in review["kinds"]:
        for plan in kind["plans"]:
            steps = plan["steps"]
            command = steps[0]["command"] if len(steps) == 1 else None  # between steps the user waits for pods
            text = f"{describe_changes(kind['kind'], plan)}, in {pluralize(len(steps), 'step')}"
            return {"code": "planned", "fix": {"text": text, "command": command or None, "checked": True}}
    return {"code": "planned"}


def _find_outcome(status: Answer) -> _Cause:
    """Return the outcome for the pods of a cluster review, or why they find no node; nothing if it is about no pods."""
    capacity, groups = status["capacity"], status["nodeGroups"]
    if status.get("refusals"):
        return {"code": "not-created"}
    if capacity is not None:
        return {"code": "fits"} if capacity["fits"] else _parse_message(capacity["message"])
    if groups is not None:
        return _find_group_outcome(groups["pods"])
    if any(status[part] is not None for part in ("consolidation", "upgrade", "scaleDown", "deschedule")):
        return {}
    pending = count_pending_reasons(status["placements"]).most_common(1)
    if pending:
        return _parse(pending[0][0])
    if status["blocked"]:
        return {"code": "not-evicted"}
    if status.get("drained"):
        return {"code": "drainable"}
    return {"code": "fits"} if status["placements"] else {}


def _find_group_outcome(pods: Sequence[Answer]) -> _Cause:
    """Return the outcome of a question about pods and node groups, or the reason that most groups reject them for."""
    rejections: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        if not any(verdict["verdict"] == "Fits" for verdict in pod["groups"]):
            each = [r for verdict in pod["groups"] for r in verdict["rejections"]]
            rejections.update((r["plugin"], reason) for r in each for reason in r["reasons"])
            if not each:
                return {}
    if not rejections:
        return {"code": "fits"} if pods else {}
    plugin, reason = rejections.most_common(1)[0][0]
    return _parse(reason) | {"plugin": plugin}


def _read_headline(answer: Answer) -> _Cause:
    return {"about": _ABOUT.get(answer["kind"], "Cluster"), "headline": answer["headline"]}


_READERS: Final[Mapping[str, Callable[[Answer], _Cause]]] = {
    "PodExplanation": _read_pod,
    "UndecidedPod": _read_undecided_pod,
    "PendingPods": _read_pending,
    "WorkloadPlacement": lambda answer: {**_read_workload(answer), **_read_state(answer)},
    "PodGroupPlacement": _read_group,
    "UndecidedPodGroup": lambda answer: {
        "about": "PodGroup",
        "headline": answer["headline"],
        "code": "not-decided",
    },
    "PlacementReview": _read_placement_review,
    "PodHistory": _read_pod_history,
    "ClusterReview": _read_cluster_review,
}
_ABOUT: Final = {"PodComparison": "Pod", "NodeComparison": "Pod", "NodeHistory": "Node"}


def _parse_message(message: str) -> _Cause:
    """Return the reason that the most nodes gave in a FailedScheduling message, or that it is unknown."""
    return _parse(find_dominant_reason(message)) if message else {"code": "unknown"}


def _parse(sentence: str) -> _Cause:
    reason = reasons.parse_reason(sentence)
    return {"code": reason.code, "params": reason.params}


def _find_fix(suggestions: Sequence[Answer], possible_changes: Sequence[str]) -> Fix | None:
    """Return the best suggestion: a checked one before others, and one with a command before others."""
    if suggestions:
        best = min(suggestions, key=lambda s: (not s["checked"], not s["command"]))
        return {"text": best["text"], "command": best["command"], "checked": best["checked"]}
    return {"text": "; ".join(possible_changes), "command": None, "checked": False} if possible_changes else None


# --- its length -------------------------------------------------------------------------------------------------------


class _Limits:
    """Cuts texts to limits of their JSON text, and remembers whether it cut any."""

    def __init__(self) -> None:
        self.has_cut = False

    def cut(self, text: str, limit: int) -> str:
        """Return the text, or the longest beginning that with an ellipsis has `limit` bytes as JSON."""
        if _measure(text) <= limit:
            return text
        self.has_cut = True
        end = limit
        while end and _measure(text[:end] + _ELLIPSIS) > limit:
            end -= 1
        return text[:end] + _ELLIPSIS

    def cut_if_any(self, text: str | None, limit: int) -> str | None:
        """Return the text cut to `limit`, or None if it is None or empty."""
        return self.cut(text, limit) if text else None

    def cut_params(self, params: Mapping[str, str], limit: int = 100) -> dict[str, str]:
        """Return the first parameters, each cut to `limit`."""
        kept = list(params.items())[:_MAX_PARAMETERS]
        self.has_cut |= len(kept) < len(params)
        return {self.cut(name, 40): self.cut(str(value), limit) for name, value in kept}

    def cut_fix(self, fix: Fix | None, limit: int = 250, command_limit: int = 500) -> Fix | None:
        """Return the fix with its text cut to `limit`, and without its command if that is longer than its limit."""
        if fix is None:
            return None
        command = fix["command"] if fix["command"] and _measure(fix["command"]) <= command_limit else None
        self.has_cut |= bool(fix["command"]) and command is None
        return {"text": self.cut(fix["text"], limit), "command": command, "checked": fix["checked"]}


def _measure(value: object) -> int:
    """Return the number of bytes of a value as JSON; of a text, without its quotation marks."""
    return len(json.dumps(value)) - 2 * isinstance(value, str)


def _make_fit(brief: Brief, limits: _Limits) -> None:
    """Cut what a reader misses least until the document has at most MAX_BYTES bytes."""

    def is_too_long() -> bool:
        return _measure(brief) > MAX_BYTES

    if is_too_long():
        brief["params"] = limits.cut_params(brief["params"], 40)
    if is_too_long():
        brief["fix"] = limits.cut_fix(brief["fix"], command_limit=0)
    if is_too_long():
        brief["headline"] = limits.cut(brief["headline"], 250)
    if is_too_long():
        brief["fix"] = limits.cut_fix(brief["fix"], 80)
    if is_too_long():
        limits.has_cut, brief["params"] = True, {}
    if is_too_long():
        brief["headline"] = limits.cut(brief["headline"], 150)
