"""Compares each decision of the real kube-scheduler with our engine's, in everything that it logs or reports.

Owns: the comparison. Does not own: the cluster (`parity_cluster`), how kube-scheduler is read (`real_scheduler`), our
decision (`scheduler.offline.evaluate`).
Invariant: our engine sees the objects as they were read back before the pod was created, and nothing else.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler.engine.rules.feature_gates import ASYNC_PREEMPTION, COMPARISON_OPERATORS
from scheduler.offline.evaluate import CaseError, evaluate
from tests.cached_results import differences_when_repeated
from tests.e2e import local_parity
from tests.e2e.cluster import Cluster
from tests.e2e.parity_cluster import ParityCluster, path_of, pods_of
from tests.e2e.random_cluster import RandomCluster
from tests.e2e.random_pods import NAMESPACES
from tests.e2e.real_scheduler import Attempt, GateSettings, KubeScheduler
from tests.processes import eventually

Json = dict[str, Any]

NOTE_LIMIT = 1024  # bytes of an event's note


@dataclass
class Figures:
    """Counts of comparisons, and the differences."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def __add__(self, other: Figures) -> Figures:
        return Figures(self.counts + other.counts, self.disagreements + other.disagreements)

    def same(self, what: str, pod: str, theirs: object, ours: object) -> None:
        """Count a comparison; keep both values if they differ."""
        self.counts[what] += 1
        if theirs == ours:
            return
        if isinstance(theirs, dict) and isinstance(ours, dict):
            apart = {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}
            theirs, ours = ({key: shown[key] for key in apart if key in shown} for shown in (theirs, ours))
        self.disagreements.append(f"{pod} {what}:\n  kube-scheduler {theirs!r}\n  ours           {ours!r}")

    def __str__(self) -> str:
        shown = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"{shown}, {len(self.disagreements)} disagreements"


