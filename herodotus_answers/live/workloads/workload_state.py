"""Find the state that a workload is really in: how many pods it wants and has, what stops the rest, who has to act.

Owns: the state of Deployments, ReplicaSets, StatefulSets and DaemonSets, and what an answer adds about their pods. Does
not own: Jobs and CronJobs (`job_state`), why pods are not created (`refusal_causes`), the states of pods
(`pod_state`, `workload_pods`), codes and their meanings (`workload_codes`), reading (`workload_objects`). Pure.

Invariant: no number is given for what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.daemon_nodes import advise_toleration, find_nodes_without_pod, read_meant_node
from herodotus_answers.live.node_rules import matches_selector, read_labels
from herodotus_answers.live.pod_facts import (
    FOREGROUND,
    ask_for_events,
    clean,
    format_ago,
    format_seconds,
    format_since,
    make_cause,
    make_remedy,
    make_state,
    parse_time,
    read_conditions,
)
from herodotus_answers.live.pods.outdated_pods import (
    REVISION_LABEL,
    explain_outdated,
    explain_waiting_update,
    is_earlier,
)
from herodotus_answers.live.pods.pod_state import explain_silent_manager
from herodotus_answers.live.workload_objects import (
    Workload,
    find_newest_sibling,
    find_parent,
    format_selector,
    is_ready,
)
from herodotus_answers.live.workloads.deletions import explain_preempted
from herodotus_answers.live.workloads.refusal_causes import explain_refusal, find_missing_references
from herodotus_answers.live.workloads.template_changes import change_template
from herodotus_answers.live.workloads.terminating_pods import explain_wait_for_end, list_terminating
from herodotus_answers.live.workloads.workload_autoscaler import explain_autoscaler, explain_zero, find_autoscaler
from herodotus_answers.live.workloads.workload_events import build_timeline, find_refusal
from herodotus_answers.live.workloads.workload_pods import Problems, explain_failed_pod, find_problems
from herodotus_answers.quantities import read_quantity
from herodotus_record.node_labels import is_same_platform, names_identity
from herodotus_record.units import begin_sentence, describe_all

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import (
        LiveCause,
        LiveState,
        LiveWorkload,
        NodesWithoutPod,
        Remedy,
        WorkloadAutoscaler,
        WorkloadCounts,
    )
    from herodotus_answers.live.workloads.workload_pods import Explain

    Parts = tuple[str, str, list[LiveCause], str | None]  # code, headline, causes, actor

Json = dict[str, Any]
_FRESH: Final = timedelta(seconds=10)  # a controller has acted on a change that is older
# Kinds that may be unreadable without an answer that lacks something: they only add to it.
_OPTIONAL: Final = (
    "HorizontalPodAutoscaler",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "Service",
    "EndpointSlice",
    "Namespace",
    "LimitRange",
    "Workload",
    "Lease",
)


class Situation:
    """A workload with what is found out about it: counts, problems of its pods, autoscaler, nodes without a pod."""

    def __init__(self, workload: Workload, explain: Explain) -> None:
        self.workload = workload
        self.problems: Problems = find_problems(workload, explain)
        self.autoscaler: WorkloadAutoscaler | None = find_autoscaler(workload)
        self.skipped: list[NodesWithoutPod] = _list_skipped(workload) if workload.kind == "DaemonSet" else []
        self.counts: WorkloadCounts = _count(workload, self.skipped)
        self.is_short = self.counts["notCreated"] > 0
        self.explain = explain

    @property
    def progress(self) -> str:
        """The pods that are ready of those that are wanted, for a sentence."""
        wanted, ready = self.counts["wanted"], self.counts["ready"]
        return f"{ready} of {wanted} pods {'is' if ready == 1 else 'are'} ready"


def find_state(situation: Situation) -> LiveState:
    """Return the state of a workload."""
    from herodotus_answers.live.workloads.job_state import find_cron_job_state, find_job_state

    workload = situation.workload
    find: Any = {"Job": find_job_state, "CronJob": find_cron_job_state}.get(workload.kind, _find_replicated)
    if not workload.is_read:
        find = _find_unread
    elif workload.meta.get("deletionTimestamp"):
        find = _find_terminating
    code, headline, causes, actor = find(situation)
    unread = [kind for kind in workload.objects.unread if kind not in _OPTIONAL]
    return make_state(code, headline, actor, causes, unread)


def inspect_job(name: str, cron_job: Situation) -> Situation:
    """Return the situation of a Job that a CronJob made."""
    workload = cron_job.workload
    job = Workload("Job", name, workload.namespace, workload.objects, workload.now)
    return Situation(job, cron_job.explain)


def add_state(live: LiveWorkload, situation: Situation) -> LiveWorkload:
    """Return `live` with the state of the workload, its counts, and what else concerns the number of its pods."""
    state = find_state(situation)
    state["timeline"] = build_timeline(situation.workload)
    live = {**live, "state": state, "counts": situation.counts, "pods": situation.problems.groups}
    if situation.skipped:
        live["nodesWithoutPod"] = situation.skipped
    if situation.autoscaler is not None:
        live["autoscaler"] = situation.autoscaler
    if excluding := list(_describe_self_excluding_constraints(situation.workload)):
        live["selfExcludingConstraints"] = excluding
    return live


def _describe_self_excluding_constraints(workload: Workload) -> Iterator[str]:
    """Yield a sentence for each topology spread constraint of the template that does not count the workload's pods."""
    labels = (workload.template.get("metadata") or {}).get("labels") or {}
    for constraint in workload.pod_spec.get("topologySpreadConstraints") or ():
        key, selector = constraint["topologyKey"], constraint.get("labelSelector")
        if selector is None:
            yield f"the constraint on {key} has no labelSelector: it counts no pods, so it does not spread these"
        elif not matches_selector(selector, labels):
            yield f"the constraint on {key} selects {format_selector(selector)}: it does not count these pods"


