"""The cluster as a simulation would leave it: the rows of `top` with the pods that a cluster review moves.

Owns: reading the answer, moving requests between rows. Does not own: the answer, which `whatif` gives; drawing
(`rows`). Pure.

Invariant: when every move is shown, the amounts of a node differ from those that were read by what the answer says.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from herodotus_answers.cluster_headlines import shorten_fit_error
from herodotus_cli.top.cluster import Amount, NodeRow, NodesAndPods, PodRow

Json = dict[str, Any]
Amounts = tuple[int, int, int]  # CPU in millicores, memory in bytes, pods

_SCALABLE = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job")


class PodMove(NamedTuple):
    """A pod that leaves a node or gets one. A node is "" for a pod that is new, that is deleted, or that waits."""

    namespace: str
    name: str
    owner: str
    from_node: str
    node: str
    cause: str  # why it moves, such as Drained, and for a deleted pod why it ends
    decided_by: str
    reason: str  # why it finds no node
    is_deleted: bool = False

    @property
    def waits(self) -> bool:
        """Whether the pod finds no node."""
        return not self.node and not self.is_deleted


class ClusterSimulation(NamedTuple):
    """A what-if answer: the simulated actions, such as ("drain", "worker-1"), the moved pods and the changed nodes."""

    actions: tuple[tuple[str, ...], ...]
    headline: str
    moves: tuple[PodMove, ...]
    differences: Mapping[str, Amounts]  # of each node that changes
    schedulable: Mapping[str, bool]  # of the same nodes

    @property
    def title(self) -> str:
        """The actions in a line."""
        return ", then ".join(" ".join(words) for words in self.actions)


def build_words(actions: Sequence[Sequence[str]]) -> list[str]:
    """Return the plugin's arguments that simulate actions in order: `whatif ACTION --then ACTION …`, as words."""
    first, *others = actions
    return ["whatif", *first, *(word for action in others for word in ("--then", shlex.join(action)))]


def read_simulation(actions: Iterable[tuple[str, ...]], answer: Json) -> ClusterSimulation:
    """Return the simulation of the actions in a ClusterReview document. Raises KeyError if its status lacks a field."""
    status = answer["status"]
    moves = [
        PodMove(
            namespace=each["namespace"],
            name=each["name"],
            owner=each["owner"],
            from_node=each["fromNode"],
            node=each["node"],
            cause=each["cause"],
            decided_by=each["plugin"],
            reason=shorten_fit_error(each["reason"]),
        )
        for each in (*status["placements"], *status["pending"])
    ]
    moves += [
        PodMove(
            each["namespace"], each["name"], each["owner"], each["node"], "", each["cause"], "", "", is_deleted=True
        )
        for each in status["deleted"]
    ]
    return ClusterSimulation(
        tuple(actions),
        str(status["headline"]),
        tuple(moves),
        {each["name"]: _subtract(each["after"], each["before"]) for each in status["nodes"]},
        {each["name"]: bool(each["schedulable"]) for each in status["nodes"]},
    )


def _subtract(after: Json | None, before: Json | None) -> Amounts:
    cpu, memory, pods = ((after or {}).get(key, 0) - (before or {}).get(key, 0) for key in ("cpu", "memory", "pods"))
    return cpu, memory, pods


def simulate(state: NodesAndPods, simulation: ClusterSimulation, shown: int) -> NodesAndPods:
    """Return a copy of `state` after the first `shown` moves of a simulation.

    Each node that the whole simulation changes has its requests in `state` as `before`, even if no shown move is about
    it.
    """
    pods = {(pod.namespace, pod.name): pod for pod in state.pods}
    templates = {(pod.namespace, pod.workload): pod for pod in state.pods if pod.workload}
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for move in simulation.moves[:shown]:
        key = (move.namespace, move.name)
        present = pods.get(key)
        pod = present or _create_pod(move, templates.get((move.namespace, move.owner)))
        for node, sign in ((move.from_node, -1), (move.node, 1)):
            for i, amount in enumerate((pod.cpu, pod.memory, 1)):
                sums[node][i] += sign * amount
        if move.is_deleted:
            pods.pop(key, None)
        else:
            pods[key] = pod._replace(node=move.node)
    changes = simulation.differences if shown >= len(simulation.moves) else sums
    rows = [_change_row(row, simulation, changes) for row in state.nodes]
    return NodesAndPods(rows, list(pods.values()), state.has_all_pods)


def _create_pod(move: PodMove, template: PodRow | None) -> PodRow:
    cpu, memory = (template.cpu, template.memory) if template else (0, 0)
    owner = template.owner if template else move.owner
    return PodRow(move.namespace, move.name, move.node, owner, move.owner, cpu, memory, created_at="", placed_at="")


def _change_row(row: NodeRow, simulation: ClusterSimulation, changes: Mapping[str, Sequence[int]]) -> NodeRow:
    if row.name not in simulation.differences:
        return row
    cpu, memory, pods = changes.get(row.name, (0, 0, 0))
    marks = tuple(mark for mark in row.marks if mark != "cordoned")
    if not simulation.schedulable[row.name]:
        marks = ("cordoned", *marks)
    return row._replace(cpu=_add(row.cpu, cpu), memory=_add(row.memory, memory), pods=_add(row.pods, pods), marks=marks)


def _add(amount: Amount, difference: int) -> Amount:
    return Amount(max(0, amount.requested + difference), amount.allocatable, before=amount.requested)


def select_still_waiting(
    waiting: Iterable[Mapping[str, Any]], simulation: ClusterSimulation
) -> list[Mapping[str, Any]]:
    """Return the pods that wait after a simulation: pods of its moves that find no node, then the others in `waiting`.

    Pods in `waiting` that get a node or are deleted are not returned.
    """
    placed = {(move.namespace, move.name) for move in simulation.moves if move.node or move.is_deleted}
    new = [
        {"namespace": m.namespace, "pod": m.name, "reason": m.reason, "overdue": False, "createdAt": ""}
        for m in simulation.moves
        if m.waits
    ]
    names = {(pod["namespace"], pod["pod"]) for pod in new}
    return [*new, *(pod for pod in waiting if (pod["namespace"], pod["pod"]) not in placed | names)]


def build_replica_action(pod: PodRow, pods: Iterable[PodRow]) -> tuple[str, ...] | None:
    """Return the action that adds one pod to a pod's workload, or None if workloads of its kind cannot be scaled."""
    kind, _, name = pod.workload.partition("/")
    if kind not in _SCALABLE:
        return None
    count = sum((other.namespace, other.workload) == (pod.namespace, pod.workload) for other in pods)
    return ("scale", f"{kind.lower()}/{name}={count + 1}", "-n", pod.namespace)