class Parity:
    """One random cluster with a kube-scheduler, which runs until `stop`."""

    def __init__(
        self,
        api: Cluster,
        binary: Path,
        directory: Path,
        seed: int,
        nodes: int | None = None,
        keep: Path | None = None,
        settings: GateSettings | None = None,
    ) -> None:
        """Create the cluster; `nodes` overrides the seed's number, `keep` is a folder for differing cases."""
        settings = settings or GateSettings()
        rules = settings.rules
        self._preempts_asynchronously = rules.enabled(ASYNC_PREEMPTION)
        self.figures = Figures()
        self._api = api
        self._seed = seed
        self._keep = keep
        self._random = RandomCluster(seed, nodes, compares=rules.enabled(COMPARISON_OPERATORS))
        self._cluster = ParityCluster(api, self._random)
        self._failures: list[tuple[str, str]] = []
        configuration = self._random.configuration()
        self._configurations = {
            profile["schedulerName"]: {**configuration, "profiles": [profile], **settings.configuration()}
            for profile in configuration["profiles"]
        }
        # started last: what exists by now is in its caches before it decides anything
        self._scheduler = KubeScheduler(binary, api.kubeconfig, configuration, directory, settings)

    def stop(self) -> None:
        self._scheduler.stop()

    def decide(self, number: int) -> None:
        """Create the next pod, wait for kube-scheduler's decision, compare, and bring the cluster to rest."""
        manifest = self._random.incoming(number)
        pod = self._api.create(pods_of(manifest), manifest)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        attempt = self._attempt(pod, name, 1)
        self._compare(pod, name, attempt)
        self._compare_locally(pod, name, attempt)
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
        """Return the pod's attempt with that number when it has ended."""

        def ended() -> bool:
            attempts = self._scheduler.attempts_of(name)
            return len(attempts) >= number and bool(attempts[number - 1].ended)

        meanwhile = self._cluster.settle_volumes if _has_claims(pod) else None
        self._scheduler.wait_for(ended, f"attempt {number} of {name}", meanwhile=meanwhile)
        return self._scheduler.attempts_of(name)[number - 1]

    def _start(self, pod: Json, name: str) -> None:
        """Report the bound pod as running, as a kubelet does."""
        self._cluster.start(pod)
        self._cluster.reread_pod(name)

    # --- comparing --------------------------------------------------------------------------------------------------

    def _compare(self, pod: Json, name: str, attempt: Attempt) -> None:
        """Compare one attempt with our engine's result for the same pod and objects."""
        case = {
            "id": name,
            "config": self._configurations[pod["spec"]["schedulerName"]],
            "objects": self._cluster.objects(),
            "pod": pod,
        }
        figures, before = self.figures, len(self.figures.disagreements)
        try:
            evaluated = evaluate(case)
            ours = evaluated.outcome()
            figures.same("cached results", name, [], differences_when_repeated(evaluated))
        except CaseError as e:
            ours = {"fitError": f"refused: {e}"}
        figures.counts["decisions"] += 1
        if attempt.message.startswith("running PreBind plugin"):
            figures.counts["failures after the decision"] += 1  # volumes that could not be bound: not ours to foretell
        elif attempt.ended == "bound":
            feasible, totals = ours.get("feasible") or [], ours.get("totals") or {}
            if pod["status"].get("nominatedNodeName") in feasible:  # then kube-scheduler evaluates no other node
                feasible, totals = [pod["status"]["nominatedNodeName"]], {}
            best = [node for node in feasible if not totals or totals[node] == max(totals.values())]
            figures.same("feasible counts", name, attempt.feasible, len(feasible))
            if attempt.totals:
                figures.same("totals", name, attempt.totals, totals)
                figures.same("scored plugins", name, attempt.scores, _weighted(ours))
                figures.counts["scores"] += sum(map(len, attempt.scores.values()))
            figures.same("chosen nodes", name, attempt.node, attempt.node if attempt.node in best else best)
        else:
            message = ours.get("fitError") or ours.get("cycleError", "")
            figures.same("messages", name, *(local_parity.without_node_numbers(m) for m in (attempt.message, message)))
            preemption = ours.get("preemption") or {}
            if attempt.target or preemption.get("nominatedNode"):
                self._compare_preemption(name, attempt, preemption)
        if self._keep and len(figures.disagreements) > before:
            (self._keep / f"{self._seed}-{name.replace('/', '-')}.json").write_text(json.dumps(case))

    def _compare_locally(self, pod: Json, name: str, attempt: Attempt) -> None:
        """Compare the attempt with local mode's answer about the pod on the live cluster.

        A pod with claims, whose volumes may be bound by now, and a pod that preempts are left out: the cluster is no
        longer as it was.
        """
        if _has_claims(pod) or attempt.target or attempt.message.startswith("running PreBind plugin"):
            return
        if attempt.ended == "bound":  # as the API server will show it, and as it was when the pod was decided
            eventually(lambda: self._api.get(path_of("Pod", pod))["spec"].get("nodeName"), f"{name} to have a node")
        configuration = json.dumps(self._configurations[pod["spec"]["schedulerName"]])
        answer = local_parity.explain_locally(self._api, configuration, *name.split("/"))
        self.figures.counts["local answers"] += 1
        if attempt.ended == "bound":
            self.figures.same("local feasible counts", name, attempt.feasible, answer["nodes"]["feasible"])
            self.figures.same("local nodes", name, attempt.node, answer["outcome"]["node"])
            if attempt.totals:
                self.figures.same("local totals", name, attempt.totals, local_parity.totals(answer))
                self.figures.same("local scores", name, attempt.scores, local_parity.weighted_scores(answer))
        else:
            shown = map(local_parity.without_node_numbers, (attempt.message, answer["message"]))
            self.figures.same("local messages", name, *shown)

    def _compare_preemption(self, name: str, attempt: Attempt, preemption: Json) -> None:
        expected = sorted(preemption.get("victims") or [])
        evicts_later = self._preempts_asynchronously and sorted(attempt.victims) != expected
        if attempt.target and evicts_later:
            self._scheduler.wait_for(lambda: attempt.preempted, f"the preemption for {name}")
        self.figures.same("preemption nodes", name, attempt.target, preemption.get("nominatedNode", ""))
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
        """Check that every failed pod has a FailedScheduling event with its message, cut at the note's limit."""
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
    """Return our scores as kube-scheduler logs them: normalized times weight, without skipped plugins."""
    return {
        plugin: {node: score * scores["weight"] for node, score in scores["normalized"].items()}
        for plugin, scores in (ours.get("scores") or {}).items()
    }
