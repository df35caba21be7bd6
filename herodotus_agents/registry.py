"""The selected agents, loaded: each on its own, so that one that fails takes no other down.

Owns: selection, loading, what is said of an agent that failed, the way from a verb to its function. Does not own: the
list (`agents.AGENTS`), HTTP (`app`).
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from herodotus_agents import settings
from herodotus_agents.agent import Agent, Bind, Kind, Predicate, Priority
from herodotus_agents.agents import AGENTS

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """What answers. `failed`: why an agent does not, by its name."""

    agents: Mapping[str, Agent] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def predicates(self) -> Mapping[str, Predicate]:
        """By verb."""
        return {verb: do for agent in self.agents.values() for verb, do in agent.predicates.items()}

    @property
    def priorities(self) -> Mapping[str, Priority]:
        """By verb."""
        return {verb: do for agent in self.agents.values() for verb, do in agent.priorities.items()}

    @property
    def bind(self) -> Bind | None:
        """The first agent that binds."""
        return next((agent.bind for agent in self.agents.values() if agent.bind is not None), None)


def load(
    names: Sequence[str],
    sections: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
    clock: Callable[[], float] = time.time,
    known: Mapping[str, str] = AGENTS,
) -> Loaded:
    """The agents of these names (`all`: every one), each with its section of the configuration file."""
    agents, failed = {}, {}
    for name in known if settings.ALL in names else dict.fromkeys(names):
        try:
            kind = _kind(known, name)
            agents[name] = kind.agent(settings.of_agent(name, kind, sections.get(name, {}), environment), clock)
        except Exception as e:  # whatever a file that somebody added does when it is imported or made
            failed[name] = f"{type(e).__name__}: {e}"
            _log.error("agent %s is not there: %s", name, failed[name])
    for name in sections.keys() - known.keys():
        _log.warning("settings.%s: there is no agent of that name", name)
    return Loaded(agents, failed)


def _kind(known: Mapping[str, str], name: str) -> Kind:
    if name not in known:
        raise LookupError(f"there is no agent of that name; known are {', '.join(known)}")
    module, _, attribute = known[name].partition(":")
    kind = getattr(importlib.import_module(module), attribute)
    if not isinstance(kind, Kind):
        raise TypeError(f"{known[name]} is no Kind")
    return kind
