"""Which CSI volumes a pod needs attached.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go v1.36 (filterAttachableVolumes and below it).
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from herodotus_record.model import Reason, Verdict
from herodotus_record.reasons import CATALOGUE
from scheduler.engine.framework.verdicts import error, unresolvable
from scheduler.engine.objects import csi_migration
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.csi_migration import TranslationError
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    find_claim_name,
    is_owned_by_pod,
)
from scheduler.engine.objects.types import Object, Volume

T = TypeVar("T", bound=Object)

MigratedPlugins = frozenset[str]  # the in-tree plugins whose volumes count as volumes of a CSI driver on a node
NONE_MIGRATED: MigratedPlugins = frozenset()
ALL_MIGRATED: MigratedPlugins = frozenset(m.plugin for m in csi_migration.MIGRATIONS if m.counted)
PORTWORX = "kubernetes.io/portworx-volume"

_UNBOUND_PREFIX = "-"  # starts the handle of an unbound claim's stand-in volume; no driver's handle starts so


class CsiVolume(NamedTuple):
    """A CSI volume, identified by driver and handle."""

    driver: str
    handle: str


class ObjectDependency(NamedTuple):
    """The identity of an object on which a result depends, whether or not the object exists."""

    kind: type[Object]
    namespace: str
    name: str


class UncountableError(Exception):
    """An error for a pod whose volumes cannot be counted; `verdict` is the filter's verdict in that case."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


class VolumeLookup:
    """A lookup of the CSI volumes of pods. `dependencies` collects the objects on which the results depend."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self.dependencies: set[ObjectDependency] = set()

    def find_volumes(self, pod: PodInfo, *, incoming: bool, migrated: MigratedPlugins) -> set[CsiVolume]:
        """Return the CSI volumes of a pod. Raise UncountableError if one cannot be determined.

        If `incoming` is set, the pod is not on a node yet, and every claim must exist; otherwise, missing claims are
        ignored. In-tree volumes count if their plugin is in `migrated`.
        """
        volumes: set[CsiVolume | None] = set()
        for volume in pod.pod.spec.volumes or ():
            name = find_claim_name(pod.pod, volume)
            if name is None:
                volumes.add(_inline(volume, migrated))
                continue
            if not name:
                raise UncountableError(error(CATALOGUE["claim-unnamed"]))
            claim = self._get(PersistentVolumeClaim, name, pod.namespace)
            if claim is None:
                if incoming:
                    params = {"claim": f"{pod.namespace}/{name}", "name": name}
                    raise UncountableError(unresolvable(Reason("claim-lookup", params)))
                continue
            if volume.persistent_volume_claim is None and not is_owned_by_pod(claim, pod.pod):
                text = f"PVC {claim.full_name} was not created for pod {pod.full_name} (pod is not owner)"
                raise UncountableError(error(text))
            volumes.add(self._find_volume_of_claim(claim, migrated))
        return {volume for volume in volumes if volume is not None}

    def _find_volume_of_claim(self, claim: PersistentVolumeClaim, migrated: MigratedPlugins) -> CsiVolume | None:
        volume = self._get(PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return self._unbound_volume(claim, migrated)
        source = volume.spec.csi
        if source is None:
            migration = csi_migration.find_migration(volume.spec)
            if migration is None or migration.plugin not in migrated:
                return None
            try:
                source = csi_migration.translate_volume(volume)
            except TranslationError:
                return None
        return CsiVolume(source.driver, source.volume_handle) if source.driver and source.volume_handle else None

    def _unbound_volume(self, claim: PersistentVolumeClaim, migrated: MigratedPlugins) -> CsiVolume | None:
        """Return a stand-in volume of the storage class's CSI driver for a claim without a volume.

        Return None if the storage class is unknown or has no CSI driver.
        """
        name = claim.storage_class
        storage_class = self._get(StorageClass, name) if name else None
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        migration = csi_migration.find_migration_by_plugin(driver)
        if migration is not None:
            driver = migration.driver if migration.plugin in migrated else ""
        return CsiVolume(driver, f"{_UNBOUND_PREFIX}{claim.full_name}") if driver else None

    def get_volume(self, name: str) -> PersistentVolume | None:
        return self._get(PersistentVolume, name)

    def _get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        self.dependencies.add(ObjectDependency(kind, namespace, name))
        return self._objects.get(kind, name, namespace)


def _inline(volume: Volume, migrated: MigratedPlugins) -> CsiVolume | None:
    migration = csi_migration.find_migration(volume)
    if migration is None or migration.plugin not in migrated:
        return None
    try:
        return CsiVolume(migration.driver, csi_migration.translate_inline_volume(volume))
    except TranslationError as e:
        raise UncountableError(error(f"converting volume({volume.name}) from inline to csi: {e}")) from e
