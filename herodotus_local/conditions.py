"""What pods' own conditions say, for users who may not list nodes, or who may not read all that decides.

The condition PodScheduled has the message with which the pod's scheduler left its last attempt. Nothing is evaluated.

Does not own: reading (`cluster_reader`), which pods are pending (`service`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from herodotus_answers.live.objects import MAY_FIT
from herodotus_answers.pending import PendingPod, PendingPods, build_pending_pods
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Condition, Pod

_SCHEDULED: Final = "PodScheduled"
_NOT_TRIED: Final = "no scheduler has tried it: it has no condition PodScheduled"


def build_from_conditions(pods: Sequence[Pod], namespace: str) -> PendingPods:
    """Return the PendingPods document about pods without a node, made from their conditions PodScheduled.

    `namespace` is the namespace of the question, or "" for all.
    """
    document = build_pending_pods([_read(pod) for pod in pods], now_us=time.time_ns() // 1000, namespace=namespace)
    document["source"] = "conditions"
    for listed in document["pods"]:
        listed["id"] = listed["startedAt"] = None  # no attempt is recorded
    return document


def read_rejection(pod: Pod) -> str:
    """Return what the pod's scheduler says of its last attempt, if that found no node; else ""."""
    condition = _find_condition(pod)
    return "" if condition is None or condition.reason != "Unschedulable" else condition.message.rstrip(".")


def prefer_condition(pod: Pod, message: str) -> str:
    """Return what the pod's scheduler states if it found no node and `message` is that the pod may fit; else `message`.

    An incomplete evaluation that finds a node does not outweigh the scheduler.
    """
    return (message.startswith(MAY_FIT) and read_rejection(pod)) or message


def _find_condition(pod: Pod) -> Condition | None:
    """Return the pod's condition PodScheduled, or None if no scheduler has tried it."""
    return next((each for each in pod.status.conditions or () if each.type == _SCHEDULED), None)


def _read(pod: Pod) -> PendingPod:
    """Return an entry of PendingPods with the reason and message of the pod's condition PodScheduled.

    Without the condition, the state is `Untried`.
    """
    meta = pod.metadata
    condition = _find_condition(pod)
    created_us = parse_microseconds(meta.creation_timestamp)
    owner = meta.controller
    return PendingPod(
        namespace=meta.namespace,
        pod=meta.name,
        uid=meta.uid,
        owner=None if owner is None else str(owner),
        profile=pod.spec.scheduler_name,
        state="Untried" if condition is None else condition.reason or "Unschedulable",
        attempt=0,
        started_us=created_us,
        message=_NOT_TRIED if condition is None else condition.message,
        decision_id="",
        pod_group=(pod.spec.scheduling_group and pod.spec.scheduling_group.pod_group_name) or "",
        created_us=created_us,
    )
