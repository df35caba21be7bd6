"""The search for a pod's volumes: for all nodes at once, one claim after the other.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go v1.36 (FindPodVolumes and below).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.verdicts import PASS, Verdicts, error, unresolvable
from scheduler.engine.objects import csi_migration, quantity, selectors
from scheduler.engine.objects.cluster import ClusterObjects, Index
from scheduler.engine.objects.csi_migration import TranslationError
from scheduler.engine.objects.selectors import InvalidSelectorError
from scheduler.engine.objects.storage import (
    NO_PROVISIONER,
    STORAGE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologyTerm,
)
from scheduler.engine.objects.types import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.engine.plugins.volume_binding.claims import PodClaims
from scheduler.engine.plugins.volume_binding.matching import VolumeIndex, VolumeMatch, match_volumes, parse_size
from scheduler.engine.plugins.volume_binding.scoring import UNKNOWN_CAPACITY, StorageOffer
from scheduler.engine.plugins.volume_binding.selector_matcher import SelectorMatcher


@dataclass(frozen=True)
class VolumeChoices:
    """The state that Filter writes for Score and Reserve: the volume that each delayed claim gets on each node.

    `matches` has the existing volumes and `provisions`, for a search that scores, where a provisioner would make one.
    `index` maps the names of nodes to node slots. The slot of a node does not change during the cycle and the binding
    of its pod.
    """

    index: Mapping[str, int]
    delayed: tuple[PersistentVolumeClaim, ...]
    matches: tuple[VolumeMatch, ...]
    provisions: tuple[StorageOffer, ...]

    def on_node(
        self, node: str
    ) -> tuple[list[tuple[PersistentVolume, PersistentVolumeClaim]], list[PersistentVolumeClaim]]:
        """Return the (volume, claim) pairs to bind on a node, and the claims that need a provisioned volume there."""
        volumes = {m.claim.full_name: m.volume_at(self.index[node]) for m in self.matches}
        static = [(volume, claim) for claim in self.delayed if (volume := volumes.get(claim.full_name)) is not None]
        return static, [claim for claim in self.delayed if volumes.get(claim.full_name) is None]


class StorageIndexes:
    """The indexes of persistent volumes, storage capacities and CSINodes that a search for volumes uses."""

    def __init__(self, objects: ClusterObjects) -> None:
        self.objects = objects
        self.volumes = VolumeIndex(objects)
        self.capacities = Index(objects, CSIStorageCapacity, lambda c: c.storage_class_name)
        self.migrated_nodes = Index(objects, CSINode, lambda n: n.migrated)

    def update(self) -> None:
        """Bring the indexes up to date with the cluster's objects."""
        self.volumes.update()
        self.capacities.catch_up()
        self.migrated_nodes.catch_up()


