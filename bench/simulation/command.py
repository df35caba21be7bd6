"""The command line of the simulation: many seeds, each in a fork of its own; the replay and the shrinking of one.

Owns: forks, the report. Does not own: a run (`run`), which step may be left out (`shrinking`).

A fork per seed, because programs have state in modules, such as caches, on which a later run would depend.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Final

from bench.simulation.machine import START_S
from bench.simulation.run import SeedResult, SeedRun, activate, deactivate
from bench.simulation.scenario import ScenarioStep, Settings, build_scenario
from bench.simulation.search import GuidedSeeds
from bench.simulation.shrinking import shrink
from bench.simulation.system import prepare

MEMORY: Final = Path("/dev/shm")  # where it exists, a commit takes no time of a disk
WARM_UP: Final = Settings(seconds=10.0, disturb_every_s=0.0, replicas=1)
SHOWN_CHARACTERS: Final = 4000  # of a violation
LOG_LINES: Final = 60  # of each process, after a replay


def main(argv: Sequence[str] | None = None) -> int:
    """Run the seeds and print the report; return 1 if one violates an invariant."""
    arguments = _parser().parse_args(argv)
    settings = Settings(arguments.seconds, arguments.per_s, arguments.disturb_every_s, arguments.replicas)
    directory = Path(tempfile.mkdtemp(prefix="simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        template = directory / "template"
        template.mkdir()
        activate("template")
        prepare(template)
        _warm_up(directory, template)
        if arguments.replay is not None:
            return _replay(arguments, settings, directory, template)
        return _search(arguments, settings, directory, template)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _search(arguments: argparse.Namespace, settings: Settings, directory: Path, template: Path) -> int:
    """Run seeds until their number or the time is reached, and print figures and failing seeds."""
    began, failed = time.monotonic(), list[SeedResult]()
    results: list[SeedResult] = []
    guided = GuidedSeeds(arguments.first, arguments.seconds)
    plain = map(str, count(arguments.first))
    seeds = islice(guided if arguments.guided else plain, arguments.seeds)
    most_s = arguments.minutes * 60 if arguments.minutes else float("inf")
    limited = takewhile(lambda seed: sum(result.cpu_s for result in results) < most_s, seeds)
    for result in run_seeds(limited, settings, directory, template, arguments.jobs):
        results.append(result)
        guided.add(result)
        if result.violations:
            failed.append(result)
            print(_describe_failure(result, settings), flush=True)
            if arguments.until_failure:
                break
    print(report(results, time.monotonic() - began), flush=True)
    print(f"{len(guided.states)} states reached")
    if failed and arguments.shrink:
        print(_shrink(failed[0], settings, directory, template), flush=True)
    return 1 if failed else 0


def _replay(arguments: argparse.Namespace, settings: Settings, directory: Path, template: Path) -> int:
    """Run one seed, print what it violates and, with --logs, its steps and the end of each log."""
    steps = build_scenario(arguments.replay, settings)
    if arguments.steps:
        chosen = {int(number) for number in arguments.steps.split(",")}
        steps = [step for step in steps if step.number in chosen]
    if arguments.logs:
        print("\n".join(map(str, steps)), flush=True)
    lines = LOG_LINES if arguments.logs else 0
    (result,) = run_seeds(iter([arguments.replay]), settings, directory, template, 1, steps, lines)
    print("\n".join(violation[:SHOWN_CHARACTERS] for violation in result.violations))
    print(f"seed {result.seed}: digest {result.digest}, {len(result.violations)} violations")
    return 1 if result.violations else 0


def run_seeds(
    seeds: Iterator[str],
    settings: Settings,
    directory: Path,
    template: Path,
    jobs: int,
    steps: Sequence[ScenarioStep] | None = None,
    log_lines: int = 0,
) -> Iterator[SeedResult]:
    """Run each seed in a fork, `jobs` at a time, and yield the results in the order of their ends.

    Each prints `log_lines` lines of the end of each scheduler's log.
    """
    running: dict[int, tuple[str, Path]] = {}
    number = 0
    try:
        while True:
            while len(running) < jobs and (seed := next(seeds, None)) is not None:
                number += 1
                files = directory / f"run-{os.getpid()}-{number}"
                files.mkdir()
                running[_fork(seed, settings, files, template, steps, log_lines)] = seed, files
            if not running:
                return
            pid, status = os.wait()
            seed, files = running.pop(pid)
            yield _read_result(seed, files, status)
            shutil.rmtree(files, ignore_errors=True)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _fork(
    seed: str, settings: Settings, files: Path, template: Path, steps: Sequence[ScenarioStep] | None, log_lines: int
) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run = SeedRun(seed, settings, files, template)
        result = run.play(steps)
        for replica in run.system.replicas if log_lines else ():
            for process in replica.processes:
                print(f"--- {process.name}\n{''.join(process.log[-log_lines:])}")
        sys.stdout.flush()
        (files / "result.json").write_text(json.dumps(asdict(result)))
        code = 0
    finally:
        os._exit(code)


def _warm_up(directory: Path, template: Path) -> None:
    """Play a short run in this process, so that no fork has to fill its caches of compiled statements and patterns."""
    files = directory / "warm-up"
    files.mkdir()
    SeedRun("warm-up", WARM_UP, files, template, START_S - 2 * WARM_UP.seconds - 1000).play()
    deactivate()


def _read_result(seed: str, files: Path, status: int) -> SeedResult:
    try:
        return SeedResult(**json.loads((files / "result.json").read_text()))
    except OSError:
        return SeedResult(seed, violations=[f"the run itself ended with {os.waitstatus_to_exitcode(status)}"])


def _shrink(failed: SeedResult, settings: Settings, directory: Path, template: Path) -> str:
    """Return the short list of steps after which the seed still fails as it did."""
    kind = _kind_of(failed)

    def fails(steps: Sequence[ScenarioStep]) -> bool:
        (result,) = run_seeds(iter([failed.seed]), settings, directory, template, 1, steps)
        return bool(result.violations) and _kind_of(result) == kind

    steps = shrink(build_scenario(failed.seed, settings), fails)
    numbers = ",".join(str(step.number) for step in steps)
    lines = [f"{len(steps)} steps are enough for {kind}:", *map(str, steps)]
    return "\n".join([*lines, f"  {_replay_command(failed.seed, settings)} --steps {numbers} --logs"])


def _kind_of(result: SeedResult) -> str:
    """Return what a failing run violates first, without its objects."""
    first = result.violations[0].splitlines()[0]
    return first.partition(":")[0]


def _describe_failure(result: SeedResult, settings: Settings) -> str:
    shown = "\n".join(violation[:SHOWN_CHARACTERS] for violation in result.violations[:3])
    return (
        f"seed {result.seed}: {len(result.violations)} violations\n{shown}\n  "
        f"{_replay_command(result.seed, settings)} --logs"
    )


def _replay_command(seed: str, settings: Settings) -> str:
    options = f"--seconds {settings.seconds:g} --per-s {settings.per_s:g} --replicas {settings.replicas}"
    return f"python -m bench.simulation --replay {seed} {options} --disturb-every-s {settings.disturb_every_s:g}"


def report(results: Sequence[SeedResult], real_s: float) -> str:
    """Return the figures of all runs."""
    simulated_s, cpu_s = sum(r.simulated_s for r in results), sum(r.cpu_s for r in results)
    failed = [r for r in results if r.violations]
    return (
        f"{len(results)} seeds in {real_s:.1f} s, {cpu_s:.1f} s of processor time: {simulated_s / 3600:.2f} simulated "
        f"hours, {simulated_s / max(cpu_s, 1e-9):.0f} for each core-hour\n"
        f"{sum(r.steps for r in results)} steps of threads, {sum(r.requests for r in results)} requests, "
        f"{sum(r.pods for r in results)} pods, {sum(r.bindings for r in results)} bindings, "
        f"{sum(r.decisions for r in results)} decisions of {sum(r.incarnations for r in results)} schedulers, "
        f"{sum(r.explained for r in results)} records explained by gaps\n"
        f"{sum(len(r.violations) for r in results)} violations in {len(failed)} seeds"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description="Simulate faults on virtual time.")
    parser.add_argument("--seeds", type=int, default=100, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (%(default)s)")
    parser.add_argument("--minutes", type=float, default=0.0, help="of processor time, after which no new seed begins")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=Settings.seconds, help="virtual, of load (%(default)s)")
    parser.add_argument("--per-s", type=float, default=Settings.per_s, help="operations per virtual second")
    parser.add_argument("--disturb-every-s", type=float, default=Settings.disturb_every_s, help="on average; 0: never")
    parser.add_argument("--replicas", type=int, default=Settings.replicas)
    parser.add_argument("--guided", action="store_true", help="continue runs from where they reached new states")
    parser.add_argument("--until-failure", action="store_true", help="end after the first failing seed")
    parser.add_argument("--shrink", action="store_true", help="reduce the first failing seed to few steps")
    parser.add_argument("--replay", metavar="SEED", help="run one seed and print what happened")
    parser.add_argument("--steps", metavar="N,N", help="with --replay: only these steps")
    parser.add_argument("--logs", action="store_true", help="with --replay: print steps and logs")
    return parser
