"""The fragmentation of nodes is the one that the paper defines, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.offline.simulate.fragmentation import TaskDemand, Tasks

HALF = TaskDemand(0.5, 4000, 500)
PAIR = TaskDemand(0.3, 4000, 2000)
HUNGRY = TaskDemand(0.1, 16000, 300)
NO_GPU = TaskDemand(0.1, 1000)


def fragmentation(*demands: TaskDemand, free: tuple[int, ...], cpu: int = 8000, model: str = "T4") -> float:
    (lost,) = Tasks.from_demands(demands).compute_fragmentation(np.array([free]), np.array([cpu]), [model])
    return float(lost)


@pytest.mark.parametrize(
    ("demand", "lost"),
    [
        (HALF, 400),  # it fits on the first GPU; the second has too little
        (PAIR, 1400),  # needs two idle GPUs
        (HUNGRY, 1400),  # needs more cpu
        (NO_GPU, 1400),  # cannot use a GPU
        (TaskDemand(1, 4000, 400), 0),
        (TaskDemand(1, 8000, 1000), 400),
        (TaskDemand(1, 4000, 400, ("A10", "T4")), 0),
        (TaskDemand(1, 4000, 400, ("A10",)), 1400),
    ],
)
def test_a_kind_of_pod_loses_what_it_cannot_use(demand: TaskDemand, lost: float) -> None:
    assert fragmentation(demand, free=(1000, 400)) == lost


def test_the_loss_is_the_mean_over_the_kinds_by_their_shares() -> None:
    assert fragmentation(HALF, PAIR, HUNGRY, NO_GPU, free=(1000, 400)) == pytest.approx(200 + 420 + 140 + 140)


def test_shares_that_do_not_sum_to_one_are_scaled() -> None:
    assert fragmentation(TaskDemand(3, 0, 500), TaskDemand(1, 0, 1000), free=(500,)) == pytest.approx(125)
