"""The plugin's answers about a real cluster, compared with independent sources.

Owns: the questions and the checks. Does not own: the cluster (`questions_cluster`), proposals (`questions_changes`).

The independent sources are the API server, which knows where pods are, and a stock kube-scheduler, which knows what is
feasible where and what other weights choose. Neither runs our code. Our scheduler is stopped during the checks, so that
the cluster does not change.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

from herodotus_cli.command_line import run
from herodotus_cli.environment import Environment
from tests.answer_schemas import validate
from tests.e2e import questions_cluster
from tests.e2e.cluster import Cluster, Herodotus
from tests.e2e.questions_changes import Changes, NotAboutThisClusterError, fresh
from tests.e2e.real_scheduler import Attempt, KubeScheduler
from tests.processes import eventually

Json = dict[str, Any]

JUDGE = "judge"
WEIGHTS = (
    {"NodeResourcesFit": 5, "ImageLocality": 0},
    {"PodTopologySpread": 0, "NodeResourcesBalancedAllocation": 7},
    {"NodeAffinity": 0, "NodeResourcesFit": 0},
)
DECIDED_S = 600.0


class Questions:
    """A cluster in which every pod was decided, and the checks of the plugin's answers about it."""

    def __init__(self, api: Cluster, namespace: str, herodotus: Herodotus, binary: Path, directory: Path) -> None:
        """Take a cluster with a running scheduler; `binary` is kube-scheduler's."""
        self.api, self.namespace, self.herodotus = api, namespace, herodotus
        self.counts: Counter[str] = Counter()
        self._binary, self._directory, self._judges = binary, directory, 0
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"

    # --- the cluster ------------------------------------------------------------------------------------------------

    def fill(self, seed: int, nodes: int) -> None:
        """Create the nodes and ten pods per node; wait until every pod is decided and nothing changes any more."""
        rng = random.Random(seed)
        if not self.api.find(f"/apis/scheduling.k8s.io/v1/priorityclasses/{questions_cluster.PRIORITY}"):
            self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", questions_cluster.priority_class())
        self.api.create_all("/api/v1/nodes", questions_cluster.nodes(rng, nodes))
        self.created: list[Json] = []
        for pods in questions_cluster.pods(rng, 10 * nodes):
            self.created += self.api.create_all(self._pods_path, pods)
            eventually(self._decided, "every pod to be bound or refused", DECIDED_S, every_s=0.5)
        # what waits is tried again by schedulers that find the cluster as it is, until one changes nothing
        while self._changed_by_another():
            pass
        self.herodotus.scheduler.stop()
        pods = self.api.items(self._pods_path)
        self.bound = [p for p in pods if p["spec"].get("nodeName")]
        self.waiting = [p for p in pods if not p["spec"].get("nodeName")]
        self.gone = {p["metadata"]["name"] for p in self.created} - {p["metadata"]["name"] for p in pods}

    def _decided(self) -> bool:
        """Return whether every pod is bound or rejected; restart a scheduler that lost its Lease on a busy machine."""
        if not self.herodotus.scheduler.running:
            self.herodotus.start_scheduler()
        return all(p["spec"].get("nodeName") or _refused(p) for p in self.api.items(self._pods_path))

    def _changed_by_another(self) -> bool:
        """Return whether a restarted scheduler places any pod after it has tried all pending ones."""
        earlier = {d["metadata"]["name"] for d in self.herodotus.decisions(self.namespace)}
        self.herodotus.scheduler.stop()
        self.herodotus.start_scheduler()
        waiting = {p["metadata"]["name"] for p in self.api.items(self._pods_path) if not p["spec"].get("nodeName")}

        def tried() -> list[Json] | None:
            self._decided()
            found = [d for d in self.herodotus.decisions(self.namespace) if d["metadata"]["name"] not in earlier]
            return found if waiting <= {d["spec"]["pod"]["name"] for d in found} else None

        found = eventually(tried, "what waits to be tried again", DECIDED_S, every_s=0.5)
        return any(d["status"]["node"] for d in found) or not eventually(self._decided, "evictions", DECIDED_S)

    @property
    def figures(self) -> str:
        """Return the numbers of pods and of checks as text."""
        pods = (
            f"{len(self.created)} pods, {len(self.bound)} bound, {len(self.waiting)} waiting, {len(self.gone)} evicted"
        )
        return f"{pods}; {', '.join(f'{count} {what}' for what, count in sorted(self.counts.items()))}"

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask(self, *words: str) -> Json:
        """Run the plugin and return its answer, which its published schema accepts."""
        out = StringIO()
        environment = Environment({}, out, lambda: datetime.now().astimezone(), lambda: 80)
        assert run([*words, "--endpoint", self.herodotus.endpoint_url, "-o", "json"], environment) == 0, words
        self.counts["questions"] += 1
        answer: Json = json.loads(out.getvalue())
        validate(answer)
        return answer

    def ask_in(self, *words: str) -> Json:
        """Run the plugin for an object in the namespace and return its answer as a document."""
        return self.ask(*words, "-n", self.namespace)

    @contextmanager
    def judging(self, weights: Json | None = None) -> Iterator[KubeScheduler]:
        """Run a stock kube-scheduler for pods whose scheduler is JUDGE."""
        # it says what fits, and evicts nobody
        plugins: Json = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
        if weights:
            enabled = [{"name": plugin, "weight": weight} for plugin, weight in weights.items() if weight]
            disabled = [{"name": plugin} for plugin in weights]
            plugins["score"] = {"enabled": enabled, "disabled": disabled}
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        configuration = {
            **kind,
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": JUDGE, "plugins": plugins}],
        }
        self._judges += 1  # a folder for each: what one logged is none of the next one's
        folder = self._directory / f"judge-{self._judges}"
        judge = KubeScheduler(self._binary, self.api.kubeconfig, configuration, folder)
        try:
            yield judge
        finally:
            judge.stop()

    # --- checks -----------------------------------------------------------------------------------------------------

    def check_outcomes(self, pods: int) -> None:
        """Compare `pod NAME`, `pending`, `node NAME` and `workload` with the API server's objects."""
        rng = random.Random(1)
        for pod in rng.sample(self.bound, min(pods, len(self.bound))):
            answer = self.ask_in("pod", pod["metadata"]["name"])
            assert answer["outcome"]["node"] == pod["spec"]["nodeName"]
        for pod in self.waiting[:pods]:
            answer = self.ask_in("pod", pod["metadata"]["name"])
            assert (answer["outcome"]["node"], answer["message"]) == (None, _refused(pod))
        evicted = self._check_evictions()
        answered = {p["pod"] for p in self.ask_in("pending")["pods"]}
        assert answered == {p["metadata"]["name"] for p in self.waiting}
        for number in range(questions_cluster.SETS):
            self._check_workload(f"set-{number}")
        there = Counter(p["spec"]["nodeName"] for p in self.bound)
        placements = [d["status"] for d in self.herodotus.decisions(self.namespace) if d["status"]["node"]]
        unbound = [status for status in placements if status["state"] != "Bound"]  # or the scheduler does not know it
        in_vain = Counter(status["node"] for status in unbound)
        for node, _ in [*evicted.most_common(2), *there.most_common(2)]:
            answered, known = self.ask("node", node)["chosen"], there[node] + evicted[node]
            assert known <= answered <= known + in_vain[node], node

    def _check_evictions(self) -> Counter[str]:
        """Check that the preemptor's record names every evicted pod, and that the preemptor is on its node.

        Return the number of evicted pods by node.
        """
        answered: dict[str, str] = {}
        evicted: Counter[str] = Counter()
        for pod in self.bound:
            name = pod["metadata"]["name"]
            if pod["spec"].get("priorityClassName"):
                for attempt in range(1, self.ask_in("pod", name)["attempt"]["attempts"] + 1):
                    answer = self.ask_in("pod", name, "--attempt", str(attempt))
                    answered |= dict.fromkeys(_evicted(answer["preemption"]), name)
        assert answered.keys() >= {f"{self.namespace}/{name}" for name in self.gone}
        for victim, name in answered.items():
            node = self.ask_in("pod", victim.partition("/")[2])["outcome"]["node"]
            (where,) = [p["spec"]["nodeName"] for p in self.bound if p["metadata"]["name"] == name]
            assert (victim, node) == (victim, where)
            self.counts["evictions"] += 1
            evicted[node] += 1
        return evicted

    def _check_workload(self, name: str) -> None:
        """Check that the answer includes every running pod of the workload, node by node."""
        there = Counter(
            p["spec"]["nodeName"]
            for p in self.bound
            if name in [o["name"] for o in p["metadata"].get("ownerReferences", ())]
        )
        answered = {row["node"]: row["pods"] for row in self.ask_in("workload", f"sts/{name}")["nodes"]}
        assert not [node for node, pods in there.items() if answered.get(node, 0) < pods], (name, there, answered)

    def check_proposals(self, pods: int) -> None:
        """Check `pod NAME --node X`: the node rejects the pod before the proposed change and accepts it after."""
        kinds: dict[str, list[Json]] = {}
        for pod in self.waiting:
            kinds.setdefault(pod["metadata"]["labels"]["app"], []).append(pod)
        rounds = [pod for tier in zip(*_padded(list(kinds.values())), strict=True) for pod in tier if pod]
        with self.judging() as judge:
            for number, pod in enumerate(rounds[:pods]):
                self._check_proposal(judge, pod, number)

    def _check_proposal(self, judge: KubeScheduler, pod: Json, number: int) -> None:
        nodes = self.api.items("/api/v1/nodes")
        wanted = pod["spec"].get("nodeSelector", {}).get(questions_cluster.HOST)
        node = wanted or nodes[(number * 7919) % len(nodes)]["metadata"]["name"]
        (answer,) = self.ask_in("pod", pod["metadata"]["name"], "--node", node)["perNode"]
        before = self._judge(judge, pod, node, f"before-{number}")
        assert before.ended == "unschedulable", (pod["metadata"]["name"], node, before)
        changes = Changes(self.api, pod, self.bound)
        try:
            made = [changes.make(sentence) for sentence in answer["possibleChanges"]]
            after = self._judge(judge, changes.pod, node, f"after-{number}", until="bound")
        except NotAboutThisClusterError:
            self.counts["proposals of another node"] += 1
            return
        finally:
            changes.undo()
        proposed = answer["possibleChanges"]
        assert (after.ended, after.node) == ("bound", node), (pod["metadata"]["name"], proposed, after)
        self.counts["proposals made"] += 1
        self.counts.update(f"by {kind}" for kind in made)

    def _judge(self, judge: KubeScheduler, pod: Json, node: str, name: str, until: str = "") -> Attempt:
        """Return kube-scheduler's attempt for the pod on that node alone; `until`: the end to wait for."""
        probe_pod = fresh(pod)
        probe_pod["metadata"]["name"] = name
        spec = probe_pod["spec"]
        spec["schedulerName"] = JUDGE
        only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = spec.setdefault("affinity", {})
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
        self.api.create(self._pods_path, probe_pod)
        full = f"{self.namespace}/{name}"

        def done() -> bool:
            attempts = judge.attempts_of(full)
            return bool(attempts) and bool(attempts[-1].ended) and (not until or attempts[-1].ended == until)

        try:
            judge.wait_for(done, f"{full} to be judged", 30.0)
        except AssertionError:
            if not judge.attempts_of(full):
                raise
        self.api.delete(f"{self._pods_path}/{name}")
        judge.wait_for(lambda: full in judge.gone, f"{full} to be gone")
        return judge.attempts_of(full)[-1]

    def check_weights(self, probes: int) -> None:
        """Check `balance --weights`: a probe's winners are the best nodes of a kube-scheduler with those weights."""
        for pod in [*self.waiting, *self.bound[::5]]:  # room on every node, and nobody else who waits for it
            self.api.delete(f"{self._pods_path}/{pod['metadata']['name']}")
        rng = random.Random(2)
        made = [questions_cluster.probe(rng, f"probe-{i}") for i in range(probes)]
        self.herodotus.start_scheduler()
        expected_winners = [self._re_weighed(probe) for probe in made]
        self.herodotus.scheduler.stop()
        for number, weights in enumerate(WEIGHTS):
            with self.judging(weights) as judge:
                for probe, winners in zip(made, expected_winners, strict=True):
                    best = self._winners(judge, probe)
                    # of equal nodes the recorded winner wins again, and is then the only one in the answer
                    expected = best & winners[number] if len(winners[number]) == 1 else best
                    assert winners[number] == expected, (probe["metadata"]["name"], weights, best)
                    self.counts["probes re-weighed"] += 1

    def _re_weighed(self, probe: Json) -> list[set[str]]:
        """Return, for each of WEIGHTS, the nodes that would have won the probe's decision."""
        name = probe["metadata"]["name"]
        self.api.create(self._pods_path, probe)
        eventually(lambda: self._placed(name), f"{name} to be placed", DECIDED_S, every_s=0.2)
        winners = []
        for weights in WEIGHTS:
            assignments = ",".join(f"{plugin}={weight}" for plugin, weight in weights.items())
            answer = self.ask("balance", "--decisions", "1", "--weights", assignments)
            winners.append({row["node"] for row in answer["nodes"] if row["wouldWin"]})
        self.api.delete(f"{self._pods_path}/{name}")
        return winners

    def _placed(self, pod: str) -> bool:
        """Return whether a pod is bound and the decision that placed it is stored."""
        found = self.api.get(f"{self._pods_path}/{pod}")["spec"].get("nodeName")
        return bool(found) and any(d["spec"]["pod"]["name"] == pod for d in self.herodotus.decisions(self.namespace))

    def _winners(self, judge: KubeScheduler, probe: Json) -> set[str]:
        """Return the nodes with the highest total."""
        probe_pod = fresh(probe)
        probe_pod["spec"]["schedulerName"] = JUDGE
        name = f"{self.namespace}/{probe_pod['metadata']['name']}"
        self.api.create(self._pods_path, probe_pod)
        judge.wait_for(lambda: any(a.ended == "bound" for a in judge.attempts_of(name)), f"{name} to be bound")
        self.api.delete(f"{self._pods_path}/{probe_pod['metadata']['name']}")
        judge.wait_for(lambda: name in judge.gone, f"{name} to be gone")
        (attempt,) = [a for a in judge.attempts_of(name) if a.ended == "bound"]
        return {node for node, total in attempt.totals.items() if total == max(attempt.totals.values())}


def _refused(pod: Json) -> str:
    """Return the message of the condition that reports the pod as unschedulable."""
    conditions = pod["status"].get("conditions") or []
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")


def _evicted(preemption: Json | None) -> list[str]:
    """Return the victims of a preemption that was carried out."""
    if not preemption or not preemption["evicted"]:
        return []
    return [v for c in preemption["candidates"] if c["node"] == preemption["nominatedNode"] for v in c["victims"]]


def _padded(lists: list[list[Json]]) -> list[list[Json | None]]:
    longest = max(map(len, lists), default=0)
    return [[*found, *[None] * (longest - len(found))] for found in lists]
