"""The commands `python -m scheduler import-trace` and `simulate`: their options, progress and output.

Owns: the commands. Does not own: the trace (`scheduler.offline.traces`), the run and its figures
(`scheduler.offline.simulate`).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_record.escaping import escape
from herodotus_record.model import API_VERSION
from herodotus_record.units import pluralize
from scheduler.commands.process import StartupError
from scheduler.config import Configuration, Registry
from scheduler.offline.simulate.metrics import RunMetrics, SimulationFigures
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces.document import (
    Event,
    NodeAdded,
    NodeRemoved,
    PodArrived,
    read_header,
    read_trace,
    write_trace,
)
from scheduler.offline.traces.importing import IMPORTERS, MISSING

Json = dict[str, Any]

_PROGRESS_EVERY_S: Final = 1.0
DEFAULTS: Final = "defaults"
MAX_SEEDS: Final = 100
# The rows of the table: title, value of a run, format of a number.
_ROWS: Final[tuple[tuple[str, Callable[[SimulationFigures], float], str], ...]] = (
    ("pods arrived", lambda f: f.arrived, ".0f"),
    ("pods placed", lambda f: f.placed, ".0f"),
    ("pods never placed", lambda f: f.never_placed, ".0f"),
    ("pods preempted", lambda f: f.preempted, ".0f"),
    ("attempts", lambda f: f.attempts, ".0f"),
    ("seconds to place, median", lambda f: f.waited_p50_s, ".1f"),
    ("seconds to place, 99th percentile", lambda f: f.waited_p99_s, ".1f"),
    ("most pods waiting at once", lambda f: f.most_waiting, ".0f"),
    ("nodes with pods, mean", lambda f: f.nodes_in_use, ".1f"),
    ("nodes with pods, most", lambda f: f.most_nodes_in_use, ".0f"),
)


def add_import_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `import-trace` to its parser."""
    command.description = (
        "Write a trace for the command simulate from two CSV files, which may be gzipped: a list of nodes and a list of"
        " pods. docs/offline.md has the columns."
    )
    command.add_argument(
        "format", choices=sorted(IMPORTERS), help="openb: Alibaba's GPU trace of 2023; csv: our own columns"
    )
    command.add_argument("nodes", type=Path, metavar="NODES", help="the list of nodes")
    command.add_argument("pods", type=Path, metavar="PODS", help="the list of pods")
    command.add_argument("file", type=Path, metavar="FILE", help="the trace, a new file")


