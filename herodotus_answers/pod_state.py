"""Find the state that a pod is really in, from its object, its events and the objects that it names.

Owns: the state, who has to act, and the timeline. Does not own: why a pod waits for a node beyond the decision
(`waiting_causes`), reading (`cluster_objects`), types (`live`). Pure.

Invariant: a sentence says only what an object or an event says, and names it. A pod that runs and is ready has no
state, and nothing is read for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.cluster_objects import count_event, read_event_time
from herodotus_answers.live_objects import build_cause, read_owner, read_scheduler
from herodotus_answers.unrecorded import was_created_with_node

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause, LiveState, TimelineEntry

Json = dict[str, Any]

MAX_TIMELINE: Final = 40
_MAX_EVENTS: Final = 3  # of warnings that are causes
_UNTRIED_S: Final = 30.0  # an older pod should have been tried
_TRUE, _FALSE = "True", "False"
# Reasons of a container that waits for nothing that is wrong.
_STARTING: Final = ("ContainerCreating", "PodInitializing", "")
_PULLING: Final = ("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError")
_CODES: Final = {
    **dict.fromkeys(_PULLING, "image-pull"),
    "CrashLoopBackOff": "crash-loop",
    "CreateContainerConfigError": "container-config",
    "CreateContainerError": "container-create",
    "RunContainerError": "container-run",
    "FailedCreatePodSandBox": "sandbox",
    "NetworkNotReady": "sandbox",
    "FailedMount": "volume-mount",
    "FailedAttachVolume": "volume-attach",
    "FailedMapVolume": "volume-mount",
    "Unhealthy": "probe",
    "FailedPrepareDynamicResources": "device-prepare",
}
# Reasons of the condition DisruptionTarget.
_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": "evicted through the API",
    "PreemptionByScheduler": "preempted by the scheduler for a pod of higher priority",
    "DeletionByTaintManager": "evicted because of a NoExecute taint of its node",
    "DeletionByPodGC": "deleted because its node is gone",
    "TerminationByKubelet": "ended by the kubelet",
}
# Reasons in status.reason of a pod that the kubelet ended or refused.
_KUBELET_REASONS: Final = {
    "Evicted": ("evicted", "was evicted by the kubelet"),
    "Preempting": ("preempted-by-kubelet", "was preempted by the kubelet for a critical pod"),
    "NodeShutdown": ("node-shutdown", "ended because its node was shut down"),
    "Terminated": ("node-shutdown", "ended because its node was shut down"),
    "Shutdown": ("node-shutdown", "ended because its node was shut down"),
    "DeadlineExceeded": ("deadline", "was ended at its activeDeadlineSeconds"),
    "NodeLost": ("node-lost", "was lost with its node"),
}


def find_state(pod: Json, objects: ClusterObjects, now: datetime, *, was_tried: bool = False) -> LiveState | None:
    """Return the state of a pod, or None if it runs and is ready, or if the decision about it says all.

    `was_tried` is whether a scheduler is known to have tried the pod.
    """
    status, spec, meta = pod.get("status") or {}, pod["spec"], pod["metadata"]
    reader = _Reader(pod, objects, now)
    if status.get("phase") in ("Succeeded", "Failed"):
        return reader.describe_ended()
    if meta.get("deletionTimestamp"):
        return reader.describe_terminating()
    if not spec.get("nodeName"):
        return reader.describe_waiting(was_tried=was_tried)
    resize = reader.describe_resize()
    if resize is None and status.get("phase") == "Running" and reader.is_true("Ready"):
        return None
    return reader.describe_on_node() or resize


def describe_without_decision(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod about which there is no decision: also that it runs, or what its scheduler says."""
    return find_state(pod, objects, now) or _Reader(pod, objects, now).describe_plainly()


def list_conditions(pod: Json) -> dict[str, Json]:
    """Return the pod's conditions by type."""
    return {str(c.get("type")): c for c in (pod.get("status") or {}).get("conditions") or ()}


