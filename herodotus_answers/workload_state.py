"""Find the state that a workload is really in: how many pods it wants and has, and what keeps the others away.

Owns: the state, and what the refusals of admission plugins mean. Does not own: reading (`cluster_objects`), types
(`live`), where pods were placed (`workload`). Pure.

Invariant: a refusal is quoted as the controller reported it, and an object that it names is called missing only if the
API server has no such object.

Source of the messages: kube-apiserver's admission plugins (resourcequota, limitranger, podsecurity, serviceaccount,
priority, runtimeclass) and its webhook dispatcher, v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.cluster_objects import count_event, read_event_time
from herodotus_answers.live_objects import build_cause

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause, LiveState, TimelineEntry

Json = dict[str, Any]

KINDS: Final = {
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "replicaset": "ReplicaSet",
    "daemonset": "DaemonSet",
    "job": "Job",
    "cronjob": "CronJob",
    "replicationcontroller": "ReplicationController",
}
_MAX_REFUSALS: Final = 3
_MAX_TIMELINE: Final = 20
_Match = re.Match[str]


def find_workload_state(kind: str, name: str, namespace: str, objects: ClusterObjects) -> LiveState | None:
    """Return the state of a workload, or None if there is no such object or if it cannot be read.

    `kind` is a value of KINDS.
    """
    workload = objects.get(kind, name, namespace).object
    return None if workload is None else _Workload(kind, workload, objects).describe()


def list_pods(workload: Json, objects: ClusterObjects) -> list[Json]:
    """Return the pods that a workload's selector selects, as far as they can be read."""
    selector = workload["spec"].get("selector") or {}
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    if not labels:
        return []
    text = ",".join(f"{key}={value}" for key, value in labels.items())
    return objects.list_objects("Pod", workload["metadata"]["namespace"], labels=text).items


