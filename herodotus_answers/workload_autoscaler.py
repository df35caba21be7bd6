"""Find what scales a workload: its HorizontalPodAutoscaler, or whoever set its replicas to 0.

Owns: the autoscaler's part in a workload's state. Does not own: reading (`cluster_objects`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.cluster_objects import read_event_time
from herodotus_answers.pod_facts import clean, format_ago, make_cause, make_remedy, read_conditions
from herodotus_answers.workload_events import list_events

if TYPE_CHECKING:
    from herodotus_answers.live import LiveCause, Remedy, WorkloadAutoscaler
    from herodotus_answers.workload_objects import Workload

Json = dict[str, Any]
_KIND: Final = "HorizontalPodAutoscaler"
# Annotations that controllers write, which name nobody who scales.
_NOT_SCALERS: Final = ("deployment.kubernetes.io/", "kubectl.kubernetes.io/", "autoscaling.alpha.kubernetes.io/")
_FAILURES: Final = ("FailedGet", "FailedCompute")  # how reasons of its events begin
_WORDS: Final = ("scale", "scaling", "replicas", "keda", "downtime", "hibernat")


def find_autoscaler(workload: Workload) -> WorkloadAutoscaler | None:
    """Return the HorizontalPodAutoscaler of a workload, or None if there is none or if none can be read."""
    hpa = _find(workload)
    if hpa is None:
        return None
    spec, status, conditions = hpa["spec"], hpa.get("status") or {}, read_conditions(hpa)
    limited = None
    inactive, limit = conditions.get("ScalingActive") or {}, conditions.get("ScalingLimited") or {}
    if inactive.get("status") == "False":
        limited = f"{inactive.get('reason')}: {clean(inactive.get('message'))}"
    elif limit.get("status") == "True":
        limited = f"{limit.get('reason')}: {clean(limit.get('message'))}"
    least = spec.get("minReplicas")
    return {
        "name": str(hpa["metadata"]["name"]),
        "minReplicas": 1 if least is None else int(least),
        "maxReplicas": int(spec["maxReplicas"]),
        "desiredReplicas": status.get("desiredReplicas"),
        "limited": limited,
    }


def _find(workload: Workload) -> Json | None:
    for hpa in workload.objects.list_objects(_KIND, workload.namespace).items:
        target = hpa["spec"].get("scaleTargetRef") or {}
        if (target.get("kind"), target.get("name")) == (workload.kind, workload.name):
            return hpa
    return None


def explain_autoscaler(workload: Workload, autoscaler: WorkloadAutoscaler | None) -> list[LiveCause]:
    """Return a cause if an autoscaler cannot compute a number of pods. Its events tell if it cannot be read."""
    if autoscaler is None:
        return _explain_events(workload)
    limited = autoscaler["limited"] or ""
    if not limited.startswith("FailedGet"):
        return []
    text = f"{_KIND} {autoscaler['name']} cannot compute a number of pods: {limited}"
    source = "status.conditions[ScalingActive]"
    return [make_cause("autoscaler-inactive", text, source, of=f"{_KIND}/{autoscaler['name']}")]


def _explain_events(workload: Workload) -> list[LiveCause]:
    """Return what the last event about an autoscaler with the workload's name says, if autoscalers cannot be read."""
    objects = workload.objects
    if not objects.list_objects(_KIND, workload.namespace).missing and objects.is_served(_KIND):
        return []
    meta = {"name": workload.name, "namespace": workload.namespace}
    events = objects.list_events({"kind": _KIND, "metadata": meta})
    if not events or not str(events[-1].get("reason")).startswith(_FAILURES):
        return []
    last = events[-1]
    text = f"{_KIND} {workload.name} cannot compute a number of pods: {clean(last.get('message'))}"
    of, at = f"{_KIND}/{workload.name}", read_event_time(last) or None
    return [make_cause("autoscaler-inactive", text, f"Event {last['reason']}", of=of, at=at)]


def explain_zero(workload: Workload, autoscaler: WorkloadAutoscaler | None) -> tuple[list[LiveCause], str | None]:
    """Return why a workload has 0 replicas, as far as that shows, and who has to act."""
    scale = f"scale {workload.kind.lower()} {workload.name}"
    if autoscaler is not None:
        name, of = autoscaler["name"], f"{_KIND}/{autoscaler['name']}"
        if autoscaler["minReplicas"] == 0:
            text = f"{_KIND} {name} may ask for 0 replicas (minReplicas 0), and does so while its metrics ask for none"
            least = '{"spec":{"minReplicas":1}}'
            command = workload.kubectl(f"patch horizontalpodautoscaler {name}", "-p", f"'{least}'")
            remedy = make_remedy("keep at least one pod: minReplicas 1", command)
            return [make_cause("autoscaler-zero", text, "spec.minReplicas", of=of, remedies=[remedy])], _KIND
        text = f"{_KIND} {name} ({autoscaler['minReplicas']} to {autoscaler['maxReplicas']} pods) does nothing while"
        text += " spec.replicas is 0"
        command = workload.kubectl(scale, f"--replicas={autoscaler['minReplicas']}")
        remedy = make_remedy(f"ask for {autoscaler['minReplicas']} again; the autoscaler then takes over", command)
        return [make_cause("autoscaler-disabled", text, "spec.replicas", of=of, remedies=[remedy])], "user"
    text, at = "spec.replicas is 0", _find_time(workload)
    setter, hints = _find_setter(workload), _list_hints(workload)
    text += f", last set by {setter}" if setter else ""
    text += format_ago(at, workload.now) and f", scaled down{format_ago(at, workload.now)}"
    text += f"; its annotations say {', '.join(hints)}" if hints else ""
    command = workload.kubectl(scale, "--replicas=1")
    remedies: list[Remedy] = [make_remedy("ask for a pod", command)]
    if hints:
        who = f"whoever set {hints[0]} decides when it has pods; a change of spec.replicas may be undone"
        remedies = [make_remedy(who), make_remedy("ask for a pod until then", command)]
    return [make_cause("replicas-zero", text, "spec.replicas", at=at, remedies=remedies)], "user"


def _find_time(workload: Workload) -> str | None:
    """Return when the workload was scaled to 0, if an event says so."""
    for event, _ in reversed(list_events(workload)):
        if event.get("reason") == "ScalingReplicaSet" and clean(event.get("message")).endswith(" to 0"):
            return read_event_time(event) or None
    return None


def _find_setter(workload: Workload) -> str:
    """Return the field manager that set spec.replicas last; "" if that is not known."""
    entries = [
        entry
        for entry in workload.meta.get("managedFields") or ()
        if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    last: Json = max(entries, key=lambda entry: str(entry.get("time") or ""), default={})
    return str(last.get("manager") or "")


def _list_hints(workload: Workload) -> list[str]:
    """Return the annotations that are about scaling, as KEY=VALUE."""
    annotations = workload.meta.get("annotations") or {}
    return [
        f"{key}={clean(value)[:60]}"
        for key, value in sorted(annotations.items())
        if not key.startswith(_NOT_SCALERS) and any(word in key.lower() for word in _WORDS)
    ]
