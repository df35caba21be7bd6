"""The agents, one file each. A file is imported when its agent is selected, so that a broken one harms no other."""

from __future__ import annotations

from typing import Final

# name -> where its `Kind` is
AGENTS: Final[dict[str, str]] = {
    "safe": "herodotus_agents.agents.safe:KIND",
    "congestion": "herodotus_agents.agents.congestion:KIND",
    "pigeon": "herodotus_agents.agents.pigeon:KIND",
    "reward": "herodotus_agents.agents.reward:KIND",
    "foo": "herodotus_agents.agents.foo:KIND",
}
