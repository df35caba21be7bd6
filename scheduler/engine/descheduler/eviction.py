"""The descheduler's evictor: which pods plugins may evict, and what an eviction needs.

Owns: the plugin DefaultEvictor, the limits of a run, and the record of its evictions. Does not own: budgets
(`whatif.budgets`), the fit on other nodes (`cluster`), which pods plugins choose.

As in a cluster, a pod that was evicted counts as being deleted, and no successor is Ready before the run ends.

Source: sigs.k8s.io/descheduler v0.36.0, pkg/framework/plugins/defaultevictor, pkg/descheduler/evictions/evictions.go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeVar

from scheduler.engine.descheduler.cluster import SeenCluster, SeenNode
from scheduler.engine.descheduler.policy import (
    SYSTEM_CRITICAL_PRIORITY,
    WITHOUT_BUDGET,
    DefaultEvictorArgs,
    Policy,
    find_priority_threshold,
)
from scheduler.engine.objects import quantity
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import label_selector_matches, parse_label_selector
from scheduler.engine.objects.storage import PersistentVolumeClaim
from scheduler.engine.objects.times import parse_microseconds, parse_seconds
from scheduler.engine.objects.types import Namespace, Pod, ResourceRequirements
from scheduler.engine.whatif.budgets import Budgets
from scheduler.engine.whatif.pods import PriorityClass

Item = TypeVar("Item")
Check = Callable[[PodInfo], str]  # returns why the pod is protected, or ""

BEST_EFFORT, BURSTABLE, GUARANTEED = 0, 1, 2
_COMPUTE: Final = ("cpu", "memory")


class Result(Enum):
    """What became of the attempt to evict a pod. Plugins go on with other pods in different ways."""

    EVICTED = auto()
    REFUSED = auto()  # by a disruption budget, or by the limit of the namespace
    NODE_LIMIT = auto()
    TOTAL_LIMIT = auto()


class Eviction(NamedTuple):
    """An attempt to evict a pod.

    `refusal` is why it failed, or ""; `budget` is the name of the PodDisruptionBudget that refused it, or "".
    """

    pod: PodInfo
    node: str
    profile: str
    plugin: str
    reason: str
    refusal: str = ""
    budget: str = ""


@dataclass
class DeschedulerRun:
    """One run of the descheduler: the order in which it takes equal things, its evictions, and what they use up.

    `rng` is None for the order of names. `asked` are the UIDs of the pods for which `explanations` are collected.
    """

    cluster: SeenCluster
    budgets: Budgets
    policy: Policy
    rng: random.Random | None = None
    asked: frozenset[str] = frozenset()
    evictions: list[Eviction] = field(default_factory=list)
    evicted: set[str] = field(default_factory=set)
    explanations: dict[tuple[str, str, str], str] = field(default_factory=dict)  # by UID, profile and plugin
    _nodes: Counter[str] = field(default_factory=Counter)
    _namespaces: Counter[str] = field(default_factory=Counter)

    def arrange(self, items: Iterable[Item]) -> list[Item]:
        """Return the items in the order of this run: the descheduler's own is that of Go's maps, which is random."""
        arranged = list(items)
        if self.rng is not None:
            self.rng.shuffle(arranged)
        return arranged

    def evict(self, pod: PodInfo, node: str, profile: str, plugin: str, reason: str) -> Result:
        """Evict a pod, if neither a limit of the policy nor a budget forbids it, and record the attempt.

        A pod with the annotation `evict` may be evicted again while it is being deleted, which counts for the limits.
        """
        limits, eviction = self.policy, Eviction(pod, node, profile, plugin, reason)
        if limits.total is not None and self._nodes.total() >= limits.total:
            return self._refuse(eviction, Result.TOTAL_LIMIT, f"maxNoOfPodsToEvictTotal is {limits.total}")
        if limits.per_node is not None and self._nodes[node] >= limits.per_node:
            return self._refuse(eviction, Result.NODE_LIMIT, f"maxNoOfPodsToEvictPerNode is {limits.per_node}")
        if limits.per_namespace is not None and self._namespaces[pod.namespace] >= limits.per_namespace:
            message = f"maxNoOfPodsToEvictPerNamespace is {limits.per_namespace}"
            return self._refuse(eviction, Result.REFUSED, message)
        if pod.uid not in self.evicted:
            refusal = self.budgets.evict(pod.pod)
            if refusal is not None:
                return self._refuse(eviction, Result.REFUSED, refusal.message, refusal.budget)
            self.evicted.add(pod.uid)
            self.evictions.append(eviction)
        self._nodes[node] += 1
        self._namespaces[pod.namespace] += 1
        return Result.EVICTED

    def _refuse(self, eviction: Eviction, result: Result, refusal: str, budget: str = "") -> Result:
        self.evictions.append(eviction._replace(refusal=refusal, budget=budget))
        return result


class DefaultEvictor:
    """The plugin DefaultEvictor of one profile, for one run."""

    def __init__(
        self,
        args: DefaultEvictorArgs,
        run: DeschedulerRun,
        objects: ClusterObjects,
        classes: dict[str, PriorityClass] | None,
        now: float,
    ) -> None:
        """`now` is the time in seconds since 1970.

        Raises DeschedulePolicyError if the priority threshold is unknown.
        """
        self._args, self._run, self._objects, self._now = args, run, objects, now
        self._threshold = find_priority_threshold(args, classes)
        self._min_age_s = parse_seconds(args.min_pod_age) if args.min_pod_age else None
        self._candidates: list[SeenNode] | None = None
        self._checks = self._choose_checks()

    def _choose_checks(self) -> list[Check]:
        protections = self._args.list_protections()
        checks: list[Check] = []
        if "SystemCriticalPods" in protections:
            checks += [self._check_critical, self._check_priority]
        checks.append(_check_owner if "FailedBarePods" in protections else _check_owner_or_failure)
        for name, check in (
            ("PodsWithLocalStorage", _check_local_storage),
            ("DaemonSetPods", _check_daemon_set),
            ("PodsWithPVC", self._check_claims),
            (WITHOUT_BUDGET, _protect_without_budget),
            ("PodsWithResourceClaims", _check_resource_claims),
        ):
            if name in protections:
                checks.append(check)
        return [*checks, self._check_labels, self._check_replicas, self._check_age]

    def find_protection(self, pod: PodInfo) -> str:
        """Return why the pod must not be evicted, or "" if it may be (the extension point filter)."""
        annotations = pod.pod.metadata.annotations
        if annotations is not None and annotations.evict is not None:
            return ""
        if annotations is not None:
            if self._args.no_eviction_policy == "Mandatory" and annotations.prefer_no_eviction is not None:
                return "pod has the annotation descheduler.alpha.kubernetes.io/prefer-no-eviction"
            if annotations.mirror is not None:
                return "pod is a mirror pod"
            if annotations.source not in (None, "api"):
                return "pod is a static pod"
        if pod.terminating or pod.uid in self._run.evicted:
            return "pod is terminating"
        return next(filter(None, (check(pod) for check in self._checks)), "")

    def find_late_protection(self, pod: PodInfo) -> str:
        """Return why the pod is not evicted in the last check (the extension point preEvictionFilter), or ""."""
        if self._args.node_fit:
            if self._candidates is None:
                selector = parse_label_selector(self._args.node_selector)
                self._candidates = self._run.cluster.select_ready(selector)
            if not self._run.cluster.find_fitting(pod, self._candidates):
                return "pod does not fit on any other node (nodeFit)"
        selector_ = self._args.namespace_label_selector
        if selector_ is None or not (selector_.match_labels or selector_.match_expressions):
            return ""
        namespace = self._objects.get(Namespace, pod.namespace)
        if namespace is None or not label_selector_matches(selector_, namespace.metadata.labels or {}):
            return "pod namespace does not match the namespaceLabelSelector"
        return ""

    def _check_critical(self, pod: PodInfo) -> str:
        critical = pod.priority >= SYSTEM_CRITICAL_PRIORITY
        return "pod has system critical priority and is protected against eviction" * critical

    def _check_priority(self, pod: PodInfo) -> str:
        priority = pod.pod.spec.priority
        too_high = priority is not None and priority >= self._threshold
        return f"pod has priority {priority}, and the priority threshold is {self._threshold}" * too_high

    def _check_claims(self, pod: PodInfo) -> str:
        protected = [each.name for each in self._args.pod_protections.config.pods_with_claims.protected_storage_classes]
        if not protected:
            return "pod with PVC is protected against eviction" * bool(pod.claims)
        for full_name in pod.claims:
            name = full_name.rpartition("/")[2]
            claim = self._objects.get(PersistentVolumeClaim, name, pod.namespace)
            storage_class = claim.spec.storage_class_name if claim is not None else None
            if not storage_class:
                return f'the storage class of persistent volume claim "{name}" is unknown'
            if storage_class in protected:
                return f'pod using protected storage class "{storage_class}"'
        return ""

    def _check_labels(self, pod: PodInfo) -> str:
        selector = self._args.label_selector
        matches = selector is None or label_selector_matches(selector, pod.labels)
        return "pod labels do not match the labelSelector filter in the policy parameter" * (not matches)

    def _check_replicas(self, pod: PodInfo) -> str:
        owners = pod.pod.metadata.owner_references or ()
        if self._args.min_replicas <= 1 or len(owners) != 1:
            return ""
        replicas = self._run.cluster.owned[owners[0].uid]
        too_few = replicas < self._args.min_replicas
        return f"owner has {replicas} replicas which is less than minReplicas of {self._args.min_replicas}" * too_few

    def _check_age(self, pod: PodInfo) -> str:
        if self._min_age_s is None:
            return ""
        started = pod.pod.status.start_time
        too_young = started is None or self._now - parse_microseconds(started) / 1e6 < self._min_age_s
        return f"pod age is not older than minPodAge: {self._args.min_pod_age}" * too_young


def _check_owner(pod: PodInfo) -> str:
    return "pod does not have any ownerRefs" * (not pod.pod.metadata.owner_references)


def _check_owner_or_failure(pod: PodInfo) -> str:
    bare = not pod.pod.metadata.owner_references and pod.pod.status.phase != "Failed"
    return "pod does not have any ownerRefs and is not in failed phase" * bare


def _check_local_storage(pod: PodInfo) -> str:
    local = any(volume.host_path or volume.empty_dir for volume in pod.pod.spec.volumes or ())
    return "pod has local storage and is protected against eviction" * local


def _check_daemon_set(pod: PodInfo) -> str:
    owned = any(owner.kind == "DaemonSet" for owner in pod.pod.metadata.owner_references or ())
    return "daemonset pods are protected against eviction" * owned


def _protect_without_budget(_pod: PodInfo) -> str:
    """Return that the pod has no budget, which the descheduler finds for every pod (`policy`)."""
    return "pod does not have a PodDisruptionBudget and is protected against eviction"


def _check_resource_claims(pod: PodInfo) -> str:
    return "pod has ResourceClaims and is protected against eviction" * bool(pod.pod.spec.resource_claims)


def sort_low_to_high(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Return pods in the order of their eviction: by priority, QoS class, and those that prefer no eviction last.

    Source: SortPodsBasedOnPriorityLowToHigh.
    """

    def key(pod: PodInfo) -> tuple[bool, int, int, bool]:
        annotations = pod.pod.metadata.annotations
        prefers_none = annotations is not None and annotations.prefer_no_eviction is not None
        return pod.pod.spec.priority is not None, pod.priority, compute_qos(pod.pod), prefers_none

    return sorted(pods, key=key)


def compute_qos(pod: Pod) -> int:
    """Return the pod's QoS class as BEST_EFFORT, BURSTABLE or GUARANTEED.

    Source: pkg/apis/core/v1/helper/qos ComputePodQOS of Kubernetes v1.36.
    """
    own = pod.spec.resources
    parts = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    every = [own] if own and (own.requests or own.limits) else [each.resources for each in parts]
    needed, limits, guaranteed = Counter[str](), Counter[str](), True
    for each in every:
        resources = each or ResourceRequirements()
        needed.update(_read_compute(resources.requests))
        limited = _read_compute(resources.limits)
        limits.update(limited)
        guaranteed = guaranteed and all(name in limited for name in _COMPUTE)
    if not needed and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and needed == limits else BURSTABLE


def _read_compute(amounts: dict[str, Any] | None) -> dict[str, int]:
    parsed = {name: quantity.parse(amount) for name, amount in (amounts or {}).items() if name in _COMPUTE}
    return {name: amount for name, amount in parsed.items() if amount > 0}
