"""What an agent is: named predicates and priorities over nodes, and the settings it is made with.

Adding one takes one file in `herodotus_agents/agents/` and one line in `AGENTS` (docs/writing-an-agent.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from herodotus_agents.objects import Node, Pod
from scheduler.formulas.inputs import Inputs

MAX_POINTS: Final = 10

T = TypeVar("T")


@dataclass(frozen=True)
class Explained(Generic[T]):
    """What an agent says, and by which numbers: an entry for each node of the request, in its order."""

    answer: T
    inputs: Sequence[Inputs] = ()


# Names of nodes that are turned away, and why. Nodes that are not named are accepted.
Rejected = Mapping[str, str]
Predicate = Callable[[Pod, Sequence[Node]], Rejected | Explained[Rejected]]
# Points of each node, 0 to MAX_POINTS, in the order of the nodes.
Points = Sequence[int]
Priority = Callable[[Pod, Sequence[Node]], Points | Explained[Points]]
# Binds a pod (namespace, name, uid) to a node. Raises BindError.
Bind = Callable[[str, str, str, str], None]


class BindError(Exception):
    """The pod was not bound, and why."""


class AgentError(Exception):
    """An agent cannot be had with these settings, and why."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of an agent's settings: camelCase in files, unknown keys are errors.

    `variables`: which environment variable sets which field, by the names that the original agents gave them.
    """

    variables: ClassVar[Mapping[str, str]] = {}


class NoSettings(Settings, frozen=True):
    """An agent without settings."""


@dataclass(frozen=True)
class Agent:
    """Predicates and priorities by the last part of their path; `bind` where the agent binds pods itself."""

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    priorities: Mapping[str, Priority] = field(default_factory=dict)
    bind: Bind | None = None


@dataclass(frozen=True)
class Kind:
    """How an agent is made: its settings' type, and what makes it of them (and of a clock, seconds since 1970).

    `own_file`: a file of `key = value` lines in the working directory that the original agent read, if it is there.
    """

    settings: type[Settings]
    make: Callable[..., Agent]
    own_file: str = ""

    def agent(self, settings: Settings, clock: Callable[[], float] = time.time) -> Agent:
        """One agent. AgentError when the settings do not go together."""
        return self.make(settings, clock)
