"""Find the state that a workload is really in: how many pods it wants and has, what stops the rest, who has to act.

Owns: which state applies, scale to zero, pauses, and workloads that are being deleted or cannot be read. Does not own:
numbers (`situation`), missing pods (`uncreated_causes`), pods that are not ready and updates (`rollouts`), Jobs and
CronJobs (`job_state`), codes and their meanings (`workload_codes`). Pure.

Invariant: no number is given for what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.daemon_nodes import advise_toleration
from herodotus_answers.live.node_rules import matches_selector, read_labels
from herodotus_answers.live.pod_facts import (
    FOREGROUND,
    format_since,
    make_cause,
    make_remedy,
    make_state,
)
from herodotus_answers.live.workload_objects import (
    Workload,
    find_newest_sibling,
    find_parent,
    format_selector,
)
from herodotus_answers.live.workloads.job_state import (
    explain_skipped,
    find_active_job,
    find_cron_job_state,
    find_job_state,
)
from herodotus_answers.live.workloads.refusal_causes import explain_refusal
from herodotus_answers.live.workloads.rollouts import (
    describe_newest,
    explain_min_ready,
    find_held_update,
    find_stuck_rollout,
    find_unready_state,
    holds_update,
)
from herodotus_answers.live.workloads.situation import Situation
from herodotus_answers.live.workloads.template_changes import change_template
from herodotus_answers.live.workloads.uncreated_causes import find_short_state
from herodotus_answers.live.workloads.workload_autoscaler import explain_autoscaler, explain_zero
from herodotus_answers.live.workloads.workload_events import build_timeline, find_refusal
from herodotus_record.node_labels import is_same_platform, names_identity
from herodotus_record.units import begin_sentence, describe_all, pluralize

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import (
        LiveCause,
        LiveState,
        LiveWorkload,
        Remedy,
    )
    from herodotus_answers.live.workloads.situation import Parts


Json = dict[str, Any]
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


def find_state(situation: Situation) -> LiveState:
    """Return the state of a workload."""
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
        return find_short_state(situation)
    stuck = find_stuck_rollout(workload)
    if counts["pending"] or counts["ready"] < wanted or stuck:
        return find_unready_state(situation, stuck)
    held = find_held_update(situation)
    if held is not None:
        return held
    if created > wanted or (
        counts["updated"] is not None and counts["updated"] < wanted and not holds_update(workload)
    ):
        refusal = find_refusal(workload, wanted - (counts["updated"] or 0)) if workload.kind == "Deployment" else None
        if refusal is None and situation.problems.causes:
            return find_unready_state(situation, None)
        headline = f"{situation.progress}{describe_newest(situation)}"
        if counts["updated"] is None:
            more = created - wanted
            headline = f"{situation.progress}, and {pluralize(more, 'pod')} more {'exists' if more == 1 else 'exist'}"
        if refusal is None:
            waits = explain_min_ready(workload)
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
    still = f"; {pluralize(left, 'pod')} of it still {'exists' if left == 1 else 'exist'}" if left else ""
    if workload.kind == "DaemonSet":
        cause = explain_no_node(situation)
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


def explain_no_node(situation: Situation) -> LiveCause:
    """Return the cause that a DaemonSet is to have a pod on no node."""
    source, listed = "Nodes, spec.template.spec", situation.workload.objects.list_objects("Node")
    if listed.missing:
        text = "its controller counts no node for it, and which nodes there are cannot be read"
        return make_cause("no-node-selected", text, "status.desiredNumberScheduled")
    if not listed.items:
        remedy = make_remedy("add a node: each that matches the template then gets a pod by itself")
        return make_cause("no-node-selected", "the cluster has no nodes", source, remedies=[remedy])
    reasons = "; ".join(f"{pluralize(each['count'], 'node')}: {each['text']}" for each in situation.skipped)
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
    if workload.knows_makers and not workload.makers:
        text += ", so it makes no ReplicaSet and no pods"
        cause = make_cause("paused", text, source, at=since, remedies=[resume])
        return "workload-paused", f"0 of {counts['wanted']} pods exist: {text}", [cause], "user"
    if workload.knows_makers and workload.current is None:
        text += ", so the change of its template is not rolled out"
        cause = make_cause("paused", text, source, at=since, remedies=[resume])
        headline = f"{situation.progress}, all of an earlier template: {text}"
        return "workload-paused", headline, [cause, *situation.problems.causes], "user"
    if situation.is_short or counts["ready"] < (counts["wanted"] or 0):
        return None
    text += ": later changes of its template will not be rolled out"
    return "workload-paused", f"{situation.progress}; {text}", [make_cause("paused", text, source, at=since)], None


def _find_terminating(situation: Situation) -> Parts:
    workload = situation.workload
    since = workload.meta["deletionTimestamp"]
    finalizers = [str(each) for each in workload.meta.get("finalizers") or ()]
    text = f"{workload.label} is being deleted{format_since(since, workload.now)}"
    causes = []
    if finalizers:
        holds = f"its finalizers are not removed: {', '.join(finalizers)}"
        if FOREGROUND in finalizers:
            holds += f" (foreground deletion waits for its {pluralize(len(workload.pods), 'pod')})"
        causes = [make_cause("finalizer", holds, "metadata.finalizers", at=since)]
        text += f": {holds}"
    return "workload-terminating", text, causes, "user" if finalizers else None


def _find_unread(situation: Situation) -> Parts:
    """Return the state of a workload whose object cannot be read, from its pods and events."""
    workload = situation.workload
    if workload.is_absent:
        left = f"; {pluralize(len(workload.active), 'pod')} of it still exist" if workload.active else ""
        return "workload-not-found", f"{workload.label} does not exist{left}", [], None
    lookup = workload.objects.get(workload.kind, workload.name, workload.namespace)
    why = "you may not read it" if lookup.missing == "Forbidden" else "it cannot be read"
    why = "the API server does not serve its kind" if lookup.is_absent else why
    refusal = find_refusal(workload, 1)
    causes = [explain_refusal(refusal, workload)] if refusal else []
    causes += [*explain_skipped(workload), *situation.problems.causes]
    made = "Job" if workload.kind == "CronJob" else "pod"
    number = len(workload.makers) if workload.kind == "CronJob" else len(workload.active)
    exist = f"{pluralize(number, made) if number else f'no {made}'} of it {'exist' if number > 1 else 'exists'}"
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
