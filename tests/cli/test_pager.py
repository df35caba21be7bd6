"""A screen that is longer than the terminal goes through the user's pager, and nothing else does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from herodotus_cli import pager
from tests.cli.service import Out


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["less"]),
        ({"PAGER": "more -d"}, ["more", "-d"]),
        ({"PAGER": "more", "KUBECTL_HERODOTUS_PAGER": "less -S"}, ["less", "-S"]),
        ({"PAGER": "less", "KUBECTL_HERODOTUS_PAGER": ""}, []),
        ({"PAGER": "cat"}, []),
        ({"PAGER": "less '"}, []),
    ],
)
def test_whose_pager(environ: dict[str, str], expected: list[str]) -> None:
    assert pager.pager_command(environ) == expected


@pytest.mark.parametrize(("lines", "height", "paged"), [(24, 24, True), (23, 24, False), (99, 0, False)])
def test_only_what_a_terminal_does_not_hold_is_paged(tmp_path: Path, lines: int, height: int, paged: bool) -> None:
    got = tmp_path / "got"
    command = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"w\").write(sys.stdin.read())' {got}"
    out, text = Out(True), "".join(f"line {i}\n" for i in range(lines))
    pager.write(text, out, {"PAGER": command}, height)
    assert (out.getvalue(), got.read_text() if got.exists() else "") == (("", text) if paged else (text, ""))


def test_a_pager_that_does_not_run_loses_nothing() -> None:
    out = Out(True)
    pager.write("a\nb\n", out, {"PAGER": "no-such-pager-here"}, 1)
    assert out.getvalue() == "a\nb\n"
