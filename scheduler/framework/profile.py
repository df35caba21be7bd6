"""A profile: which plugins run at each extension point, in which order, with which weights.

Invariant: plugins are constructed once a profile; one that extends several points is the same object at each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.framework import interface
from scheduler.framework.events import EVERY_EVENT, Event


@dataclass(frozen=True)
class Profile:
    """What a scheduler name stands for."""

    scheduler_name: str
    weights: dict[str, int] = field(default_factory=dict)  # of the score plugins, by name
    percentage_of_nodes_to_score: int = 0  # 0: every node
    pre_enqueue: tuple[interface.PreEnqueue, ...] = ()
    queue_sort: tuple[interface.QueueSort, ...] = ()
    pre_filter: tuple[interface.PreFilter, ...] = ()
    filter: tuple[interface.Filter, ...] = ()
    post_filter: tuple[interface.PostFilter, ...] = ()
    pre_score: tuple[interface.PreScore, ...] = ()
    score: tuple[interface.Score, ...] = ()
    reserve: tuple[interface.Reserve, ...] = ()
    permit: tuple[interface.Permit, ...] = ()
    pre_bind: tuple[interface.PreBind, ...] = ()
    bind: tuple[interface.Bind, ...] = ()
    post_bind: tuple[interface.PostBind, ...] = ()
    marks: tuple[str, ...] = ()  # what this profile's plugins do not do: into every record

    def wakes_on(self, plugins: frozenset[str]) -> frozenset[Event]:
        """The events that may change the mind of any of these plugins; every event where one declares none."""
        declared = {p.name: getattr(p, "wakes_on", EVERY_EVENT) for p in (*self.pre_filter, *self.filter)}
        return frozenset().union(*(declared.get(name, EVERY_EVENT) for name in plugins))
