"""Tolerations that were meant for a taint and do not match it: another key, value or effect.

Owns: which toleration of a pod is nearly one of a taint, and in what it differs. Does not own: the change that follows
(`changes`), sentences (`herodotus_answers.suggestions`). Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.engine.objects.types import Taint, Toleration

# Keys that name the same: kubeadm and others set `control-plane` since Kubernetes 1.24, and `master` before.
_RENAMED: Final = (frozenset({"node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"}),)
_SIMILAR: Final = (
    0.8  # of the names of two keys, one of which may be misspelled: dedicated and dedicate, not gpu and cpu
)


class NearToleration(NamedTuple):
    """A toleration that was meant for a taint: its text, and the field in which it differs."""

    text: str
    differs: str


def find_near_toleration(taint: Taint, tolerations: Iterable[Toleration]) -> NearToleration | None:
    """Return the toleration that differs least from one that matches the taint, or None if none is near."""
    near = (
        (rank, each, differs) for each in tolerations if (known := _compare(taint, each)) for rank, differs in [known]
    )
    best = min(near, key=lambda found: found[0], default=None)
    return None if best is None else NearToleration(_format(best[1]), best[2])


def _compare(taint: Taint, toleration: Toleration) -> tuple[int, str] | None:
    """Return an order and the field in which a toleration differs from one of the taint; None if it is for another."""
    has_value = toleration.operator == "Exists" or toleration.value == taint.value
    has_effect = toleration.effect in ("", taint.effect)
    if toleration.key == taint.key:
        return (0, "effect") if has_value else (1, "value")
    if not toleration.key or not has_value or not has_effect:
        return None
    is_renamed = any({toleration.key, taint.key} <= keys for keys in _RENAMED)
    ours, its = (re.sub(r"[-_.]", "", key.rpartition("/")[2].lower()) for key in (toleration.key, taint.key))
    is_similar = difflib.SequenceMatcher(None, ours, its).ratio() >= _SIMILAR
    return (2, "key") if is_renamed or is_similar else None


def _format(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    return f"{toleration.key}{value}" + (f":{toleration.effect}" if toleration.effect else "")
