"""Replays a trace with the configurations and versions that a user names, without a cluster.

Owns: which variants a question has, and their names. Does not own: reading a configuration (`configuration`), the runs
(`scheduler.offline.simulate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from herodotus_answers.comparison import PodComparison
from herodotus_answers.simulation import Simulation
from herodotus_local.configuration import read_configuration
from herodotus_local.errors import UnusableInputError
from scheduler.config import ConfigError
from scheduler.engine.plugins.registry import PluginLoadError, Registry
from scheduler.offline.simulate.comparison import Report, Variant, simulate_variants
from scheduler.offline.simulate.pod_decisions import compare_decisions
from scheduler.offline.simulate.prices import read_prices
from scheduler.offline.simulate.processes import ProcessEndedError, count_processors
from scheduler.offline.simulate.simulation import SimulationError
from scheduler.offline.traces.document import TraceError

DEFAULTS: Final = "defaults"  # the variant without a file


def simulate_trace(
    traces: Sequence[str],
    files: Sequence[str],
    versions: Sequence[str],
    seeds: Sequence[int],
    removed_nodes: str,
    prices: str,
    processes: int | None,
    report: Report,
) -> Simulation:
    """Return the figures of a trace, of one or more files, with each configuration by the rules of each version.

    Without `files` the default profile decides, without `versions` the version of each configuration. Plugins outside
    the tree are found as the scheduler finds them. Raises UnusableInputError if the trace, a configuration or a version
    is invalid, or if the trace has what is not simulated. At most so many `processes` run at once, or as many as there
    are processors.
    """
    registry = Registry()
    with _unusable_input():
        variants = _read_variants(files, versions, registry)
        paths, costs = [Path(each) for each in traces], read_prices(Path(prices)) if prices else None
        return simulate_variants(
            paths, variants, registry, seeds, removed_nodes, costs, processes or count_processors(), report
        )


def compare_pod(
    traces: Sequence[str],
    files: Sequence[str],
    versions: Sequence[str],
    seed: int,
    removed_nodes: str,
    pod: str,
    report: Report,
) -> PodComparison:
    """Return why two variants decide differently about a pod, NAMESPACE/NAME, of a trace.

    The arguments are those of `simulate_trace`, of which there must be two variants. Raises UnusableInputError.
    """
    registry = Registry()
    with _unusable_input():
        variants = _read_variants(files, versions, registry)
        return compare_decisions([Path(each) for each in traces], variants, registry, seed, removed_nodes, pod, report)


@contextmanager
def _unusable_input() -> Iterator[None]:
    """Context manager that raises UnusableInputError for errors in what the user names."""
    try:
        yield
    except (ConfigError, PluginLoadError, ProcessEndedError, SimulationError, TraceError) as e:
        raise UnusableInputError(str(e)) from e


def _read_variants(files: Sequence[str], versions: Sequence[str], registry: Registry) -> list[Variant]:
    return [
        Variant(_name_variant(file, files, version), file, read_configuration(file, version, registry))
        for file in files or ("",)
        for version in versions or ("",)
    ]


def _name_variant(file: str, files: Sequence[str], version: str) -> str:
    """Return the file's name, or its path if another file has that name, and the version if one was chosen."""
    name = Path(file).name
    is_unique = [Path(each).name for each in files].count(name) == 1
    return " ".join(filter(None, (name if is_unique else file or DEFAULTS, version)))
