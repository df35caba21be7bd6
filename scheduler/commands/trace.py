"""The options `--trace` of the commands that watch a cluster (`run`, `observe`), and the recorder that they start.

Owns: the options. Does not own: recording (`scheduler.offline.traces.recording`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from herodotus_kube.watch import Sink
from herodotus_record import klog
from herodotus_serving.flag_types import ByteSize
from scheduler.commands.process import StartupError

MIN_FILE_BYTES: Final = 1 << 16
FILE_BYTES: Final = 1 << 26
FILES: Final = 8
MAX_FILES: Final = 1000

Tee = Callable[[Sink], Sink]


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options for recording a trace to the parser of a command."""
    trace = command.add_argument_group("trace")
    trace.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="record arrivals, bindings and ends of pods, and nodes, for kubectl herodotus simulate (docs/offline.md);"
        " labels of --omit-labels are left out",
    )
    trace.add_argument(
        "--trace-size",
        type=ByteSize(MIN_FILE_BYTES, "64Mi"),
        default=FILE_BYTES,
        metavar="SIZE",
        help="size at which a file of the trace is renamed to FILE.1 and a new one begun (default 64Mi)",
    )
    trace.add_argument(
        "--trace-files",
        type=_parse_number,
        default=FILES,
        metavar="N",
        help=f"number of files that are kept (default {FILES})",
    )
    trace.add_argument(
        "--trace-pseudonyms",
        action="store_true",
        help="replace names, labels and images in the trace by pseudonyms, with a key that is not kept",
    )


@contextmanager
def record_trace(arguments: argparse.Namespace) -> Iterator[Tee]:
    """Context manager that yields a function from a sink of watch messages to one that also records them.

    Without --trace it returns the sink itself. Raise StartupError if the trace cannot be written.
    """
    if arguments.trace is None:
        if arguments.trace_pseudonyms:
            raise StartupError("--trace-pseudonyms goes with --trace")
        yield lambda sink: sink
        return
    from scheduler.offline.traces.recording import TraceFiles, TraceRecorder
    from scheduler.offline.traces.redaction import Pseudonyms

    files = TraceFiles(arguments.trace, arguments.trace_size, arguments.trace_files)
    try:
        recorder = TraceRecorder(files, arguments.omit_labels, Pseudonyms() if arguments.trace_pseudonyms else None)
    except OSError as e:
        raise StartupError(f"--trace {arguments.trace}: {e.strerror or e}") from e
    klog.info(0, "Recording a trace", file=str(arguments.trace))
    try:
        yield recorder.tee
    finally:
        recorder.close()


def _parse_number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_FILES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_FILES}")
    return int(text)
