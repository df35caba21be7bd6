"""The resource claims of a copied cluster, while its pods are placed, evicted and created.

Does what a binding, kube-controller-manager and drivers do to claims and slices, at once. Does not own: the search for
devices (`scheduler.engine.dra`).

Invariant: a claim is allocated to what the plugin DynamicResources found for the chosen node, and every change can be
undone in the reverse order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from scheduler.engine.dra.extended_resources import may_be_backed
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import (
    FINALIZER,
    ClaimMetadata,
    ClaimStatus,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from scheduler.engine.objects.types import OwnerReference, PodResourceClaimStatus
from scheduler.engine.plugins.dynamic_resources import binding
from scheduler.engine.plugins.dynamic_resources.attempt import ClaimsOfAttempt
from scheduler.engine.plugins.dynamic_resources.claims import find_extended_claim


class SimulatedClaims:
    """The resource claims and slices of `objects`, which must be a copy or be restored with `undo`."""

    def __init__(
        self,
        objects: ClusterObjects,
        report: Callable[[ResourceClaim | None, ResourceClaim | None], None] = lambda before, after: None,
    ) -> None:
        """Start without changes. `report` gets each claim before and after a change, None if it does not exist."""
        self._objects, self._report = objects, report
        self._changes: list[tuple[ResourceClaim, ResourceClaim | None]] = []  # the claim as set, and as it was before
        self._specs: dict[tuple[str, str], ResourceClaimSpec] = {}  # by namespace and name of a template
        self._created = 0
        self._slices: defaultdict[str, list[ResourceSlice]] | None = None  # by node, once one is copied or removed

    # --- pods -------------------------------------------------------------------------------------------------------

    def allocate(self, pod: PodInfo, node: str, state: CycleState) -> None:
        """Write the allocations and reservations of the pod's claims, as its binding to the chosen node does."""
        attempt, reserved = state.find(ClaimsOfAttempt), state.find(binding.ReservedDevices)
        if attempt is None:
            return
        for claim in binding.build_bound_claims(attempt, pod, node, self._objects):
            if reserved is not None and attempt.extended in reserved.pending and claim.is_for_extended_resources:
                reserved.pending[attempt.extended].claim = claim  # which has a name only now
            self._set(claim)

    def deallocate(self, state: CycleState) -> bool:
        """Deallocate the claim that the PostFilter of the attempt chose; return whether there was one."""
        attempt = state.find(ClaimsOfAttempt)
        if attempt is None or attempt.freed is None:
            return False
        self._set(msgspec.structs.replace(attempt.freed, status=ClaimStatus()))
        return True

    def release(self, pod: PodInfo, *, deletes_generated: bool = True) -> None:
        """Update the claims of a pod that no longer exists.

        Claims that were generated for the pod are deleted, unless `deletes_generated` is False. From other claims the
        pod's reservation is removed; those without another user are deallocated.
        """
        for name, template in self._list_names(pod):
            claim = self._objects.get(ResourceClaim, name, pod.namespace)
            if claim is None:
                continue
            if template and claim.is_controlled_by(pod.uid):
                self._specs[pod.namespace, template] = claim.spec
                if deletes_generated:
                    self._remove(claim)
                    continue
            self._remove_reservation(claim, pod)
        extended = find_extended_claim(pod, self._objects) if any(map(may_be_backed, pod.requests)) else None
        if extended is not None:
            self._remove(extended)

    def generate(self, pod: PodInfo) -> PodInfo:
        """Create the claims of a new pod from their templates; return the pod with the claims' names in its status.

        No claim is created for an unknown template, or if the status already names the claim.
        """
        made: list[PodResourceClaimStatus] = []
        named = {each.name for each in pod.pod.status.resource_claim_statuses or ()}
        for wanted in pod.pod.spec.resource_claims or ():
            template = wanted.resource_claim_template_name
            spec = self._find_spec(pod.namespace, template) if template and wanted.name not in named else None
            if spec is None:
                continue
            self._created += 1
            name = f"{pod.name}-{wanted.name}-new-{self._created}"
            owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, controller=True)
            metadata = ClaimMetadata(
                name=name, namespace=pod.namespace, uid=f"{pod.uid}/{name}", owner_references=[owner]
            )
            self._set(ResourceClaim(metadata=metadata, spec=spec))
            made.append(PodResourceClaimStatus(name=wanted.name, resource_claim_name=name))
        if not made:
            return pod
        statuses = [*(pod.pod.status.resource_claim_statuses or ()), *made]
        status = msgspec.structs.replace(pod.pod.status, resource_claim_statuses=statuses)
        return PodInfo(msgspec.structs.replace(pod.pod, status=status))

    def remember_templates(self, pod: PodInfo) -> None:
        """Store the specs of the claims that were generated for the pod, for later calls of `generate`."""
        for name, template in self._list_names(pod):
            claim = self._objects.get(ResourceClaim, name, pod.namespace)
            if template and claim is not None:
                self._specs[pod.namespace, template] = claim.spec

    def _find_spec(self, namespace: str, template: str) -> ResourceClaimSpec | None:
        stored = self._objects.get(ResourceClaimTemplate, template, namespace)
        return stored.spec.spec if stored is not None else self._specs.get((namespace, template))

    def _list_names(self, pod: PodInfo) -> Iterator[tuple[str, str]]:
        """Yield the name of each claim in the pod's spec with the name of its template, or "" if it has none."""
        generated = {each.name: each.resource_claim_name for each in pod.pod.status.resource_claim_statuses or ()}
        for wanted in pod.pod.spec.resource_claims or ():
            name = wanted.resource_claim_name or generated.get(wanted.name)
            if name:
                yield name, wanted.resource_claim_template_name or ""

    def _remove_reservation(self, claim: ResourceClaim, pod: PodInfo) -> None:
        if not claim.is_reserved_for(pod.uid):
            return
        others = [each for each in claim.status.reserved_for or () if each.uid != pod.uid]
        status = msgspec.structs.replace(claim.status, reserved_for=others or None)
        if not others and FINALIZER in (claim.metadata.finalizers or ()):  # kube-controller-manager frees only these
            status = ClaimStatus()
        self._set(msgspec.structs.replace(claim, status=status))

    # --- nodes ------------------------------------------------------------------------------------------------------

    def copy_devices(self, like: str, node: str) -> None:
        """Copy the ResourceSlices of the node `like` for the new node `node`, in pools with their own names."""
        slices = self._index_slices()
        for each in [*slices[like]]:
            pool = each.spec.pool
            name = node if pool.name == like else f"{pool.name}-{node}"
            spec = msgspec.structs.replace(each.spec, node_name=node, pool=msgspec.structs.replace(pool, name=name))
            metadata = msgspec.structs.replace(each.metadata, name=f"{each.metadata.name}-{node}", uid="")
            copied = msgspec.structs.replace(each, metadata=metadata, spec=spec)
            self._objects.set(copied)
            slices[node].append(copied)

    def remove_devices(self, node: str) -> None:
        """Remove the ResourceSlices of a node; slices for several nodes stay."""
        for each in self._index_slices().pop(node, ()):
            self._objects.remove(each)

    def _index_slices(self) -> defaultdict[str, list[ResourceSlice]]:
        """Return the slices by node. A search copies those of thousands of nodes."""
        if self._slices is None:
            self._slices = defaultdict(list)
            for each in self._objects.all(ResourceSlice):
                if each.spec.node_name:
                    self._slices[each.spec.node_name].append(each)
        return self._slices

    # --- undoing ----------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """Return a mark of the present state of the claims, for `undo`."""
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Restore the claims as they were when `mark` was returned. Changes of ResourceSlices are not undone."""
        while len(self._changes) > mark:
            changed, before = self._changes.pop()
            if before is None:
                self._objects.remove(changed)
            else:
                self._objects.set(before)

    def forget_changes(self) -> None:
        """Keep the claims as they are, so that `undo` cannot restore what was before."""
        self._changes.clear()

    def _set(self, claim: ResourceClaim) -> None:
        before = self._objects.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
        self._changes.append((claim, before))
        self._objects.set(claim)
        self._report(before, claim)

    def _remove(self, claim: ResourceClaim) -> None:
        self._changes.append((claim, claim))
        self._objects.remove(claim)
        freed = msgspec.structs.replace(claim, status=ClaimStatus())
        self._report(claim, freed)  # kube-controller-manager deallocates it first
        self._report(freed, None)
