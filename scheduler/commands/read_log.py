"""The command `python -m scheduler read-log`: its options, its progress and its final summary.

Owns: the command. Does not own: reading the log (`offline.read_log.reader`), delivery (`offline.read_log.delivery`),
the command line around it (`main`).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta, timezone
from pathlib import Path
from typing import Final

from herodotus_answers.decision import build_decision_document
from herodotus_record.escaping import escape
from herodotus_record.model import NodeTable
from scheduler.commands.process import StartupError
from scheduler.offline.read_log.attempts import GRACE_US
from scheduler.offline.read_log.delivery import PATIENCE_S, Delivery
from scheduler.offline.read_log.files import POLL_S, followed, lines_of
from scheduler.offline.read_log.reader import AttemptFrames, LogReader
from scheduler.recorder import endpoint
from scheduler.recorder.shipper import NotDeliveredError, Shipper

_PROGRESS_EVERY_S: Final = 1.0
_LOOK_EVERY: Final = 4096  # lines between looks at the clock


class ReadLogError(StartupError):
    """The log cannot be read, or its records cannot be delivered. The message is one line."""


def add_options(command: argparse.ArgumentParser, url: Callable[[str], str]) -> None:
    """Add the arguments of `read-log` to its parser. `url` parses a URL of the command line."""
    command.description = (
        "Read kube-scheduler's log, text or JSON, and tell its decisions: as JSON lines, or to a decisions service."
        " What the log does not say stays unknown."
    )
    command.add_argument("file", metavar="FILE", help="the log; - for standard input (kubectl logs ... | ...)")
    command.add_argument("-f", "--follow", action="store_true", help="go on with what is appended, also after rotation")
    command.add_argument("--cluster", default="", metavar="UID", help="UID of the cluster's namespace kube-system")
    command.add_argument(
        "--utc-offset",
        type=_offset,
        default=timezone.utc,
        metavar="+HH:MM",
        help="zone of the times in the log's text form, which does not say it (default +00:00)",
    )
    command.add_argument("--endpoint", type=url, metavar="URL", help="decisions service to deliver to; needs --cluster")
    endpoint.add_options(command)


def read_log(arguments: argparse.Namespace, stop_on_signals: Callable[[], threading.Event]) -> int:
    """Run the command `read-log`. Return 0 if the log was read or following was stopped.

    `stop_on_signals` returns the event that stops following. Raise ReadLogError if the log cannot be read or delivered.
    """
    service = endpoint.endpoint_from_arguments(arguments)
    if service is not None and not arguments.cluster:
        raise ReadLogError("--endpoint needs --cluster: kubectl get namespace kube-system -o jsonpath={.metadata.uid}")
    reader = LogReader(arguments.cluster, arguments.utc_offset)
    follows = arguments.follow and arguments.file != "-"
    sleep = stop_on_signals().wait if follows else time.sleep
    patience_s = math.inf if follows else PATIENCE_S  # a file that is followed is not read again
    try:
        lines = _lines(arguments, sleep)
        lines = _report_progress(lines, reader) if sys.stderr.isatty() else lines
        if service is None:
            _print(reader, lines)
        else:
            delivery = Delivery(reader.nodes, lambda directory: Shipper(directory, service), patience_s, sleep)
            _deliver(reader, lines, delivery)
    except OSError as e:
        if isinstance(e, BrokenPipeError):
            raise
        raise ReadLogError(f"{e.filename or arguments.file}: {e.strerror or e}") from e
    except NotDeliveredError as e:
        raise ReadLogError(f"not delivered: {e}; what is read again is not stored twice") from e
    finally:
        print(escape(reader.format_summary()), file=sys.stderr)
    return 0


def _lines(arguments: argparse.Namespace, sleep: Callable[[float], object]) -> Iterator[str | None]:
    if arguments.file == "-":
        yield from lines_of(sys.stdin.buffer)
    elif arguments.follow:
        yield from followed(Path(arguments.file), sleep)
    else:
        with open(arguments.file, "rb") as file:
            yield from lines_of(file)


def _reads(reader: LogReader, lines: Iterator[str | None]) -> Iterator[AttemptFrames | None]:
    """Feed the lines to the reader and yield the records that it returns.

    Also yield None in each pause of a log that is followed.
    """
    quiet_s = 0.0
    for line in lines:
        if line is None:
            quiet_s += POLL_S
            if quiet_s >= GRACE_US / 1e6:
                yield from reader.settled()
            yield None
        else:
            quiet_s = 0.0
            yield from reader.feed(line)
    yield from reader.end()


def _print(reader: LogReader, lines: Iterator[str | None]) -> None:
    table = NodeTable()
    for read in _reads(reader, lines):
        if read is None:
            sys.stdout.flush()
            continue
        if read.rows is not None:
            table.apply(read.rows)
        outcomes = (read.outcome,) if read.outcome else ()
        print(json.dumps(build_decision_document(read.decision, outcomes, table), separators=(",", ":")))


def _deliver(reader: LogReader, lines: Iterator[str | None], delivery: Delivery) -> None:
    with delivery:
        for read in _reads(reader, lines):
            if read is None:
                delivery.deliver()
            else:
                delivery.put(read)
    if delivery.refused:
        raise ReadLogError(f"the decisions service refuses {delivery.refused} records")


def _report_progress(lines: Iterator[str | None], reader: LogReader) -> Iterator[str | None]:
    """Yield the lines unchanged, and print the progress to the terminal once a second."""
    told_s = time.monotonic()
    for line in lines:
        if reader.lines.counts.lines % _LOOK_EVERY == 0 and time.monotonic() - told_s >= _PROGRESS_EVERY_S:
            told_s = time.monotonic()
            print(f"\r{reader.lines.counts.lines} lines, {reader.decisions} decisions", end="", file=sys.stderr)
        yield line
    print("\r\033[K", end="", file=sys.stderr)


def _offset(text: str) -> timezone:
    match = re.fullmatch(r"([+-])(\d\d):(\d\d)", text)
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset such as +02:00")
    size = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-size if match[1] == "-" else size)
