"""Plugins that only fail: they run in place of plugins that are disabled at an earlier point on which they depend.

kube-scheduler's plugins hand state from PreFilter to Filter and Reserve, and from PreScore to Score. A configuration
may disable the earlier point alone; most plugins then fail at the later one (`BasePlugin.fails_without`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, error
from scheduler.engine.objects.pod import PodInfo


class FailingPlugin:
    """A plugin that fails at Filter, Score and Reserve with a fixed message, in place of a plugin of the same name."""

    depends_on = DependsOn.NODE  # the error is the same on every node

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self._message = message

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return Verdicts.everywhere(error(self._message), nodes.slots)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        raise RuntimeError(self._message)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        return error(self._message)

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Do nothing, because `reserve` reserves nothing."""


def replace_failing(point: str, plugin: Any, enabled: Mapping[str, Container[str]]) -> Any:
    """Return the plugin, or a `FailingPlugin` if it needs an earlier extension point at which the profile disables it.

    `point` names the extension point at which the result runs. `enabled` maps each earlier extension point to the names
    of the plugins that the profile enables there.
    """
    earlier, message = getattr(plugin, "fails_without", {}).get(point, ("", ""))
    return FailingPlugin(plugin.name, message) if earlier and plugin.name not in enabled[earlier] else plugin
