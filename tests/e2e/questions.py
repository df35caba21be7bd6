"""Each question asked of a real cluster through the plugin, and the answers checked against others.

Owns: the asking and the checks. Does not own: the cluster (`questions_cluster`), proposals (`questions_changes`).

Judges: the API server, which knows where pods are, and a stock kube-scheduler, which says what fits where and what
other weights choose. None of them runs our code. While they judge, our scheduler is stopped: the cluster stands still.
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
from herodotus_cli.context import Environment
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
    """A decided cluster, and everyone who can be asked about it."""

    def __init__(self, api: Cluster, namespace: str, herodotus: Herodotus, binary: Path, directory: Path) -> None:
        """`binary`: of kube-scheduler."""
        self.api, self.namespace, self.herodotus = api, namespace, herodotus
        self.counts: Counter[str] = Counter()
        self._binary, self._directory, self._judges = binary, directory, 0
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"

    # --- the cluster ------------------------------------------------------------------------------------------------

    def fill(self, seed: int, nodes: int) -> None:
        """Creates the cluster, ten pods a node, and waits until everything is decided and nothing changes any more."""
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
        """Whether every pod is bound or refused. A scheduler that has lost its Lease on a busy machine is replaced."""
        if not self.herodotus.scheduler.running:
            self.herodotus.start_scheduler()
        return all(p["spec"].get("nodeName") or _refused(p) for p in self.api.items(self._pods_path))

    def _changed_by_another(self) -> bool:
        """Whether another scheduler places anything, once it has tried everything that waits."""
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
        """What there was, and what was checked."""
        pods = (
            f"{len(self.created)} pods, {len(self.bound)} bound, {len(self.waiting)} waiting, {len(self.gone)} evicted"
        )
        return f"{pods}; {', '.join(f'{count} {what}' for what, count in sorted(self.counts.items()))}"

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask(self, *words: str) -> Json:
        """The plugin's answer as a document."""
        out = StringIO()
        around = Environment({}, out, lambda: datetime.now().astimezone(), lambda: 80)
        assert run([*words, "--endpoint", self.herodotus.endpoint_url, "-o", "json"], around) == 0, words
        self.counts["questions"] += 1
        answer: Json = json.loads(out.getvalue())
        return answer

    def ask_in(self, *words: str) -> Json:
        """A question about something in the namespace."""
        return self.ask(*words, "-n", self.namespace)

    @contextmanager
    def judging(self, weights: Json | None = None) -> Iterator[KubeScheduler]:
        """A stock kube-scheduler, for pods that name JUDGE."""
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
        """`pod NAME`, `pending`, `node NAME`, `workload`: as the API server has it."""
        rng = random.Random(1)
        for pod in rng.sample(self.bound, min(pods, len(self.bound))):
            answer = self.ask_in("pod", pod["metadata"]["name"])
            assert answer["outcome"]["node"] == pod["spec"]["nodeName"]
        for pod in self.waiting[:pods]:
            answer = self.ask_in("pod", pod["metadata"]["name"])
            assert (answer["outcome"]["node"], answer["message"]) == (None, _refused(pod))
        evicted = self._check_evictions()
        told = {p["pod"] for p in self.ask_in("pending")["pods"]}
        assert told == {p["metadata"]["name"] for p in self.waiting}
        for number in range(questions_cluster.SETS):
            self._check_workload(f"set-{number}")
        there = Counter(p["spec"]["nodeName"] for p in self.bound)
        placements = [d["status"] for d in self.herodotus.decisions(self.namespace) if d["status"]["node"]]
        unbound = [status for status in placements if status["state"] != "Bound"]  # or the scheduler does not know it
        in_vain = Counter(status["node"] for status in unbound)
        for node, _ in [*evicted.most_common(2), *there.most_common(2)]:
            told, known = self.ask("node", node)["chosen"], there[node] + evicted[node]
            assert known <= told <= known + in_vain[node], node

    def _check_evictions(self) -> Counter[str]:
        """Every pod that was evicted is told by the one that it was evicted for, and is on its node now.

        How many pods of each node.
        """
        told: dict[str, str] = {}
        evicted: Counter[str] = Counter()
        for pod in self.bound:
            name = pod["metadata"]["name"]
            if pod["spec"].get("priorityClassName"):
                for attempt in range(1, self.ask_in("pod", name)["attempt"]["attempts"] + 1):
                    answer = self.ask_in("pod", name, "--attempt", str(attempt))
                    told |= dict.fromkeys(_evicted(answer["preemption"]), name)
        assert told.keys() >= {f"{self.namespace}/{name}" for name in self.gone}
        for victim, name in told.items():
            node = self.ask_in("pod", victim.partition("/")[2])["outcome"]["node"]
            (where,) = [p["spec"]["nodeName"] for p in self.bound if p["metadata"]["name"] == name]
            assert (victim, node) == (victim, where)
            self.counts["evictions"] += 1
            evicted[node] += 1
        return evicted

    def _check_workload(self, name: str) -> None:
        """Pods that are there now are part of what was placed, node by node."""
        there = Counter(
            p["spec"]["nodeName"]
            for p in self.bound
            if name in [o["name"] for o in p["metadata"].get("ownerReferences", ())]
        )
        told = {row["node"]: row["pods"] for row in self.ask_in("workload", f"sts/{name}")["nodes"]}
        assert not [node for node, pods in there.items() if told.get(node, 0) < pods], (name, there, told)

    def check_proposals(self, pods: int) -> None:
        """`pod NAME --node X`: without the change the node does not take the pod, with it the node does."""
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
        before = self._judged(judge, pod, node, f"before-{number}")
        assert before.ended == "unschedulable", (pod["metadata"]["name"], node, before)
        changes = Changes(self.api, pod, self.bound)
        try:
            made = [changes.make(sentence) for sentence in answer["toMakeItFeasible"]]
            after = self._judged(judge, changes.pod, node, f"after-{number}", until="bound")
        except NotAboutThisClusterError:
            self.counts["proposals of another node"] += 1
            return
        finally:
            changes.undo()
        proposed = answer["toMakeItFeasible"]
        assert (after.ended, after.node) == ("bound", node), (pod["metadata"]["name"], proposed, after)
        self.counts["proposals made"] += 1
        self.counts.update(f"by {kind}" for kind in made)

    def _judged(self, judge: KubeScheduler, pod: Json, node: str, name: str, until: str = "") -> Attempt:
        """What kube-scheduler says of a pod on that node alone; with `until` it may take several attempts."""
        asked = fresh(pod)
        asked["metadata"]["name"] = name
        spec = asked["spec"]
        spec["schedulerName"] = JUDGE
        only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = spec.setdefault("affinity", {})
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
        self.api.create(self._pods_path, asked)
        full = f"{self.namespace}/{name}"

        def done() -> bool:
            said = judge.of(full)
            return bool(said) and bool(said[-1].ended) and (not until or said[-1].ended == until)

        try:
            judge.wait_for(done, f"{full} to be judged", 30.0)
        except AssertionError:
            if not judge.of(full):
                raise
        self.api.delete(f"{self._pods_path}/{name}")
        judge.wait_for(lambda: full in judge.gone, f"{full} to be gone")
        return judge.of(full)[-1]

    def check_weights(self, probes: int) -> None:
        """`balance --weights`: a probe's winners are the nodes to which a kube-scheduler with them gives most."""
        for pod in [*self.waiting, *self.bound[::5]]:  # room on every node, and nobody else who waits for it
            self.api.delete(f"{self._pods_path}/{pod['metadata']['name']}")
        rng = random.Random(2)
        made = [questions_cluster.probe(rng, f"probe-{i}") for i in range(probes)]
        self.herodotus.start_scheduler()
        told = [self._re_weighed(probe) for probe in made]
        self.herodotus.scheduler.stop()
        for number, weights in enumerate(WEIGHTS):
            with self.judging(weights) as judge:
                for probe, winners in zip(made, told, strict=True):
                    best = self._winners(judge, probe)
                    # of equals the one that won before wins again: then it alone is told
                    expected = best & winners[number] if len(winners[number]) == 1 else best
                    assert winners[number] == expected, (probe["metadata"]["name"], weights, best)
                    self.counts["probes re-weighed"] += 1

    def _re_weighed(self, probe: Json) -> list[set[str]]:
        """For each of WEIGHTS the nodes that the newest decision, which is the probe's, would have gone to."""
        name = probe["metadata"]["name"]
        self.api.create(self._pods_path, probe)
        eventually(lambda: self._placed(name), f"{name} to be placed", DECIDED_S, every_s=0.2)
        told = []
        for weights in WEIGHTS:
            asked = ",".join(f"{plugin}={weight}" for plugin, weight in weights.items())
            answer = self.ask("balance", "--decisions", "1", "--weights", asked)
            told.append({row["node"] for row in answer["nodes"] if row["wouldWin"]})
        self.api.delete(f"{self._pods_path}/{name}")
        return told

    def _placed(self, pod: str) -> bool:
        """Whether a pod is on its node, and the decision that put it there is stored."""
        found = self.api.get(f"{self._pods_path}/{pod}")["spec"].get("nodeName")
        return bool(found) and any(d["spec"]["pod"]["name"] == pod for d in self.herodotus.decisions(self.namespace))

    def _winners(self, judge: KubeScheduler, probe: Json) -> set[str]:
        """The nodes with the highest total."""
        asked = fresh(probe)
        asked["spec"]["schedulerName"] = JUDGE
        name = f"{self.namespace}/{asked['metadata']['name']}"
        self.api.create(self._pods_path, asked)
        judge.wait_for(lambda: any(a.ended == "bound" for a in judge.of(name)), f"{name} to be bound")
        self.api.delete(f"{self._pods_path}/{asked['metadata']['name']}")
        judge.wait_for(lambda: name in judge.gone, f"{name} to be gone")
        (attempt,) = [a for a in judge.of(name) if a.ended == "bound"]
        return {node for node, total in attempt.totals.items() if total == max(attempt.totals.values())}


def _refused(pod: Json) -> str:
    """The message of the condition that says that the pod fits nowhere."""
    conditions = pod["status"].get("conditions") or []
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")


def _evicted(preemption: Json | None) -> list[str]:
    """The victims of a preemption that was carried out."""
    if not preemption or not preemption["evicted"]:
        return []
    return [v for c in preemption["candidates"] if c["node"] == preemption["nominatedNode"] for v in c["victims"]]


def _padded(lists: list[list[Json]]) -> list[list[Json | None]]:
    longest = max(map(len, lists), default=0)
    return [[*found, *[None] * (longest - len(found))] for found in lists]
