"""Logs of kube-scheduler: recorded ones, and attempts written like them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.scheduler.offline.read_log import klogs

LOGS = Path(__file__).parents[1] / "golden" / "logs"


def recorded_lines() -> Iterator[str]:
    with gzip.open(LOGS / "kube-scheduler-v10.log.gz", "rt", errors="replace") as file:
        yield from (line.rstrip("\n") for line in file)


NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)
Said = tuple[str, dict[str, Any]]
FIT_ERROR = "0/216 nodes are available: 16 node(s) had untolerated taint(s), 200 Insufficient cpu."


def log_lines(said: Iterable[Said], form: Callable[..., str] = klogs.text) -> list[str]:
    return [form(message, at_ms, **pairs) for at_ms, (message, pairs) in enumerate(said)]


def logged_placement(pod: str, best: str = "n2") -> list[Said]:
    points = {node: {"NodeResourcesFit": 70 + 9 * (node == best), "ImageLocality": 4} for node in ("n1", "n2", "n3")}
    taint = {"key": "gpu", "effect": "NoSchedule"}
    return [
        klogs.attempt_starts(pod),
        ("node had untolerated taints", {"pod": pod, "node": "n4", "untoleratedTaint": taint}),
        *klogs.scores(pod, points),
        ("Attempting to bind pod to node", {"pod": pod, "node": best}),
        klogs.bound(pod, best, 4, 3),
    ]


def logged_rejection(pod: str) -> list[Said]:
    return [
        klogs.attempt_starts(pod),
        ("the target node for the preemption is determined", {"pod": pod, "node": "n3"}),
        ("Start the preemption asynchronously", {"preemptor": pod, "node": "n3", "numVictims": 1}),
        klogs.no_fit(pod, FIT_ERROR),
        ("Preemptor Pod preempted victim Pod", {"preemptor": pod, "victim": "ns/old", "node": "n3"}),
    ]
