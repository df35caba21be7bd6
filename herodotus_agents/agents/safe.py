"""safe: keeps the risk of overload low, and trades average load against its variability.

Verbs `safe-overload` (predicate, priority) and `safe-balance` (priority), by the statistics of free cpu and memory that
the usage annotator writes. Of a node without statistics nothing is known: it is accepted and gets no points.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_agents.agent import Agent, Explained, Kind, Points, Rejected, Settings
from herodotus_agents.measured import dated, numbers, present
from herodotus_agents.objects import Node, Pod
from scheduler.formulas import beta, measurements, risk
from scheduler.formulas.inputs import Inputs, of_load
from scheduler.formulas.measurements import DEVIATION_FREE, FORECAST_FREE, MEAN_FREE

_log: Final = logging.getLogger(__name__)

RESOURCES: Final = ("cpu", "memory")

Floats = NDArray[np.float64]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class SafeSettings(Settings, frozen=True):
    """Per cent. `utilization`: used more than this is overload. `percentile`: the risk of it that is accepted.

    `forecast_weight`: how much a forecast counts against the mean. `max_age_s`: older statistics are ignored.
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
        """The used share above which a node is overloaded."""
        return self.utilization / 100

    @property
    def limit(self) -> float:
        """The accepted risk."""
        return self.percentile / 100


@dataclass(frozen=True)
class Load:
    """Of one resource on every node with the pod: mean and deviation of the used share, and the risk. NaN: unknown.

    `inputs`: the same for the record, with what they came from.
    """

    resource: str
    mean: Floats
    deviation: Floats
    risk: Floats
    inputs: Inputs


class Safe:
    """The verbs over one set of settings."""

    def __init__(self, settings: SafeSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock

    def overload_predicate(self, pod: Pod, nodes: Sequence[Node]) -> Explained[Rejected]:
        """Both resources must be accepted; the reason names those that are not."""
        settings = self._settings
        why: dict[str, list[str]] = {}
        loads = list(self._loads("SafeOverloadPredicate", pod, nodes))
        for load in loads:
            for i in np.flatnonzero(~risk.acceptable(load.risk, settings.limit)).tolist():
                why.setdefault(nodes[i].name, []).append(
                    f"{load.resource}: the risk of being used more than {settings.utilization} % is"
                    f" {load.risk[i]:.2f}, more than {settings.limit:.2f}"
                )
        rejected = {name: "; ".join(reasons) for name, reasons in why.items()}
        return Explained(rejected, [load.inputs for load in loads])

    def overload_priority(self, pod: Pod, nodes: Sequence[Node]) -> Explained[Points]:
        """The worse of both resources."""
        return self._points("SafeOverloadPriority", pod, nodes, self._overload)

    def balance_priority(self, pod: Pod, nodes: Sequence[Node]) -> Explained[Points]:
        """The worse of both resources."""
        return self._points("SafeBalancePriority", pod, nodes, lambda x: risk.balance_points(x.mean, x.deviation))

    def _overload(self, load: Load) -> NDArray[np.int64]:
        return risk.overload_points(load.risk, self._settings.limit)

    def _points(
        self, verb: str, pod: Pod, nodes: Sequence[Node], points: Callable[[Load], NDArray[np.int64]]
    ) -> Explained[Points]:
        loads = list(self._loads(verb, pod, nodes))
        given = risk.least_known([points(load) for load in loads], [~np.isnan(load.mean) for load in loads])
        return Explained(given.tolist(), [load.inputs for load in loads])

    def _loads(self, verb: str, pod: Pod, nodes: Sequence[Node]) -> Iterator[Load]:
        """The load of each resource."""
        settings = self._settings
        when = dated("usage", nodes, self._clock(), settings.max_age_s)
        _log.info("==> %s pod=%s nodes=%d stale=%d", verb, pod.name, len(nodes), when.stale.sum())
        for resource in RESOURCES:
            mean = np.where(when.stale, np.nan, numbers(nodes, MEAN_FREE[resource]))
            deviation = np.nan_to_num(numbers(nodes, DEVIATION_FREE[resource]))
            free = risk.expected_free(mean, numbers(nodes, *FORECAST_FREE[resource]), settings.forecast_weight / 100)
            capacity = [node.allocatable(resource) for node in nodes]
            mu, sigma = risk.utilization(capacity, free, deviation, pod.demand(resource))
            risky = risk.risk(mu, sigma, settings.threshold)
            keys = present(nodes, (MEAN_FREE[resource], DEVIATION_FREE[resource], *FORECAST_FREE[resource]))
            load = Load(resource, mu, sigma, risky, when.inputs(keys, *of_load(resource, mu, sigma, risky)))
            self._show(load, nodes)
            yield load

    def _show(self, load: Load, nodes: Sequence[Node]) -> None:
        """In the log, what was read and what it means."""
        if not (self._settings.print_table or _log.isEnabledFor(logging.DEBUG)):
            return
        for node, mean, deviation, risky in zip(nodes, load.mean, load.deviation, load.risk, strict=True):
            if np.isnan(mean):
                _log.debug("node=%s %s: no statistics", node.name, load.resource)
            else:
                _log.debug("node=%s %s: mu=%.4f sigma=%.4f risk=%.4g", node.name, load.resource, mean, deviation, risky)
                if self._settings.print_table:
                    _log.info("node=%s %s\n%s", node.name, load.resource, table(mean, deviation))


def table(mean: float, deviation: float) -> str:
    """Density, distribution and mean residual life of the used share, in steps of 5 %."""
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
    safe = Safe(settings, clock)
    return Agent(
        predicates={"safe-overload": safe.overload_predicate},
        priorities={"safe-overload": safe.overload_priority, "safe-balance": safe.balance_priority},
    )


KIND: Final = Kind(SafeSettings, _make)
