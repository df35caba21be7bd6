"""A copy of a cluster in which pods leave, land and nodes change, and in which every change can be undone.

Owns: the changes and their undoing, and the nodes among which kube-scheduler may draw for a pod. Does not own: the
decision (`engine.cycle`), claims (`whatif.claims`), which changes make sense (`search`, `verification`).

Invariant: after `undo(mark)` the copy is as it was when `mark()` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import DecisionPath
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.equivalence_cache import PluginDependencies
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.plugin_results import PluginError
from scheduler.engine.framework.pre_filtering import PreFilterOutcome
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.sampling import ADAPTIVE, num_feasible_nodes_to_find
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects import requests
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import (
    NO_PROVISIONER,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.engine.objects.types import Condition, Node, Pod, PodStatus
from scheduler.engine.plans.movable import read_amount
from scheduler.engine.plans.time_limit import TimeLimit
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.dynamic_resources.reporting import list_present_devices
from scheduler.engine.plugins.pod_topology_spread import PodTopologySpread
from scheduler.engine.whatif.claims import SimulatedClaims
from scheduler.engine.whatif.nodes import copy_node, mark_schedulable
from scheduler.engine.whatif.owners import build_replacement
from scheduler.engine.whatif.simulation import WhatIfState

Mask = NDArray[np.bool_]
RUNNING: Final = PodStatus(phase="Running", conditions=[Condition(type="Ready", status="True")])
_DELETED_AT: Final = "2026-01-01T00:00:00Z"  # any time: scheduling reads only whether there is one


class Draws(NamedTuple):
    """The equally good nodes, as slots, between which a tie-break decides for a pod; empty if no node fits.

    `preempts` means that it would evict other pods instead. `result` is that of the cycle.
    """

    slots: tuple[int, ...]
    preempts: bool
    result: CycleResult | None


class World:
    """The copy of a cluster, with an undo log."""

    def __init__(self, state: WhatIfState, limit: TimeLimit) -> None:
        """Take over a state. Each decision first checks the limit, which may raise TimeOverError."""
        self.limit = limit
        self.nodes: NodeColumns = state.nodes
        self.objects: ClusterObjects = state.objects
        self.claims = SimulatedClaims(state.objects)
        self.nominator = state.nominator
        self._framework = state.framework
        self._log: list[Callable[[], object]] = []
        self.decided = 0

    # --- undoing ------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """Return a mark for `undo`."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Undo all changes since `mark` was returned, the last one first."""
        while len(self._log) > mark:
            self._log.pop()()

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Undo at the end of the context what was changed in it."""
        mark = self.mark()
        try:
            yield
        finally:
            self.undo(mark)

    # --- changing -------------------------------------------------------------------------------------------------

    def remove(self, pod: PodInfo, node: str) -> None:
        """Remove a pod from its node, and free its claims."""
        self.release_claims(self.take_off(pod, node))

    def take_off(self, pod: PodInfo, node: str) -> PodInfo:
        """Remove a pod from its node, and return it as it was there. Its claims stay as they are."""
        there = self.nodes.pods[self.nodes.index[node]][pod.uid]
        self.nodes.remove_pod(pod.uid, node)
        self._log.append(lambda: self.nodes.add_pod(there, node))
        return there

    def release_claims(self, pod: PodInfo) -> None:
        """Free the claims of a pod that is gone, as kube-controller-manager does."""
        claims = self.claims.mark()
        self.claims.release(pod)
        self._log.append(lambda: self.claims.undo(claims))

    def list_devices(self, pod: PodInfo) -> frozenset[tuple[str, str, str]]:
        """Return the driver, pool and name of each device that the claims of a placed pod have now."""
        if not pod.pod.spec.resource_claims:
            return frozenset()
        return frozenset((each.driver, each.pool, each.device) for each in list_present_devices(pod, self.objects))

    def terminate(self, pod: PodInfo, node: str) -> None:
        """Mark a pod as being deleted: its node still has its requests, and spread constraints no longer count it."""
        there = self.nodes.pods[self.nodes.index[node]][pod.uid]
        metadata = msgspec.structs.replace(there.pod.metadata, deletion_timestamp=_DELETED_AT)
        self.nodes.replace_pod(PodInfo(msgspec.structs.replace(there.pod, metadata=metadata), running=True), node)
        self._log.append(lambda: self.nodes.replace_pod(there, node))

    def place(self, pod: PodInfo, node: str, state: CycleState | None) -> None:
        """Bind a pod to a node; `state` is that of the cycle that chose the node."""
        claims = self.claims.mark()
        if state is not None:
            self.claims.allocate(pod, node, state)
        spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
        statuses = pod.pod.status.resource_claim_statuses
        status = msgspec.structs.replace(RUNNING, resource_claim_statuses=statuses)
        self.nodes.add_pod(PodInfo(msgspec.structs.replace(pod.pod, spec=spec, status=status), running=True), node)
        self._log += [lambda: self.claims.undo(claims), lambda: self.nodes.remove_pod(pod.uid, node)]

    def generate_claims(self, pod: PodInfo) -> PodInfo:
        """Create the claims of a new pod from their templates, and return the pod with the claims' names."""
        claims = self.claims.mark()
        generated = self.claims.generate(pod)
        if generated is not pod:
            self._log.append(lambda: self.claims.undo(claims))
        return generated

    def set_node(self, node: Node) -> None:
        """Replace a Node object, or add one."""
        name = node.metadata.name
        slot = self.nodes.index.get(name)
        before = None if slot is None else self.nodes.nodes[slot]
        self.nodes.set_node(node)
        self._log.append(lambda: self.nodes.remove_node(name) if before is None else self.nodes.set_node(before))

    def add_node(self, like: str, name: str) -> None:
        """Add an empty copy of a node, with its devices and copies of the pods that DaemonSets have there."""
        daemons = [
            pod
            for pod in self.nodes.pods[self.nodes.index[like]].values()
            if pod.pod.is_of_daemon_set and not pod.terminating
        ]
        self.set_node(copy_node(self.node(like), name))
        self.claims.copy_devices(like, name)
        self._log.append(lambda: self.claims.remove_devices(name))
        limits = self.objects.get(CSINode, like)
        if limits is not None:
            copied = msgspec.structs.replace(limits, metadata=msgspec.structs.replace(limits.metadata, name=name))
            self.objects.set(copied)
            self._log.append(lambda: self.objects.remove(copied))
        for number, daemon in enumerate(daemons):
            pod = build_replacement(daemon.pod, number)
            metadata = msgspec.structs.replace(pod.pod.metadata, uid=f"{name}/{pod.uid}")
            self.place(PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata)), name, None)

    def set_schedulable(self, names: Sequence[str], schedulable: bool) -> None:
        """Cordon or uncordon nodes."""
        for name in names:
            node = self.node(name)
            changed = mark_schedulable(node, schedulable)
            if changed is not node:
                self.set_node(changed)

    def node(self, name: str) -> Node:
        """Return the Node object with this name. Raises KeyError if there is none."""
        node = self.nodes.nodes[self.nodes.index[name]]
        if node is None:
            raise KeyError(name)
        return node

    def chooses_volume(self, pod: PodInfo) -> bool:
        """Return whether a claim of the pod is unbound, so that its volume is chosen with its node.

        Not where a new volume is provisioned wherever the pod lands. `place` does not bind volumes.
        """
        for name in pod.claims:
            claim = self.objects.get(PersistentVolumeClaim, name.rpartition("/")[2], pod.namespace)
            if claim is None or claim.spec.volume_name:
                continue
            storage_class = self.objects.get(StorageClass, claim.storage_class)
            if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
                return True
            volumes = (each for each in self.objects.all(PersistentVolume) if not each.spec.claim_ref)
            if any(each.storage_class == claim.storage_class for each in volumes):
                return True
            if any(each.storage_class_name == claim.storage_class for each in self.objects.all(CSIStorageCapacity)):
                return True
        return False

    # --- deciding ---------------------------------------------------------------------------------------------------

    def framework(self, pod: Pod) -> Framework | None:
        """Return the framework that decides a pod, or None if no profile has its scheduler's name."""
        return self._framework(pod.spec.scheduler_name)

    def has_unknown_rules(self, pod: PodInfo) -> bool:
        """Return whether more than the pod's spec and the filters in the tree decide on its node.

        That is an extender, a filter outside the tree, hard default constraints for spreading, or no profile.
        """
        framework = self.framework(pod.pod)
        if framework is None or framework.extenders.filter or framework.extenders.prioritize:
            return True
        filters = framework.profile.filter
        return any(
            each.name not in IN_TREE or (isinstance(each, PodTopologySpread) and each.has_hard_default_constraints)
            for each in filters
        )

    def list_counted_resources(self, pod: PodInfo) -> list[str]:
        """Return the resources that a pod requests and that only nodes offer, not devices of claims."""
        framework = self.framework(pod.pod)
        if framework is None or not any(plugin.name == "NodeResourcesFit" for plugin in framework.profile.filter):
            return []
        named = [name for name, amount in pod.requests.items() if amount > 0]
        return [
            requests.PODS,
            *(name for name in named if not requests.is_extended(name) or self.nodes.allocatable(name).any()),
        ]

    def compute_missing(self, pod: PodInfo, resources: Sequence[str]) -> NDArray[np.int64]:
        """Return what each node lacks for a pod, of the shape [resource, node slot]; at most 0 if it has enough."""
        free = [self.nodes.allocatable(name) - self.nodes.requested(name) for name in resources]
        rows = [read_amount(pod, name) - each for name, each in zip(resources, free, strict=True)]
        return np.array(rows, np.int64).reshape(len(resources), self.nodes.slots)

    def find_roomy(self, pod: PodInfo) -> Mask:
        """Return the mask of nodes, by slot, that have as much free of each counted resource as the pod requests."""
        missing = self.compute_missing(pod, self.list_counted_resources(pod))
        return np.logical_and(np.all(missing <= 0, axis=0), self.nodes.live[: self.nodes.slots])

    def find_feasible(self, pod: PodInfo) -> tuple[Mask, CycleState]:
        """Return the mask of the nodes that pass all filters for the pod, by slot, and the state of that search.

        Extenders are not asked, and nothing is preempted.
        """
        trace, outcome, state = self._filter(pod)
        if trace is None:
            return np.zeros(self.nodes.slots, np.bool_), state
        mask = trace.passed.copy()
        if outcome.names is not None:
            allowed = np.zeros(self.nodes.slots, np.bool_)
            allowed[[self.nodes.index[name] for name in outcome.names if name in self.nodes.index]] = True
            mask &= allowed
        return mask, state

    def find_admitting(self, pod: PodInfo) -> Mask:
        """Return the mask of nodes, by slot, that departing pods could make feasible for the pod.

        Elsewhere a filter that reads only the Node object rejects the pod.
        """
        mask = self.nodes.live[: self.nodes.slots].copy()
        framework, trace = self.framework(pod.pod), self._filter(pod)[0]
        if framework is None or trace is None:
            return mask
        of_node = {
            each.name
            for each in framework.profile.filter
            if PluginDependencies.from_plugin(each, "filter").depends_on is DependsOn.NODE
        }
        for run in trace.filters:
            if run.plugin in of_node and run.verdicts.ids is not None:
                mask &= run.verdicts.ids[: self.nodes.slots] == 0
        return mask

    def _filter(self, pod: PodInfo) -> tuple[Trace | None, PreFilterOutcome, CycleState]:
        """Run all filters for the pod on all nodes. The trace is None if PreFilter rejects it or a plugin fails."""
        framework = self.framework(pod.pod)
        state = CycleState(is_pod_group_cycle=pod.pod_group is not None, skips_post_filter=True)
        if framework is None:
            return None, PreFilterOutcome(), state
        trace = Trace.start(self.nodes)
        self.limit.check()
        self.decided += 1
        try:
            outcome = framework.run_pre_filter(state, pod, self.nodes, trace)
            if outcome.rejection is not None:
                return None, outcome, state
            framework.run_filters(state, pod, self.nodes, outcome.skip, trace)
        except PluginError:
            return None, PreFilterOutcome(), state
        return trace, outcome, state

    def find_draws(self, pod: PodInfo) -> Draws:
        """Return the nodes among which kube-scheduler may draw for the pod.

        They are the best ones. Where it stops after enough feasible nodes, every feasible node may be the best of
        those that it sees.
        """
        framework = self.framework(pod.pod)
        if framework is None:
            return Draws((), False, None)
        self.limit.check()
        self.decided += 1
        result = schedule_regardless_of_group(framework, pod, Snapshot.from_columns(self.nodes), 0)
        trace = result.trace
        if result.chosen is None:
            preempts = trace.preemption is not None and bool(trace.preemption.nominated_node)
            return Draws((), preempts, result)
        if result.path in (DecisionPath.ONLY_FEASIBLE, DecisionPath.NOMINATED):
            return Draws((result.chosen,), False, result)
        feasible = np.flatnonzero(trace.passed & self.nodes.live[: self.nodes.slots])
        live = int(np.count_nonzero(self.nodes.live[: self.nodes.slots]))
        percentage = framework.profile.percentage_of_nodes_to_score
        enough = min(num_feasible_nodes_to_find(live, each) for each in (percentage, ADAPTIVE))
        evaluated = np.flatnonzero(trace.feasible)
        if len(feasible) > enough:
            return Draws(tuple(feasible.tolist()), False, result)
        if trace.totals is None:
            return Draws(tuple(evaluated.tolist()), False, result)
        totals = trace.totals[evaluated]
        return Draws(tuple(evaluated[totals == totals.max()].tolist()), False, result)
