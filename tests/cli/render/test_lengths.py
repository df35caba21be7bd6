"""Ordinary answers fit a terminal of 24 lines, whose last one has the shell's prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
FITTING = sorted(
    path.name
    for pattern in (
        "node-*",
        "pod-*pending*",
        "pod-preemption-*",
        "workload*",
        "cluster-review-drain*",
        "cluster-review-scale",
        "cluster-review-capacity",
    )
    for path in GOLDEN.glob(f"{pattern}.80.txt")
    if not path.name.startswith("pod-pending-all")  # --all is long
)


@pytest.mark.parametrize("name", FITTING)
def test_answer_fits_a_terminal_of_24_lines(name: str) -> None:
    assert len((GOLDEN / name).read_text().splitlines()) < 24


def test_screens_were_found() -> None:
    assert len(FITTING) >= 8