# --- numbers --------------------------------------------------------------------------------------------------------


def _count(workload: Workload, skipped: list[NodesWithoutPod]) -> WorkloadCounts:
    """Return how many pods a workload wants and has, from its pods, or from its status if these cannot be read."""
    spec, status, active = workload.spec, workload.status, workload.active
    wanted: int | None = spec.get("replicas", 1) if workload.is_read else None
    if workload.kind == "DaemonSet":
        has_number = "desiredNumberScheduled" in status
        meant = {read_meant_node(pod) for pod in active} - {""}
        missing = sum(each["count"] for each in skipped if each["code"] == "missing")
        wanted = int(status["desiredNumberScheduled"]) if has_number else len(meant) + missing
    elif workload.kind == "Job":
        from herodotus_answers.live.workloads.job_state import count_wanted

        wanted = count_wanted(workload)
    elif workload.kind == "CronJob":
        wanted = None
    created = len(active) if workload.knows_pods else int(status.get("replicas") or status.get("active") or 0)
    placed = sum(bool(pod["spec"].get("nodeName")) for pod in active)
    counts: WorkloadCounts = {
        "wanted": wanted,
        "created": created,
        "notCreated": max(0, (wanted or 0) - created),
        "updated": _count_updated(workload),
        "placed": placed if workload.knows_pods else None,
        "pending": len(active) - placed,
        "ready": sum(map(is_ready, active)) if workload.knows_pods else int(status.get("readyReplicas") or 0),
        "available": status.get("availableReplicas", status.get("numberAvailable")),
        "terminating": len(list_terminating(workload)) if workload.knows_pods else _read_terminating(status),
    }
    if workload.kind == "Job":
        counts["succeeded"] = int(status.get("succeeded") or 0)
        counts["failed"] = int(status.get("failed") or 0)
    return counts


def _read_terminating(status: Json) -> int:
    return int(status.get("terminating") or status.get("terminatingReplicas") or 0)


