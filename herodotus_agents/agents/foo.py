"""foo: the template. Accepts every node and gives each the same point."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from herodotus_agents.agent import Agent, Kind, NoSettings, Rejected
from herodotus_agents.objects import Node, Pod

_log: Final = logging.getLogger(__name__)


def predicate(pod: Pod, nodes: Sequence[Node]) -> Rejected:
    """Nothing is turned away."""
    _log.info("==> FooPredicate pod=%s nodes=%d", pod.name, len(nodes))
    return {}


def priority(pod: Pod, nodes: Sequence[Node]) -> Sequence[int]:
    """One point each."""
    _log.info("==> FooPriority pod=%s nodes=%d", pod.name, len(nodes))
    return [1] * len(nodes)


def _make(settings: NoSettings, clock: Callable[[], float]) -> Agent:
    return Agent(predicates={"foo": predicate}, priorities={"foo": priority})


KIND: Final = Kind(NoSettings, _make)
