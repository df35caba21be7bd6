"""The PodDisruptionBudgets of a cluster while pods are evicted and replaced: which eviction would be allowed.

Owns: the amounts of each budget, which start from its status and follow evictions and replacements. Does not own: which
pods are evicted (`eviction`).

Sources: pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption/disruption.go v1.36. A budget without a
status, as in a manifest, gets the amounts that the disruption controller would compute, where the pods that the budget
selects count as the scale of their controllers. A status that its controller could not compute, or has not computed for
the present spec, allows no eviction: the amounts in it are not those of the pods.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, NamedTuple

from scheduler.engine.objects.pod import FINISHED_PHASES, PodInfo
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.types import LabelSelector, Pod
from scheduler.engine.objects.workloads import BudgetSpec, BudgetStatus, PodDisruptionBudget

MANY_BUDGETS: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


_Labels = frozenset[tuple[str, str]]
# One label that every pod selected by a selector has, so that selectors and pods find each other; None: no such label.
_Required = tuple[str, str] | None


class EvictionRefusal(NamedTuple):
    """The API server's refusal to evict a pod, with the name of the PodDisruptionBudget, or "" for several.

    `is_uncomputed` says that the budget has no valid amounts, so that no pod that becomes Ready changes the refusal.
    `remedy` is what would let the eviction through; "" if the message says it.
    """

    budget: str
    message: str
    is_uncomputed: bool = False
    remedy: str = ""


class _Amounts:
    """The amounts of one budget. `stuck` means that the disruption controller cannot compute them."""

    def __init__(self, budget: PodDisruptionBudget, status: BudgetStatus) -> None:
        self.name, self.spec = budget.metadata.name, budget.spec
        self.current, self.desired = status.current_healthy, status.desired_healthy
        self.expected, self.allowed = status.expected_pods, status.disruptions_allowed
        self.uncomputed = _explain_uncomputed(budget, status)
        if self.uncomputed:
            self.allowed = 0
        self.stuck = not self.allowed and (bool(self.uncomputed) or self.current > self.desired)

    def update(self) -> None:
        """Compute `allowed` from the present amounts, as the disruption controller does after each change.

        Does nothing if the budget is `stuck`.
        """
        if not self.stuck:
            self.allowed = max(0, self.current - self.desired) if self.expected > 0 else 0

    @property
    def refusal(self) -> EvictionRefusal:
        why = f"needs {self.desired} healthy pods and has {self.current} currently"
        if self.uncomputed:
            why = self.uncomputed
        elif self.current > self.desired:
            why = "does not allow evicting pods currently"
        message = f"{VIOLATED} The disruption budget {self.name} {why}"
        return EvictionRefusal(self.name, message, bool(self.uncomputed), self._advise())

    def _advise(self) -> str:
        """Return what would make the budget allow an eviction; "" if its amounts do not say it."""
        if self.stuck or self.desired < self.expected or not self.expected:  # more healthy pods help, says the message
            return ""
        spec, pods = self.spec, f"now {self.expected}"
        if spec.max_unavailable is not None:
            return f"give {self.name} a maxUnavailable of 1 or more (now {spec.max_unavailable})"
        lower = f"give {self.name} a minAvailable of less than its number of pods ({pods})"
        return lower if isinstance(spec.min_available, str) else f"{lower}, or run more than {self.desired} pods"


def is_ready(pod: Pod) -> bool:
    """Return whether the pod has the condition Ready."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())