def _count_updated(workload: Workload) -> int | None:
    if workload.kind == "Deployment":
        return len(workload.list_active_of(workload.current)) if workload.current else 0
    revision = workload.status.get("updateRevision")
    if workload.kind == "StatefulSet" and revision:
        revisions = [(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in workload.active]
        return revisions.count(revision)
    return None


def _list_skipped(workload: Workload) -> list[NodesWithoutPod]:
    nodes = {str(node["metadata"]["name"]): node for node in workload.objects.list_objects("Node").items}
    groups = find_nodes_without_pod(workload.pod_spec, nodes.values(), map(read_meant_node, workload.active))
    for group in groups:
        excluded = [nodes[name] for name in group["nodes"]]
        remedy = advise_toleration(workload.object, excluded) if group["code"] == "taint" else None
        if remedy is not None and remedy["command"]:
            group["command"] = remedy["command"]
    return groups


def _join(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- workloads that keep a number of pods ---------------------------------------------------------------------------


def _find_replicated(situation: Situation) -> Parts:
    """Return the state of a Deployment, ReplicaSet, StatefulSet, DaemonSet or ReplicationController."""
    workload, counts = situation.workload, situation.counts
    wanted, created = counts["wanted"] or 0, counts["created"]
    if wanted == 0:
        return _find_zero(situation)
    if workload.kind == "Deployment" and workload.spec.get("paused"):
        paused = _find_paused(situation)
        if paused is not None:
            return paused
    if situation.is_short:
        return _find_short(situation)
    stuck = _find_stuck_rollout(workload)
    if counts["pending"] or counts["ready"] < wanted or stuck:
        return _find_unready(situation, stuck)
    held = _find_held_update(situation)
    if held is not None:
        return held
    if created > wanted or (counts["updated"] is not None and counts["updated"] < wanted and not _is_held(workload)):
        refusal = find_refusal(workload, wanted - (counts["updated"] or 0)) if workload.kind == "Deployment" else None
        if refusal is None and situation.problems.causes:
            return _find_unready(situation, None)
        headline = f"{situation.progress}{_describe_newest(situation)}"
        if counts["updated"] is None:
            more = created - wanted
            headline = f"{situation.progress}, and {_join(more, 'pod')} more {'exists' if more == 1 else 'exist'}"
        if refusal is None:
            waits = _explain_min_ready(workload)
            if waits is None:
                return "workload-rolling-out", headline, [], None
            return "workload-rolling-out", f"{headline}. {begin_sentence(waits['text'])}", [waits], None
        cause = explain_refusal(refusal, workload)
        return "workload-rolling-out", f"{headline}. New pods are not created: {cause['text']}", [cause], "user"
    many = "The pod that it asks for is" if wanted == 1 else f"{describe_all(wanted, 'pod')} are"
    limits = explain_autoscaler(workload, situation.autoscaler)
    why = f". {begin_sentence(limits[0]['text'])}" if limits else ""
    return "workload-ready", f"{many} there and ready{why}", limits, None


def _find_zero(situation: Situation) -> Parts:
    workload, left = situation.workload, len(situation.workload.active)
    still = f"; {_join(left, 'pod')} of it still {'exists' if left == 1 else 'exist'}" if left else ""
    if workload.kind == "DaemonSet":
        cause = _explain_no_node(situation)
        return "workload-scaled-to-zero", f"Asks for no pods: {cause['text']}{still}", [cause], "user"
    parent = find_parent(workload)
    if parent:
        text = f"{parent} keeps it at 0 replicas"
        if newest := find_newest_sibling(workload):
            text = f"it has an earlier template of {parent}, which runs that of {newest} now"
        see = f"kubectl herodotus workload {parent.lower()} -n {workload.namespace}"
        cause = make_cause("replicas-zero", text, "spec.replicas", of=parent, inspect=see)
        return "workload-scaled-to-zero", f"Scaled to 0: {text}{still}", [cause], None
    causes, actor = explain_zero(workload, situation.autoscaler)
    return (
        "workload-scaled-to-zero",
        f"Scaled to 0 replicas, so it asks for no pods: {causes[0]['text']}{still}",
        causes,
        actor,
    )


def _explain_no_node(situation: Situation) -> LiveCause:
    """Return the cause that a DaemonSet is to have a pod on no node."""
    source, listed = "Nodes, spec.template.spec", situation.workload.objects.list_objects("Node")
    if listed.missing:
        text = "its controller counts no node for it, and which nodes there are cannot be read"
        return make_cause("no-node-selected", text, "status.desiredNumberScheduled")
    if not listed.items:
        remedy = make_remedy("add a node: each that matches the template then gets a pod by itself")
        return make_cause("no-node-selected", "the cluster has no nodes", source, remedies=[remedy])
    reasons = "; ".join(f"{_join(each['count'], 'node')}: {each['text']}" for each in situation.skipped)
    text = f"no node matches its node selector, affinity and tolerations ({reasons or 'as its controller reports'})"
    tainted = {name for each in situation.skipped if each["code"] == "taint" for name in each["nodes"]}
    nodes = [node for node in listed.items if node["metadata"]["name"] in tainted]
    advice = "label a node that is to have a pod as the template asks, or change the template"
    if names_identity(reasons):
        advice = (
            "see whether what sets the label runs, such as a cloud or an agent on the nodes; if none is to have it,"
        )
        advice += " nothing is missing"
    remedy = _correct_platform(situation.workload, listed.items) or make_remedy(advice)
    return make_cause(
        "no-node-selected", text, source, remedies=[advise_toleration(situation.workload.object, nodes) or remedy]
    )


def _correct_platform(workload: Workload, nodes: Sequence[Json]) -> Remedy | None:
    """Return the remedy for a node selector that spells the platform of the nodes another way, or None."""
    selector, corrected = workload.pod_spec.get("nodeSelector") or {}, dict[str, str]()
    for key, wanted in selector.items():
        values = sorted({read_labels(node).get(key, "") for node in nodes})
        meant = next((value for value in values if is_same_platform(key, str(wanted), value)), "")
        corrected |= {key: meant} if meant else {}
    if not corrected:
        return None
    pairs = (f"{key}={selector[key]} to {key}={value}" for key, value in corrected.items())
    text = f"change the node selector from {' and '.join(pairs)}, which the nodes have"
    return change_template(workload, text, {"nodeSelector": corrected})


def _find_paused(situation: Situation) -> Parts | None:
    """Return the state of a paused Deployment, or None if something else stops its pods."""
    workload, counts = situation.workload, situation.counts
    condition = workload.conditions.get("Progressing") or {}
    is_reported = condition.get("reason") == "DeploymentPaused"
    since = condition.get("lastTransitionTime") if is_reported else None
    resume = make_remedy("resume it", f"kubectl rollout resume deployment/{workload.name} -n {workload.namespace}")
    text = f"Deployment {workload.name} is paused{format_since(since, workload.now)}"
    source = "spec.paused"
    if not workload.makers:
        text += ", so it makes no ReplicaSet and no pods"
        cause = make_cause("paused", text, source, at=since, remedies=[resume])
        return "workload-paused", f"0 of {counts['wanted']} pods exist: {text}", [cause], "user"
    if workload.current is None:
        text += ", so the change of its template is not rolled out"
        cause = make_cause("paused", text, source, at=since, remedies=[resume])
        headline = f"{situation.progress}, all of an earlier template: {text}"
        return "workload-paused", headline, [cause, *situation.problems.causes], "user"
    if situation.is_short or counts["ready"] < (counts["wanted"] or 0):
        return None
    text += ": later changes of its template will not be rolled out"
    return "workload-paused", f"{situation.progress}; {text}", [make_cause("paused", text, source, at=since)], None


# --- pods that do not exist -----------------------------------------------------------------------------------------


def _find_short(situation: Situation) -> Parts:
    """Return the state of a workload with too few pods."""
    workload, counts = situation.workload, situation.counts
    wanted, created = counts["wanted"] or 0, counts["created"]
    exist = f"{created} of {wanted} pods {'exists' if created == 1 else 'exist'}"
    failed = explain_failed_pod(workload)
    causes = [*_explain_short(situation, failed)]
    code = "workload-not-created"
    if not causes:
        age = _find_age(workload)
        if situation.problems.causes:
            return _find_unready(situation, _find_stuck_rollout(workload))
        if age is not None and age < _FRESH and "Event" not in workload.objects.unread:
            ago = format_seconds(age.total_seconds())
            headline = f"{exist} yet: {workload.label} was created {ago} ago, and no event says that a pod was refused"
            return code, headline, [], "kube-controller-manager"
        causes = [_explain_nothing(situation)]
    first = causes[0]
    verb = "Its last pod failed" if first in failed else "Not created"
    more = [cause for cause in situation.problems.causes if cause["text"] != first["text"]]
    return code, f"{exist}. {verb}: {first['text']}", [*causes, *more], "user"


def _find_age(workload: Workload) -> timedelta | None:
    """Return for how long a workload has existed at least, or None if that is not known."""
    times = [workload.meta.get("creationTimestamp")]
    times += [condition.get("lastTransitionTime") for condition in workload.conditions.values()]
    known = [time for time in map(parse_time, times) if time is not None]
    return workload.now - min(known) if known else None


def _explain_short(situation: Situation, failed: Sequence[LiveCause]) -> Iterator[LiveCause]:
    """Yield why pods of a workload are not created, the cause to act on first; `failed` is why its last pod failed."""
    workload, missing = situation.workload, situation.counts["notCreated"]
    if silent := explain_silent_manager(workload.objects, workload.now):
        yield silent
    behind = None if silent else _explain_behind(workload)
    if behind:
        yield behind
    refusal = find_refusal(workload, missing)
    if refusal is not None:
        yield explain_refusal(refusal, workload)
        return
    if waits := explain_wait_for_end(workload):
        yield waits
    yield from find_missing_references(workload)
    yield from failed
    if workload.kind == "StatefulSet" and (order := _explain_order(situation)):
        yield order
    if workload.kind == "Deployment" and not (behind or silent) and workload.current is None:
        condition = workload.conditions.get("Progressing") or {}
        said = clean(condition.get("message"))
        text = f"Deployment {workload.name} has no ReplicaSet of its present template" + (f": {said}" if said else "")
        source = "status.conditions[Progressing]" if said else "ReplicaSets"
        yield make_cause("replica-set-missing", text, source, at=condition.get("lastTransitionTime"))


def _explain_behind(workload: Workload) -> LiveCause | None:
    """Return the cause that a controller has not seen the last change of a workload, or None if it has.

    A status without observedGeneration says nothing, unless no controller has written any.
    """
    generation, observed = workload.meta.get("generation"), workload.status.get("observedGeneration")
    age = _find_age(workload)
    if generation is None or (observed >= generation if observed is not None else workload.status):
        return None
    if age is None or age < _FRESH:
        return None
    text = f"the controller has not acted on the last change of {workload.label} (generation {generation}"
    text += f", observed {observed})" if observed is not None else ", none observed)"
    remedy = make_remedy("see whether kube-controller-manager runs")
    look = "kubectl get pods -n kube-system -l component=kube-controller-manager"
    return make_cause("controller-behind", text, "status.observedGeneration", remedies=[remedy], inspect=look)


def _explain_nothing(situation: Situation) -> LiveCause:
    """Return the cause that no event or condition says why pods are missing."""
    workload = situation.workload
    text = "no event or condition says why (events are kept for an hour)"
    if "Event" in workload.objects.unread:
        text = "its events cannot be read, and no condition says why"
    nodes = [name for each in situation.skipped if each["code"] == "missing" for name in each["nodes"]]
    text += f"; no pod is on {', '.join(nodes)}" if nodes else ""
    remedies = ask_for_events(workload.object, workload.objects)
    remedies = remedies or [make_remedy("see whether kube-controller-manager runs, and what its log says")]
    look = workload.kubectl(f"describe {workload.kind.lower()} {workload.name}")
    return make_cause("creation-unexplained", text, "Events, status.conditions", remedies=remedies, inspect=look)


def _explain_order(situation: Situation) -> LiveCause | None:
    """Return the cause that a StatefulSet makes the next pod when an earlier one is ready, or None if it does not."""
    workload = situation.workload
    if workload.spec.get("podManagementPolicy", "OrderedReady") != "OrderedReady":
        return None
    first = int((workload.spec.get("ordinals") or {}).get("start") or 0)
    present = {str(pod["metadata"]["name"]): pod for pod in workload.pods}
    for ordinal in range(first, first + (situation.counts["wanted"] or 0)):
        name = f"{workload.name}-{ordinal}"
        pod = present.get(name)
        if pod is None:
            return None
        if is_ready(pod) and not pod["metadata"].get("deletionTimestamp"):
            continue
        later = [f"{workload.name}-{n}" for n in range(ordinal + 1, first + (situation.counts["wanted"] or 0))]
        absent = [each for each in later if each not in present]
        if not absent:
            return None
        why = situation.problems.describe(name)
        text = f"{', '.join(absent[:3])} {'waits' if len(absent) == 1 else 'wait'} until {name} is ready"
        text += " (podManagementPolicy OrderedReady)" + (f". {name}: {why}" if why else "")
        see = f"kubectl herodotus pod {name} -n {workload.namespace}"
        return make_cause("waits-for-earlier-pod", text, "spec.podManagementPolicy", of=f"Pod/{name}", inspect=see)
    return None


# --- pods that are not ready, and rollouts --------------------------------------------------------------------------


def _find_unready(situation: Situation, stuck: LiveCause | None) -> Parts:
    workload, counts = situation.workload, situation.counts
    code = "workload-pending" if counts["pending"] else "workload-not-ready"
    if not counts["pending"] and counts["ready"] >= (counts["wanted"] or 0):
        code = "workload-rolling-out"  # pods of the earlier template are ready in the place of those that are not
    causes = [*situation.problems.causes]
    held = _explain_kept_pods(situation)
    if held is not None:  # it comes first if a new pod surely finds the resources that an old one leaves
        if any(map(_changes_strategy, causes)):
            held["remedies"] = []  # the same change, which the engine has checked
        causes.insert(0 if _asks_no_more(workload) else len(causes), held)
    if broken := _explain_broken_update(situation):
        causes.insert(0, broken)
    if preempted := explain_preempted(workload):
        causes.append(preempted)
    if stuck is not None:
        code = "workload-rollout-stuck"
        if any("rollout undo" in (remedy["command"] or "") for cause in causes for remedy in cause["remedies"]):
            stuck["remedies"] = []  # the same remedy, at its place among those of the pods
        causes.append(stuck)
    newest = _describe_newest(situation) if workload.kind == "Deployment" else ""
    waits = f", {counts['pending']} without a node" if counts["pending"] else ""
    update = None if broken else _explain_waiting_update(situation)
    if update is not None:
        causes.append(update)
        newest += f"; {update['text']}"
    words = f"{'Rollout stuck: ' if stuck else ''}{situation.progress}{waits}{newest}"
    if not causes:
        age = _find_age(workload)
        is_new = age is not None and age < _FRESH
        return code, f"{words}{' yet' if is_new else ''}", [], None if is_new else "kubelet"
    why = "" if causes[0] is update else f". {begin_sentence(causes[0]['text'])}"
    return code, f"{words}{why}", causes, "user"


def _describe_newest(situation: Situation) -> str:
    """Return the clause that says how many pods have the newest template, or "" if none has an earlier one."""
    workload, updated = situation.workload, situation.counts["updated"]
    if updated is None or not (old := len(workload.active) - updated):
        return ""
    if workload.kind != "Deployment":
        return f"; {updated} of them of the newest template"
    ready = sum(map(is_ready, workload.list_active_of(workload.current))) if workload.current else 0
    state = " (ready)" if ready == updated else f" ({ready} ready)" if ready else " (not ready)"
    return f"; {updated} of the newest template{state if updated else ''}, {old} of an earlier one"


def _changes_strategy(cause: LiveCause) -> bool:
    """Return whether a remedy of a cause lets the rollout delete an old pod first."""
    return any('"maxSurge":0' in (remedy["command"] or "") for remedy in cause["remedies"])


def _find_stuck_rollout(workload: Workload) -> LiveCause | None:
    condition = workload.conditions.get("Progressing") or {}
    if workload.kind != "Deployment" or condition.get("reason") != "ProgressDeadlineExceeded":
        return None
    limit = workload.spec.get("progressDeadlineSeconds", 600)
    ago = format_ago(condition.get("lastTransitionTime"), workload.now)
    of = workload.current
    name = f"ReplicaSet {of['metadata']['name']}" if of else "its newest ReplicaSet"
    text = (
        f"{name} made no progress for {format_seconds(limit)} (progressDeadlineSeconds){f', noted{ago}' if ago else ''}"
    )
    at = condition.get("lastTransitionTime")
    undo = []
    if len(workload.makers) > 1:
        command = f"kubectl rollout undo deployment/{workload.name} -n {workload.namespace}"
        undo = [make_remedy("go back to the earlier template", command)]
    return make_cause("progress-deadline", text, "status.conditions[Progressing]", at=at, remedies=undo)


def _explain_kept_pods(situation: Situation) -> LiveCause | None:
    """Return the cause that new pods wait for room that old pods hold, which the rollout may not delete first."""
    workload, counts = situation.workload, situation.counts
    strategy = workload.spec.get("strategy") or {}
    if workload.kind != "Deployment" or not counts["pending"] or strategy.get("type", "RollingUpdate") == "Recreate":
        return None
    current = workload.current
    fresh = workload.list_active_of(current) if current else []
    old = [pod for pod in workload.active if pod not in fresh and pod["spec"].get("nodeName")]
    if not old or all(pod["spec"].get("nodeName") for pod in fresh):
        return None
    rolling = strategy.get("rollingUpdate") or {}
    most = _round(rolling.get("maxUnavailable", "25%"), counts["wanted"] or 0)
    surge = rolling.get("maxSurge", "25%")
    ready_old = sum(map(is_ready, old))
    if most > 0 and ready_old < (counts["wanted"] or 0):
        return None  # it may delete one
    if most > 0:
        return None
    none = "does not delete the old pod" if len(old) == 1 else f"deletes none of the {len(old)} old pods"
    text = f"the rollout {none} before a new one is available: maxUnavailable is"
    share = str(rolling.get("maxUnavailable", "25%"))
    text += f" {share} of {counts['wanted']} pods, which is 0" if share.endswith("%") else " 0"
    patch = '{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":1,"maxSurge":0}}}}'
    what = f"delete an old pod before each new one: maxUnavailable 1, maxSurge 0 (now {surge}); one pod fewer runs then"
    remedy = make_remedy(what, workload.kubectl(f"patch deployment {workload.name}", "-p", f"'{patch}'"))
    return make_cause("old-pods-kept", text, "spec.strategy.rollingUpdate", remedies=[remedy])


def _asks_no_more(workload: Workload) -> bool:
    """Return whether each container of the newest template asks for no more than that of the template before it."""
    if len(workload.makers) < 2 or workload.current is None:
        return False
    before = next(each for each in workload.makers if each is not workload.current)
    wanted, had = (_list_requests(each["spec"]["template"]["spec"]) for each in (workload.current, before))
    return all(amount <= had.get(key, Fraction(0)) for key, amount in wanted.items())


def _list_requests(spec: Json) -> dict[tuple[str, str], Fraction]:
    """Return the requests of the containers of a pod spec, by name of container and resource."""
    return {
        (str(container["name"]), resource): read_quantity(amount)
        for container in spec.get("containers") or ()
        for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items()
    }


def _round(value: object, wanted: int) -> int:
    """Return a number of pods that may be a percentage, rounded down as maxUnavailable is."""
    text = str(value)
    return wanted * int(text[:-1]) // 100 if text.endswith("%") else int(text)


def _explain_min_ready(workload: Workload) -> LiveCause | None:
    """Return the cause that ready pods do not count as available yet, because of minReadySeconds."""
    least = workload.spec.get("minReadySeconds") or 0
    waiting: list[tuple[timedelta, str]] = []
    for pod in filter(is_ready, workload.active):
        since = parse_time(read_conditions(pod)["Ready"].get("lastTransitionTime"))
        if since is not None and workload.now - since < timedelta(seconds=least):
            waiting.append((workload.now - since, pod["metadata"]["name"]))
    if not waiting:
        return None
    ready_for, name = min(waiting)
    more = f" ({len(waiting)} pods wait for it)" if len(waiting) > 1 else ""
    text = (
        f"{name} is ready for {format_seconds(ready_for.total_seconds())} and counts as available after"
        f" {format_seconds(least)} (minReadySeconds {least}); until then the update does not go on{more}"
    )
    return make_cause("min-ready", text, "spec.minReadySeconds")


def _is_held(workload: Workload) -> bool:
    strategy = workload.spec.get("updateStrategy") or {}
    return strategy.get("type") == "OnDelete" or bool((strategy.get("rollingUpdate") or {}).get("partition"))


def _find_held_update(situation: Situation) -> Parts | None:
    """Return the state of a StatefulSet or DaemonSet whose update strategy keeps pods at an earlier template."""
    workload, counts = situation.workload, situation.counts
    wanted = counts["wanted"] or 0
    updated = workload.status.get("updatedNumberScheduled", counts["updated"])
    if workload.kind not in ("StatefulSet", "DaemonSet") or updated is None or updated >= wanted:
        return None
    strategy = workload.spec.get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    if strategy.get("type") == "OnDelete":
        each = "it is" if wanted - updated == 1 else "each is"
        kept = f"updateStrategy OnDelete keeps {_join(wanted - updated, 'pod')} at an earlier template"
        text = f"{kept} until {each} deleted"
        earlier = [pod["metadata"]["name"] for pod in workload.active if is_earlier(pod, workload.object)]
        last = max(earlier, key=lambda name: (len(name), name), default=None)  # as a rolling update would begin
        command = workload.kubectl(f"delete pod {last}") if last else None
        remedy = make_remedy("delete the pods of the earlier template, one after the other", command)
        cause = make_cause("on-delete", text, "spec.updateStrategy", remedies=[remedy])
    elif partition:
        text = f"partition {partition} keeps the pods with lower ordinals at an earlier template"
        patch = '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'
        command = workload.kubectl(f"patch statefulset {workload.name}", "-p", f"'{patch}'")
        remedy = make_remedy("update the rest too: partition 0", command)
        cause = make_cause("partition", text, "spec.updateStrategy.rollingUpdate.partition", remedies=[remedy])
    else:
        return None
    headline = f"{situation.progress}, {updated} of the newest template: {text}"
    return "workload-update-held", headline, [cause], None


def _explain_waiting_update(situation: Situation) -> LiveCause | None:
    """Return the cause that unavailable pods hold up the update of a StatefulSet or DaemonSet."""
    workload = situation.workload
    if workload.kind not in ("StatefulSet", "DaemonSet"):
        return None
    pods = [*workload.active, *list_terminating(workload)]
    return explain_waiting_update(pods, workload.object, situation.counts["wanted"] or 0)


def _explain_broken_update(situation: Situation) -> LiveCause | None:
    """Return the cause that a StatefulSet or DaemonSet does not replace a pod of an earlier template."""
    workload = situation.workload
    if workload.kind not in ("StatefulSet", "DaemonSet"):
        return None
    causes = (cause for pod in workload.active if (cause := explain_outdated(pod, workload.object)) is not None)
    return next(causes, None)


# --- workloads that are being deleted or cannot be read -------------------------------------------------------------


def _find_terminating(situation: Situation) -> Parts:
    workload = situation.workload
    since = workload.meta["deletionTimestamp"]
    finalizers = [str(each) for each in workload.meta.get("finalizers") or ()]
    text = f"{workload.label} is being deleted{format_since(since, workload.now)}"
    causes = []
    if finalizers:
        holds = f"its finalizers are not removed: {', '.join(finalizers)}"
        if FOREGROUND in finalizers:
            holds += f" (foreground deletion waits for its {_join(len(workload.pods), 'pod')})"
        causes = [make_cause("finalizer", holds, "metadata.finalizers", at=since)]
        text += f": {holds}"
    return "workload-terminating", text, causes, "user" if finalizers else None


def _find_unread(situation: Situation) -> Parts:
    """Return the state of a workload whose object cannot be read, from its pods and events."""
    from herodotus_answers.live.workloads.job_state import explain_skipped, find_active_job

    workload = situation.workload
    if workload.is_absent:
        left = f"; {_join(len(workload.active), 'pod')} of it still exist" if workload.active else ""
        return "workload-not-found", f"{workload.label} does not exist{left}", [], None
    lookup = workload.objects.get(workload.kind, workload.name, workload.namespace)
    why = "you may not read it" if lookup.missing == "Forbidden" else "it cannot be read"
    why = "the API server does not serve its kind" if lookup.is_absent else why
    refusal = find_refusal(workload, 1)
    causes = [explain_refusal(refusal, workload)] if refusal else []
    causes += [*explain_skipped(workload), *situation.problems.causes]
    made = "Job" if workload.kind == "CronJob" else "pod"
    number = len(workload.makers) if workload.kind == "CronJob" else len(workload.active)
    exist = f"{_join(number, made) if number else f'no {made}'} of it {'exist' if number > 1 else 'exists'}"
    if workload.kind == "CronJob" and number:
        exist += f" ({', '.join(str(each['metadata']['name']) for each in workload.makers[:3])})"
    active = find_active_job(situation) if workload.kind == "CronJob" else None
    if active is not None:
        exist += f". {active[0]}"
        causes += [cause for cause in active[1]["causes"] if cause not in causes]
    unknown = f"how many {made}s {workload.label} wants is not known ({why}), and {exist}"
    if not causes:
        return "workload-not-read", begin_sentence(unknown), [], None
    if active is not None and causes == active[1]["causes"]:  # the sentence on the Job has its first cause
        return "workload-not-read", begin_sentence(unknown), causes, "user"
    verb = f"{begin_sentence(made)}s are not created: " if refusal else ""
    return "workload-not-read", f"{verb}{causes[0]['text']}. {begin_sentence(unknown)}", causes, "user"
