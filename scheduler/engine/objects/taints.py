"""Taints and tolerations.

Source: k8s.io/component-helpers/scheduling/corev1 and core/v1 ToleratesTaint.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.engine.objects.types import Taint, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration covers a taint. A toleration with an empty key covers every key.

    A toleration with the operator Lt or Gt covers no taint, since their alpha feature gate is off.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether any of the tolerations covers the taint."""
    return any(tolerates(t, taint) for t in tolerations)
