"""Runs a filter or score plugin of the scheduling framework on the pod and the nodes of an extender's request.

Owns: which plugins can run here, the order of their extension points, the conversion of scores to points. Does not own:
the plugins, the messages (`app`).

Invariant: a plugin runs in one thread at a time, as in a scheduler.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np

from herodotus_record import reasons
from herodotus_record.model import Code, Reason
from scheduler.engine.columns import MissingInputError, NodeObjectColumns
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Filter, NormalizeScore, PreFilter, PreScore, Score
from scheduler.engine.framework.per_node import adapt_filter, adapt_input_reporter, adapt_score
from scheduler.engine.framework.plugin import BasePlugin, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import ERRORS, PASS, Verdicts, unresolvable
from scheduler.engine.objects.pod import PodInfo

_log: Final = logging.getLogger(__name__)

MAX_POINTS: Final = 10

T = TypeVar("T")


class UnsupportedPluginError(Exception):
    """A plugin cannot run in the extender service; the message gives the reason."""


@dataclass(frozen=True)
class Explained(Generic[T]):
    """A plugin's result for the nodes of a request, and the measurements from which it was computed."""

    answer: T
    inputs: Sequence[NodeInputs] = ()


class _NoHandle:
    """The handle of a hosted plugin. It gives access to nothing, because there is no scheduler."""

    def __getattr__(self, name: str) -> Any:
        raise MissingInputError(f"an extender has no Handle.{name}")


def check_inputs(plugin: type[BasePlugin]) -> None:
    """Raise UnsupportedPluginError if the plugin reads what an extender's request does not contain."""
    missing = [each.value for each in PluginInput if each in plugin.reads - {PluginInput.NODE}]
    if missing:
        raise UnsupportedPluginError(
            f"plugin {plugin.name} reads {', '.join(missing)}, which an extender's request does not contain"
        )


class HostedPlugin:
    """A plugin behind a verb. `is_filter` and `is_score` say which extension points it extends."""

    def __init__(self, plugin: type[BasePlugin], args: Any) -> None:
        """Create the plugin. Raises UnsupportedPluginError if it cannot run here."""
        check_inputs(plugin)
        self._plugin = plugin(args, _NoHandle())
        self.is_filter, self.is_score = isinstance(self._plugin, Filter), isinstance(self._plugin, Score)
        if not (self.is_filter or self.is_score):
            raise UnsupportedPluginError(f"plugin {plugin.name} neither filters nor scores")
        self._lock = threading.Lock()

    def filter(self, pod: PodInfo, nodes: NodeObjectColumns, *, explain: bool = False) -> Explained[Verdicts]:
        """Return the plugin's verdict on each node, with its measurements if `explain` is true.

        Raises RuntimeError if a verdict is an error.
        """
        state, adapted = CycleState(), adapt_filter(self._plugin)
        with self._lock:
            verdicts = self._run_filter(adapted, state, pod, nodes) if nodes.slots else PASS
            failed = np.flatnonzero(np.isin(verdicts.codes(nodes.slots), ERRORS))
            if failed.size:
                raise RuntimeError("; ".join(map(reasons.format_reason, verdicts.verdict_at(int(failed[0])).reasons)))
            inputs = self._inputs(adapted, state, pod, nodes) if explain and nodes.slots else ()
            return Explained(verdicts, inputs)

    def prioritize(self, pod: PodInfo, nodes: NodeObjectColumns, *, explain: bool = False) -> Explained[list[int]]:
        """Return 0 to MAX_POINTS points for each node: a tenth of the plugin's normalized score, rounded half up.

        With `explain` the result has the plugin's measurements too. Raises RuntimeError for a score outside 0 to
        MAX_NODE_SCORE.
        """
        if not nodes.slots:
            return Explained([])
        state, adapted = CycleState(), adapt_score(self._plugin)
        with self._lock:
            if isinstance(self._plugin, PreScore):
                verdict = self._plugin.pre_score(state, pod, nodes, nodes.live)
                if verdict.code is Code.SKIP:
                    return Explained([0] * nodes.slots)
            scores = adapted.score(state, pod, nodes, nodes.live)
            if isinstance(adapted, NormalizeScore):
                scores = adapted.normalize(state, pod, scores, nodes.live)
            if scores.min() < 0 or scores.max() > MAX_NODE_SCORE:
                raise RuntimeError(f"plugin {self._plugin.name} returned a score outside 0 to {MAX_NODE_SCORE}")
            points: list[int] = ((scores * MAX_POINTS + MAX_NODE_SCORE // 2) // MAX_NODE_SCORE).tolist()
            if _log.isEnabledFor(logging.DEBUG):
                for name, given in zip(nodes.names, points, strict=True):
                    _log.debug("pod=%s node=%s points=%d", pod.full_name, name, given)
            return Explained(points, self._inputs(adapted, state, pod, nodes) if explain else ())

    def _run_filter(self, adapted: Filter, state: CycleState, pod: PodInfo, nodes: NodeObjectColumns) -> Verdicts:
        """Run PreFilter and Filter of the plugin and return the verdict on each node.

        If PreFilter skips, every node passes. If it rejects the pod, its verdict is that on every node. If it names the
        only possible nodes, all others are rejected.
        """
        result = self._plugin.pre_filter(state, pod, nodes) if isinstance(self._plugin, PreFilter) else None
        if result is None:
            return adapted.filter(state, pod, nodes)
        if result.verdict.code is Code.SKIP:
            return PASS
        if result.verdict.code is not Code.SUCCESS:
            return Verdicts.everywhere(result.verdict, nodes.slots)
        verdicts = adapted.filter(state, pod, nodes)
        if result.node_names is None:
            return verdicts
        excluded = unresolvable(Reason("narrowed", {"plugins": f"[{self._plugin.name}]"}))
        outside = [slot for slot, name in enumerate(nodes.names) if name not in result.node_names]
        return verdicts.with_verdicts(dict.fromkeys(outside, excluded), nodes.slots)

    def _inputs(self, adapted: Any, state: CycleState, pod: PodInfo, nodes: NodeObjectColumns) -> list[NodeInputs]:
        """Return the measurements that the plugin reports. An error is only logged and does not affect the answer."""
        reporter = adapt_input_reporter(adapted)
        try:
            return [] if reporter is None else list(reporter.inputs(state, pod, nodes))
        except Exception:
            _log.exception("plugin %s cannot report its inputs", self._plugin.name)
            return []
