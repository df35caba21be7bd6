"""The interface of an agent: named predicates and priorities over nodes, and the settings that create it.

A new agent takes one file in `herodotus_agents/agents/` and one line in `AGENTS` (docs/writing-an-agent.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from herodotus_agents.objects import NodeView, PodView
from scheduler.engine.formulas.inputs import NodeInputs

MAX_POINTS: Final = 10

T = TypeVar("T")


@dataclass(frozen=True)
class ExplainedResult(Generic[T]):
    """The result of a predicate or priority, with the measurements of nodes from which it was computed.

    `answer` is the result. `inputs` has one element per source of measurements; the arrays in it have one entry per
    node, in the order of the request.
    """

    answer: T
    inputs: Sequence[NodeInputs] = ()


# The reason for each rejected node, by name. Nodes that are absent are accepted.
Rejected = Mapping[str, str]
Predicate = Callable[[PodView, Sequence[NodeView]], Rejected | ExplainedResult[Rejected]]
# One score per node, 0 to MAX_POINTS, in the order of the nodes.
Points = Sequence[int]
Priority = Callable[[PodView, Sequence[NodeView]], Points | ExplainedResult[Points]]
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
    """A filtering or scoring algorithm that the extender service offers to schedulers.

    `predicates` and `priorities` map a verb, the last part of the URL path, to the function that filters or scores
    nodes. `bind` is None unless the agent binds pods itself.
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    priorities: Mapping[str, Priority] = field(default_factory=dict)
    bind: Bind | None = None


@dataclass(frozen=True)
class AgentFactory:
    """The type of an agent's settings, and the function `make` that creates the agent from them.

    `make` takes the settings and a clock that returns seconds since 1970. `legacy_file` names an optional file in the
    working directory with settings as lines of `key = value`.
    """

    settings: type[AgentSettings]
    make: Callable[..., Agent]
    legacy_file: str = ""

    def create(self, settings: AgentSettings, clock: Callable[[], float] = time.time) -> Agent:
        """Return a new agent. Raises AgentError if the settings contradict each other."""
        return self.make(settings, clock)
