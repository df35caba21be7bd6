"""What happens in a cluster that may make a pod schedulable: the vocabulary in which plugins say what wakes their pods.

Source: k8s.io/kube-scheduler/framework events.go; the actions of it that the plugins built so far ask about.
"""

from __future__ import annotations

from enum import Enum


class Event(str, Enum):
    """Something changed. Values are kube-scheduler's event labels."""

    NODE_ADD = "NodeAdd"
    NODE_DELETE = "NodeDelete"
    NODE_ALLOCATABLE = "NodeUpdateNodeAllocatable"
    NODE_LABEL = "NodeUpdateNodeLabel"
    NODE_TAINT = "NodeUpdateNodeTaint"
    POD_DELETE = "AssignedPodDelete"
    POD_ADD = "AssignedPodAdd"
    POD_LABEL = "AssignedPodUpdatePodLabel"
    POD_SCALE_DOWN = "AssignedPodUpdatePodScaleDown"  # it requests less than before
    POD_CHANGED = "UnschedulablePodUpdate"  # the waiting pod itself
    TIMEOUT = "UnschedulableTimeout"  # nothing happened for long: try anyway


EVERY_EVENT = frozenset(Event)