def add_simulate_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `simulate` to its parser, except those of the rules."""
    command.description = (
        "Replay a trace with one or more configurations, on virtual time: arrivals, the scheduling queue with its"
        " backoff, preemption, and the ends of pods. Prints figures for each configuration."
    )
    command.add_argument("trace", type=Path, metavar="TRACE", help="the trace, as import-trace writes it")
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="KubeSchedulerConfiguration (v1); repeat it to compare several (default: one profile with the defaults)",
    )
    command.add_argument(
        "--remove-nodes", metavar="PATTERN", default="", help="leave out the nodes whose names match, as a shell does"
    )
    command.add_argument("--seed", type=int, metavar="N", default=0, help="draws between equal nodes (default 0)")
    command.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        default=1,
        help="runs of each configuration, with seeds from --seed on (default 1)",
    )
    command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")


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


def run_simulate(
    arguments: argparse.Namespace, variants: Sequence[tuple[str, Configuration]], registry: Registry
) -> int:
    """Run the command `simulate`: replay the trace with each variant and print the figures. Return the exit code 0.

    `variants` are names with configurations. Raises TraceError, SimulationError, StartupError and ConfigError.
    """
    if not 1 <= arguments.seeds <= MAX_SEEDS:
        raise StartupError(f"--seeds: expected 1 to {MAX_SEEDS}, got {arguments.seeds}")
    missing = read_header(arguments.trace).missing
    events = [each for each in read_trace(arguments.trace) if not _is_removed(each, arguments.remove_nodes)]
    arrivals = [each for each in events if isinstance(each, PodArrived)]
    if not arrivals or not any(isinstance(each, NodeAdded) for each in events):
        raise StartupError(f"{arguments.trace}: no pod arrives, or there is no node")
    found: list[tuple[str, list[RunMetrics]]] = []
    for name, config in variants:
        runs = []
        for seed in range(arguments.seed, arguments.seed + arguments.seeds):
            metrics = RunMetrics.from_events(events)
            report = _progress(f"{name}, seed {seed}", max(each.at_s for each in events))
            TraceSimulation(config, registry, seed).run(events, metrics, report)
            runs.append(metrics)
        found.append((name, runs))
    answer = _build_document(arguments, missing, found)
    print(json.dumps(answer, indent=2) if arguments.output == "json" else _format(arguments, missing, found))
    return 0


def _is_removed(event: Event, pattern: str) -> bool:
    return bool(pattern) and isinstance(event, NodeAdded | NodeRemoved) and fnmatch.fnmatchcase(event.name, pattern)


def _build_document(
    arguments: argparse.Namespace, missing: Sequence[str], found: Sequence[tuple[str, Sequence[RunMetrics]]]
) -> Json:
    """Return the figures of all runs as a JSON document of kind Simulation."""
    first = found[0][1]
    return {
        "apiVersion": API_VERSION,
        "kind": "Simulation",
        "trace": str(arguments.trace),
        "missing": list(missing),
        "removedNodes": arguments.remove_nodes,
        "variants": [
            {
                "name": name,
                "runs": [
                    {
                        "seed": arguments.seed + i,
                        "otherNode": _count_elsewhere(first[i], run),
                        **msgspec.to_builtins(run.figures()),
                    }
                    for i, run in enumerate(runs)
                ],
            }
            for name, runs in found
        ],
    }


def _count_elsewhere(first: RunMetrics, run: RunMetrics) -> int:
    """Return the number of pods whose last node is another one, or none, in one of the two runs."""
    names = first.node_of.keys() | run.node_of.keys()
    return sum(first.node_of.get(name) != run.node_of.get(name) for name in names)


def _format(
    arguments: argparse.Namespace, missing: Sequence[str], found: Sequence[tuple[str, Sequence[RunMetrics]]]
) -> str:
    """Return a table with a row for each figure and a column for each variant: the mean, and the range over seeds."""
    columns = [[run.figures() for run in runs] for _, runs in found]
    rows = [("", *(escape(name) for name, _ in found))]
    rows += [(title, *(_summarize([read(f) for f in runs], form) for runs in columns)) for title, read, form in _ROWS]
    for name in columns[0][0].resources:
        for title, field in (
            ("requested, mean", "mean"),
            ("requested, most", "peak"),
            ("largest free, mean", "largest_free"),
        ):
            values = [[100 * getattr(f.resources[name], field) for f in runs] for runs in columns]
            rows.append((f"{escape(name)} {title}, %", *(_summarize(each, ".2f") for each in values)))
    if len(found) > 1:
        first = found[0][1]
        elsewhere = ([_count_elsewhere(first[i], run) for i, run in enumerate(runs)] for _, runs in found)
        rows.append(("pods on another node than in the first", *(_summarize(each, ".0f") for each in elsewhere)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    runs = pluralize(arguments.seeds, "run")
    head = f"{escape(str(arguments.trace))}: {runs} of each configuration" + (
        ", mean (lowest to highest)" if arguments.seeds > 1 else ""
    )
    return "\n".join([head, *(f"note: {escape(each)}" for each in missing), "", *map(str.rstrip, lines)])


def _summarize(values: Sequence[float], form: str) -> str:
    mean = f"{sum(values) / len(values):{form}}"
    if len(values) == 1 or min(values) == max(values):
        return mean
    return f"{mean} ({min(values):{form}} to {max(values):{form}})"


def _progress(what: str, end_s: float) -> Callable[[float], None]:
    """Return a callback that takes the virtual time and prints the progress to a terminal once a second."""
    next_at = time.monotonic() + _PROGRESS_EVERY_S

    def report(now_s: float) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at and sys.stderr.isatty():
            next_at = time.monotonic() + _PROGRESS_EVERY_S
            share = min(1.0, now_s / end_s) if end_s else 1.0
            print(f"\r{escape(what)}: {share:.0%} of the trace", end="\r", file=sys.stderr, flush=True)

    return report
