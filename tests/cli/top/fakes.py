"""A small cluster for `top`: a fake of what reads it and of what runs commands, and the program with both.

`python -m tests.cli.top.fakes` runs the program in the present terminal. With `--fail-on-E`, the key E raises an error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, cast

from herodotus_cli.environment import Environment
from herodotus_cli.errors import CliError
from herodotus_cli.top.app import TopApp
from herodotus_cli.top.cluster import NodesAndPods, build_state, read_node, read_pod
from herodotus_cli.top.command_runner import CommandResult, CommandRunner
from herodotus_cli.top.reader import NodeReader

Json = dict[str, Any]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def node(name: str, zone: str = "", team: str = "", **spec: Any) -> Json:
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": zone, "team": team}
    metadata = {"name": name, "labels": {key: value for key, value in labels.items() if value}}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}


def pod(name: str, on: str = "", cpu: str = "1", namespace: str = "shop", owner: str = "") -> Json:
    kind, _, owner_name = owner.partition("/")
    owners = [{"kind": kind, "name": owner_name, "controller": True}] if owner else []
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:03:05Z"}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-01-02T03:02:05Z",
            "ownerReferences": owners,
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}
        | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running", "conditions": [placed] if on else []},
    }


def waiting(name: str, reason: str = "Insufficient cpu", namespace: str = "shop") -> Json:
    return {
        "namespace": namespace,
        "pod": name,
        "reason": reason,
        "overdue": False,
        "createdAt": "2026-01-02T03:00:05Z",
    }


NODES = (
    node("worker-1", "zone-a", "green"),
    node("worker-2", "zone-a", unschedulable=True),
    node("worker-10", "zone-b", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
)
PODS = (
    pod("web-0", "worker-1", owner="ReplicaSet/web-5d9c"),
    pod("db-0", "worker-1", cpu="3", namespace="data"),
    pod("job-0", "worker-10", cpu="500m"),
)


def placement(name: str, start: str, end: str, namespace: str = "shop", **more: str) -> Json:
    return {
        "namespace": namespace,
        "name": name,
        "cause": "Drained",
        "owner": "",
        "fromNode": start,
        "node": end,
        "plugin": "NodeResourcesFit",
        "reason": "",
        **more,
    }


def amounts(cpu: int, memory_gib: int, pods: int) -> Json:
    return {"cpu": cpu, "memory": memory_gib << 30, "pods": pods}


# `whatif drain worker-1`: one of its pods moves, one finds no node.
REVIEW: Json = {
    "status": {
        "headline": "Drainable, but 1 of 2 displaced pods finds no node.",
        "placements": [
            placement("web-0", "worker-1", "worker-10"),
            placement("db-0", "worker-1", "", "data", reason="Insufficient cpu"),
        ],
        "pending": [],
        "deleted": [],
        "nodes": [
            {"name": "worker-1", "before": amounts(4000, 2, 2), "after": amounts(0, 0, 0), "schedulable": False},
            {"name": "worker-10", "before": amounts(500, 1, 1), "after": amounts(1500, 2, 2), "schedulable": True},
        ],
    }
}


class FakeReader:
    """Returns the same cluster each time, or fails with an error."""

    def __init__(
        self, nodes: Sequence[Json] = NODES, pods: Sequence[Json] = PODS, error: CliError | None = None
    ) -> None:
        self._nodes, self._pods, self._error = nodes, pods, error

    def read(self, _namespace: str, _show: Callable[[NodesAndPods], None] | None = None) -> NodesAndPods:
        if self._error:
            raise self._error
        return build_state(
            map(read_node, self._nodes), [row for row in map(read_pod, self._pods) if row], has_all_pods=True
        )


class FakeRunner:
    """Answers commands from a table, and keeps the commands in `asked`."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def run(self, words: Sequence[str], _width: int = 80) -> CommandResult:
        self.asked.append(list(words))
        if words[0] == "pending":
            return CommandResult(0, json.dumps({"pods": [waiting("payments-0")]}), "")
        if words[:2] == ["whatif", "drain"] and words[-1] == "json":
            return CommandResult(0, json.dumps(REVIEW), "")
        if words[0] == "whatif" and words[-1] == "json":
            return CommandResult(1, "", f"error: no answer to {' '.join(words)}")
        if words[-1] == "brief":
            fix = {"text": "free 2 cpu on worker-1", "command": "kubectl delete pod db-0", "checked": True}
            return CommandResult(0, json.dumps({"fix": fix}), "")
        return CommandResult(0, f"the answer to {' '.join(words)}\n", "")


def build_app(reader: FakeReader | None = None, runner: FakeRunner | None = None) -> TopApp:
    environment = Environment(os.environ, sys.stdout, lambda: NOW, lambda: 80)
    return TopApp(
        cast("NodeReader", reader or FakeReader()),
        cast("CommandRunner", runner or FakeRunner()),
        environment,
        namespace="",
        interval_s=60.0,
    )


def _fail() -> None:
    raise RuntimeError("planned error")


if __name__ == "__main__":
    program = build_app()
    if "--fail-on-E" in sys.argv:
        program.bind("E", "fail")
        program.action_fail = _fail  # type: ignore[attr-defined]
    sys.exit(program.run_on_terminal())
