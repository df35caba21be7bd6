"""Each pod decided by the real kube-scheduler and by our engine, and everything compared that kube-scheduler says.

Owns: the comparison. Does not own: the cluster (`parity_cluster`), how kube-scheduler is read (`real_scheduler`), our
decision (`scheduler.offline.evaluate`).
Invariant: our engine sees the objects as they were read back before the pod was created, and nothing else.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler.offline.evaluate import CaseError, evaluate
from tests.e2e.cluster import Cluster
from tests.e2e.parity_cluster import ParityCluster, path_of, pods_of
from tests.e2e.random_cluster import RandomCluster
from tests.e2e.random_pods import NAMESPACES
from tests.e2e.real_scheduler import Attempt, KubeScheduler
from tests.processes import eventually

Json = dict[str, Any]

NOTE_LIMIT = 1024  # bytes of an event's note
_INVALID_SCORE = re.compile(r"(returns an invalid score) -?\d+")  # of any node: kube-scheduler checks them at once


@dataclass
class Figures:
    """What was compared, and what differed."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def __add__(self, other: Figures) -> Figures:
        return Figures(self.counts + other.counts, self.disagreements + other.disagreements)

    def same(self, what: str, pod: str, theirs: object, ours: object) -> None:
        """Count a comparison; keep what differs."""
        self.counts[what] += 1
        if theirs == ours:
            return
        if isinstance(theirs, dict) and isinstance(ours, dict):
            apart = {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}
            theirs, ours = ({key: said[key] for key in apart if key in said} for said in (theirs, ours))
        self.disagreements.append(f"{pod} {what}:\n  kube-scheduler {theirs!r}\n  ours           {ours!r}")

    def __str__(self) -> str:
        said = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"{said}, {len(self.disagreements)} disagreements"


