"""The agent `foo`: a template for new agents. It accepts every node and gives each node one point."""

from __future__ import annotations

from typing import Final

import numpy as np

from herodotus_agents.agent import Agent
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import BasePlugin, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, Verdicts
from scheduler.engine.objects.pod import PodInfo


class Foo(BasePlugin):
    """A plugin that accepts every node and gives each the score 10, which is one point."""

    name = "Foo"
    reads = frozenset({PluginInput.NODE})

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        return PASS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        return np.full(nodes.slots, 10)


AGENT: Final = Agent({"foo": Foo})
