"""Loads the selected agents, each independently, so that one that fails affects no other.

Owns: selection, loading, the reason for each failure, the mapping of verbs to functions. Does not own: the list of
built-in agents (`agents.AGENTS`), HTTP (`app`).
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final

from herodotus_agents import settings
from herodotus_agents.agent import Agent, AgentFactory, Bind, Predicate, Priority
from herodotus_agents.agents import AGENTS

_log: Final = logging.getLogger(__name__)

GROUP: Final = "herodotus.agents"  # the entry point group of installed agents


@dataclass(frozen=True)
class LoadedAgents:
    """The loaded agents by name; `failed` maps the name of each agent that could not be loaded to the reason."""

    agents: Mapping[str, Agent] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def predicates(self) -> Mapping[str, Predicate]:
        """The filter functions of all loaded agents, by verb (the last part of the URL path)."""
        return {verb: function for agent in self.agents.values() for verb, function in agent.predicates.items()}

    @property
    def priorities(self) -> Mapping[str, Priority]:
        """The score functions of all loaded agents, by verb (the last part of the URL path)."""
        return {verb: function for agent in self.agents.values() for verb, function in agent.priorities.items()}

    @property
    def bind(self) -> Bind | None:
        """The bind function of the first agent that binds pods, or None if no agent does."""
        return next((agent.bind for agent in self.agents.values() if agent.bind is not None), None)


def load_agents(
    names: Sequence[str],
    sections: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
    clock: Callable[[], float] = time.time,
    known: Mapping[str, str] | None = None,
) -> LoadedAgents:
    """Load the named agents, or every known agent if `names` contains `all`. A failure is logged and affects no other.

    `sections` maps an agent's name to its section of the configuration file. `known` maps agent names to the import
    paths of their factories; by default these are the built-in and the installed agents.
    """
    known = known_agents() if known is None else known
    agents: dict[str, Agent] = {}
    failed: dict[str, str] = {}
    for name in known if settings.ALL in names else dict.fromkeys(names):
        try:
            factory = _import_factory(known, name)
            agents[name] = factory.create(
                settings.load_agent_settings(name, factory, sections.get(name, {}), environment), clock
            )
        except Exception as e:  # Code of other authors may raise anything when imported or called.
            failed[name] = f"{type(e).__name__}: {e}"
            _log.error("agent %s could not be loaded: %s", name, failed[name])
    for name in sections.keys() - known.keys():
        _log.warning("settings.%s: there is no agent of that name", name)
    return LoadedAgents(agents, failed)


def known_agents() -> dict[str, str]:
    """Return the import path (MODULE:ATTRIBUTE) of each agent's factory, by the agent's name.

    These are the built-in agents and those of installed packages. An installed agent cannot replace a built-in one.
    """
    return {point.name: point.value for point in entry_points(group=GROUP)} | AGENTS


def _import_factory(known: Mapping[str, str], name: str) -> AgentFactory:
    if name not in known:
        raise LookupError(f"there is no agent of that name; known are {', '.join(known)}")
    module, _, attribute = known[name].partition(":")
    factory = getattr(importlib.import_module(module), attribute)
    if not isinstance(factory, AgentFactory):
        raise TypeError(f"{known[name]} is not an AgentFactory")
    return factory