class Budgets:
    """The budgets of a cluster, with the amounts that follow from the evictions and replacements so far."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], pods: Iterable[PodInfo]) -> None:
        """Read each budget's amounts from its status or, if it has none, compute them from `pods`.

        `pods` are all pods of the cluster.
        """
        self._amounts: list[_Amounts] = []
        self._by_required: dict[tuple[str, _Required], list[int]] = defaultdict(list)  # by namespace; in _amounts
        self._by_labels: dict[tuple[str, _Labels], list[int]] = {}  # positions by a pod's namespace and labels
        groups: _Groups = {}
        for budget in sorted(budgets, key=lambda each: (each.metadata.namespace, each.metadata.name)):
            key, status = (budget.metadata.namespace, _find_required(budget.spec.selector)), budget.status
            if status == BudgetStatus():
                if not groups:
                    groups = _group_pods(pods)
                status = _compute_status(budget, groups.get(key, ()))
            self._by_required[key].append(len(self._amounts))
            self._amounts.append(_Amounts(budget, status))

    def copy(self) -> Budgets:
        """Return a copy that later evictions do not change."""
        clone = copy(self)
        clone._amounts = [copy(amounts) for amounts in self._amounts]
        return clone

    def has_budget(self, pod: Pod) -> bool:
        """Return whether a budget selects the pod."""
        return bool(self._of(pod))

    def names_of(self, pod: Pod) -> list[str]:
        """Return the names of the budgets that select the pod, as NAMESPACE/NAME."""
        return [f"{pod.metadata.namespace}/{budget.name}" for budget in self._of(pod)]

    def evict(self, pod: Pod) -> EvictionRefusal | None:
        """Count the eviction of a running pod in its budgets; if it is not allowed, count nothing.

        Returns the refusal, or None if the eviction is allowed.
        """
        budgets = self._of(pod)
        refusal = self.find_refusal(pod)
        if refusal is not None:
            return refusal
        if _is_counted(pod):
            for budget in budgets:
                budget.allowed -= not (not is_ready(pod) and _allows_unhealthy(budget))
        self._remove(pod, budgets)
        return None

    def find_refusal(self, pod: Pod) -> EvictionRefusal | None:
        """Return the API server's refusal of an eviction of the pod now, or None if it would be allowed."""
        budgets = self._of(pod)
        if not _is_counted(pod):
            return None
        if len(budgets) > 1:
            names = ", ".join(budget.name for budget in budgets)
            remedy = f"let only one of {names} select the pod: narrow the selectors of the others, or delete them"
            return EvictionRefusal("", f"{MANY_BUDGETS} They are {names}.", remedy=remedy)
        for budget in budgets:
            if budget.allowed <= 0 and not (not is_ready(pod) and _allows_unhealthy(budget)):
                return budget.refusal
        return None

    def delete(self, pod: Pod) -> None:
        """Count the deletion of a pod, which no budget can refuse."""
        budgets = self._of(pod)
        self._remove(pod, budgets)
        for budget in budgets:
            budget.update()

    def add_ready(self, pod: Pod) -> None:
        """Count a new Ready pod as healthy in the budgets that select it."""
        for budget in self._of(pod):
            budget.current += 1
            budget.update()

    def scale(self, pod: Pod, more: int) -> None:
        """Count `more` expected pods, with the labels of `pod`, in the budgets that select it."""
        for budget in self._of(pod):
            budget.expected += more
            if budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str):
                budget.desired = _compute_desired(budget.spec, budget.expected)
            budget.update()

    def _remove(self, pod: Pod, budgets: list[_Amounts]) -> None:
        if is_ready(pod) and pod.metadata.deletion_timestamp is None:
            for budget in budgets:
                budget.current -= 1

    def _of(self, pod: Pod) -> list[_Amounts]:
        if not self._amounts:
            return []
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
        key = namespace, frozenset(labels.items())
        budgets = self._by_labels.get(key)
        if budgets is None:
            here = sorted(at for each in (None, *labels.items()) for at in self._by_required.get((namespace, each), ()))
            budgets = [at for at in here if label_selector_matches(self._amounts[at].spec.selector, labels)]
            self._by_labels[key] = budgets
        return [self._amounts[at] for at in budgets]


