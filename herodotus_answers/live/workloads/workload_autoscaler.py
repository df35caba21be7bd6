"""Find what scales a workload: its HorizontalPodAutoscaler, or whoever set its replicas to 0.

Owns: the autoscaler's part in a workload's state. Does not own: reading (`cluster_objects`). Pure.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.objects import find_controller
from herodotus_answers.live.pod_facts import (
    Owner,
    clean,
    format_ago,
    format_since,
    make_cause,
    make_remedy,
    quote_patch,
    read_conditions,
)
from herodotus_answers.live.workload_objects import find_parent
from herodotus_answers.live.workloads.workload_events import list_events
from herodotus_answers.quantities import parse_quantity

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import LiveCause, Remedy, WorkloadAutoscaler
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]
_KIND: Final = "HorizontalPodAutoscaler"
_SCALED_OBJECT: Final = "ScaledObject"
# Annotations that controllers write, which name nobody who scales.
_NOT_SCALERS: Final = ("deployment.kubernetes.io/", "kubectl.kubernetes.io/", "autoscaling.alpha.kubernetes.io/")
# By the condition whose falsehood stops an autoscaler: what it then cannot do.
_STOPPING: Final = {"AbleToScale": "cannot scale", "ScalingActive": "cannot compute a number of pods"}
_DISABLED: Final = "ScalingDisabled"  # while the workload has 0 replicas
_AT_MAXIMUM: Final = "TooManyReplicas"
_METRIC_FIELDS: Final = (
    ("averageUtilization", "%", " of the requests"),
    ("averageValue", "", " for each pod"),
    ("value", "", ""),
)
_FAILURES: Final = ("FailedGet", "FailedCompute")  # how reasons of its events begin
_WORDS: Final = ("scale", "scaling", "replicas", "keda", "downtime", "hibernat")


def find_autoscaler(workload: Workload) -> WorkloadAutoscaler | None:
    """Return the HorizontalPodAutoscaler of a workload, or None if there is none or if none can be read."""
    hpa = _find(workload)
    if hpa is None:
        return None
    spec, status = hpa["spec"], hpa.get("status") or {}
    conditions = [read_conditions(hpa).get(each) or {} for each in ("AbleToScale", "ScalingActive", "ScalingLimited")]
    stopping = (condition for condition in conditions[:2] if condition.get("status") == "False")
    limiting = (condition for condition in conditions[2:] if condition.get("status") == "True")
    said = next(chain(stopping, limiting), None)
    limited = f"{said.get('reason')}: {clean(said.get('message'))}" if said else None
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


def _find_scaler(workload: Workload) -> Owner | None:
    """Return what makes a workload's autoscaler and undoes changes of it, such as a ScaledObject of KEDA; else None."""
    owner = find_controller(_find(workload) or {"metadata": {}})
    return None if owner is None else Owner(owner["kind"], owner["name"])


def explain_autoscaler(workload: Workload, autoscaler: WorkloadAutoscaler | None) -> list[LiveCause]:
    """Return a cause if an autoscaler cannot scale a workload, or not further. Its events tell if it cannot be read."""
    if autoscaler is None:
        return _explain_events(workload)
    name, of = autoscaler["name"], f"{_KIND}/{autoscaler['name']}"
    conditions = read_conditions(_find(workload) or {})
    for condition, verb in _STOPPING.items():
        found = conditions.get(condition) or {}
        if found.get("status") == "False" and found.get("reason") != _DISABLED:
            text = f"{_KIND} {name} {verb}: {found.get('reason')}: {clean(found.get('message'))}"
            source, at = f"status.conditions[{condition}]", found.get("lastTransitionTime")
            remedies = _advise(workload, clean(found.get("message")))
            return [make_cause("autoscaler-inactive", text, source, of=of, at=at, remedies=remedies)]
    limit = conditions.get("ScalingLimited") or {}
    if limit.get("status") != "True" or limit.get("reason") != _AT_MAXIMUM:
        return []
    return [_explain_maximum(workload, autoscaler, limit)]


def _advise(workload: Workload, message: str) -> list[Remedy]:
    """Return what lets an autoscaler compute a number of pods; [] if its message does not show it."""
    advice = find_remedy("autoscaler", message, owner=find_parent(workload) or workload.label)
    return [make_remedy(advice)] if advice else []


def _explain_maximum(workload: Workload, autoscaler: WorkloadAutoscaler, limit: Json) -> LiveCause:
    """Return the cause that a workload gets no more pods because its autoscaler may not ask for them."""
    name, most, at = autoscaler["name"], autoscaler["maxReplicas"], limit.get("lastTransitionTime")
    metrics = _list_metrics(_find(workload) or {})
    number = max((math.ceil(each.ratio * workload.status.get("replicas", most)) for each in metrics), default=0)
    shown = "; ".join(each.text for each in metrics if each.ratio > 1)
    text = f"{_KIND} {name} holds it at its maximum of {_join_pods(most)} (maxReplicas){format_since(at, workload.now)}"
    text += f", and its metrics ask for more{f': {shown}' if shown else ''}"
    scaler = _find_scaler(workload)
    field = f"maxReplicas of {_KIND} {name}"
    if scaler is not None:
        most_field = "maxReplicaCount" if scaler.kind == _SCALED_OBJECT else "maxReplicas"
        field = f"{most_field} of {scaler.kind} {scaler.name}, which makes it,"
    what, command = f"raise {field}{'' if scaler else ','} now {most}, if there is room for more pods", None
    if number > most:
        what = f"raise {field} from {most} to {number}, which the metrics ask for now; the new pods need room"
        patch = quote_patch({"spec": {"maxReplicas": number}})
        command = None if scaler else workload.kubectl(f"patch horizontalpodautoscaler {name}", "-p", patch)
    source, of = "status.conditions[ScalingLimited]", f"{_KIND}/{name}"
    remedies = [make_remedy(what, command)]
    return make_cause("autoscaler-limited", text, source, of=of, at=at, remedies=remedies)


