"""What is to be reached against kube-scheduler, on the same cores and in the same run, by family.

Owns: those numbers. Does not own: the families (`workloads`), measuring (`control_plane`), the table (`comparison`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RECORDING: Final = 0.93  # of the throughput without records, delivering them
COLD_START_S: Final = 20.0  # to the first binding, with 5,000 nodes and 50,000 pods
COLD_START_MIB: Final = 1024.0


@dataclass(frozen=True)
class Aim:
    """Ratios to kube-scheduler: at least of its pods/s, at most of its scheduler's CPU time a pod."""

    pods_per_s: float
    cpu: float


AIMS: Final = {
    "SchedulingBasic": Aim(1.2, 0.5),
    "SchedulingNodeAffinity": Aim(1.6, 0.4),
    "PreferredTopologySpreading": Aim(2.0, 0.3),
    "TopologySpreading": Aim(2.3, 0.3),
    "SchedulingPreferredPodAffinity": Aim(2.3, 0.3),
    "SchedulingPodAffinity": Aim(3.5, 0.3),
    "SchedulingPodAntiAffinity": Aim(3.0, 0.3),
}
