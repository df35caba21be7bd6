"""Loads the selected agents, each independently, so that one that fails affects no other.

Owns: selection, loading, the reason for each failure, the mapping of verbs to plugins. Does not own: the list of
built-in agents (`agents.AGENTS`), running plugins (`hosting`), HTTP (`app`).

    agent                 built in (`AGENTS`), or an entry point of the group `herodotus.agents`
    plugin, as its verb   in-tree, an entry point of the group `herodotus.plugins`, or module:Class
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from herodotus_agents import settings
from herodotus_agents.agent import Agent, Bind
from herodotus_agents.agents import AGENTS
from herodotus_agents.hosting import HostedPlugin, check_inputs
from herodotus_record.typed_decoding import convert
from scheduler.engine.plugins.registry import Registry

_log: Final = logging.getLogger(__name__)

GROUP: Final = "herodotus.agents"  # the entry point group of installed agents


@dataclass(frozen=True)
class LoadedAgent:
    """An agent's plugins by verb, and its bind function."""

    plugins: Mapping[str, HostedPlugin] = field(default_factory=dict)
    bind: Bind | None = None


@dataclass(frozen=True)
class LoadedAgents:
    """The loaded agents by name; `failed` maps the name of each agent that could not be loaded to the reason."""

    agents: Mapping[str, LoadedAgent] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def predicates(self) -> Mapping[str, HostedPlugin]:
        """The filter plugins of all loaded agents, by verb (the last part of the URL path)."""
        return {verb: plugin for verb, plugin in self._plugins() if plugin.is_filter}

    @property
    def priorities(self) -> Mapping[str, HostedPlugin]:
        """The score plugins of all loaded agents, by verb (the last part of the URL path)."""
        return {verb: plugin for verb, plugin in self._plugins() if plugin.is_score}

    @property
    def bind(self) -> Bind | None:
        """The bind function of the first agent that binds pods, or None if no agent does."""
        return next((agent.bind for agent in self.agents.values() if agent.bind is not None), None)

    def _plugins(self) -> list[tuple[str, HostedPlugin]]:
        return [each for agent in self.agents.values() for each in agent.plugins.items()]


def load_agents(
    names: Sequence[str],
    sections: Mapping[str, Mapping[str, Any]],
    environment: Mapping[str, str],
    known: Mapping[str, str] | None = None,
) -> LoadedAgents:
    """Load the named agents, or every known agent if `names` contains `all`. A failure is logged and affects no other.

    A name may also be that of a plugin of the framework. `sections` maps a name to its section of the configuration
    file. `known` maps agent names to import paths; by default these are the built-in and the installed agents.
    """
    known = known_agents() if known is None else known
    agents: dict[str, LoadedAgent] = {}
    failed: dict[str, str] = {}
    selected = list(known if settings.ALL in names else dict.fromkeys(names))
    for name in selected:
        try:
            section = sections.get(name, {})
            agents[name] = _load(known[name], name, section, environment) if name in known else _host(name, section)
        except Exception as e:  # Code of other authors may raise anything when imported or called.
            failed[name] = f"{type(e).__name__}: {e}"
            _log.error("agent %s could not be loaded: %s", name, failed[name])
    for name in sections.keys() - known.keys() - set(selected):
        _log.warning("settings.%s: there is no agent of that name", name)
    return LoadedAgents(agents, failed)


def known_agents() -> dict[str, str]:
    """Return the import path (MODULE:ATTRIBUTE) of each agent, by the agent's name.

    These are the built-in agents and those of installed packages. An installed agent cannot replace a built-in one.
    """
    return {point.name: point.value for point in entry_points(group=GROUP)} | AGENTS


def _load(path: str, name: str, section: Mapping[str, Any], environment: Mapping[str, str]) -> LoadedAgent:
    """Import the agent at `path` and create its plugins. Raises TypeError if the attribute is no Agent."""
    module, _, attribute = path.partition(":")
    agent = getattr(importlib.import_module(module), attribute)
    if not isinstance(agent, Agent):
        raise TypeError(f"{path} is not an Agent")
    args = settings.load_agent_settings(name, agent, section, environment)
    return LoadedAgent({verb: HostedPlugin(plugin, args) for verb, plugin in agent.plugins.items()}, agent.bind)


def _host(name: str, section: Mapping[str, Any]) -> LoadedAgent:
    """Create the framework's plugin called `name`, with the section of the configuration file as its arguments.

    Raises LookupError if there is no such plugin, UnsupportedPluginError if it cannot run here, and SettingsError if
    the arguments are invalid.
    """
    registry = Registry()
    if name not in registry:
        raise LookupError(f"there is no agent or plugin of that name; agents are {', '.join(known_agents())}")
    plugin = registry[name]
    check_inputs(plugin)
    try:
        args = convert(section, plugin.args_type)
    except msgspec.ValidationError as e:
        raise settings.SettingsError(f"settings.{name}: {e}") from e
    problems = "; ".join(f"settings.{name}.{problem}" for problem in args.problems())
    if problems:
        raise settings.SettingsError(problems)
    return LoadedAgent({plugin.name: HostedPlugin(plugin, args)})
