"""The real kube-scheduler as a process, and a reader of its log.

Owns: the process, and reading its log while it grows. Does not own: comparing (`parity`).
Invariant: an attempt is complete when its last line was read; a pod may have several.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
from scheduler.engine.rules import Rules
from tests.processes import PATIENCE_S, Process, free_port

Json = dict[str, Any]

PROGRAM: Final = DEFAULT_VERSION  # the version of kube-scheduler that is compared
_LINE = re.compile(r'^(?:\?{3} )?[IWE]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] ("(?:[^"\\]|\\.)*")(.*)$')
_PAIR = re.compile(r'([\w ]*\w)=("(?:[^"\\]|\\.)*"|\S+)')
_ENABLED = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} ([01])$', re.MULTILINE)


@dataclass(frozen=True)
class GateSettings:
    """What sets the feature gates of a kube-scheduler: their values by name, and the version that it emulates or ""."""

    gates: Mapping[str, bool] = field(default_factory=dict)
    emulated: str = ""

    @property
    def rules(self) -> Rules:
        """Our rules for a kube-scheduler with these settings."""
        emulated = KubernetesVersion.parse(self.emulated) if self.emulated else None
        return Rules.from_settings(self.gates, PROGRAM, emulated)

    def flags(self) -> list[str]:
        """Return the settings as flags of kube-scheduler."""
        emulated = [f"--emulated-version={self.emulated}"] if self.emulated else []
        return [f"--feature-gates={format_gates(self.gates)}", *emulated]

    def configuration(self) -> Json:
        """Return the settings as fields of our configuration."""
        fields = {"kubernetesVersion": str(PROGRAM), "featureGates": dict(self.gates)}
        return fields | ({"emulatedVersion": self.emulated} if self.emulated else {})


@dataclass
class Attempt:
    """What the log shows of one scheduling cycle. `ended`: bound, unschedulable, error, or empty while it runs."""

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
    """One kube-scheduler process with a configuration, and its attempts by pod."""

    def __init__(
        self,
        binary: Path,
        kubeconfig: Path,
        configuration: Json,
        directory: Path,
        settings: GateSettings | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "kube-scheduler.yaml"
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000}
        whole = {**configuration, "clientConnection": connection, "leaderElection": {"leaderElect": False}}
        config.write_text(yaml.safe_dump(whole))
        self.attempts: dict[str, list[Attempt]] = {}
        self.gone: set[str] = set()  # pods whose deletion it has seen
        self.freed: Counter[str] = Counter()  # by claim: the devices whose deallocation it has seen
        self.port = free_port()
        self.process = Process(
            "kube-scheduler",
            [
                str(binary),
                f"--config={config}",
                f"--secure-port={self.port}",
                f"--cert-dir={directory / 'certs'}",
                "--bind-address=127.0.0.1",
                "--authorization-always-allow-paths=*",
                "-v=3",
                "--vmodule=schedule_one=10,allocateddevices=6",
                *(settings or GateSettings()).flags(),
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
        """Read the log until `done()`, calling `meanwhile` between reads; raise AssertionError after the timeout."""
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

    def attempts_of(self, pod: str) -> list[Attempt]:
        """Return the attempts of a pod so far."""
        return self.attempts.get(pod, [])

    def read_feature_gates(self) -> dict[str, bool]:
        """Return the effective value of each feature gate by name, as its metrics report them."""
        self.process.wait_for("Serving securely")
        metrics = httpx.get(f"https://127.0.0.1:{self.port}/metrics", verify=False, timeout=30.0)
        assert metrics.status_code == 200, metrics.text
        return {name: value == "1" for name, value in _ENABLED.findall(metrics.text)}

    def stop(self) -> None:
        self.process.stop()
        self._log.close()

    def read(self) -> None:
        """Read the log's new lines."""
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

    def _begun(self, fields: Json) -> None:
        self.attempts.setdefault(fields["pod"], []).append(Attempt(fields["pod"]))

    def _plugin_scored(self, fields: Json) -> None:
        self._last(fields["pod"]).scores.setdefault(fields["plugin"], {})[fields["node"]] = int(fields["score"])

    def _total(self, fields: Json) -> None:
        self._last(fields["pod"]).totals[fields["node"]] = int(fields["score"])

    def _bound(self, fields: Json) -> None:
        attempt = self._last(fields["pod"])
        attempt.ended, attempt.node, attempt.feasible = "bound", fields["node"], int(fields["feasibleNodes"])

    def _unschedulable(self, fields: Json) -> None:
        attempt = self._last(fields["pod"])
        attempt.ended, attempt.message = "unschedulable", fields["err"]

    def _error(self, fields: Json) -> None:
        attempt = self._last(fields["pod"])
        attempt.ended, attempt.message = "error", fields["err"]

    def _target(self, fields: Json) -> None:
        self._last(fields["pod"]).target = fields["node"]

    def _preemption(self, fields: Json) -> Attempt:
        return next(attempt for attempt in reversed(self.attempts_of(fields["preemptor"])) if attempt.target)

    def _victim(self, fields: Json) -> None:
        self._preemption(fields).victims.append(fields["victim"])

    def _preempted(self, fields: Json) -> None:
        self._preemption(fields).preempted = True

    def _freed(self, fields: Json) -> None:
        self.freed[fields["claim"]] += 1

    def _deleted(self, fields: Json) -> None:
        self.gone.add(fields["pod"])


def format_gates(gates: Mapping[str, bool]) -> str:
    """Return the value of `--feature-gates` for these gates."""
    return ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())


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
    "Observed device deallocation": KubeScheduler._freed,
    "Observed shared device deallocation": KubeScheduler._freed,
    "Delete event for unscheduled pod": KubeScheduler._deleted,
    "Delete event for scheduled pod": KubeScheduler._deleted,
}
