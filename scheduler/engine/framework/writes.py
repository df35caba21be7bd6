"""What the scheduling loop and its plugins write to the API server.

Owns: the protocol of these writes, and the writer of processes that write nothing. Does not own: requests
(`scheduler.live.api_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from herodotus_record import klog
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.preemptor import Preemptor
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim


class ChangedMeanwhileError(Exception):
    """The error of a write to an object that has changed since it was read."""


class PodGroupCondition(NamedTuple):
    """The condition PodGroupScheduled of a PodGroup: `status` is True or False."""

    status: str
    reason: str
    message: str


class Writes(Protocol):
    """The writes of one scheduler to the API server.

    Methods that return an object or a version wait for the response, and so do `evict`, `nominate`, `delete_claim` and
    `set_extended_claim`: they run in background threads. Writes of claims raise ChangedMeanwhileError if the claim has
    changed since it was read, and otherwise the error of the request.
    """

    # --- reports on an attempt ----------------------------------------------------------------------------------------

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Send the event Scheduled, which reports that the pod is bound to the node."""

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        """Report a failed attempt in the pod's event, condition and nominated node.

        `reason` is Unschedulable or SchedulerError. `nomination` None leaves the nominated node unchanged.
        `explanation` is appended to the message in the event only.
        """

    def skipped(self, pod: PodInfo, note: str) -> None:
        """Report, by an event only, that the scheduler does not try the pod. `note` is the event's text."""

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        """Send the Preempted event of a victim on `node`.

        `in_memory` says that the victim was not bound yet, and that only its binding was cancelled.
        """

    def set_pod_group_condition(self, group: PodGroup, condition: PodGroupCondition, *, changes_status: bool) -> None:
        """Write the condition PodGroupScheduled of a PodGroup; of several pending writes for a group, only the last.

        `changes_status` says that the condition's status is new, and not only its reason or message.
        """

    # --- pods ---------------------------------------------------------------------------------------------------------

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Bind the pod to `node` without waiting for the response.

        `done` is called in another thread once the result is known, with the error or, after success, with None.
        """

    def finish_bindings(self) -> None:
        """Wait, for a limited time, until the result of every binding is known; `done` is not called afterwards."""

    def evict(self, victim: PodInfo, preemptor: Preemptor, node: str) -> None:
        """Set the victim's condition DisruptionTarget, and delete the pod.

        Raise an exception on failure. A victim that does not exist any more is a success.
        """

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write the pod's status.nominatedNodeName, where "" clears it. Failures are only logged."""

    # --- claims -------------------------------------------------------------------------------------------------------

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """Bind the volume to the claim by setting its claimRef; return the volume's new resource version.

        Raise the error of the request, which also fails if the volume has changed since it was read. `by_controller`
        annotates the binding as made by a controller, so that the volume controller may undo it.
        """

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        """Annotate the claim with the selected node, for dynamic provisioning; return its new resource version."""

    def patch_claim(self, claim: ResourceClaim, change: Mapping[str, Any]) -> ResourceClaim:
        """Apply a merge patch to a resource claim, and return the written claim."""

    def patch_claim_status(self, claim: ResourceClaim, status: Mapping[str, Any]) -> ResourceClaim:
        """Apply a merge patch to a resource claim's status, and return the written claim."""

    def read_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Return a resource claim as the API server has it now."""

    def create_claim(self, namespace: str, claim: Mapping[str, Any]) -> ResourceClaim:
        """Create a resource claim from its JSON, without apiVersion and kind, and return it."""

    def delete_claim(self, claim: ResourceClaim) -> None:
        """Remove kube-scheduler's finalizer from a resource claim, and delete it. Succeed if it no longer exists."""

    def set_extended_claim(self, pod: PodInfo, status: Mapping[str, Any]) -> None:
        """Write the pod's status.extendedResourceClaimStatus, by which the kubelet finds the claim."""

    def submit(self, write: Callable[[Writes], object], what: str) -> None:
        """Run a write in another thread without waiting. A failure is logged, with `what` as the operation."""


class NoWrites:
    """Implements `Writes` for dry runs, copies and offline decisions: no reports, and an error where a pod is bound."""

    def scheduled(self, pod: PodInfo, node: str) -> None:
        pass

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        klog.info(2, "Dry run: no event, no condition", pod=pod.full_name, reason=reason, note=message)

    def skipped(self, pod: PodInfo, note: str) -> None:
        pass

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        pass

    def set_pod_group_condition(self, group: PodGroup, condition: PodGroupCondition, *, changes_status: bool) -> None:
        pass

    def finish_bindings(self) -> None:
        pass

    def nominate(self, pod: PodInfo, node: str) -> None:
        pass

    def submit(self, write: Callable[[Writes], object], what: str) -> None:
        pass

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("this process writes nothing to the API server")

    bind = evict = bind_volume = select_node = _refuse
    patch_claim = patch_claim_status = read_claim = create_claim = delete_claim = set_extended_claim = _refuse