class _Workload:
    """Describes one workload."""

    def __init__(self, kind: str, workload: Json, objects: ClusterObjects) -> None:
        self._kind, self._objects = kind, objects
        self._meta, self._spec = workload["metadata"], workload["spec"]
        self._status = workload.get("status") or {}
        self._name, self._namespace = str(self._meta["name"]), str(self._meta["namespace"])
        self._about = f"{kind}/{self._name}"
        self._conditions = {str(c.get("type")): c for c in self._status.get("conditions") or ()}

    def describe(self) -> LiveState:
        """Return the state: one that somebody set, one without pods, or the numbers of its pods."""
        if self._kind == "CronJob":
            return self._describe_cron_job()
        if self._kind == "Job":
            return self._describe_job()
        if self._kind == "DaemonSet":
            return self._describe_daemon_set()
        wanted, created = int(self._spec.get("replicas", 1)), int(self._status.get("replicas") or 0)
        exist = f"{created} of {wanted} pods exist"
        if self._spec.get("paused"):
            resume = self._command(f"rollout resume deployment/{self._name}")
            text = f"{self._about} is paused, so changes of it are not rolled out"
            cause = self._cause("paused", text, "spec.paused", ("resume the rollout", resume))
            return self._build("paused", f"Paused: changes are not rolled out. {exist}.", "user", [cause])
        if not wanted:
            scale = self._command(f"scale {self._kind.lower()}/{self._name} --replicas=1")
            text = f"{self._about} asks for 0 pods (spec.replicas is 0){self._scaler()}"
            cause = self._cause("scaled-to-zero", text, "spec.replicas", ("scale it up", scale))
            return self._build("scaled-to-zero", "Scaled to 0 replicas, so it has no pods.", "user", [cause])
        refusals = self._list_refusals() if created < wanted else []
        if refusals:
            headline = f"Not created: {wanted - created} of {wanted} pods, because {refusals[0]['text']}."
            headline += f" {exist}." if created else f" 0 of {wanted} pods exist."
            return self._build("not-created", headline, "user", refusals)
        return self._describe_numbers(wanted, created)

    def _describe_numbers(self, wanted: int, created: int) -> LiveState:
        ready = int(self._status.get("readyReplicas") or 0)
        updated = int(self._status.get("updatedReplicas") or 0)
        numbers = f"{ready} of {wanted} pods ready, {created} created"
        numbers += f", {updated} of the present template" if self._kind in ("Deployment", "StatefulSet") else ""
        progressing = self._conditions.get("Progressing") or {}
        if progressing.get("reason") == "ProgressDeadlineExceeded":
            text = f"the rollout makes no progress: {progressing.get('message') or 'its deadline has passed'}"
            cause = self._cause(
                "rollout-stuck", text.rstrip("."), "condition Progressing", at=progressing.get("lastTransitionTime")
            )
            return self._build("rollout-stuck", f"Its rollout is stuck: {numbers}.", "user", [cause])
        if ready >= wanted:
            return self._build("available", f"Available: {numbers}.", None, [])
        return self._build("progressing", f"Not complete: {numbers}.", None, [])

    def _describe_job(self) -> LiveState:
        succeeded, active = int(self._status.get("succeeded") or 0), int(self._status.get("active") or 0)
        failed = int(self._status.get("failed") or 0)
        wanted = self._spec.get("completions") or self._spec.get("parallelism") or 1
        numbers = f"{succeeded} of {wanted} completions, {active} pods active, {failed} failed"
        if self._spec.get("suspend"):
            resume = self._command(f'patch job/{self._name} --type=merge -p \'{{"spec":{{"suspend":false}}}}\'')
            cause = self._cause("suspended", f"{self._about} is suspended", "spec.suspend", ("resume it", resume))
            return self._build("suspended", f"Suspended: it makes no pods ({numbers}).", "user", [cause])
        for kind, verb in (("Failed", "Failed"), ("FailureTarget", "Failing")):
            condition = self._conditions.get(kind) or {}
            if condition.get("status") == "True":
                text = f"{condition.get('reason')}: {condition.get('message') or numbers}"
                cause = self._cause("job-failed", text, f"condition {kind}", at=condition.get("lastTransitionTime"))
                return self._build("job-failed", f"{verb}: {text}.".replace("..", "."), "user", [cause])
        if (self._conditions.get("Complete") or {}).get("status") == "True":
            return self._build("complete", f"Complete: {numbers}.", None, [])
        refusals = self._list_refusals() if not active + succeeded + failed else []
        if refusals:
            headline = f"Not created: no pod of the Job exists, because {refusals[0]['text']}."
            return self._build("not-created", headline, "user", refusals)
        return self._build("progressing", f"Runs: {numbers}.", None, [])

    def _describe_cron_job(self) -> LiveState:
        schedule = self._spec.get("schedule")
        last = self._status.get("lastScheduleTime")
        ran = f"last run {last}" if last else "it has never run"
        if self._spec.get("suspend"):
            resume = self._command(f'patch cronjob/{self._name} --type=merge -p \'{{"spec":{{"suspend":false}}}}\'')
            cause = self._cause("suspended", f"{self._about} is suspended", "spec.suspend", ("resume it", resume))
            return self._build("suspended", f"Suspended: it makes no Jobs ({ran}).", "user", [cause])
        refusals = self._list_refusals()
        active = len(self._status.get("active") or ())
        headline = f"Scheduled at {schedule!r}, {ran}; {active} Jobs active."
        return self._build("not-created" if refusals else "progressing", headline, None, refusals)

    def _describe_daemon_set(self) -> LiveState:
        wanted = int(self._status.get("desiredNumberScheduled") or 0)
        created, ready = int(self._status.get("currentNumberScheduled") or 0), int(self._status.get("numberReady") or 0)
        refusals = self._list_refusals() if created < wanted or not wanted else []
        if refusals:
            headline = f"Not created: {max(wanted - created, 0)} of {wanted} pods, because {refusals[0]['text']}."
            return self._build("not-created", headline, "user", refusals)
        if not wanted:
            selector = (self._spec.get("template") or {}).get("spec", {}).get("nodeSelector") or {}
            listed = ", ".join(f"{key}={value}" for key, value in selector.items())
            text = f"no node matches its node selector {listed}" if listed else "no node is eligible for its pods"
            cause = self._cause(
                "no-eligible-node",
                text,
                "status.desiredNumberScheduled",
                ("label the nodes that should run it, or change the selector", None),
            )
            return self._build("no-eligible-node", f"Wants 0 pods: {text}.", "user", [cause])
        code = "available" if ready >= wanted else "progressing"
        return self._build(
            code, f"{ready} of {wanted} pods ready, {created} created, one for each eligible node.", None, []
        )

    # --- refusals ---

    def _list_refusals(self) -> list[LiveCause]:
        """Return why pods are not created, from the newest events and conditions of the workload and its ReplicaSets."""
        refusals: dict[str, LiveCause] = {}
        for message, source, at in self._list_messages():
            cause = self._explain(" ".join(message.split()), source, at)
            refusals.setdefault(cause["text"], cause)
        return list(refusals.values())[:_MAX_REFUSALS]

    def _list_messages(self) -> Iterator[tuple[str, str, str]]:
        """Yield the messages of refusals with their source and time, the newest event first."""
        owners = [(self._kind, self._name)]
        if self._kind == "Deployment":
            sets = self._objects.list_objects("ReplicaSet", self._namespace).items
            owners += [("ReplicaSet", str(s["metadata"]["name"])) for s in sets if _is_owned(s, self._name)]
        events = [
            (event, f"Event FailedCreate of {kind}/{name}")
            for kind, name in owners
            for event in self._objects.list_events(kind, name, self._namespace)
            if event.get("reason") == "FailedCreate"
        ]
        for event, source in sorted(events, key=lambda e: read_event_time(e[0]), reverse=True)[:1]:
            times = f", {count_event(event)} times" if count_event(event) > 1 else ""
            yield str(event.get("message") or ""), f"{source}{times}", read_event_time(event)
        failure = self._conditions.get("ReplicaFailure") or {}
        if failure.get("status") == "True" and not events:
            yield (
                str(failure.get("message") or ""),
                "condition ReplicaFailure",
                str(failure.get("lastTransitionTime") or ""),
            )

    def _explain(self, message: str, source: str, at: str) -> LiveCause:
        """Return the cause that a refusal states."""
        for pattern, explain in _REFUSALS:
            match = re.search(pattern, message)
            if match is not None:
                return explain(self, match, message, source, at or None)
        return build_cause("not-created", message.rstrip("."), source, self._about, at=at or None)

    def _explain_quota(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        quota, requested, used, limited = match["quota"], match["requested"], match["used"], match["limited"]
        text = f"quota {quota} is used up: each pod asks {requested}, used {used} of {limited}"
        see = self._command(f"describe resourcequota {quota}")
        return self._refusal(
            "quota-exceeded",
            text,
            source,
            at,
            f"ResourceQuota/{quota}",
            (f"raise the quota {quota}, free what other pods use of it, or ask for less", see),
        )

    def _explain_quota_without(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        text = f"quota {match['quota']} requires {match['what'].rstrip('.')} to be set, and the pods do not set it"
        return self._refusal(
            "quota-needs-requests",
            text,
            source,
            at,
            f"ResourceQuota/{match['quota']}",
            ("set these requests or limits in the pod template, or add a LimitRange with defaults", None),
        )

    def _explain_limit(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        ranges = [str(r["metadata"]["name"]) for r in self._objects.list_objects("LimitRange", self._namespace).items]
        which = f"LimitRange {', '.join(ranges)}" if ranges else "a LimitRange of the namespace"
        text = f"{which} refuses the pods: {match['rule'].rstrip('.')}"
        about = f"LimitRange/{ranges[0]}" if len(ranges) == 1 else None
        return self._refusal(
            "limit-range", text, source, at, about, ("keep the requests and limits of the pod template within it", None)
        )

    def _explain_security(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        text = f"namespace {self._namespace} enforces {match['policy']}, which the pods violate: {match['rule'].rstrip('.')}"
        return self._refusal(
            "pod-security",
            text,
            source,
            at,
            f"Namespace/{self._namespace}",
            ("change the pod template as the policy demands, or the namespace's pod-security label", None),
        )

    def _explain_account(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        name = match["name"]
        create = self._command(f"create serviceaccount {name}")
        return self._missing("ServiceAccount", name, self._namespace, "service account", source, at, create)

    def _explain_priority(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        return self._missing("PriorityClass", match["name"], "", "priority class", source, at, None)

    def _explain_runtime(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        return self._missing("RuntimeClass", match["name"], "", "runtime class", source, at, None)

    def _explain_webhook(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        text = f"the admission webhook {match['name']} failed: {match['why'].rstrip('.')}"
        return self._refusal(
            "webhook-failed",
            text,
            source,
            at,
            None,
            ("see the service behind the webhook, or the webhook's failurePolicy", None),
        )

    def _explain_denied(self, match: _Match, message: str, source: str, at: str | None) -> LiveCause:
        text = f"the admission webhook {match['name']} denied the pods: {match['why'].rstrip('.')}"
        return self._refusal(
            "webhook-denied", text, source, at, None, ("change the pod template as the webhook demands", None)
        )

    def _missing(
        self, kind: str, name: str, namespace: str, words: str, source: str, at: str | None, create: str | None
    ) -> LiveCause:
        """Return the cause that an object which the pods name was not found, and whether it exists now."""
        text = f"{words} {name} does not exist"
        if self._objects.get(kind, name, namespace).object is not None:
            text = f"{words} {name} did not exist when a pod was last tried; it exists now"
        remedy = (f"create the {words} {name}, or name one that exists in the pod template", create)
        return self._refusal(f"{words.replace(' ', '-')}-missing", text, source, at, f"{kind}/{name}", remedy)

    # --- parts ---

    def _command(self, words: str) -> str:
        return f"kubectl -n {self._namespace} {words}"

    def _scaler(self) -> str:
        """Return a clause on an annotation that names who scales the workload; "" if none does."""
        annotations = self._meta.get("annotations") or {}
        named = [f"{key}={value}" for key, value in annotations.items() if "scal" in key and len(str(value)) < 64]
        return f"; annotation {', '.join(named[:2])}" if named else ""

    def _cause(
        self, code: str, text: str, source: str, remedy: tuple[str, str | None] | None = None, at: str | None = None
    ) -> LiveCause:
        return build_cause(code, text, source, self._about, at=at, remedies=[remedy] if remedy else [])

    def _refusal(
        self, code: str, text: str, source: str, at: str | None, about: str | None, remedy: tuple[str, str | None]
    ) -> LiveCause:
        return build_cause(code, text, source, about, at=at, remedies=[remedy])

    def _build(self, code: str, headline: str, actor: str | None, causes: list[LiveCause]) -> LiveState:
        events = self._objects.list_events(self._kind, self._name, self._namespace) if causes else []
        timeline: list[TimelineEntry] = [
            {
                "at": read_event_time(event),
                "source": f"Event {event.get('reason')}",
                "text": " ".join(str(event.get("message") or "").split()),
            }
            for event in events[-_MAX_TIMELINE:]
        ]
        return {
            "code": code,
            "headline": headline,
            "actor": actor,
            "causes": causes,
            "timeline": timeline,
            "unread": sorted(self._objects.unread),
        }


_Explain = Callable[[_Workload, _Match, str, str, "str | None"], "LiveCause"]
_REFUSALS: Final[tuple[tuple[str, _Explain], ...]] = (
    (
        r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+), used: (?P<used>.+), limited: (?P<limited>.+)",
        _Workload._explain_quota,
    ),
    (r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.+)", _Workload._explain_quota_without),
    (
        r"is forbidden: \[?(?P<rule>(?:maximum|minimum|max|min|cpu|memory|ephemeral-storage)\b.+(?:per (?:Container|Pod|PersistentVolumeClaim)|ratio).+?)\]?$",
        _Workload._explain_limit,
    ),
    (r"violates (?P<policy>PodSecurity \"[^\"]+\"): (?P<rule>.+)", _Workload._explain_security),
    (r"serviceaccount \"(?P<name>[^\"]+)\" not found", _Workload._explain_account),
    (r"no PriorityClass with name (?P<name>\S+) was found", _Workload._explain_priority),
    (r"RuntimeClass \"(?P<name>[^\"]+)\" not found", _Workload._explain_runtime),
    (r"failed calling webhook \"(?P<name>[^\"]+)\": (?P<why>.+)", _Workload._explain_webhook),
    (r"admission webhook \"(?P<name>[^\"]+)\" denied the request: (?P<why>.+)", _Workload._explain_denied),
)


def _is_owned(obj: Json, owner: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(o.get("controller") and o.get("kind") == "Deployment" and o.get("name") == owner for o in owners)
