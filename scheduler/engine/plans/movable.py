"""Which pods a plan may move, and how many must leave a node until something fits there.

A plan moves pods that a controller makes anew elsewhere, except those that are marked to stay on their nodes.

Pure. Does not own: budgets, which follow the evictions (`whatif.budgets`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.whatif.owners import DAEMON_SET, NODE, REPLICA_SET, STATEFUL_SET

REPLICATION_CONTROLLER: Final = "ReplicationController"
# The controllers that make a deleted pod anew, and count no failure. That of a Job counts one, and may give up.
_REPLACING: Final = (REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)
MAY_MOVE: Final = ""
IMPOSSIBLE: Final = 1 << 20  # a number of changes that stands for: no number is enough
NO_CONTROLLER, JOB, OTHER_CONTROLLER = "NoController", "Job", "OtherController"
TERMINATING, NOT_READY, DO_NOT_DISRUPT, POD_GROUP = "Terminating", "NotReady", "DoNotDisrupt", "PodGroup"


def find_hindrance(info: PodInfo) -> str:
    """Return why a plan must not move a pod that is on a node, or MAY_MOVE.

    A pod that is not Ready is left alone, because its replacement may never become Ready either.
    """
    pod = info.pod
    owner = pod.metadata.controller
    if owner is None:
        return NO_CONTROLLER
    if owner.kind in (DAEMON_SET, NODE, JOB):
        return owner.kind
    if owner.kind not in _REPLACING:
        return OTHER_CONTROLLER
    if info.terminating:
        return TERMINATING
    if info.pod_group is not None:
        return POD_GROUP
    annotations = pod.metadata.annotations
    if annotations is not None and (annotations.do_not_disrupt == "true" or annotations.safe_to_evict == "false"):
        return DO_NOT_DISRUPT
    ready = next((each.status for each in pod.status.conditions or () if each.type == "Ready"), "")
    if pod.status.phase not in ("", "Running") or ready not in ("", "True"):
        return NOT_READY
    return MAY_MOVE


def waits_for_end(pod: PodInfo) -> bool:
    """Return whether the pod's controller makes the new pod only when the old one is gone."""
    owner = pod.pod.metadata.controller
    return owner is not None and owner.kind == STATEFUL_SET


def helped_only_by_room(info: PodInfo) -> bool:
    """Return whether the pod can only gain by pods that leave: no other pod must be near it or evenly spread."""
    pod = info.pod
    spread = any(each.when_unsatisfiable == "DoNotSchedule" for each in pod.spec.topology_spread_constraints or ())
    affinity = pod.spec.affinity and pod.spec.affinity.pod_affinity
    return not spread and not (affinity and affinity.required)


def is_decided_by_node_alone(pod: PodInfo, *, but_for_spread: bool = False) -> bool:
    """Return whether no other pod, volume or claim decides on which nodes the pod fits.

    With `but_for_spread` its topology spread constraints may.
    """
    return (
        (but_for_spread or helped_only_by_room(pod))
        and pod.terms is None
        and not pod.has_storage
        and not pod.pod.spec.resource_claims
        and pod.pod_group is None
    )


def read_amount(pod: PodInfo, resource: str) -> int:
    """Return what a pod requests of a resource, in base units; of `pods` it takes one."""
    return 1 if resource == requests.PODS else pod.requests.get(resource, 0)


def count_leaving(pods: Iterable[PodInfo], resource: str, lacking: int) -> int:
    """Return how many of a node's pods at least must leave until `lacking` more of a resource is free there.

    Returns IMPOSSIBLE if it is not free even without all of them.
    """
    count = 0
    for amount in sorted((read_amount(pod, resource) for pod in pods), reverse=True):
        if lacking <= 0 or amount <= 0:
            break
        lacking -= amount
        count += 1
    return count if lacking <= 0 else IMPOSSIBLE
