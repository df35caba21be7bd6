"""The agents, one file each. A file is imported only when its agent is selected, so a broken one affects no other."""

from __future__ import annotations

from typing import Final

# The import path of each agent's factory, by agent name.
AGENTS: Final[dict[str, str]] = {
    "safe": "herodotus_agents.agents.safe:FACTORY",
    "congestion": "herodotus_agents.agents.congestion:FACTORY",
    "pigeon": "herodotus_agents.agents.pigeon:FACTORY",
    "reward": "herodotus_agents.agents.reward:FACTORY",
    "foo": "herodotus_agents.agents.foo:FACTORY",
}
