"""`whatif --cluster-file`: runs the scheduler's own `evaluate` command on files, without a cluster.

Owns: finding the program, its command line, messages of its failures. Does not own: decisions. The plugin does not
contain the scheduler, which comes with the servers' package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from herodotus_cli.errors import CliError, print_to_stderr
from herodotus_record.installation import (
    ForeignSchedulerError,
    describe_extra_installation,
    is_archive,
    require_own_scheduler,
)

PROGRAM = "herodotus-scheduler"


def evaluate(arguments: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """Run the scheduler's `evaluate -o review` on files and return the JSON document that it prints.

    Its notes are printed on stderr. Raises CliError if the program is missing, fails, or takes longer than `timeout_s`
    seconds (0 means no limit).
    """
    command = [*_program(environ), "evaluate", "-o", "review", *arguments]
    try:
        run = subprocess.run(
            command, capture_output=True, check=False, timeout=timeout_s or None, env=_child_environ(environ)
        )
    except subprocess.TimeoutExpired:
        raise CliError(f"error: no result within {timeout_s:g}s", ["wait longer: --request-timeout"]) from None
    except OSError as e:
        raise CliError(f"error: cannot run {command[0]}: {e.strerror}") from None
    notes = run.stderr.decode("utf-8", "replace").strip()
    if run.returncode:
        raise CliError(notes.splitlines()[-1] if notes else f"error: {command[0]} failed without a message")
    if notes:
        print_to_stderr(*notes.splitlines())
    document: dict[str, Any] = json.loads(run.stdout)
    return document


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the scheduler, with this process's import path, on which `scheduler` was checked."""
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _program(environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts the scheduler: the archive's own, that on PATH, or the module in this Python.

    Raises CliError if neither exists.
    """
    own = [os.path.dirname(sys.executable)] if is_archive() else []
    for folder in (*own, *os.get_exec_path(dict(environ))):
        if os.access(os.path.join(folder, PROGRAM), os.X_OK):
            return [os.path.join(folder, PROGRAM)]
    if find_spec("herodotus_local") is not None:
        try:
            require_own_scheduler()
        except ForeignSchedulerError as e:
            raise CliError(f"error: {e}") from None
        return [sys.executable, "-P", "-m", "scheduler"]
    raise CliError(
        f"error: --cluster-file needs the scheduler, which is not part of the plugin: no {PROGRAM} on PATH",
        [
            f"it comes with the engine: {describe_extra_installation('local')}",
            "or leave out --cluster-file, to use a running cluster",
        ],
    )
