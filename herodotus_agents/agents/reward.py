"""The agent `reward` (kubeRL): prefers nodes on which pods of the same type succeeded, as the monitor learned."""

from __future__ import annotations

from typing import Final

from herodotus_agents.agent import Agent
from scheduler.engine.plugins.reward import Reward

AGENT: Final = Agent({"rl-priority": Reward})
