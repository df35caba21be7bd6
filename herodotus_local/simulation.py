"""Replays a trace with the configurations and versions that a user names, or tunes one, without a cluster.

Owns: which variants a question has, and their names. Does not own: reading a configuration (`configuration`), the runs
and the search (`scheduler.offline.simulate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from herodotus_answers.comparison import PodComparison
from herodotus_answers.simulation import Simulation
from herodotus_answers.tuning import SimulationTuning
from herodotus_endpoint.exchange.atomic_files import FileRefusedError, create_file
from herodotus_endpoint.extras import MissingExtraError, require_extra
from herodotus_local.configuration import DEFAULT_NAME, parse_configuration, read_configuration
from herodotus_local.errors import UnusableInputError
from scheduler.config import ConfigError
from scheduler.config.document import parse_document, read_text
from scheduler.config.types import API_VERSION, KIND
from scheduler.engine.plugins.registry import PluginLoadError, Registry
from scheduler.offline.simulate.comparison import Report, Variant, simulate_variants
from scheduler.offline.simulate.objectives import FigureObjective, Limit, ObjectiveError
from scheduler.offline.simulate.pod_decisions import compare_decisions
from scheduler.offline.simulate.prices import read_prices
from scheduler.offline.simulate.processes import ProcessEndedError, count_processors
from scheduler.offline.simulate.simulation import SimulationError
from scheduler.offline.traces.document import TraceError

DEFAULTS: Final = "defaults"  # the variant without a file
_ERRORS: Final = (
    *(ConfigError, PluginLoadError, TraceError),
    *(ObjectiveError, ProcessEndedError, SimulationError),
    *(FileRefusedError, MissingExtraError),
)
_DEFAULT_DOCUMENT: Final = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": DEFAULT_NAME}]}


def simulate_trace(
    traces: Sequence[str],
    files: Sequence[str],
    versions: Sequence[str],
    seeds: Sequence[int],
    removed_nodes: str,
    prices: str,
    processes: int | None,
    parquet: str,
    report: Report,
) -> Simulation:
    """Return the figures of a trace, of one or more files, with each configuration by the rules of each version.

    Without `files` the default profile decides, without `versions` the version of each configuration. Plugins outside
    the tree are found as the scheduler finds them. Raises UnusableInputError if the trace, a configuration or a version
    is invalid, or if the trace has what is not simulated. At most so many `processes` run at once, or as many as there
    are processors. The figures are written to the new file `parquet` unless that is "".
    """
    registry = Registry()
    with _unusable_input(), _open_table(parquet) as write:
        variants = _read_variants(files, versions, registry)
        paths, costs = [Path(each) for each in traces], read_prices(Path(prices)) if prices else None
        answer = simulate_variants(
            paths, variants, registry, seeds, removed_nodes, costs, processes or count_processors(), report
        )
        write(answer)
        return answer


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


def tune_trace(
    traces: Sequence[str],
    file: str,
    version: str,
    objective: tuple[str, bool],
    limits: Sequence[str],
    removed_nodes: str,
    prices: str,
    search: Mapping[str, int],
    processes: int | None,
    report: Report,
) -> SimulationTuning:
    """Return the configuration that is best for an objective on a trace, with its gain on the half that it did not see.

    `file` is the present configuration, or "" for the default profile. `objective` has the figure and whether it is to
    be maximized, and `search` the fields of `TuningQuestion` that are numbers. Raises UnusableInputError.
    """
    from scheduler.offline.simulate.tuning import TuningQuestion  # here, because its optimizer is an extra
    from scheduler.offline.simulate.tuning import tune_trace as tune

    registry = Registry()
    with _unusable_input():
        read_configuration(file, version, registry)  # its errors name the file
        document = parse_document(read_text(Path(file))) if file else _DEFAULT_DOCUMENT
        question = TuningQuestion(
            FigureObjective.parse(objective[0], maximize=objective[1]), tuple(map(Limit.parse, limits)), **search
        )
        return tune(
            [Path(each) for each in traces],
            document,
            lambda text: parse_configuration(text, version, registry),
            file,
            registry,
            removed_nodes,
            read_prices(Path(prices)) if prices else None,
            question,
            processes or count_processors(),
            report,
        )


@contextmanager
def _unusable_input() -> Iterator[None]:
    """Context manager that turns what is wrong with files and figures into UnusableInputError."""
    try:
        yield
    except _ERRORS as e:
        raise UnusableInputError(str(e)) from e


@contextmanager
def _open_table(path: str) -> Iterator[Callable[[Simulation], None]]:
    """Context manager that yields a function which writes the figures to the new file `path`, or nothing for "".

    Raises MissingExtraError and FileRefusedError before anything is simulated.
    """
    if not path:
        yield lambda _: None
        return
    require_extra("parquet", "--parquet")
    from herodotus_local.simulation_table import write_table

    with create_file(Path(path)) as file:
        yield lambda answer: write_table(answer, file)


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
