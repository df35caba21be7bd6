"""Inline disks that two pods on one node may not be able to share.

Source: pkg/scheduler/framework/plugins/volumerestrictions v1.36 (isVolumeConflict).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scheduler.engine.objects.types import Pod


class Disk(NamedTuple):
    """A disk that a pod mounts inline, as compared with the disks of other pods on a node.

    `monitors` are the monitors of a Ceph cluster. Two RBD disks without a common monitor are different disks.
    """

    kind: str
    name: str
    read_only: bool = False
    monitors: frozenset[str] = frozenset()

    def conflicts(self, other: Disk) -> bool:
        """Return whether two pods on one node cannot mount these two disks at the same time.

        They cannot if both are the same disk, unless both are read-only. An EBS disk conflicts with itself even then.
        """
        if (self.kind, self.name) != (other.kind, other.name):
            return False
        if self.kind == "rbd" and not self.monitors & other.monitors:
            return False
        return self.kind == "awsElasticBlockStore" or not (self.read_only and other.read_only)


def find_disks(pod: Pod) -> Iterator[Disk]:
    """Yield the pod's inline disks of the kinds that two pods on one node may be unable to share.

    The kinds are GCE persistent disk, EBS, Ceph RBD and iSCSI.
    """
    for volume in pod.spec.volumes or ():
        if (gce := volume.gce_persistent_disk) is not None:
            yield Disk("gcePersistentDisk", gce.pd_name, gce.read_only)
        if (ebs := volume.aws_elastic_block_store) is not None:
            yield Disk("awsElasticBlockStore", ebs.volume_id)
        if (rbd := volume.rbd) is not None:
            yield Disk("rbd", f"{rbd.pool}/{rbd.image}", rbd.read_only, frozenset(rbd.monitors or ()))
        if (iscsi := volume.iscsi) is not None:
            yield Disk("iscsi", iscsi.iqn, iscsi.read_only)
