"""What a scheduler writes: bindings, the PodScheduled condition, events.

Owns: the objects' exact form, as kube-scheduler writes them. Does not own: when, and what to do when it fails.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Final

import msgspec

from scheduler.kube.http import ApiError, ApiServer, Json
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Pod

NOTE_LIMIT: Final = 1024  # bytes of an event's note that the API accepts
READ_BACK_S: Final = 15.0  # how long a binding without an answer is asked about; half of what a graceful end may take
READ_BACK_PAUSE_S: Final = 0.1  # the first pause between two questions; each is twice the one before
_CUT_TO: Final = 1020  # kube-scheduler cuts longer ones to this and adds " ..."


def bind(api: ApiServer, pod: PodInfo, node: str) -> None:
    """Bind the pod. ApiError when it is not bound.

    The UID keeps a pod that was recreated under the same name from being bound by mistake. Where no answer came, the
    pod is read back, patiently: the request may have been carried out, and whoever takes it for failed gives the pod's
    room to the next one.
    """
    meta = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    body: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": meta,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    try:
        api.post(f"{path}/binding", body)
    except ApiError as e:
        if 0 < e.code < 500 and e.code != 409:
            raise
        now = _read_back(api, path)
        if (now.metadata.uid, now.spec.node_name) != (pod.uid, node):
            raise


def _read_back(api: ApiServer, path: str) -> Pod:
    deadline = time.monotonic() + READ_BACK_S
    pause = READ_BACK_PAUSE_S
    while True:
        try:
            return msgspec.json.decode(api.get(path), type=Pod)
        except ApiError as e:
            if (0 < e.code < 500 and e.code != 429) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause *= 2


def set_unscheduled(api: ApiServer, pod: PodInfo, reason: str, message: str) -> bool:
    """PodScheduled=False with this reason and message; whether anything changed."""
    now = next((c for c in pod.pod.status.conditions or () if c.type == "PodScheduled"), None)
    if now is not None and (now.status, now.reason, now.message) == ("False", reason, message):
        return False
    condition: Json = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    if now is None or now.status != "False":
        condition["lastTransitionTime"] = _seconds()
    # the UID makes the patch fail on a pod that was recreated under the same name
    patch: Json = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", patch)
    return True


def scheduled_event(pod: PodInfo, node: str) -> tuple[str, str, str, str]:
    """(type, reason, action, note) of the event of a bound pod."""
    return "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.full_name} to {node}"


def failed_event(message: str) -> tuple[str, str, str, str]:
    """(type, reason, action, note) of the event of a pod that was not placed."""
    return "Warning", "FailedScheduling", "Scheduling", message


def new_event(pod: PodInfo, controller: str, instance: str, event: tuple[str, str, str, str]) -> Json:
    """An events.k8s.io/v1 Event about a pod."""
    type_, reason, action, note = event
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.{time.time_ns():x}", "namespace": pod.namespace or "default"},
        "eventTime": micro_time(),
        "reportingController": controller,
        "reportingInstance": instance[:128],
        "type": type_,
        "reason": reason,
        "action": action,
        "note": _cut(note),
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "resourceVersion": pod.pod.metadata.resource_version,
        },
    }


def micro_time() -> str:
    """Now as the API's MicroTime, which needs all six digits even where they are zeros."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _seconds() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    return encoded[:_CUT_TO].decode(errors="ignore") + " ..."