class VolumeSearch:
    """A search, on all nodes of `nodes`, for the volumes of one pod's claims.

    Each kind of rejection has its own column of reasons, since a node may be rejected for several. An error overrides
    all others. With `scores`, the search also notes the capacities from which volumes would be provisioned.
    """

    def __init__(self, storage: StorageIndexes, nodes: NodeColumns, *, scores: bool = False) -> None:
        self._storage = storage
        self._provisions: list[StorageOffer] | None = [] if scores else None
        self._nodes = nodes
        self._matcher = SelectorMatcher(nodes)
        self._matches: list[VolumeMatch] = []
        # in the order in which a message lists the reasons
        self._affinity, self._unbound, self._space, self._missing, self._error = (
            _ReasonColumn(nodes.slots) for _ in range(5)
        )

    def compute_verdicts(self, claims: PodClaims) -> Verdicts:
        """Return a verdict on each node, which rejects it if a claim's volume is missing or unavailable there."""
        self._check_bound(claims.bound)
        self._check_delayed(claims.delayed, ~self._error.has_reason)
        columns = (self._affinity, self._unbound, self._space, self._missing, self._error)
        if not any(column.has_reason.any() for column in columns):
            return PASS
        packed = np.ravel_multi_index([c.numbers for c in columns], [len(c.reasons) for c in columns])
        distinct, ids = np.unique(packed, return_inverse=True)

        def verdict(number: int) -> Verdict:
            numbers = np.unravel_index(distinct[number], [len(c.reasons) for c in columns])
            reasons = [column.reasons[i] for column, i in zip(columns, numbers, strict=True) if i]
            if numbers[-1]:
                return error(reasons[-1].params["text"])
            return unresolvable(*reasons) if reasons else SUCCESS

        return Verdicts.from_ids(ids, len(distinct), verdict)

    def build_choices(self, claims: PodClaims) -> VolumeChoices:
        """Return the volumes that the delayed claims get on each node; call `compute_verdicts` before."""
        return VolumeChoices(self._nodes.index, claims.delayed, tuple(self._matches), tuple(self._provisions or ()))

    # --- claims that are bound ------------------------------------------------------------------------------------

    def _check_bound(self, claims: Iterable[PersistentVolumeClaim]) -> None:
        """Record, for each node, the first bound claim whose volume is missing or inaccessible from the node."""
        left = np.ones(self._nodes.slots, np.bool_)
        for claim in claims:
            name = claim.spec.volume_name
            volume = self._storage.objects.get(PersistentVolume, name)
            if volume is None:
                self._missing.set_reason(
                    left, Reason("claim-volume-missing", {"claim": claim.full_name, "volume": name})
                )
                return
            required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
            migrated = self._find_migrated_nodes(volume) & left
            if migrated.any():
                try:
                    self._require(csi_migration.translate_node_affinity(volume), volume, migrated)
                except TranslationError as e:
                    self._error.set_reason(migrated, Reason("text", {"text": f"could not translate pv: {e}"}))
            self._require(required, volume, left & ~migrated)
            left &= ~self._affinity.has_reason & ~self._error.has_reason

    def _require(self, required: NodeSelector | None, volume: PersistentVolume, mask: Mask) -> None:
        if required is None:
            return
        outside = mask & ~self._matcher.to_mask(self._matcher.match_affinity(required))
        wants = " or ".join(_format_term(term) for term in required.node_selector_terms or ())
        params = {"volume": volume.metadata.name, "wants": wants}
        self._affinity.set_reason(outside, Reason("volume-affinity", params))

    def _find_migrated_nodes(self, volume: PersistentVolume) -> Mask:
        """Return a mask of the nodes on which a CSI driver replaces the volume's in-tree plugin."""
        mask = np.zeros(self._nodes.slots, np.bool_)
        migration = csi_migration.find_migration(volume.spec)
        if migration is not None and migration.counted:
            for plugins in self._storage.migrated_nodes:
                if migration.plugin in plugins:
                    names = (node.metadata.name for node in self._storage.migrated_nodes.get(plugins))
                    mask[[self._nodes.index[name] for name in names if name in self._nodes.index]] = True
        return mask

    # --- claims that wait for the pod's node ----------------------------------------------------------------------

    def _check_delayed(self, claims: Iterable[PersistentVolumeClaim], mask: Mask) -> None:
        """Record the nodes in `mask` on which a delayed claim can get no volume.

        A claim with a selected node is provisioned there and nowhere else. Any other claim gets an existing volume, or
        else a provisioned one.
        """
        to_provision: list[tuple[PersistentVolumeClaim, Mask]] = []
        to_match: list[PersistentVolumeClaim] = []
        for claim in claims:
            selected = claim.annotations.selected_node
            if selected is None:
                to_match.append(claim)
                continue
            others = mask.copy()
            if selected in self._nodes.index:
                others[self._nodes.index[selected]] = False
            self._unbound.set_reason(others, Reason("no-volume", {"claim": claim.full_name, "selected": selected}))
            mask = mask & ~others
            to_provision.append((claim, mask))
        to_match.sort(key=lambda claim: parse_size(claim.spec.resources.requests))
        try:
            matches = self._matches = match_volumes(to_match, self._storage.volumes, self._matcher, mask)
        except InvalidSelectorError as e:
            self._error.set_reason(
                mask, Reason("text", {"text": f"error creating internal label selector for claim: {e}"})
            )
            return
        to_provision += [(match.claim, ~match.found) for match in matches]
        for claim, needed in to_provision:
            mask = mask & ~self._provision(claim, mask & needed)

    def _provision(self, claim: PersistentVolumeClaim, mask: Mask) -> Mask:
        """Find the nodes in `mask` on which no volume can be provisioned for the claim; record the reasons.

        Returns these nodes as a mask.
        """
        storage_class = self._storage.objects.get(StorageClass, claim.storage_class)
        if storage_class is None:  # deleted since PreFilter
            text = f'failed to find storage class "{claim.storage_class}"'
            self._error.set_reason(mask, Reason("text", {"text": text}))
            return mask
        params = {"claim": claim.full_name, "storage_class": claim.storage_class}
        if storage_class.provisioner in ("", NO_PROVISIONER):
            self._unbound.set_reason(mask, Reason("no-volume", params))
            return mask
        topologies = storage_class.allowed_topologies
        outside = mask & ~self._matcher.match_topologies(topologies)
        allowed = params | {"wants": _format_topologies(topologies)} if topologies else params
        self._unbound.set_reason(outside, Reason("no-volume", allowed))
        has_space = self._find_space(claim, storage_class, mask & ~outside)
        full = mask & ~outside & ~has_space
        size = (claim.spec.resources.requests or {}).get(STORAGE, "")
        self._space.set_reason(full, Reason("no-space", params | {"size": str(size)}))
        return outside | full

    def _find_space(self, claim: PersistentVolumeClaim, storage_class: StorageClass, mask: Mask) -> Mask:
        """Return a mask of the nodes for which the CSI driver of the storage class reports enough capacity.

        It has all nodes if the driver does not track capacity. A search that scores also stores the capacity that it
        found. Of several sufficient ones for a node, upstream scores the first in the order of a Go map; here the first
        by name counts.
        """
        driver = self._storage.objects.get(CSIDriver, storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity or STORAGE not in (claim.spec.resources.requests or {}):
            return np.ones(self._nodes.slots, np.bool_)
        size = quantity.scaled_value((claim.spec.resources.requests or {})[STORAGE], quantity.WHOLE)
        capacities = [
            capacity
            for capacity in self._storage.capacities.get(storage_class.metadata.name)
            if capacity.largest_volume is not None and capacity.largest_volume >= size
        ]
        has_space = np.zeros(self._nodes.slots, np.bool_)
        if self._provisions is None:
            for capacity in capacities:
                has_space[self._matcher.match_labels(capacity.node_topology)] = True
            return has_space
        column = np.full(self._nodes.slots, UNKNOWN_CAPACITY, np.int64)
        for capacity in sorted(capacities, key=lambda c: (c.metadata.namespace, c.metadata.name), reverse=True):
            slots = self._matcher.match_labels(capacity.node_topology)
            has_space[slots] = True
            column[slots] = capacity.total
        self._provisions.append(StorageOffer(claim, mask & has_space, column))
        return has_space


def _format_topologies(terms: Iterable[TopologyTerm]) -> str:
    """Return the requirements of a class on the labels of nodes; "" if its terms have none."""
    return " or ".join(
        " and ".join(
            selectors.format_requirement(Requirement(key=r.key, operator="In", values=r.values))
            for r in term.match_label_expressions
        )
        for term in terms
        if term.match_label_expressions
    )


def _format_term(term: NodeSelectorTerm) -> str:
    return " and ".join(
        selectors.format_requirement(r) for r in (*(term.match_expressions or ()), *(term.match_fields or ()))
    )


class _ReasonColumn:
    """A column with at most one reason for rejection per node slot.

    `numbers` has an index into `reasons` for each node slot; 0 means no reason.
    """

    def __init__(self, slots: int) -> None:
        self.numbers: NDArray[np.int64] = np.zeros(slots, np.int64)
        self.reasons: list[Reason] = [Reason("")]

    @property
    def has_reason(self) -> Mask:
        """A mask of the node slots with a reason for rejection."""
        has_reason: Mask = self.numbers > 0
        return has_reason

    def set_reason(self, mask: Mask, reason: Reason) -> None:
        """Set the reason of the node slots in `mask`."""
        if mask.any():
            self.numbers[mask] = len(self.reasons)
            self.reasons.append(reason)
