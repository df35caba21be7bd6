"""The agent `safe`: limits the risk of overload, and balances mean load against its variability.

The verbs are `safe-overload` (predicate, priority) and `safe-balance` (priority). They use the statistics of free cpu
and memory that the usage annotator writes. A node without statistics is accepted and scores 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from herodotus_agents.agent import Agent, AgentSettings
from herodotus_record.model import SUCCESS, Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import beta, measurements, risk
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.node_load import LoadPlugin, NodeLoad
from scheduler.engine.plugins.safe_balance import NodeLoads, SafeBalance
from scheduler.engine.plugins.safe_overload import SafeOverload

_log: Final = logging.getLogger(__name__)

Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class SafeSettings(AgentSettings, frozen=True):
    """Settings of the safe agent, in per cent.

    A node that uses more than `utilization` of its cpu or memory is overloaded; `percentile` is the accepted risk of
    that. `forecastWeight` is the weight of the forecast against the mean. `printTable` logs the fitted distributions.
    Statistics older than `maxAgeS` seconds are ignored.
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
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] = msgspec.field(
        default=measurements.DEFAULT_LIMIT_S, name="maxAgeS"
    )


class _LoggedLoads(LoadPlugin):
    """A plugin that logs each node's load at debug level, and the fitted distribution if `printTable` is set."""

    def compute_loads(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[NodeLoad]:
        for load in super().compute_loads(state, pod, nodes):
            if self.args.print_table or _log.isEnabledFor(logging.DEBUG):
                for name, mean, deviation in zip(nodes.names, load.mean, load.deviation, strict=True):
                    _log.debug("node=%s %s: mu=%.4f sigma=%.4f", name, load.resource, mean, deviation)
                    if self.args.print_table and not np.isnan(mean):
                        _log.info("node=%s %s\n%s", name, load.resource, format_table(mean, deviation))
            yield load


class _SafeOverload(_LoggedLoads, SafeOverload):
    """SafeOverload with a reason for each node, as an extender's response names each rejected node anyway."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes whose risk of overload in cpu or memory is too high. The reason has the risk and its limit."""
        limit = self.args.percentile / 100
        reasons: dict[int, str] = {}
        for resource, risks in self.compute_risks(state, pod, nodes).by_resource.items():
            rejected = np.flatnonzero(~risk.acceptable(risks, limit))
            for slot, value in zip(rejected.tolist(), risks[rejected].tolist(), strict=True):
                text = f"{resource}: the risk of being used more than {self.args.utilization} % is {value:.2f}"
                others = f"{reasons[slot]}; " if slot in reasons else ""
                reasons[slot] = f"{others}{text}, more than {limit:.2f}"
        texts = list(dict.fromkeys(reasons.values()))
        numbers = {text: number for number, text in enumerate(texts, 1)}
        ids = np.zeros(nodes.slots, np.uint16)
        ids[list(reasons)] = [numbers[text] for text in reasons.values()]
        return Verdicts((SUCCESS, *(unschedulable(Reason("text", {"text": text})) for text in texts)), ids)


class _SafeBalance(_LoggedLoads, SafeBalance):
    """SafeBalance that also reports the risk of overload."""

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterator[NodeInputs]:
        for load in state.read(NodeLoads).by_resource:
            yield load.inputs(risk.risk(load.mean, load.deviation, self.args.utilization / 100))


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


AGENT: Final = Agent({"safe-overload": _SafeOverload, "safe-balance": _SafeBalance}, SafeSettings)
