"""Reviews without a cluster: the scheduler's own `evaluate`, run as a program beside us.

Owns: finding it, its command line, what its failures are called. Does not own: any decision. The plugin has no
scheduler in it: that comes with the servers' package.
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

PROGRAM = "herodotus-scheduler"


def review(arguments: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """The document that `evaluate -o review` prints. What it notes goes to stderr."""
    command = [*_program(environ), "evaluate", "-o", "review", *arguments]
    try:
        run = subprocess.run(command, capture_output=True, check=False, timeout=timeout_s or None)
    except subprocess.TimeoutExpired:
        raise CliError(f"error: nothing within {timeout_s:g}s", ["wait longer: --request-timeout"]) from None
    except OSError as e:
        raise CliError(f"error: cannot run {command[0]}: {e.strerror}") from None
    said = run.stderr.decode("utf-8", "replace").strip()
    if run.returncode:
        raise CliError(said.splitlines()[-1] if said else f"error: {command[0]} failed without a word")
    if said:
        print_to_stderr(*said.splitlines())
    document: dict[str, Any] = json.loads(run.stdout)
    return document


def _program(environ: Mapping[str, str]) -> list[str]:
    """The one on PATH, else the one that is installed beside us."""
    for folder in os.get_exec_path(dict(environ)):
        if os.access(os.path.join(folder, PROGRAM), os.X_OK):
            return [os.path.join(folder, PROGRAM)]
    if find_spec("scheduler") is not None and find_spec("scheduler.offline.evaluate") is not None:
        return [sys.executable, "-m", "scheduler"]
    raise CliError(
        f"error: --cluster needs the scheduler, which is not part of the plugin: no {PROGRAM} on PATH",
        ["it comes with the servers' package: pip install herodotus-servers", "or leave out --cluster: ask a cluster"],
    )
