"""The commands `export` and `import`: write decisions from a database to a file, and back to any database.

Owns: their command line, progress, how many lines are stored at once. Does not own: formats (`json_lines`, `parquet`),
files (`atomic_files`), the database (`store`).

Invariant: an interrupted import can be started again: decisions that are stored already are skipped.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from herodotus_endpoint import options
from herodotus_endpoint.exchange import atomic_files
from herodotus_endpoint.exchange.atomic_files import FileRefusedError
from herodotus_endpoint.exchange.json_lines import ImportLine, LineError, LineReader, LineWriter
from herodotus_endpoint.extras import require_extra
from herodotus_endpoint.store import BatchError, NodeRowsMissingError, Store, database_from_url
from herodotus_endpoint.store.export import ExportedDecision, ExportSelection, export_decisions
from herodotus_endpoint.store.sqlite import Sqlite
from herodotus_record.units import format_timestamp, pluralize

COMMANDS: Final = ("export", "import")
MAX_BATCH_LINES: Final = 200  # lines per batch, which rewrites the histories of its hours: 30 ms with 5,000 nodes
MAX_BATCH_BYTES: Final = 8 << 20  # of frames per batch
PROGRESS_S: Final = 0.5


def add_parsers(commands: Any) -> Sequence[argparse.ArgumentParser]:
    """Add the parsers of the commands `export` and `import` to `commands` and return both.

    `commands` is the object that `ArgumentParser.add_subparsers` returns.
    """
    out = commands.add_parser(
        "export", help="write decisions to a file", description="Nothing is masked: every namespace, every name."
    )
    out.add_argument(
        "--since",
        type=options.parse_time,
        default=0,
        metavar="TIME",
        help="started then or later: 7d, 2026-03-01T12:00:00Z",
    )
    out.add_argument(
        "--until", type=options.parse_time, metavar="TIME", help="started before: 1h, 2026-03-02T00:00:00Z"
    )
    out.add_argument("--namespace", default="", metavar="NAME", help="only decisions of this namespace")
    out.add_argument("--cluster", default="", metavar="UID", help="only decisions of this cluster")
    out.add_argument(
        "--format",
        choices=("jsonl", "parquet"),
        default="jsonl",
        help="jsonl: whole records, which `import` reads; parquet: tables for analysis, which it does not read",
    )
    out.add_argument(
        "-o",
        "--output",
        type=_output,
        metavar="FILE",
        help="default, and -: standard output; for parquet a directory, needed",
    )
    into = commands.add_parser("import", help="store the decisions of a file that `export` wrote as jsonl")
    into.add_argument("file", type=Path, metavar="FILE", help="- for standard input")
    return out, into


def _output(text: str) -> Path | None:
    """Return the value of `--output` as a path, or None if it is `-`, which means standard output."""
    return None if text == "-" else Path(text)


def run(url: str, arguments: argparse.Namespace) -> None:
    """Run `export` or `import`, as `arguments.command` says, on the database at `url`.

    Raises FileRefusedError, MissingExtraError, StoreError or StoreUnavailableError if the command fails.
    """
    database = database_from_url(url)
    if arguments.command == "export" and isinstance(database, Sqlite):
        database.require_file()
    store = Store(url)
    try:
        if arguments.command == "export":
            _export(store, arguments)
        else:
            _import(store, arguments.file)
    finally:
        store.close()


def _export(store: Store, arguments: argparse.Namespace) -> None:
    selection = ExportSelection(arguments.since, arguments.until, arguments.namespace, arguments.cluster)
    progress = _Progress("exported")
    decisions = _with_progress(export_decisions(store, selection), progress)
    try:
        if arguments.format == "parquet":
            _write_parquet(decisions, arguments.output)
        else:
            writing = LineWriter()
            with atomic_files.create_file(arguments.output) as file:
                for each in decisions:
                    file.write(writing.line(each))
    except BrokenPipeError as e:
        raise FileRefusedError("standard output was closed") from e
    progress.done()


def _write_parquet(decisions: Iterator[ExportedDecision], to: Path | None) -> None:
    if to is None:
        raise FileRefusedError("--format parquet needs -o DIRECTORY: it writes more than one file")
    require_extra("parquet", "--format parquet")
    from herodotus_endpoint.exchange import parquet

    with atomic_files.create_directory(to) as directory:
        parquet.write(decisions, directory)


def _import(store: Store, file: Path) -> None:
    progress = _Progress("imported")
    read = new = 0
    with atomic_files.open_input(file) as opened:
        try:
            for batch in _batches(LineReader().lines(opened)):
                for lines, stored in _store_batch(store, batch):
                    read, new = read + lines, new + stored
                    progress.show(read)
        except LineError as e:
            stays = f"{new} decisions of the lines before it were imported and stay" if new else "nothing was imported"
            raise FileRefusedError(f"cannot import {file}: {e}; {stays}") from e
    progress.end()
    print(f"{pluralize(new, 'decision')} imported, {read - new} stored already")


def _batches(lines: Iterator[ImportLine]) -> Iterator[list[ImportLine]]:
    """Group the lines of an import file into batches, which are limited by number of lines and by bytes.

    If reading a line raises LineError, the batch of the lines before it is yielded first, and then LineError is raised.
    """
    batch, size = list[ImportLine](), 0
    try:
        for line in lines:
            batch.append(line)
            size += line.size
            if len(batch) >= MAX_BATCH_LINES or size >= MAX_BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except LineError:
        yield batch
        raise
    yield batch


def _store_batch(store: Store, batch: Sequence[ImportLine]) -> Iterator[tuple[int, int]]:
    """Store a batch of lines and yield pairs: the number of lines stored, and the number of new decisions among them.

    If the batch cannot be stored, its lines are stored one by one. The first line that fails raises LineError with its
    number.
    """
    try:
        receipt = store.writer.store((frame for line in batch for frame in line.frames), imported=True)
    except (BatchError, NodeRowsMissingError) as e:
        if len(batch) == 1:
            raise LineError(f"line {batch[0].number}: {e}") from e
    else:
        yield len(batch), receipt.decisions
        return
    for line in batch:
        yield from _store_batch(store, [line])


def _with_progress(decisions: Iterator[ExportedDecision], progress: _Progress) -> Iterator[ExportedDecision]:
    for number, each in enumerate(decisions, 1):
        yield each
        progress.show(number, each)


class _Progress:
    """The progress output of a command on standard error.

    If standard error is a terminal, a line shows the progress while the command runs. `done` prints the total.
    """

    def __init__(self, done: str) -> None:
        self._done = done
        self._number = 0
        self._next_s = time.monotonic() + PROGRESS_S if sys.stderr.isatty() else None

    def show(self, number: int, decision: ExportedDecision | None = None) -> None:
        """Show `number`, the decisions processed so far, and the start time of the latest one, `decision`.

        The line is updated at most every PROGRESS_S.
        """
        self._number = number
        if self._next_s is not None and time.monotonic() >= self._next_s:
            upto = f", up to {format_timestamp(decision.record.decision.times.started_us)[:19]}Z" if decision else ""
            print(f"\r{number} decisions {self._done}{upto} ", end="", file=sys.stderr, flush=True)
            self._next_s = time.monotonic() + PROGRESS_S

    def end(self) -> None:
        """Remove the progress line from the terminal."""
        if self._next_s is not None:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Remove the progress line and print the total number of decisions."""
        self.end()
        print(f"{pluralize(self._number, 'decision')} {self._done}", file=sys.stderr)
