"""Documents of the decisions API that tests of the plugin share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from herodotus_answers.pending import PendingPod
from tests.cli.scenes import NOW


def watched_decision(number: int, state: str, **more: Any) -> dict[str, Any]:
    """Return the decision of the pod with this number, which is also its resource version."""
    return {
        "kind": "Decision",
        "metadata": {"name": f"d{number}", "resourceVersion": str(number)},
        "spec": {
            "key": {"attempt": 1},
            "pod": {"namespace": "shop", "name": f"pod-{number}"},
            "times": {"startedAt": f"2026-03-01T12:00:{number:02}Z"},
            "snapshot": {"nodes": 3, "feasible": 2 if state == "Bound" else 0},
        },
        "status": {"state": state, "node": "worker-1", "path": "scored", "message": "", **more},
    }


def pending_pod(name: str, owner: str | None) -> PendingPod:
    message = "0/2 nodes are available: 2 Insufficient cpu."
    return PendingPod("shop", name, f"uid-{name}", owner, "default", "Unschedulable", 1, 10**15, message, f"id-{name}")


VICTIM = "checkout-7d9f-x2k"
LATER = (NOW - timedelta(seconds=5)).isoformat()
EVICTED = {
    "at": LATER,
    "node": "worker-7",
    "evicted": True,
    "preemptor": {"namespace": "vip", "pod": "big-0", "priority": 1000, "attempt": 3, "decision": "d-1"},
    "victims": [{"namespace": "shop", "pod": VICTIM, "state": "Evicted", "at": LATER}],
}


def preemptions_document(*found: Any, complete: bool = True) -> dict[str, Any]:
    return {"kind": "Preemptions", "metadata": {}, "complete": complete, "preemptions": list(found)}
