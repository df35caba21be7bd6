"""Find in events who deleted a pod that no longer exists.

Owns: which events say so. Does not own: pods that are being deleted (`pod_ending`), reading (`cluster_objects`). Pure.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.cluster_objects import read_event_time
from herodotus_answers.pod_facts import clean, format_ago, name_event

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects

Json = dict[str, Any]
_MAX: Final = 3  # sentences
_BY_OWNER: Final = "SuccessfulDelete"  # of a controller about its own object, whose message names the pod
# Reasons of events about a pod, after which it is deleted: by kube-scheduler, taint manager, kubelet, autoscalers.
_OF_POD: Final = (
    "Preempted",
    "TaintManagerEviction",
    "Evicted",
    "EvictedByVPA",
    "EvictedPod",
    "ScaleDown",
    "Descheduled",
)


def list_deletions(pod: str, namespace: str, objects: ClusterObjects, now: datetime) -> list[str]:
    """Return sentences on who deleted a pod of this name and when, the newest first; [] if no event is about it."""
    by_owner = objects.list_objects("Event", namespace, fields=f"reason={_BY_OWNER}").items
    names = re.compile(rf"(?<![\w.-]){re.escape(pod)}(?![\w.-])")
    found = [event for event in by_owner if names.search(str(event.get("message")))]
    about = {"kind": "Pod", "metadata": {"name": pod, "namespace": namespace}}
    own = objects.list_events(about)
    found += [event for event in own if event.get("reason") in _OF_POD]
    found.sort(key=read_event_time, reverse=True)
    if not found and own:
        return [f"pod {pod} existed: its last event is{_quote(own[-1], now)}"]
    return [_describe(event, pod, now) for event in found[:_MAX]]


def _describe(event: Json, pod: str, now: datetime) -> str:
    if event.get("reason") != _BY_OWNER:
        return f"pod {pod} existed, and was ended{_quote(event, now)}"
    about = event.get("involvedObject") or {}
    return f"pod {pod} existed, and {about.get('kind')}/{about.get('name')} deleted it{_quote(event, now)}"


def _quote(event: Json, now: datetime) -> str:
    return f"{format_ago(read_event_time(event), now)}: {clean(event.get('message'))} [{name_event(event)}]"