def _explain_uncomputed(budget: PodDisruptionBudget, status: BudgetStatus) -> str:
    """Return why the amounts of a status do not count, in the API server's words; "" if they do.

    A failed computation, and amounts that refuse already, are named before a spec that is not observed, unlike in the
    API server, because they say what to do: after a failure the disruption controller leaves `observedGeneration` as it
    was. An amount that is not `minAvailable` as a number needs the scale of the pods' owners.
    """
    for condition in status.conditions or ():
        if (condition.type, condition.status, condition.reason) == ("DisruptionAllowed", "False", "SyncFailed"):
            why = f"does not allow evicting pods currently because it failed sync: {condition.message}"
            field, amount = "minAvailable", budget.spec.min_available
            if budget.spec.max_unavailable is not None:
                field, amount = "maxUnavailable", budget.spec.max_unavailable
            if field == "minAvailable" and not isinstance(amount, str):
                return why
            return (
                f"{why}. To make it countable, give spec.minAvailable as a number of pods instead of {field} {amount},"
                " or add a scale subresource to the kind that owns the pods"
            )
    if status.disruptions_allowed and status.observed_generation < budget.metadata.generation:
        return "is still being processed by the server."
    return ""


def _is_counted(pod: Pod) -> bool:
    """Return whether an eviction of the pod depends on budgets: the pod is not pending and not being deleted."""
    return pod.status.phase != "Pending" and pod.metadata.deletion_timestamp is None


def _allows_unhealthy(budget: _Amounts) -> bool:
    """Return whether the budget lets a pod that is not Ready be evicted without counting as a disruption."""
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.current >= budget.desired > 0


# The pods that have not finished, with the labels of each group; by namespace and each of the labels, and by None.
_Groups = dict[tuple[str, _Required], list[tuple[_Labels, list[PodInfo]]]]


def _find_required(selector: LabelSelector | None) -> _Required:
    """Return a label without which the selector matches no pod, or None if it names none."""
    return next(iter(((selector.match_labels if selector else None) or {}).items()), None)


def _group_pods(pods: Iterable[PodInfo]) -> _Groups:
    """Return the pods that have not finished, those with equal labels together, by what selectors may require of them.

    Pods of one template have equal labels, so a selector is evaluated once for all of them.
    """
    alike: dict[tuple[str, _Labels], list[PodInfo]] = defaultdict(list)
    for pod in pods:
        if pod.pod.status.phase not in FINISHED_PHASES:
            alike[pod.namespace, frozenset(pod.labels.items())].append(pod)
    groups: _Groups = defaultdict(list)
    for (namespace, labels), members in alike.items():
        for required in (None, *labels):
            groups[namespace, required].append((labels, members))
    return groups


def _compute_status(budget: PodDisruptionBudget, groups: Iterable[tuple[_Labels, Sequence[PodInfo]]]) -> BudgetStatus:
    matching = (pods for labels, pods in groups if label_selector_matches(budget.spec.selector, dict(labels)))
    selected = [pod for pods in matching for pod in pods]
    expected = len(selected)
    current = sum(is_ready(pod.pod) and not pod.terminating for pod in selected)
    desired = _compute_desired(budget.spec, expected)
    allowed = max(0, current - desired) if expected else 0
    return BudgetStatus(
        disruptions_allowed=allowed,
        current_healthy=current,
        desired_healthy=desired,
        expected_pods=expected,
        observed_generation=budget.metadata.generation,
    )


def _compute_desired(spec: BudgetSpec, expected: int) -> int:
    """Return the number of pods that must be healthy out of `expected` pods."""
    if spec.max_unavailable is not None:
        return max(0, expected - _scaled(spec.max_unavailable, expected))
    return _scaled(spec.min_available or 0, expected)


def _scaled(amount: int | str, total: int) -> int:
    """Return `amount` as a number of pods; a percentage is taken of `total` and rounded up."""
    if isinstance(amount, int):
        return amount
    return math.ceil(int(amount.removesuffix("%")) * total / 100)
