"""Victims of a pod group as a whole, with the feature gate WorkloadAwarePreemption.

    every pod of lower priority is removed -> [the group fits?] -> each is added again, where the group still fits
                                                                -> the others are the victims

Owns: removing pods from the cache for a moment. Does not own: which pods are victims
(`default_preemption.group_victims`), trying the group (`placing`), evictions.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go v1.36, schedule_one_podgroup.go
(runWorkloadAwarePreemption).

Invariant: the cache has the same pods afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from herodotus_record import reasons
from herodotus_record.model import Reason
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.pod_groups.placing import Member, PodGroupResult
from scheduler.backend.queue import QueuedPod
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.pod_groups import find_pod_group
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.plugins.default_preemption import DefaultPreemption
from scheduler.engine.plugins.default_preemption.group_victims import (
    PreemptionUnit,
    list_units,
    select_group_victims,
)
from scheduler.engine.plugins.default_preemption.victims import group_by_namespace


@dataclass(frozen=True)
class _Refusal:
    """Why a group does not preempt: a message for its condition, or the error that ends the cycle."""

    message: str = ""
    error: str = ""


class TrialFailedError(Exception):
    """The error of a trial in which a plugin failed, which ends the cycle of the group."""


class VictimsOfGroups:
    """Chooses victims for groups that do not fit.

    `framework` returns that of a pod's profile. `find_failure` tries to place the pods of a group on the cluster as it
    is, and returns "" if that succeeds or else the message of the group; it raises TrialFailedError.
    """

    def __init__(
        self,
        cluster: ClusterState,
        framework: Callable[[PodInfo], Framework],
        find_failure: Callable[[PodGroupKey, Sequence[QueuedPod]], str],
    ) -> None:
        self._cluster, self._framework, self._find_failure = cluster, framework, find_failure

    def choose(self, key: PodGroupKey, pods: Sequence[QueuedPod], result: PodGroupResult[Member]) -> None:
        """Choose victims so that the group fits, and mark `result` as waiting for preemption.

        If there are no victims, `result` gets the reason in its message, or the error that ends the cycle. In a dry run
        `result` gets no victims.
        """
        try:
            chosen = self._choose(key, pods)
        except TrialFailedError as e:
            chosen = _Refusal(error=str(e))
        if not isinstance(chosen, _Refusal):
            evicts = all(plugin.handle.evicts for plugin in self._find_plugins(pods[0].pod))
            result.waits_for_preemption, result.victims = True, chosen if evicts else ()
        elif chosen.error:
            result.fail(chosen.error)
        else:
            result.message = ", ".join(filter(None, (result.message, chosen.message)))

    def _find_plugins(self, pod: PodInfo) -> list[DefaultPreemption]:
        """Return the preemption plugins of the pod's profile, of which there is one or none."""
        plugins = self._framework(pod).profile.post_filter
        return [each for each in plugins if isinstance(each, DefaultPreemption)]

    def _choose(self, key: PodGroupKey, pods: Sequence[QueuedPod]) -> tuple[PodInfo, ...] | _Refusal:
        """Return the pods to evict for the group, or a _Refusal with the reason why none may be evicted."""
        plugins = self._find_plugins(pods[0].pod)
        if not plugins:
            return _refuse("group-preemption-off")
        group = find_pod_group(self._cluster.objects, key)
        if group is None:
            missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            return _Refusal(error=f"failed to get pod group object: {missing}")
        if group.topology_key is not None:
            return _refuse("group-preemption-topology")
        if not plugins[0].handle.preempts:
            return _refuse("preemption-off")
        if any(queued.pod.pod.spec.preemption_policy == "Never" for queued in pods):
            return _refuse("preemption-never")
        columns = self._cluster.cache.columns
        units = [u for u in list_units(columns, self._cluster.objects) if u.priority < (group.spec.priority or 0)]
        if not units:
            return _refuse("group-no-victims")
        return self._select(key, pods, units)

    def _select(
        self, key: PodGroupKey, pods: Sequence[QueuedPod], units: Sequence[PreemptionUnit]
    ) -> tuple[PodInfo, ...] | _Refusal:
        columns, removed = self._cluster.cache.columns, list[PreemptionUnit]()

        def remove(unit: PreemptionUnit) -> None:
            removed.append(unit)
            for pod, node in unit.pods:
                columns.remove_pod(pod.uid, node)

        def add(unit: PreemptionUnit) -> None:
            removed.remove(unit)
            for pod, node in unit.pods:
                columns.add_pod(pod, node)

        try:
            for unit in units:
                remove(unit)
            failure = self._find_failure(key, pods)
            if failure:
                return _Refusal(failure)
            budgets = group_by_namespace(self._cluster.objects.all(PodDisruptionBudget))
            return tuple(
                select_group_victims(units, budgets, add, remove, fits=lambda: not self._find_failure(key, pods))
            )
        finally:
            for unit in list(removed):
                add(unit)


def _refuse(code: str) -> _Refusal:
    return _Refusal(reasons.format_reason(Reason(code)))
