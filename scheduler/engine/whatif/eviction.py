"""Drain a node as kubectl does: which pods are evicted, in which order, and which stay.

Source: staging/src/k8s.io/kubectl/pkg/drain/filters.go v1.36. kubectl evicts nothing from a node with a pod that a
filter refuses, and repeats evictions that a PodDisruptionBudget refuses. Here they are repeated after the replacements
of the evicted pods were scheduled, until no further pod can be evicted.

A mirror pod is recognized by its owner, the node. That the DaemonSet of a pod exists is not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from herodotus_answers.cluster_headlines import DRAINED, NOT_DRAINED
from herodotus_answers.cluster_questions import Drain
from herodotus_answers.cluster_review import MAX_UNREADY, BlockedPod, BudgetCheck, CheckedBudget, RemovedPod
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.whatif.budgets import EvictionRefusal
from scheduler.engine.whatif.simulation import Simulation

_DAEMON_SET: Final = "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
_LOCAL_STORAGE: Final = "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
_NO_CONTROLLER: Final = "cannot delete Pods that declare no controller (use --force to override)"
_NOT_DRAINED: Final = "kubectl drain evicts no pod of the node because of the pods that it cannot delete"


class DrainResult:
    """The pods that drains could not evict, or left alone. A later drain's verdict on a pod replaces an earlier one."""

    def __init__(self) -> None:
        self._blocked: dict[str, BlockedPod] = {}  # by UID
        self._ignored: dict[str, RemovedPod] = {}  # by UID
        self._selected: dict[str, list[str]] | None = None  # by UID, the budgets that select a pod to be evicted
        self._drains: list[Drain] = []

    def add(self, drain: Drain) -> None:
        """Record that a drain is tried."""
        self._drains.append(drain)

    def list_nodes(self) -> list[str]:
        """Return the nodes of the drains, each once, in order."""
        return list(dict.fromkeys(node for drain in self._drains for node in drain.nodes))

    def list_commands(self, simulation: Simulation) -> list[str]:
        """Return the commands of the drains, or [] if a pod blocks one."""
        if self.list_blocked(simulation):
            return []
        return [build_command(dict.fromkeys(drain.nodes), drain) for drain in self._drains]

    def ask_budgets(self, pods: Iterable[PodInfo], simulation: Simulation) -> None:
        """Record the budgets that select the pods which a drain evicts as far as these budgets allow it."""
        self._selected = {**(self._selected or {}), **{pod.uid: simulation.budgets.names_of(pod.pod) for pod in pods}}

    def block(self, pod: PodInfo, verdict: BlockedPod) -> None:
        """Record why the drain cannot evict the pod, in place of an earlier result for it."""
        self._ignored.pop(pod.uid, None)
        self._blocked[pod.uid] = verdict

    def ignore(self, pod: PodInfo, verdict: RemovedPod) -> None:
        """Record why the drain leaves the pod on its node, in place of an earlier result for it."""
        self._blocked.pop(pod.uid, None)
        self._ignored[pod.uid] = verdict

    def list_blocked(self, simulation: Simulation) -> list[BlockedPod]:
        """Return the pods that drains could not evict and that are still on their nodes."""
        return [stay for uid, stay in self._blocked.items() if simulation.is_on(uid, stay["node"])]

    def list_budgets(self) -> BudgetCheck | None:
        """Return the budgets that drains asked, each with the number of pods that it selects; None without a drain."""
        if self._selected is None:
            return None
        counts = Counter(name for names in self._selected.values() for name in names)
        split = {full: full.partition("/") for full in sorted(counts)}
        selecting: list[CheckedBudget] = [
            {"namespace": split[full][0], "name": split[full][2], "pods": counts[full]} for full in split
        ]
        return {"selecting": selecting}

    def list_ignored(self, simulation: Simulation) -> list[RemovedPod]:
        """Return the pods that drains left on their nodes and that are still there."""
        return [stay for uid, stay in self._ignored.items() if simulation.is_on(uid, stay["node"])]


def build_command(nodes: Iterable[str], flags: Drain) -> str:
    """Return the shell command that drains these nodes with these flags."""
    options = {
        "--ignore-daemonsets": flags.ignore_daemon_sets,
        "--force": flags.force,
        "--delete-emptydir-data": flags.delete_empty_dir_data,
        "--disable-eviction": flags.disable_eviction,
    }
    return " ".join(["kubectl drain", *nodes, *(option for option, is_set in options.items() if is_set)])


