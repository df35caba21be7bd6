"""The performance targets against kube-scheduler on the same cores and in the same run, by workload family.

Owns: the numbers. Does not own: the families (`workloads`), measuring (`control_plane`), the table (`comparison`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RECORDING: Final = 0.93  # the throughput with delivered records, as a ratio to that without records
COLD_START_S: Final = 20.0  # the time to the first binding, with 5,000 nodes and 50,000 pods
COLD_START_MIB: Final = 1024.0
LATENCY_P50: Final = (
    1.0  # from creation to binding at equal load, as a ratio to kube-scheduler; at most, in every family
)
LATENCY_P99: Final = 0.8


@dataclass(frozen=True)
class Aim:
    """Ratios to kube-scheduler: a minimum of pods per second and a maximum of scheduler CPU time per pod."""

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
