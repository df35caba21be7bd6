"""What runs in place of plugins that a profile disables at an earlier point on which a later one depends.

kube-scheduler's plugins hand state from PreFilter to the points after it, and from PreScore to Score. A configuration
may disable the earlier point alone. Most plugins then fail at the later one (`BasePlugin.fails_without`); some compute
the state there (`BasePlugin.computes_pre_score`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from herodotus_record.model import SUCCESS, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, error
from scheduler.engine.objects.pod import PodInfo


class FailingPlugin:
    """A plugin that fails with a fixed message from Filter to PreBind, in place of a plugin of the same name."""

    depends_on = DependsOn.NODE  # the error is the same on every node

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self._message = message

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.everywhere(error(self._message), nodes.slots)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        return error(self._message)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        raise RuntimeError(self._message)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        return error(self._message)

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Do nothing, because `reserve` reserves nothing."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        return error(self._message)

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        return error(self._message)


class StateForScore:
    """A PreScore plugin that computes the state of a score plugin whose own PreScore the profile disables.

    It always returns Success, because kube-scheduler's Score neither skips nor fails for such a plugin.
    """

    def __init__(self, plugin: Any) -> None:
        self.name = plugin.name
        self._plugin = plugin

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return bool(self._plugin.depends_only_on_spec(pod))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        self._plugin.pre_score(state, pod, nodes, feasible)
        return SUCCESS


def replace_failing(point: str, plugin: Any, enabled: Mapping[str, Container[str]]) -> Any:
    """Return the plugin, or a `FailingPlugin` if it needs an earlier extension point at which the profile disables it.

    `point` names the extension point at which the result runs. `enabled` maps each earlier extension point to the names
    of the plugins that the profile enables there.
    """
    earlier, message, *rules = getattr(plugin, "fails_without", {}).get(point, ("", ""))
    if not all(plugin.rules.enabled(rule) for rule in rules):
        return plugin
    return FailingPlugin(plugin.name, message) if earlier and plugin.name not in enabled[earlier] else plugin


def compute_state_for_score(scorers: Iterable[Any], pre_scores: Container[str]) -> Iterator[StateForScore]:
    """Yield a `StateForScore` for each of `scorers` that has `computes_pre_score` and is not among `pre_scores`.

    `pre_scores` holds the names of the plugins that the profile enables at PreScore.
    """
    for plugin in scorers:
        if getattr(plugin, "computes_pre_score", False) and plugin.name not in pre_scores:
            yield StateForScore(plugin)