def drain(simulation: Simulation, node: str, flags: Drain, result: DrainResult) -> None:
    """Evict the pods of a cordoned node, schedule their replacements, and record other pods in `result`.

    Evicts nothing if kubectl would refuse to drain the node because of one of its pods.
    """
    evicted: list[PodInfo] = []
    refused: list[tuple[PodInfo, tuple[str, str]]] = []
    for pod in simulation.pods_on(node):
        refusal = find_refusal(pod.pod, flags)
        if refusal is not None:
            refused.append((pod, refusal))
        elif is_left_alone(pod.pod):
            owner = pod.pod.metadata.controller
            result.ignore(pod, simulation.remove(pod.pod, node, owner.kind if owner else ""))
        else:
            evicted.append(pod)
    if refused:
        for pod, (cause, message) in refused:
            result.block(pod, _block(simulation, pod, node, cause, message))
        for pod in evicted:
            result.block(pod, _block_beside(simulation, pod, node, flags))
        return
    if not flags.disable_eviction:
        result.ask_budgets(evicted, simulation)
    while evicted:
        before = simulation.progress
        left = [pod for pod in evicted if not _evict(simulation, pod, node, flags)]
        simulation.settle()
        evicted = [pod for pod in left if simulation.is_on(pod.uid, node)]
        if simulation.progress == before:
            break
    for pod in evicted:
        refusal_now = simulation.budgets.evict(pod.pod)
        assert refusal_now is not None
        result.block(pod, _block_by_budget(simulation, pod, node, refusal_now))


def is_left_alone(pod: Pod) -> bool:
    """Return whether a drain leaves the pod on its node, because its controller is a DaemonSet or the node itself."""
    return pod.is_of_daemon_set or pod.is_static


def find_refusal(pod: Pod, flags: Drain) -> tuple[str, str] | None:
    """Return why kubectl refuses to drain a node with this pod, as (cause, kubectl's message), or None."""
    if pod.is_static:
        return None
    if pod.is_of_daemon_set:
        return None if flags.ignore_daemon_sets else ("DaemonSet", _DAEMON_SET)
    if any(volume.empty_dir for volume in pod.spec.volumes or ()) and not flags.delete_empty_dir_data:
        return "LocalStorage", _LOCAL_STORAGE
    return ("NoController", _NO_CONTROLLER) if pod.metadata.controller is None and not flags.force else None


def _evict(simulation: Simulation, pod: PodInfo, node: str, flags: Drain) -> bool:
    """Evict a pod unless a disruption budget forbids it now; return whether it was evicted."""
    if flags.disable_eviction:
        simulation.budgets.delete(pod.pod)
    elif simulation.budgets.evict(pod.pod) is not None:
        return False
    simulation.evict(pod, node, DRAINED)
    return True


def _block_beside(simulation: Simulation, pod: PodInfo, node: str, flags: Drain) -> BlockedPod:
    """Return why a pod stays on a node that kubectl does not drain because of other pods: a budget that forbids it too.

    Without one, or if the drain asks none, it stays because of the others alone.
    """
    refusal = None if flags.disable_eviction else simulation.budgets.find_refusal(pod.pod)
    if refusal is None:
        return _block(simulation, pod, node, NOT_DRAINED, _NOT_DRAINED)
    return _block_by_budget(simulation, pod, node, refusal)


def _block_by_budget(simulation: Simulation, pod: PodInfo, node: str, refusal: EvictionRefusal) -> BlockedPod:
    """Return why budgets forbid the eviction of a pod, and what would let it through."""
    blocked = _block(simulation, pod, node, "Budget", refusal.message, refusal.budget)
    blocked["remedy"] = refusal.remedy
    if refusal.budget and not refusal.is_uncomputed:
        blocked["unready"] = simulation.list_unready(pod.namespace, refusal.budget)[:MAX_UNREADY]
    return blocked


def _block(simulation: Simulation, pod: PodInfo, node: str, cause: str, message: str, budget: str = "") -> BlockedPod:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": node,
        "cause": cause,
        "message": message,
        "owner": simulation.owner_of(pod.pod),
        "budget": budget,
        "unready": [],
        "remedy": "",
    }
