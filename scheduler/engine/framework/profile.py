"""A profile: which plugins run at each extension point, in which order, with which weights.

Invariant: a profile has one instance of each plugin, which is the same object at all its extension points.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from scheduler.engine.framework import interface
from scheduler.engine.framework.queueing_hints import QueueingHints
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.rules import DEFAULT_RULES, Rules


@dataclass(frozen=True)
class Profile:
    """The plugins, weights and settings of one scheduler name (spec.schedulerName of its pods)."""

    scheduler_name: str
    weights: dict[str, int] = field(default_factory=dict)  # by name of the score plugin
    percentage_of_nodes_to_score: int = 0  # 0: every node
    rules: Rules = DEFAULT_RULES  # those of the process, equal in all of its profiles
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
    placement_generate: tuple[interface.PlacementGenerate, ...] = ()
    placement_score: tuple[interface.PlacementScore, ...] = ()
    placement_weights: dict[str, int] = field(default_factory=dict)  # by name of the placement score plugin

    @lazy
    def annotations(self) -> frozenset[str]:
        """The keys of the node annotations that any plugin of the profile reads."""
        points = (getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), tuple))
        return frozenset(key for point in points for plugin in point for key in getattr(plugin, "annotations", ()))

    @lazy
    def hints(self) -> QueueingHints:
        """The queueing hints of those plugins of the profile that can reject a pod."""
        rejecting = (*self.pre_enqueue, *self.pre_filter, *self.filter, *self.reserve, *self.permit)
        return QueueingHints({plugin.name: plugin for plugin in rejecting}.values())
