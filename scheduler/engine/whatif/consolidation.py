"""Which nodes could be emptied one after the other, and what keeps the others.

A node can be emptied if a drain evicts all its pods and every one of them finds another node, without preemption. The
nodes with the smallest share of requested CPU or memory are tried first. What a successful trial moves stays moved, and
a trial that fails is undone. The order is a heuristic: another one may empty more nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from herodotus_answers.cluster_questions import ConsolidationQuestion, Drain
from herodotus_answers.cluster_review import Consolidation, KeepingPod
from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.whatif.eviction import find_refusal, is_left_alone
from scheduler.engine.whatif.owners import build_replacement, is_replaced
from scheduler.engine.whatif.simulation import Simulation, format_no_profile


def consolidate(simulation: Simulation, question: ConsolidationQuestion) -> Consolidation:
    """Return the nodes that could be emptied, in order, and for each other node the pods that keep it.

    Nodes of the question that do not exist are ignored.
    """
    flags = Drain(nodes=[], force=question.force, delete_empty_dir_data=question.delete_empty_dir_data)
    result: Consolidation = {"emptied": [], "kept": []}
    for node in _list_candidates(simulation, question.nodes):
        trial = _Trial(simulation, node)
        trial.run(flags)
        if trial.blockers:
            trial.undo()
            pods: list[KeepingPod] = [{"pod": pod, "reason": reason} for pod, reason in trial.blockers.items()]
            result["kept"].append({"node": node, "pods": pods})
        else:
            targets = dict(trial.count_targets())
            result["emptied"].append({"node": node, "pods": len(trial.removed), "targets": targets})
    return result


def _list_candidates(simulation: Simulation, names: list[str] | None) -> list[str]:
    """Return the existing nodes of `names`, or all nodes for None, by ascending share of requested CPU or memory."""
    nodes, share = simulation.nodes, {}
    used = [(nodes.requested(name), nodes.allocatable(name)) for name in (requests.CPU, requests.MEMORY)]
    for name in list(nodes.index) if names is None else dict.fromkeys(names):
        if simulation.node(name) is not None:
            slot = nodes.index[name]
            share[name] = max(int(requested[slot]) / max(1, int(total[slot])) for requested, total in used)
    return sorted(share, key=lambda name: (share[name], name))


@dataclass
class _Trial:
    """The attempt to empty one node. `blockers` are the pods that keep the node, with the reason."""

    simulation: Simulation
    node: str
    removed: list[PodInfo] = field(default_factory=list)
    placed: list[tuple[PodInfo, str]] = field(default_factory=list)
    blockers: dict[str, str] = field(default_factory=dict)

    def run(self, flags: Drain) -> None:
        """Cordon the node and move its pods away, until one of them cannot be moved.

        `blockers` then has the pods that keep the node; it is empty if all pods were moved.
        """
        simulation = self.simulation
        self._budgets, self._object = simulation.budgets.copy(), simulation.node(self.node)
        self._claims = simulation.claims.mark()
        assert self._object is not None
        spec = msgspec.structs.replace(self._object.spec, unschedulable=True)
        simulation.set_node(msgspec.structs.replace(self._object, spec=spec))
        pods = simulation.pods_on(self.node)
        refusals = {pod.full_name: find_refusal(pod.pod, flags) for pod in pods}
        self.blockers = {name: refusal[1] for name, refusal in refusals.items() if refusal}
        left = [pod for pod in pods if not is_left_alone(pod.pod)]
        while left and not self.blockers:
            refused = {}
            for pod in left:
                refusal = simulation.budgets.evict(pod.pod)
                if refusal is not None:
                    refused[pod.full_name] = refusal.message
                elif not self._move(pod):
                    return
            if len(refused) == len(left):
                self.blockers = refused
            left = [pod for pod in left if pod.full_name in refused]

    def _move(self, pod: PodInfo) -> bool:
        """Remove a pod and place its replacement on another node; return False if no node is feasible.

        The reason is then added to `blockers`. A pod without a controller gets no replacement.
        """
        simulation = self.simulation
        simulation.nodes.remove_pod(pod.uid, self.node)
        simulation.claims.release(pod)
        self.removed.append(pod)
        if not is_replaced(pod):
            return True
        successor = build_replacement(pod.pod, simulation.next_number())
        result = simulation.place(successor)
        if result is None or result.chosen is None:
            self.blockers[pod.full_name] = format_no_profile(pod.pod) if result is None else result.message
            return False
        self.placed.append((successor, simulation.nodes.names[result.chosen]))
        return True

    def undo(self) -> None:
        """Restore the state before the trial."""
        for pod, node in self.placed:
            self.simulation.nodes.remove_pod(pod.uid, node)
        for pod in self.removed:
            self.simulation.nodes.add_pod(pod, self.node)
        self.simulation.claims.undo(self._claims)
        assert self._object is not None
        self.simulation.set_node(self._object)
        self.simulation.budgets = self._budgets

    def count_targets(self) -> Counter[str]:
        """Return the number of moved pods by their new node."""
        return Counter(node for _, node in self.placed)
