"""The agent `safe`: limits the risk of overload, and balances mean load against its variability.

The verbs are `safe-overload` (predicate, priority) and `safe-balance` (priority). They use the statistics of free cpu
and memory that the usage annotator writes. A node without statistics is accepted and scores 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_agents.agent import Agent, AgentFactory, AgentSettings, ExplainedResult, Points, Rejected
from herodotus_agents.measured import present_keys, read_measurement_times, read_numbers
from herodotus_agents.objects import NodeView, PodView
from scheduler.engine.formulas import beta, measurements, risk
from scheduler.engine.formulas.inputs import NodeInputs, build_load_columns
from scheduler.engine.formulas.measurements import DEVIATION_FREE, FORECAST_FREE, MEAN_FREE

_log: Final = logging.getLogger(__name__)

RESOURCES: Final = ("cpu", "memory")

Floats = NDArray[np.float64]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class SafeSettings(AgentSettings, frozen=True):
    """Settings of the safe agent, in per cent.

    A node that uses more than `utilization` of its cpu or memory is overloaded; `percentile` is the accepted risk of
    that. `forecast_weight` is the weight of the forecast against the mean. `print_table` logs the fitted distributions.
    Statistics older than `max_age_s` seconds are ignored.
    """

    variables: ClassVar[Mapping[str, str]] = {
        "SAFEUTILIZATION": "utilization",
        "SAFEPERCENTILE": "percentile",
        "SAFEFORECASTWEIGHT": "forecast_weight",
        "SAFEPRINTTABLE": "print_table",
    }

    utilization: Percent = 90
    percentile: Percent = 30
    forecast_weight: Percent = 20
    print_table: bool = False
    max_age_s: Annotated[float, msgspec.Meta(gt=0)] = measurements.DEFAULT_LIMIT_S

    @property
    def threshold(self) -> float:
        """The used share of a resource, 0 to 1, above which a node is overloaded."""
        return self.utilization / 100

    @property
    def limit(self) -> float:
        """The highest accepted probability, 0 to 1, that a node is overloaded."""
        return self.percentile / 100


@dataclass(frozen=True)
class ResourceLoad:
    """The expected load of one resource on every node, as if the pod were on that node.

    The arrays have one entry per node, NaN if unknown: `mean` and `deviation` of the used share (0 to 1), and `risk`,
    the probability of overload. `inputs` holds the same values with their sources, for the decision's record.
    """

    resource: str
    mean: Floats
    deviation: Floats
    risk: Floats
    inputs: NodeInputs


class SafeAgent:
    """Filters and scores nodes for the verbs `safe-overload` and `safe-balance`, by measured cpu and memory use."""

    def __init__(self, settings: SafeSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock

    def overload_predicate(self, pod: PodView, nodes: Sequence[NodeView]) -> ExplainedResult[Rejected]:
        """Return the nodes whose risk of overload in cpu or memory is too high, each with a reason."""
        settings = self._settings
        reasons: dict[str, list[str]] = {}
        loads = list(self._loads("SafeOverloadPredicate", pod, nodes))
        for load in loads:
            for i in np.flatnonzero(~risk.acceptable(load.risk, settings.limit)).tolist():
                reasons.setdefault(nodes[i].name, []).append(
                    f"{load.resource}: the risk of being used more than {settings.utilization} % is"
                    f" {load.risk[i]:.2f}, more than {settings.limit:.2f}"
                )
        rejected = {name: "; ".join(found) for name, found in reasons.items()}
        return ExplainedResult(rejected, [load.inputs for load in loads])

    def overload_priority(self, pod: PodView, nodes: Sequence[NodeView]) -> ExplainedResult[Points]:
        """Score each node by its risk of overload: 10 without risk, 0 from the accepted risk on.

        A node gets the lower of its scores for cpu and memory, or 0 if neither was measured.
        """
        return self._points("SafeOverloadPriority", pod, nodes, self._overload)

    def balance_priority(self, pod: PodView, nodes: Sequence[NodeView]) -> ExplainedResult[Points]:
        """Score each node 0 to 10 by its load: the lower and steadier the used share, the higher the score.

        A node gets the lower of its scores for cpu and memory, or 0 if neither was measured.
        """
        return self._points("SafeBalancePriority", pod, nodes, lambda x: risk.balance_points(x.mean, x.deviation))

    def _overload(self, load: ResourceLoad) -> NDArray[np.int64]:
        return risk.overload_points(load.risk, self._settings.limit)

    def _points(
        self, verb: str, pod: PodView, nodes: Sequence[NodeView], points: Callable[[ResourceLoad], NDArray[np.int64]]
    ) -> ExplainedResult[Points]:
        loads = list(self._loads(verb, pod, nodes))
        scores = risk.least_known([points(load) for load in loads], [~np.isnan(load.mean) for load in loads])
        return ExplainedResult(scores.tolist(), [load.inputs for load in loads])

    def _loads(self, verb: str, pod: PodView, nodes: Sequence[NodeView]) -> Iterator[ResourceLoad]:
        """Yield the load of all nodes with the pod counted, first of cpu, then of memory. `verb` is for the log."""
        settings = self._settings
        measured = read_measurement_times("usage", nodes, self._clock(), settings.max_age_s)
        _log.info("==> %s pod=%s nodes=%d stale=%d", verb, pod.name, len(nodes), measured.stale.sum())
        for resource in RESOURCES:
            mean = np.where(measured.stale, np.nan, read_numbers(nodes, MEAN_FREE[resource]))
            deviation = np.nan_to_num(read_numbers(nodes, DEVIATION_FREE[resource]))
            free = risk.expected_free(
                mean, read_numbers(nodes, *FORECAST_FREE[resource]), settings.forecast_weight / 100
            )
            capacity = [node.allocatable(resource) for node in nodes]
            mu, sigma = risk.utilization(capacity, free, deviation, pod.demand(resource))
            overload_risk = risk.risk(mu, sigma, settings.threshold)
            keys = present_keys(nodes, (MEAN_FREE[resource], DEVIATION_FREE[resource], *FORECAST_FREE[resource]))
            load = ResourceLoad(
                resource,
                mu,
                sigma,
                overload_risk,
                measured.inputs(keys, *build_load_columns(resource, mu, sigma, overload_risk)),
            )
            self._log_load(load, nodes)
            yield load

    def _log_load(self, load: ResourceLoad, nodes: Sequence[NodeView]) -> None:
        """Log the load of each node at debug level, and its fitted beta distribution if `print_table` is set."""
        if not (self._settings.print_table or _log.isEnabledFor(logging.DEBUG)):
            return
        for node, mean, deviation, overload_risk in zip(nodes, load.mean, load.deviation, load.risk, strict=True):
            if np.isnan(mean):
                _log.debug("node=%s %s: no statistics", node.name, load.resource)
            else:
                _log.debug(
                    "node=%s %s: mu=%.4f sigma=%.4f risk=%.4g", node.name, load.resource, mean, deviation, overload_risk
                )
                if self._settings.print_table:
                    _log.info("node=%s %s\n%s", node.name, load.resource, format_table(mean, deviation))


def format_table(mean: float, deviation: float) -> str:
    """Return a text table of the beta distribution of a used share with this mean and deviation.

    It has a row for every 5 % of use, with the density, the distribution function and the mean residual life. If no
    beta distribution has this mean and deviation, the text says so.
    """
    alpha, rest = beta.fit(mean, deviation)
    if np.isnan(alpha):
        return f"mu={mean:.4f} sigma={deviation:.4f}: no beta distribution has these"
    x = np.linspace(0, 1, 21)
    columns = (
        x,
        beta.density(x, alpha, rest),
        beta.distribution(x, alpha, rest),
        beta.mean_residual_life(x, alpha, rest),
    )
    rows = [f"{a:4.2f} {b:10.6f} {c:10.6f} {d:10.6f}" for a, b, c, d in zip(*columns, strict=True)]
    return "\n".join([f"{'x':>4} {'density':>10} {'P(<= x)':>10} {'residual':>10}", *rows])


def _make(settings: SafeSettings, clock: Callable[[], float]) -> Agent:
    safe = SafeAgent(settings, clock)
    return Agent(
        predicates={"safe-overload": safe.overload_predicate},
        priorities={"safe-overload": safe.overload_priority, "safe-balance": safe.balance_priority},
    )


FACTORY: Final = AgentFactory(SafeSettings, _make)
