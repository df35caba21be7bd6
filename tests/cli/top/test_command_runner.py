"""The processes in which `top` runs other commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from herodotus_cli.top.command_runner import CommandRunner


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands in for Python, and prints its arguments, width and priority."""
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\nsleep 0.5\necho "$@"\necho "$COLUMNS"\nnice\necho warning >&2\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return program


@pytest.mark.usefixtures("interpreter")
def test_command_has_the_options_and_a_lower_priority_than_the_screen() -> None:
    result = CommandRunner(["--context=c"], os.environ).run(["pending", "-A"], 120)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    words = "-P -m herodotus_cli --context=c pending -A"
    assert (result.code, result.out, result.messages) == (
        3,
        f"{words}\n120\n{min(19, priority + 5)}\n",
        "warning\n",
    )


def test_program_of_krews_archive_starts_itself_anew(interpreter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter.write_text('#!/bin/sh\necho "$PYINSTALLER_RESET_ENVIRONMENT $@"\n')
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert CommandRunner([], os.environ).run(["pending"]).out == "1 pending\n"


@pytest.mark.usefixtures("interpreter")
def test_closed_runner_starts_nothing() -> None:
    runner = CommandRunner([], os.environ)
    runner.close()
    assert runner.run(["pending"]).code == 130