class Parity:
    """One cluster of one seed with a kube-scheduler, until `stop`."""

    def __init__(
        self, api: Cluster, binary: Path, directory: Path, seed: int, nodes: int | None = None, keep: Path | None = None
    ) -> None:
        """`nodes`: how many, without it the seed says. `keep`: where cases are written that differ."""
        self.figures = Figures()
        self._api = api
        self._seed = seed
        self._keep = keep
        self._random = RandomCluster(seed, nodes)
        self._cluster = ParityCluster(api, self._random)
        self._failures: list[tuple[str, str]] = []
        configuration = self._random.configuration()
        self._configurations = {
            profile["schedulerName"]: {**configuration, "profiles": [profile]} for profile in configuration["profiles"]
        }
        # started last: what exists by now is in its caches before it decides anything
        self._scheduler = KubeScheduler(binary, api.kubeconfig, configuration, directory)

    def stop(self) -> None:
        self._scheduler.stop()

    def decide(self, number: int) -> None:
        """Create the next pod, wait for kube-scheduler's decision, compare, and bring the cluster to rest."""
        wanted = self._random.incoming(number)
        pod = self._api.create(pods_of(wanted), wanted)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        attempt = self._attempt(pod, name, 1)
        self._compare(pod, name, attempt)
        if attempt.ended == "bound":
            self._start(pod, name)
        else:
            self._failures.append((name, attempt.message))
            if not self._after_failure(pod, name, attempt):
                self._api.delete(path_of("Pod", pod))
                self._scheduler.wait_for(lambda: name in self._scheduler.gone, f"{name} to be gone")
        if _has_claims(pod):  # they may be bound now
            self._cluster.reread("PersistentVolume")
            self._cluster.reread("PersistentVolumeClaim")

    def _attempt(self, pod: Json, name: str, number: int) -> Attempt:
        """The pod's attempt of that number, once it has ended."""

        def ended() -> bool:
            said = self._scheduler.of(name)
            return len(said) >= number and bool(said[number - 1].ended)

        meanwhile = self._cluster.settle_volumes if _has_claims(pod) else None
        self._scheduler.wait_for(ended, f"attempt {number} of {name}", meanwhile=meanwhile)
        return self._scheduler.of(name)[number - 1]

    def _start(self, pod: Json, name: str) -> None:
        """The pod is on a node: it runs."""
        self._cluster.start(pod)
        self._cluster.reread_pod(name)

    # --- comparing --------------------------------------------------------------------------------------------------

    def _compare(self, pod: Json, name: str, attempt: Attempt) -> None:
        """Compare one attempt with what our engine says about it."""
        case = {
            "id": name,
            "config": self._configurations[pod["spec"]["schedulerName"]],
            "objects": self._cluster.objects(),
            "pod": pod,
        }
        try:
            ours = evaluate(case).outcome()
        except CaseError as e:
            ours = {"fitError": f"refused: {e}"}
        figures, before = self.figures, len(self.figures.disagreements)
        figures.counts["decisions"] += 1
        if attempt.message.startswith("running PreBind plugin"):
            figures.counts["failures after the decision"] += 1  # volumes that could not be bound: not ours to foretell
        elif attempt.ended == "bound":
            feasible, totals = ours.get("feasible") or [], ours.get("totals") or {}
            best = [node for node in feasible if not totals or totals[node] == max(totals.values())]
            figures.same("feasible counts", name, attempt.feasible, len(feasible))
            if attempt.totals:
                figures.same("totals", name, attempt.totals, totals)
                figures.same("scored plugins", name, attempt.scores, _weighted(ours))
                figures.counts["scores"] += sum(map(len, attempt.scores.values()))
            figures.same("chosen nodes", name, attempt.node, attempt.node if attempt.node in best else best)
        else:
            said = ours.get("fitError") or ours.get("cycleError", "")
            figures.same("messages", name, *(_INVALID_SCORE.sub(r"\1 N", m) for m in (attempt.message, said)))
            wanted = ours.get("preemption") or {}
            if attempt.target or wanted.get("nominatedNode"):
                self._compare_preemption(name, attempt, wanted)
        if self._keep and len(figures.disagreements) > before:
            (self._keep / f"{self._seed}-{name.replace('/', '-')}.json").write_text(json.dumps(case))

    def _compare_preemption(self, name: str, attempt: Attempt, wanted: Json) -> None:
        expected = sorted(wanted.get("victims") or [])
        if attempt.target and sorted(attempt.victims) != expected:  # it evicts in the background
            self._scheduler.wait_for(lambda: attempt.preempted, f"the preemption for {name}")
        self.figures.same("preemption nodes", name, attempt.target, wanted.get("nominatedNode", ""))
        self.figures.same("victim sets", name, sorted(attempt.victims), expected)

    def _after_failure(self, pod: Json, name: str, attempt: Attempt) -> bool:
        """Follow the pod's further attempts, each of which may preempt again. Return whether it is bound in the end."""
        number = 1
        while attempt.ended != "bound":
            if not attempt.target:
                if number == 1:
                    self._compare_condition(name, attempt)
                return False
            for victim in attempt.victims:
                self._cluster.reread_pod(victim)
            if any(self._cluster.has(victim) for victim in attempt.victims):
                return False  # they take their time to end
            nominated = copy.deepcopy(pod)
            nominated["status"]["nominatedNodeName"] = attempt.target
            number += 1
            attempt = self._attempt(pod, name, number)
            self._compare(nominated, name, attempt)
            self.figures.counts["nominated pods"] += 1
        self._start(pod, name)
        return True

    def _compare_condition(self, name: str, attempt: Attempt) -> None:
        condition = eventually(lambda: self._api.condition(*name.split("/")) or None, f"the condition of {name}")
        self.figures.same("conditions", name, attempt.message, condition.get("message"))

    def compare_events(self) -> None:
        """Every failed pod has a FailedScheduling event with its message, as far as a note goes."""
        notes: set[tuple[str, str]] = set()

        def complete() -> bool:
            for namespace in NAMESPACES:
                for event in self._api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"):
                    if event["reason"] == "FailedScheduling":
                        notes.add((f"{namespace}/{event['regarding']['name']}", event["note"]))
            return {pod for pod, _ in self._failures} <= {pod for pod, _ in notes}

        eventually(complete, "an event of each failure", every_s=0.2)
        for pod, message in self._failures:
            note = message if len(message) <= NOTE_LIMIT else f"{message[: NOTE_LIMIT - 4]} ..."
            found = [text for of, text in notes if of == pod]
            self.figures.same("events", pod, note if note in found else found, note)


def _has_claims(pod: Json) -> bool:
    return any("persistentVolumeClaim" in volume for volume in pod["spec"].get("volumes") or ())


def _weighted(ours: Json) -> dict[str, dict[str, int]]:
    """Our scores as kube-scheduler logs them: normalised times weight, of the plugins that were not skipped."""
    return {
        plugin: {node: score * said["weight"] for node, score in said["normalized"].items()}
        for plugin, said in (ours.get("scores") or {}).items()
    }