def _join_pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


class _Metric(NamedTuple):
    """A metric of an autoscaler: its value as a multiple of its target, and both in words."""

    ratio: Fraction
    text: str


def _list_metrics(hpa: Json) -> list[_Metric]:
    """Return the metrics of an autoscaler whose value and target are known in the same form."""
    current = (hpa.get("status") or {}).get("currentMetrics") or ()
    metrics = []
    for metric in (hpa.get("spec") or {}).get("metrics") or ():
        wanted, name = _read_metric(metric)
        had = next((value for each in current for value, of in (_read_metric(each),) if of == name), {})
        for field, unit, words in _METRIC_FIELDS:
            target, value = (parse_quantity(each.get(field)) for each in (wanted, had))
            if target and value is not None:
                shown = f"{name[1]} {had[field]}{unit}{words}, and {wanted[field]}{unit} is its target"
                metrics.append(_Metric(value / target, shown))
                break
    return metrics


def _read_metric(metric: Json) -> tuple[Json, tuple[str, str]]:
    """Return the target or the current value of a metric, and its type and name."""
    kind = str(metric.get("type"))
    source = metric.get(kind[:1].lower() + kind[1:]) or {}
    name = source.get("name") or (source.get("metric") or {}).get("name")
    return source.get("target") or source.get("current") or {}, (kind, str(name))


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
    remedies = _advise(workload, clean(last.get("message")))
    return [make_cause("autoscaler-inactive", text, f"Event {last['reason']}", of=of, at=at, remedies=remedies)]


def explain_zero(workload: Workload, autoscaler: WorkloadAutoscaler | None) -> tuple[list[LiveCause], str | None]:
    """Return why a workload has 0 replicas, as far as that shows, and who has to act."""
    scale = f"scale {workload.kind.lower()} {workload.name}"
    if autoscaler is not None:
        name, of = autoscaler["name"], f"{_KIND}/{autoscaler['name']}"
        scaler = _find_scaler(workload)
        if scaler is not None and scaler.kind == _SCALED_OBJECT:
            return [_explain_scaled_object(workload, scaler.name, name)], f"{_SCALED_OBJECT} {scaler.name}"
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
    text += f"; it is marked {', '.join(hints)}" if hints else ""
    command = workload.kubectl(scale, "--replicas=1")
    remedies: list[Remedy] = [make_remedy("ask for a pod", command)]
    if hints:
        who = f"whoever set {hints[0]} decides when it has pods; a change of spec.replicas may be undone"
        remedies = [make_remedy(who), make_remedy("ask for a pod until then", command)]
    return [make_cause("replicas-zero", text, "spec.replicas", at=at, remedies=remedies)], "user"


def _explain_scaled_object(workload: Workload, name: str, hpa: str) -> LiveCause:
    """Return the cause that KEDA, which makes an autoscaler, has also set the replicas to 0.

    There the autoscaler does nothing. The last event about the ScaledObject says why, or what fails.
    """
    label, about = f"{_SCALED_OBJECT} {name}", {"name": name, "namespace": workload.namespace}
    last: Json = next(iter(reversed(workload.objects.list_events({"kind": _SCALED_OBJECT, "metadata": about}))), {})
    at = read_event_time(last) or None
    text = f"{label} of KEDA, which makes {_KIND} {hpa}, scales it up from 0 only once a trigger is active, and"
    text += " not while it is paused"
    what = f"see why no trigger of {label} is active, and whether it is paused: its conditions, annotations and"
    remedies = [make_remedy(f"{what} events")]
    text += f". It said{format_ago(at, workload.now)}: {clean(last.get('message'))}" if last else ""
    least = f"keep at least one pod: minReplicaCount 1 in {label}; a change of spec.replicas may be undone"
    remedies.append(make_remedy(least))
    source, of = "spec.replicas, metadata.ownerReferences", f"{_SCALED_OBJECT}/{name}"
    return make_cause("autoscaler-zero", text, source, of=of, at=at, remedies=remedies)


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
    """Return the annotations and labels that are about scaling, as KEY=VALUE."""
    marks = {**(workload.meta.get("labels") or {}), **(workload.meta.get("annotations") or {})}
    return [
        f"{key}={clean(value)[:60]}"
        for key, value in sorted(marks.items())
        if not key.startswith(_NOT_SCALERS) and any(word in key.lower() for word in _WORDS)
    ]
