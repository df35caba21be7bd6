"""Runs other commands of the plugin for `top`, each in a process of its own.

Owns: these processes, their command line and environment. Does not own: the answers.

A process, because evaluating a large cluster would hold Python's lock and so delay the keys, and because an answer that
is no longer wanted can be ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import herodotus_cli
from herodotus_cli.transport.kubectl_command import kill_process
from herodotus_record.installation import is_archive

_NICENESS = 5  # more than this program's, so that evaluating a large cluster on few cores does not delay the keys


class CommandResult(NamedTuple):
    """What a command printed on stdout and stderr, and its exit code."""

    code: int
    out: str
    messages: str


class CommandRunner:
    """Runs commands with the same connection options. Safe for several threads."""

    def __init__(self, options: Sequence[str], environ: Mapping[str, str]) -> None:
        self._options = tuple(options)
        folder = str(Path(herodotus_cli.__file__).parent.parent)  # a clone is not on the path of every process
        path = os.pathsep.join([folder, *filter(None, sys.path)])  # the packages that this process has
        self._environ = {**environ, "PYTHONPATH": path}
        if is_archive():  # its programs otherwise take what they start for a part of themselves, and find no libraries
            self._environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def run(self, words: Sequence[str], width: int = 80) -> CommandResult:
        """Run a command line for a terminal of a width and return what it printed, once it has ended."""
        python = () if is_archive() else ("-P", "-m", "herodotus_cli")
        command = [sys.executable, *python, *self._options, *words]
        with self._lock:
            if self._is_closed:
                return CommandResult(130, "", "")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environ | {"COLUMNS": str(width)},
                start_new_session=True,  # Ctrl-C of the terminal is for the program alone
            )
            self._running.add(process)
        with suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, process.pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS))
        try:
            out, messages = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        return CommandResult(process.returncode, out.decode("utf-8", "replace"), messages.decode("utf-8", "replace"))

    def close(self) -> None:
        """End all commands that run."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for process in running:
            process.terminate()  # it ends its own kubectl
        for process in running:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                kill_process(process)
