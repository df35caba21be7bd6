"""The agent `foo`: a template for new agents. It accepts every node and gives each node one point."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from herodotus_agents.agent import Agent, AgentFactory, NoSettings, Rejected
from herodotus_agents.objects import NodeView, PodView

_log: Final = logging.getLogger(__name__)


def predicate(pod: PodView, nodes: Sequence[NodeView]) -> Rejected:
    """Return no rejected nodes: this template for new agents accepts every node."""
    _log.info("==> FooPredicate pod=%s nodes=%d", pod.name, len(nodes))
    return {}


def priority(pod: PodView, nodes: Sequence[NodeView]) -> Sequence[int]:
    """Return the score 1 for every node."""
    _log.info("==> FooPriority pod=%s nodes=%d", pod.name, len(nodes))
    return [1] * len(nodes)


def _make(settings: NoSettings, clock: Callable[[], float]) -> Agent:
    return Agent(predicates={"foo": predicate}, priorities={"foo": priority})


FACTORY: Final = AgentFactory(NoSettings, _make)
