"""`top` in a real terminal: what it needs, and that it leaves the terminal as it was."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.processes import ROOT
from tests.support.pseudo_terminal import ALTERNATE_SCREEN, PseudoTerminal

PLUGIN = [sys.executable, str(ROOT / "kubectl-herodotus")]


def open_terminal(command: list[str], **environ: str) -> PseudoTerminal:
    return PseudoTerminal(command, {**os.environ, "TERM": "xterm-256color", **environ}, cwd=ROOT)


@pytest.fixture
def program() -> Iterator[PseudoTerminal]:
    pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")
    terminal = open_terminal([sys.executable, "-m", "tests.cli.top.fakes", "--fail-on-E"])
    terminal.wait_until(lambda: "worker-10" in terminal.text and "payments-0" in terminal.text)
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("ending", "code"),
    [("q", 0), ("\x03", 0), ("SIGTERM", 0), ("SIGHUP", 0), ("E", 1)],
    ids=["q", "Ctrl-C", "SIGTERM", "SIGHUP", "internal error"],
)
def test_terminal_is_left_as_it_was(program: PseudoTerminal, ending: str, code: int) -> None:
    assert ALTERNATE_SCREEN in program.text
    if ending.startswith("SIG"):
        program.process.send_signal(signal.Signals[ending])
    else:
        program.press(ending)
    assert program.wait_for_end() == code
    program.check_restored()
    assert ("planned error" in program.text) == (code == 1)


def test_keys_that_come_at_once_are_all_typed(program: PseudoTerminal) -> None:
    program.press("/worker-2\r")
    program.wait_for(r"waiting  /worker-2")
    program.press("q")  # on the first screen: Enter was for the question alone
    program.wait_for_end()
    assert "worker-2: " not in program.text


@pytest.mark.parametrize(("given", "delay_s"), [({}, "0.05"), ({"ESCDELAY": "200"}, "0.2")], ids=["default", "given"])
def test_esc_waits_for_one_look_at_the_terminal_unless_told_otherwise(given: dict[str, str], delay_s: str) -> None:
    pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")
    program = "import herodotus_cli.top.app, textual.constants; print(textual.constants.ESCAPE_DELAY)"
    environ = {name: value for name, value in os.environ.items() if name != "ESCDELAY"} | given
    run = subprocess.run(
        [sys.executable, "-c", program], env=environ, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == delay_s


def test_copied_fix_is_sent_to_the_terminal_and_shown(program: PseudoTerminal) -> None:
    """By OSC 52: the clipboard's contents in base64."""
    command = "kubectl delete pod db-0"
    program.press("\ty")
    program.wait_until(lambda: f"\x1b]52;c;{base64.b64encode(command.encode()).decode()}" in program.text)
    program.wait_for(f"copied: {command}")


def test_no_colour_where_none_is_wanted() -> None:
    pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")
    terminal = open_terminal([sys.executable, "-m", "tests.cli.top.fakes"], NO_COLOR="1")
    try:
        terminal.wait_until(lambda: "worker-10" in terminal.text and "payments-0" in terminal.text)
        terminal.press("q")
        terminal.wait_for_end()
        codes = {c for run in terminal.text.split("\x1b[")[1:] if "m" in run for c in run.partition("m")[0].split(";")}
        assert not codes & {*map(str, range(30, 39)), *map(str, range(40, 49)), *map(str, range(90, 98))}
    finally:
        terminal.close()


def test_pipe_is_refused() -> None:
    run = subprocess.run([*PLUGIN, "top"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (
        1,
        "error: top needs a terminal, and stdin is none\n"
        "  to print the same once: kubectl herodotus pending -A; kubectl herodotus node NAME\n",
    )


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        ([], {"TERM": "dumb"}, "error: top needs a terminal that can move its cursor, and TERM is dumb or not set"),
        (["--endpoint", "http://127.0.0.1:1"], {}, "error: top reads nodes and pods from the API server: leave out"),
    ],
    ids=["dumb", "endpoint"],
)
def test_what_cannot_work_is_refused(arguments: list[str], environ: dict[str, str], message: str) -> None:
    terminal = open_terminal([*PLUGIN, "top", *arguments], **environ)
    try:
        assert terminal.wait_for_end() == 1
        assert message in " ".join(terminal.text.split())
        assert ALTERNATE_SCREEN not in terminal.text
    finally:
        terminal.close()


def test_missing_library_is_named_with_the_command_that_installs_it() -> None:
    code = "import sys; sys.modules['textual'] = None; from herodotus_cli.main import main; main(['top'])"
    terminal = open_terminal([sys.executable, "-c", code])
    try:
        assert terminal.wait_for_end() == 1
        assert "error: there is no package textual, which top needs" in terminal.text
        assert "install it: " in terminal.text
        assert "--with top" in terminal.text
    finally:
        terminal.close()
