"""The agents, one file each. A file is imported only when its agent is selected, so a broken one affects no other."""

from __future__ import annotations

from typing import Final

# The import path of each agent, by agent name.
AGENTS: Final[dict[str, str]] = {
    "safe": "herodotus_agents.agents.safe:AGENT",
    "congestion": "herodotus_agents.agents.congestion:AGENT",
    "pigeon": "herodotus_agents.agents.pigeon:AGENT",
    "reward": "herodotus_agents.agents.reward:AGENT",
    "foo": "herodotus_agents.agents.foo:AGENT",
}
