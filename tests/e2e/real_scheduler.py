"""The real kube-scheduler as a process, and what its log says about each attempt.

Owns: its start, and reading its log as it grows. Does not own: comparing (`parity`).
Invariant: an attempt is complete when its last line was read; a pod may have several.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.processes import PATIENCE_S, Process, free_port

Json = dict[str, Any]

_LINE = re.compile(r'^[IWE]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] ("(?:[^"\\]|\\.)*")(.*)$')
_PAIR = re.compile(r'([\w ]*\w)=("(?:[^"\\]|\\.)*"|\S+)')


@dataclass
class Attempt:
    """What one scheduling cycle said. `ended`: bound, unschedulable or error; empty while it goes on."""

    pod: str
    scores: dict[str, dict[str, int]] = field(default_factory=dict)  # plugin -> node -> weighted
    totals: dict[str, int] = field(default_factory=dict)
    ended: str = ""
    message: str = ""
    node: str = ""
    feasible: int = 0
    target: str = ""  # of preemption
    victims: list[str] = field(default_factory=list)
    preempted: bool = False  # the deletions are through


class KubeScheduler:
    """One kube-scheduler process with a configuration; everything it decides, by pod and attempt."""

    def __init__(self, binary: Path, kubeconfig: Path, configuration: Json, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "kube-scheduler.yaml"
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000}
        whole = {**configuration, "clientConnection": connection, "leaderElection": {"leaderElect": False}}
        config.write_text(yaml.safe_dump(whole))
        self.attempts: dict[str, list[Attempt]] = {}
        self.gone: set[str] = set()  # pods whose deletion it has seen
        self.process = Process(
            "kube-scheduler",
            [
                str(binary),
                f"--config={config}",
                f"--secure-port={free_port()}",
                f"--cert-dir={directory / 'certs'}",
                "--bind-address=127.0.0.1",
                "--authorization-always-allow-paths=*",
                "-v=3",
                "--vmodule=schedule_one=10",
            ],
            directory / "kube-scheduler.log",
        )
        self._log = (directory / "kube-scheduler.log").open(encoding="utf-8", errors="replace")
        self._rest = ""

    def wait_for(
        self,
        done: Callable[[], bool],
        what: str,
        timeout_s: float = PATIENCE_S,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Read the log until `done()`. `meanwhile` is called between reads. AssertionError when it does not come."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.read()
            if done():
                return
            assert self.process.running, f"kube-scheduler ended:\n{self.process.output()[-3000:]}"
            assert time.monotonic() < deadline, f"waited {timeout_s} s in vain for {what}"
            if meanwhile is not None:
                meanwhile()
            time.sleep(0.002)

    def of(self, pod: str) -> list[Attempt]:
        """The attempts of a pod so far."""
        return self.attempts.get(pod, [])

    def stop(self) -> None:
        self.process.stop()
        self._log.close()

    def read(self) -> None:
        """Take in what was logged since."""
        text = self._rest + self._log.read()
        *lines, self._rest = text.split("\n")
        for line in lines:
            match = _LINE.match(line)
            if match:
                message = match[1][1:-1]
                handle = _HANDLERS.get(message)
                if handle:
                    handle(self, {k.strip(): _value(v) for k, v in _PAIR.findall(match[2])})

    # --- one line each ----------------------------------------------------------------------------------------------

    def _last(self, pod: str) -> Attempt:
        found = self.attempts.setdefault(pod, [])
        if not found:
            found.append(Attempt(pod))
        return found[-1]

    def _begun(self, said: Json) -> None:
        self.attempts.setdefault(said["pod"], []).append(Attempt(said["pod"]))

    def _plugin_scored(self, said: Json) -> None:
        self._last(said["pod"]).scores.setdefault(said["plugin"], {})[said["node"]] = int(said["score"])

    def _total(self, said: Json) -> None:
        self._last(said["pod"]).totals[said["node"]] = int(said["score"])

    def _bound(self, said: Json) -> None:
        attempt = self._last(said["pod"])
        attempt.ended, attempt.node, attempt.feasible = "bound", said["node"], int(said["feasibleNodes"])

    def _unschedulable(self, said: Json) -> None:
        attempt = self._last(said["pod"])
        attempt.ended, attempt.message = "unschedulable", said["err"]

    def _error(self, said: Json) -> None:
        attempt = self._last(said["pod"])
        attempt.ended, attempt.message = "error", said["err"]

    def _target(self, said: Json) -> None:
        self._last(said["pod"]).target = said["node"]

    def _preemption(self, said: Json) -> Attempt:
        return next(attempt for attempt in reversed(self.of(said["preemptor"])) if attempt.target)

    def _victim(self, said: Json) -> None:
        self._preemption(said).victims.append(said["victim"])

    def _preempted(self, said: Json) -> None:
        self._preemption(said).preempted = True

    def _deleted(self, said: Json) -> None:
        self.gone.add(said["pod"])


def _value(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


_HANDLERS = {
    "Attempting to schedule pod": KubeScheduler._begun,
    "Plugin scored node for pod": KubeScheduler._plugin_scored,
    "Calculated node's final score for pod": KubeScheduler._total,
    "Successfully bound pod to node": KubeScheduler._bound,
    "Unable to schedule pod; no fit; waiting": KubeScheduler._unschedulable,
    "Error scheduling pod; retrying": KubeScheduler._error,
    "the target node for the preemption is determined": KubeScheduler._target,
    "Preemptor Pod preempted victim Pod": KubeScheduler._victim,
    "Victim Pod is already being deleted, skipping the API call for it": KubeScheduler._victim,
    "Victim Pod is already deleted": KubeScheduler._victim,
    "Async Preemption finished completely": KubeScheduler._preempted,
    "Delete event for unscheduled pod": KubeScheduler._deleted,
    "Delete event for scheduled pod": KubeScheduler._deleted,
}
