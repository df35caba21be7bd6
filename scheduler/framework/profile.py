"""A profile: which plugins run at each extension point, in which order, with which weights.

Invariant: plugins are constructed once a profile; one that extends several points is the same object at each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.framework import interface
from scheduler.framework.hints import QueueingHints
from scheduler.objects.lazy import lazy


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

    @lazy
    def annotations(self) -> frozenset[str]:
        """Keys of the node annotations that some plugin reads."""
        points = (self.pre_filter, self.filter, self.pre_score, self.score)
        return frozenset(key for point in points for plugin in point for key in getattr(plugin, "annotations", ()))

    @lazy
    def hints(self) -> QueueingHints:
        """What may change the minds of the plugins that can reject a pod."""
        rejecting = (*self.pre_enqueue, *self.pre_filter, *self.filter, *self.reserve, *self.permit)
        return QueueingHints({plugin.name: plugin for plugin in rejecting}.values())
