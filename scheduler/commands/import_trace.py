"""The command `python -m scheduler import-trace`: its options and output.

Owns: the command. Does not own: the formats and the trace (`scheduler.offline.traces`), the simulation of a trace
(`scheduler.offline.simulate`, which `kubectl herodotus simulate` runs).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scheduler.commands.process import StartupError
from scheduler.offline.traces.document import write_trace
from scheduler.offline.traces.importing import IMPORTERS, MISSING


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `import-trace` to its parser."""
    command.description = (
        "Write a trace for kubectl herodotus simulate from two CSV files, which may be gzipped: a list of nodes and a"
        " list of pods. docs/offline.md has the columns."
    )
    command.add_argument(
        "format", choices=sorted(IMPORTERS), help="openb: Alibaba's GPU trace of 2023; csv: our own columns"
    )
    command.add_argument("nodes", type=Path, metavar="NODES", help="the list of nodes")
    command.add_argument("pods", type=Path, metavar="PODS", help="the list of pods")
    command.add_argument("file", type=Path, metavar="FILE", help="the trace, a new file")


def run_import(arguments: argparse.Namespace) -> int:
    """Run the command `import-trace`, and return the exit code 0.

    Raises TraceError, and StartupError if the trace cannot be written.
    """
    events = IMPORTERS[arguments.format](arguments.nodes, arguments.pods)
    try:
        number = write_trace(arguments.file, events, MISSING[arguments.format])
    except OSError as e:
        raise StartupError(f"{arguments.file}: {e.strerror or e}") from e
    print(f"{arguments.file}: {number} events, {arguments.file.stat().st_size} bytes", file=sys.stderr)
    return 0