def format_span(since: str | None, now: datetime) -> str:
    """Return how long ago a timestamp was, such as `12m`; "" if it is unknown."""
    if not since:
        return ""
    seconds = int((now - datetime.fromisoformat(since.replace("Z", "+00:00"))).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


class _Reader:
    """Describes one pod, and reads what it needs for that."""

    def __init__(self, pod: Json, objects: ClusterObjects, now: datetime) -> None:
        self._pod, self._objects, self._now = pod, objects, now
        self._meta, self._spec, self._status = pod["metadata"], pod["spec"], pod.get("status") or {}
        self._name, self._namespace = str(self._meta["name"]), str(self._meta["namespace"])
        self._node = str(self._spec.get("nodeName") or "")
        self._conditions = list_conditions(pod)
        self._events: list[Json] | None = None

    # --- the states ---

    def describe_ended(self) -> LiveState:
        """Describe a pod whose containers have ended, or that the kubelet refused."""
        phase, reason = self._status["phase"], str(self._status.get("reason") or "")
        message = str(self._status.get("message") or "")
        where = f" on {self._node}" if self._node else ""
        ended = [(name, s["state"]["terminated"]) for name, s in self._containers() if "terminated" in _state_of(s)]
        causes: list[LiveCause] = []
        if phase == "Succeeded":
            last = max((t.get("finishedAt") or "" for _, t in ended), default="")
            ago = f" {format_span(last, self._now)} ago" if last else ""
            return self._build("succeeded", f"Succeeded{where}: it ended{ago} and is not started again.", None, causes)
        if reason:
            code, verb = _KUBELET_REASONS.get(reason, ("rejected-by-kubelet", "was rejected by the kubelet"))
            headline = f"Failed: the pod {verb}{where} ({reason})."
            causes = [build_cause(code, message or reason, "status.reason and status.message", at=self._disrupted_at())]
            causes += self._warnings(("Evicted", "Preempting", "NodeShutdown"))
        else:
            failed = [(n, t) for n, t in ended if t.get("exitCode")]
            what = ", ".join(f"container {n} {_describe_exit(t)}" for n, t in failed[:3])
            headline = f"Failed{where}: {what or 'its containers have ended'}."
            causes = [
                build_cause(
                    "exit-code",
                    f"container {n} {_describe_exit(t)}",
                    "status.containerStatuses",
                    at=t.get("finishedAt"),
                )
                for n, t in failed[:3]
            ]
        owner = read_owner(self._pod)
        if owner and reason:
            headline += f" {owner} makes a new pod in its place."
        return self._build("failed", headline, "user" if not owner else None, causes)

    def describe_terminating(self) -> LiveState:
        """Describe a pod that is being deleted."""
        since = str(self._meta["deletionTimestamp"])
        grace = self._meta.get("deletionGracePeriodSeconds")
        finalizers = [str(f) for f in self._meta.get("finalizers") or ()]
        disruption = self._disruption()
        why = f", {disruption[0]}" if disruption else ""
        on = f" on {self._node}" if self._node else ""
        headline = f"Terminating{on} (deleted {format_span(since, self._now)} ago{why})"
        causes: list[LiveCause] = []
        actor: str | None = "kubelet"
        if finalizers:
            actor = "the owner of the finalizer"
            headline += f": its finalizer {', '.join(finalizers)} keeps the object."
            patch = '{"metadata":{"finalizers":null}}'
            remove = f"kubectl -n {self._namespace} patch pod {self._name} --type=merge -p '{patch}'"
            causes.append(
                build_cause(
                    "finalizer",
                    f"the finalizer {', '.join(finalizers)} has not been removed by its controller",
                    "metadata.finalizers",
                    f"Pod/{self._name}",
                    at=since,
                    remedies=[
                        ("let the controller of the finalizer finish, or see why it does not run", None),
                        ("remove the finalizer, if what it protects may be lost", remove),
                    ],
                )
            )
        else:
            headline += f": its containers get up to {grace}s to end." if grace else "."
        if disruption:
            causes.append(disruption[1])
        causes += self._warnings(("Evicted", "Preempting", "Preempted", "FailedKillPod", "TaintManagerEviction"))
        node = self._silent_node()
        if node is not None:
            causes.insert(0, node)
        return self._build("terminating", headline, actor, causes)

    def describe_waiting(self, *, was_tried: bool) -> LiveState | None:
        """Describe a pod without a node, or return None if the decision says all."""
        from herodotus_answers.waiting_causes import find_waiting_causes

        gates = [str(gate["name"]) for gate in self._spec.get("schedulingGates") or ()]
        if gates:
            listed = ", ".join(gates)
            gate = "gate" if len(gates) == 1 else "gates"
            headline = f"Waits for its scheduling {gate} {listed}: no scheduler tries it before they are removed."
            text = f"the scheduling {gate} {listed} {'is' if len(gates) == 1 else 'are'} still set"
            causes = [build_cause("gated", text, "spec.schedulingGates", at=self._meta.get("creationTimestamp"))]
            return self._build("gated", headline, "the controller that set the gate", causes)
        victim = self._find_victim()
        if victim is not None:
            return victim
        causes = find_waiting_causes(self._pod, self._objects)
        if causes:
            headline = f"Pending: {causes[0]['text']}."
            return self._build("waits-for-object", headline, "user", causes)
        return None if was_tried else self._describe_untried()

    def describe_resize(self) -> LiveState | None:
        """Describe a resize that the kubelet has not carried out, or return None if there is none."""
        condition = self._conditions.get("PodResizePending") or {}
        reason = str(condition.get("reason") or self._status.get("resize") or "")
        if not reason or (condition and condition.get("status") != _TRUE):
            return None
        wanted, allocated = describe_resize_amounts(self._pod)
        verb = "cannot be carried out (Infeasible)" if reason == "Infeasible" else f"is pending ({reason})"
        amounts = f": wants {wanted}, has {allocated}" if wanted else ""
        headline = f"Runs on {self._node}, and its resize {verb}{amounts}."
        message = str(condition.get("message") or "the kubelet has not granted the resize")
        cause = build_cause(
            "resize-pending", message, "condition PodResizePending", at=condition.get("lastTransitionTime")
        )
        return self._build("resize-pending", headline, "kubelet", [cause])

    def describe_on_node(self) -> LiveState | None:
        """Describe a pod with a node that does not run, or is not ready."""
        phase, node = str(self._status.get("phase") or "Pending"), self._node
        lost = self._lost_node()
        if lost is not None:
            return lost
        causes = [*self._container_causes(), *self._claim_causes()]
        codes = {cause["code"] for cause in causes}
        causes += [cause for cause in self._warnings(tuple(_CODES)) if cause["code"] not in codes]
        bypass = self._bypass()
        if phase == "Running":
            condition = self._conditions.get("Ready") or {}
            if condition.get("status") != _FALSE and not causes:
                return None
            waiting = ", ".join(name for name, s in self._containers() if not s.get("ready"))
            waiting = "" if causes and causes[0]["text"].startswith("container ") else waiting
            headline = f"Runs on {node}, not ready" + (f": container {waiting}" if waiting else "")
            headline += (
                f": {causes[0]['text']}."
                if causes
                else f" ({condition.get('message') or condition.get('reason') or 'its condition Ready is not true'})."
            )
            return self._build("not-ready", headline, "the application", [*causes, *self._gates_not_met()])
        what = f"{bypass} " if bypass else ""
        waits = (
            ", ".join(dict.fromkeys(f"container {n}, {r}" for n, r in self._waiting_reasons())) or "it has not started"
        )
        first = f": {causes[0]['text']}" if causes else ""
        if causes and causes[0]["source"] == "status.containerStatuses":
            return self._build("not-running", f"{what}On {node}, not running{first}.", "kubelet", causes)
        headline = f"{what}On {node}, not running: the kubelet waits ({waits}){first}."
        return self._build("not-running", headline, "kubelet", causes)

    def describe_plainly(self) -> LiveState:
        """Describe a pod that runs, or that waits for a node, by its own conditions."""
        if self._node:
            return self._build("running", f"Runs on {self._node}, and is ready.", None, [])
        condition = self._conditions.get("PodScheduled") or {}
        message = " ".join(str(condition.get("message") or "").split())
        since = format_span(condition.get("lastTransitionTime") or self._meta.get("creationTimestamp"), self._now)
        if not message:
            return self._build("pending", f"Pending for {since}: its conditions do not say why.", "scheduler", [])
        headline = f"Pending for {since}. {read_scheduler(self._pod)} says: {message}"
        cause = build_cause("unschedulable", message, "condition PodScheduled", at=condition.get("lastTransitionTime"))
        return self._build("pending", headline, "scheduler", [cause])

    # --- parts ---

    def is_true(self, condition: str) -> bool:
        return (self._conditions.get(condition) or {}).get("status") == _TRUE

    def _build(self, code: str, headline: str, actor: str | None, causes: list[LiveCause]) -> LiveState:
        return {
            "code": code,
            "headline": headline,
            "actor": actor,
            "causes": causes,
            "timeline": self._timeline(),
            "unread": sorted(self._objects.unread),
        }

    def _list_events(self) -> list[Json]:
        if self._events is None:
            uid = str(self._meta.get("uid") or "")
            self._events = self._objects.list_events("Pod", self._name, self._namespace, uid)
        return self._events

    def _warnings(self, reasons: tuple[str, ...]) -> list[LiveCause]:
        """Return the newest event of each of these reasons as a cause."""
        newest = {str(e.get("reason")): e for e in self._list_events() if e.get("reason") in reasons}
        ordered = sorted(newest.values(), key=read_event_time, reverse=True)[:_MAX_EVENTS]
        return [self._read_warning(event) for event in ordered]

    def _read_warning(self, event: Json) -> LiveCause:
        reason, count = str(event["reason"]), count_event(event)
        times = f", {count} times" if count > 1 else ""
        reporter = event.get("reportingComponent") or (event.get("source") or {}).get("component") or "unknown"
        text = f"{reason}{times}: {' '.join(str(event.get('message') or '').split())}".rstrip(": .")
        code = _CODES.get(reason, "event")
        return build_cause(code, text, f"Event {reason} of {reporter}", at=read_event_time(event) or None)

    def _containers(self) -> Iterator[tuple[str, Json]]:
        """Yield the container statuses, of init containers first."""
        for field in ("initContainerStatuses", "containerStatuses"):
            for status in self._status.get(field) or ():
                yield str(status.get("name")), status

    def _waiting_reasons(self) -> Iterator[tuple[str, str]]:
        for name, status in self._containers():
            waiting = _state_of(status).get("waiting")
            if waiting is not None and not status.get("ready"):
                yield name, str(waiting.get("reason") or "waiting")

    def _container_causes(self) -> list[LiveCause]:
        causes = []
        images = {
            str(c.get("name")): str(c.get("image") or "")
            for field in ("initContainers", "containers")
            for c in self._spec.get(field) or ()
        }
        is_init = {str(s.get("name")) for s in self._status.get("initContainerStatuses") or ()}
        for name, status in self._containers():
            waiting = _state_of(status).get("waiting") or {}
            reason = str(waiting.get("reason") or "")
            last = (status.get("lastState") or {}).get("terminated")
            label = f"{'init container' if name in is_init else 'container'} {name}"
            if reason in _STARTING:
                continue
            message = " ".join(str(waiting.get("message") or "").split()).rstrip(".")
            text = f"{label}: {reason}"
            if reason in _PULLING:
                text += f" of {images.get(name, '')}".rstrip()
            text += f" ({message})" if message and message != reason else ""
            remedies: list[tuple[str, str | None]] = []
            if reason == "CrashLoopBackOff":
                text = f"{label}: {reason}, {status.get('restartCount', 0)} restarts"
                text += f"; it {_describe_exit(last)} last" if last else ""
                logs = f"kubectl -n {self._namespace} logs {self._name} -c {name} --previous"
                remedies = [("see why the container ends", logs)]
            elif reason in _PULLING:
                remedies = [("name an image that exists, or give the pod the pull secret of its registry", None)]
            at = (last or {}).get("finishedAt")
            causes.append(
                build_cause(
                    _CODES.get(reason, "container-waits"),
                    text,
                    "status.containerStatuses",
                    f"Pod/{self._name}",
                    at=at,
                    remedies=remedies,
                )
            )
        return causes

    def _claim_causes(self) -> list[LiveCause]:
        """Return the unbound claims of a pod that has its node from the start, because no scheduler lets them bind."""
        if not was_created_with_node(self._pod):
            return []
        causes = []
        for volume in self._spec.get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = self._objects.get("PersistentVolumeClaim", name, self._namespace).object if name else None
            if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
                continue
            selector = f"spec.nodeSelector kubernetes.io/hostname: {self._node}"
            causes.append(
                build_cause(
                    "claim-unbound",
                    f"claim {name} is not bound: its class waits for a scheduler to place the first consumer,"
                    " and spec.nodeName bypassed the scheduler",
                    "status.phase",
                    f"PersistentVolumeClaim/{name}",
                    remedies=[(f"create the pod with {selector} in place of spec.nodeName", None)],
                )
            )
        return causes

    def _bypass(self) -> str:
        return "Created with spec.nodeName, so no scheduler decided it." if was_created_with_node(self._pod) else ""

    def _gates_not_met(self) -> list[LiveCause]:
        gates = [str(gate.get("conditionType")) for gate in self._spec.get("readinessGates") or ()]
        return [
            build_cause("readiness-gate", f"its readiness gate {gate} is not met", "spec.readinessGates")
            for gate in gates
            if not self.is_true(gate)
        ]

    def _disruption(self) -> tuple[str, LiveCause] | None:
        """Return who ends the pod in a clause, and the cause, or None if no condition says so."""
        condition = self._conditions.get("DisruptionTarget") or {}
        if condition.get("status") != _TRUE:
            return None
        reason = str(condition.get("reason") or "")
        clause = _DISRUPTIONS.get(reason, f"disrupted ({reason})")
        message = str(condition.get("message") or clause)
        at = condition.get("lastTransitionTime")
        return clause, build_cause("disrupted", f"{reason}: {message}", "condition DisruptionTarget", at=at)

    def _disrupted_at(self) -> str | None:
        return (self._conditions.get("DisruptionTarget") or {}).get("lastTransitionTime")

    def _lost_node(self) -> LiveState | None:
        """Describe a pod whose node does not exist, or whose kubelet is silent; None if its node is well."""
        lookup = self._objects.get("Node", self._node)
        if lookup.is_absent:
            bypass = self._bypass()
            headline = f"On {self._node}, a node that does not exist: no kubelet runs the pod."
            headline = f"{headline} {bypass}" if bypass else headline
            text = f"node {self._node} does not exist"
            delete = f"kubectl -n {self._namespace} delete pod {self._name}"
            remedy = (
                "delete the pod, so that its owner makes a new one"
                if read_owner(self._pod)
                else "delete the pod, and create it without spec.nodeName",
                delete,
            )
            cause = build_cause("node-gone", text, "spec.nodeName", f"Node/{self._node}", remedies=[remedy])
            return self._build("node-gone", headline, "user", [cause])
        silent = self._silent_node()
        if silent is None:
            return None
        shown = f"Shown as {self._status.get('phase')} on {self._node}, whose kubelet does not report"
        headline = f"{shown}: whether it still runs is unknown."
        return self._build(
            "node-not-ready", f"{headline} {self._describe_taint_eviction()}".rstrip(), "kubelet", [silent]
        )

    def _silent_node(self) -> LiveCause | None:
        """Return the cause that the pod's node is not ready, or None if it is, or is not known."""
        node = self._objects.get("Node", self._node).object if self._node else None
        conditions = list_conditions(node) if node is not None else {}
        ready = conditions.get("Ready")
        if ready is None or ready.get("status") == _TRUE:
            return None
        since = format_span(ready.get("lastTransitionTime"), self._now)
        message = ready.get("message") or ready.get("reason") or "its kubelet does not report"
        text = (
            f"node {self._node} is not ready (Ready={ready.get('status')}{f' for {since}' if since else ''}): {message}"
        )
        remedy = ("see the node: its kubelet, network and machine", f"kubectl describe node {self._node}")
        return build_cause(
            "node-not-ready",
            text.rstrip("."),
            "condition Ready",
            f"Node/{self._node}",
            at=ready.get("lastTransitionTime"),
            remedies=[remedy],
        )

    def _describe_taint_eviction(self) -> str:
        """Return when the taint manager evicts the pod from its node, or "" if no taint says so."""
        node = self._objects.get("Node", self._node).object or {}
        taints = [t for t in (node.get("spec") or {}).get("taints") or () if t.get("effect") == "NoExecute"]
        for taint in taints:
            tolerated = [
                t
                for t in self._spec.get("tolerations") or ()
                if t.get("key") in (None, "", taint["key"]) and t.get("effect") in (None, "", "NoExecute")
            ]
            seconds = [t["tolerationSeconds"] for t in tolerated if t.get("tolerationSeconds") is not None]
            if not tolerated:
                return f"It will be evicted because of the taint {taint['key']}."
            if len(seconds) == len(tolerated):
                return f"It will be evicted {min(seconds)}s after the taint {taint['key']} was set."
        return "" if not taints else "It tolerates the node's taints for ever, so it is not evicted."

    def _find_victim(self) -> LiveState | None:
        """Describe a nominated pod that waits for a preemption victim which is still terminating."""
        node = self._status.get("nominatedNodeName")
        if not node:
            return None
        listed = self._objects.list_objects("Pod", fields=f"spec.nodeName={node}")
        pods = listed.items or self._objects.list_objects("Pod", self._namespace, fields=f"spec.nodeName={node}").items
        ending = [p for p in pods if p["metadata"].get("deletionTimestamp")]
        ending.sort(key=lambda p: (not _is_victim(p), p["metadata"]["deletionTimestamp"]))
        if not ending:
            return None
        causes = [self._describe_victim(p) for p in ending[:3]]
        headline = f"Nominated for {node}, and waits there: {causes[0]['text']}."
        return self._build("waits-for-victim", headline, "kubelet", causes)

    def _describe_victim(self, victim: Json) -> LiveCause:
        meta = victim["metadata"]
        name, namespace = str(meta["name"]), str(meta["namespace"])
        since = format_span(meta["deletionTimestamp"], self._now)
        finalizers = ", ".join(str(f) for f in meta.get("finalizers") or ())
        text = f"pod {namespace}/{name} is still terminating (deleted {since} ago)"
        text += f": its finalizer {finalizers} has not been removed" if finalizers else ""
        if finalizers:
            patch = '{"metadata":{"finalizers":null}}'
            remedies: list[tuple[str, str | None]] = [
                ("let the controller of the finalizer finish, or see why it does not run", None),
                (
                    "remove the finalizer, if what it protects may be lost",
                    f"kubectl -n {namespace} patch pod {name} --type=merge -p '{patch}'",
                ),
            ]
        else:
            force = f"kubectl -n {namespace} delete pod {name} --grace-period=0 --force"
            remedies = [
                (f"see whether the kubelet of {victim['spec'].get('nodeName')} works", None),
                ("delete it by force, if its containers may still run for a while", force),
            ]
        return build_cause(
            "victim-terminating",
            text,
            "metadata.deletionTimestamp",
            f"Pod/{name}",
            at=meta["deletionTimestamp"],
            remedies=remedies,
        )

    def _describe_untried(self) -> LiveState | None:
        """Describe a pod that no scheduler has tried, or return None if one has, or if it may be about to."""
        if "PodScheduled" in self._conditions or any(
            e.get("reason") == "FailedScheduling" for e in self._list_events()
        ):
            return None
        created, scheduler = str(self._meta.get("creationTimestamp") or ""), read_scheduler(self._pod)
        silent = self._find_silent_scheduler(scheduler)
        is_old = _age_s(created, self._now) > _UNTRIED_S
        if silent is None and not is_old:
            return None
        headline = f"No scheduler has tried the pod in {format_span(created, self._now)}: it has no condition and no"
        headline += f" event of {scheduler}" + (f", and {silent['text']}." if silent else ".")
        cause = silent or build_cause("never-tried", f"{scheduler} has not tried the pod", "status.conditions")
        if is_old:
            text = f"see whether {scheduler} runs, or set spec.schedulerName to a scheduler that does"
            cause["remedies"] = [{"text": text, "command": None}]
        return self._build("never-tried", headline, scheduler, [cause])

    def _find_silent_scheduler(self, scheduler: str) -> LiveCause | None:
        """Return what the Lease of a scheduler says against its running, or None if it does not, or cannot be read."""
        name = "kube-scheduler" if scheduler == "default-scheduler" else scheduler
        lease = self._objects.get("Lease", name, "kube-system")
        if lease.is_absent:
            text = f"{scheduler} has no Lease kube-system/{name}, as a running scheduler has"
            return build_cause("never-tried", text, "Lease", f"Lease/{name}")
        spec = (lease.object or {}).get("spec") or {}
        renewed = str(spec.get("renewTime") or "")
        if renewed and _age_s(renewed, self._now) > 2 * float(spec.get("leaseDurationSeconds") or 15):
            text = f"{scheduler} renewed its Lease kube-system/{name} {format_span(renewed, self._now)} ago"
            return build_cause("never-tried", text, "Lease", f"Lease/{name}", at=renewed)
        return None

    # --- the timeline ---

    def _timeline(self) -> list[TimelineEntry]:
        """Return what happened, oldest first, at most MAX_TIMELINE entries, of which the newest count."""
        entries: list[tuple[str, str, str]] = [
            (str(self._meta.get("creationTimestamp") or ""), "metadata.creationTimestamp", f"created{_by(self._pod)}"),
            (str(self._meta.get("deletionTimestamp") or ""), "metadata.deletionTimestamp", "deletion requested"),
        ]
        for kind, condition in self._conditions.items():
            at = str(condition.get("lastTransitionTime") or "")
            words = ": ".join(filter(None, (f"{kind}={condition.get('status')}", condition.get("reason"))))
            entries.append((at, f"condition {kind}", words))
        for name, status in self._containers():
            for field in ("lastState", "state"):
                state = status.get(field) or {}
                terminated, running = state.get("terminated") or {}, state.get("running") or {}
                where = f"status of container {name}"
                entries.append((str(running.get("startedAt") or ""), where, f"container {name} started"))
                if terminated:
                    entries.append(
                        (
                            str(terminated.get("finishedAt") or ""),
                            where,
                            f"container {name} {_describe_exit(terminated)}",
                        )
                    )
        for event in self._list_events():
            reporter = event.get("reportingComponent") or (event.get("source") or {}).get("component") or "unknown"
            times = f" ({count_event(event)} times)" if count_event(event) > 1 else ""
            message = " ".join(str(event.get("message") or "").split())
            entries.append((read_event_time(event), f"Event {event.get('reason')} of {reporter}", f"{message}{times}"))
        known = sorted({entry for entry in entries if entry[0]}, key=lambda e: _age_s(e[0], self._now), reverse=True)
        return [{"at": at, "source": source, "text": text} for at, source, text in known[-MAX_TIMELINE:]]


def describe_resize_amounts(pod: Json) -> tuple[str, str]:
    """Return what a pod's containers request and what they have allocated, where these differ: `cpu 12` and `cpu 1`."""
    statuses = {s.get("name"): s for s in (pod.get("status") or {}).get("containerStatuses") or ()}
    wanted, allocated = [], []
    for container in pod["spec"].get("containers") or ():
        status = statuses.get(container.get("name")) or {}
        present = status.get("allocatedResources") or ((status.get("resources") or {}).get("requests")) or {}
        for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            if resource in present and str(present[resource]) != str(amount):
                wanted.append(f"{resource} {amount}")
                allocated.append(f"{resource} {present[resource]}")
    return ", ".join(wanted), ", ".join(allocated)


def _state_of(status: Json) -> Json:
    state: Json = status.get("state") or {}
    return state


def _describe_exit(terminated: Json) -> str:
    reason = str(terminated.get("reason") or "")
    code = terminated.get("exitCode")
    return f"ended with exit code {code}" + (f" ({reason})" if reason and reason not in ("Error", "Completed") else "")


def _is_victim(pod: Json) -> bool:
    return (list_conditions(pod).get("DisruptionTarget") or {}).get("reason") == "PreemptionByScheduler"


def _by(pod: Json) -> str:
    owner = read_owner(pod)
    return f" by {owner}" if owner else ""


def _age_s(since: str, now: datetime) -> float:
    """Return how many seconds ago a timestamp was; 0 if it is unknown."""
    return (now - datetime.fromisoformat(since.replace("Z", "+00:00"))).total_seconds() if since else 0.0
