"""A small cluster for `top`: a fake of what reads it and of what runs commands, and the program with both.

`python -m tests.cli.top.fakes` runs the program in the present terminal.
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


def node(name: str, zone: str = "", **spec: Any) -> Json:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": amounts}}


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
    node("worker-1", "zone-a"),
    node("worker-2", "zone-a", unschedulable=True),
    node("worker-10", "zone-b", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
)
PODS = (
    pod("web-0", "worker-1", owner="ReplicaSet/web-5d9c"),
    pod("db-0", "worker-1", cpu="3", namespace="data"),
    pod("job-0", "worker-10", cpu="500m"),
)


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


if __name__ == "__main__":
    build_app().run_on_terminal()
