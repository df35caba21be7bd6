"""Node objects that a change gives: cordoned ones, and copies of a node.

Pure. Does not own: which node changes (`changes`, `engine.plans`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.engine.objects import types
from scheduler.engine.objects.types import Node

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"  # kube-controller-manager's taint of a cordoned node
_OF_ONE_NODE: Final = ("node.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")


def mark_schedulable(node: Node, schedulable: bool) -> Node:
    """Return the node as `kubectl uncordon` or `kubectl cordon` leaves it, with or without the controller's taint.

    Return the same object if nothing differs.
    """
    taints = [taint for taint in node.spec.taints or () if taint.key != UNSCHEDULABLE]
    if not schedulable:
        taints.append(types.Taint(key=UNSCHEDULABLE, effect="NoSchedule"))
    spec = msgspec.structs.replace(node.spec, unschedulable=not schedulable, taints=taints or None)
    return node if spec == node.spec else msgspec.structs.replace(node, spec=spec)


def copy_node(like: Node, name: str, zone: str = "") -> Node:
    """Return a schedulable copy of a node with another name, without images, and without taints about that one node.

    If `zone` is not "", the copy has that zone.
    """
    labels = dict(like.metadata.labels or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    if zone:
        labels[ZONE] = zone
    taints = [taint for taint in like.spec.taints or () if not taint.key.startswith(_OF_ONE_NODE)]
    return msgspec.structs.replace(
        like,
        metadata=msgspec.structs.replace(like.metadata, name=name, uid=f"new/{name}", labels=labels),
        spec=msgspec.structs.replace(like.spec, unschedulable=False, taints=taints or None),
        status=msgspec.structs.replace(like.status, images=None),
    )
