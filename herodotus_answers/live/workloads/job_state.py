"""Find the state that a Job or a CronJob is really in, and who has to act.

Owns: suspension, completions, retries, ends and schedules. Does not own: why pods are not created
(`refusal_causes`), the states of pods (`workload_pods`), times of a schedule (`cron_schedule`). Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live import kueue_words
from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.pod_facts import (
    ask_for_events,
    clean,
    format_ago,
    format_seconds,
    format_since,
    is_true,
    make_cause,
    make_remedy,
    parse_time,
)
from herodotus_answers.live.pods.pod_state import explain_silent_manager
from herodotus_answers.live.workload_objects import Workload, find_parent, has_ended_job
from herodotus_answers.live.workloads.cron_schedule import parse_schedule
from herodotus_answers.live.workloads.deletions import explain_preempted
from herodotus_answers.live.workloads.refusal_causes import explain_refusal, find_missing_references
from herodotus_answers.live.workloads.terminating_pods import explain_wait_for_end
from herodotus_answers.live.workloads.workload_events import find_refusal, list_events
from herodotus_answers.live.workloads.workload_pods import explain_failed_pod
from herodotus_record.units import begin_sentence

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import LiveCause, LiveState
    from herodotus_answers.live.workloads.situation import Parts, Situation

Json = dict[str, Any]
_QUEUES: Final = {"kueue.x-k8s.io/queue-name": "Kueue", "scheduling.volcano.sh/queue-name": "Volcano"}
_MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
_KUEUE_PODS: Final = "app.kubernetes.io/name=kueue"
_ACTIVATE: Final = '\'{"spec":{"active":true}}\''
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_BACKOFF_LIMIT: Final = 6  # the API server's default
_LATE: Final = timedelta(seconds=90)  # controllers make an object, such as the Job of a CronJob, within seconds
_FRESH: Final = timedelta(seconds=10)
# Conditions of a Job that has ended, and then those of one whose pods are being ended.
_END_CONDITIONS: Final = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_ENDS: Final = {
    "BackoffLimitExceeded": "backoff-limit",
    "DeadlineExceeded": "job-deadline",
    "PodFailurePolicy": "job-failure-policy",
}


def count_wanted(workload: Workload) -> int | None:
    """Return the number of pods that a Job is to have now, or None if it is not known."""
    spec, status = workload.spec, workload.status
    if not workload.is_read:
        return None
    if spec.get("suspend") or spec.get("managedBy") == _MULTIKUEUE or _find_end(workload):
        return 0
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    succeeded = int(status.get("succeeded") or 0)
    if completions is None:  # a work queue: after the first success no pod is added
        return int(parallelism) if not succeeded else len(workload.active)
    return max(0, min(int(parallelism), int(completions) - succeeded))


def find_job_state(situation: Situation) -> Parts:
    """Return the state of a Job."""
    workload, counts = situation.workload, situation.counts
    end = _find_end(workload)
    if end:
        return _describe_end(situation, end)
    if workload.spec.get("suspend"):
        return _find_suspended(workload, _describe_done(workload))
    if workload.spec.get("parallelism") == 0:
        return _describe_no_parallelism(workload)
    manager = workload.spec.get("managedBy") or _OWN_CONTROLLER
    if manager == _MULTIKUEUE:
        return _describe_elsewhere(workload)
    if situation.is_short:
        short = _find_short(situation, manager)
        if short is not None:
            return short
    causes = situation.problems.causes
    failed = explain_failed_pod(workload)
    words = _describe_done(workload)
    if counts["pending"]:
        preempted = explain_preempted(workload)
        causes = [*causes, preempted] if preempted else causes
        return "workload-pending", _tell(f"{words}; {counts['pending']} without a node", causes), causes, "user"
    if causes:
        return "workload-not-ready", _tell(words, causes), [*causes, *failed], "user"
    if failed:
        return "workload-running", _tell(words, failed), failed, "user"
    return "workload-running", f"{words}; {counts['created']} active", [], None


def _describe_no_parallelism(workload: Workload) -> Parts:
    text = "its parallelism is 0"
    patch = workload.kubectl(f"patch job {workload.name}", "-p", '\'{"spec":{"parallelism":1}}\'')
    remedy = make_remedy("set parallelism to the number of pods that are to run at a time, here 1", patch)
    cause = make_cause("replicas-zero", text, "spec.parallelism", remedies=[remedy])
    headline = f"Makes no pods: {text} ({_describe_done(workload)})"
    return "workload-scaled-to-zero", headline, [cause], "user"


def _tell(words: str, causes: list[LiveCause]) -> str:
    return f"{words}. {begin_sentence(causes[0]['text'])}" if causes else words


def _find_end(workload: Workload) -> str:
    """Return the condition that says that a Job has ended or is about to; "" if it has not."""
    return next((each for each in _END_CONDITIONS if workload.is_true(each)), "")


def _describe_done(workload: Workload) -> str:
    """Return how many pods of a Job have succeeded, and how many failed."""
    status, spec = workload.status, workload.spec
    done, failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
    total = spec.get("completions")
    words = f"{done} of {total} completions" if total is not None else f"{done} completions"
    return words + (f", {failed} failed {'pod' if failed == 1 else 'pods'}" if failed else "")


def _describe_end(situation: Situation, end: str) -> Parts:
    workload = situation.workload
    condition = workload.conditions[end]
    at = condition.get("lastTransitionTime")
    ago = format_ago(at, workload.now)
    words = _describe_done(workload)
    reason, message = str(condition.get("reason") or ""), clean(condition.get("message"))
    if end in ("Complete", "SuccessCriteriaMet"):
        said = "Complete" if end == "Complete" else "Succeeded, and its last pods are being ended"
        if reason == "SuccessPolicy":
            words += f". That is a success by its successPolicy ({message}), so that pods which still ran were ended"
        return "workload-complete", f"{said}{ago}: {words}", [], None
    code = _ENDS.get(reason, "job-ended")
    limit = workload.spec.get("backoffLimit", _BACKOFF_LIMIT)
    text = f"{reason}: {message}" if message else reason
    if code == "backoff-limit":
        text = f"its pods failed more often than backoffLimit {limit} allows"
    elif reason in ("MaxFailedIndexesExceeded", "FailedIndexes"):
        most = workload.spec.get("maxFailedIndexes")
        limits = "" if most is None else f"maxFailedIndexes {most}; "
        text += f" ({limits}failed indexes {workload.status.get('failedIndexes')})"
    elif code == "job-deadline":
        text = f"it ran longer than activeDeadlineSeconds {workload.spec.get('activeDeadlineSeconds')} allows"
    parent = find_parent(workload)
    again = f"{parent} makes the next one" if parent else f"then create Job {workload.name} again (delete it first)"
    causes = explain_failed_pod(workload)
    what = "remove the cause of the failures"
    if code == "job-deadline":
        what = "raise activeDeadlineSeconds, or let the Job do less"
    elif len(causes) == 0 and (workload.pod_spec.get("restartPolicy") == "OnFailure"):
        what += (
            ", whose logs are gone with the pods: restartPolicy OnFailure deletes them at the limit, Never keeps them"
        )
    remedy = make_remedy(f"{what}; {again}")
    causes.append(make_cause(code, text, f"status.conditions[{end}]", at=at, remedies=[remedy]))
    why = f". {causes[0]['text']}" if len(causes) > 1 else ""
    return "workload-failed", f"Failed{ago}: {text} ({words}){why}", causes, "user"


def _find_suspended(workload: Workload, words: str) -> Parts:
    labels = workload.meta.get("labels") or {}
    since = (workload.conditions.get("Suspended") or {}).get("lastTransitionTime")
    ago = format_since(since, workload.now)
    for label, queue in _QUEUES.items():
        if label in labels:
            text = f"suspended{ago} until {queue} admits it from queue {labels[label]}"
            stop, refusal = _find_kueue_words(workload) if queue == "Kueue" else (None, None)
            said = [f"Event {each['reason']}" for each in (stop, refusal) if each and each.get("reason")]
            why = f"; stopped before: {_tell_stop(stop, workload)}" if stop else ""
            text += f": {clean(refusal.get('message'))}" if refusal else ""
            source = ", ".join([f"spec.suspend, label {label}", *said]) + (f" of {queue}" if said else "")
            stopped = _find_deactivated(workload) if queue == "Kueue" else ""
            remedies, look = [], ""
            if stopped:
                text = f"suspended{ago}, and Kueue does not admit it: its Workload {stopped} is not active"
                command = workload.kubectl(f"patch workload.kueue.x-k8s.io {stopped}", "--type=merge", "-p", _ACTIVATE)
                what = f"activate Workload {stopped} again (spec.active), once its pods can become ready in time"
                remedies = [make_remedy(what, command)]
            elif queue == "Kueue" and _is_unknown_to_kueue(workload, since):
                text += ", but Kueue has made no Workload for it: its controller seems not to run"
                remedies = [make_remedy("start Kueue's controller, or see why it does not run")]
                look = f"kubectl get pods -A -l {_KUEUE_PODS}"
            elif refusal and (advice := find_remedy("kueue", str(refusal.get("message")), owner=workload.label)):
                remedies = [make_remedy(advice)]
            cause = make_cause("queued", text + why, source, at=since, remedies=remedies, inspect=look)
            queue = "user" if stopped else queue
            return "workload-suspended", f"{workload.label} makes no pods: {text}{why} ({words})", [cause], queue
    parent = find_parent(workload)
    by = f"; {parent} made it" if parent else ""
    text = f"spec.suspend is true{ago}{by}"
    patch = workload.kubectl(f"patch job {workload.name}", "-p", '\'{"spec":{"suspend":false}}\'')
    cause = make_cause("suspended", text, "spec.suspend", at=since, remedies=[make_remedy("resume it", patch)])
    return "workload-suspended", f"Suspended, so it makes no pods: {text} ({words})", [cause], "user"


def _tell_stop(stop: Json, workload: Workload) -> str:
    return f"{clean(stop.get('message'))}{format_ago(read_event_time(stop), workload.now)}"


def _find_kueue_words(workload: Workload) -> tuple[Json | None, Json | None]:
    """Return what Kueue said last: of why it stopped a Job that it had admitted, and of why it does not admit it."""
    own = [event for event, about in list_events(workload) if about["kind"] == "Job"]
    return kueue_words.find_words(workload.object, own, workload.objects)


def _find_deactivated(workload: Workload) -> str:
    """Return the Workload of Kueue for a Job if it is not active, so that Kueue leaves it alone; "" if it is.

    Its last event says so if it cannot be read.
    """
    found = kueue_words.list_workloads(workload.object, workload.objects)
    if found:
        names = (str(each["metadata"]["name"]) for each in found if (each.get("spec") or {}).get("active") is False)
        return next(names, "")
    last = next(
        iter(
            sorted(
                kueue_words.list_workload_events(workload.object, workload.objects), key=read_event_time, reverse=True
            )
        ),
        {},
    )
    return str(last["involvedObject"]["name"]) if "Deactivated" in str(last.get("reason")) else ""


def _is_unknown_to_kueue(workload: Workload, since: object) -> bool:
    """Return whether there is no trace of a Workload for a Job that was suspended long enough for Kueue to make it."""
    began, listed = parse_time(since), workload.objects.list_objects("Workload", workload.namespace)
    if began is None or workload.now - began < _LATE or not listed.is_complete:
        return False
    return not kueue_words.list_workloads(workload.object, workload.objects) and not kueue_words.list_workload_events(
        workload.object, workload.objects
    )


def _find_short(situation: Situation, manager: str) -> Parts | None:
    """Return the state of a Job with fewer active pods than it is to have, or None if it only waits to retry."""
    workload, counts = situation.workload, situation.counts
    refusal = find_refusal(workload, counts["notCreated"])
    waits = None if refusal else explain_wait_for_end(workload)
    causes = [explain_refusal(refusal, workload)] if refusal else [*find_missing_references(workload)]
    causes = [waits, *causes] if waits else causes
    silent = explain_silent_manager(workload.objects, workload.now) if manager == _OWN_CONTROLLER else None
    causes = [silent, *causes] if silent else causes
    created, wanted = counts["created"], counts["wanted"]
    if not causes and manager != _OWN_CONTROLLER:
        text = f"{manager} manages it (spec.managedBy), and not kube-controller-manager"
        causes = [make_cause("other-controller", text, "spec.managedBy")]
    if not causes:
        failed = int(workload.status.get("failed") or 0)
        age = parse_time(workload.meta.get("creationTimestamp"))
        if failed or (age and workload.now - age < _FRESH):
            return None
        look = workload.kubectl(f"describe job {workload.name}")
        asking = ask_for_events(workload.object, workload.objects)
        text = "its events cannot be read" if asking else "no event says why (events are kept for an hour)"
        causes = [make_cause("creation-unexplained", text, "Events", remedies=asking, inspect=look)]
    exist = f"{created} of {wanted} pods {'exists' if created == 1 else 'exist'}"
    headline = f"{exist} ({_describe_done(workload)}). Not created: {causes[0]['text']}"
    return "workload-not-created", headline, [*causes, *situation.problems.causes], "user"


def _describe_elsewhere(workload: Workload) -> Parts:
    """Return the state of a Job that MultiKueue runs in another cluster, as far as this one shows that."""
    words, active = _describe_done(workload), int(workload.status.get("active") or 0)
    clusters = [
        str((each.get("status") or {}).get("clusterName") or "")
        for each in kueue_words.list_workloads(workload.object, workload.objects)
    ]
    said = [
        clean(each.get("message"))
        for each in kueue_words.list_workload_events(workload.object, workload.objects)
        if each.get("reason") == "MultiKueue"
    ]
    where = next(filter(None, clusters), "")
    text = f"spec.managedBy is {_MULTIKUEUE}, and MultiKueue"
    if where or said or active:
        text += " runs a copy of it, with the pods, in another cluster"
        text += f", {where}" if where else f" ({said[-1]})" if said else ""
        text += (
            f"; as reported from there, {active} of its pods {'is' if active == 1 else 'are'} active" if active else ""
        )
        actor = None
    else:
        text += " is to run a copy of it, with the pods, in another cluster; nothing here shows that it does"
        actor = "MultiKueue"
    selector = f"kueue.x-k8s.io/job-uid={workload.meta.get('uid')}"
    look = workload.kubectl("get workloads.kueue.x-k8s.io", "-l", selector, "-o", "yaml")
    cause = make_cause("other-controller", text, "spec.managedBy, status", inspect=look)
    return "workload-elsewhere", f"Makes no pods in this cluster: {text} ({words})", [cause], actor


# --- CronJobs -------------------------------------------------------------------------------------------------------


def find_cron_job_state(situation: Situation) -> Parts:
    """Return the state of a CronJob."""
    workload = situation.workload
    spec, status, now = workload.spec, workload.status, workload.now
    last = (
        f"last scheduled{format_ago(status.get('lastScheduleTime'), now)}"
        if status.get("lastScheduleTime")
        else ("never scheduled yet")
    )
    if spec.get("suspend"):
        command = workload.kubectl(f"patch cronjob {workload.name}", "-p", '\'{"spec":{"suspend":false}}\'')
        text = f"CronJob {workload.name} is suspended (spec.suspend is true)"
        cause = make_cause("suspended", text, "spec.suspend", remedies=[make_remedy("resume it", command)])
        return "workload-suspended", f"Suspended, so it makes no Jobs: {text}; {last}", [cause], "user"
    refusal = find_refusal(workload, 1)
    if refusal is not None and refusal.source.startswith(f"Event FailedCreate of {workload.label}"):
        cause = explain_refusal(refusal, workload)
        return "workload-not-created", f"No Job is created: {cause['text']}", [cause], "user"
    active = find_active_job(situation)
    if active is not None:
        headline, state = active
        code = state["code"] if state["actor"] else "workload-running"
        replaced = _explain_replaced(workload)
        more, actor = [*replaced, *explain_skipped(workload)], state["actor"] or ("user" if replaced else None)
        return code, _tell(headline.rstrip("."), replaced), [*state["causes"], *more], actor
    names = [str(each.get("name")) for each in status.get("active") or ()]
    if names and not workload.knows_makers:
        which = f"Job {names[0]} is" if len(names) == 1 else f"{len(names)} Jobs ({', '.join(names)}) are"
        headline = f"By its status {which} active; Jobs cannot be read, so that no more is known of it; {last}"
        return "workload-running", headline, explain_skipped(workload), None
    return _find_scheduled(workload, last)


def find_active_job(situation: Situation) -> tuple[str, LiveState] | None:
    """Return a sentence on the newest Job of a CronJob that has not ended, and its state; None if all have ended."""
    from herodotus_answers.live.workloads.workload_state import find_state, inspect_job

    active = [job for job in situation.workload.makers if not has_ended_job(job)]
    if not active:
        return None
    name = str(active[0]["metadata"]["name"])
    state = find_state(inspect_job(name, situation))
    which = f"Job {name} is active" if len(active) == 1 else f"{len(active)} Jobs are active; the newest, {name}"
    return f"{which}: {state['headline']}", state


def _explain_replaced(workload: Workload) -> list[LiveCause]:
    """Return the cause that concurrencyPolicy Replace deleted the last Job for the one that is active.

    Cleaning up Jobs that have ended leaves the same event, but not at the time when the next one is made, and not
    without a success since.
    """
    spec, status, now = workload.spec, workload.status, workload.now
    if spec.get("concurrencyPolicy") != "Replace":
        return []
    events = [event for event, about in list_events(workload) if about["kind"] == "CronJob"]
    made, deleted = (
        [e for e in events if e.get("reason") == each] for each in ("SuccessfulCreate", "SuccessfulDelete")
    )
    times = [parse_time(read_event_time(each[-1])) for each in (made, deleted) if each]
    if len(times) < 2 or None in times:
        return []
    began, ended = (time for time in times if time is not None)
    succeeded = parse_time(status.get("lastSuccessfulTime"))
    earlier = [time for each in made[:-1] if (time := parse_time(read_event_time(each))) is not None]
    if abs(began - ended) > _FRESH or (succeeded and succeeded >= max(earlier, default=ended)):
        return []
    name = clean(deleted[-1].get("message")).rpartition(" ")[2]
    at = read_event_time(deleted[-1])
    text = f"concurrencyPolicy Replace deletes a Job that still runs when the next one is due: {name} was deleted"
    text += f"{format_ago(at, now)}, when the active Job was made (schedule {spec.get('schedule')})"
    text += (
        f"; last success{format_ago(status['lastSuccessfulTime'], now)}" if succeeded else "; no Job has succeeded yet"
    )
    schedule = parse_schedule(str(spec.get("schedule") or ""), str(spec.get("timeZone") or ""))
    following = schedule.find_next(now) if schedule else None
    after = schedule.find_next(following) if schedule and following else None
    span = f", {format_seconds((after - following).total_seconds())} now," if following and after else ""
    what = (
        f"leave more time between two runs{span} than one takes (spec.schedule of {workload.label}), or shorten the run"
    )
    source = "spec.concurrencyPolicy, Events SuccessfulDelete and SuccessfulCreate"
    return [make_cause("job-replaced", text, source, at=at, remedies=[make_remedy(what)])]


def _find_scheduled(workload: Workload, last: str) -> Parts:
    """Return the state of a CronJob without an active Job."""
    spec, now = workload.spec, workload.now
    zone = str(spec.get("timeZone") or "")
    text = f"{spec.get('schedule')}{f' {zone}' if zone else ''}"
    schedule = parse_schedule(str(spec.get("schedule") or ""), zone)
    causes = explain_skipped(workload)
    newest = workload.makers[0] if workload.makers else None
    if newest is not None:
        failed = is_true(newest, "Failed")
        name = newest["metadata"]["name"]
        last += f": Job {name} {'failed' if failed else 'completed'}"
        if failed:
            see = f"kubectl herodotus workload job/{name} -n {workload.namespace}"
            cause = make_cause("job-ended", f"Job {name} failed", "Jobs", of=f"Job/{name}", inspect=see)
            causes.append(cause)
    if schedule is None:
        return (
            "workload-waits-for-schedule",
            _tell(f"No Job is active; {last}; schedule {text}", causes),
            causes,
            ("user" if causes else None),
        )
    following = schedule.find_next(now)
    when = "its schedule fits no day of the calendar, so that it never makes a Job"
    if following:
        when = f"next in {format_seconds((following - now).total_seconds())}, at {following:%Y-%m-%d %H:%M} UTC"
    else:
        what = f"correct the day and the month, the third and the fourth field of spec.schedule, in {workload.label}"
        causes = [make_cause("schedule-invalid", when, "spec.schedule", remedies=[make_remedy(what)])]
    codes = {cause["code"] for cause in causes}
    if "schedule-stopped" in codes:
        when = "its controller starts no more Jobs"
    elif "schedule-missed" not in codes:
        causes = [*_explain_missed(workload, schedule.find_last(now)), *causes]
    words = f"No Job is active; {last}; {when} (schedule {text})"
    headline = _tell(words, causes if following else [])
    return "workload-waits-for-schedule", headline, causes, "user" if causes else None


def _explain_missed(workload: Workload, expected: datetime | None) -> list[LiveCause]:
    """Return the cause that the last time of the schedule passed without a Job."""
    since = parse_time(workload.status.get("lastScheduleTime")) or parse_time(workload.meta.get("creationTimestamp"))
    if expected is None or since is None or expected <= since or workload.now - expected < _LATE:
        return []
    ago = format_ago(expected.isoformat(), workload.now)
    text = f"its time{ago} passed without a Job"
    deadline = workload.spec.get("startingDeadlineSeconds")
    text += f" (startingDeadlineSeconds {deadline})" if deadline is not None else ""
    look = "kubectl get pods -n kube-system -l component=kube-controller-manager"
    if silent := explain_silent_manager(workload.objects, workload.now):
        return [silent | {"text": f"{text}: {silent['text']}"}]
    remedy = make_remedy("see whether kube-controller-manager ran at that time, and what its log says")
    return [
        make_cause("schedule-missed", text, "spec.schedule, status.lastScheduleTime", remedies=[remedy], inspect=look)
    ]


_CORRECT_SCHEDULE: Final = "correct spec.schedule of {0}: five fields, minute to day of the week"
_SET_DEADLINE: Final = '\'{"spec":{"startingDeadlineSeconds":200}}\''  # the controller looks every 10 seconds
_HAS_COMMAND: Final = ("TooManyMissedTimes", "FailedNeedsStart")
_LIFT_DEADLINE: Final = "raise startingDeadlineSeconds of {0}, or see why kube-controller-manager did not run"
# By the reason of a CronJob's event: the code of the cause, and what to do about it.
_EVENTS: Final = {
    "JobAlreadyActive": (
        "job-still-active",
        "let the Job that runs end, or set concurrencyPolicy of {0}: Replace ends it, Allow runs both",
    ),
    "MissSchedule": ("schedule-missed", _LIFT_DEADLINE),
    "TooManyMissedTimes": ("schedule-missed", "set or lower startingDeadlineSeconds of {0}, so that fewer times count"),
    "FailedNeedsStart": ("schedule-stopped", "set startingDeadlineSeconds of {0}, so that no earlier times count"),
    "InvalidSchedule": ("schedule-invalid", _CORRECT_SCHEDULE),
    "UnparseableSchedule": ("schedule-invalid", _CORRECT_SCHEDULE),
    "UnknownTimeZone": (
        "schedule-invalid",
        "set timeZone of {0} to a name that the time zone database of kube-controller-manager has, or remove it",
    ),
}


def explain_skipped(workload: Workload) -> list[LiveCause]:
    """Return what the last events of a CronJob say of times at which it made no Job."""
    causes: dict[str, LiveCause] = {}
    last = str(workload.status.get("lastScheduleTime") or "")
    for event, about in list_events(workload):
        code, advice = _EVENTS.get(str(event.get("reason")), ("", ""))
        time = read_event_time(event)
        if not code or about["kind"] != "CronJob" or (code.startswith("schedule-") and time < last):
            continue
        text = f"{clean(event.get('message'))}{format_ago(time, workload.now)}"
        command = workload.kubectl(f"patch cronjob {workload.name}", "-p", _SET_DEADLINE)
        remedies = [make_remedy(advice.format(workload.label), command if event["reason"] in _HAS_COMMAND else None)]
        causes[code] = make_cause(code, text, f"Event {event['reason']}", at=time, remedies=remedies)
    return list(causes.values())
