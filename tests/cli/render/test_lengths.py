"""Ordinary answers fit a terminal of 24 lines, whose last one has the shell's prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from herodotus_cli.render import pod, terminal
from herodotus_cli.render.screen_elements import ViewOptions, build_table
from tests.cli.scenes import NOW, explained, pending_with_suggestions

GOLDEN = Path(__file__).parent / "golden"
FITTING = sorted(
    path.name
    for pattern in (
        "help.txt",
        "node-*.80.txt",
        "pod-*pending*.80.txt",
        "pod-preemption-*.80.txt",
        "workload*.80.txt",
        "cluster-review-drain*.80.txt",
        "cluster-review-scale.80.txt",
        "cluster-review-capacity.80.txt",
    )
    for path in GOLDEN.glob(pattern)
    if not path.name.startswith("pod-pending-all")  # --all is long
)


@pytest.mark.parametrize("name", FITTING)
def test_answer_fits_a_terminal_of_24_lines(name: str) -> None:
    assert len((GOLDEN / name).read_text().splitlines()) < 24


def test_screens_were_found() -> None:
    assert len(FITTING) >= 8


def test_the_largest_group_of_rejected_nodes_is_there_beside_a_command_of_many_lines() -> None:
    answer, view = explained(pending_with_suggestions()), ViewOptions(NOW, 80)
    answer["suggestions"][0]["command"] = " ".join(["kubectl"] * 300)
    text = terminal.draw(pod.build_screen(answer, view), view, color=False)
    largest = max(answer["rejections"], key=lambda group: group["count"])
    assert len(text.splitlines()) > 24
    assert f"{largest['count']}  {largest['plugin']}" in text


@pytest.mark.parametrize("longest", [60, 30])
def test_a_name_that_is_wider_than_the_terminal_is_broken_after_its_namespace(longest: int) -> None:
    space, name, view = "n" * 32, "p" * longest, ViewOptions(NOW, 80)
    table = build_table(("POD", "AGE", "REASON"), [(f"{space}/{name}", "5s", "nodes have too little memory")])
    lines = terminal.draw([table], view, color=False).splitlines()
    assert max(map(len, lines)) <= 80
    assert (f"{space}/" in lines) == (longest == 60)
