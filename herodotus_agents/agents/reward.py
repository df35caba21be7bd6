"""The agent `reward`: prefers nodes on which pods of the same type succeeded, by rewards in the nodes' annotations.

An annotator writes the rewards. Source: IBM's kubeRL.
"""

from __future__ import annotations

from typing import Final

from herodotus_agents.agent import Agent
from scheduler.engine.plugins.reward import Reward

AGENT: Final = Agent({"rl-priority": Reward})
