"""NetworkTraffic: prefers nodes with little network traffic, as Prometheus' node exporter measures it.

Only Herodotus has this plugin. One query for all nodes runs in the background: a cycle reads the newest result and
never waits. The label `nodename` of `node_uname_info` identifies the node. Source: cylonchau's customScheduler.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record import klog
from herodotus_record.model import SUCCESS, Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.formulas.points import traffic_scores
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, Handle, MetricAnswer, PluginInput
from scheduler.engine.framework.state import CycleState, OutsideReading
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid, not_supported, required

RATE: Final = "rate"
SUM_OVER_TIME: Final = "sum_over_time"  # the original plugin's function: the sum of the counter's samples
FUNCTIONS: Final = (RATE, SUM_OVER_TIME)
MISSING: Final = {"neutral": 50, "worst": 0}  # the score of a node without a sample
UNKNOWN: Final = -1


class NetworkTrafficArgs(Args, frozen=True):
    """Arguments of NetworkTraffic: the Prometheus query and the use of its result.

    `ip` is the base URL of Prometheus and `device_name` the network interface. `function` (`rate` or `sum_over_time`)
    applies to the counter of received bytes over the last `time_range` minutes. `missing` (`neutral` or `worst`)
    selects the score of a node without a sample. Results that are older than `max_age_seconds` are ignored.
    """

    ip: str = ""
    device_name: str = "eth0"
    time_range: int = 5
    function: str = RATE
    missing: str = "neutral"
    refresh_seconds: float = 15.0
    timeout_seconds: float = 5.0
    max_age_seconds: float = 120.0

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for each argument that is missing, unknown or out of range."""
        if not self.ip:
            yield required("ip", "the base URL of Prometheus, such as http://10.0.0.4:9090")
        elif not self.ip.startswith(("http://", "https://")):
            yield invalid("ip", self.ip, "must be a URL, such as http://10.0.0.4:9090")
        if not self.device_name:
            yield required("deviceName")
        if self.time_range <= 0:
            yield invalid("timeRange", self.time_range, "must be a positive number of minutes")
        if self.function not in FUNCTIONS:
            yield not_supported("function", self.function, FUNCTIONS)
        if self.missing not in MISSING:
            yield not_supported("missing", self.missing, tuple(MISSING))
        for path, seconds in (
            ("refreshSeconds", self.refresh_seconds),
            ("timeoutSeconds", self.timeout_seconds),
            ("maxAgeSeconds", self.max_age_seconds),
        ):
            if seconds <= 0:
                yield invalid(path, seconds, "must be positive")


@dataclass(frozen=True)
class TrafficReading(OutsideReading):
    """The query result that one scheduling cycle uses, its age, and whether it exceeds `maxAgeSeconds`."""

    answer: MetricAnswer
    age_s: float
    is_stale: bool


class NetworkTraffic(BasePlugin):
    """A score plugin that prefers nodes which receive little network traffic, as Prometheus measures it.

    If there is no recent query result, a cycle with PreScore skips the plugin, and the record says why. With Score
    alone, all nodes count as nodes without a sample, and the record marks the samples as stale.
    """

    name = "NetworkTraffic"
    args_type = NetworkTrafficArgs
    reads = frozenset({PluginInput.NODE, PluginInput.METRICS})

    def __init__(self, args: Any, handle: Handle, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(args, handle)
        self._clock = clock
        self.source = handle.query_metrics(
            args.ip, build_query(args), "nodename", every_s=args.refresh_seconds, timeout_s=args.timeout_seconds
        )

    def prepare(self, nodes: NodeColumns) -> None:
        """Start the first Prometheus query, which runs in the background."""
        self.source.latest()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Skip Score if there is no query result, or only one older than `maxAgeSeconds`."""
        reading = self._reading(state)
        if reading.answer.received_s is None:
            return _skip(f"no answer of Prometheus: {reading.answer.error}")
        if reading.is_stale:
            return _skip(f"the last answer of Prometheus is {reading.age_s:.0f} s old: {reading.answer.error}")
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return the bytes that each node received, per second or summed by `function`; -1 without a sample.

        If the query result is stale, return -1 for all nodes.
        """
        reading = self._reading(state)
        usable = _select_samples(reading.answer, nodes)
        usable_rows = ~np.isnan(usable) & (not reading.is_stale)
        raw: Scores = np.where(usable_rows, np.nan_to_num(usable), UNKNOWN).astype(np.int64)
        if klog.enabled(3):
            for slot in np.flatnonzero(feasible):
                klog.info(3, "[NetworkTraffic] node bandwidth", node=nodes.names[slot], bandwidth=int(raw[slot]))
        return raw

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Report each node's received bytes for the record, with the time of the Prometheus query."""
        reading = self._reading(state)
        answer, unit = reading.answer, "B/s" if self.args.function == RATE else "B"
        received = NodeInputColumn("received", _select_samples(answer, nodes), unit, digits=0)
        measured_s = np.full(nodes.slots, np.nan if answer.evaluated_s is None else answer.evaluated_s)
        stale = np.full(nodes.slots, reading.is_stale)
        return (NodeInputs(f"Prometheus: {build_query(self.args)}", (received,), measured_s, stale),)

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Scale the scores from 0 for the busiest feasible node to 100 for no traffic.

        A node without a sample gets the score that the argument `missing` selects.
        """
        measured = raw != UNKNOWN
        return np.where(measured, traffic_scores(raw, feasible & measured), MISSING[self.args.missing])

    def _reading(self, state: CycleState) -> TrafficReading:
        """Return the query result that this cycle uses: the newest one at the cycle's first call."""
        reading = state.find(TrafficReading)
        if reading is None:
            answer = self.source.latest()
            age_s = 0.0 if answer.received_s is None else self._clock() - answer.received_s
            reading = TrafficReading(answer, age_s, age_s > self.args.max_age_seconds)
            state.write(reading)
        return reading


def build_query(args: NetworkTrafficArgs) -> str:
    """Return the PromQL query for the received bytes of all nodes."""
    counter = f"node_network_receive_bytes_total{{device={json.dumps(args.device_name)}}}"
    return f"{args.function}({counter}[{args.time_range}m]) * on(instance) group_left(nodename) node_uname_info"


def _select_samples(answer: MetricAnswer, nodes: NodeColumns) -> NDArray[np.float64]:
    """Return the query's sample for each node slot, NaN if it is missing or out of range."""
    samples = np.array([answer.values.get(name, np.nan) for name in nodes.names[: nodes.slots]], np.float64)
    return np.where((samples >= 0) & (samples < 2.0**62), samples, np.nan)


def _skip(why: str) -> Verdict:
    return Verdict(Code.SKIP, (Reason("text", {"text": why}),))
