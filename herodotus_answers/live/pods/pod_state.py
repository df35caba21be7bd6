"""Find the state that a pod is really in, from its object, its events and the objects that it names.

Owns: which state it is, who has to act, and the causes of pods that no scheduler has placed. Does not own: why a pod
waits for a node beyond the decision (`waiting_causes`), pods on a node (`bound_pods`), ends (`termination_causes`,
`pod_ending`), the timeline (`pod_timeline`), codes and their meanings (`codes`), reading (`cluster_objects`), types
(`declarations`). Pure.

Invariant: a state follows from objects that were read. What cannot be read is in `unread`, and no absence is concluded
from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.objects import has_ended, read_scheduler, was_created_with_node
from herodotus_answers.live.pod_facts import (
    change_templates,
    clean,
    find_owner,
    format_ago,
    format_seconds,
    make_cause,
    make_remedy,
    make_state,
    parse_time,
    read_conditions,
    read_reporter,
)
from herodotus_record.units import begin_sentence

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, LiveState, Remedy

Json = dict[str, Any]
DEFAULT_SCHEDULER: Final = "default-scheduler"
_DEFAULT_LEASE: Final = ("kube-system", "kube-scheduler")
_MANAGER: Final = "kube-controller-manager"
_FAILED: Final = "FailedScheduling"
_VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"  # annotation: the name of Volcano's PodGroup
_FRESH: Final = timedelta(seconds=10)  # a scheduler that runs has tried an older pod
_LONG_UNTRIED: Final = timedelta(minutes=2)  # a queue that moves has tried a pod by then
_NEAR: Final = 0.75  # similarity of two scheduler names, one of which may be misspelled
# By the first words of a cause's code: what kube-scheduler waits for before it tries the pod (PreEnqueue).
_HOLDERS: Final = {
    "pod-group-": "pod group",
    "device-claim-": "resource claims",
    "claim-template-missing": "resource claims",
}


def find_state(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod. `now` is the time to which ages refer."""
    spec, meta = pod["spec"], pod["metadata"]
    keeps = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")  # what holds a pod that has ended
    if meta.get("deletionTimestamp") and (keeps or not has_ended(pod)):
        return _find_terminating(pod, objects, now)
    if has_ended(pod):
        return _find_ended(pod, objects, now)
    if spec.get("nodeName"):
        from herodotus_answers.live.pods.bound_pods import find_bound_state

        return find_bound_state(pod, objects, now)
    if spec.get("schedulingGates"):
        from herodotus_answers.live.pods.gate_causes import find_gated_state

        return find_gated_state(pod, objects, now)
    return _find_waiting(pod, objects, now)


