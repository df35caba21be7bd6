"""How much of the free GPUs of nodes the pods of a workload cannot use: the fragmentation of FGD.

    tasks = Tasks.from_demands([TaskDemand(share=0.6, cpu_milli=4000, gpu_milli=500), …])
    lost = tasks.compute_fragmentation(free, free_cpu, models)

Owns: the formula. Does not own: which shares of GPUs are free (`gpu_shares`), where the demands come from.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.offline.traces.importing import MILLI_PER_GPU

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class TaskDemand(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What pods of one kind request, and their share of all pods, 0 to 1.

    `gpu_milli` is the sum over the pod's GPUs: below 1000 a share of one GPU, else whole GPUs. `models` are the GPU
    models that the pods may use; empty means all.
    """

    share: float
    cpu_milli: int
    gpu_milli: int = 0
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tasks:
    """The demands of a workload as arrays with one entry for each kind of pod.

    `per_gpu` is the share of a GPU that the pod takes on each of its `gpus` GPUs, in thousandths.
    """

    shares: Floats
    cpu_milli: Ints
    per_gpu: Ints
    gpus: Ints
    models: tuple[tuple[str, ...], ...]

    @classmethod
    def from_demands(cls, demands: Iterable[TaskDemand]) -> Tasks:
        """Return the demands as arrays. Their shares are scaled to a sum of 1."""
        ordered = [*demands]
        shares = np.array([each.share for each in ordered], np.float64)
        milli = np.array([each.gpu_milli for each in ordered], np.int64)
        return cls(
            shares / (shares.sum() or 1.0),
            np.array([each.cpu_milli for each in ordered], np.int64),
            np.minimum(milli, MILLI_PER_GPU),
            np.maximum(milli // MILLI_PER_GPU, 1),
            tuple(each.models for each in ordered),
        )

    def compute_fragmentation(self, free: Ints, free_cpu: Ints, models: Sequence[str]) -> Floats:
        """Return for each node how many thousandths of GPUs a random pod of the workload cannot use.

        `free` has the free thousandths of each GPU with the shape [node, GPU], `free_cpu` the free milli-CPUs and
        `models` the GPU model of each node. A node on which the pod fits loses the GPUs that have too little for it. A
        node on which it does not fit, or that has no GPU which the pod could use, loses all that is free.
        """
        fits_gpu = free[:, None, :] >= self.per_gpu[:, None]
        fits = (fits_gpu.sum(axis=2) >= self.gpus) & (free_cpu[:, None] >= self.cpu_milli) & (self.per_gpu > 0)
        for i, allowed in enumerate(self.models):
            if allowed:
                fits[:, i] &= np.isin(models, allowed)
        lost_where_it_fits = np.where(fits_gpu, 0, free[:, None, :]).sum(axis=2)
        lost: Floats = np.where(fits, lost_where_it_fits, free.sum(axis=1)[:, None]) @ self.shares
        return lost
