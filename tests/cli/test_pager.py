"""Only screens longer than the terminal go through the user's pager."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from herodotus_cli import pager
from herodotus_cli.command_line import run
from herodotus_cli.environment import Environment
from tests.cli.scenes import NOW
from tests.cli.service import Out


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["less"]),
        ({"PAGER": "more -d"}, ["more", "-d"]),
        ({"PAGER": "more", "KUBECTL_HERODOTUS_PAGER": "less -S"}, ["less", "-S"]),
        ({"PAGER": "less", "KUBECTL_HERODOTUS_PAGER": ""}, []),
        ({"PAGER": "cat"}, []),
        ({"TERM": "dumb"}, []),
        ({"TERM": "dumb", "PAGER": "less"}, []),
        ({"TERM": "xterm"}, ["less"]),
        ({"PAGER": "less '"}, []),
    ],
)
def test_pager_command(environ: dict[str, str], expected: list[str]) -> None:
    assert pager.pager_command(environ) == expected


@pytest.mark.parametrize(("lines", "height", "paged"), [(24, 24, True), (23, 24, False), (99, 0, False)])
def test_pages_only_text_longer_than_terminal(tmp_path: Path, lines: int, height: int, paged: bool) -> None:
    got = tmp_path / "got"
    command = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"w\").write(sys.stdin.read())' {got}"
    out, text = Out(True), "".join(f"line {i}\n" for i in range(lines))
    pager.write(text, out, {"PAGER": command}, height)
    assert (out.getvalue(), got.read_text() if got.exists() else "") == (("", text) if paged else (text, ""))


def test_less_gets_a_prompt_that_says_how_to_go_on_unless_it_is_configured(tmp_path: Path) -> None:
    got = tmp_path / "got"
    command = f'{sys.executable} -c \'import os, sys; open(sys.argv[1], "w").write(os.environ["LESS"])\' {got}'
    for environ, expected in (({}, "space\\: more, h\\: help, q\\: quit"), ({"LESS": "-R"}, "-R")):
        pager.write("line\n" * 30, Out(True), {"PAGER": command, **environ}, 24)
        assert expected in got.read_text()


@pytest.mark.parametrize(
    "words", [("--help",), ("pod", "--help"), ("whatif", "drain", "-h"), ("top", "-h"), ("options",)]
)
def test_long_help_goes_through_the_pager(tmp_path: Path, words: tuple[str, ...]) -> None:
    got = tmp_path / "got"
    command = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"w\").write(sys.stdin.read())' {got}"
    out = Out(True)
    environment = Environment({"PAGER": command}, out, lambda: NOW, lambda: 80, lambda: 5)
    assert run(words, environment) == 0
    assert (out.getvalue(), "Options" in got.read_text() or "Others" in got.read_text()) == ("", True)


def test_missing_pager_loses_no_text() -> None:
    out = Out(True)
    pager.write("a\nb\n", out, {"PAGER": "no-such-pager-here"}, 1)
    assert out.getvalue() == "a\nb\n"
