"""The command `python -m scheduler import-trace`: its options and output.

Owns: the command. Does not own: the formats and the trace (`scheduler.offline.traces`), the simulation of a trace
(`scheduler.offline.simulate`, which `kubectl herodotus simulate` runs).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from herodotus_record.escaping import escape
from scheduler.commands.process import StartupError
from scheduler.offline.traces.document import write_trace
from scheduler.offline.traces.formats import FORMATS, import_trace


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `import-trace` to its parser."""
    command.description = (
        "Write a trace for kubectl herodotus simulate from files of another format. docs/offline.md has their columns."
    )
    formats = "; ".join(f"{name}: {each.title}, from {' '.join(each.files)}" for name, each in FORMATS.items())
    command.add_argument("format", choices=sorted(FORMATS), help=formats)
    command.add_argument("inputs", type=Path, metavar="INPUT", nargs="+", help="the files of the format, in its order")
    command.add_argument("file", type=Path, metavar="FILE", help="the trace, a new file")


def run_import(arguments: argparse.Namespace) -> int:
    """Run the command `import-trace`, and return the exit code 0.

    Raises TraceError, and StartupError if the trace cannot be written.
    """
    if arguments.file.exists():
        raise StartupError(f"{arguments.file}: there is such a file; the last argument is the trace, a new file")
    trace = import_trace(arguments.format, arguments.inputs)
    try:
        number = write_trace(arguments.file, trace.events, trace.missing)
    except OSError as e:
        raise StartupError(f"{arguments.file}: {e.strerror or e}") from e
    for sentence in trace.missing:
        print(f"note: {escape(sentence)}", file=sys.stderr)
    print(f"{arguments.file}: {number} events, {arguments.file.stat().st_size} bytes", file=sys.stderr)
    return 0
