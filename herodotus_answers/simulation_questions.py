"""The questions about a trace: what other configurations would have led to, and which one is best for an objective.

Owns: their fields with defaults. Options of the plugin have the names of these fields. Does not own: the answers
(`simulation`, `comparison`, `tuning`), option names and help texts (`herodotus_cli.commands.simulate`). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TraceQuestion:
    """What every question about a trace states.

    `traces` are the files of the trace. Nodes whose names match the pattern `removed_nodes` are left out; "" leaves out
    none. `prices` is a file with prices of nodes, or "". There are so many `seeds` from `seed` on. At most so many
    `processes` run at once, or with 0 as many as there are processors; their number changes no answer.
    """

    traces: tuple[str, ...]
    removed_nodes: str = ""
    prices: str = ""
    seed: int = 0
    seeds: int = 1
    processes: int = 0


@dataclass(frozen=True, kw_only=True)
class SimulationQuestion(TraceQuestion):
    """What each configuration by the rules of each version would have led to.

    Without `configurations` the default profile decides, without `kubernetes_versions` the version of each
    configuration. With `pod`, NAMESPACE/NAME, the question is why two variants decide differently about it. The figures
    are also written to the new file `parquet`, unless that is "". Runs that the file `resume` has are not made again,
    and each other one is added to it when it ends.
    """

    configurations: tuple[str, ...] = ()
    kubernetes_versions: tuple[str, ...] = ()
    pod: str = ""
    parquet: str = ""
    resume: str = ""


@dataclass(frozen=True, kw_only=True)
class TuningQuestion(TraceQuestion):
    """Which configuration has the lowest `figure`, or with `maximize` the highest, and keeps the `limits`.

    `configuration` is the file of the present one, or "" for the default profile, by the rules of `kubernetes_version`
    unless that is "". At most so many `trials` are made, each with all seeds, for `time_limit_s` seconds. So many
    `samples` of the arrivals that the search did not see give the interval of the gain.
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
