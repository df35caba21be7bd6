"""The section about node groups stays within its time: 300 ms of CPU at 5,000 nodes in 60 groups."""

from __future__ import annotations

import numpy as np
import pytest

from bench.algorithm import small_kernel_s
from bench.cluster_reviews import measure_groups

# In runs of the calibration kernel of the same minute: 300 ms of a machine that runs it in 1.8 ms, on which the slowest
# of the three takes 70 runs.
LIMIT = 160
TRIES = 3  # something else may have the machine for a while; a section that became slower shows in every try


@pytest.mark.timeout(600)
def test_the_section_costs_less_than_its_limit() -> None:
    for _ in range(TRIES):
        measured = list(measure_groups(5000, 10_000, 60))
        kernel = np.percentile(small_kernel_s(), 25)
        assert {groups for _name, _seconds, groups in measured} == {60}
        runs = {name: seconds / kernel for name, seconds, _groups in measured}
        if max(runs.values()) < LIMIT:
            return
    pytest.fail(f"runs of the calibration kernel: {runs}")
