"""Replays one trace with several variants of the scheduler, and returns their figures side by side.

Owns: which runs there are, and the document. Does not own: a run (`simulation`), its figures (`metrics`), its process
(`processes`), how variants and files are chosen on a command line.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from herodotus_answers.simulation import (
    SimulatedDifference,
    SimulatedRun,
    SimulatedVariant,
    Simulation,
    build_simulation,
)
from herodotus_answers.simulation_questions import SimulationQuestion, TraceQuestion
from herodotus_record.typed_decoding import convert
from scheduler.config import Configuration, Registry
from scheduler.config.rules import resolve_rules
from scheduler.engine.objects.resource_api import ResourceSlice
from scheduler.offline.simulate.finished_runs import FinishedRuns
from scheduler.offline.simulate.metrics import RunMetrics, SimulationFigures
from scheduler.offline.simulate.moments import NODE_CONTROLLERS
from scheduler.offline.simulate.prices import Prices, read_prices
from scheduler.offline.simulate.processes import Share, run_parallel
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces.document import (
    Event,
    NodeAdded,
    NodeRemoved,
    ObjectSet,
    PodArrived,
    TraceContent,
    read_trace,
)

PERCENT: Final = 100
MAX_DIFFERENCES: Final = 20  # pods on other nodes that a document names: the first, and the first without a node

Report = Callable[[int, int], None]


class Variant(NamedTuple):
    """A scheduler that a trace is replayed with. `file` is that of its configuration, or ""."""

    name: str
    file: str
    config: Configuration


class RunKey(NamedTuple):
    """A run of a question: the name of its variant, and its seed."""

    variant: str
    seed: int


class RunResult(msgspec.Struct, frozen=True):
    """The figures of one run, and by namespace/name the last node of each pod, and when the pod got it."""

    figures: SimulationFigures
    node_of: dict[str, str]
    placed_s: dict[str, float]


def simulate_variants(
    question: SimulationQuestion, variants: Sequence[Variant], registry: Registry, report: Report
) -> Simulation:
    """Replay the trace of a question with each variant and seed, and return the figures.

    Runs that the question's file has are not made again. `report` gets the percentage of the work that is done, and
    100. Raises TraceError, SimulationError, ConfigError, ProcessEndedError and ResumeError.
    """
    trace, prices = read_events(question), read_question_prices(question)
    seeds = range(question.seed, question.seed + question.seeds)

    configurations = {variant.name: variant.config for variant in variants}

    def run(task: RunKey, share: Share) -> RunResult:
        return simulate(trace.events, configurations[task.variant], registry, task.seed, prices, share)

    tasks = [RunKey(variant.name, seed) for variant in variants for seed in seeds]
    with FinishedRuns.open(question, configurations, RunKey, RunResult) as finished:
        waiting = [task for task in tasks if task not in finished.results]

        def report_share(share: float) -> None:
            report(int(PERCENT * (1 - (1 - share) * len(waiting) / len(tasks))), PERCENT)

        run_parallel(run, waiting, question.processes, report_share, finished.keep)
    runs = [[finished.results[RunKey(variant.name, seed)] for seed in seeds] for variant in variants]
    return build_simulation(
        ", ".join(question.traces),
        trace.missing,
        question.removed_nodes,
        [_build_variant(variant, of, runs[0], seeds) for variant, of in zip(variants, runs, strict=True)],
        _list_differences([of[0] for of in runs]),
    )


def read_events(question: TraceQuestion) -> TraceContent:
    """Return the trace of a question without the nodes that it leaves out.

    Raises TraceError if it is damaged, and SimulationError if no pod arrives or no node is left.
    """
    trace = read_trace([Path(each) for each in question.traces])
    events = [each for each in trace.events if not _is_removed(each, question.removed_nodes)]
    if not all(any(isinstance(each, kind) for each in events) for kind in (PodArrived, NodeAdded)):
        raise SimulationError(f"{', '.join(question.traces)}: no pod arrives, or there is no node")
    return TraceContent(events, trace.missing)


def _list_differences(runs: Sequence[RunResult]) -> list[SimulatedDifference]:
    """Return the first pods whose nodes differ between runs of the variants, in the order in which they got one.

    Further pods are listed if one of the variants left them without a node.
    """
    placed_s = {name: min(run.placed_s.get(name, math.inf) for run in runs) for run in runs for name in run.placed_s}
    nodes = {name: [run.node_of.get(name) for run in runs] for name in sorted(placed_s, key=lambda n: (placed_s[n], n))}
    differing = [name for name, of in nodes.items() if len({*of}) > 1]
    first = dict.fromkeys(differing[:MAX_DIFFERENCES])
    without_node = [name for name in differing[MAX_DIFFERENCES:] if None in nodes[name]]
    return [
        {"pod": name, "atS": placed_s[name], "nodes": nodes[name]} for name in [*first, *without_node[:MAX_DIFFERENCES]]
    ]


def read_question_prices(question: TraceQuestion) -> Prices | None:
    """Return the prices of a question, or None if it has none. Raises TraceError."""
    return read_prices(Path(question.prices)) if question.prices else None


def simulate(
    events: Sequence[Event],
    config: Configuration,
    registry: Registry,
    seed: int,
    prices: Prices | None,
    share: Share,
) -> RunResult:
    """Replay the events once. `share` gets how much is done, 0 to 1. Raises SimulationError and ConfigError."""
    metrics, end_s = RunMetrics.from_events(events, prices), max(each.at_s for each in events)
    simulation = TraceSimulation(config, registry, seed)
    simulation.run(events, metrics, lambda now_s: share(min(1.0, now_s / end_s) if end_s else 1.0))
    return RunResult(metrics.figures(), metrics.node_of, metrics.placed_s)


def _is_removed(event: Event, pattern: str) -> bool:
    """Return whether an event is about a node that is left out, or a pod or devices that such a node alone had."""
    match event:
        case NodeAdded() | NodeRemoved():
            node = event.name
        case PodArrived() if event.owner_kind in NODE_CONTROLLERS:
            node = event.node
        case ObjectSet(object=ResourceSlice() as devices):
            node = devices.spec.node_name or ""
        case _:
            return False
    return node != "" and fnmatch.fnmatchcase(node, pattern)


def _build_variant(
    variant: Variant, runs: Sequence[RunResult], first: Sequence[RunResult], seeds: Sequence[int]
) -> SimulatedVariant:
    return {
        "name": variant.name,
        "configuration": variant.file,
        "kubernetesVersion": str(resolve_rules(variant.config).version),
        "runs": [_build_run(seed, run, of_first) for seed, run, of_first in zip(seeds, runs, first, strict=True)],
    }


def _build_run(seed: int, run: RunResult, first: RunResult) -> SimulatedRun:
    """Return the figures of a run, as the document declares them."""
    names = first.node_of.keys() | run.node_of.keys()
    other_node = sum(first.node_of.get(name) != run.node_of.get(name) for name in names)
    figures: dict[str, Any] = msgspec.to_builtins(run.figures)
    return convert({"seed": seed, "otherNode": other_node, **figures}, SimulatedRun)
