"""`top` in a real terminal: what it needs, and that it leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGIN = [sys.executable, str(ROOT / "kubectl-herodotus")]
ALTERNATE_SCREEN, MAIN_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR = "\x1b[?25h"


class Terminal:
    """A program in a pseudo terminal of 80 by 24."""

    def __init__(self, command: list[str], **environ: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        self.process = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", **environ},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def read_until(self, is_done: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not is_done():
            assert time.monotonic() < until, self.text[-3000:]
            if select.select([self.master], [], [], 0.05)[0]:
                self.text += os.read(self.master, 65_536).decode("utf-8", "replace")

    def end(self) -> int:
        self.read_until(lambda: self.process.poll() is not None)
        while select.select([self.master], [], [], 0.05)[0]:
            self.text += os.read(self.master, 65_536).decode("utf-8", "replace")
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def program() -> Iterator[Terminal]:
    pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")
    terminal = Terminal([sys.executable, "-m", "tests.cli.top.fakes"])
    terminal.read_until(lambda: "worker-10" in terminal.text and "payments-0" in terminal.text)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("ending", ["q", "\x03", "SIGTERM"], ids=["q", "Ctrl-C", "SIGTERM"])
def test_terminal_is_left_as_it_was(program: Terminal, ending: str) -> None:
    assert ALTERNATE_SCREEN in program.text
    if ending == "SIGTERM":
        program.process.send_signal(signal.SIGTERM)
    else:
        os.write(program.master, ending.encode())
    assert program.end() == 0
    assert program.text.rindex(MAIN_SCREEN) > program.text.rindex(ALTERNATE_SCREEN)
    assert program.text.rindex(SHOW_CURSOR) > program.text.rindex("\x1b[?25l")
    assert termios.tcgetattr(program.slave) == program.before


def test_no_colour_where_none_is_wanted() -> None:
    pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")
    terminal = Terminal([sys.executable, "-m", "tests.cli.top.fakes"], NO_COLOR="1")
    try:
        terminal.read_until(lambda: "worker-10" in terminal.text and "payments-0" in terminal.text)
        os.write(terminal.master, b"q")
        terminal.end()
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
    terminal = Terminal([*PLUGIN, "top", *arguments], **environ)
    try:
        assert terminal.end() == 1
        assert message in terminal.text
        assert ALTERNATE_SCREEN not in terminal.text
    finally:
        terminal.close()


def test_missing_library_is_named_with_the_command_that_installs_it() -> None:
    code = "import sys; sys.modules['textual'] = None; from herodotus_cli.main import main; main(['top'])"
    terminal = Terminal([sys.executable, "-c", code])
    try:
        assert terminal.end() == 1
        assert "error: there is no package textual, which top needs" in terminal.text
        assert "install it: " in terminal.text
        assert "--with top" in terminal.text
    finally:
        terminal.close()