def find_first_cause(pod: Json, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return why a pod that a scheduler tried has no node, or None if only kube-scheduler's message says it."""
    state = find_state(pod, objects, now)
    cause = next(iter(state["causes"]), None) if state["code"] == "pod-waits-for-node" else None
    is_counted = cause is not None and cause["code"] == "no-node-found" and "nodes are available" in cause["text"]
    return None if is_counted else cause


def add_resizes(state: LiveState, answer: Json, objects: ClusterObjects, now: datetime) -> None:
    """Add to the state of a pod that waits, and of which no other cause is known, the resizes that hold what it lacks.

    `answer` is the explanation of its decision.
    """
    from herodotus_answers.live.pods.resize_causes import find_resizes_against

    if state["code"] != "pod-waits-for-node" or {cause["code"] for cause in state["causes"]} - {"no-node-found"}:
        return
    if causes := list(find_resizes_against(answer, objects, now)):
        state["headline"] = f"Pending: waits for a node. {begin_sentence(causes[0]['text'])}."
        state["causes"] = [*causes, *state["causes"]]


def is_decision_enough(state: LiveState, answer: Json, now: datetime) -> bool:
    """Return whether the decision that an answer explains says the same as the state of its pod, and more."""
    codes = [cause["code"] for cause in state["causes"]]
    is_recorded = answer["attempt"]["source"] != "evaluated"
    if state["code"] == "pod-running":
        return not codes and is_recorded  # an evaluation says where the pod fits, not that it runs
    if any(code.startswith("pod-group-") for code in codes):
        return False  # what holds the group, no attempt at one pod tells
    if state["code"] == "pod-not-tried":
        created = parse_time(answer["attempt"].get("podCreatedAt")) or now
        is_fresh = codes == ["scheduler-behind"] and now - created < _FRESH
        return is_recorded or is_fresh  # a record shows an attempt of which the pod has no trace
    if state["code"] != "pod-waits-for-node" or codes not in ([], ["no-node-found"]):
        return False
    return is_recorded or answer["outcome"]["node"] is None


# --- pods without a node --------------------------------------------------------------------------------------------


def _find_waiting(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    from herodotus_answers.live.pods.claim_causes import find_unread_claims
    from herodotus_answers.live.pods.node_causes import explain_closed_node
    from herodotus_answers.live.pods.outdated_pods import add_outdated
    from herodotus_answers.live.pods.waiting_causes import find_waiting_causes

    if nominated := (pod.get("status") or {}).get("nominatedNodeName"):
        victims = _find_victims(pod, nominated, objects, now)
        closed = explain_closed_node(pod, nominated, objects, now)
        if closed is not None:
            headline = f"Pending: waits for a node. {begin_sentence(closed['text'])}"
            for victim in victims:
                victim["remedies"] = []  # its end would not help
            return make_state("pod-waits-for-node", headline, "user", [closed, *victims], objects.unread)
        if victims:
            names = ", ".join(str(cause["object"]).partition("/")[2] for cause in victims)
            headline = f"Nominated for {nominated}, waits for {names} to end there: still terminating"
            return make_state("pod-waits-for-victims", headline, "kubelet", victims, objects.unread)
    condition = read_conditions(pod).get("PodScheduled") or {}
    if condition.get("reason") == "SchedulingGated":  # its gates are gone, and no scheduler has tried it since
        condition = {}
    causes = add_outdated(find_waiting_causes(pod, objects, now), pod, objects)
    if not condition and not (tried := _find_attempt_event(pod, objects)):
        return _find_not_tried(pod, causes, objects, now)
    if condition:  # it changes its message with an attempt, but its time only with its status
        ago, said, source = "", condition.get("message"), "status.conditions[PodScheduled]"
        at = condition.get("lastTransitionTime")
    else:
        at = read_event_time(tried)
        ago, source = format_ago(at, now), "Event FailedScheduling"
        said = tried.get("message") if tried["reason"] == _FAILED else ""  # events of other reasons follow
    if message := clean(said):
        causes.append(make_cause("no-node-found", f"{read_scheduler(pod)}{ago}: {message}", source, at=at))
    named = {cause["object"] for cause in causes}
    causes += (cause for cause in find_unread_claims(pod, objects) if cause["object"] not in named)
    causes += _list_extender_causes(pod, objects, now)
    if nominated and objects.is_absent("Node", nominated):
        text = f"it is still nominated for node {nominated}, which does not exist: preemption there helps it no longer"
        causes.append(make_cause("nominated-node-missing", text, "status.nominatedNodeName", of=f"Node/{nominated}"))
    why = causes[0]["text"] if causes else "its PodScheduled condition has no message"
    is_of_attempt = bool(causes) and causes[0]["code"] == "no-node-found"  # what was true then may not be so now
    why = f"Last attempt: {why}" if is_of_attempt else begin_sentence(why)
    return make_state("pod-waits-for-node", f"Pending: waits for a node. {why}", "user", causes, objects.unread)


def _find_attempt_event(pod: Json, objects: ClusterObjects) -> Json:
    """Return the last event of an attempt at the pod, or {}: FailedScheduling, or a warning of its scheduler."""
    events = list(reversed(_list_events(pod, objects)))
    failed = (event for event in events if event.get("reason") == _FAILED)
    return next(failed, None) or next((event for event in events if _is_warning_of(read_scheduler(pod), event)), {})


def _list_events(pod: Json, objects: ClusterObjects) -> list[Json]:
    """Return the events about a pod, and those about its PodGroup of Volcano, which speaks of the group first."""
    meta, events = pod["metadata"], objects.list_events({**pod, "kind": "Pod"})
    if group := (meta.get("annotations") or {}).get(_VOLCANO_GROUP):
        about = {"kind": "PodGroup", "metadata": {"name": group, "namespace": meta["namespace"]}}
        events = sorted([*events, *objects.list_events(about)], key=read_event_time)
    return events


def _is_warning_of(scheduler: str, event: Json) -> bool:
    component = read_reporter(event)
    return event.get("type") == "Warning" and component == scheduler


def _list_extender_causes(pod: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield what a scheduler or its extender says in events of its own, such as FilteringFailed: the newest of each."""
    scheduler, newest = read_scheduler(pod), dict[str, Json]()
    for event in _list_events(pod, objects):
        if _is_warning_of(scheduler, event) and event.get("reason") not in (_FAILED, "Preempted"):
            newest[str(event["reason"])] = event
    for reason, event in newest.items():
        at, message, about = read_event_time(event), clean(event.get("message")), event.get("involvedObject") or {}
        of = f"{about.get('kind')}/{about.get('name')}" if about.get("kind") == "PodGroup" else None
        text = f"{scheduler}{format_ago(at, now)}: {reason}{f' of {of}' if of else ''}: {message}"
        advice = find_remedy("queue", message)
        remedies = [make_remedy(advice)] if advice else []
        yield make_cause("no-node-found", text, f"Event {reason}", of=of, at=at, remedies=remedies)


def _find_victims(pod: Json, node: str, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return a cause for each pod that is terminating on the nominated node, as far as pods may be listed."""
    from herodotus_answers.live.pods.termination_causes import describe_termination, find_termination_causes

    causes = []
    for victim in objects.list_pods_of_node(node, pod["metadata"]["namespace"]).items:
        meta = victim["metadata"]
        if not meta.get("deletionTimestamp") or has_ended(victim):
            continue
        reasons = find_termination_causes(victim, objects, now)
        name = (
            meta["name"] if meta["namespace"] == pod["metadata"]["namespace"] else f"{meta['namespace']}/{meta['name']}"
        )
        priorities = [int(each["spec"].get("priority") or 0) for each in (victim, pod)]
        is_preempted = (read_conditions(victim).get("DisruptionTarget") or {}).get("reason") == "PreemptionByScheduler"
        if not is_preempted and priorities[0] >= priorities[1]:
            continue
        text = f"{name} on {node} is {'preempted and ' if is_preempted else ''}terminating"
        text += describe_termination(victim, now)
        text += f": {reasons[0]['text']}" if reasons else ""
        remedies = [remedy for reason in reasons for remedy in reason["remedies"]]
        at, source = meta["deletionTimestamp"], f"Pod/{meta['name']} metadata.deletionTimestamp"
        causes.append(make_cause("victim-terminating", text, source, of=f"Pod/{name}", at=at, remedies=remedies))
    return causes


# --- pods that no scheduler has tried -------------------------------------------------------------------------------


def _find_not_tried(pod: Json, causes: list[LiveCause], objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod without a condition or an event of a scheduler."""
    scheduler, created = read_scheduler(pod), pod["metadata"].get("creationTimestamp")
    age = now - (parse_time(created) or now)
    found = _explain_silence(pod, scheduler, age, objects, now)
    word = "Pending: not tried yet" if age < _FRESH else "Pending: never tried"
    headline = (
        f"{word} by {scheduler} in the {format_seconds(age.total_seconds())} since it was created: no condition"
        f"{', and its events cannot be read' if 'Event' in objects.unread else ' and no event of an attempt'}"
    )
    holder, is_silent = _find_holder(causes), found["code"] == "scheduler-silent"
    if found["code"] == "scheduler-unknown":
        headline = f"Pending: never tried. Nothing in the cluster shows a scheduler named {scheduler}"
    elif holder:  # which is why the scheduler has not tried it, unless its Lease says that it does not run
        headline = f"Pending: waits for its {holder}. {begin_sentence(causes[0]['text'])}"
        causes += [found] if is_silent and found["object"] else []
        return make_state("pod-not-tried", headline, "user", causes, objects.unread)
    elif is_silent:
        headline = f"{word}: {scheduler} seems not to run"
    return make_state("pod-not-tried", headline, "user", [found, *causes], objects.unread)


def _find_holder(causes: list[LiveCause]) -> str:
    """Return for what a scheduler waits before it tries a pod, by the pod's first cause; "" if for nothing."""
    code = causes[0]["code"] if causes else ""
    return next((holder for prefix, holder in _HOLDERS.items() if code.startswith(prefix)), "")


def _explain_silence(pod: Json, scheduler: str, age: timedelta, objects: ClusterObjects, now: datetime) -> LiveCause:
    """Return why a scheduler has not tried a pod, by its Lease and by what it did with other pods."""
    lease, is_known = find_lease(scheduler, objects)
    listed = objects.list_objects("Pod")
    if listed.missing:
        listed = objects.list_objects("Pod", pod["metadata"]["namespace"])
    tried = _find_last_attempts(listed.items)
    last = tried.get(scheduler, "")
    untried = sum(
        read_scheduler(each) == scheduler and not each["spec"].get("nodeName") and not read_conditions(each)
        for each in listed.items
        if not each["spec"].get("schedulingGates")
    )
    others = f"; {untried - 1} other pods of it are untried too" if untried > 1 else ""
    if lease is not None:
        name = f"{lease['metadata']['namespace']}/{lease['metadata']['name']}"
        renewed, left = lease["spec"].get("renewTime"), read_lease_left(lease, now)
        if left is not None and left < 0:
            text = f"{_describe_expired_lease(scheduler, lease, now)}{others}"
            remedy = make_remedy(f"look at the pods of {scheduler} and start it again")
            return make_cause(
                "scheduler-silent",
                text,
                "Lease spec.renewTime",
                of=f"Lease/{name.partition('/')[2]}",
                at=renewed,
                remedies=[remedy],
            )
        holder, ago = lease["spec"].get("holderIdentity") or "nobody", format_ago(renewed, now)
        text = f"{scheduler} runs: {holder} renewed its Lease {name}{ago}. It has not tried this pod{others}"
        of, remedies = f"Lease/{name.partition('/')[2]}", _see_scheduler(scheduler, str(holder), age)
        return make_cause("scheduler-behind", text, "Lease spec.renewTime", of=of, at=renewed, remedies=remedies)
    created = str(pod["metadata"].get("creationTimestamp") or "")
    if scheduler == DEFAULT_SCHEDULER and lease is None and is_known and last and last < created:
        ago = format_ago(last, now)
        text = "there is no Lease kube-system/kube-scheduler, and the last change of PodScheduled that"
        text += f" {scheduler} made on another pod was{ago}{others}"
        remedies = [make_remedy("start kube-scheduler, or see why it does not run")]
        return make_cause("scheduler-silent", text, "Leases, Pod status.conditions", at=last, remedies=remedies)
    if scheduler in tried:
        changed = f" (last change of PodScheduled{format_ago(last, now)})" if last else ""
        text = f"{scheduler} has tried other pods{changed}, and not this one{others}"
        remedies = _see_scheduler(scheduler, "", age)
        return make_cause("scheduler-behind", text, "Pod status.conditions[PodScheduled]", at=last, remedies=remedies)
    names = sorted(tried.keys() - {scheduler})
    if scheduler == DEFAULT_SCHEDULER:
        where = "there is no Lease kube-system/kube-scheduler" if is_known else "its Lease cannot be read"
        text = f"no sign of a running {scheduler}: {where}, and no pod that can be read was tried by it{others}"
        remedy = make_remedy("start kube-scheduler, or see why it does not run")
        look = "kubectl get pods -n kube-system -l component=kube-scheduler"
        source = "Leases, Pod status.conditions"
        return make_cause("scheduler-silent", text, source, remedies=[remedy], inspect=look)
    if find_lease(DEFAULT_SCHEDULER, objects)[0] is not None:
        names = sorted({*names, DEFAULT_SCHEDULER})
    known = f"; schedulers seen: {', '.join(names)}" if names else "; no other scheduler is seen either"
    where = "no Lease has its name" if is_known else "Leases cannot be read"
    text = f"schedulerName is {scheduler}, but {where} and no pod that can be read was tried by it{known}"
    remedies = _choose_scheduler(pod, scheduler, names, objects)
    return make_cause("scheduler-unknown", text, "spec.schedulerName, Leases, Pod status.conditions", remedies=remedies)


def _see_scheduler(scheduler: str, holder: str, age: timedelta) -> list[Remedy]:
    """Return where to look if a scheduler that runs has not tried a pod of some age; [] for a new pod."""
    if age < _LONG_UNTRIED:
        return []
    instance = f" of {holder}" if holder else ""
    what = f"see the log of {scheduler}{instance}: errors, a queue that does not move, or rights that it lacks; if it"
    return [make_remedy(f"{what} says nothing of the pod, start it again")]


def find_lease(scheduler: str, objects: ClusterObjects) -> tuple[Json | None, bool]:
    """Return the Lease of a scheduler, or None; and whether Leases could be read."""
    if scheduler == DEFAULT_SCHEDULER:
        lookup = objects.get("Lease", _DEFAULT_LEASE[1], _DEFAULT_LEASE[0])
        return lookup.object, lookup.object is not None or lookup.is_absent
    listed = objects.list_objects("Lease", fields=f"metadata.name={scheduler}")
    if not listed.missing:
        return next(iter(listed.items), None), True
    lookup = objects.get("Lease", scheduler, _DEFAULT_LEASE[0])
    return lookup.object, False


def read_lease_left(lease: Json, now: datetime) -> float | None:
    """Return for how many seconds a Lease is valid, negative if it has expired; None if that is not known."""
    renewed, duration = parse_time(lease["spec"].get("renewTime")), lease["spec"].get("leaseDurationSeconds")
    if renewed is None or duration is None:
        return None
    return (renewed + timedelta(seconds=int(duration)) - now).total_seconds()


def _describe_expired_lease(component: str, lease: Json, now: datetime) -> str:
    """Return the clause that the holder of a component's Lease does not renew it."""
    meta, spec = lease["metadata"], lease["spec"]
    holder, ago = spec.get("holderIdentity") or "nobody", format_ago(spec.get("renewTime"), now)
    name = f"{meta['namespace']}/{meta['name']}"
    return f"{component} does not renew its Lease {name}: held by {holder}, last renewed{ago}, expired"


def explain_silent_manager(objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the cause that kube-controller-manager does not run, by its Lease; None if it does or has no Lease.

    Without it no controller makes anything: no ReplicaSet, no Job, and no pod.
    """
    lease = objects.get("Lease", _MANAGER, "kube-system").object
    left = read_lease_left(lease, now) if lease is not None else None
    if lease is None or left is None or left >= 0:
        return None
    text = f"{_describe_expired_lease(_MANAGER, lease, now)}, so that no controller makes pods"
    remedies = [make_remedy(f"start {_MANAGER}, or see why it does not run")]
    look = f"kubectl get pods -n kube-system -l component={_MANAGER}"
    of, at = f"Lease/{_MANAGER}", lease["spec"].get("renewTime")
    return make_cause("controller-silent", text, "Lease spec.renewTime", of=of, at=at, remedies=remedies, inspect=look)


def _find_last_attempts(pods: Iterable[Json]) -> dict[str, str]:
    """Return the schedulers that have tried any of the pods, with the time of the last change, "" if unknown.

    A scheduler may have tried a pod again since then: only a first attempt, and one that binds, change the status.
    """
    last: dict[str, str] = {}
    for pod in pods:
        condition = read_conditions(pod).get("PodScheduled")
        if condition is None or was_created_with_node(pod):
            continue
        name, at = read_scheduler(pod), str(condition.get("lastTransitionTime") or "")
        last[name] = max(last.get(name, ""), at)
    return last


def _choose_scheduler(pod: Json, scheduler: str, known: list[str], objects: ClusterObjects) -> list[Remedy]:
    from difflib import get_close_matches  # here, because few pods name an unknown scheduler

    if not known:
        return []
    near = get_close_matches(scheduler, known, 1, _NEAR)
    chosen = near[0] if near else DEFAULT_SCHEDULER if DEFAULT_SCHEDULER in known else known[0]
    remedy = change_templates(pod, {"schedulerName": chosen}, f"set schedulerName: {chosen}", objects)
    if remedy is not None:
        return [remedy]
    owner = find_owner(pod, objects)
    who = f"{owner.label} and its template" if owner else "the pod"
    return [make_remedy(f"create {who} anew with schedulerName: {chosen}; it cannot be changed, or start {scheduler}")]


# --- pods that end --------------------------------------------------------------------------------------------------


def _find_terminating(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    from herodotus_answers.live.pods.disruptions import advise_on_disruption, find_disruption
    from herodotus_answers.live.pods.termination_causes import describe_termination, find_termination_causes

    node = pod["spec"].get("nodeName")
    who, blocking = find_disruption(pod, objects, now), find_termination_causes(pod, objects, now)
    where = f" on {node}" if node else ""
    by = f", {who[0]['text']}" if who else ""
    why = f": {blocking[0]['text']}" if blocking else ""
    phase = (pod.get("status") or {}).get("phase")
    ended = f" ({phase})" if phase in ("Succeeded", "Failed") else ""
    headline = f"Terminating{where}{describe_termination(pod, now)}{ended}{why or by}"
    may_pass = blocking and (
        blocking[0]["code"] == "grace-period"
        or (blocking[0]["code"] == "kubelet-cleanup" and not blocking[0]["remedies"])
    )
    is_stuck = blocking and not may_pass
    causes = [*blocking, *who] if is_stuck else [*who, *blocking]
    for cause in who[:1] if not is_stuck else ():
        cause["remedies"] = advise_on_disruption(pod, objects)
    return make_state("pod-terminating", headline, "user" if is_stuck else "kubelet", causes, objects.unread)


def _find_ended(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    from herodotus_answers.live.pods.pod_ending import describe_successor, find_completed_job, find_end

    code, causes = find_end(pod, objects, now)
    node = pod["spec"].get("nodeName")
    where = f" on {node}" if node else ""
    if code == "pod-succeeded":
        return make_state(code, f"Succeeded{where}: all containers have ended with success", None, [], objects.unread)
    verb = {
        "pod-evicted": f"Failed: evicted by the kubelet of {node}",
        "pod-preempted": f"Failed: preempted by the kubelet of {node}",
        "pod-rejected": f"Failed: rejected by the kubelet of {node}",
    }.get(code, f"Failed{where}")
    why = f": {causes[0]['text']}" if causes else ""
    headline = f"{verb}{why}. {describe_successor(pod, objects)}"
    is_over = find_completed_job(pod, objects) is not None
    for cause in causes if is_over else ():
        cause["remedies"] = []
    return make_state(code, headline, None if is_over else "user", causes, objects.unread)
