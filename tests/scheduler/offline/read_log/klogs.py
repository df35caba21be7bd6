"""Lines as kube-scheduler writes them, in both forms, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

START_S = 12 * 3600
REFERENCES = ("pod", "preemptor", "victim", "waitingPod", "podInPreBind")  # keys whose values name a pod


def text(message: str, at_ms: int = 0, **pairs: Any) -> str:
    """Return a line of the text form, `at_ms` after noon of 7 March."""
    s, ms = divmod(at_ms, 1000)
    clock = f"{(START_S + s) // 3600:02}:{(START_S + s) // 60 % 60:02}:{(START_S + s) % 60:02}.{ms:03}000"
    shown = "".join(f" {key.replace('_', ' ')}={_shown(value)}" for key, value in pairs.items())
    return f"I0307 {clock}       1 schedule_one.go:830] {json.dumps(message)}{shown}"


def as_json(message: str, at_ms: int = 0, **pairs: Any) -> str:
    """Return a line of the JSON form."""
    fields = {k: _reference(v) if k in REFERENCES else v for k, v in pairs.items()}
    return json.dumps({"ts": 1772884800000.0 + at_ms, "caller": "s.go:1", "msg": message, "v": 2, **fields})


def attempt_starts(pod: str) -> tuple[str, dict[str, Any]]:
    return "Attempting to schedule pod", {"pod": pod}


def scores(pod: str, points: Mapping[str, Mapping[str, int]]) -> list[tuple[str, dict[str, Any]]]:
    """`points`: node -> plugin -> weighted points."""
    said: list[tuple[str, dict[str, Any]]] = [
        ("Plugin scored node for pod", {"pod": pod, "plugin": plugin, "node": node, "score": given})
        for node, by in points.items()
        for plugin, given in by.items()
    ]
    totals = [
        ("Calculated node's final score for pod", {"pod": pod, "node": node, "score": sum(by.values())})
        for node, by in points.items()
    ]
    return said + totals


def bound(pod: str, node: str, evaluated: int, feasible: int) -> tuple[str, dict[str, Any]]:
    return "Successfully bound pod to node", {
        "pod": pod,
        "node": node,
        "evaluatedNodes": evaluated,
        "feasibleNodes": feasible,
    }


def no_fit(pod: str, message: str) -> tuple[str, dict[str, Any]]:
    return "Unable to schedule pod; no fit; waiting", {"pod": pod, "err": message}


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, int) else json.dumps(value, separators=(",", ":"))


def _reference(name: str) -> dict[str, str]:
    namespace, _, own = name.partition("/")
    return {"name": own, "namespace": namespace}
