"""A profile's queueing hints: which of its plugins ask about an event, and whether it may help a pod they rejected.

Owns: the declarations put together, what a hint that raises counts as. Does not own: which pods wait, and what becomes
of those that an event may help (`queue`).

Source: pkg/scheduler/scheduler.go (buildQueueingHintMap) and backend/queue/scheduling_queue.go (isPodWorthRequeuing).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler import klog
from scheduler.framework.events import EVERYTHING, QUEUE, Action, ClusterEventWithHint, Event, Hint, Resource, always
from scheduler.framework.interface import EnqueueExtensions, Plugin
from scheduler.objects.pod import PodInfo

_ANY_TAINT = ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_TAINT)


class QueueingHints:
    """Whoever is not among the plugins (an extender), or declares nothing, asks about everything."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        """`plugins`: those of the profile that may reject a pod."""
        self._hints = {p.name: _by_event(_declared(p)) for p in plugins}

    def asks(self, plugin: str, event: Event) -> bool:
        """Whether a pod that the plugin rejected, or holds back, may profit from such an event."""
        return bool(self._of(plugin, event))

    def may_help(self, plugin: str, event: Event, pod: PodInfo, old: Any, new: Any) -> bool:
        """What the plugin's hints say of the event. One that raises says yes: no pod may be stuck for that."""
        return any(_asked(hint, plugin, event, pod, old, new) for hint in self._of(plugin, event))

    def _of(self, plugin: str, event: Event) -> tuple[Hint, ...]:
        if plugin in self._hints:
            return self._hints[plugin].get(event, ())
        return () if event.wildcard else (always,)


def _declared(plugin: Plugin) -> tuple[ClusterEventWithHint, ...]:
    """What the plugin registers. Whoever waits for new nodes hears of taints too, as upstream arranges it."""
    if not isinstance(plugin, EnqueueExtensions):
        return EVERYTHING
    declared = tuple(plugin.events_to_register())
    of_nodes = [d.actions for d in declared if d.resource is Resource.NODE]
    waits_for_nodes = any(Action.ADD in actions for actions in of_nodes)
    hears_of_taints = any(Action.UPDATE_NODE_TAINT in actions for actions in of_nodes)
    return (*declared, _ANY_TAINT) if waits_for_nodes and not hears_of_taints else declared


def _by_event(declared: tuple[ClusterEventWithHint, ...]) -> dict[Event, tuple[Hint, ...]]:
    hints = {event: tuple(d.hint for d in declared if d.matches(event)) for event in Event}
    return {event: found for event, found in hints.items() if found}


def _asked(hint: Hint, plugin: str, event: Event, pod: PodInfo, old: Any, new: Any) -> bool:
    try:
        return hint(pod, old, new)
    except Exception as e:
        klog.error(e, "QueueingHintFn returns error", event=event.label, plugin=plugin, pod=pod.full_name)
        return QUEUE
