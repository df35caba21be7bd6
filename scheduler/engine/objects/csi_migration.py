"""Translation of in-tree volumes to the CSI drivers that replace them: driver, handle and topology.

Source: k8s.io/csi-translation-lib v1.36 (plugins/*.go), and the switches in nodevolumelimits/utils.go and
volumebinding/binder.go. Scheduling uses only the handle and the node affinity of a translated volume.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from scheduler.engine.objects.storage import CsiSource, PersistentVolume
from scheduler.engine.objects.types import InTreeSource, NodeSelector, NodeSelectorTerm, Requirement, Volume

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
ZONE_SEPARATOR: Final = "__"  # between the zones of one label value

_UNSPECIFIED = "UNSPECIFIED"  # project, zone or region of a GCE disk where only its name is known
_EBS_ID = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """An error for an in-tree volume that cannot be translated to a CSI volume."""


class Migration(NamedTuple):
    """An in-tree volume plugin and the CSI driver that replaces it."""

    plugin: str
    field: str  # of InTreeSource
    driver: str
    zone_key: str  # the driver's own topology label; "" where translating leaves the topology alone
    counted: bool = True  # whether scheduling translates it (kube-scheduler leaves two of them alone)


MIGRATIONS: Final = (
    Migration("kubernetes.io/aws-ebs", "aws_elastic_block_store", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    Migration("kubernetes.io/gce-pd", "gce_persistent_disk", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    Migration("kubernetes.io/cinder", "cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    Migration("kubernetes.io/azure-disk", "azure_disk", "disk.csi.azure.com", ""),
    Migration("kubernetes.io/azure-file", "azure_file", "file.csi.azure.com", "", counted=False),
    Migration("kubernetes.io/vsphere-volume", "vsphere_volume", "csi.vsphere.vmware.com", "", counted=False),
    Migration("kubernetes.io/portworx-volume", "portworx_volume", "pxd.portworx.com", ""),
)
_BY_PLUGIN = {m.plugin: m for m in MIGRATIONS}


def find_migration(source: InTreeSource) -> Migration | None:
    """Return the migration (in-tree plugin and CSI driver) for a volume source, or None if no driver replaces it."""
    return next((m for m in MIGRATIONS if getattr(source, m.field) is not None), None)


def find_migration_by_plugin(plugin: str) -> Migration | None:
    """Return the migration of an in-tree plugin by name, such as `kubernetes.io/aws-ebs`, or None if it has none."""
    return _BY_PLUGIN.get(plugin)


def translate_inline_volume(volume: Volume) -> str:
    """Return the CSI volume handle for an in-tree volume that a pod defines inline.

    Raise TranslationError if the volume cannot be translated to CSI.
    """
    if volume.gce_persistent_disk is not None:
        return f"projects/{_UNSPECIFIED}/zones/{_UNSPECIFIED}/disks/{volume.gce_persistent_disk.pd_name}"
    return _handle(volume)


def translate_volume(volume: PersistentVolume) -> CsiSource:
    """Return the CSI driver and volume handle for an in-tree persistent volume.

    Raise TranslationError if the volume cannot be translated to CSI.
    """
    migration = find_migration(volume.spec)
    assert migration is not None
    disk = volume.spec.gce_persistent_disk
    handle = _gce_handle(volume, disk.pd_name) if disk is not None else _handle(volume.spec)
    return CsiSource(driver=migration.driver, volume_handle=handle)


def translate_node_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Return the required node affinity of an in-tree persistent volume as a CSI volume, or None if it has none.

    Requirements on zones use the topology label of the CSI driver instead of the general label. Raise TranslationError
    if the volume cannot be translated to CSI.
    """
    translate_volume(volume)
    migration = find_migration(volume.spec)
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    if migration is None or not migration.zone_key:
        return required
    terms = list(required.node_selector_terms or ()) if required else []
    labels = volume.metadata.labels or {}
    zone, region = _topology_labels(terms, labels)
    if any(r.key == zone and r.values for r in _expressions(terms)):
        terms = [_renamed(term, zone, migration.zone_key) for term in terms]
    elif zones := sorted({z.strip() for z in labels.get(zone, "").split(ZONE_SEPARATOR)} - {""}):
        among = Requirement(key=migration.zone_key, operator="In", values=zones)
        terms = [
            msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), among])
            for term in terms or [NodeSelectorTerm()]
        ]
    if region == BETA_REGION and any(r.key == region and r.values for r in _expressions(terms)):
        terms = [_renamed(term, region, REGION) for term in terms]
    return NodeSelector(node_selector_terms=terms) if required or terms else None


def _handle(source: InTreeSource) -> str:
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store.volume_id)
    if source.azure_disk is not None:
        kind = source.azure_disk.kind
        if kind is not None and kind.lower() != "managed":
            raise TranslationError(f"kind({kind}) is not supported in csi migration")
        return source.azure_disk.disk_uri
    if source.cinder is not None:
        return source.cinder.volume_id
    return source.portworx_volume.volume_id if source.portworx_volume is not None else ""


def _ebs_handle(volume_id: str) -> str:
    """Return the EBS volume ID from the forms `vol-1`, `aws://ZONE/vol-1` and `aws:///vol-1`.

    Raises TranslationError if a text that starts with `aws://` contains no volume ID.
    """
    if not volume_id.startswith("aws://"):
        return volume_id
    disk = urlsplit(volume_id).path.strip("/")
    if not _EBS_ID.fullmatch(disk):
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({disk})"
        )
    return disk


def _gce_handle(volume: PersistentVolume, disk: str) -> str:
    labels = volume.metadata.labels or {}
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{disk}"
    return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{disk}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format,"
                f" expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        joined = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{joined}]"
        )
    return regions.pop()


def _topology_labels(terms: list[NodeSelectorTerm], labels: dict[str, str]) -> tuple[str, str]:
    """Return the keys of the zone label and the region label that a volume uses: general keys or beta keys.

    Keys in the volume's node affinity (`terms`) take precedence over its own labels, and general keys over beta keys.
    """
    keys = {r.key for r in _expressions(terms)}
    places = ((ZONE, keys), (BETA_ZONE, keys), (ZONE, labels), (BETA_ZONE, labels))
    zone = next((key for key, held in places if key in held), ZONE)
    return zone, REGION if zone == ZONE else BETA_REGION


def _expressions(terms: list[NodeSelectorTerm]) -> Iterable[Requirement]:
    return (r for term in terms for r in term.match_expressions or ())


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    expressions = [msgspec.structs.replace(r, key=new) if r.key == old else r for r in term.match_expressions or ()]
    return msgspec.structs.replace(term, match_expressions=expressions)
