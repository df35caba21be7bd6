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
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from herodotus_answers.cluster_objects import count_event, read_event_time
from herodotus_answers.live_objects import build_cause

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause, LiveState

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


class _Refusal(NamedTuple):
    """A refusal of an admission plugin: what its message looks like, and what it means.

    The texts are templates of the pattern's groups, of `namespace`, and for a LimitRange of `ranges`. `command` is a
    kubectl command that helps, without `kubectl -n NAMESPACE`; "" if none is certain.
    """

    code: str
    pattern: str
    text: str
    about: str
    remedy: str
    command: str = ""


_REFUSALS: Final = (
    _Refusal(
        "quota-exceeded",
        r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+), used: (?P<used>.+), limited: (?P<limit>.+)",
        "quota {quota} is used up: each pod asks {requested}, used {used} of {limit}",
        "ResourceQuota/{quota}",
        "raise the quota {quota}, free what other pods use of it, or ask for less",
        "describe resourcequota {quota}",
    ),
    _Refusal(
        "quota-needs-requests",
        r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.+)",
        "quota {quota} requires {what} to be set, and the pods do not set it",
        "ResourceQuota/{quota}",
        "set these requests or limits in the pod template, or add a LimitRange with defaults",
    ),
    _Refusal(
        "limit-range",
        r"is forbidden: \[?(?P<rule>.+(?:per (?:Container|Pod)|ratio).+?)\]?$",
        "LimitRange {ranges} refuses the pods: {rule}",
        "LimitRange/{ranges}",
        "keep the requests and limits of the pod template within it",
    ),
    _Refusal(
        "pod-security",
        r"violates (?P<policy>PodSecurity \"[^\"]+\"): (?P<rule>.+)",
        "namespace {namespace} enforces {policy}, which the pods violate: {rule}",
        "Namespace/{namespace}",
        "change the pod template as the policy demands, or the namespace's pod-security label",
    ),
    _Refusal(
        "service-account-missing",
        r"serviceaccount \"(?P<name>[^\"]+)\" not found",
        "service account {name} does not exist",
        "ServiceAccount/{name}",
        "create the service account {name}, or name one that exists in the pod template",
        "create serviceaccount {name}",
    ),
    _Refusal(
        "priority-class-missing",
        r"no PriorityClass with name (?P<name>\S+) was found",
        "priority class {name} does not exist",
        "PriorityClass/{name}",
        "create the priority class {name}, or name one that exists in the pod template",
    ),
    _Refusal(
        "runtime-class-missing",
        r"RuntimeClass \"(?P<name>[^\"]+)\" not found",
        "runtime class {name} does not exist",
        "RuntimeClass/{name}",
        "create the runtime class {name}, or name one that exists in the pod template",
    ),
    _Refusal(
        "webhook-failed",
        r"failed calling webhook \"(?P<name>[^\"]+)\": (?P<why>.+)",
        "the admission webhook {name} failed: {why}",
        "",
        "see the service behind the webhook, or the webhook's failurePolicy",
    ),
    _Refusal(
        "webhook-denied",
        r"admission webhook \"(?P<name>[^\"]+)\" denied the request: (?P<why>.+)",
        "the admission webhook {name} denied the pods: {why}",
        "",
        "change the pod template as the webhook demands",
    ),
)
_MISSING: Final = ("service-account-missing", "priority-class-missing", "runtime-class-missing")


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
            remedy = ("label the nodes that should run it, or change the selector", None)
            cause = self._cause("no-eligible-node", text, "status.desiredNumberScheduled", remedy)
            return self._build("no-eligible-node", f"Wants 0 pods: {text}.", "user", [cause])
        code = "available" if ready >= wanted else "progressing"
        return self._build(
            code, f"{ready} of {wanted} pods ready, {created} created, one for each eligible node.", None, []
        )

    # --- refusals ---

    def _list_refusals(self) -> list[LiveCause]:
        """Return why pods are not created, by the newest event or condition of the workload and its ReplicaSets."""
        refusals: dict[str, LiveCause] = {}
        for message, source, at in self._list_messages():
            cause = self._explain(" ".join(message.split()), source, at)
            refusals.setdefault(cause["text"], cause)
        return list(refusals.values())[:_MAX_REFUSALS]

    def _list_messages(self) -> Iterator[tuple[str, str, str]]:
        """Yield the messages of refusals with their source and time, the newest event first."""
        owners: list[tuple[str, Json]] = [(self._kind, self._meta)]
        if self._kind == "Deployment":
            sets = self._objects.list_objects("ReplicaSet", self._namespace).items
            owners += [("ReplicaSet", s["metadata"]) for s in sets if _is_owned(s, self._name)]
        events = [
            (event, f"Event FailedCreate of {kind}/{meta['name']}")
            for kind, meta in owners
            for event in self._objects.list_events({"kind": kind, "metadata": meta})
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
        for refusal in _REFUSALS:
            match = re.search(refusal.pattern, message)
            if match is not None:
                return self._read_refusal(refusal, match, source, at)
        return build_cause("not-created", message.rstrip("."), source, self._about, at=at or None)

    def _read_refusal(self, refusal: _Refusal, match: re.Match[str], source: str, at: str) -> LiveCause:
        """Return the cause of a known refusal; of a missing object, whether it exists by now."""
        values = {key: text.rstrip(".") for key, text in match.groupdict().items()} | {"namespace": self._namespace}
        text, about = refusal.text, refusal.about
        if refusal.code == "limit-range":
            ranges = self._objects.list_objects("LimitRange", self._namespace).items
            values["ranges"] = ", ".join(str(r["metadata"]["name"]) for r in ranges) or "of the namespace"
            about = about if len(ranges) == 1 else ""
        elif refusal.code in _MISSING:
            kind = about.partition("/")[0]
            if self._objects.get(kind, values["name"], self._namespace).object is not None:
                text = text.replace("does not exist", "did not exist when a pod was last tried; it exists now")
        command = self._command(refusal.command.format_map(values)) if refusal.command else None
        remedy = (refusal.remedy.format_map(values), command)
        named = about.format_map(values) or None
        return build_cause(refusal.code, text.format_map(values), source, named, at=at or None, remedies=[remedy])

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

    def _build(self, code: str, headline: str, actor: str | None, causes: list[LiveCause]) -> LiveState:
        return {
            "code": code,
            "headline": headline,
            "actor": actor,
            "causes": causes,
            "unread": sorted(self._objects.unread),
        }


def _is_owned(obj: Json, owner: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(o.get("controller") and o.get("kind") == "Deployment" and o.get("name") == owner for o in owners)
