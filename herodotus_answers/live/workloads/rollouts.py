"""Find why pods of a workload are not ready, and what stops a rollout from going on.

Owns: these causes and states of Deployments, StatefulSets and DaemonSets. Does not own: the problems of the pods
(`workload_pods`), pods that do not exist (`uncreated_causes`). Pure.
"""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from herodotus_answers.live.pod_facts import (
    format_ago,
    format_seconds,
    make_cause,
    make_remedy,
    parse_time,
    read_conditions,
)
from herodotus_answers.live.pods.outdated_pods import (
    explain_outdated,
    explain_waiting_update,
    is_earlier,
)
from herodotus_answers.live.workload_objects import (
    REACTION_TIME,
    Workload,
    is_ready,
)
from herodotus_answers.live.workloads.deletions import explain_preempted
from herodotus_answers.live.workloads.terminating_pods import list_terminating
from herodotus_answers.quantities import read_quantity
from herodotus_record.units import begin_sentence, pluralize

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import (
        LiveCause,
    )
    from herodotus_answers.live.workloads.situation import Parts, Situation


Json = dict[str, Any]


def find_unready_state(situation: Situation, stuck: LiveCause | None) -> Parts:
    """Return the state of a workload with pods that are not ready, or whose rollout is `stuck`."""
    workload, counts = situation.workload, situation.counts
    code = "workload-pending" if counts["pending"] else "workload-not-ready"
    if not counts["pending"] and counts["ready"] >= (counts["wanted"] or 0):
        code = "workload-rolling-out"  # pods of the earlier template are ready in the place of those that are not
    causes = [*situation.problems.causes]
    held = _explain_kept_pods(situation)
    if held is not None:  # it comes first if a new pod surely finds the resources that an old one leaves
        if any(map(_changes_strategy, causes)):
            held["remedies"] = []  # the same change, which the engine has checked
        causes.insert(0 if _keeps_or_lowers_requests(workload) else len(causes), held)
    if broken := _explain_broken_update(situation):
        causes.insert(0, broken)
    if preempted := explain_preempted(workload):
        causes.append(preempted)
    if stuck is not None:
        code = "workload-rollout-stuck"
        if any("rollout undo" in (remedy["command"] or "") for cause in causes for remedy in cause["remedies"]):
            stuck["remedies"] = []  # the same remedy, at its place among those of the pods
        causes.append(stuck)
    newest = describe_newest(situation) if workload.kind == "Deployment" else ""
    waits = f", {counts['pending']} without a node" if counts["pending"] else ""
    update = None if broken else _explain_waiting_update(situation)
    if update is not None:
        causes.append(update)
        newest += f"; {update['text']}"
    words = f"{'Rollout stuck: ' if stuck else ''}{situation.progress}{waits}{newest}"
    if not causes:
        age = workload.age
        is_new = age is not None and age < REACTION_TIME
        return code, f"{words}{' yet' if is_new else ''}", [], None if is_new else "kubelet"
    why = "" if causes[0] is update else f". {begin_sentence(causes[0]['text'])}"
    return code, f"{words}{why}", causes, "user"


def describe_newest(situation: Situation) -> str:
    """Return the clause that says how many pods have the newest template, or "" if none has an earlier one."""
    workload, updated = situation.workload, situation.counts["updated"]
    if updated is None or not (old := len(workload.active) - updated):
        return ""
    if workload.kind != "Deployment" or not workload.knows_makers:
        return f"; {updated} of them of the newest template"
    ready = sum(map(is_ready, workload.list_active_of(workload.current))) if workload.current else 0
    state = " (ready)" if ready == updated else f" ({ready} ready)" if ready else " (not ready)"
    return f"; {updated} of the newest template{state if updated else ''}, {old} of an earlier one"


def _changes_strategy(cause: LiveCause) -> bool:
    """Return whether a remedy of a cause lets the rollout delete an old pod first."""
    return any('"maxSurge":0' in (remedy["command"] or "") for remedy in cause["remedies"])


def find_stuck_rollout(workload: Workload) -> LiveCause | None:
    """Return the cause that a Deployment made no progress before its deadline, or None."""
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


def _keeps_or_lowers_requests(workload: Workload) -> bool:
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


def explain_min_ready(workload: Workload) -> LiveCause | None:
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


def holds_update(workload: Workload) -> bool:
    """Return whether the update strategy may keep pods at an earlier template until somebody acts."""
    strategy = workload.spec.get("updateStrategy") or {}
    return strategy.get("type") == "OnDelete" or bool((strategy.get("rollingUpdate") or {}).get("partition"))


def find_held_update(situation: Situation) -> Parts | None:
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
        kept = f"updateStrategy OnDelete keeps {pluralize(wanted - updated, 'pod')} at an earlier template"
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
    unready = (pod for pod in workload.active if not is_ready(pod))
    return next((cause for pod in unready if (cause := explain_outdated(pod, workload.object)) is not None), None)
