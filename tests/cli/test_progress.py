"""The progress line never stays on the terminal beside other text."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import nullcontext

import pytest

from herodotus_cli import errors, progress


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal; in the test itself, because pytest replaces stderr after a fixture's setup."""
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "_AFTER_S", -1)
    monkeypatch.setattr(errors, "progress_shown", False)  # and as it was after the test
    monkeypatch.setenv("TERM", "xterm")
    return stderr


def test_a_message_removes_the_progress_line_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    line = progress.ProgressLine()
    line.report("nodes", 12)
    errors.print_to_stderr("evaluated now")
    assert terminal.getvalue() == "\r\x1b[Kreading the cluster: 12 nodes\r\x1b[Kevaluated now\n"
    line.clear()
    line.report("pods", 3)  # by a thread that reads on after the answer
    assert terminal.getvalue().endswith("evaluated now\n")


def test_a_terminal_that_cannot_erase_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    progress.ProgressLine().report("nodes", 12)
    assert terminal.getvalue() == ""


def test_the_time_of_a_search_for_plans_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    line = progress.ProgressLine()
    line.expect({"plan": {}})
    line.report_decided(3, 20)
    assert terminal.getvalue() == "\r\x1b[Ksearching for plans: 3 of at most 20 s"


@pytest.mark.parametrize("evaluates_here", [True, False])
def test_a_plan_that_was_found_is_shown_while_the_search_for_a_smaller_one_goes_on(
    monkeypatch: pytest.MonkeyPatch, evaluates_here: bool
) -> None:
    terminal = open_terminal(monkeypatch)
    line = progress.ProgressLine()
    line.expect({"plan": {}})
    with line.interruptible() if evaluates_here else nullcontext():
        line.report_decided(3, 20, 2)
    shown = "searching for plans: 3 of at most 20 s; best: 2 changes"
    assert terminal.getvalue() == f"\r\x1b[K{shown}{' (Ctrl-C shows it)' if evaluates_here else ''}"


def test_the_longest_line_fits_80_columns_and_a_narrower_terminal_gets_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "fileno", lambda: 2)
    line = progress.ProgressLine()
    line.expect({"plan": {}})
    shown = []
    for columns in (80, 40):
        monkeypatch.setattr(os, "get_terminal_size", lambda _, columns=columns: os.terminal_size((columns, 24)))
        monkeypatch.setattr(progress, "_EVERY_S", -1)
        with line.interruptible():
            line.report_decided(3599, 3600, 12)
        shown.append(terminal.getvalue().rpartition("\x1b[K")[2])
    assert shown[0].endswith("(Ctrl-C shows it)")
    assert shown[1] == shown[0][:39]


def test_the_first_interrupt_waits_for_a_report_and_the_second_does_not() -> None:
    line = progress.ProgressLine(is_shown=False)
    before = signal.getsignal(signal.SIGINT)
    with line.interruptible():
        with pytest.raises(KeyboardInterrupt):  # nothing was decided that could be answered
            signal.raise_signal(signal.SIGINT)
        line.report_decided(1, 20)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            line.report_decided(2, 20)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
