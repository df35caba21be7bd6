"""Finds a configuration that is better for an objective on one half of a trace, and measures its gain on the other.

Owns: which runs a tuning needs, the gain and its interval. Does not own: which values are tried (`search`), the halves
and their samples (`trace_parts`), a run (`comparison`), the document's types (`herodotus_answers.tuning`).

The gain is measured on arrivals that the search did not see. Its interval is a bootstrap: both configurations replay
random samples of these arrivals, each with a seed of its own, and the standard deviation of their differences gives the
interval by Student's t distribution. So the interval has the chance of arrivals and of choices between equal nodes. It
is around the gain and around the mean of the samples: a gain that the arrivals show only as they were, and not in
samples of them, would be claimed otherwise (in one of ten searches for a shuffled objective).

Invariant: what is reported as a gain has an interval above 0, and keeps each limit on both halves.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

from herodotus_answers.simulation_questions import TuningQuestion
from herodotus_answers.tuning import KIND, SimulationTuning, TuningGain, TuningPart, format_headline
from herodotus_record.model import API_VERSION
from scheduler.config import Configuration, Registry
from scheduler.config.document import parse_document
from scheduler.config.rules import resolve_rules
from scheduler.engine.formulas import beta
from scheduler.engine.objects.pod import PodInfo
from scheduler.offline.simulate.comparison import PERCENT, Report, read_events, read_question_prices, simulate
from scheduler.offline.simulate.finished_runs import FinishedRuns
from scheduler.offline.simulate.metrics import SimulationFigures, list_resources
from scheduler.offline.simulate.objectives import NEVER_PLACED, FigureObjective, Limit, compute_mean
from scheduler.offline.simulate.processes import Share, run_parallel
from scheduler.offline.simulate.score_settings import ScoreSettings
from scheduler.offline.simulate.search import Trial, search_values
from scheduler.offline.simulate.trace_parts import draw_sample, find_median_arrival, split_trace
from scheduler.offline.traces.document import Event, PodArrived

CONFIDENCE: Final = 0.95
_BROKEN: Final = 1e12  # the loss of values that break a limit: more than any figure
_STEPS: Final = 60  # of the bisection for the quantile


class Task(NamedTuple):
    """A run of a tuning: a configuration as YAML, a sample and a seed.

    Sample None is the half for the search, 0 the other half, and another number a random sample of that.
    """

    text: str
    sample: int | None
    seed: int


Measure = Callable[[Sequence[Task]], Sequence[SimulationFigures]]


class TuningResult(NamedTuple):
    """The values that were found, the figure by both configurations on both halves, and the gain on the other half.

    `checked` and `gain` are None if no values were better than the present ones.
    """

    values: Trial
    tried: int
    is_complete: bool
    trained: tuple[float, float]
    checked: tuple[float, float] | None
    gain: TuningGain | None
    limits: tuple[Limit, ...]
    broken: tuple[Limit, ...]

    @property
    def has_gain(self) -> bool:
        """Whether the whole interval is a gain, and no limit is broken."""
        return self.gain is not None and self.gain["low"] > 0 and not self.broken


def tune_trace(
    question: TuningQuestion, text: str, parse: Callable[[str], Configuration], registry: Registry, report: Report
) -> SimulationTuning:
    """Return the configuration that is best for an objective on a trace, with its gain on the unseen half.

    `text` is the present configuration as YAML, and `parse` returns a configuration from YAML. Runs that the
    question's file has are not made again. `report` gets the percentage of the work that is done at most, and 100.
    Raises TraceError, SimulationError, ConfigError, ObjectiveError, ProcessEndedError and ResumeError.
    """
    parse = cache(parse)
    objective = FigureObjective.parse(question.figure, maximize=question.maximize)
    limits = tuple(map(Limit.parse, question.limits))
    present, trace = parse(text), read_events(question)
    prices = read_question_prices(question)
    pods = [PodInfo(event.pod) for event in trace.events if isinstance(event, PodArrived)]
    resources = list_resources({name for pod in pods for name in pod.requests})
    settings = ScoreSettings(parse_document(text), present, registry, resources)
    middle_s = find_median_arrival(trace.events)
    training, check = split_trace(trace.events, middle_s, present, registry, question.seed)
    planned = (question.trials + len(settings.settings)) * question.seeds + 2 * (question.samples + 1)

    def run(task: Task, share: Share) -> SimulationFigures:
        part = training if task.sample is None else draw_sample(check, task.sample) if task.sample else check
        return simulate(part, parse(task.text), registry, task.seed, prices, share).figures

    def measure(finished: FinishedRuns[Task, SimulationFigures], tasks: Sequence[Task]) -> Sequence[SimulationFigures]:
        waiting = [task for task in dict.fromkeys(tasks) if task not in finished.results]
        done = len(finished.results)

        def report_share(share: float) -> None:
            report(min(PERCENT, int(PERCENT * (done + share * len(waiting)) / planned)), PERCENT)

        for task in waiting:
            parse(task.text)  # once for all its runs, in this process
        run_parallel(run, waiting, question.processes, report_share, finished.keep)
        return [finished.results[task] for task in tasks]

    with FinishedRuns.open(question, {"the present one": present}, Task, SimulationFigures) as finished:
        result = tune(settings, partial(measure, finished), question, objective, limits)
    report(PERCENT, PERCENT)
    parts = _describe_part(training, result.trained), result.checked and _describe_part(check, result.checked)
    version = str(resolve_rules(present).version)
    return _build_answer(question, result, settings, parts, missing=trace.missing, version=version)


def _build_answer(
    question: TuningQuestion,
    result: TuningResult,
    settings: ScoreSettings,
    parts: tuple[TuningPart, TuningPart | None],
    *,
    missing: list[str],
    version: str,
) -> SimulationTuning:
    """Return the document of a result, with both halves of a trace that lacks `missing`, by the rules of a version."""
    broken = [str(limit) for limit in result.broken]
    changed = settings.list_changes(result.values) if result.has_gain else ()
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {},
        "headline": format_headline(question.figure, parts[1], result.gain, broken),
        "trace": ", ".join(question.traces),
        "missing": missing,
        "removedNodes": question.removed_nodes,
        "configuration": question.configuration,
        "kubernetesVersion": version,
        "figure": question.figure,
        "direction": "maximize" if question.maximize else "minimize",
        "limits": [str(limit) for limit in result.limits],
        "brokenLimits": broken,
        "seed": question.seed,
        "seeds": question.seeds,
        "tried": result.tried,
        "isComplete": result.is_complete,
        "training": parts[0],
        "check": parts[1],
        "gain": result.gain,
        "hasGain": result.has_gain,
        "changes": [
            {"setting": name, "present": settings.present[name], "tuned": result.values[name]} for name in changed
        ],
        "tunedConfiguration": settings.format_with(result.values) if result.has_gain else "",
    }


def _describe_part(events: Sequence[Event], figures: tuple[float, float]) -> TuningPart:
    times = [event.at_s for event in events if isinstance(event, PodArrived) and not event.was_on_node]
    present, tuned = figures
    return {
        "firstArrivalS": min(times),
        "lastArrivalS": max(times),
        "arrivals": len(times),
        "present": present,
        "tuned": tuned,
    }


def tune(
    settings: ScoreSettings,
    measure: Measure,
    question: TuningQuestion,
    objective: FigureObjective,
    stated: tuple[Limit, ...],
) -> TuningResult:
    """Return the best values of the settings for the half that the search sees, and their gain on the other half.

    `measure` returns the figures of runs; `objective` and `stated` limits are those of the question. A limit on pods
    that are never placed is added unless one is stated, or the objective is about them: no more than by the present
    configuration. Otherwise fewer nodes in use would be easy.
    """
    ends_s = time.monotonic() + question.time_limit_s
    seeds = range(question.seed, question.seed + question.seeds)

    def measure_all(values: Sequence[Trial]) -> list[Sequence[SimulationFigures]]:
        texts = [settings.format_with(each) for each in values]
        runs = measure([Task(text, None, seed) for text in texts for seed in seeds])
        return [runs[i * len(seeds) : (i + 1) * len(seeds)] for i in range(len(texts))]

    (present,) = measure_all([settings.present])
    limits = _complete_limits(objective, stated, present)

    def compute_losses(values: Sequence[Trial]) -> list[float]:
        return [_compute_loss(objective, limits, runs) for runs in measure_all(values)]

    def is_over() -> bool:
        return time.monotonic() > ends_s

    found = search_values(settings, compute_losses, question.trials, question.seed, is_over)
    (best,) = measure_all([found.values])
    trained = compute_mean(present, objective.figure), compute_mean(best, objective.figure)
    if not (settings.list_changes(found.values) and found.loss < min(found.present_loss, _BROKEN)):
        return TuningResult(found.values, found.tried, not is_over(), trained, None, None, limits, ())
    is_complete = not is_over()
    texts = [settings.format_with(values) for values in (settings.present, found.values)]
    tasks = [Task(text, sample, question.seed + sample) for sample in range(question.samples + 1) for text in texts]
    runs = measure(tasks)
    before, after = runs[0::2], runs[1::2]
    checked = compute_mean(before[:1], objective.figure), compute_mean(after[:1], objective.figure)
    broken = tuple(
        each for each in _complete_limits(objective, stated, before[:1]) if each.measure_violation(after[:1])
    )
    gain = _compute_gain(objective, before, after)
    return TuningResult(found.values, found.tried, is_complete, trained, checked, gain, limits, broken)


def _compute_gain(
    objective: FigureObjective, before: Sequence[SimulationFigures], after: Sequence[SimulationFigures]
) -> TuningGain:
    """Return the gain with its interval. The first run of each is of the unseen half, the others of its samples."""
    gains = [
        objective.compute_loss([old]) - objective.compute_loss([new]) for old, new in zip(before, after, strict=True)
    ]
    present = compute_mean(before[:1], objective.figure)
    centers, margin = (gains[0], statistics.fmean(gains[1:])), compute_margin(gains[1:])
    return {
        "value": gains[0],
        "low": min(centers) - margin,
        "high": max(centers) + margin,
        "share": gains[0] / abs(present) if present else None,
        "samples": len(gains) - 1,
    }


def _complete_limits(
    objective: FigureObjective, stated: tuple[Limit, ...], present: Sequence[SimulationFigures]
) -> tuple[Limit, ...]:
    if NEVER_PLACED in (objective.figure, *(limit.figure for limit in stated)):
        return stated
    return (*stated, Limit(NEVER_PLACED, "<=", compute_mean(present, NEVER_PLACED)))


def _compute_loss(objective: FigureObjective, limits: Sequence[Limit], runs: Sequence[SimulationFigures]) -> float:
    """Return the objective's loss, or for runs that break limits a greater one that grows with the violations."""
    loss = objective.compute_loss(runs)
    violation = math.fsum(limit.measure_violation(runs) / max(1.0, abs(limit.bound)) for limit in limits)
    return _BROKEN * (1 + violation) if violation else loss


def compute_margin(sampled: Sequence[float]) -> float:
    """Return half the width of the interval for an estimate whose bootstrap samples are these, at least two."""
    return _compute_quantile(len(sampled) - 1) * statistics.stdev(sampled)


def _compute_quantile(freedom: int) -> float:
    """Return the t that |T| exceeds with the probability 1 - CONFIDENCE, for Student's T with degrees of freedom."""
    low, high = 0.0, 1000.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        beyond = float(beta.distribution(freedom / (freedom + middle**2), freedom / 2, 0.5))
        low, high = (middle, high) if beyond > 1 - CONFIDENCE else (low, middle)
    return high
