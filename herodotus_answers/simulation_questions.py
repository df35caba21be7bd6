"""The questions about a trace: what other configurations would have led to, and which one is best for an objective.

Owns: their fields with defaults. Options of the plugin have the names of these fields. Does not own: the answers
(`simulation`, `comparison`, `tuning`), option names and help texts (`herodotus_cli.commands.simulate`). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TraceQuestion:
    """Fields that all questions about a trace share.

    `traces` are the files of the trace. Nodes whose names match the pattern `removed_nodes` are left out; "" leaves out
    none. `prices` is a file with prices of nodes, or "". `seeds` is the number of seeds, which begin at `seed`.
    `processes` is the largest number of parallel runs, 0 for the number of processors; it changes no answer. Runs that
    are in the file `resume` are not repeated; new ones are appended.
    """

    traces: tuple[str, ...]
    removed_nodes: str = ""
    prices: str = ""
    seed: int = 0
    seeds: int = 1
    processes: int = 0
    resume: str = ""


@dataclass(frozen=True, kw_only=True)
class SimulationQuestion(TraceQuestion):
    """A question about the effect of configurations and versions on a trace.

    Without `configurations` the default profile decides, without `kubernetes_versions` the version of each
    configuration. With `pod`, NAMESPACE/NAME, the question is why two variants decide differently about it. The figures
    are also written to the new file `parquet`, unless that is "".
    """

    configurations: tuple[str, ...] = ()
    kubernetes_versions: tuple[str, ...] = ()
    pod: str = ""
    parquet: str = ""


@dataclass(frozen=True, kw_only=True)
class TuningQuestion(TraceQuestion):
    """A question about the configuration with the lowest `figure`, or the highest with `maximize`, within `limits`.

    `configuration` is the file of the present one, or "" for the default profile, by the rules of `kubernetes_version`
    unless that is "". The search makes at most `trials` trials, each with all seeds, and ends after `time_limit_s`.
    `samples` is the number of bootstrap samples for the interval of the gain.
    """

    figure: str
    maximize: bool = False
    limits: tuple[str, ...] = ()
    configuration: str = ""
    kubernetes_version: str = ""
    seeds: int = 2
    trials: int = 64
    samples: int = 10
    time_limit_s: float = 600
