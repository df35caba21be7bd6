"""Node by node, what keeps the pod's volumes from it: `Search` works on all nodes at once, a claim at a time.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go v1.36 (FindPodVolumes and what it calls).
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
)
from scheduler.engine.objects.types import NodeSelector, NodeSelectorTerm
from scheduler.engine.plugins.volume_binding.claims import Claims
from scheduler.engine.plugins.volume_binding.matching import Match, Volumes, matched, size_of
from scheduler.engine.plugins.volume_binding.reach import Reach


@dataclass(frozen=True)
class Choices:
    """Filter's note for Reserve: what each delayed claim finds on each node. `index`: slots by node name.

    The slot of a node stays the same while the cycle's own pod is brought to it, which is as long as this is read.
    """

    index: Mapping[str, int]
    delayed: tuple[PersistentVolumeClaim, ...]
    matches: tuple[Match, ...]

    def on(self, node: str) -> tuple[list[tuple[PersistentVolume, PersistentVolumeClaim]], list[PersistentVolumeClaim]]:
        """The volumes to bind on a node, each to its claim, and the claims to make a volume for."""
        found = {m.claim.full_name: m.at(self.index[node]) for m in self.matches}
        static = [(volume, claim) for claim in self.delayed if (volume := found.get(claim.full_name)) is not None]
        return static, [claim for claim in self.delayed if found.get(claim.full_name) is None]


class Storage:
    """The cluster's storage, as a search looks it up."""

    def __init__(self, objects: ClusterObjects) -> None:
        self.objects = objects
        self.volumes = Volumes(objects)
        self.capacities = Index(objects, CSIStorageCapacity, lambda c: c.storage_class_name)
        self.migrated_nodes = Index(objects, CSINode, lambda n: n.migrated)

    def catch_up(self) -> None:
        """Bring the indexes up to date now."""
        self.volumes.catch_up()
        self.capacities.catch_up()
        self.migrated_nodes.catch_up()


