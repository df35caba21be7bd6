"""The section about node groups stays within its time: 300 ms of CPU at 5,000 nodes in 60 groups."""

from __future__ import annotations

import pytest

from bench.cluster_reviews import measure_groups

LIMIT_S = 0.3


@pytest.mark.timeout(600)
def test_the_section_costs_less_than_its_limit() -> None:
    for name, seconds, groups in measure_groups(5000, 10_000, 60):
        assert groups == 60
        assert seconds < LIMIT_S, name
