"""What an agent is: plugins of the scheduling framework, each behind a verb, and the settings that they share.

A new agent takes one file in `herodotus_agents/agents/` and one line in `AGENTS` (docs/writing-an-agent.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from scheduler.engine.framework.plugin import BasePlugin

# Binds a pod (namespace, name, uid) to a node. Raises BindError.
Bind = Callable[[str, str, str, str], None]


class BindError(Exception):
    """The pod was not bound; the message gives the reason."""


class AgentError(Exception):
    """An agent cannot be created with these settings; the message gives the reason."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base class of an agent's settings. Keys in configuration files are camelCase; unknown keys are errors.

    `variables` maps the name of an environment variable to the name of the field that it sets.
    """

    variables: ClassVar[Mapping[str, str]] = {}


class NoSettings(AgentSettings, frozen=True):
    """The settings class of an agent that has no settings."""


@dataclass(frozen=True)
class Agent:
    """Filter and score plugins that the extender service offers to schedulers.

    `plugins` maps a verb, the last part of the URL path, to a plugin class. It gets the agent's settings as its
    arguments. `legacy_file` names an optional file in the working directory with settings as lines of `key = value`.
    `bind` is None unless the agent binds pods itself.
    """

    plugins: Mapping[str, type[BasePlugin]] = field(default_factory=dict)
    settings: type[AgentSettings] = NoSettings
    legacy_file: str = ""
    bind: Bind | None = None