class Search:
    """One pod's claims against one set of columns.

    Each kind of reason is a column of its own, since a node may have several; an error overrides them all.
    """

    def __init__(self, storage: Storage, nodes: NodeColumns) -> None:
        self._storage = storage
        self._nodes = nodes
        self._reach = Reach(nodes)
        self._matches: list[Match] = []
        # in the order of the message
        self._affinity, self._unbound, self._space, self._missing, self._error = (
            _Column(nodes.slots) for _ in range(5)
        )

    def verdicts(self, claims: Claims) -> Verdicts:
        """The verdict column; what it rests on is in `choices` then."""
        self._check_bound(claims.bound)
        self._check_delayed(claims.delayed, ~self._error.given)
        columns = (self._affinity, self._unbound, self._space, self._missing, self._error)
        if not any(column.given.any() for column in columns):
            return PASS
        packed = np.ravel_multi_index([c.numbers for c in columns], [len(c.said) for c in columns])
        distinct, ids = np.unique(packed, return_inverse=True)

        def verdict(number: int) -> Verdict:
            numbers = np.unravel_index(distinct[number], [len(c.said) for c in columns])
            said = [column.said[i] for column, i in zip(columns, numbers, strict=True) if i]
            if numbers[-1]:
                return error(said[-1].params["text"])
            return unresolvable(*said) if said else SUCCESS

        return Verdicts.from_ids(ids, len(distinct), verdict)

    def choices(self, claims: Claims) -> Choices:
        """Which volumes the delayed claims get on the nodes that were not rejected. After `verdicts`."""
        return Choices(self._nodes.index, claims.delayed, tuple(self._matches))

    # --- claims that are bound ------------------------------------------------------------------------------------

    def _check_bound(self, claims: Iterable[PersistentVolumeClaim]) -> None:
        """Each node's first claim whose volume is missing or out of reach."""
        left = np.ones(self._nodes.slots, np.bool_)
        for claim in claims:
            name = claim.spec.volume_name
            volume = self._storage.objects.get(PersistentVolume, name)
            if volume is None:
                self._missing.give(left, Reason("claim-volume-missing", {"claim": claim.full_name, "volume": name}))
                return
            required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
            migrated = self._migrated(volume) & left
            if migrated.any():
                try:
                    self._require(csi_migration.translate_node_affinity(volume), volume, migrated)
                except TranslationError as e:
                    self._error.give(migrated, Reason("text", {"text": f"could not translate pv: {e}"}))
            self._require(required, volume, left & ~migrated)
            left &= ~self._affinity.given & ~self._error.given

    def _require(self, required: NodeSelector | None, volume: PersistentVolume, where: Mask) -> None:
        if required is None:
            return
        outside = where & ~self._reach.mask(self._reach.of_affinity(required))
        wants = " or ".join(_described(term) for term in required.node_selector_terms or ())
        params = {"volume": volume.metadata.name, "wants": wants}
        self._affinity.give(outside, Reason("volume-affinity", params))

    def _migrated(self, volume: PersistentVolume) -> Mask:
        """Return the nodes where a CSI driver replaces the volume's in-tree plugin."""
        where = np.zeros(self._nodes.slots, np.bool_)
        migration = csi_migration.find_migration(volume.spec)
        if migration is not None and migration.counted:
            for plugins in self._storage.migrated_nodes:
                if migration.plugin in plugins:
                    names = (node.metadata.name for node in self._storage.migrated_nodes.get(plugins))
                    where[[self._nodes.index[name] for name in names if name in self._nodes.index]] = True
        return where

    # --- claims that wait for the pod's node ----------------------------------------------------------------------

    def _check_delayed(self, claims: Iterable[PersistentVolumeClaim], where: Mask) -> None:
        """A node that was selected for a claim is the only one; elsewhere an existing volume, or else a new one."""
        to_provision: list[tuple[PersistentVolumeClaim, Mask]] = []
        to_match: list[PersistentVolumeClaim] = []
        for claim in claims:
            selected = claim.annotations.selected_node
            if selected is None:
                to_match.append(claim)
                continue
            others = where.copy()
            if selected in self._nodes.index:
                others[self._nodes.index[selected]] = False
            self._unbound.give(others, Reason("no-volume", {"claim": claim.full_name, "selected": selected}))
            where = where & ~others
            to_provision.append((claim, where))
        to_match.sort(key=lambda claim: size_of(claim.spec.resources.requests))
        try:
            found = self._matches = matched(to_match, self._storage.volumes, self._reach, where)
        except InvalidSelectorError as e:
            self._error.give(where, Reason("text", {"text": f"error creating internal label selector for claim: {e}"}))
            return
        to_provision += [(match.claim, ~match.found) for match in found]
        for claim, needed in to_provision:
            where = where & ~self._provision(claim, where & needed)

    def _provision(self, claim: PersistentVolumeClaim, where: Mask) -> Mask:
        """Where a volume cannot be made for the claim."""
        storage_class = self._storage.objects.get(StorageClass, claim.storage_class)
        if storage_class is None:  # it went since PreFilter
            text = f'failed to find storage class "{claim.storage_class}"'
            self._error.give(where, Reason("text", {"text": text}))
            return where
        params = {"claim": claim.full_name, "storage_class": claim.storage_class}
        if storage_class.provisioner in ("", NO_PROVISIONER):
            self._unbound.give(where, Reason("no-volume", params))
            return where
        outside = where & ~self._reach.of_topologies(storage_class.allowed_topologies)
        self._unbound.give(outside, Reason("no-volume", params))
        full = where & ~outside & ~self._has_space(claim, storage_class)
        self._space.give(full, Reason("no-space", params))
        return outside | full

    def _has_space(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Mask:
        """Where the class' driver says that a volume of this size can be made; everywhere where it does not say."""
        driver = self._storage.objects.get(CSIDriver, storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity or STORAGE not in (claim.spec.resources.requests or {}):
            return np.ones(self._nodes.slots, np.bool_)
        size = quantity.scaled_value((claim.spec.resources.requests or {})[STORAGE], quantity.WHOLE)
        where = np.zeros(self._nodes.slots, np.bool_)
        for capacity in self._storage.capacities.get(storage_class.metadata.name):
            room = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
            if room is not None and quantity.scaled_value(room, quantity.WHOLE) >= size:
                where[self._reach.of_labels(capacity.node_topology)] = True
        return where


def _described(term: NodeSelectorTerm) -> str:
    return " and ".join(
        selectors.format_requirement(r) for r in (*(term.match_expressions or ()), *(term.match_fields or ()))
    )


class _Column:
    """At most one reason a slot, by number; 0 is none."""

    def __init__(self, slots: int) -> None:
        self.numbers: NDArray[np.int64] = np.zeros(slots, np.int64)
        self.said: list[Reason] = [Reason("")]

    @property
    def given(self) -> Mask:
        """The slots that have one."""
        given: Mask = self.numbers > 0
        return given

    def give(self, where: Mask, reason: Reason) -> None:
        """The slots of the mask have this one."""
        if where.any():
            self.numbers[where] = len(self.said)
            self.said.append(reason)
