"""Taints and tolerations.

Source: k8s.io/component-helpers/scheduling/corev1 and core/v1 ToleratesTaint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from scheduler.engine.objects.types import Taint, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_INT64 = range(-(1 << 63), 1 << 63)


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Return whether a toleration covers a taint. A toleration with an empty key covers every key.

    The operators Lt and Gt compare integers. Without `comparison_operators`, the gate
    TaintTolerationComparisonOperators, they cover no taint.
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
        case "Lt" | "Gt" if comparison_operators:
            limit, value = _parse_int64(toleration.value), _parse_int64(taint.value)
            if limit is None or value is None:
                return False
            return value < limit if toleration.operator == "Lt" else value > limit
        case _:
            return False


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration], *, comparison_operators: bool = False) -> bool:
    """Return whether one of the tolerations covers the taint. For `comparison_operators`, see `tolerates`."""
    return any(tolerates(t, taint, comparison_operators=comparison_operators) for t in tolerations)


def format_taint(taint: Taint) -> str:
    """Return a taint as kubectl writes it, such as `dedicated=gpu:NoSchedule`."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _parse_int64(text: str) -> int | None:
    """Return the number that the text writes in canonical decimal form, or None if it is no int64."""
    return int(text) if _INTEGER.fullmatch(text) and int(text) in _INT64 else None
