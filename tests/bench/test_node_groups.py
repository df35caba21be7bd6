"""The section about node groups stays within its time: 300 ms of CPU at 5,000 nodes in 60 groups."""

from __future__ import annotations

import pytest

from bench.node_groups import measure

LIMIT_S = 0.3


@pytest.mark.timeout(600)
def test_the_section_costs_less_than_its_limit() -> None:
    for found in measure(5000, 10_000, 60):
        assert found.groups == 60
        assert found.seconds < LIMIT_S, found
