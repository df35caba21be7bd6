"""Answers the questions about a trace, without a cluster.

Owns: which variants a question has, and their names. Does not own: reading a configuration (`configuration`), the runs
and the search (`scheduler.offline.simulate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from herodotus_answers.comparison import PodComparison
from herodotus_answers.simulation import Simulation
from herodotus_answers.simulation_questions import SimulationQuestion, TuningQuestion
from herodotus_answers.tuning import SimulationTuning
from herodotus_endpoint.exchange.atomic_files import FileRefusedError, create_file
from herodotus_endpoint.extras import MissingExtraError, require_extra
from herodotus_local.configuration import parse_configuration, read_configuration, read_configuration_text
from herodotus_local.errors import UnusableInputError
from scheduler.config import ConfigError, Configuration
from scheduler.engine.plugins.registry import PluginLoadError, Registry
from scheduler.offline.simulate.comparison import Report, Variant, simulate_variants
from scheduler.offline.simulate.finished_runs import ResumeError
from scheduler.offline.simulate.objectives import ObjectiveError
from scheduler.offline.simulate.pod_decisions import compare_decisions
from scheduler.offline.simulate.processes import ProcessEndedError
from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces import TraceError

DEFAULTS: Final = "defaults"  # the variant without a file
_ERRORS: Final = (
    *(ConfigError, PluginLoadError, TraceError),
    *(ObjectiveError, ProcessEndedError, SimulationError),
    *(FileRefusedError, MissingExtraError, ResumeError),
)


def answer_question(
    question: SimulationQuestion | TuningQuestion, report: Report
) -> Simulation | PodComparison | SimulationTuning:
    """Return the answer to a question about a trace. `report` gets the percentage of the work that is done, and 100.

    Plugins outside the tree are found as the scheduler finds them. Raises UnusableInputError if the trace or another
    file, a version, or the objective is invalid, or if the trace has what is not simulated.
    """
    registry = Registry()
    try:
        if isinstance(question, TuningQuestion):
            return _tune(question, registry, report)
        variants = _read_variants(question, registry)
        if question.pod:
            return compare_decisions(question, variants, registry, report)
        with _open_table(question.parquet, may_replace=bool(question.resume)) as write:
            answer = simulate_variants(question, variants, registry, report)
            write(answer)
            return answer
    except _ERRORS as e:
        raise UnusableInputError(str(e)) from e


def _tune(question: TuningQuestion, registry: Registry, report: Report) -> SimulationTuning:
    from scheduler.offline.simulate.tuning import tune_trace  # here, because its optimizer is an extra

    def parse(text: str) -> Configuration:
        return parse_configuration(text, question.configuration, question.kubernetes_version, registry)

    return tune_trace(question, read_configuration_text(question.configuration), parse, registry, report)


@contextmanager
def _open_table(path: str, *, may_replace: bool) -> Iterator[Callable[[Simulation], None]]:
    """Context manager that yields a function which writes the figures to the file `path`, or nothing for "".

    A resumed simulation may replace the file, which the interrupted one may have written. Raises
    MissingExtraError and FileRefusedError before anything is simulated.
    """
    if not path:
        yield lambda _: None
        return
    require_extra("parquet", "--parquet")
    from herodotus_local.simulation_table import write_table

    with create_file(Path(path), may_replace=may_replace) as file:
        yield lambda answer: write_table(answer, file)


def _read_variants(question: SimulationQuestion, registry: Registry) -> list[Variant]:
    files = question.configurations
    return [
        Variant(_name_variant(file, files, version), file, read_configuration(file, version, registry))
        for file in files or ("",)
        for version in question.kubernetes_versions or ("",)
    ]


def _name_variant(file: str, files: Sequence[str], version: str) -> str:
    """Return the file's name, or its path if another file has that name, and the version if one was chosen."""
    name = Path(file).name
    is_unique = [Path(each).name for each in files].count(name) == 1
    return " ".join(filter(None, (name if is_unique else file or DEFAULTS, version)))
